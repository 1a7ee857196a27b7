"""Learning curves that grow in the page while agents train: train(…, callbacks=[LiveCurve()])."""

import sys
import time

import numpy as np

from rlcourse.classroom.curves import RETURN_LABEL, Curves, group, learning_curve
from rlcourse.classroom.figures import SIZE, image_tag, new_figure, show
from rlcourse.classroom.painter import Painter, fast_png

REDRAWS = 3.0  # a second, at most
SHARE = 0.1  # of the time, at most, goes into drawing


class LiveCurve:
    """A callback for `train` that shows the learning curve while it grows, every seed and their median.

    While training runs it is a widget, redrawn at most three times a second. When the training or its cell ends, however it
    ends, the widget gives way to the finished picture with alt text, which a stored notebook keeps. Outside a
    notebook it does nothing. One object serves one training at a time.

    Args:
        threshold, labels, name, ylabel, title: as for `learning_curve`.
    """

    def __init__(self, threshold=None, *, labels=None, name="mean_return", ylabel=RETURN_LABEL, title=None):
        self.name, self.looks = name, {"labels": labels, "threshold": threshold, "ylabel": ylabel, "title": title}
        self.screen = self.state = self.picture = None

    def __call__(self, state):
        """Called by `train` after every update."""
        shell = notebook()
        if shell is None:
            return
        if self.state is not state:
            self.finish()
            self.state, self.screen = state, _Screen(state, self.name, self.looks)
            shell.events.register("post_run_cell", self.finish)
        self.screen.show_if_due(state)
        if state.env_steps >= state.total_steps:
            self.finish()

    def finish(self, *_):
        """Put the finished picture in place of the widget. Called by itself when the training or its cell ends."""
        if self.screen is None:
            return
        state, screen, self.state, self.screen = self.state, self.screen, None, None
        notebook().events.unregister("post_run_cell", self.finish)
        self.picture = show(learning_curve(_Rows(state), name=self.name, **self.looks), alt=describe(state, self.name))
        screen.replace(self.picture)


class _Rows:
    """What `learning_curve` needs of a result."""

    def __init__(self, state):
        self.history, self.runs = state.history, state.runs


class _Screen:
    """The widget: a kept figure and a line of text below it."""

    def __init__(self, state, name, looks):
        from IPython.display import display
        from ipywidgets import HTML, VBox

        self.name, self.started, self.first_steps, self.next_time = name, time.monotonic(), state.env_steps, 0.0
        self.fig, ax = new_figure()
        groups = group(state.runs, len(state.runs))
        self.curves = Curves(ax, groups, **looks, legend="lower right")
        ax.set_xlim(0, state.total_steps)
        self.painter = Painter(self.fig)
        self.picture, self.line = HTML(), HTML()
        self.box = VBox([self.picture, self.line])
        self.handle = display(self.box, display_id=True)

    def show_if_due(self, state):
        now = time.monotonic()
        if now < self.next_time:
            return
        history = state.history
        self.curves.update(history, self.name, rescale=False)
        self.curves.make_room(history[self.name])
        words = describe(state, self.name)
        self.picture.value = image_tag(fast_png(self.painter.paint()), words, SIZE)
        self.line.value = f"<div>{progress(state, now - self.started, self.first_steps)}</div>"
        cost = time.monotonic() - now
        self.next_time = now + max(1 / REDRAWS, cost / SHARE)

    def replace(self, picture):
        self.handle.update(picture)
        for widget in (self.picture, self.line, self.box):
            widget.close()


def progress(state, seconds, first_steps):
    """One line: how far, how good, how long still; `seconds` since `first_steps` were done."""
    text = f"{min(state.env_steps / state.total_steps, 1):.0%} of {state.total_steps:,} steps per run"
    if state.env_steps > first_steps:
        left = seconds * (state.total_steps - state.env_steps) / (state.env_steps - first_steps)
        text += f", about {left:.0f} s left"
    return text


def describe(state, name):
    """Alt text of the curve so far."""
    words = f"Learning curves, {name.replace('_', ' ')} of {len(state.runs)} runs against environment steps per run: "
    return words + finding(state, name)


def finding(state, name):
    """Where the runs are now, in a few words; runs without a value are left out."""
    last = np.asarray(state.history[name], float)[:, -1]
    last = last[np.isfinite(last)]
    if not last.size:
        return f"no value yet after {state.env_steps:,} steps."
    return f"after {state.env_steps:,} steps {last.min():.4g} to {last.max():.4g}, median {np.median(last):.4g}."


def notebook():
    """The shell of the kernel that runs this, or None outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if getattr(shell, "kernel", None) is not None else None
