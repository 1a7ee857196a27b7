"""What lesson 06 computes: quadrature, scores, the bandits, the widget, and the settings of the stored runs."""

import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from rlcourse.agents.recommended import recommended
from rlcourse.agents.training import train
from rlcourse.classroom import lesson_06
from rlcourse.classroom.data import DATA, data_path
from rlcourse.classroom.explorer import View
from rlcourse.experiments.statistics import interquartile_mean

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


def test_steps_to_arrive():
    """A nearer goal or a higher rate takes fewer steps; one critic alone takes as many as beside others."""
    steps = lesson_06.steps_to_arrive([-1.0, -4.0, -4.0, -400.0], [2e-3, 2e-3, 8e-3, 2e-3], limit=150)
    assert 0 < steps[2] < steps[1] and 0 < steps[0] < steps[1] < 100 and np.isnan(steps[3])
    assert lesson_06.steps_to_arrive([-4.0], [2e-3], limit=150)[0] == pytest.approx(steps[1], abs=2)


def test_curves_are_those_of_the_history():
    """25 columns, the last one the last update, one entry per setting, in the order of the settings."""
    settings = replace(recommended("A2C", "Pendulum-v1"), learning_rate=[1e-5, 1e-3], num_steps=8, num_envs=16)
    pairs = lesson_06._curves(settings, steps=40 * 128)
    assert len(pairs) == 2
    history = train(settings, "Pendulum-v1", total_steps=40 * 128, seeds=range(10), progress=False).history
    for number, (steps, returns) in enumerate(pairs):
        assert steps.shape == (25,) and returns.shape == (10, 25) and steps[-1] == 40 * 128
        np.testing.assert_allclose(returns[:, -1], history["mean_return"][10 * number : 10 * number + 10, -1], rtol=1e-6)


def test_every_setting_changes_what_its_name_says():
    for name, change in (lesson_06.FROM_CARTPOLE | lesson_06.FROM_PENDULUM | lesson_06.ALONE).items():
        base = lesson_06.CARTPOLE if name.startswith("cartpole") else lesson_06.PENDULUM
        changed = replace(base, **change)
        assert (changed == base) == (not change)
        if "gamma" in name:
            assert list(change) == ["gamma"] and f"gamma {changed.gamma:g}" in name
        if "reward x" in name:
            assert list(change) == ["reward_scale"] and f"reward x {changed.reward_scale:g}" in name


def test_stored_runs_are_those_of_the_lessons_settings():
    assert lesson_06.PENDULUM == recommended("PPO", "Pendulum-v1")


def prose():
    notebook = json.loads((DATA.parent / "06_continuous_gaussian_policies.ipynb").read_text(encoding="utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return text.replace("−", "-")


def test_numbers_in_the_text_are_those_of_the_files():
    text, stored = prose(), np.load(data_path("06_pendulum_settings.npz"))
    ends = dict(zip(stored["names"], stored["mean_return"][:, :, -1], strict=True))
    quoted = {name: f"{interquartile_mean(last):,.0f}" for name, last in ends.items()}
    singles = ("cartpole, reward x 0.1", "cartpole, gamma 0.9", "cartpole, learning rate x 8")
    assert max(singles, key=lambda name: interquartile_mean(ends[name])) == "cartpole, learning rate x 8"
    assert f"the best of them, the learning rate, ends at {quoted['cartpole, learning rate x 8']}" in text
    assert f"The three together end at {quoted['cartpole, all three']}" in text
    for name in ("pendulum, gamma 0.99", "pendulum, gamma 0.9", "pendulum, reward x 1", "pendulum, learning rate 0.00025",
                 "pendulum, cartpole's batch", "pendulum, normalised", "pendulum, tanh", "pendulum, sigma by state"):  # fmt: skip
        assert quoted[name] in text, name
    assert f"their worst mean is {stored['solves_cartpole'][:, -1].min():.0f} of at most 500" in text
    assert f"**PPO** is at {np.median(ends['pendulum']):.0f} (median) after 100,000 steps" in text

    runs = np.load(data_path("06_pendulum_algorithms.npz"))
    trpo, a2c = (runs[f"{name}_mean_return"][:, -1] for name in ("TRPO", "A2C"))
    assert f"{np.median(trpo):.0f}, all ten seeds between {trpo.min():.0f} and {trpo.max():.0f}" in text
    assert f"they end between {a2c.min():.0f} and {a2c.max():.0f}" in text
    assert (np.nanmax(runs["A2C_mean_return"], 1) > -230).sum() == 9 and "nine of ten seeds were better than -230" in text
    assert runs["A2C_env_steps"][-1] // 1000 == 500 and runs["TRPO_env_steps"][-1] // 1000 == 201


def test_what_the_text_says_of_the_critic():
    critic, ends = np.load(data_path("06_pendulum_critic.npz")), np.load(data_path("06_pendulum_settings.npz"))
    halfway = np.median(critic["explained_variance"][:, :, 11], 1)
    iqm = {name: interquartile_mean(y[:, -1]) for name, y in zip(ends["names"], ends["mean_return"], strict=True)}
    for name, explained in zip(critic["names"], halfway, strict=True):
        if iqm[name] < -1000:
            assert explained < 0.145, name
        elif iqm[name] > -250:
            assert explained >= 0.965, name
    assert 195 * 16 == 3120 and -(-100_000 // 1600) * 60 == 3780  # updates times minibatch steps


def test_what_the_text_says_of_the_cheetah():
    text, cheetah = prose(), np.load(data_path("06_half_cheetah.npz"))
    trpo, ppo = (np.sort(cheetah[f"{name}_returns"][:, -1]) for name in ("TRPO", "PPO"))
    assert f"TRPO's median is {np.median(trpo):,.0f} and PPO's {np.median(ppo):,.0f}" in text
    low, high = np.concatenate([trpo[:2], ppo[:4]]), np.concatenate([trpo[2:], ppo[4:]])
    assert f"end between {low.min():,.0f} and {low.max():,.0f}" in text and f"at {high.min():,.0f} and more" in text
    assert low.max() < high.min() - 1000
    here, page = [interquartile_mean(x) for x in (trpo, ppo)], (DATA.parents[1] / "docs" / "results.md").read_text("utf-8")
    robots = page[page.index("## HalfCheetah") : page.index("## Hopper")], page[page.index("## Hopper") :]
    there = {(name, k): re.search(rf"\| {name} \| .*?\*\*([\d,.]+)\*\* \| ([\d,.]+) to ([\d,.]+)", robots[k]).groups()
             for name in ("TRPO", "PPO") for k in (0, 1)}  # fmt: skip
    whole = {key: [f"{float(number.replace(',', '')):,.0f}" for number in numbers] for key, numbers in there.items()}
    assert f"interquartile mean is {here[0]:,.0f} here and {whole['TRPO', 0][0]} there; PPO's is {here[1]:,.0f} both" in text
    assert whole["PPO", 0][0] == f"{here[1]:,.0f}"
    for name in ("TRPO", "PPO"):
        assert "{} {} ({} to {})".format(name, *whole[name, 1]) in text
