"""Statistics of runs, by hand, against SciPy, and against known distributions."""

import numpy as np
import pytest
from scipy import stats

from rlcourse.experiments.statistics import (
    bootstrap_interval,
    first_reaching,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    seeds_needed,
)


def test_iqm_by_hand():
    assert interquartile_mean([8.0, 1.0, 1000.0, 2.0]) == 5.0  # 2 and 8 are left
    assert interquartile_mean([7.0]) == 7.0
    assert np.isnan(interquartile_mean([1.0, np.nan, 2.0, 3.0]))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 10, 11, 20, 21])
def test_iqm_is_scipys_trimmed_mean(n):
    scores = np.random.default_rng(n).standard_cauchy((3, n))
    np.testing.assert_allclose(interquartile_mean(scores), stats.trim_mean(scores, 0.25, axis=1), rtol=1e-12)
    np.testing.assert_allclose(interquartile_mean(scores.T, axis=0), stats.trim_mean(scores.T, 0.25, axis=0), rtol=1e-12)


def test_interval_agrees_with_scipys_bootstrap():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 2, 20), rng.normal(0, 1, 15)
    difference = lambda a, b, axis=-1: a.mean(axis) - b.mean(axis)  # noqa: E731
    ours = bootstrap_interval(difference, a, b, level=0.9, resamples=40_000, rng=np.random.default_rng(1))
    theirs = stats.bootstrap((a, b), difference, confidence_level=0.9, n_resamples=40_000, method="percentile",
                             vectorized=True, rng=np.random.default_rng(2)).confidence_interval  # fmt: skip
    spread = (a.var() / 20 + b.var() / 15) ** 0.5
    np.testing.assert_allclose(ours, theirs, atol=0.03 * spread)
    assert abs((ours[1] - ours[0]) / (2 * 1.645 * spread) - 1) < 0.05  # nearly normal: 1.645 standard errors either way


def test_strata_are_resampled_apart():
    """Two groups that are far apart and do not vary inside: no resample mixes them."""
    low, high = bootstrap_interval(
        lambda a, b: (a.mean(-1) + b.mean(-1)) / 2, np.zeros(5), np.ones(9), rng=np.random.default_rng(0)
    )
    assert low == high == 0.5


def test_a_wider_level_gives_a_wider_interval_and_the_seed_decides():
    scores = np.random.default_rng(3).normal(size=12)
    one, same, wide = (
        bootstrap_interval(interquartile_mean, scores, level=level, rng=np.random.default_rng(4)) for level in (0.9, 0.9, 0.99)
    )
    assert one == same and wide[0] < one[0] < one[1] < wide[1]


@pytest.mark.parametrize(
    ("strata", "options", "words"),
    [
        ([np.ones((3, 2))], {}, r"shape \(3, 2\)"),
        ([np.ones(1)], {}, "n ≥ 2"),
        ([np.array([1.0, np.nan])], {}, "finite"),
        ([np.ones(3)], {"level": 1.0}, r"level = 1.0; expected a number in \(0, 1\)"),
        ([np.ones(3)], {"level": 0.999, "resamples": 1000}, "at least 20,000"),
    ],
)
def test_wrong_input_is_named(strata, options, words):
    with pytest.raises(ValueError, match=words):
        bootstrap_interval(interquartile_mean, *strata, rng=np.random.default_rng(0), **options)
    with pytest.raises(ValueError, match="at least one value"):
        interquartile_mean([])


# ---------------------------------------------------------------------------------------------------- comparisons


def test_probability_of_improvement_by_hand_and_is_mann_and_whitneys_u():
    assert probability_of_improvement([1.0, 3.0], [2.0]) == 0.5
    assert probability_of_improvement([2.0], [2.0]) == 0.5
    assert probability_of_improvement([5.0, 6.0], [1.0, 2.0, 3.0]) == 1.0
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 6, 13).astype(float), rng.integers(1, 7, 9).astype(float)  # with ties
    assert probability_of_improvement(x, y) == pytest.approx(stats.mannwhitneyu(x, y).statistic / (13 * 9), abs=1e-12)
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1)
    assert np.isnan(probability_of_improvement([1.0, np.nan], y))


