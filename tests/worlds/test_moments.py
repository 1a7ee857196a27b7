"""Exact moments: numbers by hand, every trajectory listed, the package's own gae on sampled episodes, Monte Carlo."""

from functools import partial

import numpy as np
import pytest
import torch

from rlcourse.equations.estimators import gae
from rlcourse.worlds.moments import gae_gradient_moments, lambda_return_moments
from rlcourse.worlds.tabular import (
    TabularMDP,
    chain,
    enumerate_trajectories,
    exact_policy_gradient,
    gradient_estimates,
    logistic_policy,
    random_mdp,
    random_walk,
    sample_trajectories,
    score_table,
    softmax_policy,
)

LAMBDAS = [0.0, 0.3, 0.8, 1.0]


def forward_world(seed):
    """A small world whose trajectories can be listed, a policy for it, and a critic that is wrong everywhere."""
    rng = np.random.default_rng(seed)
    world = random_mdp(rng, 4, 2, gamma=0.8, end_probability=0.2, forward_only=True)
    return world, torch.tensor(rng.standard_normal((4, 2))), torch.tensor(rng.standard_normal(4))


def advantages(trajectories, critic, gamma, gae_lambda):
    """Â of every row, episode by episode, by gae; all episodes end by termination."""
    result = np.empty(len(trajectories.state))
    for episode in range(int(np.prod(trajectories.shape))):
        rows = np.flatnonzero(trajectories.episode == episode)
        values = critic[trajectories.state[rows]]
        terminated = np.arange(len(rows)) == len(rows) - 1
        batch = trajectories.reward[rows], values, np.append(values[1:], np.nan), terminated, np.zeros_like(terminated)
        result[rows] = gae(*batch, gamma, gae_lambda)[0]
    return result


def test_moments_by_hand():
    """Two states, one action. From 0: reward 1, then state 1 or the end, half each. From 1: reward 2, then the end."""
    world = TabularMDP(torch.tensor([[[0.0, 0.5]], [[0.0, 0.0]]]), torch.tensor([[1.0], [2.0]]), 0.5, torch.tensor([1.0, 0.0]))
    pi, critic = torch.ones(2, 1), torch.tensor([100.0, 6.0])
    mean, variance = lambda_return_moments(world, pi, critic, [0.0, 0.5, 1.0])
    # X(1) = (1 − λ) 6 + λ 2 = 6, 4, 2; G = 1 + ½ X or 1, half each
    assert mean[:, 0, 0].tolist() == [2.5, 2.0, 1.5]
    assert variance[:, 0, 0].tolist() == [2.25, 1.0, 0.25]
    assert mean[:, 1, 0].tolist() == [2.0] * 3 and variance[:, 1, 0].tolist() == [0.0] * 3


@pytest.mark.parametrize("gae_lambda", LAMBDAS)
@pytest.mark.parametrize("seed", range(3))
def test_moments_equal_the_sum_over_all_trajectories(seed, gae_lambda):
    world, theta, critic = forward_world(seed)
    pi = softmax_policy(theta)
    mean, variance = lambda_return_moments(world, pi, critic, gae_lambda)
    every, probability = enumerate_trajectories(world, pi)
    chance, numbers = probability.numpy(), critic.numpy()
    first = every.time == 0
    target = advantages(every, numbers, world.gamma, gae_lambda)[first] + numbers[every.state[first]]
    for state, action in np.ndindex(4, 2):
        here = (every.state[first] == state) & (every.action[first] == action)
        weight = chance[every.episode[first]][here] / chance[every.episode[first]][here].sum()
        expected = weight @ target[here]
        assert float(mean[state, action]) == pytest.approx(expected, abs=1e-12)
        assert float(variance[state, action]) == pytest.approx(weight @ (target[here] - expected) ** 2, abs=1e-12)


@pytest.mark.parametrize("gae_lambda", LAMBDAS)
@pytest.mark.parametrize("seed", range(3))
def test_gradient_moments_equal_the_sum_over_all_trajectories(seed, gae_lambda):
    world, theta, critic = forward_world(seed)
    policy, theta = partial(logistic_policy, groups=(0, 1, 0, 0)), theta[0]  # shared, so that the scores of an episode correlate
    mean, noise = gae_gradient_moments(world, policy, theta, critic, gae_lambda)
    every, probability = enumerate_trajectories(world, policy(theta))
    weight = advantages(every, critic.numpy(), world.gamma, gae_lambda)
    estimates = gradient_estimates(every, weight, score_table(policy, theta))
    expected = probability.numpy() @ estimates
    np.testing.assert_allclose(mean, expected, atol=1e-12)
    assert float(noise) == pytest.approx(probability.numpy() @ ((estimates - expected) ** 2).sum(1), abs=1e-11)


