"""Slides, hand-outs, warm-up and bundle: made from a small lesson of our own, and the notes from the real ones."""

import base64
import io
import re
import zipfile
from pathlib import Path

import bs4
import nbformat
import pytest
from nbformat import v4
from PIL import Image

from tools import bundle, lecture, warmup
from tools.lint import Lesson

ROOT = Path(__file__).parents[1]
LESSONS = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
NOTES = sorted(lecture.NOTES.glob("[0-9][0-9].md"))


def picture(width=1440, height=544, white=()):
    image = Image.new("L", (width, height), 0)
    for row in white:
        image.paste(255, (0, row, width, row + 1))
    image.save(file := io.BytesIO(), "png")
    return file.getvalue()


def shown(png, alt):
    data = {"image/png": base64.b64encode(png).decode(), "text/plain": "<Figure>"}
    return v4.new_output("display_data", data, metadata={"image/png": {"alt": alt}})


def code(source, *outputs, tags=()):
    return v4.new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)})


@pytest.fixture
def lesson(tmp_path):
    """A lesson with one of everything."""
    fold = "<details><summary><b>{}</b></summary>\n\n{}\n</details>"
    cells = [
        v4.new_markdown_cell("# 09 · A *small* lesson\n\nIt promises $x^2 < 1.25$ & more."),
        v4.new_markdown_cell(
            "## Derivation\n\n### Step 1. Add\n\n$$\\sum_t x_t = 1$$\n\nSee [02](02_x.ipynb), [it](https://a.b)."
        ),
        code("check_me = 1", v4.new_output("stream", text="difference <= 1e-10: True")),
        code("shown_always = 1", tags=["show-code"]),
        v4.new_markdown_cell("### Step 10. Ten\n\nText."),
        v4.new_markdown_cell("## Build it\n\n```python\n# no heading\n```"),
        code("def build_me(): pass"),
        code("hide_me = 1", tags=["hide-code"]),
        v4.new_markdown_cell("## Touch it\n\nPredict."),
        code("explore(**WIDGET)", shown(picture(), "a live widget")),
        code("panel(ALGORITHM)", shown(picture(), "a live panel")),
        code("three_settings(WIDGET)", shown(picture(height=1632, white=[700, 820]), "three settings")),
        v4.new_markdown_cell(fold.format("What you should have noticed", "It **moves**.")),
        code("numbers = 1", v4.new_output("stream", text="the numbers behind")),
        v4.new_markdown_cell("## Exercises\n\nProve it.\n\n" + fold.format("Solution", "SECRET")),
        code("answer = ...  # yours"),
    ]
    path = tmp_path / "09_small.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture
def deck(lesson, tmp_path):
    return bs4.BeautifulSoup(lecture.slides(lesson, tmp_path / "out").read_text(encoding="utf-8"), "html.parser")


@pytest.fixture
def handout(lesson, tmp_path):
    (path,) = lecture.handout(lesson, tmp_path / "out")
    return bs4.BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def titles(deck):
    return [bs4.BeautifulSoup(section["data-title"], "html.parser").get_text() for section in deck.find_all("section")]


# ------------------------------------------------------------------------------------------------------------ sections


def test_headings_become_sections(deck):
    assert titles(deck) == [
        "09 · A small lesson",
        "Derivation",
        "Step 1. Add",
        "Step 10. Ten",
        "Build it",
        "Touch it",
        "What you should have noticed",
        "Touch it",
        "Exercises",
    ]
    assert [section["class"][0] for section in deck.find_all("section")][:3] == ["title", "part", "step"]
    assert deck.find("section", class_="step")["data-part"] == "Derivation"
    names = [section["id"] for section in deck.find_all("section")]
    assert len(set(names)) == len(names)  # each slide has its own address


def test_code_is_shown_where_it_is_the_matter_and_else_kept_for_a_key(deck):
    text = {section["id"]: section for section in deck.find_all("section")}
    hidden = " ".join(code.get_text() for code in deck.find_all(class_="code-of"))
    shown = " ".join(pre.get_text() for s in text.values() for pre in s.find_all("pre", recursive=False))
    for name in ("check_me", "hide_me", "explore("):
        assert name in hidden and name not in shown
    for name in ("shown_always", "build_me", "answer = ..."):
        assert name in shown and name not in hidden
    assert "difference <= 1e-10: True" in shown


