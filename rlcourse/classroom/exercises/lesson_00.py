"""Judges of the exercises of lesson 00: returns, ends, reset rows, values."""

import itertools

import numpy as np

from rlcourse.classroom.exercises import (
    Wrong,
    array,
    close,
    ends_in_words,
    entries,
    exercise,
    explained,
    number,
    numbers,
    recognise,
    run,
    word,
)
from rlcourse.worlds.tabular import random_mdp

# ------------------------------------------------------------------------------------------------------------ the machine

MOVES = np.array([[0.75, 0.25], [0.5, 0.5]])  # working, broken
PAYS = np.array([2.0, -1.0])


@exercise("00.1", "A machine that breaks", kind="derive", level=1, minutes=10)
def machine(answer):
    for gamma in (0.9, 0.0, 0.5, 0.99, 0.999):
        got = array("the two values", run(answer, gamma), shape=(2,))
        value = _solve(MOVES, PAYS, gamma)
        if not close(got, value):
            recognise(got, _mistakes_of_machine(value, gamma))
            _bellman(got, gamma)
    return (
        "Both equations hold for every γ that was tried. As γ → 1 both values grow without bound, but their difference only to "
        "4: values depend on how far one looks, and what one state is worth more than another hardly does."
    )


def _solve(moves, pays, gamma):
    return np.linalg.solve(np.eye(2) - gamma * moves, pays)


def _mistakes_of_machine(value, gamma):
    at = f"At γ = {gamma} "
    leaves_only = MOVES * (1 - np.eye(2))
    return {
        at + "your two values are in the wrong order: the working machine comes first.": value[::-1],
        at + "you pay the reward of the state that comes *next*. Here a step pays for the state in which it begins.":
            _solve(MOVES, MOVES @ PAYS, gamma),
        at + "the two probabilities are mixed up: it breaks with probability 1/4, and is repaired with 1/2.":
            _solve(MOVES[::-1, ::-1], PAYS, gamma),
        at + "one case is missing: the machine may also stay as it is.": _solve(leaves_only, PAYS, gamma),
        at + "the first reward is discounted already. It comes at once: γ stands before the value of what follows only.":
            gamma * value,
        at + "these are the rewards of one step only. What follows is missing.": PAYS,
        at + "you give what is earned per step in the mean, (1 − γ) V, and not V.": (1 - gamma) * value,
    }  # fmt: skip


def _bellman(got, gamma):
    """Show in which of the two equations the learner's values contradict themselves."""
    for name, pay, moves, mine in zip(("working", "broken"), PAYS, MOVES, got, strict=True):
        right = pay + gamma * moves @ got
        if not close(mine, right):
            raise Wrong(
                f"At γ = {gamma} your values are V(working) = {got[0]:.6g} and V(broken) = {got[1]:.6g}. They contradict the "
                f"equation for V({name}): with these two numbers in it, its right-hand side is {right:.6g}, and not "
                f"{mine:.6g}. Is it the equation that you wrote down?"
            )


# ---------------------------------------------------------------------------------------------------------- returns of a log


@exercise("00.2", "Returns from a log", kind="implement", level=2, minutes=15)
def returns_from_log(answer):
    for log in _logs():
        got = array("the returns", run(answer, *log, gamma=0.5), shape=log[0].shape)
        if not close(got, _returns(*log)):
            on_rich = array("the returns", run(answer, *RICH_LOG, gamma=0.5), shape=(8,))
            given = _about(log, got)
            recognise(on_rich, {f"{given}: {message}": value for message, value in _mistakes_of_returns(*RICH_LOG).items()})
            raise Wrong(
                f"{given}. Follow one row by hand: Ĝ_t is the reward of row t plus γ times what follows. After the "
                "last row of an episode, ask which of its two flags is set."
            )
    return "Equal to the plain sum, row by row, for one row with each kind of end and for 30 random logs."


RICH_LOG = (
    np.array([3.0, -1.0, 2.0, 5.0, 1.0, -4.0, 2.0, 6.0]),
    np.array([7.0, 9.0, -8.0, 4.0, 11.0, 5.0, -3.0, 13.0]),
    np.array([0, 1, 0, 0, 0, 1, 0, 0], bool),
    np.array([0, 0, 0, 1, 0, 1, 0, 0], bool),
)


def _logs():
    """Logs from small to large: rewards, next_values, terminated, truncated."""
    for flags in ((1, 0), (0, 1), (1, 1), (0, 0)):
        yield np.array([1.0]), np.array([10.0]), *np.array(flags, bool)[:, None]
    for flags in ([[1, 0], [0, 0]], [[0, 0], [1, 0]], [[0, 1], [0, 0]]):
        yield np.array([1.0, 2.0]), np.array([10.0, 30.0]), *np.array(flags, bool)
    rng = np.random.default_rng(0)
    for length in range(3, 33):
        yield *rng.integers(-9, 10, (2, length)).astype(float), *(rng.random((2, length)) < 0.2)


