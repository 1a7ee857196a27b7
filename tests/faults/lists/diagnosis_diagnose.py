"""One-line faults of the ranking and the report."""

MODULE = "rlcourse.diagnosis.diagnose"
TESTS = ["tests/diagnosis/test_diagnose.py"]
FAULTS = [
    (
        "least suspect first",
        "(-accused.weight, order.index",
        "(accused.weight, order.index",
        "The first suspect is the least likely one.",
    ),
    (
        "only the heaviest counts",
        "total = sum(weight for weight, _ in charge)",
        "total = max(weight for weight, _ in charge)",
        "Three small hints weigh no more than one.",
    ),
    (
        "errors are fine",
        "return not self.failed",
        "return not self.suspects",
        "A program whose functions raise errors is called healthy.",
    ),
    (
        "groups exchanged",
        '"training" if one.run is None else "functions"',
        '"functions" if one.run is None else "training"',
        "only=['functions'] trains for a minute.",
    ),
    (
        "four suspects",
        "enumerate(self.suspects[:3], 1)",
        "enumerate(self.suspects[:4], 1)",
        "The report does not fit a screen.",
    ),
    (
        "unknown names accepted",
        "if unknown := [name for name in only if name not in names]:",
        "if unknown := []:",
        "A misspelt name examines nothing, and says that all is well.",
    ),
    (
        "rank from zero",
        "keys.index(key) + 1",
        "keys.index(key)",
        "The first suspect has rank 0, which is false.",
    ),
    (
        "Box rollouts asked of all",
        'if not one.name.endswith(f"({other})")]',
        "if True]",
        "A program for Discrete actions fails with a Box.",
    ),
    (
        "lists of settings unnoticed",
        "if isinstance(agent, type):",
        "if False:",
        "diagnose(PPO) trains a class.",
    ),
]
