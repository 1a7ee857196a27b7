"""iterate, train, evaluate, save and load: what a learner calls."""

import copy
import json
import pickle
import stat
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tqdm.auto import tqdm

from rlcourse import VPG, evaluate, iterate, load, make_env, recommended, train
from rlcourse.agents import training

QUICK = {"num_envs": 4, "num_steps": 16, "hidden_sizes": (8,)}


class OneStep(gymnasium.Env):
    """One step per episode; the reward is `reward(obs, action)`. For spaces that the classics do not have."""

    def __init__(self, observation_space, action_space, reward):
        self.observation_space, self.action_space, self.reward = observation_space, action_space, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        space = self.observation_space
        n = getattr(space, "n", 2)
        bit = int(self.np_random.integers(n)) + getattr(space, "start", 0)
        self.obs = bit if isinstance(space, spaces.Discrete) else np.full(space.shape, bit, space.dtype)
        return self.obs, {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        return self.obs, float(self.reward(self.obs, action)), True, False, {}


def quick(env="CartPole-v1", updates=3, seeds=(0, 1), algorithm=None, **options):
    algorithm = algorithm or VPG(**QUICK)
    steps = updates * algorithm.num_envs * algorithm.num_steps
    return train(algorithm, env, total_steps=steps, seeds=list(seeds), progress=False, **options)


# ---- what comes out -----------------------------------------------------------------------------------------------------


def test_history_has_runs_times_iterations_and_the_promised_names():
    result = quick(algorithm=VPG(**QUICK, gamma=[0.9, 0.99]), seeds=[3, 4, 5])
    assert [(run.setting["gamma"], run.seed) for run in result.runs] == [(g, s) for g in (0.9, 0.99) for s in (3, 4, 5)]
    names = {"env_steps", "mean_return", "episodes", "entropy", "kl", "explained_variance", "grad_norm", "seconds", "policy_loss"}
    assert names == set(result.history)
    assert {value.shape for value in result.history.values()} == {(6, 3)}
    assert result.history["env_steps"][0].tolist() == [64, 128, 192]
    assert result.env == "CartPole-v1" and result.env_is_batched and result.failed == {}
    assert (np.diff(result.history["seconds"]) > 0).all()
    assert (result.history["entropy"] <= np.log(2) + 1e-6).all() and (result.history["kl"] >= -1e-6).all()


def test_total_steps_are_rounded_up_to_whole_updates():
    assert train(VPG(**QUICK), "CartPole-v1", total_steps=129, seeds=[0], progress=False).history["env_steps"][0, -1] == 192


def test_equal_seeds_give_equal_numbers_and_different_seeds_do_not():
    first, second, other = quick(), quick(), quick(seeds=[8, 9])
    np.testing.assert_array_equal(first.history["policy_loss"], second.history["policy_loss"])
    assert (first.history["policy_loss"] != other.history["policy_loss"]).all()


def test_a_setting_can_be_changed_between_two_updates():
    for state in iterate(VPG(**QUICK, critic_learning_rate=0.0), "CartPole-v1", total_steps=64 * 4, seeds=[0]):
        if state.iteration == 1:
            before = state.agent.parameters.clone()
            state.algorithm.learning_rate = 0.0
            with pytest.raises(ValueError, match="gae_lambda=2"):
                state.algorithm.gae_lambda = 2
    assert torch.equal(before, state.agent.parameters)


def test_the_callers_settings_stay_untouched():
    mine = VPG(**QUICK)
    for state in iterate(mine, "CartPole-v1", total_steps=128, seeds=[0]):
        state.algorithm.gamma = 0.5
    assert mine.gamma == 0.99


def test_what_fixes_shapes_cannot_change_during_training():
    with pytest.raises(ValueError, match="num_envs, the networks"):
        for state in iterate(VPG(**QUICK), "CartPole-v1", total_steps=256, seeds=[0]):
            state.algorithm.num_envs = 8


def test_callbacks_see_every_update_and_can_stop():
    seen = []
    result = quick(updates=5, callbacks=[lambda state: seen.append(state.iteration), lambda state: state.iteration == 3])
    assert seen == [1, 2, 3] and result.history["kl"].shape == (2, 3)


def test_stopping_a_generator_closes_the_environment():
    closed = []

    class Closing(gymnasium.Wrapper):
        def close(self):
            closed.append(1)
            super().close()

    updates = iterate(VPG(**QUICK), lambda: Closing(gymnasium.make("CartPole-v1")), total_steps=10**6, seeds=[0])
    next(updates)
    already = len(closed)
    updates.close()
    assert len(closed) == already + 4


def test_threads_of_the_caller_come_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in iterate(VPG(**QUICK), "CartPole-v1", total_steps=128, seeds=[0]):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_progress_bar_writes_only_when_asked(capsys):
    quick()
    assert capsys.readouterr() == ("", "")
    train(VPG(**QUICK), "CartPole-v1", total_steps=64, seeds=[0], progress=True)
    assert "VPG" in capsys.readouterr().err


def test_steps_from_before_a_resume_do_not_count_for_the_rate(monkeypatch):
    kept, bars = [], []
    train(VPG(**QUICK), "CartPole-v1", total_steps=64, seeds=[0], progress=False, callbacks=[lambda s: kept.append(s.snapshot())])
    monkeypatch.setattr(training, "tqdm", lambda *a, **k: bars.append(tqdm(*a, **k)) or bars[0])
    train(VPG(**QUICK), "CartPole-v1", total_steps=128, seeds=[0], resume=kept[-1])
    assert bars[0].initial == 64 and bars[0].n == 128 and "VPG, CartPole-v1" in bars[0].desc


# ---- environments -------------------------------------------------------------------------------------------------------


def test_gymnasium_route_trains_like_the_twin():
    """Both engines compute the same numbers, so a training does, too."""
    twin, gym = (quick(updates=6, batched=batched, dtype=torch.float64) for batched in (True, False))
    assert twin.env_is_batched and not gym.env_is_batched and "twin" not in repr(gym)
    assert gym.history.keys() == twin.history.keys()
    for name, values in gym.history.items():
        if name != "seconds":
            np.testing.assert_allclose(values, twin.history[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("options, words", [({"batched": "no"}, "batched = 'no'"), ({"resume": "runs/x"}, "resume = 'runs/x'")])
def test_arguments_of_another_kind_are_refused(options, words):
    with pytest.raises(TypeError, match=words):
        quick(**options)


def test_discrete_actions_that_do_not_start_at_zero():
    env = lambda: OneStep(spaces.Box(0, 1, (1,)), spaces.Discrete(3, start=5), lambda obs, action: action == 6)  # noqa: E731
    result = quick(env, updates=60, algorithm=VPG(**QUICK, learning_rate=0.03))
    assert (result.history["mean_return"][:, -1] > 0.9).all()
    action = result.policy(0).act(np.zeros(1, np.float32), deterministic=True)
    assert action == 6 and type(action) is int
    assert (evaluate(result.policy(0), env, episodes=4, deterministic=True) == 1).all()


def test_discrete_observations_are_one_hot_and_learned_from():
    env = lambda: OneStep(spaces.Discrete(3, start=2), spaces.Discrete(3), lambda obs, action: obs - 2 == action)  # noqa: E731
    result = quick(env, updates=120, algorithm=VPG(**QUICK, learning_rate=0.03))
    assert (result.history["mean_return"][:, -1] > 0.9).all()
    assert result.policy(0).act(np.array([2, 3, 4]), deterministic=True).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="from 2 to 4"):
        result.policy(0).act(5)


def test_unbounded_and_bounded_boxes():
    target = lambda obs, action: -float(np.square(action - 0.5).sum())  # noqa: E731
    for bound in (np.inf, 1.0):
        env = lambda bound=bound: OneStep(spaces.Box(0, 1, (1,)), spaces.Box(-bound, bound, (2,)), target)  # noqa: E731
        result = quick(env, updates=80, algorithm=VPG(**QUICK, learning_rate=0.03))
        action = result.policy(0).act(np.zeros(1, np.float32), deterministic=True)
        assert action.shape == (2,) and action.dtype == np.float32
        np.testing.assert_allclose(action, 0.5, atol=0.2)


def test_actions_of_a_policy_stay_inside_the_box():
    result = quick("Pendulum-v1", algorithm=VPG(**QUICK, initial_log_std=2.0))
    actions = result.policy(0).act(np.zeros((500, 3), np.float32))
    assert actions.shape == (500, 1) and np.abs(actions).max() == 2.0 and (np.abs(actions) < 2).any()


def test_nan_from_an_environment_is_an_error_that_names_it():
    env = lambda: OneStep(spaces.Box(0, 1, (1,)), spaces.Discrete(2), lambda obs, action: np.nan)  # noqa: E731
    with pytest.raises(ValueError, match="OneStep.*reward is not finite"):
        quick(env)


# ---- what a user may do to a training ------------------------------------------------------------------------------------


class LosesRuns(VPG):
    """VPG that loses some of its runs in the second update."""

    lost = (1,)

    def update(self, agent, rollout):
        metrics = super().update(agent, rollout)
        if len(agent.parameters) > 1 and agent.seen_before:
            agent.parameters.detach()[list(self.lost)] = np.nan
        agent.seen_before = True
        return metrics


@pytest.fixture
def fresh_runs(monkeypatch):
    monkeypatch.setattr(training.Runs, "seen_before", False, raising=False)


def test_train_warns_of_quarantined_runs(fresh_runs):
    algorithm = LosesRuns(**QUICK, gamma=[0.9, 0.99])
    with pytest.warns(RuntimeWarning, match=r"1 of 4 runs were quarantined.*\n  run 1 \({'gamma': 0.9}, 8\): .*not finite"):
        result = quick(algorithm=algorithm, seeds=[7, 8])
    assert list(result.failed) == [1] and "1 quarantined" in repr(result)
    assert np.isnan(result.history["entropy"]).tolist() == [[False] * 3, [False, True, True], [False] * 3, [False] * 3]
    with pytest.warns(RuntimeWarning, match=r"run 1 did not finish \(.*not finite"):
        assert result.policy(1).agent.parameters.isfinite().all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.policy(0)
        quick()


def test_training_ends_when_no_run_is_left(fresh_runs, monkeypatch):
    monkeypatch.setattr(LosesRuns, "lost", (0, 1))
    with pytest.warns(RuntimeWarning, match="2 of 2 runs"):
        result = quick(algorithm=LosesRuns(**QUICK), updates=50)
    assert result.history["env_steps"].shape == (2, 2)


def test_seeds_may_be_a_generator():
    assert (
        quick(seeds=[4, 5]).seeds
        == train(VPG(**QUICK), "CartPole-v1", total_steps=1, seeds=(seed for seed in (4, 5)), progress=False).seeds
    )


@pytest.mark.parametrize("true", [True, np.True_])
def test_one_callback_that_says_true_ends_the_training(true):
    assert quick(updates=5, callbacks=lambda state: true).history["kl"].shape == (2, 1)


def test_an_interrupt_closes_the_environments_and_leaves_the_state(monkeypatch):
    made, closed = [], []

    class Interrupted(OneStep):
        def __init__(self):
            super().__init__(spaces.Box(0, 1, (1,)), spaces.Discrete(2), self.reward)
            made.append(self)

        def reward(self, obs, action):
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps == 20:
                raise KeyboardInterrupt
            return 1.0

        def close(self):
            closed.append(self)

    state = None
    with pytest.raises(KeyboardInterrupt):
        for state in iterate(VPG(**QUICK), Interrupted, total_steps=10_000, seeds=[0]):  # noqa: B007
            pass
    assert len(made) == len(closed) > 0
    result = state.result()
    assert result.history["mean_return"].tolist() == [[1.0]] and result.policy(0).act([0.0]) in (0, 1)


def test_a_result_is_a_copy_of_the_state():
    states = iterate(VPG(**QUICK), "CartPole-v1", total_steps=1000, seeds=[0])
    state = next(states)
    result = state.result()
    before = result.agent.parameters.clone()
    state.algorithm.gamma = 0.5
    next(states)
    assert torch.equal(result.agent.parameters, before) and not torch.equal(state.agent.parameters, before)
    assert result.algorithm.gamma == 0.99 and result.history["kl"].shape == (1, 1)
    assert "128 of 1,000 steps" in repr(state)


def test_results_can_be_pickled_copied_and_shown():
    result = quick()
    assert repr(result) == "<TrainingResult: VPG on CartPole-v1 (batched twin), 2 runs, 192 steps each>"
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert again.policy(1).act(np.ones(4), True) == result.policy(1).act(np.ones(4), True)
        with torch.no_grad():  # the layers are views of the parameters, as before
            again.agent.parameters.zero_()
            assert (again.agent.value(torch.ones(2, 3, 4)) == 0).all()
            assert (result.agent.value(torch.ones(2, 3, 4)) != 0).all()


# ---- wrong calls --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"env": "CartPole-v7"}, ValueError, "CartPole"),
        ({"env": "NoSuchThing-v0"}, ValueError, "NoSuchThing"),
        ({"seeds": 3}, TypeError, r"seeds=range\(3\)"),
        ({"seeds": None}, TypeError, r"seeds = None.*\[0, 1, 2\]"),
        ({"seeds": [True]}, ValueError, "True"),
        ({"seeds": "12"}, ValueError, "integer"),
        ({"callbacks": None}, TypeError, "callbacks = None"),
        ({"callbacks": [3]}, TypeError, r"callbacks = \[3\]"),
        ({"callbacks": lambda state: state.latest("kl") > 1}, TypeError, "single True or False"),
        ({"seeds": []}, ValueError, "at least one"),
        ({"seeds": [1, 1]}, ValueError, "each seed once"),
        ({"seeds": [-1]}, ValueError, "≥ 0"),
        ({"seeds": [0.5]}, ValueError, "0.5"),
        ({"total_steps": 0}, ValueError, "total_steps = 0"),
        ({"total_steps": 1e5}, ValueError, "total_steps = 100000.0.*100_000"),
        ({"dtype": torch.float16}, ValueError, "float32"),
        ({"algorithm": "VPG"}, TypeError, r"VPG\(learning_rate=0.01\)"),
    ],
)
def test_wrong_calls_say_what_is_wrong(change, error, message):
    call = {"algorithm": VPG(**QUICK), "env": "CartPole-v1", "total_steps": 64, "seeds": [0], "progress": False} | change
    with pytest.raises(error, match=message):
        train(**call)


