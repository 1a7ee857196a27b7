"""A picture that follows sliders: explore(title=…, compute=…, draw=…, describe=…, controls={…}).

    def compute(gae_lambda):                        # pure: numbers in, data out; this is what the tests call
        return gae_lambda ** np.arange(20)

    def draw(fig):                                  # makes the artists once, returns the function that updates them
        ax = fig.subplots()
        (line,) = ax.plot(np.arange(20), np.zeros(20), "o")
        ax.set(xlabel="steps ahead", ylabel="weight (no unit)", ylim=(0, 1.05))
        return line.set_ydata

    def describe(data, gae_lambda):                 # the finding, one sentence
        return f"ten steps ahead the weight is {data[10]:.2f}."

    weights = dict(title="Weight of later residuals", compute=compute, draw=draw, describe=describe,
                   controls={"gae_lambda": slider(0, 1, 0.01, value=0.95, label="λ")})

    explore(**weights)                                                                  # one cell: the widget
    three_settings([{"gae_lambda": 0}, {"gae_lambda": 0.9}, {"gae_lambda": 1}], **weights)   # another: the same, printed

The figure is kept and its artists are updated; each position is drawn once and remembered; while the kernel is idle the
neighbouring positions are drawn ahead. Below the picture stands the sentence, which is also its alt text. If compute, draw or
describe raises, the error takes the sentence's place in red. One output carries the widget and a picture with alt text, so a
reader without a kernel sees the picture. (`interact` swallows errors, and `Output` fails strict nbval.)

Moves may arrive in the kernel's main thread or in one of their own (JupyterLab sends them through a kernel subshell, and
ipykernel answers where the widget last spoke). That is why drawing holds a lock (`figures.style`).
"""

import asyncio
import contextlib
import html
import time
import traceback

import ipywidgets as widgets
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcourse.classroom.controls import Slider, choice, rows_of, slider, toggle
from rlcourse.classroom.figures import DPI, SIZE, WIDTH, Picture, check_alt, image_tag, layout_faults, paint, png, show, style
from rlcourse.classroom.painter import Painter, fast_png

__all__ = ["choice", "explore", "slider", "three_settings", "toggle"]

REMEMBERED = 300  # pictures kept per widget, about 90 kB each
PAUSE = 0.01  # seconds between two pictures drawn ahead, so that a new move gets its turn
REST = 0.4  # seconds without a move before positions of the other controls are drawn ahead
SLOW = 0.2  # seconds; a picture that takes longer is not drawn ahead, or a move would have to wait for it
_LINE = "min-height:4.2em;line-height:1.4"  # room for three lines, so that a longer sentence moves nothing
RED = "background:#fff;color:#b00020;border-left:4px solid;padding:0 .6em"

# ipywidgets gives a slider's handle no name and a text no live region. The picture's load event does both: it copies
# each label to its slider, and makes the line below the picture one that a screen reader reads out when it changes. It
# also keeps JupyterLab from taking Enter on a button as "edit this cell".
NAME_PARTS = (
    "(f=n=>{const b=this.closest('.rlcourse-widget'),s=b?[...b.querySelectorAll('[role=slider]')]:[];"
    "if(!b||s.length<this.dataset.sliders)return n&&setTimeout(()=>f(n-1),50);"
    "s.forEach(h=>h.setAttribute('aria-label',h.closest('.rlcourse-control').querySelector('label').textContent));"
    "b.querySelectorAll('button').forEach(x=>x.setAttribute('data-lm-suppress-shortcuts','true'));"
    "b.setAttribute('role','group');b.setAttribute('aria-label',this.dataset.title);"
    "b.querySelector('.rlcourse-line .widget-html-content').setAttribute('aria-live','polite')})(40)"
)


