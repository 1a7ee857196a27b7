"""Pack the course with all packages that it needs, for machines without a network.

    python3 course.py bundle            lecture/rlcourse-<system>-py<version>.zip

Make it on the kind of system on which it will be used, with the same version of Python: packages differ. There, unpack it
and start `python3 course.py`: it finds the folder `wheels` and asks no index.
"""

import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from pathlib import Path

if __package__ in (None, ""):  # started as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import course

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "lecture"
MADE = {"my_course", "lecture", "wheels", "build", "dist", "MUJOCO_LOG.TXT"}  # at the top


def wanted():
    """What has to be installed: the pins of requirements.txt, and what builds the package itself."""
    lines = (line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines())
    pins = [line for line in lines if line and not line.startswith("-e")]
    return pins, tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]


def download(folder):
    """Fetch the wheels; torch from PyTorch's own CPU index where that answers, as the set-up does."""
    pins, build = wanted()
    pip = [sys.executable, "-m", "pip", "download", "--dest", str(folder), "--find-links", str(folder), "--prefer-binary"]
    torch = [pin for pin in pins if pin.startswith("torch==")]
    if sys.platform == "linux" and torch and course.answers(course.TORCH_CPU_INDEX + "/torch/"):
        subprocess.call([*pip, "--no-deps", "--index-url", course.TORCH_CPU_INDEX, *torch], env=course.environment())
    if subprocess.call([*pip, *pins, *build], env=course.environment()) != 0:
        sys.exit("bundle: pip could not fetch the packages; its last words are above. Is there a network connection?")


def files(root):
    """The files of the course: no hidden folders, nothing that a command has made."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") and part not in (".github", ".gitignore", ".gitattributes") for part in parts)
        made = parts[0] in MADE or any(part == "__pycache__" or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not hidden and not made:
            yield path


def pack(root, wheels, target):
    """One zip file with the folder `rlcourse`: the course, and beside it `wheels`."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for path in files(root):
            bundle.write(path, Path("rlcourse", path.relative_to(root)))
        for path in sorted(wheels.iterdir()):
            bundle.write(path, Path("rlcourse", "wheels", path.name), compress_type=zipfile.ZIP_STORED)


def main():
    OUT.mkdir(exist_ok=True)
    target = OUT / f"rlcourse-{sysconfig.get_platform()}-py{sys.version_info[0]}.{sys.version_info[1]}.zip"
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        download(Path(folder))
        pack(ROOT, Path(folder), target)
    print(f"{target.relative_to(ROOT)}  ({target.stat().st_size / 1e6:.0f} MB): unpack it anywhere, then: {course.COMMAND}")


if __name__ == "__main__":
    main()
