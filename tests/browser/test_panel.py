"""The training panel and the player of an episode in a real JupyterLab: by mouse and by keyboard, while other cells run."""

import re
import time

import nbformat
import pytest
from nbformat import v4
from walk import no_trouble

pytestmark = pytest.mark.browser

SETUP = """
from rlcourse import VPG
from rlcourse.classroom import panel, slider
"""
PANEL = """
settings = VPG(num_envs=16, num_steps=32, learning_rate=0.002, gae_lambda=0.95)
training = panel(settings, "CartPole-v1", total_steps=1_000_000, seeds=range(3), threshold=475,
                 change={"gae_lambda": slider(0, 1, 0.01, value=0.95, label="λ")})
training
"""
EPISODE = """
from rlcourse import train
from rlcourse.classroom import watch
watch(train(VPG(num_envs=4, num_steps=32), "CartPole-v1", total_steps=256, seeds=[0], progress=False).policy(), "CartPole-v1")
"""
BROKEN = """
import gymnasium
class Broken(gymnasium.Wrapper):
    def step(self, action):
        raise RuntimeError("the <pole> broke")
panel(VPG(), lambda: Broken(gymnasium.make("CartPole-v1")), total_steps=10_000, seeds=[0])
"""
OTHER = "print(training.mode, training.state is None)"
LINE = "document.querySelector('.rlcourse-panel .rlcourse-line').innerText"


@pytest.fixture(scope="session")
def demo(site):
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [v4.new_code_cell(source.strip()) for source in (SETUP, PANEL, OTHER, EPISODE, BROKEN)]
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), site / "panel.ipynb")
    return "panel.ipynb"


def picture(box):
    return box.locator("img").get_attribute("src")


def wait_for(page, text):
    page.wait_for_function(f"text => ({LINE}).includes(text)", arg=text)


def alive(lesson):
    """Tasks that train, and figures, in the kernel."""
    code = """
import asyncio, gc
from matplotlib.figure import Figure
gc.collect()
training_tasks = sum("Panel._train" in repr(task) for task in asyncio.all_tasks())
print(training_tasks, sum(issubclass(type(x), Figure) for x in gc.get_objects()))
"""
    return [int(number) for number in lesson.ask_kernel(code).split()]


