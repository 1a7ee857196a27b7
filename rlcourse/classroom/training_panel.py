"""Training one can touch: panel(VPG(), "CartPole-v1", total_steps=50_000, seeds=range(5), change={"gae_lambda": slider(…)}).

The training is the generator `iterate`, driven by a task on the kernel's own loop: one update per turn, then everything else
gets its turn. So other cells run while it trains, and a setting is changed between two updates, never within one. No thread
trains. Clicks and moves may arrive in threads (JupyterLab sends them through a kernel subshell); each is handed to the loop
that trains. A cell that computes holds up the training, as it holds up any other cell.
"""

import asyncio
import contextlib
import dataclasses
import html
import time
import traceback
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np

from rlcourse.agents.training import Run, iterate
from rlcourse.classroom.controls import Choice, Slider, rows_of
from rlcourse.classroom.curves import Curves, group
from rlcourse.classroom.explorer import NAME_PARTS, RED
from rlcourse.classroom.figures import PALETTE, WIDTH, Picture, check_alt, image_tag, new_figure, png
from rlcourse.classroom.live import REDRAWS, finding, notebook, progress
from rlcourse.classroom.painter import Painter, fast_png
from rlcourse.equations.arguments import check_whole
from rlcourse.worlds.make_env import make_env

TURNS = 20  # of the loop, for everything else, between two updates: a cell then waits about one update, with 1 about three
SHARE = 0.2  # of the time, at most, goes into drawing
NEAR = 0.02  # of the training: a second change of a setting within it moves the mark of the first (a slider that is dragged)
SIZE = (9.0, 3.6)  # inches
DIAGNOSTICS = {  # name in the history -> (heading, what a practitioner reads in it)
    "mean_return": ("return", "mean over the last up to 100 finished episodes, as collected (with exploration)"),
    "entropy": ("entropy (nats)", "falls as the policy becomes sure; near 0 early: it has stopped exploring"),
    "kl": ("KL (nats)", "between the policies before and after one update: how far it moved"),
    "explained_variance": ("explained variance", "of the critic: 1 is perfect, 0 or less is no better than a constant"),
    "grad_norm": ("gradient norm", "before clipping"),
    "clip_fraction": ("clip fraction", "share of samples whose ratio has left 1 ± ε"),
}


class Change(NamedTuple):
    """A setting that was changed while the training ran: the updates after `env_steps` use `value`."""

    env_steps: int
    field: str
    value: float


class _Drawing:
    """Return on the left, one diagnostic on the right, a vertical line at each change. The figure is kept and updated."""

    def __init__(self, runs, total_steps, threshold, labels):
        self.groups, self.total_steps, self.marks = group(runs, len(runs)), total_steps, []
        self.fig, (left, self.right) = new_figure(1, 2, size=SIZE, width_ratios=(3, 2))
        looks = {"transform": left.transAxes, "ha": "center", "va": "center", "bbox": {"facecolor": "white", "edgecolor": "none"}}
        self.empty = left.text(0.5, 0.4, "Not started: run this cell,\nthen press Start", **looks)
        self.returns = Curves(left, self.groups, threshold=threshold, labels=labels, ylabel="mean return", legend=None)
        left.set(xlim=(0, total_steps), ylim=(0, 1.2 * (threshold or 1)))
        handles, names = left.get_legend_handles_labels()
        if names:
            self.fig.legend(handles, names, loc="outside upper left", ncols=3)

    def show(self, name):
        """Draw this diagnostic on the right."""
        self.right.clear()
        self.side, self.name = Curves(self.right, self.groups, ylabel=DIAGNOSTICS[name][0], legend=None), name
        self.right.set(xlim=(0, self.total_steps), ylim=(0, 1))
        marks, self.marks = self.marks, []
        for steps, label, *artists in marks:
            for artist in artists[::2]:  # those on the left; the others were cleared
                artist.remove()
            self.mark(steps, label)
        self._place()

    def mark(self, steps, label, instead=False):
        """A line at `steps` with its label; `instead`: of the last one."""
        if instead:
            for artist in self.marks.pop()[2:]:
                artist.remove()
        self.marks.append((steps, label, *self._line(self.returns.ax, steps, label)))

    def _line(self, left, steps, label):
        looks = {"color": PALETTE["purple"], "linewidth": 1.6, "zorder": 2.5}
        first, second = left.axvline(steps, **looks), self.right.axvline(steps, **looks)
        late = steps > 0.9 * self.total_steps
        text = left.annotate(label, (steps, 0.98), xycoords=("data", "axes fraction"), xytext=(-3 if late else 3, 0),
                             textcoords="offset points", rotation=90, va="top", ha="right" if late else "left", fontsize=12,
                             bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1})  # fmt: skip
        text.set_in_layout(False)
        return first, second, text

    def update(self, history):
        self.returns.update(history, rescale=False)
        self.side.update(history, self.name, rescale=False)
        grown = [self.returns.make_room(history["mean_return"]), self.side.make_room(history[self.name])]
        if any(grown):
            self._place()

    def _place(self):
        """Let the axes find their places again: tick labels have changed their width."""
        self.fig.set_layout_engine("constrained")
        self.painter = Painter(self.fig)


