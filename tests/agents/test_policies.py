"""Heads: from a network's output to a distribution, and from what was drawn to what the environment gets."""

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcourse import PPO, SquashedGaussian, evaluate, train
from rlcourse.agents.policies import action_head
from rlcourse.agents.runs import Runs
from rlcourse.worlds.make_env import make_env

BOX = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
SMALL = {"num_envs": 4, "num_steps": 32, "hidden_sizes": (8,), "update_epochs": 2, "num_minibatches": 2}


def test_std_that_depends_on_the_state_starts_where_it_was_told_to():
    head = action_head(BOX, initial_log_std=-0.7, std="state")
    assert (head.num_outputs, head.num_log_std) == (4, 0)
    policy = head.distribution(torch.tensor([[0.3, -0.2, 0.0, 0.0]]))
    assert policy.mean.tolist() == [pytest.approx([0.3, -0.2])]
    assert policy.log_std.tolist() == [pytest.approx([-0.7, -0.7])]
    wider = head.distribution(torch.tensor([[0.3, -0.2, 1.0, 2.0]])).log_std.exp()[0].tolist()
    expected = [math.log1p(math.exp(x + math.log(math.expm1(math.exp(-0.7))))) for x in (1.0, 2.0)]
    assert wider == pytest.approx(expected)


@pytest.mark.parametrize("std", ["free", "state"])
def test_log_std_stays_within_its_bounds_with_finite_gradients(std):
    head = action_head(BOX, std=std)
    raw = torch.tensor([[0.0, 0.0, -1e4, 1e4]], requires_grad=True)
    policy = head.distribution(raw) if std == "state" else head.distribution(raw[:, :2], raw[:, 2:])
    assert policy.log_std[0].tolist() == pytest.approx([-10.0, 2.0], abs=1e-3)
    (gradient,) = torch.autograd.grad(policy.log_prob(torch.ones(1, 2)).sum() + policy.entropy().sum(), raw)
    assert torch.isfinite(gradient).all() and gradient[0, 2:].tolist() == [0, 0]


@pytest.mark.parametrize("bounds", ["clip", "tanh"])
def test_what_the_environment_gets(bounds):
    head, u = action_head(BOX, bounds=bounds), np.array([[0.5, 0.5], [30.0, -30.0]], np.float32)
    squashed = [[2 * math.tanh(0.5), 5 + 5 * math.tanh(0.5)], [2.0, 0.0]]
    expected = [[0.5, 0.5], [2.0, 0.0]] if bounds == "clip" else squashed
    np.testing.assert_allclose(head.to_env(u), expected, rtol=1e-6)
    assert head.to_env(u).dtype == np.float32 and all(BOX.contains(a) for a in head.to_env(u))
    np.testing.assert_allclose(head.squash(u), u if bounds == "clip" else squashed, rtol=1e-6)


def test_squashed_policies_learn_from_what_was_drawn():
    """Ratio and gradient of log π of the stored u equal those of the density of the squashed action."""
    agent = Runs(3, BOX, (8,), [0], torch.float64, bounds="tanh", initial_log_std=-0.5)
    obs, u = (torch.tensor(np.random.default_rng(seed).normal(size=(1, 6, n))) for seed, n in ((0, 3), (1, 2)))
    policy = agent.policy(obs)
    squashed = SquashedGaussian(policy.mean, policy.log_std, torch.tensor(BOX.low).double(), torch.tensor(BOX.high).double())
    action = squashed.squash(u)
    np.testing.assert_allclose(action[0], agent.head.squash(u[0].numpy()), rtol=1e-12)
    ours, theirs = policy.log_prob(u), squashed.log_prob(action)
    assert (ours - theirs).abs().min() > 1e-3
    leaves = agent.policy_parameters
    for one, other in zip(
        torch.autograd.grad(ours.sum(), leaves, retain_graph=True), torch.autograd.grad(theirs.sum(), leaves), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_squashed_policies_act_within_the_box_everywhere():
    seen = []

    class Spy(PPO):
        def update(self, agent, rollout):
            seen.append(rollout.action.abs().max().item())
            return super().update(agent, rollout)

    result = train(Spy(**SMALL, bounds="tanh", initial_log_std=1.5), "Pendulum-v1", total_steps=300, seeds=[0], progress=False)
    assert max(seen) > 4  # u is stored, not the action
    action = result.policy(0).act(np.zeros((500, 3), np.float32))
    assert 1.9 < np.abs(action).max() <= 2 and (np.abs(action) == 2).mean() < 0.1  # only where tanh was rounded
    clipped = train(PPO(**SMALL, initial_log_std=1.5), "Pendulum-v1", total_steps=300, seeds=[0], progress=False)
    on_bound = np.abs(clipped.policy(0).act(np.zeros((500, 3), np.float32))) == 2
    assert 0.4 < on_bound.mean() < 0.9  # P(|N(0, 4.5)| > 2) is 0.66
    assert not np.array_equal(
        evaluate(result.policy(0), "Pendulum-v1", seed=1), evaluate(clipped.policy(0), "Pendulum-v1", seed=1)
    )


def test_evaluate_and_act_agree():
    """The same policy through `evaluate` and through `act` in Gymnasium's own environment: same deterministic returns."""
    for bounds in ("clip", "tanh"):
        settings = PPO(**SMALL, bounds=bounds, initial_log_std=1.0)
        policy = train(settings, "Pendulum-v1", total_steps=500, seeds=[0], progress=False, dtype=torch.float64).policy(0)
        (expected,) = evaluate(policy, "Pendulum-v1", episodes=1, seed=3, deterministic=True)
        world = make_env("Pendulum-v1", 1, seed=3)
        state = world.reset()
        world.close()
        env = gymnasium.make("Pendulum-v1")
        obs, _ = env.reset(seed=0)
        env.unwrapped.state = np.array([math.atan2(state[0, 1], state[0, 0]), state[0, 2]])
        obs, total, over = env.unwrapped._get_obs(), 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy.act(obs, deterministic=True))
            total, over = total + reward, terminated or truncated
        assert total == pytest.approx(expected, rel=1e-3)


def test_what_heads_refuse():
    with pytest.raises(ValueError, match="bounds='tanh' needs a finite box"):
        action_head(spaces.Box(-np.inf, np.inf, (2,)), bounds="tanh")
    with pytest.raises(ValueError, match=r"PPO\(std='softplus'\): expected one of 'free', 'state'"):
        PPO(std="softplus")
    with pytest.raises(ValueError, match=r"bounds=\['clip', 'tanh'\].*the same for all runs"):
        PPO(bounds=["clip", "tanh"])


def test_what_belongs_to_box_actions_is_refused_for_discrete_ones():
    for options in ({"std": "state"}, {"bounds": "tanh"}):
        with pytest.raises(ValueError, match=r"are for Box actions; Discrete\(2\) has none"):
            train(PPO(**SMALL, **options), "CartPole-v1", total_steps=100, seeds=[0], progress=False)


def test_uniform_initial_weights_are_those_of_torch():
    agent = Runs(100, spaces.Discrete(4), (400,), [0], torch.float64, initialisation="uniform")
    weight, bias = agent._leaves["policy"][:2]
    for values in (weight, bias):
        assert 0.95 * 0.1 < values.abs().max() <= 0.1  # 1/√100
    assert weight.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    assert agent._leaves["policy"][2].abs().max() <= 0.05
