import time

import numpy as np
import pytest
from nbclient import NotebookClient
from nbformat import v4

from rlcourse import VPG, train
from rlcourse.classroom import LiveCurve, live
from rlcourse.classroom.live import describe, progress


class Run:
    def __init__(self, setting, seed):
        self.setting, self.seed = setting, seed


class State:
    """What a callback sees of a training."""

    def __init__(self, runs=5, total_steps=10_000):
        self.total_steps, self.env_steps, self.iteration = total_steps, 0, 0
        self.runs = [Run({}, seed) for seed in range(runs)]
        self.columns = {"env_steps": [], "mean_return": []}

    def step(self, returns, steps=1000):
        self.env_steps, self.iteration = self.env_steps + steps, self.iteration + 1
        self.columns["env_steps"].append(np.full(len(self.runs), self.env_steps, float))
        self.columns["mean_return"].append(np.broadcast_to(np.asarray(returns, float), len(self.runs)))
        return self

    @property
    def history(self):
        return {name: np.stack(column, 1) for name, column in self.columns.items()}


class Shell:
    """The shell of a kernel, as far as a live curve knows it; `shown` is what the cell's output holds."""

    def __init__(self, monkeypatch):
        self.events, self.hooks, self.shown, self.updates = self, [], [], 0
        monkeypatch.setattr(live, "notebook", lambda: self)
        monkeypatch.setattr("IPython.display.display", self.display)

    def register(self, event, hook):
        assert event == "post_run_cell"
        self.hooks.append(hook)

    def unregister(self, event, hook):
        self.hooks.remove(hook)

    def display(self, thing, display_id):
        self.shown.append(thing)
        return self

    def update(self, thing):
        self.shown[-1] = thing
        self.updates += 1

    def end_cell(self):
        for hook in list(self.hooks):
            hook("result")


@pytest.fixture
def shell(monkeypatch):
    return Shell(monkeypatch)


def test_outside_a_notebook_it_does_nothing(capsys):
    state, curve = State(), LiveCurve()
    for k in range(10):
        assert curve(state.step(k)) is None
    assert curve.picture is None and capsys.readouterr() == ("", "")


def test_while_training_it_shows_curve_and_progress_and_at_the_end_the_finished_picture(shell):
    state, curve = State(), LiveCurve(threshold=9)
    curve(state.step(np.nan))
    (box,) = shell.shown
    assert "no value yet after 1,000 steps" in box.children[0].value and 'alt="Learning curves' in box.children[0].value
    first = box.children[0].value
    curve.screen.next_time = 0
    time.sleep(0.02)
    curve(state.step([1, 2, 3, 4, 5]))
    assert box.children[0].value != first and "median 3" in box.children[0].value
    assert "20% of 10,000 steps per run, about " in box.children[1].value
    for k in range(8):
        assert curve(state.step(k)) is None  # True would end the training
    assert shell.shown == [curve.picture] and not shell.hooks
    assert curve.picture.alt == (
        "Learning curves, mean return of 5 runs against environment steps per run: after 10,000 steps 7 to 7, median 7."
    )
    assert box.comm is None  # closed: nothing is left in the kernel


def test_a_cell_that_ends_early_leaves_the_picture_so_far(shell):
    """Stopped by hand, by an error, or by another callback: the cell ends, and the curve with it."""
    state, curve = State(), LiveCurve()
    curve(state.step(1))
    curve(state.step(2))
    shell.end_cell()
    assert shell.shown == [curve.picture] and "after 2,000 steps" in curve.picture.alt and not shell.hooks
    shell.end_cell()
    assert shell.updates == 1


