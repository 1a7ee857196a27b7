"""What scores of several runs say: one number with an interval, a comparison, a profile, and how many runs one would need.

A score is one number per run; a run is one seed. Nothing here looks inside a run.
"""

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
    n = _scores("scores", scores).shape[-1]
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
    return _middle(statistic(*draws), level)


def probability_of_improvement(scores, others):
    """How often a run of one algorithm beats a run of another: P(X > Y) + ½ P(X = Y), over all pairs.

        (1/(m n)) Σ_i Σ_j [x_i > y_j] + ½ [x_i = y_j]

    It says how *likely* an improvement is, not how large. ½: neither is better. (Mann and Whitney's U, divided by m n.)

    Args:
        scores, others: (…, m) and (…, n), one value per run along the last axis, higher is better.

    Returns:
        array (…); NaN where a score is NaN. Fits `bootstrap_interval` as its statistic.

    Raises:
        ValueError: no values.

    Reference: Agarwal et al. (2021), section 4.3; Mann & Whitney (1947).
    """
    x, y = _scores("scores", scores)[..., :, None], _scores("others", others)[..., None, :]
    # [x_i > y_j] + ½ [x_i = y_j]
    wins = np.where(x > y, 1.0, np.where(x == y, 0.5, 0.0)) + 0 * (x + y)  # 0 · NaN is NaN
    return wins.mean((-2, -1))


def performance_profile(scores, thresholds):
    """Share of runs with a score above each threshold: 1 − the empirical distribution function.

        P(τ) = (1/n) Σ_i [x_i > τ]

    One algorithm whose profile lies above another's everywhere is better in every respect that looks at the last score.

    Args:
        scores: (…, n), finite or −∞. thresholds: (k,).

    Returns:
        array (…, k), falling along its last axis if the thresholds rise.

    Raises:
        ValueError: no values, or NaN among them (decide what such a run is worth: a run that failed is no missing value).

    Reference: Agarwal et al. (2021), section 4.2; Dolan & Moré (2002).
    """
    scores, thresholds = _scores("scores", scores), np.asarray(thresholds, dtype=float)
    if np.isnan(scores).any():
        raise ValueError("scores contains NaN; give such a run the score that it deserves, for example the lowest possible.")
    if thresholds.ndim != 1:
        raise ValueError(f"thresholds has shape {thresholds.shape}; expected (k,).")
    # P(τ) = mean of [x_i > τ]
    return (scores[..., :, None] > thresholds).mean(-2)


def first_reaching(costs, returns, threshold):
    """What it cost each run to reach a return: steps for sample efficiency, seconds for efficiency in time.

    Args:
        costs: (…, k), rising: `history["env_steps"]` or `history["seconds"]`. returns: (…, k), may be NaN at the beginning.
        threshold: the return to reach, such as 475.

    Returns:
        array (…): the cost at the first entry with returns ≥ threshold; ∞ for a run that never gets there, so that medians and
        quartiles stay right. (A mean over the runs that did would reward an algorithm for failing.)

    Raises:
        ValueError: shapes that differ.
    """
    costs, returns = np.asarray(costs, dtype=float), np.asarray(returns, dtype=float)
    if costs.shape != returns.shape or costs.ndim == 0 or costs.shape[-1] == 0:
        raise ValueError(f"costs has shape {costs.shape} and returns {returns.shape}; expected the same, (…, k) with k ≥ 1.")
    there = returns >= threshold  # NaN ≥ threshold is False
    first = np.take_along_axis(costs, there.argmax(-1)[..., None], -1)[..., 0]
    return np.where(there.any(-1), first, np.inf)


def seeds_needed(scores, precision, *, statistic=interquartile_mean, level=0.95, most=1000, resamples=2000, rng):
    """How many runs until the interval of a statistic reaches no further than ±precision, judged from a pilot.

    For n = 2, 3, 5, 8, … runs drawn with replacement from the pilot, half the width of the percentile interval of the statistic
    is computed; it falls like 1/√n. Then n is found by bisection between the last two.

    Args:
        scores: (m,) of the pilot, m ≥ 5, finite. A pilot of 5 knows the spread only to about ±30 %: so does the answer.
        precision: half the width to reach, > 0, in units of the scores.
        level, resamples, rng: as for `bootstrap_interval`. most: give up above this.

    Returns:
        the number of runs, 2 to `most`.

    Raises:
        ValueError: a pilot that is too small, precision ≤ 0, or more than `most` runs needed (and what those give).
    """
    scores = _scores("scores", scores)
    if scores.ndim != 1 or len(scores) < 5 or not np.isfinite(scores).all():
        raise ValueError(f"scores of shape {scores.shape}: expected a pilot of at least 5 finite scores (m,).")
    if not precision > 0:
        raise ValueError(f"precision = {precision!r}; expected a number > 0: half the width of the interval.")

    def reach(n):
        low, high = _middle(statistic(scores[rng.integers(len(scores), size=(resamples, n))]), level)
        return (high - low) / 2

    low, high = 1, 2
    while reach(high) > precision:
        low, high = high, min(most, high + max(1, high // 2))
        if low == most:
            raise ValueError(f"precision = {precision}: more than {most} runs; {most} give ±{reach(most):.3g}.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle) <= precision else (middle, high)
    return high


def _middle(values, level):
    """Ends of the middle part of `values`, `level` of them."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _scores(name, scores):
    scores = np.asarray(scores, dtype=float)
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise ValueError(f"{name} has shape {scores.shape}: expected at least one value, one per run.")
    return scores
