MODULE = "rlcourse.agents.normalization"
TESTS = ["tests/agents/test_normalization.py", "tests/experiments/test_distributed.py"]
FAULTS = [
    (
        "between-part of the variance forgotten",
        "self.squares + squares + step**2 * self.count * new / total",
        "self.squares + squares",
        "The spread is that within single batches: too small while the policy changes.",
    ),
    ("mean of the means", "self.mean + step * new / total", "self.mean + step / 2", "Old data are forgotten."),
    ("count not advanced", "self.count = total", "self.count = new", "Later batches weigh as much as everything before."),
    (
        "divisor of the last batch",
        "np.sqrt(self.squares / self.count)",
        "np.sqrt(self.squares / (self.count - 1))",
        "A first batch of one row gives NaN.",
    ),
    (
        "select shares nothing",
        "alone.count, alone.mean, alone.squares = self.count, self.mean[run : run + 1], self.squares[run : run + 1]",
        "pass",
        "The policy that is returned acts on unscaled observations.",
    ),
    (
        "mean not subtracted",
        "((obs - self.mean) * self.scale)",
        "(obs * self.scale)",
        "Observations with a large offset stay large.",
    ),
    (
        "variance for standard deviation",
        "as_rows(1 / spread)",
        "as_rows(1 / spread**2)",
        "Observations of small spread are blown up.",
    ),
    ("observations unbounded", ".clamp(-10, 10)", "", "One odd observation throws the network off."),
    (
        "no floor under the spread",
        "self.statistics.std + 1e-4 if",
        "self.statistics.std if",
        "A constant observation becomes NaN.",
    ),
    (
        "statistics not taken over",
        "        self.statistics.update(rows.numpy())\n        self.refresh()",
        "        self.statistics.update(rows.numpy())\n        pass",
        "Normalisation never starts.",
    ),
    (
        "running return not reset",
        "self.running = np.where(ended[t], 0.0, self.running)",
        "pass",
        "The unit of reward drifts with the length of episodes before.",
    ),
    (
        "discount left out",
        "reward[t] + gamma * self.running",
        "reward[t] + self.running",
        "The unit grows with the length of the episode.",
    ),
    (
        "rewards centred",
        "return np.clip(reward / (",
        "return np.clip((reward - reward.mean()) / (",
        "Surviving is no longer worth anything: the task has changed.",
    ),
    (
        "rewards unbounded",
        ", -10, 10).astype(",
        ", -np.inf, np.inf).astype(",
        "The first rewards, before there is any spread, are enormous.",
    ),
    (
        "every process has an eye of its own",
        "mean = mean_over_processes(rows.mean(1, dtype=np.float64))",
        "mean = rows.mean(1, dtype=np.float64)",
        "Processes that train one run together see the same observation differently.",
    ),
]