def test_probability_of_improvement_fits_the_bootstrap_and_covers_a_known_value():
    """X ~ N(1, 1), Y ~ N(0, 1): P(X > Y) = Φ(1/√2) = 0.760. 90 % intervals over 100 studies of 30 runs each."""
    exact, inside = stats.norm.cdf(0.5**0.5), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        low, high = bootstrap_interval(probability_of_improvement, rng.normal(1, 1, 30), rng.normal(0, 1, 30),
                                       level=0.9, resamples=400, rng=rng)  # fmt: skip
        inside += low <= exact <= high
    assert 78 <= inside <= 98  # fixed seeds; a binomial number with p = 0.9 lies there with probability 0.999


def test_profile_by_hand_and_is_one_minus_the_empirical_distribution():
    np.testing.assert_allclose(performance_profile([1.0, 2.0, 2.0, 9.0], [0, 1, 2, 9, 10]), [1, 0.75, 0.25, 0, 0])
    scores = np.random.default_rng(1).normal(size=(3, 40))
    tau = np.linspace(-2, 2, 21)
    theirs = [1 - stats.ecdf(row).cdf.evaluate(tau) for row in scores]
    np.testing.assert_allclose(performance_profile(scores, tau), theirs, atol=1e-12)
    assert performance_profile([-np.inf, 1.0], [0.0]) == 0.5
    # the area below a profile is the mean
    fine = np.linspace(-6, 6, 120_001)
    area = performance_profile(scores[0], fine).mean() * 12 - 6
    assert area == pytest.approx(scores[0].mean(), abs=1e-3)


def test_first_reaching():
    steps = np.array([[10.0, 20.0, 30.0]] * 4)
    returns = np.array([[1, 5, 2], [np.nan, np.nan, 5], [1, 2, 3], [7, 1, 6]], float)
    assert first_reaching(steps, returns, 5.0).tolist() == [20.0, 30.0, np.inf, 10.0]
    assert np.median(first_reaching(steps, returns, 5.0)) == 25.0


def test_seeds_needed_is_what_the_normal_formula_says():
    """Half the width of a 95 % interval of the mean is 1.96 s/√n, so n = (1.96 s / precision)²."""
    scores = np.random.default_rng(2).normal(0, 1, 400)
    mean = lambda x: x.mean(-1)  # noqa: E731
    for precision in (0.5, 0.2):
        wanted = (1.96 * scores.std() / precision) ** 2
        found = seeds_needed(scores, precision, statistic=mean, resamples=8000, rng=np.random.default_rng(3))
        assert abs(found - wanted) < 0.12 * wanted + 1
    assert seeds_needed(np.zeros(5), 1.0, rng=np.random.default_rng(0)) == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rng: probability_of_improvement([], [1.0]), "scores has shape"),
        (lambda rng: probability_of_improvement([1.0], []), "others has shape"),
        (lambda rng: performance_profile([1.0, np.nan], [0.0]), "the score that it deserves"),
        (lambda rng: performance_profile([1.0], 0.0), r"thresholds has shape \(\)"),
        (lambda rng: first_reaching([1.0, 2.0], [1.0], 0), "expected the same"),
        (lambda rng: seeds_needed(np.ones(4), 1.0, rng=rng), "at least 5"),
        (lambda rng: seeds_needed(np.ones(5), 0.0, rng=rng), "precision = 0.0"),
        (lambda rng: seeds_needed(np.arange(5.0), 1e-3, most=50, rng=rng), r"more than 50 runs; 50 give ±0\.\d"),
    ],
)
def test_wrong_input_of_comparisons_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call(np.random.default_rng(0))