@pytest.mark.parametrize("run", [2, -1, 0.0, True])
def test_policy_of_a_run_that_is_not_there(run):
    with pytest.raises(ValueError, match="from 0 to 1"):
        quick().policy(run)


@pytest.mark.parametrize("obs", [np.zeros(3), np.zeros((2, 3)), np.zeros((2, 2, 4)), np.full(4, np.nan)])
def test_act_refuses_wrong_observations(obs):
    with pytest.raises(ValueError, match="expected"):
        quick().policy(0).act(obs)


def test_act_refuses_discrete_observations_that_are_no_integers_in_range():
    policy = quick(lambda: OneStep(spaces.Discrete(3), spaces.Discrete(2), lambda obs, action: 0)).policy(0)
    for obs in (1.0, True, -1, 3, [0, 3], np.nan):
        with pytest.raises(ValueError, match="integers from 0 to 2"):
            policy.act(obs)
    assert policy.act([0, 2]).shape == (2,)


# ---- evaluate -----------------------------------------------------------------------------------------------------------


def test_evaluate_equals_playing_episodes_by_hand():
    policy = quick().policy(1)
    ours = evaluate(policy, "CartPole-v1", episodes=5, seed=3, deterministic=True)
    world = make_env("CartPole-v1", 5, seed=3)
    for i, start in enumerate(world.reset()):
        env = gymnasium.make("CartPole-v1")
        env.reset()
        env.unwrapped.state, obs, over, total = world.state[:, i].copy(), start, False, 0.0
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy.act(obs, deterministic=True))
            total, over = total + reward, terminated or truncated
        assert total == ours[i]