def test_many_lambdas_at_once_equal_one_by_one():
    world, theta, critic = forward_world(0)
    for together, alone in [
        (lambda_return_moments(world, softmax_policy(theta), critic, LAMBDAS),
         [lambda_return_moments(world, softmax_policy(theta), critic, x) for x in LAMBDAS]),
        (gae_gradient_moments(world, softmax_policy, theta, critic, LAMBDAS),
         [gae_gradient_moments(world, softmax_policy, theta, critic, x) for x in LAMBDAS]),
    ]:  # fmt: skip
        for whole, parts in zip(together, zip(*alone, strict=True), strict=True):
            np.testing.assert_allclose(whole, torch.stack(parts), atol=1e-13)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_a_perfect_critic_leaves_no_bias_and_lambda_1_needs_none(gamma):
    world, pi = random_walk(7, gamma), torch.full((7, 2), 0.5)
    perfect, wrong = world.values(pi), torch.arange(7.0)
    mean, _ = lambda_return_moments(world, pi, perfect, LAMBDAS)
    np.testing.assert_allclose(mean, world.q_values(pi).expand(4, 7, 2), atol=1e-13)
    mean, variance = lambda_return_moments(world, pi, wrong, [0.0, 1.0])
    np.testing.assert_allclose(mean[1], world.q_values(pi), atol=1e-13)
    np.testing.assert_allclose(variance[0], 0, atol=1e-13)  # one step of this walk is no gamble
    np.testing.assert_allclose(mean[0], world.reward + gamma * world.transition @ wrong.double(), atol=1e-13)


def test_the_gradient_is_unbiased_at_lambda_1_whatever_the_critic():
    world, theta = random_walk(5), torch.tensor(np.random.default_rng(0).standard_normal((5, 2)))
    exact = exact_policy_gradient(world, softmax_policy, theta).flatten()
    for critic in (torch.zeros(5), 100 * torch.arange(5.0)):
        np.testing.assert_allclose(gae_gradient_moments(world, softmax_policy, theta, critic, 1.0)[0], exact, atol=1e-11)
    assert (gae_gradient_moments(world, softmax_policy, theta, torch.arange(5.0), 0.9)[0] - exact).abs().max() > 0.1


def test_moments_agree_with_sampled_episodes():
    world, theta = random_walk(5, 0.95), torch.tensor(np.random.default_rng(1).standard_normal((5, 2)))
    critic = torch.tensor([0.5, -0.5, 1.0, 0.0, 0.3], dtype=torch.float64)
    mean, noise = gae_gradient_moments(world, softmax_policy, theta, critic, 0.7)
    played = sample_trajectories(world, softmax_policy(theta), 4000, np.random.default_rng(2))
    weight = advantages(played, critic.numpy(), 0.95, 0.7)
    estimates = gradient_estimates(played, weight, score_table(softmax_policy, theta)).reshape(4000, -1)
    error = estimates.std(0) / 4000**0.5
    assert (np.abs(estimates.mean(0) - mean.numpy()) <= 5 * error + 1e-12).all()
    square = ((estimates - mean.numpy()) ** 2).sum(1)
    assert abs(square.mean() - float(noise)) < 5 * square.std() / 4000**0.5


@pytest.mark.parametrize("critic", [torch.zeros(4), torch.zeros(5, 1), torch.zeros(1, 5)])
def test_a_critic_of_another_shape_is_refused(critic):
    with pytest.raises(ValueError, match=r"one number per state, shape \(5,\)"):
        lambda_return_moments(random_walk(5), torch.full((5, 2), 0.5), critic, 0.5)


@pytest.mark.parametrize("gae_lambda", [-0.1, 1.1, float("nan"), [0.5, 2.0], [[0.5]]])
def test_lambda_outside_0_1_is_refused(gae_lambda):
    with pytest.raises(ValueError, match="gae_lambda must be a number between 0 and 1"):
        lambda_return_moments(random_walk(5), torch.full((5, 2), 0.5), torch.zeros(5), gae_lambda)


def test_a_world_without_an_end_is_refused_where_it_matters():
    endless, pi = chain(3, gamma=1.0), torch.full((3, 2), 0.5)
    assert torch.isfinite(lambda_return_moments(endless, pi, torch.zeros(3), 0.9)[1]).all()
    with pytest.raises(ValueError, match="never ends"):
        lambda_return_moments(endless, pi, torch.zeros(3), [0.5, 1.0])
    with pytest.raises(ValueError, match="never ends"):
        gae_gradient_moments(chain(3, gamma=0.9), softmax_policy, torch.zeros(3, 2), torch.zeros(3), 0.5)
