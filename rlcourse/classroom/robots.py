"""Stored results on MuJoCo's robots, which need an optional extra and minutes rather than seconds.

    pip install -e ".[mujoco]"
    python tools/make_data.py robots                        about half an hour for all files
"""

import time

import numpy as np

from rlcourse import evaluate, iterate, recommended

SEEDS, STEPS, POINTS = range(5), 1_000_000, 50


def _trained(name, env, total_steps, points, seeds=SEEDS):
    """Curves (run, point) of the mean return of the last 100 episodes, CPU seconds per run, and 10 fresh episodes of each run."""
    started, steps, returns = time.process_time(), [], []
    for state in iterate(recommended(name, env), env, total_steps=total_steps, seeds=list(seeds)):
        if state.env_steps >= total_steps * (len(steps) + 1) / points:
            steps.append(state.env_steps)
            returns.append(state.latest("mean_return"))
    seconds = (time.process_time() - started) / len(seeds)
    result = state.result()
    final = [evaluate(result.policy(run), env, episodes=10, seed=1000 + run) for run in range(len(seeds))]
    return {
        f"{name}_steps": np.array(steps, np.int32),
        f"{name}_returns": np.array(returns, np.float32).T,
        f"{name}_seconds_per_run": np.array(seconds, np.float32),
        f"{name}_episodes": np.array(final, np.float32),
    }


def half_cheetah():
    """PPO and TRPO on HalfCheetah-v5, five seeds each, a million steps."""
    return _trained("PPO", "HalfCheetah-v5", STEPS, POINTS) | _trained("TRPO", "HalfCheetah-v5", STEPS, POINTS)


def reacher():
    """PPO on Reacher-v5 with 20 arms at a time: the setting of a public question, with correct code."""
    return _trained("PPO", "Reacher-v5", 200_000, 40)


DATA = {"06_half_cheetah.npz": half_cheetah, "06_reacher.npz": reacher}
