"""Every widget of every lesson: no error, no clipped or overlapping label, and true pixels at both ends of every control."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from rlcourse.classroom import controls, explorer

CLASSROOM = Path(controls.__file__).parent


def widgets():
    """What the modules of the lessons hand to `explore`: dicts that have its arguments."""
    needed = {name for name, p in inspect.signature(explorer.explore).parameters.items() if p.default is p.empty}
    for path in sorted(CLASSROOM.glob("lesson_*.py")):
        for name, value in vars(import_module(f"rlcourse.classroom.{path.stem}")).items():
            if isinstance(value, dict) and needed <= set(value):
                yield pytest.param(value, id=f"{path.stem}.{name}")


@pytest.mark.parametrize("widget", list(widgets()))
def test_no_trouble_at_the_ends(widget, monkeypatch):
    monkeypatch.setattr(explorer, "DPI", 80)
    names = ("title", "compute", "draw", "describe", "controls", "size")
    view = explorer.View(*(widget.get(name, explorer.SIZE) for name in names))
    assert view.trouble() == []
