"""Run every lesson once before class: files and caches are warm afterwards, and what fails is known. Saves nothing.

    python3 course.py warmup            all lessons: one line each, with its seconds; exit code 1 if one fails
    python3 course.py warmup 01 02      these

What runs is the copy in my_course where there is one, since that is what the class will see; else the original.
"""

import argparse
import sys
import time
from pathlib import Path

if __package__ in (None, ""):  # started as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools.refresh import ROOT, execute, find

MINE = ROOT / "my_course"


def run(path, timeout=300):
    """Run one notebook in a fresh kernel; (seconds, what went wrong or "")."""
    notebook, started, trouble = nbformat.read(path, as_version=4), time.perf_counter(), ""
    try:
        execute(notebook, path.parent, timeout)
    except CellExecutionError as error:
        trouble = f"{error.ename}: {error.evalue}"
    except (CellTimeoutError, DeadKernelError) as error:
        trouble = str(error)
    if trouble:
        done = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.execution_count]
        trouble = f"cell {done[-1].id if done else '1'}: {' '.join(trouble.split())[:300]}"
    return time.perf_counter() - started, trouble


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="course.py warmup", description="Run every lesson once before class.")
    parser.add_argument("lessons", nargs="*", help="numbers of lessons or paths of notebooks; all lessons if none is given")
    paths = find(parser.parse_args(arguments).lessons)
    paths = [MINE / path.name if (MINE / path.name).exists() else path for path in paths]
    total, failed = 0.0, 0
    for path in paths:
        seconds, trouble = run(path)
        total, failed = total + seconds, failed + bool(trouble)
        line = f"{'FAILED' if trouble else 'ok':8}{seconds:5.0f} s   {path.parent.name}/{path.name}  {trouble}"
        print(line.rstrip(), flush=True)
    print(f"{len(paths) - failed} of {len(paths)} lessons ran in {total:.0f} s.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