def _returns(rewards, next_values, terminated, truncated, *, cut=None, value=None, gamma=0.5, gamma_of_value=None):
    """The definition, without recursion: add up to the end of the piece, then the value of what is behind it."""
    cut = terminated | truncated if cut is None else cut
    value = np.where(terminated, 0.0, next_values) if value is None else value
    result = np.zeros(len(rewards))
    for t in range(len(rewards)):
        end = next((k for k in range(t, len(rewards)) if cut[k]), len(rewards) - 1)
        result[t] = sum(gamma ** (k - t) * rewards[k] for k in range(t, end + 1))
        result[t] += (gamma ** (end + 1 - t) if gamma_of_value is None else gamma_of_value) * value[end]
    return result


def _mistakes_of_returns(rewards, next_values, terminated, truncated):
    log = rewards, next_values, terminated, truncated
    never, right = np.zeros_like(terminated), _returns(*log)
    time_limit = np.where(terminated | truncated, 0.0, next_values)
    batch_end = np.where(terminated, 0.0, next_values)
    batch_end[-1] = 0.0
    return {
        "you added the value of the next state although the episode had terminated.": _returns(*log, value=next_values),
        "you took the clock for the end: where an episode is truncated, the value of what would follow is missing.":
            _returns(*log, value=time_limit),
        "only a termination was asked for its flag: a truncation cuts, too, with the value of what would follow.":
            _returns(*log, cut=terminated),
        "termination must win where both flags are set.":
            _returns(*log, value=np.where(terminated & ~truncated, 0.0, next_values)),
        "the log stops in the middle of an episode, and you let the future end there. Put in the value of what follows.":
            _returns(*log, value=batch_end),
        "no value is put in, neither at a truncation nor where the log stops.": _returns(*log, value=0 * next_values),
        "rewards of the next episode leak into this one: the flags cut nothing.": _returns(*log, cut=never, value=next_values),
        "the flags cut nothing but the bootstrap; the next episode leaks in.": _returns(*log, cut=never),
        "the value behind the end is put in without its discount.": _returns(*log, gamma_of_value=1.0),
        "nothing is discounted.": _returns(*log, gamma=1.0),
        "only one step is looked at: r + γV at every row. Between the ends real rewards are to be added.":
            _returns(*log, cut=~never),
        "the right numbers in reverse order: each action gets the return of another.": right[::-1],
        "each return carries γ^t, counted from the beginning of the log. Ĝ_t starts afresh at its own row.":
            right * 0.5 ** np.arange(len(right)),
    }  # fmt: skip


def _about(log, got):
    rewards, next_values, terminated, truncated = log
    if len(rewards) > 4:
        return f"In a log of {len(rewards)} rows"
    ends = ends_in_words(terminated, truncated)
    rows = [f"(reward {r:g}, next value {v:g}, {end})" for r, v, end in zip(rewards, next_values, ends, strict=True)]
    return f"With γ = 0.5 and the row{'s' * (len(rows) > 1)} {', '.join(rows)} your returns are {numbers(got)}"


# ------------------------------------------------------------------------------------------------------------- reset rows


@exercise("00.3", "Only what was played", kind="implement", level=2, minutes=15)
def only_played(answer):
    for seed in range(20):
        stream = _stream(np.random.default_rng(seed), steps=6 + seed, envs=1 + seed % 3)
        rows = run(answer, *stream)
        if not (isinstance(rows, tuple | list) or (isinstance(rows, np.ndarray) and rows.ndim == 2)) or len(rows) != 5:
            raise Wrong("Return five arrays: obs, action, reward, next_obs, terminated.")
        names = ("obs", "action", "reward", "next_obs", "terminated")
        first = array("obs", rows[0])
        if first.ndim != 1:
            raise Wrong(f"Return one long list of steps, each array of shape (number of steps,); your obs has {first.shape}.")
        got = np.array([array(name, row, first.shape) for name, row in zip(names, rows, strict=True)]).T
        _judge_rows(got, *stream)
    return "No reset row, and nothing missing, in 20 streams in which episodes end after 1 to 5 steps."