class Clock:
    """Time that passes only when told to, or when something is drawn."""

    def __init__(self, monkeypatch, cost):
        self.now, self.cost = 100.0, cost
        monkeypatch.setattr(live.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(live, "fast_png", self.draw)

    def draw(self, pixels):
        self.now += self.cost
        return b"picture"


@pytest.mark.parametrize(("cost", "redraws"), [(0.001, 30), (0.1, 10), (1.0, 1)])
def test_it_redraws_at_most_three_times_a_second_and_spends_a_tenth_of_the_time(shell, monkeypatch, cost, redraws):
    clock = Clock(monkeypatch, cost)
    state, curve, pictures = State(total_steps=10**9), LiveCurve(), set()
    while clock.now < 110:
        curve(state.step(1))
        pictures.add(shell.shown[0].children[0].value)
        clock.now += 0.01
    assert redraws - 2 <= len(pictures) <= redraws


def test_one_object_serves_one_training_after_another(shell):
    curve = LiveCurve()
    for _ in range(2):
        state = State(total_steps=2000)
        curve(state.step(1))
        curve(state.step(2))
    assert len(shell.shown) == 2 and shell.updates == 2 and not shell.hooks
    curve(State().step(1))
    curve(State().step(1))  # a training that never ended, then a new one
    assert len(shell.shown) == 4 and shell.updates == 3 and len(shell.hooks) == 1


def test_limits_grow_seldom(shell, monkeypatch):
    monkeypatch.setattr(live, "REDRAWS", 1e9)
    monkeypatch.setattr(live, "SHARE", 1e9)
    state, curve = State(total_steps=10**6), LiveCurve(threshold=475)
    limits = set()
    for k in range(60):
        curve(state.step(500 * (1 - np.exp(-k / 20))))
        limits.add(curve.screen.curves.ax.get_ylim())
    assert len(limits) <= 3
    low, high = curve.screen.curves.ax.get_ylim()
    assert low <= 0 and high >= 475 and curve.screen.curves.ax.get_xlim() == (0, 10**6)


@pytest.mark.parametrize(("seconds", "words"), [(0.0, "20% of 10,000 steps per run, about 0 s left"), (3.0, "about 24 s left")])
def test_time_left_counts_from_the_first_update(seconds, words):
    state = State().step(1).step(2)
    assert words in progress(state, seconds, 1000)


def test_no_time_left_is_told_before_it_is_known():
    assert progress(State().step(1), 1.0, 1000) == "10% of 10,000 steps per run"


def test_description_leaves_out_runs_that_failed():
    state = State().step([1, 2, np.nan, 4, np.nan])
    assert "1 to 4, median 2" in describe(state, "mean_return")


def test_with_a_real_training(shell):
    curve = LiveCurve(threshold=475)
    algorithm = VPG(num_envs=4, num_steps=32, gae_lambda=[0.5, 1.0])
    result = train(algorithm, "CartPole-v1", total_steps=1024, seeds=[0, 1], progress=False, callbacks=[curve])
    assert shell.shown == [curve.picture] and not shell.hooks
    assert f"median {np.median(result.history['mean_return'][:, -1]):.4g}." in curve.picture.alt


def test_in_a_kernel_the_stored_output_is_a_picture_however_the_cell_ends():
    code = """
def stop(state):
    if state.iteration == 3:
        {}
train(VPG(num_envs=4, num_steps=64), "CartPole-v1", total_steps=2000, seeds=range(3), callbacks=[LiveCurve(475), stop]);
"""
    start = v4.new_code_cell("from rlcourse import VPG, train\nfrom rlcourse.classroom import LiveCurve")
    cells = [v4.new_code_cell(code.format(end)) for end in ("pass", "return True", "raise KeyboardInterrupt", "1 / 0")]
    notebook = v4.new_notebook(cells=[start, *cells])
    NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, store_widget_state=False).execute()
    for cell, error in zip(cells, [None, None, "KeyboardInterrupt", "ZeroDivisionError"], strict=True):
        (picture,) = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert set(picture.data) == {"image/png", "text/plain"}
        assert picture.metadata["image/png"]["alt"].startswith("Learning curves, mean return of 3 runs")
        assert [output.get("ename") for output in cell.outputs if output.output_type == "error"] == [error] * bool(error)
        assert not [output for output in cell.outputs if output.output_type == "stream"]
