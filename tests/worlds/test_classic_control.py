"""The batched twins: hand numbers, physics, Gymnasium's own environments as the other engine, start distributions."""

import math

import gymnasium
import numpy as np
import pytest
from scipy import stats

from rlcourse.worlds.classic_control import TWINS, Acrobot, CartPole, Pendulum
from rlcourse.worlds.make_env import make_env

IDS = sorted(TWINS)
# Start states for the comparison: wide enough to meet every limit, wrap and bound.
SPREAD = {"CartPole-v1": [2.5, 3.0, 0.22, 3.0], "Acrobot-v1": [math.pi, math.pi, 12.5, 28.0], "Pendulum-v1": [20.0, 8.0]}


def random_actions(env_id, rng, *shape):
    if env_id == "Pendulum-v1":
        return rng.uniform(-3, 3, (*shape, 1)).astype(np.float32)
    return rng.integers(0, 2 if env_id == "CartPole-v1" else 3, shape)


def gymnasium_step(env, state, action):
    """One step of Gymnasium's own environment from a given state: (state, reward, terminated, obs)."""
    env.state, env.steps_beyond_terminated = np.array(state), None
    obs, reward, terminated, truncated, _ = env.step(action)
    assert not truncated
    return np.array(env.state, np.float64), reward, terminated, obs


def column(*numbers):
    return np.array(numbers, np.float64)[:, None]


# ---------------------------------------------------------------- hand-worked numbers and physics


def test_cartpole_pushed_right_from_rest():
    state, reward, terminated = CartPole.step(np.zeros((4, 1)), np.array([1]))
    push = 10 / 1.1
    theta_acc = -push / (0.5 * (4 / 3 - 0.1 / 1.1))
    np.testing.assert_allclose(state[:, 0], [0, 0.02 * (push - 0.05 * theta_acc / 1.1), 0, 0.02 * theta_acc], rtol=1e-15)
    assert reward == 1.0 and not terminated


@pytest.mark.parametrize(
    "x, angle, ends", [(2.39, 0, 0), (2.41, 0, 1), (-2.41, 0, 1), (0, 0.209, 0), (0, 0.210, 1), (0, -0.210, 1)]
)
def test_cartpole_ends_outside_its_limits_and_pays_for_that_step_too(x, angle, ends):
    _, reward, terminated = CartPole.step(column(x, 0, angle, 0), np.array([0]))
    assert terminated == bool(ends) and reward == 1.0


def test_acrobot_at_rest_stays_at_rest_and_looks_down():
    state, reward, terminated = Acrobot.step(np.zeros((4, 1)), np.array([1]))
    np.testing.assert_allclose(state, 0, atol=1e-15)
    assert reward == -1.0 and not terminated
    np.testing.assert_allclose(Acrobot.observe(state), [[1, 0, 1, 0, 0, 0]], atol=1e-15)


def test_acrobot_reaches_the_line():
    _, reward, terminated = Acrobot.step(column(math.pi, 0, 0, 0), np.array([1]))
    assert reward == 0.0 and terminated


def test_acrobot_without_torque_keeps_its_energy():
    """An identity Gymnasium knows nothing of: kinetic + potential energy is constant, up to the error of RK4."""

    def energy(state):
        theta1, theta2, w1, w2 = state
        inertia1 = 0.25 + 1 + 0.25 + np.cos(theta2) + 2  # both links turning about the pivot
        inertia2 = 0.25 + 1
        kinetic = inertia1 * w1**2 / 2 + inertia2 * w2**2 / 2 + (0.25 + 0.5 * np.cos(theta2) + 1) * w1 * w2
        potential = -9.8 * (0.5 * np.cos(theta1) + np.cos(theta1) + 0.5 * np.cos(theta1 + theta2))
        return kinetic + potential

    rng = np.random.default_rng(0)
    state = rng.uniform(-0.5, 0.5, (4, 50))
    after, _, _ = Acrobot.step(state, np.ones(50, int))
    np.testing.assert_allclose(energy(after), energy(state), atol=2e-3)


def test_pendulum_worked_by_hand():
    state, reward, terminated = Pendulum.step(column(math.pi / 2, 0), np.array([[1.0]], np.float32))
    np.testing.assert_allclose(reward, -(math.pi**2 / 4 + 0.001), rtol=1e-8)
    np.testing.assert_allclose(state[:, 0], [math.pi / 2 + 0.045, 0.9], rtol=1e-15)
    assert not terminated


def test_pendulum_speed_is_bounded_and_the_angle_of_the_reward_is_wrapped():
    state, reward, _ = Pendulum.step(column(math.pi / 2 + 4 * math.pi, 8.0), np.array([[2.0]], np.float32))
    assert state[1, 0] == 8.0
    np.testing.assert_allclose(reward, -(math.pi**2 / 4 + 6.4 + 0.004), rtol=1e-8)


# ---------------------------------------------------------------- the other engine: Gymnasium


