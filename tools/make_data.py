"""Make the small stored results in notebooks/data again: experiments too long to run inside a lesson.

    python tools/make_data.py lesson_02                         every file of that lesson
    python tools/make_data.py lesson_02 02_vpg_sweep.npz        this one

A lesson's module rlcourse.classroom.lesson_NN names its files in DATA: {file name: function returning {name: array}}. Beside the
arrays the file holds `facts`: the command that made it, the date, the versions, the processor and the seconds it took.
"""

import argparse
import datetime
import json
import os
import platform
import time
from importlib import import_module
from importlib.metadata import version

import numpy as np

from rlcourse import __version__
from rlcourse.classroom.data import DATA

PACKAGES = ("torch", "numpy", "gymnasium")
LARGEST = 100_000  # bytes: a lesson's file is downloaded with the course


def write(lesson, name, recipe):
    """Run a recipe and store its arrays with the facts. Returns the path."""
    started = time.perf_counter()
    arrays = recipe()
    facts = {
        "command": f"python tools/make_data.py {lesson} {name}",
        "date": str(datetime.date.today()),
        "versions": {"python": platform.python_version(), "rlcourse": __version__} | {name: version(name) for name in PACKAGES},
        "processor": f"{platform.machine()}, {os.cpu_count()} cores",
        "seconds": round(time.perf_counter() - started),
    }
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part.npz")
    np.savez_compressed(unfinished, facts=np.array(json.dumps(facts)), **arrays)
    if (size := unfinished.stat().st_size) > LARGEST:
        unfinished.unlink()
        raise SystemExit(f"{path} would have {size:,} bytes, more than {LARGEST:,}: store fewer numbers or smaller types.")
    os.replace(unfinished, path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lesson", help="such as lesson_02")
    parser.add_argument("files", nargs="*", help="names of files; all of the lesson if none is given")
    arguments = parser.parse_args()
    recipes = import_module(f"rlcourse.classroom.{arguments.lesson}").DATA
    if unknown := set(arguments.files) - set(recipes):
        raise SystemExit(f"{arguments.lesson} has no file {', '.join(sorted(unknown))}; it has {', '.join(recipes)}.")
    for name in arguments.files or recipes:
        path = write(arguments.lesson, name, recipes[name])
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
