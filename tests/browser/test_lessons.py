"""Every lesson, and a lesson made here that shows the widgets at their worst, in a real JupyterLab in a real browser."""

from pathlib import Path

import nbformat
import pytest
from audit import audit_lesson
from latency import measure, row
from nbformat import v4

pytestmark = pytest.mark.browser

LESSONS = sorted(path.name for path in (Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SETUP = """
import numpy as np
from rlcourse.classroom import choice, explore, new_figure, show, slider, toggle

def compute(gae_lambda, horizon, kind, shown):
    if gae_lambda == 1.0:
        raise ZeroDivisionError("the sum of all <weights> has no end")
    weights = gae_lambda ** np.arange(50.0)
    return np.where(np.arange(50) < horizon, weights, 0), np.cumsum(weights) * shown

def draw(fig):
    left, right = fig.subplots(1, 2)
    (line,) = left.plot(np.arange(50), np.zeros(50), "o-", markersize=4)
    bars = right.bar(np.arange(50), np.zeros(50))
    left.set(xlabel="steps ahead", ylabel="weight (no unit)", ylim=(0, 1.05))
    right.set(xlabel="steps ahead", ylabel="sum of weights (no unit)", ylim=(0, 20))
    def update(data):
        line.set_ydata(data[0])
        for bar, height in zip(bars, data[1]):
            bar.set_height(height)
    return update

def describe(data, gae_lambda, horizon, kind, shown):
    return f"the weights sum to {data[0].sum():.2f}."
"""
WIDGET = """
explore(title="Weights of GAE", compute=compute, draw=draw, describe=describe, controls={
    "gae_lambda": slider(0.0, 1.0, 0.01, value=0.5, label="λ"),
    "horizon": slider(1, 50, 1, value=50, label="horizon (steps)"),
    "kind": choice(["sum", "mean"], value="sum", label="statistic"),
    "shown": toggle(value=True, label="show the sums"),
})
"""
FIGURE = """
fig, ax = new_figure()
ax.plot([1, 2, 3])
ax.set(xlabel="step", ylabel="value (reward units)")
show(fig, alt="A straight line that rises from one to three.")
"""
TRAINING = """
from rlcourse import VPG, train
from rlcourse.classroom import LiveCurve
result = train(VPG(), "CartPole-v1", total_steps=30_000, seeds=range(3), callbacks=[LiveCurve(threshold=475)])
"""


@pytest.fixture(scope="session")
def demo(site):
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [v4.new_code_cell(source.strip()) for source in (SETUP, WIDGET, FIGURE, TRAINING)]
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), site / "demo.ipynb")
    return "demo.ipynb"


def no_trouble(lesson):
    for output in lesson.outputs():
        assert output["type"] != "error" and output["name"] != "stderr", output
    assert lesson.trouble == []


def settled(box):
    """Wait until the picture and the line below it say the same, and return it; an error of the widget fails here."""
    from playwright.sync_api import expect

    line = box.locator(".rlcourse-line .widget-html-content")
    box.page.wait_for_function("box => !box.querySelector('img') || box.querySelector('img').alt === "
                               "box.querySelector('.rlcourse-line').innerText.trim()", arg=box.element_handle())  # fmt: skip
    expect(box.locator(".rlcourse-error")).to_have_count(0)
    return line.inner_text().strip()


def to_both_ends(box):
    """Move every slider by keyboard to both ends, every list to every option; the line must follow each time."""
    page = box.page
    for slider in box.locator("[role=slider]").all():
        label, start = slider.get_attribute("aria-label"), slider.get_attribute("aria-valuetext")
        assert label
        seen = {start: settled(box)}
        for key in ("End", "Home", "ArrowRight"):
            slider.focus()
            page.keyboard.press(key)
            value = slider.get_attribute("aria-valuetext")
            if value != list(seen)[-1]:
                page.wait_for_function("([box, old]) => box.querySelector('.rlcourse-line').innerText.trim() !== old",
                                       arg=[box.element_handle(), list(seen.values())[-1]])  # fmt: skip
            seen.pop(value, None)
            seen[value] = settled(box)
            assert f"{label} = " in seen[value]
        assert len(seen) >= 2 and len(set(seen.values())) == len(seen)
    for choices in box.locator("select").all():
        for option in choices.locator("option").all_inner_texts()[::-1]:
            choices.select_option(option)
            wait_for_line(box, f" = {option}".replace("\N{NO-BREAK SPACE}", " "))
            settled(box)
    box.get_by_role("button", name="Reset").click()


