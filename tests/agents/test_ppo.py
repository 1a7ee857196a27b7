"""PPO, its penalty variant and A2C: one update against NumPy, identities between the three, early stops."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from rlcourse import A2C, PPO, PenaltyPPO, iterate
from rlcourse.agents.rollout import Episodes, collect
from rlcourse.agents.runs import Runs
from rlcourse.worlds.make_env import make_env

SMALL = {"num_envs": 4, "num_steps": 32, "hidden_sizes": (16, 16), "gamma": 0.9, "gae_lambda": 0.8}
PLAIN = {**SMALL, "learning_rate": 0.05, "num_minibatches": 1, "update_epochs": 3, "max_grad_norm": None}


def state_after(updates, algorithm, env, seeds):
    states = iterate(algorithm, env, total_steps=128 * 20, seeds=seeds, dtype=torch.float64)
    return list(itertools.islice(states, updates))[-1]


class Watched:
    """One update of two runs on CartPole: every step's loss and arguments, and what the networks said before each step."""

    def __init__(self, algorithm, progress=0.0):
        world = make_env("CartPole-v1", 8)
        self.agent = agent = Runs(4, world.action_space, algorithm.hidden_sizes, [0, 1], torch.float64)
        agent.progress = progress
        self.rollout, _ = collect(agent, world, world.reset(), algorithm.num_steps, Episodes(2, 4))
        self.obs = self.rollout.obs.transpose(0, 1).reshape(2, 128, 4)
        self.logits, self.values, self.losses, self.arguments, self.active = [], [], [], [], []
        original = agent.step

        def step(loss, *arguments, **named):
            self.look()
            self.losses.append(loss.detach().numpy().copy())
            self.arguments.append((arguments, named))
            self.active.append(agent.active.tolist())
            original(loss, *arguments, **named)

        agent.step = step
        self.metrics = algorithm.update(agent, self.rollout)
        self.look()

    def look(self):
        self.logits.append(self.agent.policy(self.obs).logits.detach().numpy())
        self.values.append(self.agent.value(self.obs).detach().numpy())

    def log_prob(self, i):
        action = self.rollout.action.numpy().transpose(1, 0, 2).reshape(2, -1, 1)
        return np.take_along_axis(log_softmax(self.logits[i], -1), action, -1)[..., 0]


def standardised(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


@pytest.mark.parametrize("value_clip", [None, 0.05])
@pytest.mark.parametrize("normalize", ["minibatch", "batch", "never"])
def test_every_loss_of_an_update_by_numpy(normalize, value_clip, gae_by_hand):
    options = {"clip_epsilon": 0.1, "value_coef": 0.7, "entropy_coef": 0.3, "value_clip": value_clip, "normalize": normalize}
    seen = Watched(PPO(**PLAIN, **options))
    raw = gae_by_hand(seen.rollout, 0.9, 0.8)
    advantage, target = raw if normalize == "never" else standardised(raw), raw + seen.values[0]
    assert len(seen.losses) == 3
    for i, loss in enumerate(seen.losses):
        ratio = np.exp(seen.log_prob(i) - seen.log_prob(0))
        surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.9, 1.1) * advantage).mean(-1)
        error = np.square(seen.values[i] - target)
        if value_clip:
            near = seen.values[0] + np.clip(seen.values[i] - seen.values[0], -value_clip, value_clip)
            error = np.maximum(error, np.square(near - target))
        entropy = -(softmax(seen.logits[i], -1) * log_softmax(seen.logits[i], -1)).sum(-1).mean(-1)
        np.testing.assert_allclose(loss, -surrogate + 0.7 * error.mean(-1) - 0.3 * entropy, rtol=1e-9)
        outside = (abs(ratio - 1) > 0.1).mean(-1)
        assert (outside > 0.1).all() == (i > 0)  # the clip is at work after the first step, and not before
    final = np.exp(seen.log_prob(3) - seen.log_prob(0))
    np.testing.assert_allclose(seen.metrics["clip_fraction"], (abs(final - 1) > 0.1).mean(-1), rtol=1e-12)
    kl = rel_entr(softmax(seen.logits[0], -1), softmax(seen.logits[3], -1)).sum(-1).mean(-1)
    np.testing.assert_allclose(seen.metrics["kl"], kl, rtol=1e-9)
    np.testing.assert_allclose(seen.metrics["explained_variance"], 1 - raw.var(-1) / target.var(-1), rtol=1e-9)
    first = softmax(seen.logits[0], -1)
    np.testing.assert_allclose(seen.metrics["entropy"], -(first * np.log(first)).sum(-1).mean(-1), rtol=1e-9)


