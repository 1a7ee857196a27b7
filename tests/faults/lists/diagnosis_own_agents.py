"""One-line faults of the examinations of our own algorithms."""

MODULE = "rlcourse.diagnosis.own_agents"
TESTS = ["tests/diagnosis/test_diagnose.py"]
FAULTS = [
    (
        "entropy with the wrong sign",
        "return -gain.mean() - entropy * h.mean()",
        "return -gain.mean() + entropy * h.mean()",
        "Healthy algorithms are told that their entropy bonus has the wrong sign.",
    ),
    (
        "weight of the critic forgotten",
        'factor = case.value_coef if part == "both" else 1.0',
        "factor = 1.0",
        "PPO and A2C are told that their critic is wrong.",
    ),
    (
        "reverse KL",
        "(np.exp(logs[0]) * (logs[0] - logs[1]))",
        "(np.exp(logs[1]) * (logs[1] - logs[0]))",
        "TRPO is told that its KL is the reverse one.",
    ),
    (
        "no limit in the reference",
        "<= (max_kl if limit is None else limit)",
        "<= (np.inf if limit is None else limit)",
        "TRPO is told that it ignores the limit.",
    ),
    (
        "standardised with another divisor",
        "return (x - x.mean()) / x.std()",
        "return (x - x.mean()) / x.std(ddof=1)",
        "Healthy algorithms are told that they normalise wrongly.",
    ),
    (
        "half a difference",
        "/ (2 * h) for e in",
        "/ h for e in",
        "Every gradient is told to be half of what it should be.",
    ),
    (
        "next values of the wrong step",
        "np.where(mask, 0, self.next_value)",
        "np.where(mask, 0, self.value)",
        "Healthy algorithms fail in their first update.",
    ),
    (
        "a plain subclass not recognised",
        'if base.__name__ == "Algorithm" and rest == "agents.algorithm":',
        'if base.__name__ == "Nobody" and rest == "agents.algorithm":',
        "diagnose(PPO()) asks for a train function.",
    ),
    (
        "uphill is fine",
        "if gradient @ change > 1e-9:",
        "if gradient @ change < -1e-9:",
        "Healthy algorithms are told that they climb their losses.",
    ),
]
