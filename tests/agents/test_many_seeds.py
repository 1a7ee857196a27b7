"""What `recommended` promises, seed by seed: slow, so only with --full."""

import numpy as np
import pytest

from rlcourse import iterate, recommended


def steps_to(target, algorithm_name, env, seeds, budget):
    """Environment steps until the mean return of the last 100 episodes first reaches the target, per seed; inf if never."""
    first = np.full(len(seeds), np.inf)
    for state in iterate(recommended(algorithm_name, env), env, total_steps=budget, seeds=seeds):
        reached = (state.latest("mean_return") >= target) & (state.latest("episodes") >= 100)
        first[reached & np.isinf(first)] = state.env_steps
        if np.isfinite(first).all():
            break
    return first


@pytest.mark.full
@pytest.mark.parametrize(
    "algorithm_name, env, target, budget, num_seeds, share",
    [
        ("PPO", "CartPole-v1", 475, 200_000, 200, 0.97),
        ("PPO", "Acrobot-v1", -100, 100_000, 200, 0.97),
        ("PPO", "Pendulum-v1", -200, 150_000, 200, 0.97),
        ("VPG", "CartPole-v1", 475, 200_000, 200, 0.95),
        ("VPG", "Acrobot-v1", -100, 200_000, 50, 0.9),
        ("VPG", "Pendulum-v1", -200, 400_000, 50, 0.7),
        ("TRPO", "CartPole-v1", 475, 250_000, 50, 0.9),
        ("TRPO", "Pendulum-v1", -200, 250_000, 20, 0.9),
    ],
)
def test_recommended_settings_solve_fresh_seeds(algorithm_name, env, target, budget, num_seeds, share, record_property):
    """Recommended settings reach their target on fresh seeds."""
    seeds = np.arange(10_000, 10_000 + num_seeds)
    first = np.concatenate(
        [steps_to(target, algorithm_name, env, part, budget) for part in np.array_split(seeds, num_seeds // 10)]
    )
    solved = np.isfinite(first)
    steps = np.quantile(np.where(solved, first, budget), [0.5, 0.9, 1.0]).astype(int)
    record_property(
        "measured",
        f"{algorithm_name} on {env}: mean of the last 100 episodes ≥ {target} within {budget:,} steps on {solved.sum()} of "
        f"{num_seeds} seeds; steps, median {steps[0]:,}, 90 % {steps[1]:,}, largest {steps[2]:,}",
    )
    assert solved.mean() >= share
