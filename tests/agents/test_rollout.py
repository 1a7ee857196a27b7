"""Collecting: order, truncation, episode statistics, and the one transposition."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rlcourse.agents.rollout import Batch, Episodes, _rows, collect
from rlcourse.agents.runs import Runs
from rlcourse.worlds.make_env import make_env


class Counter(gymnasium.Env):
    """Observation = steps since the reset, reward = 10 · that. Ends after `length` steps, as `how` says."""

    observation_space, action_space = Box(0.0, 100.0, (1,)), Discrete(2)

    def __init__(self, length, how):
        self.length, self.how = length, how

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.t += 1
        over = self.t == self.length
        flags = over and self.how != "truncated", over and self.how != "terminated"
        return np.array([self.t], np.float32), 10.0 * self.t, *flags, {}


def collected(env, num_runs=2, envs=1, steps=7, **options):
    world = make_env(env, num_runs * envs)
    agent = Runs(world.obs_size, world.action_space, (8,), range(num_runs), torch.float64)
    episodes = Episodes(num_runs, envs)
    rollout, obs = collect(agent, world, world.reset(), steps, episodes, **options)
    return agent, rollout, obs, episodes


@pytest.mark.parametrize("how", ["terminated", "truncated", "both"])
def test_rows_are_real_transitions_and_truncation_sees_the_final_observation(how):
    agent, rollout, obs, episodes = collected(lambda: Counter(3, how))
    t = np.array([0, 1, 2, 0, 1, 2, 0])
    np.testing.assert_array_equal(rollout.obs[:, 0, 0, 0], t)  # acted on; no reset row in between
    np.testing.assert_array_equal(rollout.reward[:, 1, 0], 10.0 * (t + 1))
    ended = t == 2
    np.testing.assert_array_equal(rollout.terminated[:, 0, 0], ended & (how != "truncated"))
    np.testing.assert_array_equal(rollout.truncated[:, 0, 0], ended & (how != "terminated"))
    successor = torch.tensor(np.tile(t + 1.0, (2, 1))[..., None])
    expected = agent.value(successor).detach().numpy().T
    rows = slice(None) if how != "terminated" else ~ended  # where terminated, nobody may look
    np.testing.assert_allclose(rollout.next_value[rows, :, 0], expected[rows], rtol=1e-12)
    np.testing.assert_array_equal(obs, [[1.0], [1.0]])
    assert [list(r) for r in episodes.recent] == [[60.0, 60.0]] * 2


class Echo(Counter):
    """The reward is the action that arrived."""

    action_space = Box(-2.0, 6.0, (1,))

    def step(self, action):
        return *super().step(action)[:1], float(action[0]), *super().step(action)[2:]


@pytest.mark.parametrize("bounds", ["clip", "tanh"])
def test_the_environment_gets_the_action_within_its_bounds_and_the_rollout_keeps_what_was_drawn(bounds):
    world = make_env(lambda: Echo(50, "terminated"), 2)
    agent = Runs(1, world.action_space, (8,), [0, 1], torch.float64, bounds=bounds, initial_log_std=1.5)
    rollout, _ = collect(agent, world, world.reset(), 20, Episodes(2, 1))
    drawn = rollout.action[..., 0].numpy()
    expected = np.clip(drawn, -2, 6) if bounds == "clip" else 2 + 4 * np.tanh(drawn)
    assert np.abs(drawn).max() > 6
    np.testing.assert_allclose(rollout.reward, expected, rtol=1e-6, atol=1e-6)


def test_values_and_actions_belong_to_the_observations():
    agent, rollout, _, _ = collected("CartPole-v1", num_runs=3, envs=4, steps=20)
    value = agent.value(_rows(rollout.obs)).detach()
    torch.testing.assert_close(_rows(torch.as_tensor(rollout.value)), value, rtol=1e-12, atol=1e-12)
    # the actions are those that the runs' own noise selects, a new one at every step
    noise = Runs(4, Discrete(2), (8,), range(3), torch.float64).action_noise(20, 4)
    assert torch.equal(rollout.action, torch.stack([agent.act(rollout.obs[t], noise[t]) for t in range(20)]))
    # replay the recorded actions of one sub-environment in Gymnasium's own CartPole
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset()
    env.state = rollout.obs[0, 2, 3].numpy()
    for t in range(19):
        (
            obs,
            *_,
        ) = env.step(int(rollout.action[t, 2, 3]))
        if rollout.terminated[t, 2, 3]:
            break
        np.testing.assert_allclose(rollout.obs[t + 1, 2, 3], obs, rtol=1e-4, atol=1e-5)


def test_reward_scale_reaches_the_learner_but_not_the_statistics():
    scale = torch.tensor([0.1, 0.5])
    _, rollout, _, episodes = collected(lambda: Counter(3, "truncated"), reward_scale=scale)
    np.testing.assert_allclose(rollout.reward[:3, :, 0], [[1.0, 5.0], [2.0, 10.0], [3.0, 15.0]], rtol=1e-7)
    assert episodes.recent[0][0] == 60.0


def test_episode_statistics_agree_with_gymnasium():
    envs, rng = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync"), np.random.default_rng(0)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    envs.reset(seed=0)
    ours, theirs, previous = Episodes(1, 3), [], np.zeros(3, bool)
    for _ in range(300):
        _, reward, terminated, truncated, info = envs.step(rng.integers(2, size=3))
        ended = terminated | truncated
        ours.record(np.where(previous, 0.0, reward), ended)  # the reset rows of NEXT_STEP carry no reward
        theirs += list(info["episode"]["r"][info["_episode"]]) if "episode" in info else []
        previous = ended
    assert len(theirs) > 20
    assert ours.finished[0] == len(theirs)
    np.testing.assert_allclose(ours.mean_return(), [np.mean(theirs[-100:])])


def test_mean_return_is_nan_before_the_first_episode_and_forgets_after_100():
    episodes = Episodes(2, 1)
    episodes.record(np.array([1.0, 1.0]), np.array([True, False]))
    np.testing.assert_array_equal(episodes.mean_return(), [1.0, np.nan])
    for _ in range(100):
        episodes.record(np.array([5.0, 0.0]), np.array([True, False]))
    assert episodes.mean_return()[0] == 5.0 and episodes.finished.tolist() == [101, 0]


def test_flatten_keeps_runs_apart_and_time_before_environments():
    x = np.arange(2 * 3 * 4).reshape(2, 3, 4)  # (T, R, N), value = 12 t + 4 r + n
    np.testing.assert_array_equal(_rows(x)[1], [4, 5, 6, 7, 16, 17, 18, 19])


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_minibatches_use_every_row_once_in_an_order_of_each_run(parts):
    agent = Runs(1, Discrete(2), (4,), [0, 1], torch.float64)
    row = torch.arange(10.0).expand(2, 10)
    batch = Batch(row[..., None], row, row, row + 100, row)
    pieces = list(batch.minibatches(parts, agent))
    order = torch.cat([piece.action for piece in pieces], 1)
    assert {len(piece) for piece in pieces} <= {10 // parts, 10 // parts + 1}
    np.testing.assert_array_equal(order.sort(1).values, row)
    if parts > 1:
        assert not torch.equal(order[0], order[1])
    for piece in pieces:
        np.testing.assert_array_equal(piece.advantage, piece.action + 100)
        np.testing.assert_array_equal(piece.obs[..., 0], piece.action)


def test_more_minibatches_than_rows_is_an_error():
    agent = Runs(1, Discrete(2), (4,), [0], torch.float64)
    row = torch.arange(3.0).expand(1, 3)
    with pytest.raises(ValueError, match="num_minibatches = 4.*3 rows"):
        next(Batch(row[..., None], row, row, row, row).minibatches(4, agent))
