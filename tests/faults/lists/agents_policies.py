MODULE = "rlcourse.agents.policies"
TESTS = ["tests/agents/test_policies.py", "tests/agents/test_runs.py"]
FAULTS = [
    (
        "start of σ(s) ignored",
        "math.log(math.expm1(math.exp(initial_log_std)))",
        "0.0",
        "initial_log_std changes nothing with std='state'.",
    ),
    (
        "σ from the mean's outputs",
        "mean, raw = output.chunk(2, -1)",
        "raw, mean = output.chunk(2, -1)",
        "Harmless to learning, but a changed head reads old files wrongly.",
    ),
    (
        "σ for log σ",
        "return DiagonalGaussian(mean, sigma.log())",
        "return DiagonalGaussian(mean, sigma)",
        "σ is e^σ: far too much noise.",
    ),
    (
        "log σ unbounded",
        "log_std.clamp(LOWEST_LOG_STD, HIGHEST_LOG_STD).expand_as(output)",
        "log_std.clone().expand_as(output)",
        "Late in training σ underflows and the loss is NaN.",
    ),
    (
        "logarithm of an underflow",
        ".clamp(LOWEST_LOG_STD, math.exp(HIGHEST_LOG_STD)))",
        ")",
        "One far-off output makes the loss infinite.",
    ),
    (
        "box not used in the squash",
        "low + (high - low) * (np.tanh(action) + 1) / 2 if",
        "np.tanh(action) if",
        "Pendulum gets half of its torque.",
    ),
    (
        "squash without halving",
        "(np.tanh(action) + 1) / 2 if",
        "np.tanh(action) if",
        "Half of all actions land on the lower bound.",
    ),
    ("squash always", 'if self.bounds == "tanh" else action', "", "Actions near the bounds need enormous means."),
    (
        "act does not squash",
        "np.clip(self.squash(action), self.space.low, self.space.high)",
        "np.clip(action, self.space.low, self.space.high)",
        "The saved policy plays another game than the trained one.",
    ),
    ("infinite box squashed", 'if bounds == "tanh" and not', "if False and not", "Actions are NaN."),
]
