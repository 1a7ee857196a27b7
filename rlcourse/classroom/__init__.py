"""What only a notebook needs: figures, widgets, live curves, checks that print both sides, faults.

Names are loaded when first used, so `from rlcourse.classroom import compare` does not import matplotlib or ipywidgets.
"""

from importlib import import_module

_HOME = {
    "new_figure": "figures", "show": "figures", "layout_faults": "figures", "style": "figures",
    "PALETTE": "figures", "MARKERS": "figures", "LINESTYLES": "figures",
    "explore": "explorer", "three_settings": "explorer", "slider": "controls", "choice": "controls", "toggle": "controls",
    "compare": "checks", "within_standard_errors": "checks",
    "check": "exercises", "progress": "exercises",
    "learning_curve": "curves", "LiveCurve": "live", "panel": "training_panel", "watch": "player",
}  # fmt: skip
__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return __all__
