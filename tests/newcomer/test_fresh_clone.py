"""What somebody meets who follows the README: a clone, its first command, the first lesson in a browser."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "browser"))


@pytest.mark.full
@pytest.mark.browser
def test_the_first_command_of_the_readme(tmp_path, browser_path, record_property):
    """A fresh clone in a folder with a space: `course.py` installs, opens the first lesson, and it runs in a browser"""
    from lab import Lab, chromium, environment, free_port, started, wait_for_server
    from walk import no_trouble

    clone, log, port = tmp_path / "a new folder", tmp_path / "log", free_port()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    env = {name: value for name, value in environment(tmp_path / "jupyter").items() if name != "PYTHONPATH"}
    options = ["--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    options += ["--IdentityProvider.token=lesson", "--LabApp.expose_app_in_browser=True"]
    with started([sys.executable, "course.py", "open", "00", *options], log, cwd=clone, env=env) as server:
        wait_for_server(server, f"http://127.0.0.1:{port}/api/status?token=lesson", log)
        with (
            chromium(browser_path) as browser,
            Lab(f"http://127.0.0.1:{port}", "lesson", log).open(browser, "my_course/00_start_here.ipynb") as lesson,
        ):
            lesson.run_all()
            no_trouble(lesson)
            said = lesson.ask_kernel("import rlcourse; print(rlcourse.__file__)")
            assert Path(said.strip()) == clone / "rlcourse" / "__init__.py"
    python = clone / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    command = [python, "-m", "rlcourse", "train", "PPO", "--env", "CartPole-v1", "--total-steps", "2048", "--no-progress"]
    assert subprocess.run(command, cwd=clone, env=env, capture_output=True, timeout=600).returncode == 0
    lines = log.read_text(encoding="utf-8").splitlines()
    record_property("measured", next(line for line in lines if line.startswith("Installed")))
