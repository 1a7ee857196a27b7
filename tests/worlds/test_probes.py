"""The probes pay what they promise: values by Monte Carlo and by solving Bellman's equation with their own steps."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from rlcourse.worlds import probes
from rlcourse.worlds.make_env import make_env
from rlcourse.worlds.probes import (
    PROBES,
    ConstantReward,
    DelayedReward,
    ObservedAction,
    ObservedReward,
    RewardedAction,
    TruncatedForever,
)

VARIANTS = [(probe, continuous) for probe in PROBES for continuous in (False, True)]


def best_action(probe, continuous, obs):
    """The best action of each row, worked out by hand."""
    sign = np.sign(obs[:, 0]) if probe is ObservedAction else np.ones(len(obs))
    if continuous:
        return sign[:, None] / 2
    return (sign > 0).astype(int) if probe in (ObservedAction, RewardedAction) else np.zeros(len(obs), int)


@pytest.mark.parametrize("probe, continuous", VARIANTS)
@pytest.mark.filterwarnings("ignore")
def test_gymnasium_accepts_them(probe, continuous):
    check_env(probe(continuous=continuous))


@pytest.mark.parametrize("probe, continuous", VARIANTS)
@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_values_are_what_the_best_policy_earns(probe, continuous, gamma):
    """Discounted returns of played episodes, grouped by observation; a truncated tail is added as the geometric series."""
    world = make_env(lambda: probe(continuous=continuous), 40, seed=3)
    obs, live, start = world.reset(), np.ones(40, bool), []
    rewards = []
    while live.any():
        start.append(np.where(live[:, None], obs, np.nan))
        obs, reward, terminated, truncated, _ = world.step(best_action(probe, continuous, obs))
        rewards.append(reward * live)
        live &= ~(terminated | truncated)
    tail = np.where(truncated, gamma ** len(rewards) / (1 - gamma), 0.0)
    assert truncated.all() == (probe is TruncatedForever) and not (truncated & terminated).any()
    values = dict(zip(probe().observations[:, 0], probe().values(gamma), strict=True))
    for t, seen in enumerate(start):
        returns = sum(gamma**k * r for k, r in enumerate(rewards[t:])) + tail / gamma**t if gamma or not t else rewards[t]
        for o, g in zip(seen[:, 0], returns, strict=True):
            assert np.isnan(o) or abs(values[o] - g) < 1e-12
    seen = {o for step in start for o in step[:, 0] if not np.isnan(o)}
    assert seen == set(values)


@pytest.mark.parametrize("probe, continuous", VARIANTS)
def test_optimal_return(probe, continuous):
    world = make_env(lambda: probe(continuous=continuous), 400, seed=5)
    obs, total, live = world.reset(), np.zeros(400), np.ones(400, bool)
    while live.any():
        obs, reward, terminated, truncated, _ = world.step(best_action(probe, continuous, obs))
        total += reward * live
        live &= ~(terminated | truncated)
    assert abs(total.mean() - probe().optimal_return) <= 4 * total.std() / 20


@pytest.mark.parametrize("probe, gain", [(RewardedAction, [-1, 1]), (ObservedAction, [-1, 1])])
def test_wrong_actions_earn_less(probe, gain):
    world = make_env(probe, 40, seed=1)
    obs = world.reset()
    right = best_action(probe, False, obs)
    assert (world.step(1 - right)[1] == -1).all()
    world = make_env(lambda: probe(continuous=True), 40, seed=1)
    obs = world.reset()
    right = best_action(probe, True, obs)
    np.testing.assert_allclose(world.step(right - np.sign(right) * 0.25)[1], 1 - 0.25**2, atol=1e-7)


def test_spaces():
    assert ConstantReward().action_space == spaces.Discrete(1)
    assert RewardedAction().action_space == ObservedAction().action_space == spaces.Discrete(2)
    assert all(isinstance(probe(continuous=True).action_space, spaces.Box) for probe in PROBES)


def test_values_by_hand():
    assert ConstantReward().values(0.5) == [1]
    np.testing.assert_array_equal(ObservedReward().values(0.5), [-1, 1])
    np.testing.assert_array_equal(DelayedReward().values(0.5), [0.5, 1])
    assert TruncatedForever().values(0.75) == [4]
    np.testing.assert_array_equal(ObservedAction().values(0.5), [1, 1])


def test_truncated_forever_ends_by_the_clock_alone():
    world = make_env(lambda: TruncatedForever(horizon=3))
    world.reset()
    flags = [world.step(np.zeros(1, int))[2:4] for _ in range(6)]
    assert [(bool(a[0]), bool(b[0])) for a, b in flags] == [(False, False), (False, False), (False, True)] * 2


# -------------------------------------------------------------------------------------- probes with one choice: what faults see

CHOICES = [probes.EarlyReward(), probes.EndOrGoOn(), probes.TruncatedInto(), probes.TruncatedInto(decoy=True),
           probes.Patience(), probes.Patience(now=0.3)]  # fmt: skip


def played(env, action):
    """Rewards of one episode that meets the choice, from there on, and the last observation if it was truncated."""
    env.reset(seed=0)
    while env.obs[0] != env.choice:
        env.reset()
    rewards, ended = [], False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
        ended = terminated or truncated
    return rewards, obs[0] if truncated else None


def value_of(env, obs, gamma):
    return env.values(gamma)[np.argmin(np.abs(env.observations[:, 0] - obs))]


@pytest.mark.parametrize("env", CHOICES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("gamma", [0.6, 0.9])
def test_the_best_choice_is_the_one_with_the_larger_value(env, gamma):
    q = []
    for action in (0, 1):
        rewards, final = played(env, action)
        tail = 0.0 if final is None else gamma ** len(rewards) * value_of(env, final, gamma)
        q.append(sum(gamma**k * r for k, r in enumerate(rewards)) + tail)
    best = 1 if isinstance(env, probes.Patience) and gamma**3 > env.now else env.best
    assert np.argmax(q) == best and abs(max(q) - value_of(env, env.choice, gamma)) < 1e-12
    if isinstance(env, probes.Patience):
        assert gamma**3 > env.now or env.best == 0


@pytest.mark.parametrize("gamma", [0.6, 0.9])
def test_what_faults_see_in_the_choices(gamma):
    """The arithmetic of the docstrings."""
    early = [played(probes.EarlyReward(), action)[0] for action in (0, 1)]
    assert early == [[0, 0], [1, -0.5]]
    end = [played(probes.EndOrGoOn(), action)[0] for action in (0, 1)]
    assert end == [[1], [1, 0.5]]
    v = 1 / (1 - gamma)
    assert abs((1 + gamma * (0.5 + gamma * v)) - (1 + gamma * v) + gamma / 2) < 1e-12
    assert [played(probes.TruncatedInto(), a) for a in (0, 1)] == [([0.3], None), ([0.0], 1.0)]
    assert [played(probes.TruncatedInto(decoy=True), a) for a in (0, 1)] == [([0.3], None), ([0.0], -1.0)]
    assert [played(probes.Patience(), a)[0] for a in (0, 1)] == [[0.75], [0, 0, 0, 1]]


def test_where_the_episodes_of_the_time_limit_start():
    for decoy, shares in ((False, np.array([1, 1, 1]) / 3), (True, np.array([1, 1, 5]) / 7)):
        env = probes.TruncatedInto(decoy=decoy)
        env.reset(seed=1)
        starts = [float(env.reset()[0][0]) for _ in range(3000)]
        assert np.allclose([starts.count(x) / 3000 for x in (-1.0, 0.0, 1.0)], shares, atol=0.04)
        assert abs(np.mean([x if x else 0.3 for x in starts]) - env.optimal_return) < 0.06


@pytest.mark.parametrize("probe", [*probes.CHOICES], ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore")
def test_gymnasium_accepts_the_choices_and_box_actions_count_by_sign(probe):
    for continuous in (False, True):
        check_env(probe(continuous=continuous))
    discrete, box = probe(), probe(continuous=True)
    for action, a in ((0, -0.2), (1, 0.2), (0, 0.0)):
        assert played(discrete, action) == played(box, np.array([a], np.float32))
