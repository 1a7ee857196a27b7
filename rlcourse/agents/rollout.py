"""Collecting experience, and the one place where time-major arrays (T, R, N) become a batch (R, T·N)."""

import math
from collections import deque
from dataclasses import dataclass, fields

import numpy as np
import torch

from rlcourse.equations.processes import mean_over_processes


class Episodes:
    """Returns of finished training episodes: the last 100 of each run, in units of the environment's own reward."""

    def __init__(self, num_runs: int, num_envs: int, window: int = 100):
        self.running = np.zeros(num_runs * num_envs)
        self.num_envs = num_envs
        self.recent = [deque(maxlen=window) for _ in range(num_runs)]
        self.finished = np.zeros(num_runs, dtype=np.int64)

    def record(self, reward: np.ndarray, ended: np.ndarray) -> None:
        self.running += reward
        for i in np.flatnonzero(ended):
            self.recent[i // self.num_envs].append(self.running[i])
            self.finished[i // self.num_envs] += 1
            self.running[i] = 0.0

    def mean_return(self) -> np.ndarray:
        """(R,) mean of each run's last (up to) 100 finished episodes; NaN before the first."""
        total = mean_over_processes(np.array([np.sum(returns) for returns in self.recent]))
        count = mean_over_processes(np.array([float(len(returns)) for returns in self.recent]))
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    def snapshot(self) -> dict:
        """Everything, as plain data."""
        recent = [np.array(returns) for returns in self.recent]
        return {"running": self.running.copy(), "recent": recent, "finished": self.finished.copy()}

    def restore(self, snapshot: dict) -> None:
        self.running, self.finished = snapshot["running"], snapshot["finished"]
        for returns, stored in zip(self.recent, snapshot["recent"], strict=True):
            returns.extend(stored.tolist())


@dataclass
class Batch:
    """Rows of experience, one row of each run side by side: every field is (R, B) or (R, B, …)."""

    obs: torch.Tensor
    action: torch.Tensor
    value: torch.Tensor
    advantage: torch.Tensor
    value_target: torch.Tensor
    log_prob: torch.Tensor | None = None  # of the action under the policy that took it, for algorithms that need it

    def __len__(self):
        return self.obs.shape[1]

    def _each(self, change) -> "Batch":
        columns = (getattr(self, field.name) for field in fields(self))
        return Batch(*(None if column is None else change(column) for column in columns))

    def rows(self, index: torch.Tensor) -> "Batch":
        """The rows `index` (R, b) of each run, in that order."""
        runs = torch.arange(index.shape[0])[:, None]
        return self._each(lambda column: column[runs, index])

    def every(self, stride: int) -> "Batch":
        """Every `stride`-th row of each run."""
        return self._each(lambda column: column[:, ::stride])

    def minibatches(self, num_minibatches: int, agent):
        """Yield every row once, in a random order of each run's own, in parts whose sizes differ by one at most."""
        if num_minibatches > len(self):
            raise ValueError(f"num_minibatches = {num_minibatches}: a batch has only {len(self)} rows (num_envs · num_steps).")
        shuffled = self.rows(agent.permutations(len(self)))
        size, larger = divmod(len(self), num_minibatches)
        ends = [size * i + min(i, larger) for i in range(num_minibatches + 1)]
        for start, end in zip(ends, ends[1:], strict=False):
            yield shuffled._each(lambda column: column[:, start:end])  # noqa: B023, used at once


@dataclass
class Rollout:
    """T steps of N environments for each of R runs, time first: (T, R, N) or (T, R, N, …).

    `next_value[t]` is the critic's value of the true successor of step t: the final observation where the episode was
    truncated, never the one after the reset. Where it terminated there is no successor; the number there means nothing (it is
    the value of the next episode's first observation), and `gae` never reads it. Every row is a real transition; there are no
    reset rows.
    """

    obs: torch.Tensor
    action: torch.Tensor
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    value: np.ndarray
    next_value: np.ndarray

    def for_gae(self):
        """The data arguments of `gae`, in order."""
        return self.reward, self.value, self.next_value, self.terminated, self.truncated

    def rows(self, x) -> torch.Tensor:
        """One of the rollout's arrays as rows, (T, R, N, …) → (R, T·N, …)."""
        return _rows(x)

    def flatten(self, *, advantage, value_target) -> Batch:
        """The rollout as a batch, (T, R, N, …) → (R, T·N, …)."""
        return Batch(*map(_rows, (self.obs, self.action, self.value, advantage, value_target)))


def _rows(x) -> torch.Tensor:
    """(T, R, N, …) → (R, T·N, …)."""
    x = torch.as_tensor(x).transpose(0, 1)
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def collect(agent, env, obs, num_steps: int, episodes: Episodes, reward_scale=1.0):
    """Let every run act for `num_steps` steps in its own environments.

    Args:
        agent: agents.runs.Runs with R runs.
        env: an environment of worlds.make_env with R·N sub-environments, those of run 0 first.
        obs: observations to start from, (R·N, obs_size).
        episodes: records the undiscounted, unscaled return of each finished episode.
        reward_scale: number, or (R,): rewards in the rollout are multiplied by it.

    Returns:
        Rollout, and the observations from which the next one starts.
    """
    runs, envs = agent.num_runs, env.num_envs // agent.num_runs
    by_run = lambda x: torch.as_tensor(x).reshape(runs, envs, *np.shape(x)[1:])  # noqa: E731
    as_input = lambda x: by_run(x).to(agent.dtype)  # noqa: E731
    noise = agent.action_noise(num_steps, envs)
    all_obs = torch.empty(num_steps + 1, runs, envs, agent.obs_size, dtype=agent.dtype)
    action = torch.empty(num_steps, runs, envs, *agent.head.action_shape, dtype=agent.head.action_dtype or agent.dtype)
    reward = np.empty((num_steps, runs * envs))
    terminated, truncated = np.empty((2, num_steps, runs * envs), dtype=bool)
    final_value = {}
    for t in range(num_steps):
        all_obs[t] = as_input(obs)
        action[t] = agent.act(all_obs[t], noise[t])
        if not math.isfinite(action[t].sum()):
            agent.tame(action[t])
        obs, reward[t], terminated[t], truncated[t], successor = env.step(agent.head.squash(action[t].flatten(0, 1).numpy()))
        episodes.record(reward[t], terminated[t] | truncated[t])
        if truncated[t].any():
            with torch.inference_mode():
                final_value[t] = agent.value(as_input(successor))
    all_obs[num_steps] = as_input(obs)

    with torch.no_grad():
        value = agent.value(_rows(all_obs)).view(runs, num_steps + 1, envs).transpose(0, 1).numpy()
    by_time = lambda x: x.reshape(num_steps, runs, envs)  # noqa: E731
    terminated, truncated = by_time(terminated), by_time(truncated)
    next_value = value[1:].copy()
    for t, final in final_value.items():
        next_value[t] = np.where(truncated[t], final.numpy(), next_value[t])
    scale = np.asarray(reward_scale, dtype=float)
    reward = (by_time(reward) * (scale[:, None] if scale.ndim else scale)).astype(value.dtype)
    return Rollout(all_obs[:-1], action, reward, terminated, truncated, value[:-1], next_value), obs
