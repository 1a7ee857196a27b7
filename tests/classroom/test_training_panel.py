import asyncio
import functools
import gc
import threading
import weakref

import gymnasium
import numpy as np
import pytest
from nbclient import NotebookClient
from nbformat import v4

from rlcourse import PPO, VPG, TrainingResult, train
from rlcourse.classroom import choice, layout_faults, panel, slider, training_panel

SMALL = VPG(num_envs=4, num_steps=32, gae_lambda=0.9, learning_rate=0.01)
UPDATE = 4 * 32  # environment steps per run
LAMBDA = {"gae_lambda": slider(0, 1, 0.01, value=0.9, label="λ")}


def make(algorithm=SMALL, env="CartPole-v1", *, updates=8, **more):
    return panel(algorithm, env, **{"total_steps": updates * UPDATE, "seeds": range(3), "change": LAMBDA} | more)


def in_loop(test):
    """Run an async test in a loop of its own; when it is over, no task may be left."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        async def whole():
            await asyncio.wait_for(test(*args, **kwargs), 600)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(whole())

    return run


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


class Worlds:
    """Makes CartPoles and knows which were closed. `fail_at`: the step of one of them that raises."""

    def __init__(self, fail_at=None):
        self.made, self.closed, self.fail_at = 0, 0, fail_at

    def __call__(self):
        worlds = self

        class World(gymnasium.Wrapper):
            steps = 0

            def step(self, action):
                self.steps += 1
                if self.steps == worlds.fail_at:
                    raise RuntimeError("the <pole> broke")
                return super().step(action)

            def close(self):
                worlds.closed += 1
                super().close()

        self.made += 1
        return World(gymnasium.make("CartPole-v1"))


@in_loop
async def test_it_trains_to_the_end_as_train_does():
    p = make()
    assert p.mode == "idle" and p.result is None and "Not started" in p.line.value
    p.start()
    await until(lambda: p.mode == "finished")
    expected = train(SMALL, "CartPole-v1", total_steps=8 * UPDATE, seeds=range(3), progress=False)
    assert isinstance(p.result, TrainingResult)
    for name in ("env_steps", "mean_return", "entropy", "kl"):
        np.testing.assert_array_equal(p.result.history[name], expected.history[name])
    assert "Finished. Mean return after 1,024 steps" in p.line.value and "100% of 1,024 steps" in p.progress.value


@in_loop
async def test_others_get_their_turn_between_updates():
    p, turns = make(updates=20), []
    p.start()
    while p.mode == "training":
        await asyncio.sleep(0)
        turns.append(p.state.iteration if p.state else 0)
    for update in range(1, 20):
        assert turns.count(update) >= training_panel.TURNS


@in_loop
async def test_pause_step_resume_stop():
    p = make(updates=50)
    p.start()
    await until(lambda: p.state and p.state.iteration == 3)
    p.pause()
    for _ in range(100):
        await asyncio.sleep(0)
    assert p.mode == "paused" and p.state.iteration == 3 and p.buttons["Pause"].description == "Resume"
    p.step()
    assert p.mode == "paused" and p.state.iteration == 4
    p.resume()
    p.pause()
    p.resume()  # in one turn: there must be one task, not two
    assert sum("Panel._train" in repr(task) and not task.cancelling() for task in asyncio.all_tasks()) == 1
    await until(lambda: p.state.iteration == 7)
    p.step()  # while it trains: pauses
    assert p.mode == "paused" and p.state.iteration == 8
    p.stop()
    kept = p.result
    assert p.mode == "stopped" and kept.history["kl"].shape == (3, 8) and kept.policy(1).act(np.zeros(4)) in (0, 1)
    p.stop(), p.pause(), p.resume(), p.step()  # nothing to do
    assert p.mode == "stopped" and p.state.iteration == 8


@in_loop
async def test_step_starts_a_training_and_a_new_start_drops_it():
    p = make()
    p.step()
    assert p.mode == "paused" and p.state.iteration == 1 and p.buttons["Start"].description == "Restart"
    old = p.state
    p.start()
    await until(lambda: p.mode == "finished")
    assert p.state is not old and old.iteration == 1


@in_loop
async def test_a_setting_moved_while_it_trains_is_used_from_the_next_update_on_and_marked():
    moved, calm = make(updates=6), make(updates=6)
    for p in (moved, calm):
        for _ in range(3):
            p.step()
    moved.inputs["gae_lambda"].value = 0.2
    assert moved.state.algorithm.gae_lambda == 0.2 and moved.changes == [(3 * UPDATE, "gae_lambda", 0.2)]
    assert "Changed: λ → 0.20 at 384 steps." in moved.sentence() and "λ → 0.20 at 384 steps" in moved.picture.value
    (mark,) = moved._drawing.marks
    assert [line.get_xdata() for line in mark[2:4]] == [[384, 384]] * 2 and mark[4].get_text() == "λ → 0.20"
    for p in (moved, calm):
        for _ in range(3):
            p.step()
    one, other = moved.result.history, calm.result.history
    np.testing.assert_array_equal(one["entropy"][:, :4], other["entropy"][:, :4])  # of the policy before its update
    assert (one["grad_norm"][:, 3] != other["grad_norm"][:, 3]).all() and moved.result.algorithm.gae_lambda == 0.2
    assert SMALL.gae_lambda == 0.9
    moved.stop(), calm.stop()


@in_loop
async def test_a_setting_moved_before_the_first_update_is_not_lost():
    p = make()
    p.start()
    assert p.state is None
    p.inputs["gae_lambda"].value = 0.2
    await until(lambda: p.state)
    assert p.state.algorithm.gae_lambda == 0.2 and p.changes == [(UPDATE, "gae_lambda", 0.2)]
    p.stop()


@in_loop
async def test_dragging_leaves_one_mark():
    p = make(updates=1000)
    p.step()
    for value in (0.5, 0.6, 0.7):
        p.inputs["gae_lambda"].value = value
        p.step()
    assert [mark[1] for mark in p._drawing.marks] == ["λ → 0.70"] and len(p.changes) == 3
    for _ in range(25):
        p.step()
    p.inputs["gae_lambda"].value = 0.1
    p.side.value = "kl"  # marks survive another quantity on the right
    assert [mark[1] for mark in p._drawing.marks] == ["λ → 0.70", "λ → 0.10"]
    assert len(p._drawing.returns.ax.texts) == 3  # two labels, and "not started"
    p.stop()


@in_loop
async def test_settings_before_the_start():
    p = make(updates=4, choose={"num_envs": choice([2, 4], value=4, label="environments")})
    p.inputs["gae_lambda"].value, p.inputs["num_envs"].value = 0.3, 2
    assert p.changes == []
    p.step()
    assert p.state.algorithm.gae_lambda == 0.3 and p.state.algorithm.num_envs == 2 and p.state.env_steps == 2 * 32
    assert p.inputs["num_envs"].disabled and not p.inputs["gae_lambda"].disabled
    p.stop()
    assert not p.inputs["num_envs"].disabled


@in_loop
async def test_from_another_thread_a_click_waits_for_the_end_of_the_update():
    p = make(updates=200)
    p.start()
    await until(lambda: p.state)
    before = threading.get_ident()
    seen = []
    p._changed, original = lambda name: (seen.append(threading.get_ident()), original(name)), p._changed
    thread = threading.Thread(target=lambda: setattr(p.inputs["gae_lambda"], "value", 0.4))
    thread.start()
    thread.join()
    assert seen == [] and p.state.algorithm.gae_lambda == 0.9
    await until(lambda: p.changes)
    assert seen == [before] and p.state.algorithm.gae_lambda == 0.4
    threading.Thread(target=p.buttons["Stop"].click).start()
    await until(lambda: p.mode == "stopped")


@in_loop
async def test_an_error_is_shown_and_stays():
    worlds = Worlds(fail_at=70)
    p = make(env=worlds)
    p.start()
    await until(lambda: p.mode == "failed")
    for _ in range(50):
        await asyncio.sleep(0)
    assert 'role="alert"' in p.line.value and "RuntimeError: the &lt;pole&gt; broke" in p.line.value
    assert "after 256 steps per run" in p.line.value and isinstance(p.error.__cause__, RuntimeError)
    assert p.result.history["kl"].shape == (3, 2) and worlds.closed == worlds.made
    worlds.fail_at = None
    p.start()
    assert "alert" not in p.line.value
    await until(lambda: p.mode == "finished")


@in_loop
async def test_a_quarantined_run_is_named():
    p = make(updates=6)
    p.step()
    p.state.agent.parameters.data[1] = float("nan")
    p.step()
    assert "Run 1 (seed 1) was quarantined: " in p.line.value and p.mode == "paused"
    p.stop()


@in_loop
async def test_an_interrupt_ends_the_training_and_not_the_kernel(monkeypatch):
    p = make(updates=50)
    p.step()
    monkeypatch.setattr(type(p.state.algorithm), "update", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    p.resume()
    await until(lambda: p.mode == "failed")
    assert "KeyboardInterrupt" in p.line.value


@pytest.mark.parametrize("end", ["stop", "close", "finish"])
def test_nothing_is_left(end):
    @in_loop
    async def run():
        worlds = Worlds()
        p = make(env=worlds, updates=50 if end != "finish" else 3)
        figure = weakref.ref(p._drawing.fig)
        p.start()
        updates = p._updates  # kept, so that only closing it closes the environments
        await until(lambda: p.state and (p.state.iteration == 2 or p.mode == "finished"))
        await until(lambda: p.mode == "finished") if end == "finish" else getattr(p, end)()
        await asyncio.sleep(0)
        assert (
            updates.gi_frame is None and worlds.made >= 13 and worlds.closed == worlds.made
        )  # 12 that train; some were only asked for their spaces
        p.close()
        assert p.comm is None and p.buttons["Start"].comm is None
        gc.collect()
        assert figure() is None and p.result.history["kl"].shape[0] == 3

    run()


@pytest.mark.parametrize(("cost", "redraws"), [(0.001, 12), (0.1, 8)])
@in_loop
async def test_it_redraws_at_most_three_times_a_second_and_spends_a_fifth_of_the_time(monkeypatch, cost, redraws):
    clock, drawn = [0.0], []

    def slow_png(pixels):
        clock[0] += cost
        drawn.append(clock[0])
        return b"picture"

    monkeypatch.setattr(training_panel.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(training_panel, "fast_png", slow_png)
    p = make(updates=400)
    p.step()
    p.resume()
    drawn.clear()
    while p.mode == "training":  # an update takes 10 ms
        iteration = p.state.iteration
        await until(lambda i=iteration: p.mode != "training" or p.state.iteration > i)
        clock[0] += 0.01
    assert redraws - 2 <= len(drawn) <= redraws + 2


def test_plain_python_has_step_only():
    p = make()
    p.start()
    assert p.mode != "training"
    p.step()
    assert p.state.iteration == 1 and p.result.history["kl"].shape == (3, 1)
    p.stop()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"seeds": 3}, TypeError, "seeds"),
        ({"total_steps": 0}, ValueError, "total_steps"),
        ({"env": "CartPole-v7"}, ValueError, "CartPole"),
        ({"change": {"clip_epsilon": slider(0, 1, value=0.2, label="ε")}}, ValueError, "VPG has no setting 'clip_epsilon'"),
        ({"change": {"gae_lambda": slider(0, 1, value=0.5, label="λ")}}, ValueError, "starts at 0.5, but VPG has 0.9"),
        ({"change": {"gae_lambda": slider(0, 2, value=0.9, label="λ")}}, ValueError, "gae_lambda=2"),
        ({"change": {"gae_lambda": 0.9}}, TypeError, "expected slider"),
        ({"change": 0.9}, TypeError, "change = 0.9; expected a dict"),
        ({"choose": ["num_envs"]}, TypeError, "choose = .*; expected a dict"),
        ({"threshold": "475"}, TypeError, "threshold = '475'; expected a number"),
        ({"title": 4}, TypeError, "title = 4"),
        ({"width": "wide"}, TypeError, "width"),
        ({"width": -3}, ValueError, "width must be at least 200"),
        ({"choose": LAMBDA}, ValueError, "in change and in choose"),
        ({"algorithm": VPG(gae_lambda=[0.9, 1.0])}, ValueError, "one value per setting"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        make(**arguments)


def test_the_clip_fraction_is_there_for_ppo_only():
    assert "clip fraction" in make(PPO(gae_lambda=0.9)).table.value and "clip fraction" not in make().table.value


def test_one_figure_with_every_label_readable():
    p = make(updates=100, threshold=475, seeds=range(2))
    for number, name in enumerate(("entropy", "kl", "explained_variance", "grad_norm")):
        p.side.value = name
        for _ in range(3):
            p.step()
        p.inputs["gae_lambda"].value = 0.1 * number
        p._frame()
        assert layout_faults(p._drawing.fig) == []
    p.stop()


def test_in_a_kernel_it_is_idle_with_a_picture_and_running_its_cell_again_ends_the_old_one():
    cells = [
        "from rlcourse import VPG\nfrom rlcourse.classroom import panel, training_panel\nold = []",
        'p = panel(VPG(num_envs=4, num_steps=32), "CartPole-v1", total_steps=10**7, seeds=[0])\nold.append(p)\np',
        "p.start()",
        "import asyncio\nawait asyncio.sleep(0.5)\nprint(p.mode, p.state.iteration > 1)",
        "training_panel._cell_starts(type('Info', (), {'cell_id': 'home'}))\nprint(p.mode, p.comm)",
    ]
    cells = [v4.new_code_cell(source) for source in cells]
    cells[1].source = "training_panel.home = lambda shell: 'home'\n" + cells[1].source
    notebook = v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=600, kernel_name="python3", store_widget_state=False).execute()
    (shown,) = cells[1].outputs
    assert shown.data["text/plain"] == "[live training: VPG on CartPole-v1]" and "image/png" in shown.data
    assert "Not started." in shown.metadata["image/png"]["alt"]
    assert [cell.outputs[0].text for cell in cells[3:]] == ["training True\n", "stopped None\n"]


@pytest.mark.parametrize(
    ("name", "control"),
    [("num_envs", slider(1, 16, 1, value=8, label="N")), ("std", choice(["free", "state"], value="free", label="σ"))],
)
def test_what_is_fixed_during_training_cannot_be_changed_in_it(name, control):
    with pytest.raises(ValueError, match=f"{name}: fixed once the training has started; put it into choose"):
        panel(PPO(num_envs=8), "CartPole-v1", total_steps=1000, seeds=[0], change={name: control})
