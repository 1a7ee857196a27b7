"""One-line faults of the checks on arguments."""

MODULE = "rlcourse.equations.arguments"
TESTS = ["tests/equations/test_arguments.py", "tests/equations/test_objectives.py"]
FAULTS = [
    (
        "hyper-parameter on the last axis",
        "numbers.reshape(numbers.shape + (1,) * (len(like.shape) - numbers.ndim))",
        "numbers.reshape((1,) * (len(like.shape) - numbers.ndim) + numbers.shape)",
        "Run r trains with the gamma of environment r.",
    ),
    (
        "NaN passes the range check",
        "if not np.all((low <= numbers) & (numbers <= high)):",
        "if np.any((numbers < low) | (numbers > high)):",
        "A gamma of NaN is accepted and every loss becomes NaN.",
    ),
    (
        "broadcasting allowed",
        "if data.shape != reference.shape:",
        "if len(data.shape) != len(reference.shape):",
        "Advantages (1, B) meet log-probabilities (R, B): all runs learn from the data of one.",
    ),
    (
        "empty batch allowed",
        "if 0 in reference.shape or len(reference.shape) == 0:",
        "if len(reference.shape) == 0:",
        "The mean over no samples is NaN, and one step later so are the parameters.",
    ),
]