def _stream(rng, steps, envs):
    """A NEXT_STEP stream whose observations say where they are from: 1000 · (env + 1) + 10 · episode + step."""
    obs = np.zeros((steps + 1, envs), int)
    reward, flags = np.zeros((steps, envs)), np.zeros((2, steps, envs), bool)
    for env in range(envs):
        where, left, ended = 1000 * (env + 1), rng.integers(1, 6), False
        obs[0, env] = where
        for t in range(steps):
            if ended:
                where, left, ended = 10 * (where // 10 + 1), rng.integers(1, 6), False  # a reset: nothing is paid
            else:
                where, left, reward[t, env] = where + 1, left - 1, rng.integers(0, 3)
                ended = left == 0
                flags[:, t, env] = ended and [(True, False), (False, True), (True, True)][rng.integers(3)]
            obs[t + 1, env] = where
    return obs, rng.integers(0, 4, (steps, envs)), reward, *flags


def _name(obs):
    return f"step {int(obs) % 10} of episode {int(obs) // 10 % 100}"


def _judge_reset_rows(got, obs, terminated, truncated):
    resets = [(before, after) for before, _, _, after, _ in got if after // 10 == before // 10 + 1]
    if not resets:
        return
    before, after = resets[0]
    row = f"A row leads from {_name(before)} to {_name(after)}. That is a reset row: "
    ended, by_clock = (set(obs[:-1][flag] + 1) for flag in (terminated | truncated, truncated & ~terminated))
    if not ended & {o + 1 for o in got[:, 0]}:
        raise Wrong(row + "you dropped the row that carries the flag, which was played, and kept the one after it.")
    if {b for b, _ in resets} <= by_clock < ended:
        raise Wrong(row + "they come after a truncation, too.")
    if len(resets) < len(ended & set(obs[:-1].ravel())):
        raise Wrong(row + "you found some, but not all. Each environment has its own past: shift along time, before you flatten.")
    raise Wrong(row + "the action did nothing, and the start did not follow from the end.")


def _judge_rows(got, obs, action, reward, terminated, truncated):
    _judge_reset_rows(got, obs, terminated, truncated)
    for before, _, _, after, _ in got:
        if before == after:
            raise Wrong(f"A row leads from {_name(before)} to itself. next_obs is one row further in time than obs.")
        if after // 1000 != before // 1000:
            raise Wrong("A row begins in one environment and ends in another. Look at how you flatten (T, N).")
        if after // 10 == before // 10 and after != before + 1:
            raise Wrong(f"A row leads from {_name(before)} to {_name(after)}: time runs the wrong way, or a step is left out.")
    same_episode = obs[1:] // 10 == obs[:-1] // 10
    played = {(o, a, r, n, t) for o, a, r, n, t in zip(
        *(x[same_episode] for x in (obs[:-1], action, reward, obs[1:], terminated)), strict=True)}  # fmt: skip
    missing = {row[0]: row for row in played if row[0] not in got[:, 0]}
    ends = {o for o, ended in zip(obs[:-1][same_episode], (terminated | truncated)[same_episode], strict=True) if ended}
    if missing and set(missing) <= ends:
        raise Wrong(
            f"The step from {_name(min(missing))} is missing. It ended an episode, but it was played: the one to drop is the row "
            "*after* it."
        )
    if missing and set(missing) == {row[0] for row in played if row[2] == 0}:
        raise Wrong(f"The step from {_name(min(missing))} is missing. It paid 0, but it was played: 0 is no sign of a reset.")
    if missing and set(missing) <= set(obs[0]):
        raise Wrong("Row 0 is missing, and it was played. (np.roll brings the flags of the *last* row round to it.)")
    if missing:
        raise Wrong(f"The step from {_name(min(missing))} is missing, and it was played.")
    with_either = {(*row[:4], bool(row[4]) or row[0] in ends) for row in played}
    if not {tuple(row) for row in got} <= played and {tuple(row) for row in got} <= with_either:
        raise Wrong("In your rows terminated is True where the clock stopped, too. A truncated step has not terminated.")
    for row in got:
        if tuple(row) not in played:
            raise Wrong(f"The step from {_name(row[0])}: action, reward or terminated belong to another row.")
    if len(got) != len(played):
        raise Wrong(f"{len(got)} rows, but only {len(played)} steps were played: some come twice.")


# --------------------------------------------------------------------------------------------------------- the wrong decision

CLOCKS = (10, 50, 100, 200, 500, 1000)
SHARE = 0.4  # what leaving pays, as a share of the value of staying for ever


def _believed(gamma, clock):
    """What staying seems to be worth, mean over the episode, to a critic fitted to returns that end with the clock."""
    return float(np.mean([sum(gamma**k for k in range(clock - t)) for t in range(clock)]))


@exercise("00.4", "Stay or leave?", kind="predict", level=2, minutes=10)
def stay_or_leave(answer):
    guess = entries(answer, ("shortest clock", "at gamma 0.999"), lambda name, value: value)
    clock = number("the shortest clock", guess["shortest clock"])
    if clock not in CLOCKS:
        raise Wrong(f"Choose one of the clocks {', '.join(map(str, CLOCKS))}.")
    believed = {each: _believed(0.99, each) for each in CLOCKS}
    report = f"With a clock of {clock:g} steps the critic believes that staying is worth {believed[clock]:.1f}; leaving pays 40. "
    if believed[clock] < 40:
        raise Wrong(report + "So the agent leaves. (Not the first step decides: the critic learns the mean over the episode.)")
    if any(value > 40 for each, value in believed.items() if each < clock):
        raise Wrong(report + "So the agent stays. But it also stays with a shorter clock of the list.")
    longer = word(guess["at gamma 0.999"], {"shorter": -1, "the same": 0, "longer": 1})
    patient = _believed(0.999, int(clock))
    report = f"With the same clock, {clock:g} steps, a critic with γ = 0.999 believes {patient:.0f} of 1000; leaving pays 400. "
    if longer < 1:
        raise Wrong(report + ("So the clock that was long enough is not any more." if longer == 0 else "A shorter one is worse."))
    return report + "What counts is the clock measured in horizons 1/(1 − γ). The more patient the agent, the dearer the mistake."


@exercise("00.5", "Five hundred points, and the critic says 99", kind="explain", level=1, minutes=10)
def critic_says_99(answer):
    return explained(
        answer,
        [
            "The two numbers answer different questions: the score is the plain sum of an episode, the critic's value is the "
            "*discounted* sum of what follows.",
            "With reward 1 and γ = 0.99, a pole that never falls is worth 1/(1 − γ) = 100. So 99 is right.",
            "It is right at every step, the last one too: the clock truncates, nothing has ended, the value behind is put in.",
            "Something to look at that would show a fault: the critic against discounted returns-to-go of new episodes, or "
            "whether its values fall towards step 500 (then the clock was taken for the end).",
        ],
    )


# ------------------------------------------------------------------------------------------------------------ the best policy


@exercise("00.6", "From any policy to the best", kind="implement", level=3, minutes=20)
def best_policy(answer):
    rng = np.random.default_rng(4)
    worlds = [random_mdp(rng, 4, 3, gamma=0.9) for _ in range(25)]
    worlds = [(world.transition.numpy(), world.reward.numpy()) for world in worlds]
    got = np.array([array("the actions", run(answer, *world, 0.9), shape=(4,)) for world in worlds])
    if not np.isin(got, range(3)).all():
        raise Wrong(f"Return one action per state, numbers from 0 to 2; got {numbers(got[~np.isin(got, range(3)).all(1)][0])}.")
    every = np.array(list(itertools.product(range(3), repeat=4)))  # all 81 ways to act
    values = np.array([_values(*world, every) for world in worlds])
    mine = np.array([_values(*world, one[None])[0] for world, one in zip(worlds, got.astype(int), strict=True)])
    if not close(mine, values.max(1)):
        _judge_policies(got, mine, worlds, every, values)
    return "In 25 random worlds none of the 81 ways to act is better than yours, in any state."


def _values(transition, reward, actions):
    """V of each deterministic policy, rows of `actions` (K, S): (K, S)."""
    states = np.arange(4)
    moves, pays = transition[states, actions], reward[states, actions]
    return np.linalg.solve(np.eye(4) - 0.9 * moves, pays[..., None])[..., 0]


def _judge_policies(got, mine, worlds, every, values):
    coin = [np.linalg.solve(np.eye(4) - 0.9 * transition.mean(1), reward.mean(1)) for transition, reward in worlds]
    once = [(reward + 0.9 * transition @ value).argmax(1) for (transition, reward), value in zip(worlds, coin, strict=True)]
    recognise(got, {
        "You take what pays most at once. An action also counts for where it leads.": [reward.argmax(1) for _, reward in worlds],
        "You improved once, from the policy that tosses a coin. Compute the values of the new policy and improve it again, until "
        "nothing changes.": once,
        "This is the worst way to act: argmin for argmax, or a sign.": every[values.sum(2).argmin(1)],
    })  # fmt: skip
    world = int((values.max(1) - mine).sum(1).argmax())
    better = (values[world] > mine[world] + 1e-9).any(1) & (values[world] >= mine[world] - 1e-9).all(1)
    raise Wrong(
        f"In one of the worlds your policy {numbers(got[world])} has the values {numbers(mine[world])}. Of all 81 ways to act, "
        f"{better.sum()} {'is' if better.sum() == 1 else 'are'} better. The policy you stop at should be greedy with respect to "
        "its *own* values: is it?"
    )