def test_minibatches_are_normalised_each_by_itself(gae_by_hand):
    normalised = []

    class Spy(PPO):
        def policy_loss(self, log_prob, minibatch, agent):
            normalised.append(minibatch.advantage)
            return super().policy_loss(log_prob, minibatch, agent)

    Watched(Spy(**PLAIN | {"num_minibatches": 5, "update_epochs": 1}))
    assert [x.shape[1] for x in normalised] == [26, 26, 26, 25, 25]
    for advantage in normalised:
        torch.testing.assert_close(advantage.mean(-1), torch.zeros(2, dtype=torch.float64), atol=1e-9, rtol=0)
        torch.testing.assert_close(advantage.std(-1, correction=0), torch.ones(2, dtype=torch.float64), atol=1e-6, rtol=0)
    normalised.clear()
    seen = Watched(Spy(**PLAIN | {"num_minibatches": 5, "update_epochs": 1, "normalize": "batch"}))
    together = torch.cat(normalised, 1)
    expected = standardised(gae_by_hand(seen.rollout, 0.9, 0.8))
    np.testing.assert_allclose(np.sort(together, -1), np.sort(expected, -1), atol=1e-6)
    assert all(x.mean(-1).abs().max() > 1e-3 for x in normalised)


def test_minibatches_of_one_row_are_refused_where_they_would_be_normalised():
    with pytest.raises(ValueError, match="num_minibatches = 100 leaves a single one of 128 rows"):
        Watched(PPO(**PLAIN | {"num_minibatches": 100}))
    Watched(PPO(**PLAIN | {"num_minibatches": 100, "normalize": "batch"}))


def test_learning_rate_and_gradient_bound_reach_every_step():
    seen = Watched(PPO(**PLAIN | {"max_grad_norm": 0.25}), progress=0.6)
    assert seen.arguments == [((0.05,), {"max_grad_norm": 0.25})] * 3
    seen = Watched(PPO(**PLAIN, anneal=True), progress=0.6)
    assert [arguments[0] for arguments, _ in seen.arguments] == pytest.approx([0.05 * 0.4] * 3)


def test_progress_runs_from_zero_to_one():
    states = iterate(PPO(**SMALL, anneal=True), "CartPole-v1", total_steps=128 * 4, seeds=[0])
    assert [state.agent.progress for state in states] == [0.25, 0.5, 0.75, 1.0]


def test_a_run_above_target_kl_takes_no_further_epoch():
    """Run 0 may go on, run 1 stops after its first epoch; alone, it would not even have computed the others."""
    algorithm = PPO(**SMALL | {"update_epochs": 4, "num_minibatches": 2, "learning_rate": 0.01}, target_kl=[None, 1e-9])
    seen = Watched(algorithm.for_runs(1, torch.float64))
    assert seen.active == [[True, True]] * 2 + [[True, False]] * 6
    assert np.array_equal(seen.logits[2][1], seen.logits[-1][1]) and not np.array_equal(seen.logits[2][0], seen.logits[-1][0])
    seen = Watched(PPO(**SMALL | {"update_epochs": 4, "num_minibatches": 2, "learning_rate": 0.01, "target_kl": 1e-9}))
    assert len(seen.losses) == 2
    seen = Watched(PPO(**SMALL | {"update_epochs": 4, "num_minibatches": 2, "learning_rate": 1e-9, "target_kl": 0.1}))
    assert len(seen.losses) == 8


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_run_r_of_a_population_equals_the_same_run_alone_early_stops_included(env):
    options = {**SMALL, "update_epochs": 4, "num_minibatches": 3, "learning_rate": 1e-3, "normalize_obs": True}
    options |= {"normalize_reward": True, "std": "state" if env == "Pendulum-v1" else "free"}
    crowd = state_after(3, PPO(**options, target_kl=[None, 1e-4], clip_epsilon=[0.1, 0.3], entropy_coef=[0.0, 0.1]), env, [5, 6])
    for r, run in enumerate(crowd.runs):
        alone = state_after(3, PPO(**options | run.setting), env, [run.seed])
        torch.testing.assert_close(crowd.agent.parameters[r], alone.agent.parameters[0], rtol=0, atol=1e-9)
        for name, value in alone.history.items():
            if name != "seconds":
                np.testing.assert_allclose(crowd.history[name][r], value[0], rtol=1e-6, atol=1e-9, err_msg=name)
    counts = crowd.agent._optimisers["both"].count.flatten().tolist()
    assert counts[:2] == [36, 36] and max(counts[2:]) < 36


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a2c_is_ppo_with_one_epoch_and_one_whole_batch(env, normalize):
    common = {**SMALL, "learning_rate": 0.003, "value_coef": 0.4, "entropy_coef": 0.01, "max_grad_norm": 0.5}
    ppo = PPO(**common, update_epochs=1, num_minibatches=1, normalize="batch" if normalize else "never")
    one, other = (state_after(5, each, env, [3, 4]) for each in (A2C(**common, normalize=normalize), ppo))
    torch.testing.assert_close(one.agent.parameters, other.agent.parameters, rtol=0, atol=1e-10)
    assert (one.agent.parameters != state_after(1, ppo, env, [3, 4]).agent.parameters).any()


