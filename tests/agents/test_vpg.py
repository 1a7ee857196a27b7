"""One VPG update, checked against SciPy and NumPy from the same rollout."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from rlcourse import VPG
from rlcourse.agents.rollout import Episodes, collect
from rlcourse.agents.runs import Runs
from rlcourse.worlds.make_env import make_env

SETTINGS = {"num_envs": 3, "num_steps": 40, "hidden_sizes": (8,), "gamma": 0.9, "gae_lambda": 0.8, "learning_rate": 0.005}
SETTINGS |= {"critic_learning_rate": 0.002, "entropy_coef": 0.3, "update_epochs": 3, "num_minibatches": 4, "max_grad_norm": 0.7}


@pytest.fixture
def update():
    """One update of two runs on CartPole, with every step's loss and arguments, and the networks before and after."""
    algorithm = VPG(**SETTINGS)
    world = make_env("CartPole-v1", 6)
    agent = Runs(4, world.action_space, algorithm.hidden_sizes, [0, 1], torch.float64)
    with torch.no_grad():
        agent._leaves["policy"][2].mul_(100)  # a policy far from uniform, so that entropy and KL have something to show
    rollout, _ = collect(agent, world, world.reset(), algorithm.num_steps, Episodes(2, 3))
    obs = rollout.obs.transpose(0, 1).reshape(2, 120, 4)
    steps, original = [], agent.step

    def step(loss, *arguments):
        steps.append((loss.detach().numpy().copy(), *arguments))
        original(loss, *arguments)

    agent.step = step
    before, value = agent.policy(obs).logits.detach().numpy(), agent.value(obs).detach().numpy()
    metrics = algorithm.update(agent, rollout)
    after = agent.policy(obs).logits.detach().numpy()
    return algorithm, rollout, steps, metrics, before, after, value


def test_there_is_one_policy_step_and_then_the_critic_steps(update):
    _, _, steps, *_ = update
    assert [step[1:] for step in steps] == [(0.005, "policy", 0.7)] + [(0.002, "critic", 0.7)] * 12


def test_policy_loss_is_minus_log_prob_times_normalised_advantage_minus_entropy(update, gae_by_hand):
    _, rollout, steps, metrics, before, *_ = update
    advantage = gae_by_hand(rollout, 0.9, 0.8)
    advantage = (advantage - advantage.mean(1, keepdims=True)) / advantage.std(1, keepdims=True)
    action = rollout.action.numpy().transpose(1, 0, 2).reshape(2, -1, 1)
    log_prob = np.take_along_axis(log_softmax(before, -1), action, -1)[..., 0]
    entropy = -(softmax(before, -1) * log_softmax(before, -1)).sum(-1).mean(-1)
    np.testing.assert_allclose(metrics["policy_loss"], -(log_prob * advantage).mean(-1), rtol=1e-9)
    np.testing.assert_allclose(metrics["entropy"], entropy, rtol=1e-9)
    np.testing.assert_allclose(steps[0][0], -(log_prob * advantage).mean(-1) - 0.3 * entropy, rtol=1e-9)


def test_the_critic_regresses_on_advantage_plus_value(update, gae_by_hand):
    """The four minibatch losses of the first pass are close to the loss of the whole batch: the critic has hardly moved."""
    _, rollout, steps, _, _, _, value = update
    target = gae_by_hand(rollout, 0.9, 0.8) + value
    whole = np.square(value - target).mean(-1)
    np.testing.assert_allclose(np.mean([step[0] for step in steps[1:5]], 0), whole, rtol=0.05)


def test_diagnostics(update, gae_by_hand):
    _, rollout, _, metrics, before, after, value = update
    kl = rel_entr(softmax(before, -1), softmax(after, -1)).sum(-1).mean(-1)
    np.testing.assert_allclose(metrics["kl"], kl, rtol=1e-9)
    assert not np.allclose(kl, rel_entr(softmax(after, -1), softmax(before, -1)).sum(-1).mean(-1), rtol=1e-3)
    advantage = gae_by_hand(rollout, 0.9, 0.8)
    np.testing.assert_allclose(metrics["explained_variance"], 1 - advantage.var(-1) / (advantage + value).var(-1), rtol=1e-9)
    assert (metrics["grad_norm"] > 0).all()


def test_the_update_raises_the_probability_of_what_was_better_than_expected(gae_by_hand):
    """The direction itself: after the step, Σ Â log π is larger than before."""
    world = make_env("CartPole-v1", 6)
    agent = Runs(4, world.action_space, (8,), [0, 1], torch.float64)
    rollout, _ = collect(agent, world, world.reset(), 40, Episodes(2, 3))
    batch = rollout.flatten(
        advantage=gae_by_hand(rollout, 0.9, 0.8).reshape(2, 40, 3).transpose(1, 0, 2), value_target=rollout.value
    )
    advantage = batch.advantage - batch.advantage.mean(1, keepdim=True)
    score = lambda: (agent.policy(batch.obs).log_prob(batch.action) * advantage).mean(-1).detach()  # noqa: E731
    before = score()
    VPG(**SETTINGS | {"entropy_coef": 0.0, "learning_rate": 1e-4}).update(agent, rollout)
    assert (score() > before).all()


def test_another_estimator_can_be_put_in_by_overriding_one_method():
    class Constant(VPG):
        def advantages(self, rollout):
            return np.ones_like(rollout.value), rollout.value

    agent = Runs(4, make_env("CartPole-v1").action_space, (8,), [0], torch.float64)
    world = make_env("CartPole-v1", 3)
    rollout, _ = collect(agent, world, world.reset(), 40, Episodes(1, 3))
    before = agent.parameters.clone()
    Constant(**SETTINGS | {"entropy_coef": 0.0, "update_epochs": 1, "num_minibatches": 1}).update(agent, rollout)
    # equal advantages normalise to 0 and the critic already hits its targets: nothing may move
    torch.testing.assert_close(agent.parameters, before, rtol=0, atol=1e-9)


def test_normalisation_can_be_switched_off():
    """Advantages of 3 everywhere: the loss is then −3 · mean log π, the log-probabilities before the step."""

    class Three(VPG):
        def advantages(self, rollout):
            return np.full_like(rollout.value, 3.0), rollout.value

    world = make_env("CartPole-v1", 3)
    agent = Runs(4, world.action_space, (8,), [0], torch.float64)
    rollout, _ = collect(agent, world, world.reset(), 40, Episodes(1, 3))
    batch = rollout.flatten(advantage=rollout.value, value_target=rollout.value)
    log_prob = agent.policy(batch.obs).log_prob(batch.action).detach()
    metrics = Three(**SETTINGS, normalize=False).update(agent, rollout)
    torch.testing.assert_close(metrics["policy_loss"], -3 * log_prob.mean(-1), rtol=1e-12, atol=0)
