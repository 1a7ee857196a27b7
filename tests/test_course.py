"""course.py, tried in a folder of its own: a name with a space and an umlaut, empty requirements, two small lessons."""

import ast
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "course.py"
LESSONS = ("00_start_here.ipynb", "02_vanilla_policy_gradient.ipynb")


@pytest.fixture
def folder(tmp_path):
    """A course with two lessons and nothing to install."""
    folder = tmp_path / "Kurs Übung"
    (folder / "notebooks").mkdir(parents=True)
    shutil.copy(SOURCE, folder)
    for name in ("requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        (folder / name).write_text("# nothing\n", encoding="utf-8")
    for name in LESSONS:
        (folder / "notebooks" / name).write_text(f"original {name}", encoding="utf-8")
    return folder


@pytest.fixture
def course(folder, monkeypatch):
    """The launcher as a module. What it would run is recorded in course.ran, and nothing is installed."""
    spec = importlib.util.spec_from_file_location("course_under_test", folder / "course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ran, module.installed = [], []
    monkeypatch.setattr(module, "run", lambda *command: module.ran.append([str(part) for part in command]) or 0)
    monkeypatch.setattr(module, "setup", lambda requirements="requirements.txt": module.installed.append(requirements))
    return module


def start(folder, *arguments, **options):
    """course.py as a user starts it, from another folder."""
    return subprocess.Popen(
        [sys.executable, str(folder / "course.py"), *arguments],
        cwd=folder.parent,
        env=dict(os.environ, PYTHONUTF8="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        **options,
    )


def mine(folder, name):
    return folder / "my_course" / name


# ------------------------------------------------------------------------------------------------ words and errors


def test_help_explains_every_command(course, capsys):
    for word in ("help", "--help", "-h"):
        course.main([word])
        text = capsys.readouterr().out
        assert all(f"course.py {name}" in text for name in course.COMMANDS)
    words = "open edit reset test refresh figures slides handout worksheet warmup bundle setup clean help"
    assert set(course.COMMANDS) == set(words.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["opne"], r"no command 'opne'.*open, edit.*help"),
        (["reset"], "say which lesson"),
        (["reset", "99"], "no lesson '99'.*00, 02"),
        (["reset", "../02"], r"no lesson '\.\./02'"),
        (["open", "1"], "no lesson '1'"),
        (["77"], "no lesson '77'"),
        (["edit", "77"], "no lesson '77'"),
        (["setup", "--Dev"], "nothing or --dev, not '--Dev'"),
        (["clean", "02"], "not '02'.*reset 02"),
        (["bundle", "02"], "takes nothing, not '02'"),
    ],
)
def test_a_mistake_is_named_and_the_way_out_too(course, arguments, message):
    with pytest.raises(SystemExit, match=message):
        course.main(arguments)
    assert course.ran == course.installed == []  # a mistake is not first paid for with a set-up


def test_an_old_python_is_told_so(course, monkeypatch):
    monkeypatch.setattr(course, "OLDEST_PYTHON", (99, 1))
    with pytest.raises(SystemExit, match=r"Python 99\.1 or newer is needed; this is \d+\.\d+\.\d+"):
        course.main([])


def test_an_old_python_can_read_the_file():
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_a_folder_that_cannot_be_written_is_named(course, monkeypatch):
    monkeypatch.setattr(course.os, "access", lambda *_: False)
    with pytest.raises(SystemExit, match="cannot be written.*Kurs Übung.*folder of your own"):
        course.main([])


def test_only_the_standard_library_is_imported():
    tree = ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8")))
    names = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
    tree = ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8")))
    names |= {node.module for node in tree if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


# --------------------------------------------------------------------------------------------- the learner's copies


def test_missing_lessons_are_copied(course, folder):
    course.copy_missing_lessons()
    assert {path.name for path in (folder / "my_course").glob("*.ipynb")} == set(LESSONS)
    assert mine(folder, LESSONS[1]).read_text(encoding="utf-8") == f"original {LESSONS[1]}"
    assert not list((folder / "my_course").glob("*.part"))


def test_a_copy_is_never_overwritten(course, folder, capsys):
    course.copy_missing_lessons()
    mine(folder, LESSONS[0]).write_text("my work", encoding="utf-8")
    course.copy_missing_lessons()
    assert mine(folder, LESSONS[0]).read_text(encoding="utf-8") == "my work"
    assert capsys.readouterr().out == ""  # the original is the one that was copied: nothing to say


def test_a_new_original_is_announced_in_one_line_and_not_installed(course, folder, capsys):
    course.copy_missing_lessons()
    (folder / "notebooks" / LESSONS[1]).write_text("better", encoding="utf-8")
    course.copy_missing_lessons()
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and LESSONS[1] in said and "reset 02" in said
    assert mine(folder, LESSONS[1]).read_text(encoding="utf-8") == f"original {LESSONS[1]}"
    course.reset("02")
    capsys.readouterr()
    course.copy_missing_lessons()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("record", ["", "{", "[1]", "null"])
def test_a_damaged_record_harms_nothing(course, folder, record, capsys):
    course.copy_missing_lessons()
    (folder / "my_course" / ".copied_from.json").write_text(record, encoding="utf-8")
    course.copy_missing_lessons()
    course.reset("0")
    assert set(json.loads((folder / "my_course" / ".copied_from.json").read_text(encoding="utf-8"))) == {LESSONS[0]}


@pytest.mark.parametrize("number", ["2", "02", "02_vanilla_policy_gradient", "02_vanilla_policy_gradient.ipynb"])
def test_reset_keeps_the_old_copy_and_restores_the_lesson(course, folder, number, capsys):
    course.copy_missing_lessons()
    for work in ("first", "second"):  # within the same second, too
        mine(folder, LESSONS[1]).write_text(work, encoding="utf-8")
        course.main(["reset", number])
    backups = sorted((folder / "my_course").glob("02_*.backup-*.ipynb"))
    assert {path.read_text(encoding="utf-8") for path in backups} == {"first", "second"}
    assert mine(folder, LESSONS[1]).read_text(encoding="utf-8") == f"original {LESSONS[1]}"
    assert mine(folder, LESSONS[0]).read_text(encoding="utf-8") == f"original {LESSONS[0]}"
    assert all(path.name in capsys.readouterr().out for path in backups[-1:])


def test_reset_of_an_untouched_or_missing_copy_makes_no_backup(course, folder):
    course.reset("0")
    course.reset("0")
    assert [path.name for path in (folder / "my_course").glob("*.ipynb")] == [LESSONS[0]]


# ------------------------------------------------------------------------------------------------------ what is run


@pytest.mark.parametrize(
    ("arguments", "page", "passed_on"),
    [
        ([], "my_course/00_start_here.ipynb", []),
        (["--no-browser", "--port=1"], "my_course/00_start_here.ipynb", ["--no-browser", "--port=1"]),
        (["open", "02", "--no-browser"], "my_course/02_vanilla_policy_gradient.ipynb", ["--no-browser"]),
        (["2"], "my_course/02_vanilla_policy_gradient.ipynb", []),
        (["edit"], "notebooks/00_start_here.ipynb", []),
        (["edit", "02"], "notebooks/02_vanilla_policy_gradient.ipynb", []),
    ],
)
def test_the_lab_opens_the_page_with_the_repository_as_root(course, folder, arguments, page, passed_on):
    assert course.main(arguments) == 0
    (command,) = course.ran
    assert command[:2] == ["-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={folder}" in command
    assert f"--LabApp.default_url=/lab/tree/{page}" in command
    assert command[len(command) - len(passed_on) :] == passed_on
    assert course.installed == ["requirements.txt"]
    assert (folder / "my_course").exists() == page.startswith("my_course")


def test_it_opens_without_any_lesson(course, folder):
    shutil.rmtree(folder / "notebooks")
    assert course.main([]) == 0
    assert "--LabApp.default_url=/lab" in course.ran[0]


def test_test_runs_pytest_with_what_follows(course):
    course.main(["test", "--full", "-k", "gae"])
    assert course.installed == ["requirements-dev.txt"]
    assert course.ran[0][:2] == ["-m", "pytest"] and course.ran[0][-3:] == ["--full", "-k", "gae"]


def test_the_exit_code_of_the_tests_is_the_exit_code(course, monkeypatch):
    monkeypatch.setattr(course, "run", lambda *_: 5)
    assert course.main(["test"]) == 5


@pytest.mark.parametrize(
    ("arguments", "script", "passed_on"),
    [
        (["slides", "02"], "lecture", ["slides", "02"]),
        (["handout", "02", "--code"], "lecture", ["handout", "02", "--code"]),
        (["worksheet", "02"], "lecture", ["worksheet", "02"]),
        (["warmup"], "warmup", []),
        (["bundle"], "bundle", []),
        (["refresh", "--check"], "refresh", ["--check"]),
    ],
)
def test_a_tool_is_run_after_the_set_up(course, folder, arguments, script, passed_on):
    assert course.main(arguments) == 0
    assert course.ran == [[str(folder / "tools" / f"{script}.py"), *passed_on]]
    assert course.installed == ["requirements.txt"]
    assert (SOURCE.parent / "tools" / f"{script}.py").exists()


def test_clean_removes_the_environment_and_no_lesson(course, folder):
    course.copy_missing_lessons()
    (folder / ".venv" / "bin").mkdir(parents=True)
    course.main(["clean"])
    assert not (folder / ".venv").exists() and mine(folder, LESSONS[0]).exists()


# ------------------------------------------------------------------------------------------------------- installing


@pytest.fixture
def installer(course, monkeypatch):
    """The launcher with its own setup, but no pip and no venv: course.piped lists what pip was asked for."""
    spec = importlib.util.spec_from_file_location("course_installing", course.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.piped, module.pip_answers = [], 0

    def make_venv():
        module.PYTHON.parent.mkdir(parents=True, exist_ok=True)
        module.PYTHON.touch()

    monkeypatch.setattr(module, "make_venv", make_venv)
    monkeypatch.setattr(module, "pip", lambda *arguments: module.piped.append(arguments) or module.pip_answers)
    monkeypatch.setattr(module, "answers", lambda url: False)
    return module


def test_it_installs_once(installer, folder):
    installer.setup()
    installer.setup()
    assert installer.piped == [("-r", "requirements.txt")]
    overrides = folder / ".venv" / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    settings = json.loads(overrides.read_text(encoding="utf-8"))
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


@pytest.mark.parametrize("changed", ["requirements.txt", "pyproject.toml"])
def test_it_installs_again_after_a_change(installer, folder, changed):
    installer.setup()
    (folder / changed).write_text("# something else\n", encoding="utf-8")
    installer.setup()
    assert len(installer.piped) == 2


def test_tests_install_more_and_leave_the_rest_installed(installer):
    installer.setup()
    installer.setup("requirements-dev.txt")
    installer.setup()
    assert installer.piped == [("-r", "requirements.txt"), ("-r", "requirements-dev.txt")]


def test_what_tests_need_includes_what_a_learner_needs(installer):
    installer.setup("requirements-dev.txt")
    installer.setup()
    assert installer.piped == [("-r", "requirements-dev.txt")]


def test_another_python_or_a_moved_folder_counts_as_a_change(installer, monkeypatch):
    before = installer.fingerprint("requirements.txt")
    monkeypatch.setattr(installer, "ROOT", installer.ROOT / ".." / installer.ROOT.name)
    moved = installer.fingerprint("requirements.txt")
    monkeypatch.setattr(installer.sys, "version_info", (3, 99))
    assert len({before, moved, installer.fingerprint("requirements.txt")}) == 3


def test_a_set_up_that_failed_is_repeated(installer):
    installer.pip_answers = 1
    with pytest.raises(SystemExit, match="(?s)could not install.*run the same command again"):
        installer.setup()
    installer.pip_answers = 0
    installer.setup()
    installer.setup()
    assert len(installer.piped) == 2


def test_an_interrupted_set_up_is_repeated(installer, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(installer, "pip", interrupted)
        assert installer.main(["setup"]) == 130
    assert "Traceback" not in capsys.readouterr().out
    installer.main(["setup"])
    assert len(installer.piped) == 1


def test_a_full_disk_is_noticed_before_the_download(installer, monkeypatch):
    monkeypatch.setattr(installer.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**10, 10**10, 10**8))
    with pytest.raises(SystemExit, match="3 GB"):
        installer.setup()


@pytest.mark.parametrize(
    ("answer", "remade"),
    [
        (repr(sys.version_info[:2]), False),
        ("(3, 2)", True),  # made by another Python
        ("", True),  # interrupted before pip was there
    ],
)
def test_a_damaged_environment_is_made_anew(course, monkeypatch, answer, remade):
    calls = []
    monkeypatch.setattr(course.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=answer.encode()))
    monkeypatch.setattr(course.subprocess, "call", lambda command: calls.append(command) or 0)
    course.make_venv()
    assert calls == [[sys.executable, "-m", "venv", "--clear", str(course.VENV)]] * remade


@pytest.mark.parametrize(("platform", "reachable", "asked"), [("linux", True, 1), ("linux", False, 0), ("darwin", True, 0)])
def test_the_cpu_index_is_for_torch_alone(installer, folder, monkeypatch, platform, reachable, asked):
    (folder / "requirements.txt").write_text("torch==9.8.7  # tensors\nnumpy==1\n", encoding="utf-8")
    monkeypatch.setattr(installer.sys, "platform", platform)
    monkeypatch.setattr(installer, "answers", lambda url: reachable)
    installer.setup()
    index = "https://download.pytorch.org/whl/cpu"
    assert installer.piped == [("--no-deps", "--index-url", index, "torch==9.8.7")] * asked + [("-r", "requirements.txt")]


def test_a_bundle_installs_from_its_own_wheels(installer, folder):
    (folder / "wheels").mkdir()
    installer.answers = lambda url: pytest.fail("a bundle asks no index")
    installer.setup()
    assert installer.piped == [("--no-index", "--find-links", str(folder / "wheels"), "-r", "requirements.txt")]


def test_wheels_of_another_system_are_named(installer, folder):
    (folder / "wheels").mkdir()
    installer.pip_answers = 1
    with pytest.raises(SystemExit, match="wheels do not fit.*(?s:.)*Remove that folder"):
        installer.setup()


def test_the_requirements_name_no_index():
    for name in ("requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        text = (SOURCE.parent / name).read_text(encoding="utf-8")
        assert "://" not in text and "index-url" not in text and "find-links" not in text


def test_every_requirement_is_pinned_with_a_reason():
    lines = (SOURCE.parent / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "-e ."
    pins = [line for line in lines[:-1] if not line.startswith("#")]
    assert pins and all("==" in line.split("#")[0] and line.split("#")[1].strip() for line in pins)


@pytest.mark.parametrize("writable", [True, False])
def test_a_read_only_home_is_left_alone(course, folder, monkeypatch, tmp_path, writable):
    monkeypatch.setattr(course.Path, "home", lambda: tmp_path if writable else tmp_path / "nowhere")
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.delenv(name, raising=False)
    env = course.environment()
    assert env["PYTHONUTF8"] == "1"
    assert ("MPLCONFIGDIR" in env, "JUPYTER_RUNTIME_DIR" in env) == (not writable, not writable)
    assert writable or Path(env["IPYTHONDIR"]).is_relative_to(folder / ".venv")


# ----------------------------------------------------------------------------------------------------- for real


def test_two_at_once_in_an_empty_folder(folder):
    """A real .venv, made from another folder: two start together and one installs; a third has nothing to do."""
    both = [start(folder, "setup") for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("Installed in" in text for text in said) == 1, said
    assert start(folder, "setup").communicate(timeout=300)[0] == ""
    python = folder / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    assert subprocess.run([python, "-c", "import pip"]).returncode == 0


def run_in_python(folder, child):
    """course.run with a child that prints "up", in a session of its own; returns when it is up."""
    code = "import course, sys; course.PYTHON = sys.executable; sys.exit(course.run('-c', sys.argv[1]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, child],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to send Ctrl-C to")
def test_ctrl_c_is_left_to_the_command(folder):
    """The child gets Ctrl-C, ends in its own time, and its exit code is passed on; course.py itself says nothing."""
    child = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.6), sys.exit(7)))\n"
        "print('up', flush=True); time.sleep(600)"
    )
    process = run_in_python(folder, child)
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=300)
    assert (process.returncode, rest) == (7, "")


@pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without telling it")
def test_a_kill_is_passed_on(folder):
    """Nothing keeps running when course.py is ended from outside: its output closes, for the child has ended, too."""
    process = run_in_python(folder, "import time; print('up', flush=True); time.sleep(600)")
    process.terminate()
    rest, _ = process.communicate(timeout=300)
    assert (process.returncode, rest) == (128 + signal.SIGTERM, "")