def test_one_update_of_a2c_by_numpy(gae_by_hand):
    seen = Watched(A2C(**SMALL, learning_rate=0.01, value_coef=0.4, entropy_coef=0.2, max_grad_norm=0.3))
    advantage = gae_by_hand(seen.rollout, 0.9, 0.8)
    probs = softmax(seen.logits[0], -1)
    entropy = -(probs * np.log(probs)).sum(-1).mean(-1)
    loss = -(seen.log_prob(0) * advantage).mean(-1)
    np.testing.assert_allclose(seen.metrics["policy_loss"], loss, rtol=1e-9)
    np.testing.assert_allclose(seen.losses, [loss + 0.4 * np.square(advantage).mean(-1) - 0.2 * entropy], rtol=1e-9)
    assert seen.arguments == [((0.01,), {"max_grad_norm": 0.3})]
    kl = rel_entr(probs, softmax(seen.logits[1], -1)).sum(-1).mean(-1)
    np.testing.assert_allclose(seen.metrics["kl"], kl, rtol=1e-9)
    np.testing.assert_allclose(seen.metrics["entropy"], entropy, rtol=1e-9)


def test_penalty_loss_by_numpy(gae_by_hand):
    seen = Watched(PenaltyPPO(**PLAIN, value_coef=0.0, initial_penalty=2.5))
    advantage = standardised(gae_by_hand(seen.rollout, 0.9, 0.8))
    for i, loss in enumerate(seen.losses):
        log_ratio = seen.log_prob(i) - seen.log_prob(0)
        k3 = np.exp(log_ratio) - 1 - log_ratio
        np.testing.assert_allclose(loss, (2.5 * k3 - np.exp(log_ratio) * advantage).mean(-1), rtol=1e-9, atol=1e-12)


def test_the_penalty_follows_the_kl():
    """Three runs that differ in the KL they aim for: far above what an update does, far below it, and just that."""
    options = {**SMALL, "learning_rate": 1e-3, "update_epochs": 2, "num_minibatches": 2, "initial_penalty": 0.5}
    kl = state_after(1, PenaltyPPO(**options), "CartPole-v1", [0]).latest("kl")[0]
    aims = [kl * 1.6, kl, kl / 1.6]
    state = state_after(1, PenaltyPPO(**options, penalty_kl=aims), "CartPole-v1", [0])
    assert state.latest("penalty").tolist() == [0.25, 0.5, 1.0]
    for state in iterate(PenaltyPPO(**options, penalty_kl=1e-9), "CartPole-v1", total_steps=128 * 3, seeds=[0, 1]):
        assert state.latest("penalty").tolist() == [0.5 * 2**state.iteration] * 2


def test_the_penalty_stays_where_there_is_a_way_back():
    """Updates that hardly move halve it again and again: not down to 0, from which doubling leads nowhere."""
    small = PenaltyPPO(**SMALL, learning_rate=1e-9, initial_penalty=3e-10)
    assert state_after(4, small, "CartPole-v1", [0]).latest("penalty").tolist() == pytest.approx([1e-10])


def test_a_larger_penalty_gives_a_smaller_kl():
    options = {**SMALL, "learning_rate": 0.01, "update_epochs": 4}
    state = state_after(1, PenaltyPPO(**options, initial_penalty=[0.01, 1.0, 100.0]), "CartPole-v1", [0])
    assert (np.diff(state.latest("kl")) < 0).all()


def test_ratio_is_one_at_the_first_step_with_statistics_too():
    """No epoch: old and new policy are the same one, whatever the statistics do after the update."""
    options = {**SMALL, "update_epochs": 0, "normalize_obs": True}
    for state in iterate(PPO(**options), "Pendulum-v1", total_steps=128 * 3, seeds=[0], dtype=torch.float64):
        assert state.latest("kl").tolist() == [0.0] and state.latest("clip_fraction").tolist() == [0.0]
    assert state.agent.normalizer.statistics.count == 128 * 3