@pytest.mark.parametrize("name", LESSONS)
def test_lesson(lab, browser, shots, name):
    """Run all; no error anywhere; every picture has alt text; every control of every widget moves its picture."""
    with lab.open(browser, f"notebooks/{name}") as lesson:
        lesson.run_all()
        no_trouble(lesson)
        for number in lesson.cells_with_pictures():
            for image in lesson.cell(number).locator(".jp-OutputArea img, .jp-MarkdownOutput img").all():
                assert len(image.get_attribute("alt") or "") > 10, f"cell {number}: a picture without alt text"
        for number, box in enumerate(lesson.explorers()):
            start = settled(box)
            to_both_ends(box)
            lesson.page.wait_for_function("([box, text]) => box.querySelector('.rlcourse-line').innerText.trim() === text",
                                          arg=[box.element_handle(), start])  # fmt: skip
            wide = box.evaluate("box => box.scrollWidth - box.clientWidth")
            assert wide <= 1, f"widget {number} is {wide} px wider than the page"
            lesson.page.screenshot(path=shots / f"{name[:2]}-widget-{number}.png")
        no_trouble(lesson)
        findings = [finding for finding in audit_lesson(lesson) if finding["impact"] in ("critical", "serious")]
        assert findings == [], "axe-core: see tests/browser/audit.py"
    print(f"screenshots: {shots}")


def test_widget(lab, browser, shots, demo, record_property):
    """The widget itself: alt text, names, errors, numbers typed in, speed, and nothing left behind."""
    with lab.open(browser, demo) as lesson:
        page = lesson.page
        lesson.run_all()
        no_trouble(lesson)
        assert lesson.cell(2).locator("img").get_attribute("alt") == "A straight line that rises from one to three."

        # training: the widget has given way to a picture with alt text
        training = lesson.cell(3)
        assert training.locator("img").get_attribute("alt").startswith("Learning curves, mean return of 3 runs")
        assert training.locator(".widget-html img").count() == 0
        page.screenshot(path=shots / "demo-training.png")

        (box,) = lesson.explorers()
        assert box.get_attribute("aria-label") == "Weights of GAE" and box.get_attribute("role") == "group"
        assert settled(box) == box.locator("[aria-live=polite]").inner_text().strip()
        assert [s.get_attribute("aria-label") for s in box.get_by_role("slider").all()] == ["λ", "horizon (steps)"]
        for label in ("λ", "horizon (steps)"):
            assert box.get_by_role("spinbutton", name=label, exact=True).count() == 1
        assert (
            box.get_by_role("combobox", name="statistic").count()
            == box.get_by_role("checkbox", name="show the sums").count()
            == 1
        )
        page.screenshot(path=shots / "demo-widget.png")

        # a number typed in
        number = box.get_by_role("spinbutton", name="λ", exact=True)
        number.fill("0.735")
        number.press("Enter")
        wait_for_line(box, "λ = 0.735, ")
        settled(box)

        # an error is shown in place of the line, and goes away
        first = box.get_by_role("slider", name="λ", exact=True)
        size = {side: box.bounding_box()[side] for side in ("width", "height")}
        first.focus()
        page.keyboard.press("End")
        wait_for_line(box, "No picture for λ = 1.00, ")
        assert box.get_by_role("alert").inner_text().endswith("ZeroDivisionError: the sum of all <weights> has no end")
        page.screenshot(path=shots / "demo-error.png")
        assert {side: box.bounding_box()[side] for side in size} == size
        page.keyboard.press("ArrowLeft")
        wait_for_line(box, "λ = 0.99, ")
        settled(box)
        box.get_by_role("checkbox", name="show the sums").click()
        wait_for_line(box, "show the sums = off")
        box.get_by_role("button", name="Reset").click()
        wait_for_line(box, "λ = 0.50, horizon (steps) = 50, statistic = sum, show the sums = on")

        # speed, calm, and nothing left behind
        count = "import gc; from matplotlib.figure import Figure; print(sum(type(x) is Figure for x in gc.get_objects()))"
        figures = lesson.ask_kernel(count)
        seen = measure(page, box, first)
        record_property("measured", f"key press to changed picture: {row(seen['changes'])}")
        print(row(seen["changes"]))
        assert seen["blank"] == 0 and seen["jumps"] == 0
        assert lesson.ask_kernel(count) == figures
        no_trouble(lesson)
    print(f"screenshots: {shots}")


def wait_for_line(box, text):
    box.page.wait_for_function("([box, text]) => box.querySelector('.rlcourse-line').innerText.includes(text)",
                               arg=[box.element_handle(), text])  # fmt: skip
