"""One-line faults of the examinations by training."""

MODULE = "rlcourse.diagnosis.black_box"
TESTS = ["tests/diagnosis/test_diagnose.py"]
FAULTS = [
    (
        "everything is right",
        "RIGHT, WRONG = 0.65, 0.35",
        "RIGHT, WRONG = -1.0, 0.35",
        "Programs that choose the worst action pass.",
    ),
    (
        "no second chance",
        "for longer in (1, 3):",
        "for longer in (1,):",
        "Slow learners are called sick.",
    ),
    (
        "never the same seed",
        "for seed in (11, 11, 12)",
        "for seed in (11, 12, 12)",
        "Programs that use their seed are told that they do not.",
    ),
    (
        "equal seeds not noticed",
        "elif _equal(first[0], other[0]):",
        "elif False:",
        "A program that ignores its seed passes.",
    ),
    (
        "twins not noticed",
        "if len(set(starts)) < len(starts):",
        "if False:",
        "A program whose environments all play the same episode passes.",
    ),
    (
        "right for wrong",
        "return (actions == best).mean()",
        "return (actions != best).mean()",
        "Healthy programs are told that they choose the wrong action.",
    ),
    (
        "Box for Box on its head",
        "np.clip(0.5 + signed.mean(), 0, 1)",
        "np.clip(0.5 - signed.mean(), 0, 1)",
        "Healthy Box policies are called wrong.",
    ),
    (
        "hard probes after easy failures",
        "raise NotExamined(EASIER)",
        "pass",
        "A program that cannot learn at all is trained for minutes, for noise.",
    ),
    (
        "one wrong seed is enough",
        "if max(shares) <= WRONG:",
        "if min(shares) <= WRONG:",
        "A policy without direction is told that its sign is wrong.",
    ),
    (
        "values off by anything",
        "off = np.abs(got - expected) > 0.15",
        "off = np.abs(got - expected) > 15",
        "Critics that learn nothing pass.",
    ),
    (
        "γ not handed on",
        'extra = {"gamma": self.gamma} if self.takes_gamma else {}',
        "extra = {}",
        "A train that takes γ fails.",
    ),
]
