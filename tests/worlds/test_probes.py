"""The probes pay what they promise: values by Monte Carlo and by solving Bellman's equation with their own steps."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

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
