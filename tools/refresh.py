"""Run lessons and save their outputs, so that what a reader sees is what the code says.

    python3 course.py refresh                 all lessons
    python3 course.py refresh 01 02           these
    python3 course.py refresh --check         save nothing; exit code 1 if something stored is stale, pictures included
    python3 course.py refresh --random 02     also take new outputs for random cells

A second run changes nothing. An output is kept as it is stored where the new one says the same: its text is equal
after sanitising (tests/sanitize.cfg) and its pictures differ by less than a small root mean square.

Random cells (tagged nbval-ignore-output) come out differently on another processor. Their stored output is kept as
long as the cell's own code is the code that made it (its digest is stored with the cell); `--random` takes a new one,
which is right after a change elsewhere: in an earlier cell, or in the package. They are always run, and must not fail.

Saved notebooks are in one form: short cell ids that stay, execution counts 1..n, no widget state, no timing. A live
widget is stored as its picture; one without a picture (a progress bar) is stored only if its cell is not random.
"""

import argparse
import base64
import concurrent.futures
import hashlib
import io
import os
import re
import sys
from pathlib import Path

import nbformat
import numpy as np
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
RANDOM = "nbval-ignore-output"
DIGEST = "output_of"  # cell metadata: digest of the code that made a random cell's stored output
KEPT_METADATA = {"tags", "slideshow", "jupyter", "editable", "deletable", DIGEST}
CHANCE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f-]{1,40})?")
PICTURE_TOLERANCE = 0.5  # root mean square over all pixels, of 255; a changed digit in a figure gives 1 or more
SANITIZE = [
    (re.compile(pattern), replacement)
    for pattern, replacement in re.findall(
        r"^regex: (.*)$\n^replace: (.*)$", (ROOT / "tests" / "sanitize.cfg").read_text(encoding="utf-8"), re.M
    )
]


# ------------------------------------------------------------------------------------------ do two outputs agree?


def agree(new, old):
    """Whether two outputs of a cell say the same: kind, text after sanitising, pictures, alt text."""
    if plain(new) != plain(old):
        return False
    return "image/png" not in new.get("data", {}) or same_picture(new.data["image/png"], old.data["image/png"])


def plain(output):
    """An output as comparable text: sanitised, without pictures (their presence stays) and execution count."""
    flat = {key: sanitise(value) for key, value in output.items() if key not in ("data", "execution_count")}
    flat["data"] = {kind: None if kind == "image/png" else sanitise(data) for kind, data in output.get("data", {}).items()}
    return flat


def sanitise(value):
    if isinstance(value, str):
        for pattern, replacement in SANITIZE:
            value = pattern.sub(replacement, value)
    return value