class Panel(widgets.VBox):
    """Made by `panel`. Its buttons as methods: start, pause, resume, step, stop.

    Attributes:
        mode: "idle", "training", "paused", "stopped", "finished" or "failed".
        state: the TrainingState, None before the first update.
        changes: every change of a setting while the training ran (env_steps, field, value).
        error: the exception that ended the training, or None.
    """

    def __init__(self, algorithm, env, options, change, choose, looks, title, width):
        self.algorithm, self.env, self.options, self.looks = algorithm, env, options, looks
        self.change, self.controls, self.title, self.width = set(change), {**choose, **change}, title, width
        self.runs = [Run(setting, seed) for setting in algorithm.settings() for seed in options["seeds"]]
        self.mode, self.state, self.changes, self.error = "idle", None, [], None
        self._updates = self._task = None
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None  # plain Python: there is step, but nothing that trains by itself
        self._build()
        self._clear()
        _remember(self)

    # ---- what a reader does; callable from a cell, too ----------------------------------------------------------------

    def start(self):
        """Start a new training with the settings where the controls stand; what was learned before is dropped."""
        self._soon(self._start)

    def pause(self):
        """Pause after the present update; other cells may look at `.state`."""
        self._soon(self._pause)

    def resume(self):
        """Go on after a pause."""
        self._soon(self._resume)

    def step(self):
        """One update, then pause. After the end of a training: nothing, because a new one would drop what was learned."""
        self._soon(self._step)

    def stop(self):
        """End the training; `.result` keeps what was learned."""
        self._soon(self._stop)

    def close(self):
        """Stop, and take the panel out of the page. Called when its cell runs again, and after its cell was deleted."""
        self._end("stopped")
        self._drawing = None
        for part in _parts(self):
            widgets.Widget.close(part)

    @property
    def result(self):
        """TrainingResult of what was learned so far; None before the first update. A copy, training on does not change it."""
        return None if self.state is None else self.state.result()

    def values(self):
        """Where the controls stand, {field: value}."""
        return {name: control.tidy(self.inputs[name].value) for name, control in self.controls.items()}

    # ---- the training -------------------------------------------------------------------------------------------------

    def _soon(self, function):
        """Call it between two updates: at once on the loop's own thread, else when the loop gets to it."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if self._loop is None or here is self._loop:
            self._safely(function)
        else:
            self._loop.call_soon_threadsafe(self._safely, function)

    def _safely(self, function):
        try:
            function()
        except Exception as error:
            self._fail(error)

    def _start(self):
        self._prepare()
        self._resume()

    def _prepare(self):
        """A new training, not yet begun."""
        self._end("stopped")
        self.state, self.changes, self.error = None, [], None
        self._clear()
        settings = dataclasses.replace(self.algorithm, **self.values())
        self._updates = iterate(settings, self.env, **self.options)

    def _resume(self):
        if self._updates is not None and self._task is None and self._loop is not None:
            self._clock = None
            self._task = self._loop.create_task(self._train())
            self._enter("training")

    def _pause(self):
        if self._updates is not None:
            self._halt()
            self._enter("paused")

    def _step(self):
        self._halt()
        if self.mode == "idle":
            self._prepare()
        if self._updates is not None and self._advance():
            self._enter("paused")

    def _stop(self):
        if self._updates is not None:
            self._end("stopped")
            self._enter("stopped")

    def _halt(self):
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def _end(self, mode):
        """Let go of the task and of the environments."""
        self._halt()
        updates, self._updates = self._updates, None
        if updates is not None:
            self.mode = mode
            updates.close()

    async def _train(self):
        while self._advance():
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self._safely(self._draw_if_due)
            await asyncio.sleep(0)

    def _advance(self):
        """One update. Returns whether there are more to come."""
        try:
            state = next(self._updates, None)
        except (Exception, KeyboardInterrupt) as error:  # an interrupt that got as far as the loop would end the kernel
            self._fail(error)
            return False
        if state is None:
            self._end("finished")
            self._enter("finished")
            return False
        first, self.state = self.state is None, state
        if first:  # what was moved since the start
            for name in self.change:
                self._changed(name)
        return True

    def _fail(self, error):
        self._end("failed")
        self.error = error
        self._enter("failed")

    def _changed(self, name):
        """A control was moved: a training that runs or pauses goes on with the new value."""
        if self._updates is None or self.state is None or name not in self.change:
            return
        value, control = self.values()[name], self.controls[name]
        if value == getattr(self.state.algorithm, name):
            return
        setattr(self.state.algorithm, name, value)
        last = self.changes[-1] if self.changes else Change(-np.inf, "", 0)
        near = last.field == name and self.state.env_steps - last.env_steps <= NEAR * self.state.total_steps
        self.changes.append(Change(self.state.env_steps, name, value))
        self._drawing.mark(self.state.env_steps, f"{control.label} → {control.text(value)}", instead=near)
        self._say()
        self._draw()

    # ---- what is to be seen -------------------------------------------------------------------------------------------

    def _build(self):
        rows, self.inputs = rows_of(self.controls, self.width, least=8)
        for name, one in self.inputs.items():
            one.observe(lambda _, name=name: self._soon(lambda: self._changed(name)), "value")
        toggles = lambda: self._pause() if self._task is not None else self._resume()  # noqa: E731
        actions = {"Start": self._start, "Pause": toggles, "Step": self._step, "Stop": self._stop}
        self.buttons = {name: widgets.Button(description=name) for name in actions}
        tips = ("with the settings above", "and go on", "one update, then pause", "and keep what was learned in .result")
        for (name, button), tip in zip(self.buttons.items(), tips, strict=True):
            button.tooltip = f"{name}: {tip}"
            button.layout.width = "7em"
            button.on_click(lambda _, action=actions[name]: self._soon(action))
        self.buttons["Start"].button_style = "primary"
        self.shown = [name for name in DIAGNOSTICS if name != "clip_fraction" or hasattr(self.algorithm, "clip_epsilon")]
        options = [(DIAGNOSTICS[name][0], name) for name in self.shown[1:]]
        self.side = widgets.Dropdown(options=options, value="entropy", description="on the right:",
                                     style={"description_width": "auto"}, layout=widgets.Layout(width="max-content"))  # fmt: skip
        self.side.observe(lambda _: self._soon(self._look_aside), "value")
        bar = widgets.HBox([*self.buttons.values(), self.side], layout=widgets.Layout(flex_flow="row wrap"))
        self.picture, self.progress, self.table = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.line = widgets.HTML().add_class("rlcourse-line")
        super().__init__([*rows, bar, self.line, self.picture, self.progress, self.table])
        self.add_class("rlcourse-panel").add_class("rlcourse-widget")

    def _clear(self):
        """A new, empty picture."""
        self._clock, self._next_time, self._tenth = None, 0.0, 0
        self._drawing = _Drawing(self.runs, self.options["total_steps"], **self.looks)
        self._drawing.show(self.side.value)
        self._enter("idle")

    def _look_aside(self):
        self._drawing.show(self.side.value)
        self._draw()

    def _enter(self, mode):
        """Go to this mode and show it."""
        self.mode = mode
        self.buttons["Start"].description = "Start" if mode == "idle" else "Restart"
        self.buttons["Pause"].description = "Resume" if mode == "paused" else "Pause"
        for name, one in self.inputs.items():
            one.disabled = self._updates is not None and name not in self.change
        self._say()
        self._draw()

    def _say(self):
        """The line that a screen reader reads out: what the training does, and what was found."""
        words = html.escape(self.sentence())
        role, look = ('role="alert" class="rlcourse-error"', RED) if self.error is not None else ("", "")
        failed = self.state.agent.failed if self.state is not None else {}
        for run, why in sorted(failed.items()):
            note = html.escape(f"{self._name(run)} was quarantined: {why}.")
            words += f'<div class="rlcourse-error" style="{RED}">{note}</div>'
        look = f"min-height:2.8em;line-height:1.4;max-width:{self.width}px;{look}"
        self.line.value = f'<div {role} style="{look}">{words}</div>'

    def sentence(self):
        """State and finding in words: the line of the panel."""
        if self.error is not None:
            last = " ".join(traceback.format_exception_only(self.error)[-1].split())
            return f"The training has ended with an error after {self._steps()}. {last}"
        if self.state is None:
            return "Training starts." if self.mode == "training" else "Not started. Press Start, or Step for one update."
        state = self.state
        words = f"{self.mode.capitalize()}. Mean return {finding(state, 'mean_return')}"
        if self._drawing is not None and self._drawing.marks:
            words += " Changed: " + ", ".join(f"{label} at {steps:,} steps" for steps, label, *_ in self._drawing.marks) + "."
        return words + (" The result so far is in .result." if self.mode == "stopped" else "")

    def _steps(self):
        return f"{self.state.env_steps if self.state is not None else 0:,} steps per run"

    def _count(self):
        return f"{len(self.runs)} run{'s' * (len(self.runs) > 1)}"

    def _name(self, run):
        setting, seed = self.runs[run]
        return f"Run {run} ({', '.join([*(f'{name} = {value}' for name, value in setting.items()), f'seed {seed}'])})"

    def _draw_if_due(self):
        state, now = self.state, time.monotonic()
        if self._clock is None:
            self._clock = now, state.env_steps
        if now >= self._next_time:
            self._draw()
            tenth = state.env_steps * 10 // state.total_steps, len(state.agent.failed)
            if tenth != self._tenth:  # seldom, because it is read out
                self._tenth = tenth
                self._say()

    def _draw(self):
        started = time.monotonic()
        if self._drawing is None:
            return
        pixels, alt = self._frame()
        sliders = sum(isinstance(control, Slider) for control in self.controls.values())
        hook = f'data-sliders="{sliders}" data-title="{html.escape(self.title)}" onload="{NAME_PARTS}"'
        self.picture.value = image_tag(fast_png(pixels), alt, SIZE, self.width, hook)
        self.progress.value, self.table.value = self._progress(started), self._table()
        now = time.monotonic()
        self._next_time = now + max(1 / REDRAWS, (now - started) / SHARE)

    def _frame(self):
        self._drawing.empty.set_visible(self.mode == "idle")
        if self.state is not None:
            self._drawing.update(self.state.history)
        side = DIAGNOSTICS[self.side.value][0]
        alt = f"{self.title}: learning curves of {self._count()}, and their {side}. {self.sentence()}"
        return self._drawing.painter.paint(), check_alt(alt)

    def _progress(self, now):
        total, done = self.options["total_steps"], self.state.env_steps if self.state is not None else 0
        words = f"0% of {total:,} steps per run"
        if self.state is not None:
            started, steps = self._clock if self._clock and self.mode == "training" else (now, done)
            words = progress(self.state, now - started, steps)
        words = html.escape(f"{self.title}, {self._count()}: {words}")
        return f'<div><progress aria-label="progress" max="{total}" value="{min(done, total)}"></progress> {words}</div>'

    def _table(self):
        """Median and range over the runs of each diagnostic, as of the last update."""
        rows = '<tr><th scope="col">last update</th><th scope="col">median</th><th scope="col">range over runs</th></tr>'
        for name in self.shown:
            head, tip = DIAGNOSTICS[name]
            last = np.array([]) if self.state is None else self.state.latest(name)
            last = last[np.isfinite(last)]
            median, reach = (f"{np.median(last):.3g}", f"{last.min():.3g} to {last.max():.3g}") if last.size else ("–", "–")
            rows += f'<tr><th scope="row" title="{tip}">{head}</th><td>{median}</td><td>{reach}</td></tr>'
        widths = '<col><col style="width:7em"><col style="width:14em">'  # so that nothing moves
        return f'<table style="line-height:1.4;text-align:right"><colgroup>{widths}</colgroup>{rows}</table>'

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = super()._repr_mimebundle_(include=include, exclude=exclude)
        live = dict(live[0] if isinstance(live, tuple) else live or {})
        pixels, alt = self._frame()
        data, metadata = Picture(png(pixels), alt, self.width, text=f"[live training: {self.title}]",
                                 live=False)._repr_mimebundle_()  # fmt: skip
        return live | data, metadata


def _parts(widget):
    """A widget and everything inside it, with their layouts and styles."""
    for child in getattr(widget, "children", ()):
        yield from _parts(child)
    yield from filter(None, (getattr(widget, "layout", None), getattr(widget, "style", None), widget))


# -------------------------------------------------------------------------------- one panel for each cell that shows one

_PANELS = {}  # id of a cell -> the panels that its last run made


def _remember(panel):
    """Close this panel when its cell runs again or is deleted: the old one would train on, out of sight."""
    shell = notebook()
    cell = shell and home(shell)
    if cell:
        shell.events.register("pre_run_cell", _cell_starts)  # the same function once, however often it is registered
        _PANELS.setdefault(cell, []).append(panel)


def home(shell):
    """The id of the cell that runs, None where the page does not tell."""
    return shell.kernel.get_parent().get("metadata", {}).get("cellId")


def _cell_starts(info):
    gone = notebook().kernel.get_parent().get("metadata", {}).get("deletedCells", [])
    for cell in {info.cell_id, *gone}:
        for panel in _PANELS.pop(cell, []):
            panel.close()


def panel(algorithm, env, *, total_steps, seeds, change=None, choose=None, threshold=None, labels=None, title=None,
          batched=True, width=WIDTH):  # fmt: skip
    """A live training panel: the last line of a cell. It waits until somebody presses Start.

    Args:
        algorithm, env, total_steps, seeds, batched: as for `train`.
        change: {field: slider(…)} for fields that may be moved while the training runs, such as gae_lambda, clip_epsilon,
            max_kl, learning_rate. The curve marks where.
        choose: {field: slider(…) or choice(…)} for fields that are fixed during training, such as num_envs.
        threshold, labels: as for `learning_curve`.
        title: of the panel; algorithm and environment if not given.
        width: in the page, CSS pixels.

    Returns:
        Panel; `.result` is a TrainingResult of what was learned so far.

    Raises:
        ValueError, TypeError: as `train`; or a control that does not fit its field.
    """
    options = {"total_steps": total_steps, "seeds": seeds, "batched": batched}
    if seeds is not None and not isinstance(seeds, int):
        options["seeds"] = list(seeds)
    iterate(algorithm, env, **options).close()  # refuses what is out of range, here and now
    with contextlib.closing(make_env(env, 1, batched=batched)) as world:
        title = title or f"{type(algorithm).__name__} on {world.name}"
    for name, given in (("change", change), ("choose", choose)):
        if given is not None and not isinstance(given, dict):
            raise TypeError(f"{name} = {given!r}; expected a dict such as {{'gae_lambda': slider(0, 1, 0.05, value=0.95)}}.")
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title = {title!r}; expected a text.")
    check_whole("width", width, 200)
    for name, control in {**(change or {}), **(choose or {})}.items():
        _check(algorithm, name, control)
    fixed = sorted(set(change or {}) & {"num_envs", "normalize_reward", *algorithm.network()})
    if fixed:
        raise ValueError(f"{', '.join(fixed)}: fixed once the training has started; put it into choose instead of change.")
    both = sorted(set(change or {}) & set(choose or {}))
    if both:
        raise ValueError(
            f"{', '.join(both)}: in change and in choose; put it into change, which may be set before the start, too."
        )
    return Panel(algorithm, env, options, change or {}, choose or {}, {"threshold": threshold, "labels": labels}, title, width)


def _check(algorithm, name, control):
    """A control belongs to a field with one value, starts where the field stands, and its ends are allowed there."""
    kind = type(algorithm).__name__
    if not isinstance(control, Slider | Choice):
        raise TypeError(f"{name}: expected slider(…), choice(…) or toggle(…), got {control!r}.")
    fields = [field.name for field in dataclasses.fields(algorithm)]
    if name not in fields:
        raise ValueError(f"{kind} has no setting {name!r}; it has {', '.join(fields)}.")
    value = getattr(algorithm, name)
    if isinstance(value, tuple) and name != "hidden_sizes":
        raise ValueError(
            f"{name} = {value}: one value per setting, which one control cannot change. Give {kind} a single number."
        )
    if control.value != value:
        raise ValueError(f"{name}: its control starts at {control.value!r}, but {kind} has {value!r}. Give both the same value.")
    for end in control.ends():
        dataclasses.replace(algorithm, **{name: end})
