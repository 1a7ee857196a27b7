"""What lesson 06 computes: quadrature, scores, the bandits, the widget, and the settings of the stored runs."""

import time

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from rlcourse.agents.recommended import recommended
from rlcourse.agents.training import train
from rlcourse.classroom import lesson_06
from rlcourse.classroom.explorer import View

f64 = torch.float64

# ------------------------------------------------------------------------------------------------------ one action, one Gaussian


def test_quadrature_of_moments_and_of_a_jump():
    z, weight = lesson_06.standard_normal_points()
    moments = [(weight * z**k).sum().item() for k in range(7)]
    np.testing.assert_allclose(moments, [1, 0, 1, 0, 3, 0, 15], atol=1e-9)
    share = lesson_06.expected_reward(lambda a: (a > 0.3).double(), 1.0, 2.0)
    assert share == pytest.approx(stats.norm.sf(0.3, 1.0, 2.0), abs=2e-3)


def test_expected_reward_of_many_policies_at_once():
    means, stds = torch.tensor([0.0, 1.0], dtype=f64), torch.tensor([[0.5], [2.0]], dtype=f64)
    table = lesson_06.expected_reward(lambda a: -((a - 1) ** 2), means, stds)
    np.testing.assert_allclose(table, -((means - 1) ** 2 + stds**2), atol=1e-9)


@pytest.mark.parametrize("action, mean, std", [(1.3, 0.4, 0.6), (-2.0, 0.0, 3.0)])
def test_scores_are_slopes_of_scipys_density(action, mean, std):
    h = 1e-6
    slopes = [
        (stats.norm.logpdf(action, mean + h, std) - stats.norm.logpdf(action, mean - h, std)) / (2 * h),
        (stats.norm.logpdf(action, mean, std * np.exp(h)) - stats.norm.logpdf(action, mean, std * np.exp(-h))) / (2 * h),
    ]
    np.testing.assert_allclose(lesson_06.scores(action, mean, std), slopes, rtol=1e-7, atol=1e-7)


def test_ascend_finds_a_maximum_known_by_hand():
    end = lesson_06.ascend(lambda x: -((x[0] - 2) ** 2) - 3 * (x[1] + 1) ** 2, [0.0, 0.0])
    np.testing.assert_allclose(end, [2.0, -1.0], atol=1e-9)


def test_bandits():
    at = lambda reward, *a: reward(torch.tensor(a, dtype=f64)).tolist()  # noqa: E731
    assert at(lesson_06.two_peaks, -1.0, 0.0, 1.0) == pytest.approx([1.0, 0.0, 1.0], abs=1e-5)
    assert lesson_06.two_peaks(torch.ones(1), height=0.8).item() == pytest.approx(0.8, abs=1e-6)
    assert at(lesson_06.cliff, 0.0, 1.0, 1.001) == pytest.approx([0.7, 1.0, -1.0])


# ---------------------------------------------------------------------------------------------------------- the widget


def test_by_hand():
    data = lesson_06.reaches(0.5, 0.5, 2.5, "clip")
    assert (data.action, data.score_mean, data.score_log_std) == (2.0, pytest.approx(8.0), pytest.approx(15.0))
    assert data.log_prob == pytest.approx(np.log(data.drawn_density)) == pytest.approx(stats.norm.logpdf(2.5, 0.5, 0.5))
    assert lesson_06.reaches(0.5, 0.5, 2.5, "none").action == 2.5
    assert lesson_06.reaches(0.5, 0.5, 2.5, "tanh").action == pytest.approx(2 * np.tanh(2.5))


@pytest.mark.parametrize("bounds", ["none", "clip", "tanh"])
@pytest.mark.parametrize("mean, std", [(0.5, 1.0), (-2.0, 0.3)])
def test_all_probability_arrives(bounds, mean, std):
    data = lesson_06.reaches(mean, std, 0.0, bounds)
    inside = integrate.trapezoid(data.action_density, data.place)
    # the grid stops 0.02 before a bound
    assert inside + sum(data.at_bounds) == pytest.approx(1, abs=0.03)
    if bounds != "clip":
        assert data.at_bounds == (0.0, 0.0)
    else:
        assert data.at_bounds[0] == pytest.approx(stats.norm.cdf((-2 - mean) / std))


def test_densities_against_samples():
    rng = np.random.default_rng(0)
    u = rng.normal(0.5, 1.2, 400_000)
    for bounds, a in (("clip", u.clip(-2, 2)), ("tanh", 2 * np.tanh(u))):
        data = lesson_06.reaches(0.5, 1.2, 0.0, bounds)
        for low, high in ((-1.5, -1.0), (0.0, 0.5), (1.0, 1.5)):
            part = (data.place >= low) & (data.place <= high)
            share = data.action_density[part].mean() * (high - low)
            assert share == pytest.approx(np.mean((a > low) & (a < high)), rel=0.03)


def test_widget_is_sound_everywhere_and_fast():
    parts = ("title", "compute", "draw", "describe", "controls", "size")
    assert View(**{name: lesson_06.REACHES[name] for name in parts}).trouble() == []
    started = time.process_time()
    for step in range(20):
        lesson_06.reaches(0.1 * step, 1.0, 0.0, "tanh")
    assert (time.process_time() - started) / 20 < 0.05


# ------------------------------------------------------------------------------------------------------- stored results


def test_curves_are_those_of_the_history():
    """25 columns, the last one the last update, one entry per setting, in the order of the settings."""
    settings = lesson_06.dataclasses.replace(lesson_06.A2C_PENDULUM, learning_rate=[1e-5, 1e-3], num_steps=8, num_envs=16)
    pairs = lesson_06._curves(settings, steps=40 * 128)
    assert len(pairs) == 2
    history = train(settings, "Pendulum-v1", total_steps=40 * 128, seeds=range(10), progress=False).history
    for number, (steps, returns) in enumerate(pairs):
        assert steps.shape == (25,) and returns.shape == (10, 25) and steps[-1] == 40 * 128
        np.testing.assert_allclose(returns[:, -1], history["mean_return"][10 * number : 10 * number + 10, -1], rtol=1e-6)


def test_every_setting_changes_what_its_name_says():
    for name, change in (lesson_06.FROM_CARTPOLE | lesson_06.FROM_PENDULUM | lesson_06.ALONE).items():
        base = lesson_06.CARTPOLE if name.startswith("cartpole") else lesson_06.PENDULUM
        changed = lesson_06.dataclasses.replace(base, **change)
        assert (changed == base) == (not change)
        if "gamma" in name:
            assert list(change) == ["gamma"] and f"gamma {changed.gamma:g}" in name
        if "reward x" in name:
            assert list(change) == ["reward_scale"] and f"reward x {changed.reward_scale:g}" in name


def test_stored_runs_are_those_of_the_lessons_settings():
    assert lesson_06.PENDULUM == recommended("PPO", "Pendulum-v1")