def same_picture(new, old):
    """Whether two PNGs (base64) have one size and differ by a root mean square of at most PICTURE_TOLERANCE."""
    if new == old:
        return True
    a, b = (np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"), dtype=float) for data in (new, old))
    return a.shape == b.shape and float(np.sqrt(np.mean((a - b) ** 2))) <= PICTURE_TOLERANCE


# --------------------------------------------------------------------------------------------- one form for all


def is_random(cell):
    return RANDOM in cell.metadata.get("tags", [])


def digest(cell):
    return hashlib.sha256(cell.source.encode("utf-8")).hexdigest()[:12]


def tidy(notebook, name):
    """Bring a notebook into the form in which it is stored (see the top of this file)."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
    name_cells(notebook.cells, re.match(r"\d*", name)[0] or name[:20])
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({key: value for key, value in cell.metadata.items() if key in KEPT_METADATA})
        if cell.cell_type == "code":
            count += bool(cell.source.strip())
            cell.execution_count = count if cell.source.strip() else None
            tidy_outputs(cell)
    return notebook


def tidy_outputs(cell):
    """Drop references to live widgets, which are dead in a stored notebook, and from a random cell what is nothing else."""
    shown = []
    for output in cell.outputs:
        was_widget = output.get("data", {}).pop(WIDGET, None) is not None
        if not (was_widget and is_random(cell) and "image/png" not in output.data):
            shown.append(output)
        if output.output_type == "execute_result":
            output.execution_count = cell.execution_count
    cell.outputs = shown


def name_cells(cells, prefix):
    """Give a short lasting id to each cell that has none, or a chance one, or one that is taken."""
    taken = {cell.get("id") for cell in cells}
    seen, number = set(), 0
    for cell in cells:
        if not cell.get("id") or cell.id in seen or CHANCE_ID.fullmatch(cell.id):
            while f"{prefix}-cell-{number:02d}" in taken:
                number += 1
            cell.id = f"{prefix}-cell-{number:02d}"
            taken.add(cell.id)
        seen.add(cell.id)


# -------------------------------------------------------------------------------------------------- one notebook


def keep_what_agrees(fresh, stored, new_random):
    """Put the stored outputs back into the fresh notebook wherever they still hold. Returns the ids of the other cells."""
    before = {cell.id: cell for cell in stored.cells if cell.cell_type == "code"}
    changed = []
    for cell in fresh.cells:
        if cell.cell_type != "code":
            continue
        old = before.get(cell.id, nbformat.from_dict({"outputs": [], "metadata": {}}))
        code = cell.metadata.pop(DIGEST, None)
        if is_random(cell):
            code = cell.metadata[DIGEST] = digest(cell)
        if is_random(cell) and not new_random and old.metadata.get(DIGEST) == code:
            cell.outputs = old.outputs
        elif len(cell.outputs) == len(old.outputs):
            cell.outputs = [b if agree(a, b) else a for a, b in zip(cell.outputs, old.outputs, strict=True)]
        if cell.outputs != old.outputs:
            changed.append(cell.id)
    return changed


def execute(notebook, folder, timeout):
    """Run all cells in a fresh kernel of this Python."""
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


def refresh(path, check=False, new_random=False, timeout=300):
    """Run one notebook and save it. Returns what happened ("unchanged", "saved", "stale", "failed") and details."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    fresh, stored = (nbformat.reads(text, as_version=4) for _ in range(2))
    try:
        execute(fresh, path.parent, timeout)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return "failed", str(error)[-3000:]
    tidy(fresh, path.stem)
    cells = keep_what_agrees(fresh, tidy(stored, path.stem), new_random)
    nbformat.validate(fresh)
    new_text = nbformat.writes(fresh).rstrip("\n") + "\n"
    if new_text == text:
        return "unchanged", ""
    details = f"outputs of {', '.join(cells)}" if cells else "only its form"
    if check:
        return "stale", details
    unfinished = path.with_suffix(".part")
    unfinished.write_text(new_text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)
    return "saved", details


# ----------------------------------------------------------------------------------------------------------- main


def find(names):
    """The notebooks meant: numbers of lessons or paths; all lessons if there are none."""
    if not names:
        return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    found = []
    for name in names:
        pattern = f"{int(name):02d}_*.ipynb" if name.isdecimal() else name
        paths = [Path(name)] if Path(name).is_file() else sorted(NOTEBOOKS.glob(pattern))
        if not paths:
            sys.exit(f"course.py: there is no lesson {name!r}; give a number such as 02, or the path of a notebook")
        for path in paths:
            check_notebook(path)
        found += paths
    return found


def check_notebook(path):
    """End with a message if a file is no notebook."""
    try:
        nbformat.validate(nbformat.read(path, as_version=4))
    except Exception as error:  # a JSON error, a validation error, or whatever nbformat trips over in a foreign file
        why = str(error).partition("\n")[0][:100]
        sys.exit(f"course.py: {path} is no notebook ({type(error).__name__}: {why}); give one that JupyterLab opens")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="course.py refresh", description="Run lessons and save their outputs.")
    parser.add_argument("lessons", nargs="*", help="numbers of lessons or paths of notebooks; all lessons if none is given")
    parser.add_argument("--check", action="store_true", help="save nothing; exit code 1 if something stored is stale")
    parser.add_argument("--random", action="store_true", help="also take new outputs for random cells")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that a cell may take (300)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="notebooks to run side by side (1)")
    args = parser.parse_args(arguments)
    paths = find(args.lessons)
    if not paths:
        sys.exit("refresh: there are no lessons in notebooks/")
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        runs = [pool.submit(refresh, path, args.check, args.random, args.timeout) for path in paths]
        for path, run in zip(paths, runs, strict=True):
            what, details = run.result()
            print(f"{what:10} {path.name}" + (f": {details}" if details else ""), flush=True)
            bad += what in ("failed", "stale")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
