"""Lessons 00 to 04 in a real JupyterLab in a real browser. (Two files of lessons, because each file goes to one worker.)"""

from pathlib import Path

import pytest
from walk import walk

pytestmark = pytest.mark.browser

LESSONS = sorted(path.name for path in (Path(__file__).parents[2] / "notebooks").glob("0[0-4]_*.ipynb"))


@pytest.mark.parametrize("name", LESSONS)
def test_lesson(lab, browser, shots, name):
    walk(lab, browser, shots, name)