@pytest.mark.parametrize("env_id", IDS)
def test_every_step_equals_gymnasiums(env_id):
    """400 steps × 24 sub-environments from wide start states, each step from the same float64 state."""
    rng = np.random.default_rng(1)
    dynamics, env = TWINS[env_id], gymnasium.make(env_id).unwrapped
    env.reset(seed=0)
    state = rng.uniform(-1, 1, (dynamics.state_size, 24)) * np.array(SPREAD[env_id])[:, None]
    ended = 0
    for action in random_actions(env_id, rng, 400, 24):
        action = np.clip(action, -2, 2)  # what `make_env` does for Box actions
        new, reward, terminated = dynamics.step(state, action)
        obs = dynamics.observe(new)
        assert new.dtype == np.float64 and obs.dtype == np.float32 and terminated.dtype == bool
        theirs = [gymnasium_step(env, state[:, i], action[i]) for i in range(24)]
        their_state, their_reward, their_terminated, their_obs = (np.array(part) for part in zip(*theirs, strict=True))
        np.testing.assert_allclose(new.T, their_state, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(reward, their_reward, atol=1e-9)  # the torque squared is float32, also over there
        np.testing.assert_array_equal(terminated, their_terminated)
        np.testing.assert_allclose(obs, their_obs, rtol=3e-7, atol=1e-7)  # one unit of float32
        ended += terminated.sum()
        fresh = rng.uniform(-1, 1, state.shape) * np.array(SPREAD[env_id])[:, None]
        state = np.where(terminated | (np.abs(new).max(0) > 100), fresh, new)
    assert (ended > 20) == (env_id != "Pendulum-v1")


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("limit", [None, 25])
def test_whole_trajectories_equal_gymnasiums(env_id, limit):
    """Same seeds, same actions: the same start states, rewards, flags and resets as a plain loop over `gymnasium.make`."""
    seeds, rng = [3, 1, 4, 15], np.random.default_rng(2)
    world = make_env(env_id, 4, seed=seeds)
    world.max_episode_steps = limit or world.max_episode_steps
    envs = [gymnasium.make(env_id, max_episode_steps=limit, disable_env_checker=True) for _ in seeds]
    theirs = np.array([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    np.testing.assert_array_equal(world.reset(), theirs)
    ends = 0
    for action in random_actions(env_id, rng, 700, 4):
        obs, reward, terminated, truncated, next_obs = world.step(action)
        theirs = [env.step(a) for env, a in zip(envs, np.clip(action, -2, 2), strict=True)]
        seen, paid, dead, late, _ = (list(part) for part in zip(*theirs, strict=True))
        np.testing.assert_allclose(next_obs, seen, atol=1e-5)
        np.testing.assert_allclose(reward, paid, atol=1e-7)
        np.testing.assert_array_equal(terminated, dead)
        np.testing.assert_array_equal(truncated, late)
        for i in np.flatnonzero(terminated | truncated):
            ends += 1
            next_obs[i] = envs[i].reset()[0]
        np.testing.assert_allclose(obs, next_obs, atol=1e-12)
    assert ends >= (4 if limit is None else 100)


def test_a_time_limit_can_set_both_flags():
    push_right = np.ones(1, int)
    world = make_env("CartPole-v1", seed=7)
    world.reset()
    steps = 1
    while not world.step(push_right)[2][0]:
        steps += 1
    for limit, flags in ((steps - 1, (False, True)), (steps, (True, True)), (steps + 1, (True, False))):
        world = make_env("CartPole-v1", seed=[int(np.random.SeedSequence(7).generate_state(1, np.uint64)[0])])
        env = gymnasium.make("CartPole-v1", max_episode_steps=limit)
        env.reset(seed=int(np.random.SeedSequence(7).generate_state(1, np.uint64)[0]))
        world.max_episode_steps = limit
        world.reset()
        for _ in range(min(limit, steps)):
            _, _, terminated, truncated, _ = world.step(push_right)
            theirs = env.step(1)[2:4]
        assert (terminated[0], truncated[0]) == theirs == flags


# ---------------------------------------------------------------- start distributions


@pytest.mark.parametrize(
    "env_id, half_width", [("CartPole-v1", [0.05] * 4), ("Acrobot-v1", [0.1] * 4), ("Pendulum-v1", [math.pi, 1.0])]
)
def test_start_states_are_uniform(env_id, half_width):
    starts = TWINS[env_id].start(np.random.default_rng(5), 5000)
    assert starts.shape == (5000, len(half_width)) and starts.dtype == np.float64
    for numbers, half in zip(starts.T, half_width, strict=True):
        assert stats.kstest(numbers, stats.uniform(-half, 2 * half).cdf).pvalue > 1e-3
    correlation = np.corrcoef(starts.T) - np.eye(len(half_width))
    assert np.abs(correlation).max() < 0.06


@pytest.mark.parametrize("env_id", IDS)
def test_later_start_states_follow_the_same_distribution_as_the_first(env_id):
    """Starts after many resets of few sub-environments against first starts of many: two-sample Kolmogorov–Smirnov."""
    first = make_env(env_id, 600, seed=8).reset()
    world = make_env(env_id, 3, seed=9)
    later = np.concatenate([world.reset() for _ in range(200)])
    for a, b in zip(first.T, later.T, strict=True):
        assert stats.ks_2samp(a, b).pvalue > 1e-3
    assert len(np.unique(later, axis=0)) == 600
