"""One-line faults of the examinations of functions."""

MODULE = "rlcourse.diagnosis.white_box"
TESTS = ["tests/diagnosis/test_diagnose.py"]
FAULTS = [
    (
        "the reverse order not recognised",
        "turned = same(got[::-1], expected)",
        "turned = False",
        "Reversed advantages are put down to the discount as well.",
    ),
    (
        "a terminated step that is none",
        "ask_gae(ask, [1], [0.5], [40], YES, NO, 0.5, 0.5)",
        "ask_gae(ask, [1], [0.5], [40], NO, NO, 0.5, 0.5)",
        "Healthy programs are told that they bootstrap through terminations.",
    ),
    (
        "divisor of the normalisation",
        "exact / np.sqrt(5)",
        "exact / np.sqrt(6)",
        "Healthy programs are told that they normalise wrongly.",
    ),
    (
        "slope of tanh",
        "slope = np.log(4) - 2 * abs(u)",
        "slope = np.log(2) - 2 * abs(u)",
        "Healthy programs are told that their tanh term is wrong.",
    ),
    (
        "entropy of log σ",
        "stats.norm.entropy(scale=np.exp(log_std))",
        "stats.norm.entropy(scale=np.abs(log_std) + 1)",
        "Healthy programs are told that they confuse σ and log σ.",
    ),
    (
        "limits of the clip",
        "def _clipped_by_cases(ratio, advantage, low=0.8, high=1.2):",
        "def _clipped_by_cases(ratio, advantage, low=0.8, high=1.3):",
        "Healthy programs are told that their clip is wrong.",
    ),
    (
        "sum without the trace",
        "sum((gamma * gae_lambda) ** (k - t) * delta[k]",
        "sum((gamma + gae_lambda - 1) ** (k - t) * delta[k]",
        "Healthy programs fail at random numbers.",
    ),
    (
        "no proportion",
        "if factor <= 1e-6 or not same",
        "if factor <= 1e9 or not same",
        "Healthy critics are told that they do not learn.",
    ),
    (
        "hooks unchecked",
        "if not callable(function):",
        "if False:",
        "A number for a function crashes later, somewhere else.",
    ),
    (
        "Fisher matrix of the sum",
        "zip(p, obs, strict=True)) / len(obs)",
        "zip(p, obs, strict=True))",
        "Healthy Fisher products are told that they are wrong.",
    ),
]
