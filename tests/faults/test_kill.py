"""A test must be able to fail: every one-line fault in lists/ is noticed by the tests of its module.

To add a fault, add one entry (name, old, new, symptom) to a file in lists/. To add a module, add a file there with

    MODULE = "rlcourse.room.module"                what is changed
    TESTS = ["tests/room/test_module.py"]          what must notice
    FAULTS = [("name", "old text", "new text", "What somebody who trains with it would see."), ...]

The ordinary run checks that each old text still occurs exactly once and that the changed module compiles. With --full each
fault is put into a fresh test process, which must fail; the table of who noticed what is written to docs/faults.md.

Lessons are held to the same: lessons.py names some faults for each, and with --full its cells are executed with each of them in
place. A cell must raise by itself, as it would in the hands of a learner whose own code has that fault; nothing is compared with
stored outputs.
"""

import ast
import dataclasses
import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rlcourse.classroom.faults import Fault

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TABLE = ROOT / "docs" / "faults.md"

LISTS = {file.stem: runpy.run_path(str(file)) for file in sorted((HERE / "lists").glob("*.py"))}
FAULTS = [
    pytest.param(Fault(name, content["MODULE"], old, new, symptom), content["TESTS"], id=f"{stem}: {name}")
    for stem, content in LISTS.items()
    for name, old, new, symptom in content["FAULTS"]
]


LESSONS = runpy.run_path(str(HERE / "lessons.py"))["LESSONS"]
LESSON_FAULTS = [
    pytest.param(lesson, entry.values[0], id=f"{lesson[:2]}: {name}")
    for lesson, stems in LESSONS.items()
    for stem, names in stems.items()
    for name in names
    for entry in FAULTS
    if entry.id == f"{stem}: {name}"
]


def run_python(arguments, folder, fault):
    """A finished Python process that met the fault (or none, if None)."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]),
        "RLCOURSE_FAULT": json.dumps(dataclasses.asdict(fault)) if fault else "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # starts in two thirds of the time
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=900)


def run_tests(tests, fault=None):
    """Exit code of pytest on these files with the fault in place, and the first test that failed, by itself or in a fixture."""
    options = ["-x", "-q", "--no-header", "--tb=no", "-rfE", "-p", "fault_plugin", "-p", "no:cacheprovider"]
    options += ["-o", "addopts=--import-mode=importlib --strict-markers"]
    result = run_python(["-m", "pytest", *options, *tests], ROOT, fault)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - |$)", result.stdout, re.MULTILINE)
    return result, failed and failed[1]


def run_lesson(lesson, fault=None):
    """The process that executed the lesson's cells with the fault in place, and its last line: which cell raised what."""
    notebook = ROOT / "notebooks" / f"{lesson}.ipynb"
    result = run_python([str(HERE / "run_lesson.py"), str(notebook)], notebook.parent, fault)
    return result, (result.stdout.strip().splitlines() or [""])[-1]


def test_names_are_unique_and_every_fault_is_explained():
    faults = [entry.values[0] for entry in FAULTS]
    repeated = [name for name, count in Counter((fault.module, fault.name) for fault in faults).items() if count > 1]
    assert not repeated
    assert all(fault.symptom.endswith(".") for fault in faults)


@pytest.mark.parametrize(("fault", "tests"), FAULTS)
def test_the_old_line_is_there_once_and_the_new_one_compiles(fault, tests):
    healthy = (ROOT / Path(*fault.module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    changed = fault.source()
    pairs = list(zip(healthy.splitlines(), changed.splitlines(), strict=True))
    assert sum(old != new for old, new in pairs) == 1, "a fault changes one line"
    assert ast.dump(ast.parse(healthy)) != ast.dump(ast.parse(changed)), "a fault changes code, not a comment"
    assert all((ROOT / test).exists() for test in tests)


@pytest.fixture(scope="module")
def table():
    """Collects who noticed each fault; written down when all of them were run."""
    rows = {}
    yield rows
    if len(rows) == len(FAULTS):
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text("\n".join(report(rows)) + "\n", encoding="utf-8", newline="\n")


def report(rows):
    yield from ["# One-line faults and the test that notices each", ""]
    yield from ["Written by `python3 course.py test --full`. Every fault is one changed line; see tests/faults/.", ""]
    yield from ["| module | fault | what one would see | first test to fail |", "|---|---|---|---|"]
    for fault, test in rows.items():
        module = fault.module.removeprefix("rlcourse.")
        yield f"| {module} | {fault.name} | {fault.symptom} | {test.split('::')[-1].split('[')[0] if test else 'none'} |"


@pytest.mark.full
@pytest.mark.parametrize("stem", LISTS)
def test_the_healthy_module_passes(stem):
    """Without a fault the same test process passes."""
    result, failed = run_tests(LISTS[stem]["TESTS"])
    assert result.returncode == 0, failed or result.stdout + result.stderr


@pytest.mark.full
@pytest.mark.parametrize(("fault", "tests"), FAULTS)
def test_the_fault_is_noticed(fault, tests, table):
    """Every one-line fault makes a unit test fail (who noticed what: docs/faults.md)."""
    result, failed = run_tests(tests, fault)
    table[fault] = failed
    # exit code 1: tests ran and some failed. Anything else (0: all passed, 2: could not even start) is no proof.
    assert result.returncode == 1 and failed, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"


def test_the_faults_of_the_lessons_are_in_the_lists():
    assert len(LESSON_FAULTS) == sum(len(names) for stems in LESSONS.values() for names in stems.values())


@pytest.mark.full
@pytest.mark.parametrize("lesson", LESSONS)
def test_the_healthy_lesson_passes(lesson):
    """Without a fault every cell of the lesson runs in the process that is used to try faults."""
    result, last = run_lesson(lesson)
    assert result.returncode == 0, last + result.stderr


@pytest.mark.full
@pytest.mark.parametrize(("lesson", "fault"), LESSON_FAULTS)
def test_the_lesson_notices(lesson, fault, record_property):
    """A lesson stops at a check of its own when a formula that it derives is wrong."""
    result, last = run_lesson(lesson, fault)
    assert result.returncode == 1 and last.startswith("FAILED"), (
        f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    )
    record_property("measured", f"{lesson[:2]} {fault.name}: {last.removeprefix('FAILED ').split(':')[0]}")
