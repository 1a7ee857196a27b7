"""A picture that follows sliders: explore(compute=…, draw=…, describe=…, controls={…}).

    def weights(gae_lambda):                        # pure: numbers in, data out; this is what the tests call
        return gae_lambda ** np.arange(20)

    def draw(fig):                                  # makes the artists once, returns the function that updates them
        ax = fig.subplots()
        (line,) = ax.plot(np.arange(20), np.zeros(20), "o")
        ax.set(xlabel="steps ahead", ylabel="weight", ylim=(0, 1))
        return lambda data: line.set_ydata(data)

    def describe(data, gae_lambda):                 # one sentence: the finding
        return f"the weight falls by half every {np.log(2) / -np.log(gae_lambda):.1f} steps."

    weights_widget = explore(title="Weight of later residuals", compute=weights, draw=draw, describe=describe,
                             controls={"gae_lambda": slider(0.05, 0.99, 0.01, value=0.95, label="λ")})

The figure is kept and its artists are updated; each position is drawn once and remembered, and while the kernel is idle the
neighbouring positions are drawn ahead. Below the picture stands the sentence, which is also its alt text. If compute, draw or
describe raises, the error takes the sentence's place in red. One output carries the widget and a picture
with alt text, so a reader without a kernel sees the picture. (`interact` swallows errors, and `Output` fails strict nbval.)
"""

import asyncio
import html
import traceback
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from math import log10

import ipywidgets as widgets
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rlcourse.classroom.figures import DPI, SIZE, WIDTH, Picture, check_alt, image_tag, layout_faults, render, show, style

REMEMBERED = 300  # pictures kept per widget, about 100 kB each
AHEAD = (1, 2, 3, 4, 5, 6, -1, -2)  # steps drawn ahead, in the direction of the last move
_LINE = "min-height:2.8em;line-height:1.4"
_RED = "background:#fff;color:#b00020;border-left:4px solid;padding:0 .6em"
PAUSE = 0.005  # seconds between two pictures drawn ahead, so that a new move gets its turn

# ipywidgets gives a slider's handle no name and a text no live region. The picture's load event does both: it copies
# each label to its slider, and makes the line below the picture one that a screen reader reads out when it changes.
_NAME_PARTS = (
    "(f=n=>{const b=this.closest('.rlcourse-explorer'),s=b?[...b.querySelectorAll('[role=slider]')]:[];"
    "if(!b||s.length<this.dataset.sliders)return n&&setTimeout(()=>f(n-1),50);"
    "s.forEach(h=>h.setAttribute('aria-label',h.closest('.rlcourse-control').querySelector('label').textContent));"
    "b.setAttribute('role','group');b.setAttribute('aria-label',this.dataset.title);"
    "b.querySelector('.rlcourse-line .widget-html-content').setAttribute('aria-live','polite')})(40)"
)


@dataclass(frozen=True)
class Slider:
    """Made by `slider`."""

    low: float
    high: float
    step: float
    value: float
    label: str
    log: bool

    def build(self, width):
        """(row of widgets, widget that holds the value)."""
        kind = widgets.IntSlider if self.whole else widgets.FloatSlider
        number = widgets.BoundedIntText if self.whole else widgets.BoundedFloatText
        ends = {"min": self.low, "max": self.high}
        if self.log:
            kind, ends = widgets.FloatLogSlider, {"min": log10(self.low), "max": log10(self.high), "base": 10}
        bar = kind(value=self.value, step=self.step, readout=False, layout=widgets.Layout(width="auto", flex="1 1 auto"), **ends)
        box = number(value=self.value, min=self.low, max=self.high, step=None if self.log else self.step, description=self.label,
                     style={"description_width": width}, layout=widgets.Layout(width=f"calc({width} + 7em)"))  # fmt: skip
        bar.observe(lambda change: setattr(box, "value", self.tidy(change.new)), "value")
        box.observe(lambda change: setattr(bar, "value", self.snap(change.new)), "value")
        return widgets.HBox([box, bar]).add_class("rlcourse-control"), bar

    @property
    def whole(self):
        return not self.log and all(isinstance(x, int) for x in (self.low, self.high, self.step, self.value))

    def tidy(self, value):
        """The value without float dust, so that equal positions are equal."""
        return value if self.whole else float(f"{value:.6g}") if self.log else round(value, self.digits + 6)

    def snap(self, value):
        """Nearest position of the slider to a value that was typed."""
        return self.near(value, 0) if abs(self.near(value, 0) - value) > 1e-9 * self.step else value

    def near(self, value, steps):
        """Position `steps` away from the one nearest to value, within the ends."""
        scale, back = (log10, lambda x: 10**x) if self.log else (lambda x: x, lambda x: x)
        position = round((scale(value) - scale(self.low)) / self.step) + steps
        last = round((scale(self.high) - scale(self.low)) / self.step)
        return self.tidy(back(scale(self.low) + min(max(position, 0), last) * self.step))

    @property
    def digits(self):
        return max(0, -Decimal(str(self.step)).normalize().as_tuple().exponent)

    def around(self, value, direction):
        """Positions to draw ahead, the likely ones first."""
        return [self.near(value, steps * direction) for steps in AHEAD] + [self.tidy(self.low), self.tidy(self.high)]

    def text(self, value):
        return f"{value:.3g}" if self.log else f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class Choice:
    """Made by `choice` or `toggle`."""

    options: tuple
    value: object
    label: str
    box: bool = False

    def build(self, width):
        if self.box:
            one = widgets.Checkbox(value=self.value, description=self.label, indent=False)
        else:
            one = widgets.Dropdown(options=self.options, value=self.value, description=self.label,
                                   style={"description_width": width}, layout=widgets.Layout(width="max-content"))  # fmt: skip
        return widgets.HBox([one]).add_class("rlcourse-control"), one

    def tidy(self, value):
        return value

    def around(self, value, direction):
        return [other for _, other in self.options if other != value]

    def text(self, value):
        return next(name for name, other in self.options if other == value)


