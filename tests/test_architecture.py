"""The walls between the rooms: who may import whom, and what an algorithm file may know.

Each wall is a function from source text to findings, so that each is also shown to catch a breach.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rlcourse"
ROOMS = ("equations", "worlds", "agents", "experiments", "diagnosis", "classroom")
MAY_IMPORT = {
    "equations": set(),
    "worlds": {"equations"},
    "agents": {"equations", "worlds"},
    "experiments": {"equations", "worlds", "agents"},
    "diagnosis": {"equations", "worlds", "agents"},
    "classroom": {"equations", "worlds", "agents", "experiments", "diagnosis", ""},
    "": {"equations", "worlds", "agents", "experiments", "diagnosis"},  # rlcourse/__init__.py, the public names
}
NOTEBOOK_PACKAGES = {"IPython", "ipywidgets", "matplotlib", "PIL", "ipykernel", "jupyterlab"}
# what the rooms below the classroom may rely on
OUTSIDERS = {"torch", "numpy", "scipy", "gymnasium", "tqdm", "safetensors", "filelock", "click"}
# what a room may use where it is installed; never at import, see the test of a plain import
OPTIONAL = {"worlds": {"mujoco"}, "experiments": {"PIL", "imageio_ffmpeg", "tensorboard"}}
FILES = sorted(PACKAGE.rglob("*.py"))
ALGORITHMS = [path for path in FILES if path.parent.name == "agents" and path.stem in ("vpg", "a2c", "trpo", "ppo", "reinforce")]


def imported(source, package=("rlcourse",)):
    """Dotted names that a module imports, wherever in the file; relative ones resolved against its package."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def upward_imports(source, room):
    """Rooms that a module of `room` imports and must not."""
    package = ("rlcourse", room) if room else ("rlcourse",)
    inner = [name.split(".")[1:2] for name in imported(source, package) if name.split(".")[0] == "rlcourse"]
    rooms = {name[0] if name and name[0] in ROOMS else "" for name in inner}  # "": the public names in rlcourse/__init__.py
    return sorted(rooms - MAY_IMPORT[room] - {room})


def foreign_imports(source, room):
    """Packages that only the classroom may import, or that no room may rely on."""
    outer = {name.split(".")[0] for name in imported(source)} - {"rlcourse"} - sys.stdlib_module_names
    own = NOTEBOOK_PACKAGES | {"cycler"} if room == "classroom" else OPTIONAL.get(room, set())
    return sorted(outer - OUTSIDERS - own)


def knowledge_of_runs(source):
    """Words in an algorithm's code (comments and docstrings left out) that belong behind the wall of agents/runs.py."""
    code = ast.unparse(without_docstrings(ast.parse(source)))
    return re.findall(r"baddbmm|transpose|unsqueeze|permute|swapaxes|movedim|einsum|\.m?T\b|num_runs|\[runs?\b|\bruns?\]", code)


def without_docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.Pass()
    return tree


def room_of(path):
    return path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else ""


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_imports_upwards(path):
    assert upward_imports(path.read_text(encoding="utf-8"), room_of(path)) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_classroom_imports_what_only_a_notebook_needs(path):
    assert foreign_imports(path.read_text(encoding="utf-8"), room_of(path)) == []


@pytest.mark.parametrize("path", ALGORITHMS, ids=name_of)
def test_an_algorithm_file_reads_as_if_there_were_one_run(path):
    assert knowledge_of_runs(path.read_text(encoding="utf-8")) == []


def test_there_is_something_to_test():
    assert {room_of(path) for path in FILES} >= {"", "equations", "worlds", "agents", "classroom"} and ALGORITHMS


@pytest.mark.parametrize("module", ["rlcourse", "rlcourse.classroom"])
def test_a_plain_import_loads_nothing_heavy(module):
    """In a fresh Python: neither what draws and displays, nor MuJoCo, nor a peer that only tests need."""
    heavy = sorted(NOTEBOOK_PACKAGES | {"mujoco", "stable_baselines3", "sb3_contrib", "pandas", "pytest", "tensorboard"})
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=PACKAGE.parent)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


# --------------------------------------------------------------------------------------------- the walls can be felt


@pytest.mark.parametrize(
    ("room", "source", "found"),
    [
        ("equations", "from rlcourse.worlds.tabular import TabularMDP", ["worlds"]),
        ("equations", "from ..agents import vpg", ["agents"]),
        ("equations", "from .. import worlds", ["worlds"]),
        ("worlds", "def f():\n    import rlcourse.agents.training", ["agents"]),
        ("worlds", "from rlcourse import gae", [""]),
        ("agents", "import rlcourse.classroom.figures as f", ["classroom"]),
        ("", "from rlcourse.classroom import show", ["classroom"]),
        ("agents", "from rlcourse.worlds import make_env\nfrom . import runs\nfrom .runs import Runs", []),
        ("classroom", "from rlcourse import gae", []),
    ],
)
def test_an_upward_import_is_found(room, source, found):
    assert upward_imports(source, room) == found


@pytest.mark.parametrize(
    ("room", "source", "found"),
    [
        ("agents", "import matplotlib.pyplot as plt", ["matplotlib"]),
        ("agents", "def draw():\n    from IPython.display import display", ["IPython"]),
        ("worlds", "import stable_baselines3", ["stable_baselines3"]),
        ("classroom", "import mujoco", ["mujoco"]),
        ("agents", "def f():\n    import mujoco.batch", ["mujoco"]),
        ("worlds", "def f():\n    import mujoco.batch", []),
        ("classroom", "import ipywidgets, math", []),
    ],
)
def test_a_foreign_import_is_found(room, source, found):
    assert foreign_imports(source, room) == found


@pytest.mark.parametrize(
    "line",
    ["x = torch.baddbmm(a, b, c)", "x = x.transpose(0, 1)", "x = x.T", "x = x.mT", "loss[run].backward()", "range(num_runs)"],
)
def test_knowledge_of_runs_is_found(line):
    assert knowledge_of_runs(f'"""A docstring may speak of runs[run] and transpose."""\n{line}\n')
    assert not knowledge_of_runs('"""A docstring may speak of runs[run] and transpose."""\nTrue\n')


def test_style():
    """ruff finds nothing, in modules and in notebooks."""
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "."], capture_output=True, encoding="utf-8", cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stdout + done.stderr
