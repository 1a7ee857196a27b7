"""Running statistics against NumPy on everything at once; what they do to acting, saving and rewards."""

import numpy as np
import pytest
import torch

from rlcourse import PPO, evaluate, load, train
from rlcourse.agents.normalization import ObsNormalizer, RewardNormalizer, Statistics

SMALL = {"num_envs": 4, "num_steps": 32, "hidden_sizes": (8,), "update_epochs": 2, "num_minibatches": 2}


def test_statistics_in_pieces_equal_those_of_the_whole():
    rng = np.random.default_rng(0)
    rows = rng.normal([1e4, -3.0, 0.0], [0.1, 5.0, 0.0], size=(2, 300, 3))  # a large mean: E[x²] − E[x]² would lose all digits
    statistics = Statistics(2, 3)
    assert statistics.count == 0 and (statistics.std == 1).all()
    for piece in np.split(rows, [1, 50, 170], axis=1):
        statistics.update(piece)
    np.testing.assert_allclose(statistics.mean, rows.mean(1), rtol=1e-12)
    np.testing.assert_allclose(statistics.std, rows.std(1), rtol=1e-9, atol=1e-12)
    alone = statistics.select(1)
    np.testing.assert_array_equal(alone.mean, statistics.mean[1:])
    alone.update(rows[:1, :10])
    np.testing.assert_allclose(statistics.std, rows.std(1), rtol=1e-9, atol=1e-12)  # select is a copy


def test_observations_are_shifted_scaled_and_bounded_per_run():
    rng = np.random.default_rng(0)
    rows = torch.tensor(rng.normal([[[5.0, -2.0]], [[0.0, 100.0]]], 3.0, size=(2, 400, 2)))
    normalizer = ObsNormalizer(Statistics(2, 2), torch.float64)
    assert torch.equal(normalizer(rows), rows)  # before any data
    normalizer.update(rows)
    seen = normalizer(rows)
    torch.testing.assert_close(seen.mean(1), torch.zeros(2, 2, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(seen.std(1, correction=0), torch.ones(2, 2, dtype=torch.float64), atol=1e-4, rtol=0)
    assert normalizer(rows * 1e6).abs().max() == 10
    constant = ObsNormalizer(Statistics(1, 1), torch.float32)
    constant.update(torch.full((1, 50, 1), 7.0))
    assert constant(torch.tensor([[[7.0]]])).item() == 0 and constant(torch.tensor([[[7.0001]]])).item() == pytest.approx(
        1, rel=0.1
    )


@pytest.mark.parametrize("gamma", [0.9, np.array([0.9, 0.5])])
def test_rewards_are_divided_by_the_spread_of_discounted_returns(gamma):
    rng = np.random.default_rng(0)
    reward, ended = rng.normal(2.0, 1.0, size=(60, 2, 3)), rng.random((60, 2, 3)) < 0.1
    normalizer = RewardNormalizer(2, 3)
    normalizer(reward[:25], ended[:25], gamma)
    got = normalizer(reward[25:], ended[25:], gamma)
    returns = np.zeros((2, 60, 3))
    for r, n in np.ndindex(2, 3):
        g = np.broadcast_to(gamma, 2)[r]
        start = 0
        for t in range(60):
            returns[r, t, n] = sum(g ** (t - k) * reward[k, r, n] for k in range(start, t + 1))
            start = t + 1 if ended[t, r, n] else start
    expected = reward[25:] / (returns.reshape(2, -1).std(1)[:, None] + 1e-4)
    np.testing.assert_allclose(got, expected, rtol=1e-10)
    assert RewardNormalizer(1, 1)(np.array([[[1.0]], [[1.0]]]), np.array([[[True]], [[True]]]), 0.9).tolist() == [[[10.0]]] * 2


def test_the_unit_of_reward_hardly_matters_with_normalised_rewards():
    """Rewards a thousand times larger: the same advantages and steps, up to the small constant in the divisor."""
    parameters = [
        train(
            PPO(**SMALL, normalize_reward=True, reward_scale=scale),
            "Pendulum-v1",
            total_steps=300,
            seeds=[0],
            progress=False,
            dtype=torch.float64,
        ).agent.parameters
        for scale in (1.0, 1000.0)
    ]
    torch.testing.assert_close(*parameters, atol=1e-4, rtol=0)
    raw = train(PPO(**SMALL), "Pendulum-v1", total_steps=300, seeds=[0], progress=False, dtype=torch.float64).agent.parameters
    assert (raw - parameters[0]).abs().max() > 1e-3


def test_statistics_belong_to_the_policy_and_are_saved(tmp_path):
    result = train(PPO(**SMALL, normalize_obs=True), "Pendulum-v1", total_steps=600, seeds=[0, 1], progress=False)
    again = load(result.save(tmp_path / "run"))
    for name in ("count", "mean", "squares"):
        np.testing.assert_array_equal(
            getattr(again.agent.normalizer.statistics, name), getattr(result.agent.normalizer.statistics, name)
        )
    for run in (0, 1):
        returns = [evaluate(each.policy(run), "Pendulum-v1", episodes=3, seed=5) for each in (result, again)]
        np.testing.assert_array_equal(*returns)
        obs = torch.tensor(np.random.default_rng(0).normal(size=(5, 3)), dtype=torch.float32)
        torch.testing.assert_close(result.policy(run).value(obs), result.agent.value(obs.expand(2, 5, 3))[run].detach())
    bare = load(result.save(tmp_path / "bare"))
    bare.agent.normalizer = None
    assert not np.array_equal(evaluate(bare.policy(0), "Pendulum-v1", episodes=3, seed=5), returns[0])


def test_history_reports_returns_in_the_units_of_the_environment():
    options = {"env": "Pendulum-v1", "total_steps": 4 * 250, "seeds": [0], "progress": False}
    fast = {**SMALL, "num_steps": 250, "update_epochs": 0}
    raw, scaled = (train(PPO(**fast, normalize_reward=flag), **options).history["mean_return"] for flag in (False, True))
    np.testing.assert_array_equal(raw, scaled)
    assert (raw < -100).all()
