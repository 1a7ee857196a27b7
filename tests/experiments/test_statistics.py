"""Interquartile mean and bootstrap intervals, against SciPy and against known distributions."""

import numpy as np
import pytest
from scipy import stats

from rlcourse.experiments.statistics import bootstrap_interval, interquartile_mean


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
