"""TRPO's update: within the limit, improving, run by run, and its parts where they belong."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from rlcourse import TRPO, iterate, train
from rlcourse.agents.rollout import Episodes, collect
from rlcourse.agents.runs import Runs
from rlcourse.worlds.make_env import make_env

SMALL = {"num_envs": 4, "num_steps": 32, "hidden_sizes": (8, 8), "critic_learning_rate": 1e-3, "update_epochs": 2}


def one_update(env="CartPole-v1", seeds=(0, 1), **settings):
    algorithm = TRPO(**SMALL | settings).for_runs(1 if isinstance(settings.get("max_kl"), list) else len(seeds), torch.float64)
    world = make_env(env, 4 * len(seeds))
    agent = Runs(world.obs_size, world.action_space, (8, 8), list(seeds), torch.float64)
    rollout, _ = collect(agent, world, world.reset(), 32, Episodes(len(seeds), 4))
    obs = rollout.obs.transpose(0, 1).reshape(len(seeds), 128, -1)
    before, start = agent.policy(obs).detach(), agent.parameters.clone()
    return agent, rollout, obs, before, start, algorithm.update(agent, rollout)


@pytest.mark.parametrize("max_kl", [1e-4, 0.01, 0.1])
def test_true_kl_is_within_the_limit_and_reported(max_kl):
    agent, _, obs, before, _, metrics = one_update(max_kl=max_kl)
    p, q = softmax(before.logits.numpy(), -1), softmax(agent.policy(obs).logits.detach().numpy(), -1)
    kl = rel_entr(p, q).sum(-1).mean(-1)
    np.testing.assert_allclose(metrics["kl"], kl, rtol=1e-9)
    assert (kl <= max_kl).all() and (kl > 0.05 * max_kl).all()


def test_improvement_is_that_of_the_importance_sampled_advantage():
    agent, rollout, obs, before, _, metrics = one_update(gamma=0.9, gae_lambda=1.0)
    reward, value, next_value, terminated, truncated = (x.astype(float) for x in rollout.for_gae())
    total, advantage = next_value[-1] * 0, np.zeros_like(reward)
    for t in range(31, -1, -1):
        after = next_value[t] * (1 - terminated[t])
        total = reward[t] + 0.9 * (np.where((terminated[t] + truncated[t] > 0) | (t == 31), after, total))
        advantage[t] = total - value[t]
    advantage = advantage.transpose(1, 0, 2).reshape(2, -1)
    advantage = (advantage - advantage.mean(1, keepdims=True)) / advantage.std(1, keepdims=True)
    action = rollout.action.numpy().transpose(1, 0, 2).reshape(2, -1, 1)
    take = lambda logits: np.take_along_axis(log_softmax(logits, -1), action, -1)[..., 0]  # noqa: E731
    ratio = np.exp(take(agent.policy(obs).logits.detach().numpy()) - take(before.logits.numpy()))
    np.testing.assert_allclose(metrics["improvement"], ((ratio - 1) * advantage).mean(-1), rtol=1e-7)
    assert (metrics["improvement"] > 0).all()


def test_a_small_step_is_what_the_model_predicts():
    *_, metrics = one_update(max_kl=1e-8, cg_damping=0.0)
    np.testing.assert_allclose(metrics["improvement"], metrics["predicted_improvement"], rtol=0.05)
    np.testing.assert_allclose(metrics["kl"], 1e-8 * np.power(0.25, metrics["accepted"].double().numpy()), rtol=0.05)


def test_where_nothing_is_accepted_the_policy_is_bit_for_bit_the_old_one():
    agent, _, _, _, start, metrics = one_update("Pendulum-v1", range(12), max_kl=0.3, max_backtracks=1, update_epochs=0)
    refused = metrics["accepted"] == -1
    assert refused.any() and not refused.all()
    for r in range(12):
        assert torch.equal(agent.parameters[r], start[r]) == bool(refused[r])
    assert (metrics["kl"][refused] == 0).all()


def test_zero_advantages_leave_the_policy_alone():
    world = make_env("CartPole-v1", 4)
    agent = Runs(4, world.action_space, (8, 8), [0], torch.float64)
    rollout, _ = collect(agent, world, world.reset(), 8, Episodes(1, 4))
    rollout.value[:] = rollout.next_value[:] = rollout.reward[:] = 0
    start = agent.policy_vector()
    metrics = TRPO(**SMALL).update(agent, rollout)
    assert torch.equal(start, agent.policy_vector()) and metrics["accepted"] == -1


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_run_r_of_a_population_equals_the_same_run_alone(env):
    # few iterations and much damping: conjugate gradient on an ill-conditioned F makes rounding errors grow
    small = SMALL | {"cg_iters": 4}
    together = TRPO(**small, max_kl=[0.001, 0.05], cg_damping=[0.1, 0.2], gae_lambda=[0.9, 1.0])
    last = lambda algorithm, seeds: list(  # noqa: E731
        itertools.islice(iterate(algorithm, env, total_steps=10**6, seeds=seeds, dtype=torch.float64), 3)
    )[-1]
    crowd = last(together, [5, 6])
    for r, run in enumerate(crowd.runs):
        alone = last(TRPO(**small | run.setting), [run.seed])
        torch.testing.assert_close(crowd.agent.parameters[r], alone.agent.parameters[0], rtol=0, atol=1e-8)
        np.testing.assert_array_equal(crowd.history["accepted"][r], alone.history["accepted"][0])


def test_a_run_forced_to_nan_leaves_the_others_bit_identical():
    def last_state(break_run):
        for state in iterate(TRPO(**SMALL), "CartPole-v1", total_steps=128 * 6, seeds=[1, 2, 3]):
            if break_run and state.iteration == 2:
                state.agent.parameters[1] = torch.nan
        return state

    healthy, broken = last_state(False), last_state(True)
    assert list(broken.agent.failed) == [1]
    assert torch.equal(healthy.agent.parameters[[0, 2]], broken.agent.parameters[[0, 2]])


def test_a_run_with_negative_curvature_is_quarantined_and_the_others_are_untouched(monkeypatch):
    original = Runs.fisher_vector_product

    def last_state(sign):
        def product(agent, obs, damping):
            healthy = original(agent, obs, damping)
            return lambda v: sign * healthy(v)

        monkeypatch.setattr(Runs, "fisher_vector_product", product)
        return list(iterate(TRPO(**SMALL), "CartPole-v1", total_steps=128 * 4, seeds=[1, 2, 3]))[-1]

    healthy, broken = last_state(torch.ones(3, 1)), last_state(torch.tensor([[1.0], [-1.0], [1.0]]))
    assert list(broken.agent.failed) == [1] and "positive definite" in broken.agent.failed[1]
    assert torch.equal(healthy.agent.parameters[[0, 2]], broken.agent.parameters[[0, 2]])
    start = Runs(4, healthy.agent.head.space, (8, 8), [2]).parameters[0]
    assert torch.equal(broken.agent.parameters[1], start)
    assert np.isnan(broken.history["kl"][1]).all() and (healthy.history["kl"] > 0).all()


def test_trpo_learns_cartpole_within_the_limit():
    result = train(
        TRPO(**SMALL | {"num_envs": 16, "num_steps": 64}), "CartPole-v1", total_steps=40_000, seeds=range(3), progress=False
    )
    assert np.median(result.history["mean_return"][:, -1]) > 100
    assert (result.history["kl"] <= 0.01 * 1.001).all()