def test_evaluate_is_repeatable_and_refuses_another_task():
    policy = quick().policy(0)
    np.testing.assert_array_equal(evaluate(policy, "CartPole-v1", seed=1), evaluate(policy, "CartPole-v1", seed=1))
    with pytest.raises(ValueError, match="trained for.*Pendulum-v1 has"):
        evaluate(policy, "Pendulum-v1")
    with pytest.raises(ValueError, match="trained for"):  # the same shapes, but one action more
        evaluate(policy, lambda: OneStep(spaces.Box(-1, 1, (4,)), spaces.Discrete(3), lambda obs, action: 0))
    with pytest.raises(ValueError, match="trained for"):  # four numbers, but not a vector
        evaluate(policy, lambda: OneStep(spaces.Discrete(4), spaces.Discrete(2), lambda obs, action: 0))
    with pytest.raises(TypeError, match=r"<TrainingResult: VPG on CartPole-v1.*result.policy\(0\)"):
        evaluate(quick(), "CartPole-v1")
    with pytest.raises(ValueError, match="episodes = 0"):
        evaluate(policy, "CartPole-v1", episodes=0)


def test_evaluate_refuses_an_episode_that_does_not_end():
    policy = quick().policy(0)
    with pytest.raises(ValueError, match="3 of 3 episodes on CartPole-v1 .*max_steps = 5.*TimeLimit"):
        evaluate(policy, "CartPole-v1", episodes=3, max_steps=5)


