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
    ("ties count as losses", "np.where(x == y, 0.5, 0.0)", "0.0", "Two equal algorithms: each looks worse than the other."),
    ("the other way round", "np.where(x > y, 1.0", "np.where(x < y, 1.0", "The worse algorithm is praised."),
    ("NaN counts as a loss", " + 0 * (x + y)", "", "A run that failed goes unnoticed."),
    ("share at or above", "> thresholds).mean(-2)", ">= thresholds).mean(-2)", "The profile jumps one place too late."),
    ("last entry instead of first", "there.argmax(-1)", "(there.shape[-1] - 1 - there[..., ::-1].argmax(-1))", "All look slow."),
    (
        "failures dropped",
        "np.where(there.any(-1), first, np.inf)",
        "first",
        "A run that never gets there looks like the fastest.",
    ),
    ("width for half the width", "return (high - low) / 2", "return high - low", "Four times as many seeds as needed."),
    ("one seed too few", "return high\n\n\ndef _middle", "return low\n\n\ndef _middle", "The precision is just missed."),
]
