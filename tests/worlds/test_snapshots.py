"""The state of an environment, taken and put back into a new one: the two then go on alike, to the last bit."""

from collections import deque

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlcourse import make_env
from rlcourse.worlds import snapshots
from rlcourse.worlds.lqr import LQREnv, point_mass

ROBOTS = ["HalfCheetah-v5", "Hopper-v5", "Reacher-v5", "Walker2d-v5"]
CLASSICS = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"]


def actions(world, steps, seed=0):
    rng, space = np.random.default_rng(seed), world.action_space
    size = (steps, world.num_envs)
    return rng.integers(space.n, size=size) if isinstance(space, Discrete) else rng.uniform(-1, 1, (*size, *space.shape))


def same_future(make, before=40, after=300):
    """Whether a world that is given another one's snapshot goes on as that one does, later episodes included."""
    first, second = make(), make()
    first.reset()
    for action in actions(first, before):
        first.step(action)
    second.restore(first.snapshot())
    ended = 0
    for action in actions(first, after, seed=1):
        a, b = first.step(action), second.step(action)
        if not all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)):
            return False
        ended += (a[2] | a[3]).sum()
    return ended > 0


class Short(gymnasium.Wrapper):
    """Ends every episode after 60 steps, so that resets are part of what is compared."""

    def __init__(self, env):
        super().__init__(env)
        self.count, self.history = 0, []

    def reset(self, **options):
        self.count, self.history = 0, []
        return self.env.reset(**options)

    def step(self, action):
        self.count += 1
        self.history.append(self.count)
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated or len(self.history) >= 60, info


@pytest.mark.parametrize("env_id", CLASSICS)
@pytest.mark.parametrize("batched", [True, False])
def test_a_classic_goes_on_alike(env_id, batched):
    assert same_future(lambda: make_env(env_id, 3, seed=5, batched=batched), after=1200)


@pytest.mark.parametrize("env_id", ROBOTS)
def test_a_robot_goes_on_alike(env_id):
    pytest.importorskip("mujoco")
    assert same_future(lambda: make_env(lambda: Short(gymnasium.make(env_id)), 2, seed=5), after=130)


def test_the_linear_quadratic_twin_goes_on_alike():
    assert same_future(lambda: make_env(lambda: LQREnv(point_mass(), 50), 3, seed=5))


def test_a_snapshot_is_not_changed_by_going_on():
    world = make_env("CartPole-v1", 2, seed=0)
    world.reset()
    snapshot = world.snapshot()
    before = snapshot["state"].copy()
    for action in actions(world, 50):
        world.step(action)
    np.testing.assert_array_equal(snapshot["state"], before)


class Keeps(gymnasium.Env):
    """Keeps whatever it is given."""

    observation_space, action_space = Box(-1, 1, (1,)), Discrete(2)

    def __init__(self, **things):
        vars(self).update(things)


def test_plain_data_of_every_kind_comes_back():
    things = {"a": 1, "b": 2.5, "c": "x", "d": None, "e": [1, (2, np.float32(3))], "f": {"k": np.arange(3)}}
    twister = lambda: np.random.Generator(np.random.MT19937(3))  # noqa: E731
    state = snapshots.take(Keeps(**things, g=deque([1, 2], 5), h=np.random.default_rng(4), i=twister()))
    new = Keeps(h=None)
    snapshots.put_back(new, state)
    assert [new.a, new.b, new.c, new.d, new.e] == [things[name] for name in "abcde"] and type(new.e[1][1]) is np.float32
    assert new.f["k"].tolist() == [0, 1, 2] and new.g == deque([1, 2]) and new.g.maxlen == 5
    assert new.h.random() == np.random.default_rng(4).random()
    assert new.i.random() == twister().random()


def test_neither_snapshot_nor_environment_sees_the_other_change():
    env = Keeps(x=np.zeros(2))
    state = snapshots.take(env)
    env.x += 1
    new = Keeps()
    snapshots.put_back(new, state)
    assert new.x.tolist() == [0, 0]
    new.x += 5
    assert state[0]["x"]["array"].tolist() == [0, 0]


def test_what_is_no_plain_data_is_named():
    with pytest.raises(snapshots.CannotStore, match=r"Keeps.engine is a object"):
        snapshots.take(Keeps(engine=object()))
    with pytest.raises(snapshots.CannotStore, match=r"Keeps.deep\['x'\]\[1\] is a set"):
        snapshots.take(Keeps(deep={"x": [1, {2}]}))
    array = np.zeros(3)
    with pytest.raises(snapshots.CannotStore, match="Keeps.obs is also another attribute"):
        snapshots.take(Keeps(state=array, obs=array))
