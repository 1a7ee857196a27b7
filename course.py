#!/usr/bin/env python3
"""Everything this repository can do, from one file that needs nothing but Python 3.11 or newer.

    python3 course.py                   open the course in JupyterLab        (Windows: py course.py)
    python3 course.py test              run every test, the notebooks included

The first run makes the folder .venv and installs the packages of requirements.txt into it. Later runs see that
nothing has changed and start at once. Lessons are opened as your own copies, in the folder my_course.

    python3 course.py open 02           open lesson 02; what follows goes to JupyterLab, e.g. --no-browser
    python3 course.py reset 02          start lesson 02 anew; your copy is kept under another name
    python3 course.py edit [02]         open the originals in notebooks/ (for authors)
    python3 course.py test [ARGS]       run pytest with ARGS; --full adds the slow proofs
    python3 course.py refresh [02]      run lessons and save their outputs; --check only compares
    python3 course.py figures           draw the pictures in figures/ anew
    python3 course.py slides 02         make slides of a lesson: one file, without a network; into lecture/
    python3 course.py handout 02        make a hand-out for printing; --code prints all code
    python3 course.py worksheet 02      make a copy of a lesson without the solutions of its exercises, for a class
    python3 course.py warmup [02]       run the lessons once before class: what fails, and how long they take
    python3 course.py bundle            pack the course and its packages for a room without a network
    python3 course.py setup             only install
    python3 course.py clean             remove .venv (never your lessons)
    python3 course.py help              show this text
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent
ORIGINALS = ROOT / "notebooks"
MINE = ROOT / "my_course"
VENV = ROOT / ".venv"
WHEELS = ROOT / "wheels"  # only in a bundle: the packages, for machines without a network
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
COMMAND = "py course.py" if os.name == "nt" else "python3 course.py"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def die(message):
    sys.exit(f"course.py: {message}")


# ---------------------------------------------------------------------------------------------- running commands


def environment():
    """What every command runs in: UTF-8 everywhere, one thread per process, nothing written to a read-only home."""
    env = dict(os.environ, PYTHONUTF8="1", PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", JUPYTER_PREFER_ENV_PATH="1")
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # with it, every start would compile everything anew
    env.setdefault("OMP_NUM_THREADS", "1")  # two threads make networks this small slower, not faster
    if not home_is_writable():
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
            env.setdefault(name, str(VENV / "home" / name.lower()))
    return env


def home_is_writable():
    try:
        with tempfile.TemporaryFile(dir=str(Path.home())):
            return True
    except (OSError, RuntimeError):  # RuntimeError: there is no home at all
        return False


def run(*command):
    """Run a command of .venv in the course's folder; its exit code. Ctrl-C is its own business, a kill is passed on."""
    interrupt = signal.signal(signal.SIGINT, lambda *_: None)
    process = subprocess.Popen([str(part) for part in (PYTHON, *command)], cwd=str(ROOT), env=environment())
    terminate = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def one_at_a_time():
    """Hold a lock on this folder. The system frees it when the process ends, however it ends."""
    with open(ROOT / ".venv.lock", "a", encoding="utf-8") as file:
        for attempt in range(10**9):
            try:
                if os.name == "nt":
                    import msvcrt

                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                else:
                    import fcntl

                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except (BlockingIOError, PermissionError):
                if attempt == 0:
                    print("Waiting for another course.py in this folder ...", flush=True)
                time.sleep(0.5)
            except OSError:  # a file system without locks: go on without
                break
        yield


# ---------------------------------------------------------------------------------------------------- installing


def setup(requirements="requirements.txt"):
    """Make .venv and install a requirements file once. A set-up that failed or was interrupted is simply repeated."""
    if is_installed(requirements):
        return
    with one_at_a_time():
        if is_installed(requirements):
            return
        started = time.time()
        if not VENV.exists() and shutil.disk_usage(str(ROOT)).free < 3e9:
            die(f"the first set-up needs about 3 GB of free disk space where {ROOT} is.")
        print(f"Installing {requirements} into .venv (once; the first time takes a few minutes) ...", flush=True)
        make_venv()
        bundled = WHEELS.is_dir() and requirements == "requirements.txt"
        if not bundled:
            install_torch_for_cpu()
        if pip(*(["--no-index", "--find-links", str(WHEELS)] if bundled else []), "-r", requirements) != 0:
            if bundled:
                die("the packages in the folder wheels do not fit; pip's last words are above. They are for one kind of system\n"
                    "and one version of Python. Remove that folder to install from the network.")
            die("pip could not install the packages; its last words are above. Is there a network connection?\n"
                f"Then run the same command again: it goes on where it stopped. To start from nothing: {COMMAND} clean")
        turn_news_off()
        for name in {"requirements.txt", requirements}:  # what tests need includes what a learner needs
            stamp(name).write_text(fingerprint(name), encoding="utf-8")
        print(f"Installed in {time.time() - started:.0f} s.", flush=True)


def stamp(requirements):
    return VENV / (requirements + ".installed")