def test_panel(lab, browser, shots, demo, record_property):
    """Start, see it learn, move λ while it trains, run another cell, pause, step, stop, take the result, run the cell again."""
    with lab.open(browser, demo) as lesson:
        page = lesson.page
        lesson.run_all()
        no_trouble(lesson)
        box = lesson.cell(1).locator(".rlcourse-panel[aria-label='VPG on CartPole-v1']")
        box.wait_for()
        assert lesson.ask_kernel(OTHER) == "idle True\n" and alive(lesson) == [0, 2]
        assert box.locator("[aria-live=polite]").inner_text().startswith("Not started.")
        page.screenshot(path=shots / "panel-idle.png")

        # by keyboard: JupyterLab must not take the keys for itself
        box.get_by_role("button", name="Start", exact=True).focus()
        page.keyboard.press("Enter")
        wait_for(page, "Training. Mean return after ")
        first = picture(box)
        page.wait_for_function("old => document.querySelector('.rlcourse-panel img').src !== old", arg=first)
        assert page.evaluate("() => document.activeElement.innerText") == "Restart"

        # a setting moved while it trains is marked, and used
        knob = box.get_by_role("slider", name="λ")
        knob.focus()
        page.keyboard.press("Home")
        wait_for(page, "Changed: λ → 0.00 at ")
        page.wait_for_function("() => document.querySelector('.rlcourse-panel img').alt.includes('λ → 0.00')")
        assert lesson.ask_kernel("print(training.mode, training.state.algorithm.gae_lambda)") == "training 0.0\n"
        page.screenshot(path=shots / "panel-training.png")

        # the kernel answers while it trains
        waits = []
        for _ in range(20):
            began = time.perf_counter()
            assert lesson.ask_kernel("print(1)") == "1\n"
            waits.append(1000 * (time.perf_counter() - began))
        update = float(lesson.ask_kernel("print(training.state.latest('seconds')[0] / training.state.iteration)"))
        waited = f"a cell waits {sorted(waits)[10]:.0f} ms (median of 20, max {max(waits):.0f})"
        record_property("measured", f"{waited} while an update takes {1000 * update:.0f} ms")
        lesson.cell(2).locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        lesson.cell(2).get_by_text("training False").wait_for()

        # pause: nothing moves; step: one update; resume
        lesson.reveal(1)
        box.get_by_role("button", name="Pause", exact=True).click()
        wait_for(page, "Paused. ")
        steps = int(lesson.ask_kernel("print(training.state.env_steps)"))
        page.wait_for_timeout(500)
        assert int(lesson.ask_kernel("print(training.state.env_steps)")) == steps
        box.get_by_role("button", name="Step", exact=True).click()
        wait_for(page, f"Paused. Mean return after {steps + 512:,} steps")
        assert alive(lesson) == [0, 2]
        box.get_by_role("button", name="Resume", exact=True).click()
        wait_for(page, "Training. ")

        # stop: the result stays
        box.get_by_role("button", name="Stop", exact=True).click()
        wait_for(page, "Stopped. ")
        shown = int(re.search(r"after ([\d,]+) steps", box.locator(".rlcourse-line").inner_text())[1].replace(",", ""))
        code = "print(int(training.result.history['env_steps'][0, -1]), training.result.policy(0).act([0.0] * 4) in (0, 1))"
        assert lesson.ask_kernel(code) == f"{shown} True\n"
        page.screenshot(path=shots / "panel-stopped.png")

        # run again: the old training ends, and nothing of it is left
        box.get_by_role("button", name="Restart", exact=True).click()
        wait_for(page, "Training. ")
        lesson.ask_kernel("old = training")
        page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; "
                      "return window.jupyterapp.commands.execute('notebook:run-cell'); }")  # fmt: skip
        wait_for(page, "Not started.")
        assert lesson.ask_kernel("print(old.mode, training.mode, old.comm)") == "stopped idle None\n"
        lesson.ask_kernel("del old")
        assert alive(lesson) == [0, 2]

        # an error is shown, and stays
        broken = lesson.cell(4).locator(".rlcourse-panel")
        broken.get_by_role("button", name="Start", exact=True).click()
        broken.get_by_role("alert").wait_for()
        page.screenshot(path=shots / "panel-error.png")
        page.wait_for_timeout(1000)
        assert "step() raised RuntimeError: the <pole> broke" in broken.get_by_role("alert").inner_text()

        # its cell deleted, a training ends as soon as another cell runs
        lesson.cell(1).get_by_role("button", name="Start", exact=True).click()
        wait_for(page, "Training. ")
        notebook, run = "window.jupyterapp.shell.currentWidget.content", "window.jupyterapp.commands.execute"
        page.evaluate(f"() => {{ {notebook}.activeCellIndex = 1; return {run}('notebook:delete-cell'); }}")
        assert lesson.ask_kernel(OTHER) == "training False\n"
        page.evaluate(f"() => {{ {notebook}.activeCellIndex = 1; return {run}('notebook:run-cell'); }}")
        lesson.cell(1).get_by_text("stopped False").wait_for()
        assert alive(lesson) == [0, 1]
        no_trouble(lesson)
    print(f"screenshots: {shots}")


def test_player(lab, browser, shots, demo):
    """It waits; Play plays to the end; the slider and its keys go to a frame; what happened stands below."""
    with lab.open(browser, demo) as lesson:
        page = lesson.page
        lesson.run_all()
        box = lesson.cell(3).locator(".rlcourse-player")
        image, frame = box.locator("img"), box.get_by_role("slider", name="frame")
        first, length = image.get_attribute("src"), int(frame.get_attribute("max"))
        page.wait_for_timeout(500)
        assert image.get_attribute("src") == first and box.locator("output").inner_text() == f"step 0 of {length}"
        assert f"in {length} steps, terminated" in image.get_attribute("alt")
        box.get_by_role("button", name="Play").focus()
        page.keyboard.press("Enter")
        box.get_by_role("button", name="Pause").wait_for()
        page.wait_for_function("length => document.querySelector('.rlcourse-player input').value == length", arg=length)
        box.get_by_role("button", name="Play").wait_for()
        assert image.get_attribute("src") != first and box.locator("output").inner_text() == f"step {length} of {length}"
        page.screenshot(path=shots / "player.png")
        frame.focus()
        for key, step in (("Home", 0), ("ArrowRight", 1), ("End", length)):
            page.keyboard.press(key)
            assert frame.get_attribute("aria-valuetext") == f"step {step} of {length}"
        box.get_by_role("button", name="First").click()
        assert image.get_attribute("src") == first
        no_trouble(lesson)