# ---- save and load ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_save_and_load_give_the_same_policies_and_histories(env, tmp_path):
    result = quick(env, algorithm=VPG(**QUICK, gamma=[0.9, 0.95]))
    again = load(result.save(tmp_path / "mine"))
    assert (tmp_path / "mine.npz").exists() and len(list(tmp_path.iterdir())) == 1
    assert again.algorithm == result.algorithm and again.runs == result.runs and again.env == env
    assert again.observation_space == result.observation_space and again.agent.head.space == result.agent.head.space
    for name, value in result.history.items():
        np.testing.assert_array_equal(again.history[name], value)
    obs = np.random.default_rng(0).normal(size=(6, result.agent.obs_size)).astype(np.float32)
    np.testing.assert_array_equal(again.policy(3).act(obs, True), result.policy(3).act(obs, True))


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    result = quick()
    path = result.save(tmp_path / "mine.npz")
    old = path.read_bytes()
    monkeypatch.setattr(training.np, "savez_compressed", lambda file, **arrays: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        result.save(path)
    assert path.read_bytes() == old and len(list(tmp_path.iterdir())) == 1


def test_a_saved_file_can_be_read_by_others_and_a_missing_folder_is_named(tmp_path):
    result = quick()
    (tmp_path / "usual").write_bytes(b"")
    mode = stat.S_IMODE(result.save(tmp_path / "mine").stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    with pytest.raises(FileNotFoundError, match="no folder .*nowhere.*'mine.npz'"):
        result.save(tmp_path / "nowhere" / "mine")


def test_load_names_a_damaged_file(tmp_path):
    path = quick().save(tmp_path / "mine.npz")
    good = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    for part in range(0, len(good), 97):
        path.write_bytes(good[:part])
        with pytest.raises(ValueError, match="mine.npz.*damaged"):
            load(path)
    damaged = [{"facts": np.array(facts)} for facts in ("[1]", '{"format": 2}', "{")]
    for change in [*damaged, {"parameters": arrays["parameters"][:1]}, {"parameters": np.array("x")}]:
        np.savez(path, **(arrays | change))
        with pytest.raises(ValueError, match="mine.npz.*damaged"):
            load(path)
    for start in range(40, len(good) - 40, 97):  # never another error than ours, whatever is overwritten
        path.write_bytes(good[:start] + bytes(30) + good[start + 30 :])
        try:
            load(path)
        except ValueError as error:
            assert "damaged" in str(error)


def test_load_says_what_is_wrong_with_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing.npz"):
        load(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("hello", encoding="utf-8")
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    np.savez(tmp_path / "objects.npz", facts=np.array([object()]))
    for name in ("text", "other", "objects"):
        with pytest.raises(ValueError, match=f"{name}.npz.*not a training result"):
            load(tmp_path / f"{name}.npz")
    path = quick().save(tmp_path / "mine.npz")
    with np.load(path) as file:
        arrays = dict(file)
    arrays["facts"] = np.array(json.dumps(json.loads(str(arrays["facts"])) | {"format": 99}))
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="format 99"):
        load(path)


# ---- it learns ----------------------------------------------------------------------------------------------------------


def test_vpg_solves_cartpole_on_most_seeds():
    """Median of five seeds; `--full` demands it of 200 seeds one by one."""
    best = np.zeros(5)
    for state in iterate(recommended("VPG", "CartPole-v1"), "CartPole-v1", total_steps=200_000, seeds=range(5)):
        best = np.fmax(best, state.latest("mean_return"))
        if np.median(best) >= 475:
            break
    assert np.median(best) >= 475


class Learners(VPG):
    """An algorithm of the reader's own."""


def test_an_algorithm_of_ones_own_can_be_loaded_by_naming_it(tmp_path):
    result = quick("CartPole-v1", algorithm=Learners(**QUICK))
    path = result.save(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"trained by 'Learners'.*load\(path, algorithm=Learners\)"):
        load(path)
    with pytest.raises(ValueError, match="trained by 'Learners'"):
        load(path, algorithm=VPG)
    again = load(path, algorithm=Learners)
    assert type(again.algorithm) is Learners and torch.equal(again.agent.parameters, result.agent.parameters)