def is_installed(requirements):
    try:
        return PYTHON.exists() and stamp(requirements).read_text(encoding="utf-8") == fingerprint(requirements)
    except OSError:
        return False


def fingerprint(requirements):
    """Changes when an installation is out of date: other requirements, another Python, a moved folder."""
    parts = [repr(sys.version_info[:2]), str(ROOT)]
    parts += [(ROOT / name).read_text(encoding="utf-8") for name in sorted({"requirements.txt", requirements, "pyproject.toml"})]
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()


def make_venv():
    """Make .venv, unless there is a working one of this Python version already."""
    check = "import pip, sys; print(sys.version_info[:2])"
    with contextlib.suppress(OSError):
        seen = subprocess.run([str(PYTHON), "-c", check], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if seen.stdout.decode().strip() == repr(sys.version_info[:2]):
            return
    if Path(sys.prefix).resolve() == VENV:
        die(f".venv is damaged and cannot be repaired from inside. Leave it (deactivate), then run {COMMAND} again.")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        die("this Python cannot make virtual environments. On Debian or Ubuntu: sudo apt install python3-venv\n"
            "Elsewhere: install Python from python.org.")
    if subprocess.call([sys.executable, "-m", "venv", "--clear", str(VENV)]) != 0:
        die(f"could not make {VENV}; the reason is above.")


def pip(*arguments):
    """Run `pip install`, show what it is doing in one line, and on failure its last words. Returns the exit code."""
    # --no-compile: pip would spend half its time on files that nothing imports; Python compiles the others when it does
    command = [str(PYTHON), "-m", "pip", "install", "--no-compile", "--progress-bar", "off", *arguments]
    width = shutil.get_terminal_size().columns - 1
    said = []
    with subprocess.Popen(command, cwd=str(ROOT), env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace") as process:  # fmt: skip
        for line in process.stdout:
            said.append(line.rstrip())
            if sys.stdout.isatty():
                print("\r" + said[-1].strip()[:width].ljust(width), end="", flush=True)
    if sys.stdout.isatty():
        print("\r" + " " * width, end="\r", flush=True)
    if process.returncode != 0:
        print("\n".join(said[-20:]), flush=True)
    return process.returncode


def install_torch_for_cpu():
    """On Linux the usual torch brings gigabytes of GPU libraries. Take PyTorch's own CPU build if its index answers."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("#")[0].strip() for line in lines if line.startswith("torch==")]
    if sys.platform == "linux" and pins and answers(TORCH_CPU_INDEX + "/torch/"):
        pip("--no-deps", "--index-url", TORCH_CPU_INDEX, pins[0])  # should it fail, the usual build is taken


def answers(url):
    try:
        urllib.request.urlopen(url, timeout=5).close()
        return True
    except (OSError, ValueError):
        return False


def turn_news_off():
    """JupyterLab would otherwise ask on its first start whether it may fetch news."""
    settings = VENV / "share" / "jupyter" / "lab" / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    news = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
    (settings / "overrides.json").write_text(json.dumps(news, indent=2) + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------------------------------- lessons


def lessons():
    return sorted(ORIGINALS.glob("[0-9][0-9]_*.ipynb"))


def find_lesson(number):
    """The original of a lesson, from its number as typed: 2, 02 or 02_vanilla_policy_gradient."""
    for lesson in lessons():
        if number in (lesson.name, lesson.stem) or (number.isdecimal() and int(number) == int(lesson.name[:2])):
            return lesson
    die(f"there is no lesson {number!r}. The lessons are: {', '.join(lesson.name[:2] for lesson in lessons()) or 'none yet'}.")


def content(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_origins():
    """Of each of the learner's lessons, the content of the original that it was copied from."""
    try:
        return dict(json.loads((MINE / ".copied_from.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def copy_lesson(lesson):
    """Copy an original to the learner's folder, whole or not at all, and remember what it was copied from."""
    unfinished = MINE / (lesson.name + ".part")
    shutil.copyfile(str(lesson), str(unfinished))
    os.replace(str(unfinished), str(MINE / lesson.name))
    origins = dict(read_origins(), **{lesson.name: content(lesson)})
    (MINE / ".copied_from.json").write_text(json.dumps(origins, indent=1) + "\n", encoding="utf-8")


def copy_missing_lessons():
    """Give the learner a copy of each lesson that is missing. A copy that exists is never touched."""
    with one_at_a_time():
        MINE.mkdir(exist_ok=True)
        origins = read_origins()
        for lesson in lessons():
            if not (MINE / lesson.name).exists():
                copy_lesson(lesson)
            elif origins.get(lesson.name, content(lesson)) != content(lesson):
                anew = f"{COMMAND} reset {lesson.name[:2]}"
                print(f"{lesson.name} has changed since you began it. For the new one (yours is kept): {anew}")


def reset(number):
    """Give the learner a fresh copy of a lesson; the old copy is kept under a name that says when."""
    lesson = find_lesson(number)
    with one_at_a_time():
        MINE.mkdir(exist_ok=True)
        mine = MINE / lesson.name
        if mine.exists() and content(mine) != content(lesson):
            name = f"{lesson.stem}.backup-{time.strftime('%Y%m%d-%H%M%S')}"
            backup, again = MINE / f"{name}.ipynb", 2
            while backup.exists():
                backup, again = MINE / f"{name}-{again}.ipynb", again + 1
            os.rename(str(mine), str(backup))
            print(f"Your copy is kept as {backup.relative_to(ROOT)}")
        copy_lesson(lesson)
    print(f"{mine.relative_to(ROOT)} is now the original. If it is open in JupyterLab, use File > Reload Notebook from Disk.")


def take_lesson(arguments):
    """The lesson that the first argument names, else the first of all, and the arguments that are left."""
    if arguments and not arguments[0].startswith("-"):
        return find_lesson(arguments[0]), arguments[1:]
    return next(iter(lessons()), None), arguments


def open_lab(folder, lesson, arguments):
    """Start JupyterLab at a lesson of a folder. The server's root is the repository, so that ../figures can be reached."""
    page = f"/lab/tree/{folder.name}/{lesson.name}" if lesson else "/lab"
    options = [f"--ServerApp.root_dir={ROOT}", f"--LabApp.default_url={page}", "--ServerApp.answer_yes=True"]
    options += ["--log-level=WARN", "--LabApp.log_level=WARN"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    print("JupyterLab opens in your browser. To stop it, press Ctrl-C in this window.", flush=True)
    return run("-m", "jupyterlab", *options, *arguments)


# ------------------------------------------------------------------------------------------------------ commands


def cmd_open(arguments):
    lesson, options = take_lesson(arguments)  # before the set-up takes minutes
    setup()
    copy_missing_lessons()
    return open_lab(MINE, lesson, options)


def cmd_edit(arguments):
    lesson, options = take_lesson(arguments)
    setup()
    return open_lab(ORIGINALS, lesson, options)


def cmd_reset(arguments):
    if len(arguments) != 1:
        die(f"say which lesson: {COMMAND} reset 02")
    reset(arguments[0])


def cmd_test(arguments):
    setup("requirements-dev.txt")
    return run("-m", "pytest", "-n", "2", "--dist", "loadfile", *arguments)


def cmd_refresh(arguments):
    return run_tool("refresh", arguments)


def cmd_figures(arguments):
    setup("requirements-dev.txt")  # they are pictures of a browser
    return run(ROOT / "tools" / "figures.py", *arguments)


def run_tool(name, arguments):
    setup()
    return run(ROOT / "tools" / (name + ".py"), *arguments)


def cmd_slides(arguments):
    return run_tool("lecture", ["slides", *arguments])


def cmd_handout(arguments):
    return run_tool("lecture", ["handout", *arguments])


def cmd_worksheet(arguments):
    return run_tool("lecture", ["worksheet", *arguments])


def cmd_warmup(arguments):
    return run_tool("warmup", arguments)


def cmd_bundle(arguments):
    if arguments:
        die(f"bundle takes nothing, not {' '.join(arguments)!r}.")
    return run_tool("bundle", [])


def cmd_setup(arguments):
    if arguments not in ([], ["--dev"]):
        die(f"setup takes nothing or --dev, not {' '.join(arguments)!r}.")
    setup("requirements-dev.txt" if arguments == ["--dev"] else "requirements.txt")


def cmd_clean(arguments):
    if arguments:
        die(f"clean removes .venv and takes nothing, not {' '.join(arguments)!r}. For a fresh lesson: {COMMAND} reset 02")
    with one_at_a_time():
        if VENV.exists():
            shutil.rmtree(str(VENV))
    print("Removed .venv; your lessons in my_course are untouched.")


def cmd_help(arguments):
    print(__doc__.strip())


COMMANDS = {name[len("cmd_"):]: function for name, function in list(globals().items()) if name.startswith("cmd_")}


def main(arguments):
    if sys.version_info < OLDEST_PYTHON:
        have, need = (".".join(map(str, version)) for version in (sys.version_info[:3], OLDEST_PYTHON))
        die(f"Python {need} or newer is needed; this is {have}. Get one from python.org.")
    word, rest = (arguments[0], list(arguments[1:])) if arguments else ("open", [])
    if word in ("-h", "--help"):
        word = "help"
    elif word.startswith("-") or word.isdecimal():
        word, rest = "open", list(arguments)
    if word not in COMMANDS:
        die(f"there is no command {word!r}. The commands are: {', '.join(COMMANDS)}. Try: {COMMAND} help")
    if not os.access(str(ROOT), os.W_OK):
        die(f"this folder cannot be written: {ROOT}. Copy the course to a folder of your own.")
    try:
        return COMMANDS[word](rest)
    except KeyboardInterrupt:
        print("\nStopped. Run the same command again to go on.")
        return 130
    except PermissionError as error:
        die(f"{error}. Is a program of the course still running, or the folder write-protected?")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