class View:
    """compute, draw and describe put together on one figure: values in, (pixels, sentence) out."""

    def __init__(self, title, compute, draw, describe, controls, size):
        self.title, self.compute, self.describe, self.controls = title, compute, describe, controls
        with style():
            self.fig = Figure(figsize=size, dpi=DPI, layout="constrained")
            self.painter = Painter(self.fig)
            self.update = draw(self.fig)
        if not callable(self.update):
            raise TypeError(f"draw must return the function that updates its artists, got {type(self.update).__name__}")

    def start(self):
        return {name: control.tidy(control.value) for name, control in self.controls.items()}

    def settings(self, values):
        return ", ".join(f"{control.label} = {control.text(values[name])}" for name, control in self.controls.items())

    def frame(self, values):
        data = self.compute(**values)
        finding = self.describe(data, **values)
        if not isinstance(finding, str) or not finding.strip():
            raise ValueError(f"describe must return the finding in a sentence, got {finding!r}")
        sentence = check_alt(f"{self.title}, {self.settings(values)}: {finding}")
        with style():
            self.update(data)
            return self.painter.paint(), sentence

    def trouble(self):
        """Go to both ends of every slider and to every option; what goes wrong there, as sentences. For tests."""
        found = []
        for values in [self.start(), *(self.start() | {name: end} for name, c in self.controls.items() for end in c.ends())]:
            try:
                pixels, _ = self.frame(values)
            except Exception as error:
                found.append(f"{self.settings(values)}: {type(error).__name__}: {error}")
                continue
            found += [f"{self.settings(values)}: {fault}" for fault in layout_faults(self.fig)]
            if not np.array_equal(pixels, paint(self.fig)):
                found.append(f"{self.settings(values)}: an artist below the grid was not drawn anew")
        return found


