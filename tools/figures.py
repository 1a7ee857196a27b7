#!/usr/bin/env python3
"""Draw the pictures in figures/ anew: `python3 course.py figures`.

figures/lesson_01.png: lesson 01 in JupyterLab in a real browser (needs a Chromium), run from a fresh kernel. Left a step of the
derivation with its check cell, right the first widget.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

LESSON, STEP = "01_policy_gradient_theorem.ipynb", "### Step 4."
NOTEBOOK = "window.jupyterapp.shell.currentWidget.content"
FIND = "text => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.findIndex(c => c.source.startsWith(text))"


def lesson_picture(browser_path, target):
    """Screenshots of two places of lesson 01, side by side."""
    from lab import chromium, copy_of_the_lessons, jupyterlab

    with tempfile.TemporaryDirectory() as folder:
        site = copy_of_the_lessons(Path(folder) / "site")
        with jupyterlab(Path(folder) / "jupyter", site) as lab, chromium(browser_path) as browser:
            with lab.open(browser, f"notebooks/{LESSON}", width=1000, height=1150) as lesson:
                page = lesson.page
                lesson.run_all()
                page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
                number = page.evaluate(FIND, STEP)
                lesson.reveal(number)
                page.wait_for_timeout(2000)
                left = page.screenshot()
                next(lesson.explorers()).scroll_into_view_if_needed()
                page.wait_for_timeout(2000)
                right = page.screenshot()
    parts = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in (left, right)]
    whole = Image.new("RGB", (sum(part.width for part in parts) + 16, parts[0].height), "white")
    whole.paste(parts[0], (0, 0))
    whole.paste(parts[1], (parts[0].width + 16, 0))
    whole.quantize(128).save(target, optimize=True)


def main():
    from tools.browser import find_browser

    if (path := find_browser()) is None:
        sys.exit("figures: no Chromium here: install it, or set CHROME to the path of one.")
    target = ROOT / "figures" / "lesson_01.png"
    target.parent.mkdir(exist_ok=True)
    lesson_picture(path, target)
    print(f"drawn: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