def slider(low, high, step=None, *, value, label, log=False):
    """A slider with a number field beside it.

    Args:
        low, high: ends, both reached. All four numbers of type int make a slider of whole numbers.
        step: of the slider and the arrow keys; one hundredth of the range if not given.
            With log=True it counts decades: 0.1, the default there, is ten steps from 0.01 to 0.1.
        value: where it starts and where Reset returns to.
        label: its name, with unit, as "learning rate α".
        log: a logarithmic slider; both ends above 0.
    """
    step = step if step is not None else 0.1 if log else (high - low) / 100
    if not low <= value <= high or low >= high or step <= 0:
        raise ValueError(f"slider {label!r}: need low ≤ value ≤ high, low < high, step > 0: {low=}, {high=}, {step=}, {value=}")
    if log and low <= 0:
        raise ValueError(f"slider {label!r}: a logarithmic slider needs low > 0, got {low}")
    return Slider(low, high, step, value, label, log)


def choice(options, *, value, label):
    """A drop-down list. `options`: a list of values, or a dict name -> value; `value` is where it starts."""
    pairs = tuple(options.items()) if isinstance(options, dict) else tuple((str(option), option) for option in options)
    if value not in [other for _, other in pairs]:
        raise ValueError(f"choice {label!r}: value={value!r} is not among the options {[other for _, other in pairs]}")
    return Choice(pairs, value, label)


def toggle(*, value, label):
    """A check box; the value is True or False."""
    return Choice((("off", False), ("on", True)), bool(value), label, box=True)


class View:
    """compute, draw and describe put together on one figure: values in, (PNG, sentence) out."""

    def __init__(self, title, compute, draw, describe, controls, size):
        self.title, self.compute, self.describe, self.controls = title, compute, describe, controls
        with style():
            self.fig = Figure(figsize=size, dpi=DPI, layout="constrained")
            FigureCanvasAgg(self.fig)
            self.update = draw(self.fig)

    def sentence(self, data, values):
        return check_alt(f"{self.title}, {self.settings(values)}: {self.describe(data, **values)}")

    def settings(self, values):
        return ", ".join(f"{control.label} = {control.text(values[name])}" for name, control in self.controls.items())

    def frame(self, values, compress_level=1):
        data = self.compute(**values)
        sentence = self.sentence(data, values)
        with style():
            self.update(data)
        png = render(self.fig, compress_level)
        if self.fig.get_layout_engine() is not None:  # the first drawing has placed the axes; now they stay where they are
            self.fig.set_layout_engine("none")
        return png, sentence


