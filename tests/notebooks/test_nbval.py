"""The test run itself: what must make a lesson fail does, in a folder with the real conftest.py and configuration."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).parents[2]


def cell(source, shown=None, count=1, **metadata):
    outputs = [] if shown is None else [new_output("stream", name="stdout", text=shown)]
    return new_code_cell(source, outputs=outputs, execution_count=count, metadata=metadata)


LESSONS = {
    "00_cells.ipynb": [
        (cell("print(6 * 7)", "42\n"), "PASSED"),
        (cell("print(6 * 7)", "43\n"), "FAILED"),
        (cell("print(6 * 7)"), "FAILED"),
        (cell("print(6 * 7)", count=None), "FAILED"),
        (cell("import os; print(os.getpid())", "1\n", tags=["nbval-ignore-output"]), "PASSED"),
        (cell("assert False", tags=["nbval-ignore-output"]), "FAILED"),
        (cell("print(object())", "<object object at 0x7f0011223344>\n"), "PASSED"),
        (cell("import sys; print('oops', file=sys.stderr)"), "FAILED"),
    ],
    "01_dead.ipynb": [
        (cell("import os; os._exit(1)"), "FAILED"),
        (cell("print(1)", "1\n"), "FAILED"),
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Outcome by test id of one run over LESSONS, with all it printed and its closing line."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("notebooks/.ipynb_checkpoints", "my_course", "tests", "tools"):
        (folder / name).mkdir(parents=True)
    for name in ("tests/sanitize.cfg", "tools/browser.py"):
        shutil.copy(ROOT / name, folder / name)
    for name, cells in LESSONS.items():
        nbformat.write(new_notebook(cells=[cell for cell, _ in cells]), folder / "notebooks" / name)
    for place in ("notebooks/.ipynb_checkpoints", "my_course"):  # neither is to be tested
        nbformat.write(new_notebook(cells=[cell("assert False")]), folder / place / "00_cells.ipynb")
    (folder / "tests" / "test_slow.py").write_text(
        "import pytest\n@pytest.mark.full\n@pytest.mark.parametrize('seed', range(3))\ndef test_slow(seed, record_property):\n"
        "    '''Every seed learns.\n\n    More words.'''\n    record_property('measured', f'seed {seed}')\n    assert seed < 2\n",
        encoding="utf-8",
    )
    lines = pytest_in(folder).splitlines()
    ends = [line.split(" - ")[0].split(" ", 1) for line in lines if re.match("(PASSED|FAILED) ", line)]
    return folder, {test: outcome for outcome, test in ends}, lines, lines[-1]


def pytest_in(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-rA", "--color=no", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", env=dict(os.environ, PYTHONUTF8="1")).stdout


def test_each_cell_has_the_outcome_it_deserves(run):
    _, outcomes, _, closing = run
    wanted = {f"notebooks/{name}::Cell {i}": want for name, cells in LESSONS.items() for i, (_, want) in enumerate(cells)}
    assert outcomes == wanted
    assert "7 failed, 3 passed, 3 deselected" in closing


def test_a_dead_kernel_is_noticed_at_once(run):
    _, _, lines, _ = run
    assert any("the kernel died in this cell" in line for line in lines)  # and nobody waited for the end of the cell's time


def test_the_full_run_adds_the_slow_proofs_and_writes_their_table(run):
    folder, *_ = run
    closing = pytest_in(folder, "--full", "tests").splitlines()[-1]
    assert "1 failed, 2 passed" in closing
    report = (folder / "docs" / "full_test.md").read_text(encoding="utf-8")
    assert re.search(r"\| Every seed learns \| seed 0; seed 1; seed 2 \| 2 of 3 \| \d+ \|", report)
    assert re.search(r"^20\d\d-\d\d-\d\d, \w+ .*Python 3\.\d+\.\d+, torch ", report, re.M)
