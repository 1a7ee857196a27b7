"""make_env: what a step returns at the end of an episode, one stream per sub-environment, custom environments, bad input."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import DtypeObservation, FlattenObservation, TimeLimit, TransformAction

from rlcourse.worlds.make_env import make_env


class Counter(gymnasium.Env):
    """Counts its steps; everything about it can be chosen."""

    def __init__(self, obs_space=None, action_space=None, ends_at=None, obs=None, reward=None):
        self.observation_space = obs_space or spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = action_space or spaces.Discrete(2)
        self.ends_at, self.show, self.reward, self.actions = ends_at, obs, reward, []

    def _obs(self):
        return self.show(self.count) if self.show else np.array([self.count], self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._obs(), {}

    def step(self, action):
        self.actions.append(action)
        self.count += 1
        return self._obs(), self.reward(self.count) if self.reward else 1.0, self.count == self.ends_at, False, {}


def play(world, actions):
    """All outputs of `step`, stacked over time: obs, reward, terminated, truncated, next_obs."""
    world.reset()
    return [np.array(x) for x in zip(*(world.step(a) for a in actions), strict=True)]


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("env_id, size, kind", [("CartPole-v1", 4, "D"), ("Acrobot-v1", 6, "D"), ("Pendulum-v1", 3, "B")])
def test_both_engines_show_the_same_face(env_id, size, kind, batched):
    world = make_env(env_id, 5, seed=1, batched=batched)
    assert (world.name, world.num_envs, world.obs_size, world.batched) == (env_id, 5, size, batched)
    theirs = gymnasium.make(env_id)
    assert (world.observation_space, world.action_space) == (theirs.observation_space, theirs.action_space)
    assert world.reset().shape == (5, size)
    obs, reward, terminated, truncated, next_obs = world.step(np.zeros(5, int) if kind == "D" else np.zeros((5, 1)))
    assert obs.shape == next_obs.shape == (5, size) and obs.dtype == next_obs.dtype == np.float32
    assert reward.shape == (5,) and reward.dtype == np.float64
    assert terminated.shape == truncated.shape == (5,) and terminated.dtype == truncated.dtype == bool
    assert env_id in repr(world) and ("twin" in repr(world)) == batched
    world.close()
    world.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "Pendulum-v1"])
def test_twin_and_gymnasium_agree_over_hundreds_of_steps(env_id):
    rng = np.random.default_rng(0)
    actions = rng.normal(0, 2, (450, 4, 1)) if env_id == "Pendulum-v1" else rng.integers(0, 2, (450, 4))
    ours, theirs = (play(make_env(env_id, 4, seed=3, batched=batched), actions) for batched in (True, False))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert (ours[2] | ours[3]).sum() >= (8 if env_id == "Pendulum-v1" else 0)


def test_the_final_observation_and_the_reset_observation_by_hand():
    world = make_env(lambda: Counter(ends_at=3), 2)
    obs, reward, terminated, truncated, next_obs = play(world, np.zeros((7, 2), int))
    np.testing.assert_array_equal(next_obs[:, 0, 0], [1, 2, 3, 1, 2, 3, 1])
    np.testing.assert_array_equal(obs[:, 1, 0], [1, 2, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(terminated[:, 0], [0, 0, 1, 0, 0, 1, 0])
    assert not truncated.any()
    assert (reward == 1).all()  # no row is a reset row


@pytest.mark.parametrize("limit, flags", [(2, (False, True)), (3, (True, True)), (4, (True, False))])
def test_time_limit_and_termination_are_two_flags(limit, flags):
    world = make_env(lambda: TimeLimit(Counter(ends_at=3), limit))
    _, _, terminated, truncated, next_obs = play(world, np.zeros((min(limit, 3), 1), int))
    assert (terminated[-1, 0], truncated[-1, 0]) == flags and next_obs[-1, 0, 0] == min(limit, 3)


@pytest.mark.parametrize("batched", [True, False])
def test_what_step_returns_is_the_callers_own(batched):
    world = make_env("CartPole-v1", 2, seed=0, batched=batched)
    first = world.reset()
    kept = [first, *world.step(np.array([1, 1]))]
    copies = [x.copy() for x in kept]
    assert not np.shares_memory(kept[1], kept[5])
    for _ in range(30):
        for x in world.step(np.array([1, 1])):
            x[:] = 77
    for x, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_sub_environment_depends_on_its_own_seed_and_actions_only(env_id, batched):
    rng = np.random.default_rng(1)
    draw = (lambda *s: rng.integers(0, 2, s)) if env_id == "CartPole-v1" else (lambda *s: rng.normal(0, 1, (*s, 1)))
    actions, others = draw(420, 3), draw(420, 3)
    others[:, 1] = actions[:, 1]
    one = play(make_env(env_id, 3, seed=[5, 6, 7], batched=batched), actions)
    two = play(make_env(env_id, 3, seed=[11, 6, 12], batched=batched), others)
    alone = play(make_env(env_id, 1, seed=[6], batched=batched), actions[:, 1:2])
    moved = play(make_env(env_id, 3, seed=[7, 5, 6], batched=batched), actions[:, [2, 0, 1]])
    for a, b, c, d in zip(one, two, alone, moved, strict=True):
        np.testing.assert_array_equal(a[:, 1], b[:, 1])
        np.testing.assert_allclose(a[:, 1], c[:, 0], atol=1e-6)
        np.testing.assert_array_equal(a, d[:, [1, 2, 0]])
    assert (one[0][:, 0] != two[0][:, 0]).any()


@pytest.mark.parametrize("batched", [True, False])
def test_seeds(batched):
    starts = lambda seed, n=4: make_env("CartPole-v1", n, seed=seed, batched=batched).reset()  # noqa: E731
    np.testing.assert_array_equal(starts(3), starts(3))
    np.testing.assert_array_equal(starts([0, 1, 2, 3]), starts(np.arange(4)))
    assert len(np.unique(np.concatenate([starts(3), starts(4)]), axis=0)) == 8
    assert not np.isin(starts(0), starts(1)).any()  # neighbouring seeds share nothing
    world = make_env("CartPole-v1", 4, seed=3, batched=batched)
    assert (world.reset() != world.reset()).all()


# ---------------------------------------------------------------- environments of every kind


def test_box_actions_are_clipped_to_the_bounds_and_only_there():
    for space, sent, arrived in (
        (spaces.Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32)), [[5.0, -5.0]], [1, -2]),
        (spaces.Box(-np.inf, np.inf, (2,), np.float64), [[1e9, -1e9]], [1e9, -1e9]),
        (spaces.Box(-1, 1, (), np.float32), [[3.0]], 1.0),
    ):
        env = Counter(action_space=space)
        world = make_env(lambda env=env: env)
        world.reset()
        world.step(np.array(sent))
        np.testing.assert_array_equal(env.actions[0], arrived)
        assert np.asarray(env.actions[0]) in space


def test_discrete_actions_and_observations_with_a_start():
    env = Counter(spaces.Discrete(5, start=2), spaces.Discrete(3, start=-1), obs=lambda t: 2 + t)
    world = make_env(lambda: env)
    assert world.obs_size == 5
    np.testing.assert_array_equal(world.reset(), [[1, 0, 0, 0, 0]])
    for action in (0, 1, 2):
        obs = world.step(np.array([action]))[0]
    np.testing.assert_array_equal(obs, [[0, 0, 0, 1, 0]])
    assert env.actions == [-1, 0, 1]


@pytest.mark.parametrize(
    "dtype, shown", [("float32", "float32"), ("float64", "float64"), ("int64", "float32"), ("int8", "float32")]
)
def test_observation_dtypes(dtype, shown):
    bound = 100 if "int" in dtype else np.inf
    world = make_env(lambda: Counter(spaces.Box(-bound, bound, (1,), dtype)))
    assert world.reset().dtype == shown
    assert all(x.dtype == shown for x in world.step(np.zeros(1, int))[::4])


def test_rewards_of_numpy_types_and_scalar_observations_work():
    for reward in (np.float32(2.0), np.array(2.0), np.array([2.0]), 2, True):
        world = make_env(lambda r=reward: Counter(reward=lambda t: r))
        world.reset()
        assert world.step(np.zeros(1, int))[1] == float(np.asarray(reward).item())
    world = make_env(lambda: Counter(spaces.Box(-9, 9, ()), obs=lambda t: np.float32(t)), 2)
    assert world.reset().shape == (2, 1)


def test_an_environment_that_reuses_its_observation_array():
    class Reuses(Counter):
        def _obs(self):
            self.buffer = getattr(self, "buffer", np.zeros(1, np.float32))
            self.buffer[0] = self.count
            return self.buffer

    obs, _, _, _, next_obs = play(make_env(lambda: Reuses(ends_at=2)), np.zeros((2, 1), int))
    np.testing.assert_array_equal(next_obs.ravel(), [1, 2])
    np.testing.assert_array_equal(obs.ravel(), [1, 0])


def test_an_id_without_a_twin_and_a_function_use_gymnasium():
    assert not make_env("MountainCar-v0").batched
    world = make_env(lambda: gymnasium.make("CartPole-v1"), 2)
    assert not world.batched and world.name == "CartPole-v1"
    assert make_env(Counter).name == "Counter"


# ---------------------------------------------------------------- bad input: the message names the value and the way out

UNSUPPORTED_OBS = [
    spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-1, 1, (2,))),
    spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))),
    spaces.Box(-1, 1, (2, 2)),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
]


@pytest.mark.parametrize("space", UNSUPPORTED_OBS, ids=str)
def test_unsupported_observation_spaces_and_the_advised_way_out(space):
    def make():
        return Counter(space, obs=lambda t: space.sample())

    with pytest.raises(ValueError, match="not supported") as error:
        make_env(make)
    assert str(space) in str(error.value) and "FlattenObservation" in str(error.value)
    assert make_env(lambda: FlattenObservation(make()), 2).reset().shape[0] == 2


def test_images_are_refused_with_the_advised_way_out():
    space = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match="none for images"):
        make_env(lambda: Counter(space))
    advised = make_env(lambda: DtypeObservation(FlattenObservation(Counter(space, obs=lambda t: space.sample())), np.float32))
    assert advised.reset().shape == (1, 48)


@pytest.mark.parametrize(
    "space",
    [spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(2), spaces.Box(-1, 1, (2, 2)), spaces.Box(0, 9, (1,), int)],
    ids=str,
)
def test_unsupported_action_spaces_and_the_advised_way_out(space):
    with pytest.raises(ValueError, match="TransformAction") as error:
        make_env(lambda: Counter(action_space=space))
    assert str(space) in str(error.value)
    env = TransformAction(Counter(action_space=space), lambda a: np.full(space.shape, a, space.dtype), spaces.Discrete(2))
    world = make_env(lambda: env)
    world.reset()
    world.step(np.array([1]))
    assert env.unwrapped.actions[0] in space


@pytest.mark.parametrize(
    "wrong, near",
    [("CartPole-v7", "CartPole-v1"), ("Cartpole-v1", "CartPole-v1"), ("ALE/Pong-v5", ""), ("nothing like it", "pprint_registry")],
)
def test_an_unknown_id_is_named_with_close_matches(wrong, near):
    with pytest.raises(ValueError, match="Unknown environment id") as error:
        make_env(wrong)
    assert wrong in str(error.value) and near in str(error.value)


def test_what_is_not_an_environment():
    with pytest.raises(TypeError, match="lambda: MyEnv"):
        make_env(gymnasium.make("CartPole-v1"))
    with pytest.raises(TypeError, match="returned 3"):
        make_env(lambda: 3)
    for env in (3, None, ["CartPole-v1"]):
        with pytest.raises(TypeError, match="id or a function"):
            make_env(env)


def test_a_function_that_returns_the_same_environment_twice():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ValueError, match="share one state"):
        make_env(lambda: env, 2)


def test_what_was_made_is_closed_if_something_fails():
    class Closing(Counter):
        open = 0

        def __init__(self, **options):
            if Closing.open == 3:
                raise OSError("no fourth")
            super().__init__(**options)
            Closing.open += 1

        def close(self):
            Closing.open -= 1

    for make, error in [(Closing, OSError), (lambda: Closing(action_space=spaces.MultiBinary(2)), ValueError)]:
        with pytest.raises(error):
            make_env(make, 4 if make is Closing else 2)
        assert Closing.open == 0
    world = make_env(Closing, 2)
    assert Closing.open == 2
    world.close()
    assert Closing.open == 0


def test_sub_environments_with_different_spaces():
    sizes = iter([2, 3])
    with pytest.raises(ValueError, match="sub-environment 1 has other spaces"):
        make_env(lambda: Counter(action_space=spaces.Discrete(next(sizes))), 2)


@pytest.mark.parametrize(
    "num_envs, kind", [(0, ValueError), (-2, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)]
)
def test_num_envs(num_envs, kind):
    with pytest.raises(kind, match=f"num_envs must be .*{num_envs}"):
        make_env("CartPole-v1", num_envs)


@pytest.mark.parametrize(
    "seed, kind",
    [
        ([1, 2], ValueError),
        (-1, ValueError),
        ([1, 2, -3], ValueError),
        (None, TypeError),
        (0.5, TypeError),
        ("abc", TypeError),
        (True, TypeError),
    ],
)
def test_wrong_seeds(seed, kind):
    with pytest.raises(kind, match="seed"):
        make_env("CartPole-v1", 3, seed=seed)


@pytest.mark.parametrize("batched", [True, False])
def test_wrong_actions(batched):
    cart, swing = (make_env(env_id, 2, batched=batched) for env_id in ("CartPole-v1", "Pendulum-v1"))
    for world in (cart, swing):
        world.reset()
    for action, kind, words in (
        (np.zeros((2, 1), int), ValueError, r"shape \(2,\), got \(2, 1\)"),
        (np.zeros(3, int), ValueError, "shape"),
        (np.zeros(2), TypeError, "float64"),
        (np.zeros(2, bool), TypeError, "bool"),
        (np.array([0, 2]), ValueError, r"0\.\.1, got 2"),
        (np.array([-1, 0]), ValueError, r"0\.\.1, got -1"),
    ):
        with pytest.raises(kind, match=words):
            cart.step(action)
    for action, kind, words in (
        (np.zeros(2), ValueError, r"shape \(2, 1\), got \(2,\)"),
        (np.zeros((2, 2)), ValueError, "shape"),
        (np.array([["a"], ["b"]]), TypeError, "floats"),
        (np.array([[0], [np.nan]]), ValueError, "sub-environment 1 is not finite"),
        (np.array([[np.inf], [0]]), ValueError, "sub-environment 0 is not finite"),
    ):
        with pytest.raises(kind, match=words):
            swing.step(action)


@pytest.mark.parametrize("batched", [True, False])
def test_step_before_reset_and_after_close(batched):
    world = make_env("CartPole-v1", batched=batched)
    with pytest.raises(RuntimeError, match="reset"):
        world.step(np.array([0]))
    world.reset()
    world.close()
    for use in (world.reset, lambda: world.step(np.array([0]))):
        with pytest.raises(RuntimeError, match="close"):
            use()


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_located(broken):
    ids = iter(range(3))

    def sick_in_env_one(what):
        index = next(ids)
        return lambda t: broken if (index, t) == (1, 4) else what(t)

    for options in (
        lambda: dict(reward=sick_in_env_one(lambda t: 1.0)),
        lambda: dict(obs=(lambda show: lambda t: np.array([show(t)]))(sick_in_env_one(float))),
    ):
        ids = iter(range(3))
        world = make_env(lambda options=options: Counter(**options()), 3)
        with pytest.raises(ValueError, match="Counter, step 4, sub-environment 1: .* not finite"):
            play(world, np.zeros((9, 3), int))


@pytest.mark.parametrize(
    "space, obs, words",
    [
        (spaces.Box(-1, 1, (2,)), lambda t: np.zeros(1), r"shape \(1,\), its space says \(2,\)"),
        (spaces.Box(-1, 1, (2,)), lambda t: None, "shape|not finite|not an array"),
        (spaces.Box(-1, 1, (2,)), lambda t: {"a": 1}, "not an array"),
        (spaces.Discrete(3), lambda t: 3, "not in"),
        (spaces.Discrete(3, start=1), lambda t: 0, "not in"),
    ],
)
def test_observations_that_break_their_promise(space, obs, words):
    with pytest.raises(ValueError, match=words):
        make_env(lambda: Counter(space, obs=obs)).reset()


def test_the_interface_of_old_gym_is_named():
    class Old(Counter):
        def reset(self, **options):
            return super().reset(**options)[0] if self.ends_at else super().reset(**options)

        def step(self, action):
            return super().step(action)[:4]

    with pytest.raises(ValueError, match=r"reset\(\) must return \(obs, info\)"):
        make_env(lambda: Old(ends_at=2)).reset()
    world = make_env(Old)
    world.reset()
    with pytest.raises(ValueError, match=r"step\(\) must return \(obs, reward, terminated, truncated, info\)"):
        world.step(np.zeros(1, int))


def test_an_empty_action_is_refused():
    with pytest.raises(ValueError, match="action space .* not supported"):
        make_env(lambda: Counter(action_space=spaces.Box(-1, 1, (0,))))


def test_a_reward_that_is_no_number():
    for reward in (None, "one", np.zeros(2)):
        world = make_env(lambda r=reward: Counter(reward=lambda t: r))
        world.reset()
        with pytest.raises(ValueError, match="reward is not a number"):
            world.step(np.zeros(1, int))


# ---- somebody else's code --------------------------------------------------------------------------------------------------


class Falls(gymnasium.Env):
    """An environment of somebody else's with one fault, in `where`."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, where):
        self.where, self.episodes = where, 0
        if where == "init":
            raise KeyError("boom")

    def reset(self, seed=None, options=None):
        self.episodes += 1
        if self.where == "reset" or self.where == "second reset" and self.episodes == 2:
            raise ZeroDivisionError("boom")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if self.where == "step":
            raise AssertionError("boom")
        return np.zeros(2, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize(
    "where, message",
    [
        ("reset", r"Falls, step 0, sub-environment 0: reset\(\) raised ZeroDivisionError: boom \(test_make_env.py, line \d+\)"),
        ("second reset", r"Falls, step 1, .*reset\(\) raised ZeroDivisionError: boom"),
        ("step", r"Falls, step 1, .*step\(\) raised AssertionError: boom.*The fault is inside the environment"),
    ],
)
def test_an_error_of_the_environment_says_where(where, message):
    with pytest.raises(ValueError, match=message) as error:
        world = make_env(lambda: Falls(where))
        world.reset()
        world.step(np.zeros(1, int))
    assert type(error.value.__cause__) in (ZeroDivisionError, AssertionError)


@pytest.mark.parametrize(
    "entry_point, message",
    [
        (lambda: Falls("init"), r"Falls-v0 cannot be made: KeyError: 'boom' \(test_make_env.py, line \d+\)"),
        ("no_such_module:Env", "Falls-v0 cannot be made: ModuleNotFoundError: No module named 'no_such_module'.*install it"),
        ("math:Nothing", "Falls-v0 cannot be made: AttributeError"),
    ],
)
def test_an_environment_that_cannot_be_made_says_why(entry_point, message):
    gymnasium.register("Falls-v0", entry_point)
    try:
        with pytest.raises(ValueError, match=message):
            make_env("Falls-v0")
    finally:
        del gymnasium.registry["Falls-v0"]


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "there is no module 'my_task'. It must lie in the folder where Python was started"),
        ("def f(:", "importing 'my_task' raised SyntaxError"),
        ("raise ValueError('at import')", r"importing 'my_task' raised ValueError: at import \(my_task.py, line 1\)"),
        ("import no_such_package", "importing 'my_task' raised ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(text, message, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_task", raising=False)
    if text:
        (tmp_path / "my_task.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"Unknown environment id 'my_task:X-v0': {message}"):
        make_env("my_task:X-v0")


def test_an_environment_without_spaces_says_so():
    class Bare(gymnasium.Env):
        pass

    with pytest.raises(TypeError, match="Bare has no observation_space. Set it in __init__"):
        make_env(Bare)