def test_a_worksheet_is_the_lesson_without_its_solutions(tmp_path):
    lesson = next((lecture.ROOT / "notebooks").glob("02_*.ipynb"))
    made = nbformat.read(lecture.worksheet(lesson, tmp_path), as_version=4)
    text = "\n".join(cell.source for cell in made.cells)
    assert "<b>Solution" not in text and "<b>Hint" in text and 'check("02.1"' in text
    before = nbformat.read(lesson, as_version=4)
    assert len(before.cells) - len(made.cells) == sum("<b>Solution" in cell.source for cell in before.cells) >= 4
    nbformat.validate(made)


def test_no_solution_leaves_the_notebook(deck, handout):
    assert "Prove it" in deck.text and "Prove it" in handout.text
    assert "SECRET" not in str(deck) + str(handout)
    assert "It moves." in deck.text and "It moves." in handout.text


def test_a_widget_is_a_picture_on_slides_and_its_three_settings_in_print(deck, handout):
    assert [image["alt"] for image in deck.find_all("img")] == [
        "a live widget",
        "a live panel",
        "three settings",
        "three settings",
    ]
    assert [image["alt"] for image in handout.find_all("img")] == ["three settings"]
    assert deck.find("figcaption") and not handout.find("figcaption")


def test_the_handout_has_all_code_on_demand(lesson, handout, tmp_path):
    assert "build_me" in handout.text and "check_me" not in handout.text
    (path,) = lecture.handout(lesson, tmp_path / "out", all_code=True)
    assert "check_me" in bs4.BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").text


@pytest.mark.parametrize(("tag", "on_slides", "in_print"), [("skip-slides", 0, 1), ("skip-handout", 1, 0), ("other", 1, 1)])
def test_tags_leave_cells_out(lesson, tag, on_slides, in_print):
    notebook = nbformat.read(lesson, as_version=4)
    notebook.cells[4].metadata["tags"] = [tag]
    nbformat.write(notebook, lesson)
    for slides, expected in ((True, on_slides), (False, in_print)):
        assert sum("Step 10" in section.title for section in lecture.sections(lesson, slides=slides)) == expected


def test_only_links_into_the_web_stay_links(deck):
    assert [link["href"] for link in deck.find_all("a")] == ["https://a.b"]
    assert "See 02, it." in deck.text


# ------------------------------------------------------------------------------------------------------------ formulas


def test_formulas_are_drawings_that_say_what_they_are(handout):
    formulas = handout.find_all("svg", class_="math")
    assert [formula["aria-label"] for formula in formulas] == ["x^2 < 1.25", r"\sum_t x_t = 1"]
    assert formulas[1].parent["class"] == ["formula"] and formulas[1].parent.parent.name == "main"
    glyphs = {symbol["id"] for symbol in handout.find(id="glyphs").find_all("symbol")}
    used = {use["href"][1:] for formula in formulas for use in formula.find_all("use")}
    assert used and used == glyphs  # each once, for the whole page
    assert "$" not in handout.body.text


@pytest.mark.parametrize(("latex", "trouble"), [(r"\frac{1", "cannot be drawn"), (r"x + \nosuch", r"\\nosuch is not known")])
def test_a_formula_that_cannot_be_drawn_is_named(latex, trouble):
    with pytest.raises(ValueError, match=f"{re.escape(repr(latex))}.*{trouble}.*simpler"):
        lecture.drawing(latex, True)


def test_large_braces_are_braces():
    assert lecture.drawing(r"\Big\{x\Big\}", False)[0].count("<use") == 3


@pytest.mark.parametrize(
    ("latex", "lines"),
    [
        (r"a = b", 1),
        (r"a = b,\qquad c = d", 1),
        (r"a = b + b + b + b + b + b + b + b + b + b + b + b + b,\qquad c = d + d + d + d + d + d + d + d + d + d + d", 2),
        (r"\boxed{a = b + b + b + b + b + b + b + b + b + b + b + b + b,\qquad c = d + d + d + d + d + d + d + d + d + d}", 1),
    ],
)
def test_a_wide_formula_is_broken_where_its_parts_meet(latex, lines):
    assert lecture.display(latex).count("<svg") == lines


def test_a_tall_figure_is_cut_at_white_rows():
    parts = lecture.cut_if_tall(picture(height=1632, white=[10, 700, 820, 1500]))
    assert [Image.open(io.BytesIO(part)).size for part in parts] == [(1440, 820), (1440, 812)]
    three_rows = lecture.cut_if_tall(picture(height=1632, white=[544, 1088]))
    assert [Image.open(io.BytesIO(part)).size for part in three_rows] == [(1440, 544)] * 3
    assert lecture.cut_if_tall(png := picture(height=864)) == [png]
    for white in ([], [1500]):  # no white row, or one near an end: better small than cut in the wrong place
        assert lecture.cut_if_tall(png := picture(height=1632, white=white)) == [png]