class Explorer(widgets.VBox):
    """Made by `explore`."""

    def __init__(self, view, width=WIDTH):
        self.view, self._width = view, width
        self._seen, self._plan, self._busy = {}, [], False
        rows, self.inputs = rows_of(view.controls, width)
        reset = widgets.Button(description="Reset", tooltip=f"{view.title}: back to the starting values")
        reset.on_click(lambda _: self.set(**view.start()))
        self.picture, self.line = widgets.HTML(), widgets.HTML().add_class("rlcourse-line")
        self.picture.value, self.line.value = self._look(self.values())
        faults = layout_faults(view.fig)
        if faults:
            raise ValueError("the figure cannot be shown like this: " + "; ".join(faults))
        super().__init__([*rows, reset, self.picture, self.line])
        self.add_class("rlcourse-explorer").add_class("rlcourse-widget")
        for name, one in self.inputs.items():
            one.observe(lambda change, name=name: self._moved(name, change), "value")

    def values(self):
        """Where the controls stand: {name: value}, as compute gets them."""
        return {name: control.tidy(self.inputs[name].value) for name, control in self.view.controls.items()}

    def set(self, **values):
        """Move controls from code, as a hand would, with one new picture at the end."""
        self._busy = True
        for name, value in values.items():
            self.inputs[name].value = value
        self._busy = False
        self._refresh(self.values())
        self._draw_ahead(self.values())

    def _moved(self, name, change):
        if not self._busy:
            values = self.values()
            self._refresh(values)
            down = isinstance(change.new, int | float) and change.new < change.old
            self._draw_ahead(values, name, -1 if down else 1)

    def _refresh(self, values):
        self._plan = []  # whatever was being drawn ahead is out of date
        try:
            self.picture.value, self.line.value = self._look(values)
        except Exception as error:
            self.picture.value, self.line.value = self._sorry(values, error)

    def _look(self, values):
        """(HTML of the picture, HTML of the line) at these values, from memory if they were drawn before."""
        key = tuple(values.values())
        look = self._seen.get(key)
        if look is None:
            pixels, sentence = self.view.frame(values)
            sliders = sum(isinstance(control, Slider) for control in self.view.controls.values())
            hook = f'data-sliders="{sliders}" data-title="{html.escape(self.view.title)}" onload="{NAME_PARTS}"'
            tag = image_tag(fast_png(pixels), sentence, self.view.fig.get_size_inches(), self._width, hook)
            look = tag, f'<div style="{_LINE};max-width:{self._width}px">{html.escape(sentence)}</div>'
            self._seen[key] = look
            if len(self._seen) > REMEMBERED:
                self._seen.pop(next(iter(self._seen)), None)
        return look

    def _sorry(self, values, error):
        """(An empty picture of the same size, what went wrong in red)."""
        last = " ".join(traceback.format_exception_only(error)[-1].split())
        sentence = f"No picture for {self.view.settings(values)}. {last}"
        grey = np.full((*self.view.fig.canvas.get_width_height()[::-1], 3), 240, np.uint8)
        line = f'<div role="alert" class="rlcourse-error" style="{_LINE};{RED}">{html.escape(sentence)}</div>'
        return image_tag(fast_png(grey), sentence, self.view.fig.get_size_inches(), self._width), line

    def _draw_ahead(self, values, moved=None, direction=1):
        """Draw likely next positions while the kernel is idle: of the control that moved; after a rest, of the others too."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # plain Python: nothing is ever idle
        names = sorted(self.view.controls, key=lambda name: name != moved)
        steps = {name: self.view.controls[name].around(values[name], direction if name == moved else 1) for name in names}
        self._plan = plan = [(name, step) for name in names for step in steps[name]]

        def draw_one(rested=False):
            while plan and plan is self._plan:  # there was no new move
                name, step = plan[0]
                ahead = values | {name: step}
                if tuple(ahead.values()) not in self._seen:
                    if name != moved and not rested:
                        return loop.call_later(REST, draw_one, True)
                    started = time.perf_counter()
                    with contextlib.suppress(Exception):  # shown to the reader who goes there
                        self._look(ahead)
                    if time.perf_counter() - started > SLOW:
                        return None
                    plan.pop(0)
                    return loop.call_later(PAUSE, draw_one, rested)
                plan.pop(0)

        loop.call_later(PAUSE, draw_one)

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = super()._repr_mimebundle_(include=include, exclude=exclude)
        live = dict(live[0] if isinstance(live, tuple) else live or {})
        pixels, sentence = self.view.frame(self.values())
        still = Picture(png(pixels), sentence, self._width, text=f"[interactive figure: {self.view.title}]", live=False)
        data, metadata = still._repr_mimebundle_()
        self._draw_ahead(self.values())
        return live | data, metadata


def explore(*, title, compute, draw, describe, controls, size=SIZE, width=WIDTH):
    """A figure with controls: the last line of a cell.

    Args:
        title: what the figure shows, a few words; the sentence below the picture starts with it.
        compute: pure function (**values) -> data.
        draw: function (figure) -> update; makes axes and artists once. update(data) sets them to data.
        describe: function (data, **values) -> the finding in one sentence. It is the visible line and the picture's alt text.
        controls: {name: slider(…) or choice(…) or toggle(…)}.
        size: of the figure, inches.
        width: in the page, CSS pixels.

    Raises:
        ValueError: no control; a label is clipped, overlaps another, or is too small to read. What compute, draw or describe
            raise at the start values.
    """
    if not controls:
        raise ValueError("explore needs at least one control; for a picture without one use show")
    return Explorer(View(title, compute, draw, describe, controls, size), width)


def three_settings(settings, *, title, compute, draw, describe, controls, size=SIZE, columns=3, width=WIDTH):
    """The static figure beside a widget: the same compute and draw at three settings, for readers with no kernel.

    Args:
        settings: list of dicts; each names the controls that differ from their start, as [{"gamma": 0}, {}, {"gamma": 1}].
        columns: 3 puts them side by side, 1 one below the other; `size` is that of one row.
        The rest as for `explore`.
    """
    unknown = {name for setting in settings for name in setting} - set(controls)
    if unknown or not settings:
        got = sorted(unknown) or settings
        raise ValueError(f"settings needs at least one dict and the names {', '.join(controls)}; got {got}")
    rows = -(-len(settings) // columns)
    with style():
        fig = Figure(figsize=(size[0], size[1] * rows), dpi=DPI, layout="constrained")
        FigureCanvasAgg(fig)
        sentences = []
        for part, setting in zip(fig.subfigures(rows, columns, squeeze=False).flat, settings, strict=False):
            values = {key: control.tidy(setting.get(key, control.value)) for key, control in controls.items()}
            data = compute(**values)
            draw(part)(data)
            name = ", ".join(f"{controls[key].label} = {controls[key].text(values[key])}" for key in setting) or "start"
            part.suptitle(name)
            sentences.append(f"{name}: {describe(data, **values)}")
    alt = f"{title}, three settings. " + " ".join(sentences)
    return show(fig, alt=alt, width=width, text=f"[{title}, three settings]")
