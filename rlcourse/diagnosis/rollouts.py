"""Examination of the data that a program collects: every row is compared with what the environment really did."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rlcourse.diagnosis.examination import EXACT, LIKELY, Refusal, as_array, examination, listed


class Numbered(gymnasium.Env):
    """Every observation has a number of its own, obs[0] = number/1000, and every step is written down in a diary.

    Episodes have three steps; in turn they are terminated and truncated. The reward is number/10.

    Args:
        diary: dict, number of the observation → (action as received, reward, terminated, truncated, number of the next one).
        first: list of the numbers with which episodes start.
        continuous: a Box action in −1 … 1 in place of a Discrete one.
    """

    def __init__(self, diary, first, continuous):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32) if continuous else Discrete(3)
        self.diary, self.first, self.episodes, self.number = diary, first, 0, None

    def _next(self):
        self.diary["count"] = self.number = self.diary.get("count", 0) + 1
        return np.array([self.number / 1000, 0.5], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.elapsed, self.episodes = 0, self.episodes + 1
        obs = self._next()
        self.first.append(self.number)
        return obs, {}

    def step(self, action):
        self.elapsed += 1
        number, over = self.number, self.elapsed == 3
        terminated, truncated = over and self.episodes % 2 == 1, over and self.episodes % 2 == 0
        obs, reward = self._next(), number / 10
        self.diary[number] = np.ravel(action).astype(float), reward, terminated, truncated, self.number
        return obs, reward, terminated, truncated, {}


def value_of(obs):
    """The critic that the learner is told to use: V is the number of the observation."""
    return np.round(np.asarray(obs, float)[:, 0] * 1000)


KEYS = "obs", "action", "reward", "terminated", "truncated", "value", "next_value"


SUSPECTS = "reset_observation", "reset_rows", "truncation"


@examination("data of a rollout (Discrete)", "rollout", suspects=SUSPECTS)
def discrete_rows(ask):
    yield from rows_are_what_happened(ask, False)


@examination("data of a rollout (Box)", "rollout", suspects=SUSPECTS)
def box_rows(ask):
    yield from rows_are_what_happened(ask, True)


def rows_are_what_happened(ask, continuous):
    """Each row of the rollout against the diary of the environment."""
    diary, first = {}, []
    rows = _rows(ask("rollout", lambda: Numbered(diary, first, continuous), 14, 3, value_of))
    if len(diary) < 2:
        raise Refusal("rollout did not step the environment in this process", {})
    findings = [finding for row in rows for finding in _compare(row, diary, first)]
    findings = [f for f in findings if "order" in f[0]] or findings  # rows out of place are wrong in every respect
    seen = set()
    for weights, evidence in findings:
        if not seen & set(weights):
            yield weights, evidence
        seen |= set(weights)
    yield from _order(rows)
    if continuous:
        yield from _clipped(np.array([row["action"] for row in rows]))


def _rows(answer):
    """The rows as dicts, in the order of time for each environment; reset rows that are marked are left out."""
    if not isinstance(answer, dict) or not set(KEYS) <= set(answer):
        raise Refusal(f"rollout must return a dict with the arrays {', '.join(KEYS)}")
    reward = np.asarray(answer["reward"], float)
    T, N = reward.shape if reward.ndim == 2 else (len(reward), 1)
    valid = np.asarray(answer.get("valid", np.ones((T, N), bool))).reshape(T, N)
    data = {key: as_array(f"rollout ({key})", answer[key], np.shape(answer[key])).reshape(T, N, -1) for key in KEYS}
    return [{key: data[key][t, i] for key in KEYS} | {"t": t, "env": i} for i in range(N) for t in range(T) if valid[t, i]]


def _compare(row, diary, first):
    """What is wrong with one row."""
    number = int(round(row["obs"][0] * 1000))
    where = f"t = {row['t']} of environment {row['env']}"
    if number not in diary:
        yield {"reset_rows": EXACT}, f"{where}: no action was taken at this observation, the last one of an episode"
        return
    _, reward, terminated, truncated, following = diary[number]
    if abs(row["reward"][0] - reward) > 1e-3 or abs(row["value"][0] - number) > 0.1:
        pair = f"reward {reward:g} and V {number}, the rollout has {row['reward'][0]:g} and {row['value'][0]:g}"
        yield {"order": EXACT}, f"{where}: to the observation belong {pair}"
        return
    flags = bool(row["terminated"][0]), bool(row["truncated"][0])
    if flags != (terminated, truncated):
        weights = {"truncation": EXACT if truncated else LIKELY, "termination": EXACT if terminated else LIKELY}
        yield weights, f"{where}: terminated, truncated = {terminated}, {truncated}, the rollout has {flags[0]}, {flags[1]}"
    if not terminated and abs((got := row["next_value"][0]) - following) > 0.1:
        weights = {"order": LIKELY, "critic": LIKELY}
        if truncated:
            weights = {"truncation": EXACT} if got == 0 else {"reset_observation": LIKELY, "truncation": LIKELY}
            weights = {"reset_observation": EXACT} if round(got) in first else weights
        final = "final" if truncated else "next"
        yield weights, f"{where}: V({final} observation) is {following}, the rollout has {got:g}" + (
            ", that of the observation after the reset" if truncated and round(got) in first else ""
        )


def _order(rows):
    for a, b in zip(rows, rows[1:], strict=False):
        if a["env"] == b["env"] and a["obs"][0] >= b["obs"][0]:
            yield {"order": EXACT}, f"the observation at t = {b['t']} was made before the one at t = {a['t']}"
            return


def _clipped(actions):
    at_bound = (np.abs(actions) == 1).sum()
    if at_bound >= 3 and (np.abs(actions) <= 1).all():
        text = f"{at_bound} of {actions.size} stored actions are exactly −1 or 1: they were clipped before they were stored"
        yield {"clipped_action": EXACT}, text


EXAMINATIONS = listed(globals())
