"""Scores of several runs in one number with an interval: the interquartile mean and the stratified bootstrap."""

import numpy as np


def interquartile_mean(scores, axis=-1):
    """Mean of the middle half: a quarter of the values (rounded down) is cut at either end.

        IQM = (1/(n − 2k)) Σ_{i=k+1}^{n−k} x_(i),   k = ⌊n/4⌋,   x_(1) ≤ … ≤ x_(n)

    Less moved by one outlier than the mean, and more certain than the median.

    Args:
        scores: array with n ≥ 1 values along `axis`.

    Returns:
        array without that axis; NaN where a score is NaN.

    Raises:
        ValueError: no values.

    Reference: Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice", section 4.3.
    """
    scores = np.moveaxis(np.asarray(scores, dtype=float), axis, -1)
    n = scores.shape[-1]
    if n == 0:
        raise ValueError(f"scores has shape {scores.shape}: expected at least one value, one per run.")
    k = n // 4
    # IQM = mean of x_(k+1) … x_(n−k)
    middle = np.sort(scores, -1)[..., k : n - k].mean(-1)
    return np.where(np.isnan(scores).any(-1), np.nan, middle)


def bootstrap_interval(statistic, *strata, level=0.95, resamples=10_000, rng):
    """Percentile interval of `statistic` under resampling of runs with replacement, within each stratum.

    A stratum is a group of runs that are alike: one algorithm, or one task. Each keeps its size in every resample.

    Args:
        statistic: function of as many arrays as there are strata, each (resamples, n_i); reduces the last axis.
        strata: scores (n_i,), at least 2 each.
        level: share of the resamples inside the interval, in (0, 1). resamples: how many.
        rng: numpy.random.Generator.

    Returns:
        (low, high).

    Raises:
        ValueError: a stratum of another shape or with fewer than 2 scores, a score that is not finite, level out of range, or
        too few resamples for the level.

    Reference: Efron & Tibshirani (1993), chapter 13; strata as in Agarwal et al. (2021), section 4.1.
    """
    strata = [np.asarray(scores, dtype=float) for scores in strata]
    for scores in strata:
        if scores.ndim != 1 or len(scores) < 2 or not np.isfinite(scores).all():
            raise ValueError(f"a stratum of shape {scores.shape}: expected finite scores (n,), one per run, n ≥ 2.")
    if not 0 < level < 1:
        raise ValueError(f"level = {level!r}; expected a number in (0, 1), such as 0.95.")
    if resamples * (1 - level) / 2 < 10:
        needed = f"at least {20 / (1 - level):,.0f}"
        raise ValueError(f"resamples = {resamples}: fewer than 10 of them would lie beyond either end; take {needed}.")
    draws = [scores[rng.integers(len(scores), size=(resamples, len(scores)))] for scores in strata]
    low, high = np.quantile(statistic(*draws), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
