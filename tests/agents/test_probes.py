"""Every algorithm on worlds whose answers are known: the critic finds the values, the policy the best action."""

import numpy as np
import pytest
import torch

from rlcourse import TRPO, VPG, evaluate, train
from rlcourse.worlds import probes

SETTINGS = {"num_envs": 8, "num_steps": 16, "hidden_sizes": (16,), "gamma": 0.9, "critic_learning_rate": 0.02}
ALGORITHMS = [VPG(**SETTINGS, learning_rate=0.01), TRPO(**SETTINGS, max_kl=0.02)]
CRITIC = [probes.ConstantReward, probes.ObservedReward, probes.DelayedReward, probes.TruncatedForever]
POLICY = [probes.RewardedAction, probes.ObservedAction]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("probe", CRITIC, ids=lambda p: p.__name__)
def test_the_critic_finds_the_known_values(probe, algorithm):
    result = train(algorithm, probe, total_steps=250 * 128, seeds=range(3), progress=False)
    observations = torch.tensor(probe.observations)
    for run in range(3):
        value = result.policy(run).value(observations).detach().numpy()
        np.testing.assert_allclose(value, probe().values(0.9), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("continuous", [False, True], ids=["Discrete", "Box"])
@pytest.mark.parametrize("probe", POLICY, ids=lambda p: p.__name__)
def test_the_policy_finds_the_best_action(probe, algorithm, continuous):
    env = lambda: probe(continuous=continuous)  # noqa: E731
    result = train(algorithm, env, total_steps=200 * 128, seeds=range(3), progress=False)
    for run in range(3):
        returns = evaluate(result.policy(run), env, episodes=20, deterministic=True)
        np.testing.assert_allclose(returns.mean(), probe.optimal_return, atol=0.1)
