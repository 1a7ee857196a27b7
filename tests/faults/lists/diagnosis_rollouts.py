"""One-line faults of the examination of collected data."""

MODULE = "rlcourse.diagnosis.rollouts"
TESTS = ["tests/diagnosis/test_diagnose.py"]
FAULTS = [
    (
        "values behind a termination compared",
        "if not terminated and abs(",
        "if abs(",
        "Healthy programs are told that their next values are wrong where none counts.",
    ),
    (
        "clipping not noticed",
        "if at_bound >= 3 and",
        "if at_bound >= 300 and",
        "Log-probabilities of clipped actions pass.",
    ),
    (
        "start of an episode not recognised",
        '{"reset_observation": EXACT} if round(got) in first',
        '{"reset_observation": EXACT} if round(got) in []',
        "A bootstrap from the reset observation is put down to the time limit.",
    ),
    (
        "marked rows not left out",
        "for t in range(T) if valid[t, i]]",
        "for t in range(T)]",
        "Programs that mark their reset rows are told that they learn from them.",
    ),
    (
        "time limits never come",
        "terminated, truncated = over and self.episodes % 2 == 1, over and self.episodes % 2 == 0",
        "terminated, truncated = over and self.episodes % 2 == 1, False",
        "Nothing about time limits is examined.",
    ),
    (
        "flags unread",
        "if flags != (terminated, truncated):",
        "if False:",
        "Rollouts that exchange the flags pass.",
    ),
    (
        "order unread",
        'a["obs"][0] >= b["obs"][0]',
        'a["obs"][0] >= b["obs"][0] + 9',
        "Rows in reverse order pass.",
    ),
]