class Explorer(widgets.VBox):
    """Made by `explore`."""

    def __init__(self, view, width=WIDTH):
        self._view, self._width, self._cache, self._timer, self._queue, self._quiet = view, width, OrderedDict(), None, [], False
        label_width = f"{max(len(control.label) for control in view.controls.values()) * 0.6 + 1:.1f}em"
        rows, self.inputs = [], {}
        for name, control in view.controls.items():
            row, self.inputs[name] = control.build(label_width)
            row.layout.width, row.layout.max_width = f"{width}px", "100%"
            rows.append(row)
        self.reset = widgets.Button(description="Reset", tooltip=f"Back to the starting values of “{view.title}”")
        self.reset.on_click(self._start_over)
        self.picture, self.line = widgets.HTML(), widgets.HTML().add_class("rlcourse-line")
        self.picture.value, self.line.value = self._look(self.values())
        faults = layout_faults(view.fig)
        if faults:
            raise ValueError("the figure cannot be shown like this: " + "; ".join(faults))
        super().__init__([*rows, self.reset, self.picture, self.line])
        self.add_class("rlcourse-explorer")
        for name, one in self.inputs.items():
            one.observe(lambda change, name=name: self._moved(name, change), "value")

    def values(self):
        """Where the controls stand: {name: value}, as compute gets them."""
        return {name: control.tidy(self.inputs[name].value) for name, control in self._view.controls.items()}

    def set(self, **values):
        """Move controls from code, as a hand would."""
        for name, value in values.items():
            self.inputs[name].value = value

    def _look(self, values):
        """(HTML of the picture, HTML of the line) at these values, from memory if they were drawn before."""
        key = tuple(values.values())
        if key not in self._cache:
            png, sentence = self._view.frame(values)
            hook = f'data-sliders="{sum(isinstance(c, Slider) for c in self._view.controls.values())}" '
            hook += f'data-title="{html.escape(self._view.title)}" onload="{_NAME_PARTS}"'
            tag = image_tag(png, sentence, self._view.fig.get_size_inches(), self._width, hook)
            self._cache[key] = tag, f'<div style="{_LINE};max-width:{self._width}px">{html.escape(sentence)}</div>'
            if len(self._cache) > REMEMBERED:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def _moved(self, name, change):
        if self._quiet:
            return
        self._cancel()
        values = self.values()
        try:
            self.picture.value, self.line.value = self._look(values)
        except Exception as error:
            self._fail(error)
        else:
            self._plan(values, name, -1 if isinstance(change.new, int | float) and change.new < change.old else 1)

    def _fail(self, error):
        """Say in place of the line what went wrong; the picture, which is of another setting, fades."""
        last = html.escape(traceback.format_exception_only(error)[-1].strip())
        where = html.escape(self._view.settings(self.values()))
        self.line.value = f'<div role="alert" class="rlcourse-error" style="{_LINE};{_RED}">No picture for {where}. {last}</div>'
        self.picture.value = self.picture.value.replace("<img ", '<img hidden-setting style="opacity:.2" ', 1)

    def _start_over(self, _):
        self._quiet = True
        for name, control in self._view.controls.items():
            self.inputs[name].value = control.value
        self._quiet = False
        self._cancel()
        self.picture.value, self.line.value = self._look(self.values())

    def _plan(self, values, moved=None, direction=1):
        """Draw the neighbouring positions while the kernel is idle, those of the control that was moved first."""
        names = sorted(self._view.controls, key=lambda name: name != moved)
        self._queue = [values | {name: near} for name in names
                       for near in self._view.controls[name].around(values[name], direction if name == moved else 1)]  # fmt: skip
        self._later(PAUSE)

    def _later(self, seconds):
        try:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._draw_ahead)
        except RuntimeError:  # no loop is running: plain Python, nothing is idle
            self._queue = []

    def _draw_ahead(self):
        while self._queue:
            values = self._queue.pop(0)
            if tuple(values.values()) not in self._cache:
                try:
                    self._look(values)
                except Exception:  # shown when the reader gets there
                    pass
                return self._later(PAUSE)

    def _cancel(self):
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._queue = None, []

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = super()._repr_mimebundle_(include=include, exclude=exclude)
        live = dict(live[0] if isinstance(live, tuple) else live or {})
        png, sentence = self._view.frame(self.values(), compress_level=6)
        still, metadata = Picture(png, sentence, self._width, f"[interactive figure: {self._view.title}]")._repr_mimebundle_()
        still.pop("text/html", None)
        self._plan(self.values())
        return live | still, metadata


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
    rows = -(-len(settings) // columns)
    with style():
        fig = Figure(figsize=(size[0], size[1] * rows), dpi=DPI, layout="constrained")
        FigureCanvasAgg(fig)
        sentences = []
        for part, setting in zip(fig.subfigures(rows, columns, squeeze=False).flat, settings, strict=False):
            values = {name: control.tidy(setting.get(name, control.value)) for name, control in controls.items()}
            data = compute(**values)
            draw(part)(data)
            name = ", ".join(f"{controls[key].label} = {controls[key].text(values[key])}" for key in setting) or "start"
            part.suptitle(name)
            sentences.append(f"{name}: {describe(data, **values)}")
    alt = f"{title}, three settings. " + " ".join(sentences)
    return show(fig, alt=alt, width=width, text=f"[{title}, three settings]")
