"""Running statistics of observations and rewards: one row per run, so that no run sees another's data."""

import numpy as np
import torch

from rlcourse.equations.processes import group, mean_over_processes


class Statistics:
    """Count, mean and variance of all rows seen so far, per run and column (Chan, Golub and LeVeque 1983, eq. 2.1).

        n = n_a + n_b,   mean = mean_a + (mean_b − mean_a) n_b/n,   M = M_a + M_b + (mean_b − mean_a)² n_a n_b/n

    with M the sum of squared deviations. Everything in float64.

    Args:
        runs, columns: shape (R, D) of mean and variance.
    """

    def __init__(self, runs: int, columns: int):
        self.count = 0
        self.mean, self.squares = np.zeros((2, runs, columns))

    def update(self, rows: np.ndarray) -> None:
        """Take in `rows` (R, B, D), those of all processes that train together."""
        new = rows.shape[1] * group().size
        total = self.count + new
        mean = mean_over_processes(rows.mean(1, dtype=np.float64))
        squares = mean_over_processes(np.square(rows - mean[:, None]).sum(1, dtype=np.float64)) * group().size
        step = mean - self.mean
        # M = M_a + M_b + (mean_b − mean_a)² n_a n_b/n
        self.squares = self.squares + squares + step**2 * self.count * new / total
        self.mean = self.mean + step * new / total
        self.count = total

    @property
    def std(self) -> np.ndarray:
        """(R, D) standard deviation (divisor n); 1 before the first row."""
        return np.sqrt(self.squares / self.count) if self.count else np.ones_like(self.mean)

    def snapshot(self) -> dict:
        """Everything, as plain data."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def restore(self, snapshot: dict) -> None:
        self.count, self.mean, self.squares = snapshot["count"], snapshot["mean"], snapshot["squares"]

    def select(self, run: int) -> "Statistics":
        """The statistics of one run, as those of a population of one."""
        alone = Statistics(1, self.mean.shape[1])
        alone.count, alone.mean, alone.squares = self.count, self.mean[run : run + 1], self.squares[run : run + 1]
        return alone


class ObsNormalizer:
    """obs → clip((obs − mean) / (std + 1e-4), −10, 10), with the mean and standard deviation of what each run has seen.

    The statistics are part of the policy: without them its weights mean nothing. They change between updates only, never
    between acting and learning, so that the ratio ρ is 1 at the first step. Before any data the map is the identity.
    """

    def __init__(self, statistics: Statistics, dtype: torch.dtype):
        self.statistics, self.dtype = statistics, dtype
        self.refresh()

    def refresh(self) -> None:
        """Take over the statistics as they are now."""
        as_rows = lambda x: torch.as_tensor(x, dtype=self.dtype)[:, None]  # noqa: E731
        spread = self.statistics.std + 1e-4 if self.statistics.count else self.statistics.std
        self.mean, self.scale = as_rows(self.statistics.mean), as_rows(1 / spread)

    def update(self, rows: torch.Tensor) -> None:
        """Take in observations (R, B, D)."""
        self.statistics.update(rows.numpy())
        self.refresh()

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        """obs (R, B, D), normalised."""
        if not self.statistics.count:
            return obs
        return ((obs - self.mean) * self.scale).clamp(-10, 10)


class RewardNormalizer:
    """reward → clip(reward / (std of the discounted return so far + 1e-4), −10, 10), per run.

        G_t = r_t + γ G_{t−1}, from 0 at the start of an episode

    The mean is not subtracted: that would change which policy is best. Only the unit of reward changes.

    Args:
        runs, envs: R and N.
    """

    def __init__(self, runs: int, envs: int):
        self.running, self.statistics = np.zeros((runs, envs)), Statistics(runs, 1)

    def __call__(self, reward: np.ndarray, ended: np.ndarray, gamma) -> np.ndarray:
        """Take in the rewards (T, R, N) of a rollout, then return them normalised.

        ended: (T, R, N) bool, terminated or truncated. gamma: number, or (R,).
        """
        gamma = np.asarray(gamma, dtype=float)
        gamma = gamma[:, None] if gamma.ndim else gamma
        returns = np.empty(reward.shape)
        for t in range(len(reward)):
            # G_t = r_t + γ G_{t−1}
            self.running = returns[t] = reward[t] + gamma * self.running
            self.running = np.where(ended[t], 0.0, self.running)
        self.statistics.update(returns.transpose(1, 0, 2).reshape(len(self.running), -1, 1))
        return np.clip(reward / (self.statistics.std + 1e-4), -10, 10).astype(reward.dtype)
