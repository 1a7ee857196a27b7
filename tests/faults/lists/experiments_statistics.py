"""One-line faults of intervals over seeds."""

MODULE = "rlcourse.experiments.statistics"
TESTS = ["tests/experiments/test_statistics.py"]
FAULTS = [
    ("cut of a half", "k = n // 4", "k = n // 2", "The interquartile mean is a median, or NaN."),
    ("nothing cut", "k = n // 4", "k = 0", "One outlier moves the score."),
    (
        "not sorted",
        "np.sort(scores, -1)[..., k : n - k]",
        "scores[..., k : n - k]",
        "The score depends on the order of the seeds.",
    ),
    (
        "NaN sorted to the end",
        "np.where(np.isnan(scores).any(-1), np.nan, middle)",
        "middle",
        "A run that failed counts as an outlier and goes unnoticed.",
    ),
    (
        "one permutation instead of resampling",
        "scores[rng.integers(len(scores), size=(resamples, len(scores)))]",
        "scores[rng.permuted(np.tile(np.arange(len(scores)), (resamples, 1)), axis=1)]",
        "The interval has no width.",
    ),
    ("one tail twice as long", "[(1 - level) / 2, (1 + level) / 2]", "[1 - level, level]", "A 95 % interval holds 90 %."),
    (
        "strata too small are accepted",
        "len(scores) < 2 or",
        "False or",
        "One run gives an interval of width 0: certainty from nothing.",
    ),
]
