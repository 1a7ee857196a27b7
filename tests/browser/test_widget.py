"""The widget itself, in a lesson made here that shows it at its worst."""

import nbformat
import pytest
from latency import measure, row
from nbformat import v4
from walk import no_trouble, settled, wait_for_line

pytestmark = pytest.mark.browser

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


KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


@pytest.fixture(scope="session")
def demo(site):
    cells = [v4.new_code_cell(source.strip()) for source in (SETUP, WIDGET, FIGURE, TRAINING)]
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL}), site / "demo.ipynb")
    return "demo.ipynb"


def type_in(number, text, box, words, tries=3):
    """Type a number and wait for its line. While JupyterLab scrolls a cell into view it may make its inputs anew, and what was
    typed into the old ones is lost: then type again, as a reader would."""
    from playwright.sync_api import TimeoutError as NothingHappened

    for attempt in range(tries):
        number.fill(text)
        number.press("Enter")
        try:
            return wait_for_line(box, words, None if attempt == tries - 1 else 20_000)
        except NothingHappened:
            if attempt == tries - 1:
                raise


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
        type_in(number, "0.735", box, "λ = 0.735, ")
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


VISIT = """
from rlcourse.classroom.clinic import visit

visit("careless pole")
"""


def test_visit(lab, browser, site):
    """A patient of the clinic: a wrong diagnosis, the right one, a healthy line, the sick one."""
    from playwright.sync_api import expect

    from rlcourse.classroom.clinic import DIAGNOSES, patient
    from rlcourse.classroom.clinic.source import sick_lines

    _, shown, (wrong,) = sick_lines(*patient("careless pole").faults)
    cells = [v4.new_code_cell(VISIT.strip())]
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL}), site / "visit.ipynb")
    with lab.open(browser, "visit.ipynb") as lesson:
        lesson.run_all()
        no_trouble(lesson)
        box = lesson.cell(0).locator(".rlcourse-widget")
        diagnosis, line = box.locator("select").all()
        said = box.locator(".rlcourse-line [role=note]")

        def check(key, number, words):
            diagnosis.select_option(index=1 + list(DIAGNOSES).index(key))
            if number:
                line.select_option(label=str(number))
            box.get_by_role("button", name="Check").click()
            expect(said).to_contain_text(words)

        assert not line.is_visible() and box.locator("pre").count() == 0
        check("order", None, "Not yet")
        assert not line.is_visible()
        check("termination", None, "And which line is it?")
        assert line.is_visible() and str(wrong) in box.locator("pre").inner_text()
        check("termination", min(shown), f"line {min(shown)} is as it should be")
        check("termination", wrong, f"Line {wrong} it is.")
        no_trouble(lesson)
