"""What lessons 03 to 06 say about their panels of live training, by the same trainings with the same changes on the way."""

import dataclasses

import numpy as np
import pytest

from rlcourse import iterate, recommended

pytestmark = pytest.mark.full


def history(name, env, total_steps, *, start=None, at=None, change=None):
    """Medians over five seeds, name → (updates,), and the number of the first update after the change."""
    algorithm, first = dataclasses.replace(recommended(name, env), **(start or {})), None
    for state in iterate(algorithm, env, total_steps=total_steps, seeds=range(5)):
        if at is not None and first is None and state.env_steps >= at:
            first = state.iteration
            for field, value in change.items():
                setattr(state.algorithm, field, value)
    return {key: np.median(rows, axis=0) for key, rows in state.result().history.items()}, first


def test_lesson_03():
    """λ to 0: the explained variance jumps at once; ten times the learning rate: the KL does, and nothing else tells so soon."""
    short, first = history("VPG", "CartPole-v1", 30_000, at=20_000, change={"gae_lambda": 0.0})
    assert short["explained_variance"][first] > short["explained_variance"][first - 5 : first].max() + 0.1
    long, first = history("VPG", "CartPole-v1", 30_000, at=20_000, change={"learning_rate": 0.015})
    assert long["kl"][first] > 20 * long["kl"][first - 5 : first].max()
    assert long["mean_return"][first] > 0.9 * long["mean_return"][first - 1]


def test_lesson_04():
    """A large KL limit: the KL jumps, stays below it, and the return rises more slowly; a small one is not four times as slow."""
    usual, _ = history("TRPO", "CartPole-v1", 60_000)
    wide, first = history("TRPO", "CartPole-v1", 60_000, at=20_000, change={"max_kl": 0.5})
    assert wide["kl"][first + 1 : first + 6].max() > 10 * wide["kl"][:first].mean() and wide["kl"].max() <= 0.5
    assert wide["mean_return"][-1] < 0.75 * usual["mean_return"][-1]
    small, _ = history("TRPO", "CartPole-v1", 100_000, start={"max_kl": 0.001})
    assert small["mean_return"][-1] > 400 and small["mean_return"][len(small["kl"]) // 2] > 200


def test_lesson_05():
    """A narrow clip: the clip fraction rises, the KL falls; no clip and long steps: the KL tells first."""
    narrow, first = history("PPO", "CartPole-v1", 60_000, at=20_000, change={"clip_epsilon": 0.05})
    assert narrow["clip_fraction"][first:].mean() > 1.3 * narrow["clip_fraction"][first - 10 : first].mean()
    assert narrow["kl"][first:].mean() < 0.25 * narrow["kl"][first - 10 : first].mean()
    loose, first = history("PPO", "CartPole-v1", 60_000, start={"clip_epsilon": 1.0}, at=20_000, change={"learning_rate": 0.02})
    assert loose["kl"][first : first + 2].max() > 1
    assert loose["mean_return"][first + 1] > 60 > loose["mean_return"][-1] and loose["entropy"][-1] < 0.05


def test_lesson_06():
    """A slow critic with large values explains nothing; either alone is only later; long steps late in training do harm."""
    both, _ = history("PPO", "Pendulum-v1", 90_000, start={"gamma": 0.999, "learning_rate": 3e-4})
    assert both["explained_variance"][-10:].mean() < 0.2 and both["mean_return"][-1] < -800
    for alone in ({"gamma": 0.999}, {"learning_rate": 3e-4}):
        one, _ = history("PPO", "Pendulum-v1", 90_000, start=alone)
        assert one["mean_return"][-1] > -600
    late, first = history("PPO", "Pendulum-v1", 90_000, at=50_000, change={"learning_rate": 0.02})
    assert late["kl"][first : first + 2].max() > 5 * late["kl"][first - 10 : first].mean()
    assert late["mean_return"][-1] < late["mean_return"][first - 1] - 100
