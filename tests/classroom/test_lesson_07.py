"""Lesson 07: its cells hold the patients' texts as they are in the clinic, and its widget works everywhere."""

import json

import numpy as np
import pytest

from rlcourse.classroom import lesson_07
from rlcourse.classroom.clinic import DIAGNOSES, PATIENTS
from rlcourse.classroom.clinic.patient import complaint_text, cure_text
from rlcourse.classroom.data import DATA, data_path
from rlcourse.classroom.exercises import lesson_07 as exercises
from rlcourse.classroom.explorer import View

CELLS = json.loads((DATA.parent / "07_debugging_clinic.ipynb").read_text(encoding="utf-8"))["cells"]
MARKDOWN = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


@pytest.mark.parametrize("one", PATIENTS, ids=lambda one: one.name)
def test_each_patient_has_its_complaint_its_box_and_its_cure(one):
    assert complaint_text(one) in MARKDOWN and cure_text(one) in MARKDOWN, "run the text of patients.py into the lesson again"
    assert f'visit("{one.name}")' in CODE


def test_all_diagnoses_are_listed():
    text = "\n".join(text for text in MARKDOWN if "<b>Diagnoses, from" in text)
    assert all(f"- `{key}`: {sentence}" in text for key, sentence in DIAGNOSES.items())


def test_the_stored_file_says_how_it_was_made():
    facts = json.loads(str(np.load(data_path("07_symptoms.npz"))["facts"]))
    assert facts["command"] == "python tools/make_data.py lesson_07 07_symptoms.npz"
    assert any("`python tools/make_data.py lesson_07`" in text and "07_symptoms.npz" in text for text in MARKDOWN)


def test_the_widget_is_sound_everywhere():
    charts = lesson_07.charts()
    assert View(**charts).trouble() == []
    assert set(charts["controls"]["name"].ends()) == {one.name for one in lesson_07.sick_patients()}


def test_the_widget_says_where_sick_and_healthy_end():
    for one in lesson_07.sick_patients():
        sentence = lesson_07.describe(lesson_07.compute(one.name, "kl"), one.name, "kl")
        assert "sick" in sentence and "healthy" in sentence
    (symptom, _) = lesson_07.compute("six motors", "kl")
    assert symptom.curves["sick"]["kl"][1, -1] > 5 * symptom.curves["healthy"]["kl"][1, -1]
    nothing = lesson_07.describe(lesson_07.compute("over the limit", "clip_fraction"), "over the limit", "clip_fraction")
    assert "was not recorded" in nothing


def test_the_needles_move_as_the_solution_says():
    expected = ["lower", "same", "same", "higher", "lower", "lower"]
    assert [exercises.moved(name) for name in exercises.NEEDLES] == expected