# --------------------------------------------------------------------------------------------------------------- notes


def test_notes_come_with_their_section(lesson, tmp_path, monkeypatch):
    monkeypatch.setattr(lecture, "NOTES", tmp_path)
    text = "# Notes\n\nPlan.\n\n### Step 1 (7 min)\n\nAsk: is $x$ large?\n\n## Touch it\n\nWait.\n"
    (tmp_path / "09.md").write_text(text, encoding="utf-8")
    deck = bs4.BeautifulSoup(lecture.slides(lesson, tmp_path / "out").read_text(encoding="utf-8"), "html.parser")
    notes = {section["data-title"][:8]: section.aside.text for section in deck.find_all("section") if section.aside}
    assert notes == {"Step 1. ": "7 minutesAsk: is  large?", "Touch it": "Wait."}
    assert [section["data-minutes"] for section in deck.find_all("section")].count("7") == 1
    assert "Wait." not in lecture.slides(lesson, tmp_path / "out", with_notes=False).read_text(encoding="utf-8")
    assert "Wait." not in lecture.handout(lesson, tmp_path / "out")[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_every_note_belongs_to_one_section_of_its_lesson(path):
    titles = [text for level, text in Lesson(LESSONS[path.stem]).headings() if level <= 3]
    for name in lecture.read_notes(path):
        assert sum(bool(lecture.belongs(name, title)) for title in titles) == 1, f"{path.name}: {name!r}"


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_the_minutes_of_the_notes_fill_the_time_that_they_promise(path):
    lectures, length = map(int, re.search(r"(\d) × (\d\d) min", path.read_text(encoding="utf-8")).groups())
    minutes = sum(minutes or 0 for minutes, _ in lecture.read_notes(path).values())
    assert 0.93 * lectures * length <= minutes <= lectures * length, minutes


# ------------------------------------------------------------------------------------------------- warm-up and bundle


def test_warm_up_names_what_fails(tmp_path, capsys):
    for name, source in (("good", "x = 1"), ("bad", "x = 1\n1 / 0")):
        cells = [v4.new_code_cell("y = 2"), v4.new_code_cell(source, id=f"{name}-cell")]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), tmp_path / f"{name}.ipynb")
    before = (tmp_path / "good.ipynb").read_bytes()
    assert warmup.main([str(tmp_path / "good.ipynb")]) == 0
    assert re.match(r"ok +\d+ s .*good\.ipynb\n1 of 1 lessons ran in \d+ s", capsys.readouterr().out)
    assert (tmp_path / "good.ipynb").read_bytes() == before
    assert warmup.main([str(tmp_path / "bad.ipynb")]) == 1
    assert re.search(r"FAILED +\d+ s .*bad\.ipynb +cell bad-cell: ZeroDivisionError: division by zero", capsys.readouterr().out)


def test_a_bundle_holds_the_course_and_the_wheels_and_nothing_else(tmp_path):
    course = ["course.py", ".gitignore", "notebooks/00.ipynb", "rlcourse/a.py", "tools/lecture/deck.js"]
    other = [".git/config", ".venv/bin/python", "my_course/00.ipynb", "lecture/old.zip", "tools/__pycache__/a", "a.egg-info/b"]
    for name in (*course, *other):
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).touch()
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "torch.whl").touch()
    bundle.pack(tmp_path / "repo", tmp_path / "wheels", tmp_path / "b.zip")
    names = {name.removeprefix("rlcourse/") for name in zipfile.ZipFile(tmp_path / "b.zip").namelist()}
    assert names == {*course, "wheels/torch.whl"}


def test_the_bundle_takes_every_requirement_and_what_builds_the_package():
    pins, build = bundle.wanted()
    assert any(pin.startswith("torch==") for pin in pins) and all("==" in pin for pin in pins)
    assert any(name.startswith("setuptools") for name in build)


FOREIGN = ["", "# text", '{"cells": 3}', '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}']


@pytest.mark.parametrize("content", FOREIGN)
def test_what_is_no_notebook_is_named(tmp_path, content):
    path = tmp_path / "foreign.ipynb"
    path.write_text(content, encoding="utf-8")
    for tool in (lambda: lecture.main(["worksheet", str(path)]), lambda: warmup.main([str(path)])):
        with pytest.raises(SystemExit, match="foreign.ipynb is no notebook"):
            tool()
