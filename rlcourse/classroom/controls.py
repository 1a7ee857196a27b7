"""The controls of a widget: a slider with a number field, a list to choose from, a check box."""

from dataclasses import dataclass
from decimal import Decimal
from math import log10

import ipywidgets as widgets

AHEAD = (1, 2, 3, 4, -1)  # steps that are likely next, in the direction of the last move


def slider(low, high, step=None, *, value, label, log=False):
    """A slider with a number field beside it; the field takes any number between the ends.

    Args:
        low, high: ends, both reached. If low, high, step and value are all int, it is a slider of whole numbers.
        step: of the slider and the arrow keys; one hundredth of the range if not given.
            With log=True it counts decades: 0.1, the default there, is ten steps from 0.01 to 0.1.
        value: where it starts and where Reset returns to.
        label: its name, with unit, as "learning rate α".
        log: a logarithmic slider; both ends above 0.
    """
    step = step if step is not None else 0.1 if log else (high - low) / 100
    if not (low <= value <= high and low < high and step > 0):
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
    if not isinstance(value, bool):
        raise TypeError(f"toggle {label!r}: value must be True or False, got {value!r}")
    return Choice((("off", False), ("on", True)), value, label, box=True)


def rows_of(controls, width, least=0):
    """(rows of widgets, {name: the widget that holds the value}) of several controls, their labels as wide as the longest.

    width: of a row, CSS pixels. least: number of letters that every label has room for.
    """
    label_width = f"{max([least, *(len(control.label) for control in controls.values())]) * 0.6 + 1:.1f}em"
    rows, inputs = [], {}
    for name, control in controls.items():
        row, inputs[name] = control.build(label_width)
        row.layout.width, row.layout.max_width = f"{width}px", "100%"
        rows.append(row)
    return rows, inputs


@dataclass(frozen=True)
class Slider:
    """Made by `slider`."""

    low: float
    high: float
    step: float
    value: float
    label: str
    log: bool

    def build(self, label_width):
        """(row of widgets, the widget that holds the value)."""
        kind, number = (widgets.FloatSlider, widgets.BoundedFloatText)
        if self.whole:
            kind, number = (widgets.IntSlider, widgets.BoundedIntText)
        ends = {"min": self.low, "max": self.high}
        if self.log:
            kind, ends = widgets.FloatLogSlider, {"min": log10(self.low), "max": log10(self.high), "base": 10}
        flexible = widgets.Layout(width="auto", flex="1 1 auto")
        bar = kind(value=self.value, step=self.step, readout=False, tooltip=self.label, layout=flexible, **ends)
        box = number(value=self.value, min=self.low, max=self.high, step=None if self.log else self.step,
                     tooltip=f"{self.label}, from {self.text(self.low)} to {self.text(self.high)}",
                     description=self.label, style={"description_width": label_width},
                     layout=widgets.Layout(width=f"calc({label_width} + 7em)", flex="0 0 auto"))  # fmt: skip
        bar.observe(lambda change: setattr(box, "value", self.tidy(change.new)), "value")
        box.observe(lambda change: change.new != self.tidy(bar.value) and setattr(bar, "value", change.new), "value")
        return widgets.HBox([box, bar]).add_class("rlcourse-control"), bar

    @property
    def whole(self):
        return not self.log and all(isinstance(x, int) for x in (self.low, self.high, self.step, self.value))

    @property
    def digits(self):
        return max(0, -Decimal(str(self.step)).normalize().as_tuple().exponent)

    def tidy(self, value):
        """The value without float dust, so that equal positions are equal."""
        return value if self.whole else float(f"{value:.3g}") if self.log else round(value, self.digits + 4)

    def text(self, value):
        exact = f"{value:.{self.digits}f}"
        return exact if not self.log and float(exact) == value else f"{value:g}"

    def near(self, value, steps):
        """The position `steps` away from the one nearest to value, within the ends."""
        scale, back = (log10, lambda x: 10**x) if self.log else (lambda x: x, lambda x: x)
        position = round((scale(value) - scale(self.low)) / self.step) + steps
        return self.tidy(min(max(back(scale(self.low) + position * self.step), self.low), self.high))

    def ends(self):
        return [self.tidy(self.low), self.tidy(self.high)]

    def around(self, value, direction):
        """Positions to draw ahead, the likely ones first."""
        return [self.near(value, steps * direction) for steps in AHEAD] + self.ends()


@dataclass(frozen=True)
class Choice:
    """Made by `choice` or `toggle`."""

    options: tuple
    value: object
    label: str
    box: bool = False

    def build(self, label_width):
        if self.box:
            one = widgets.Checkbox(value=self.value, description=self.label, indent=False, tooltip=self.label)
        else:
            one = widgets.Dropdown(options=self.options, value=self.value, description=self.label, tooltip=self.label)
            one.style.description_width, one.layout.width = label_width, "max-content"
        return widgets.HBox([one]).add_class("rlcourse-control"), one

    def tidy(self, value):
        return value

    def text(self, value):
        return next(name for name, other in self.options if other == value)

    def ends(self):
        return [value for _, value in self.options]

    def around(self, value, direction):
        return [other for other in self.ends() if other != value]
