"""The visit to a patient: its symptom, and a box to put a diagnosis in; for the keyboard, for screen readers, and on paper."""

import html

import ipywidgets as widgets

from rlcourse.classroom.clinic.patient import DIAGNOSES, judge
from rlcourse.classroom.clinic.source import sick_lines
from rlcourse.classroom.clinic.symptoms import picture
from rlcourse.classroom.explorer import NAME_PARTS
from rlcourse.classroom.figures import WIDTH, check_alt, image_tag, show

CHOOSE, CHOOSE_LINE = "choose a diagnosis", "choose a line"


class Visit(widgets.VBox):
    """Made by `visit`. `choose(key)` does what a hand would; `result` is what the box says.

    When the diagnosis is right, the code around the fault appears, and a second list asks for the line.
    """

    def __init__(self, one):
        self.patient, self.result = one, judge(one, None)
        fig, alt = picture(one)
        self.still = show(fig, alt=check_alt(alt), text=f"[visit: {one.name}]")
        hook = f'data-sliders="0" data-title="Patient {html.escape(one.name)}" onload="{NAME_PARTS}"'
        look = widgets.HTML(image_tag(self.still.png, alt, fig.get_size_inches(), WIDTH, hook))
        options = [(CHOOSE, None), *((f"{key}: {sentence}", key) for key, sentence in DIAGNOSES.items())]
        self.guess = widgets.Dropdown(
            options=options, description="Diagnosis", tooltip=f"Diagnosis of {one.name}",
            layout=widgets.Layout(width=f"{WIDTH - 120}px", max_width="100%"),
        )  # fmt: skip
        self.button = widgets.Button(description="Check", tooltip=f"Check the diagnosis of {one.name}")
        numbers = sick_lines(*one.faults)[1] if one.faults else ()
        self.number = widgets.Dropdown(
            options=[(CHOOSE_LINE, None), *((str(number), number) for number in numbers)], description="Line",
            tooltip=f"Line of {one.name}", layout=widgets.Layout(width="220px", display="none"),
        )  # fmt: skip
        self.line, self.code = widgets.HTML(self._words()).add_class("rlcourse-line"), widgets.HTML()
        self.button.on_click(lambda _: self.check())
        super().__init__([look, widgets.HBox([self.guess, self.button]), self.number, self.line, self.code])
        self.add_class("rlcourse-widget")

    def check(self):
        """Judge what the lists show."""
        self.result = judge(self.patient, self.guess.value, self.number.value)
        self.line.value, self.code.value = self._words(), self.result.code_html()
        self.number.layout.display = None if self.result.code else "none"

    def _words(self):
        return f'<div style="line-height:1.4">{self.result.html()}</div>'  # JupyterLab sets the lines of widgets wide apart

    def choose(self, key, line=None):
        """Set the lists to this diagnosis and this line, and press the button."""
        self.guess.value, self.number.value = key, line
        self.check()

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = super()._repr_mimebundle_(include=include, exclude=exclude)
        live = dict(live[0] if isinstance(live, tuple) else live or {})
        data, metadata = self.still._repr_mimebundle_()
        return live | data, metadata
