"""Judges of the exercises of lesson 03: weights, filters, reset rows, and where λ should be."""

from functools import cache

import numpy as np
import torch

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
from rlcourse.worlds.moments import lambda_return_moments
from rlcourse.worlds.tabular import random_walk

# ------------------------------------------------------------------------------------------------------ who speaks in Â


@exercise("03.1", "Who speaks in an advantage?", kind="derive", level=2, minutes=20)
def who_speaks(answer):
    for gamma, lam, steps in ((0.9, 0.8, 4), (0.5, 0.5, 1), (1.0, 1.0, 3), (0.9, 0.0, 3), (0.99, 0.95, 9)):
        result = run(answer, gamma, lam, steps)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Wrong("Return two arrays: the weights of the rewards, and those of the values.")
        if [np.shape(each) for each in result] == [(steps + 1,), (steps,)]:
            raise Wrong("The order is: first the weights of the rewards, then those of the values.")
        on_rewards = array("the weights of the rewards", result[0], (steps,))
        on_values = array("the weights of the values", result[1], (steps + 1,))
        reward_weights, value_weights = _weights_of_mixture(gamma, lam, steps)
        at = f"With γ = {gamma}, λ = {lam} and {steps} step{'s' * (steps > 1)} to the cut: "
        if not close(on_rewards, reward_weights):
            recognise(on_rewards, {at + text: value for text, value in _mistakes_on_rewards(gamma, lam, steps).items()})
            raise Wrong(
                f"{at}your weights of the rewards are {numbers(on_rewards)}. The reward l steps ahead stands, with γ^l, in every "
                "k-step estimate that looks at least l + 1 steps ahead, and in no other. Add up the weights of those."
            )
        if not close(on_values, value_weights):
            mistakes = _mistakes_on_values(value_weights, gamma, lam, steps)
            recognise(on_values, {at + text: value for text, value in mistakes.items()})
            _judge_value_weights(on_values, gamma, lam, steps, at)
    return "Equal to the mixture of all k-step estimates. The weights of V tell how much the critic has to say, and when."


def _weights_of_mixture(gamma, lam, steps):
    """Â_t is linear in rewards and values: put a 1 in each place, and mix the k-step estimates as Step 4 says."""
    mixture = [(1 - lam) * lam ** (k - 1) for k in range(1, steps)] + [lam ** (steps - 1)]

    def advantage(rewards, values):
        returns = [sum(gamma**j * rewards[j] for j in range(k)) + gamma**k * values[k] for k in range(1, steps + 1)]
        return sum(w * (g - values[0]) for w, g in zip(mixture, returns, strict=True))

    silent = np.zeros(steps), np.zeros(steps + 1)
    return (np.array([advantage(one, silent[1]) for one in np.eye(steps)]),
            np.array([advantage(silent[0], one) for one in np.eye(steps + 1)]))  # fmt: skip


def _mistakes_on_rewards(gamma, lam, steps):
    ahead = np.arange(steps)
    return {
        "the weights of the rewards do not know λ. A reward l steps ahead is missing from every estimate that stops before.":
            gamma**ahead,
        "the weights of the rewards do not know γ.": lam**ahead,
        "the weights of the rewards carry 1 − λ. That is the weight of *one* k-step estimate; a reward stands in many of them.":
            (1 - lam) * (gamma * lam) ** ahead,
        "the weights of the rewards are off by one: r_t itself, at l = 0, is in all estimates.": (gamma * lam) ** (ahead + 1),
    }  # fmt: skip


def _mistakes_on_values(right, gamma, lam, steps):
    ahead = np.arange(1, steps + 1)
    once = np.append(-1.0, gamma * (gamma * lam) ** (ahead - 1))
    tempting, no_last, no_first, sign = right.copy(), right.copy(), right.copy(), right.copy()
    tempting[-1] *= 1 - lam
    no_last[-1], no_first[0], sign[0] = 0.0, 0.0, 1.0
    undiscounted = right / gamma ** np.arange(steps + 1)
    shifted = right.copy()
    shifted[1:-1] *= lam
    return {
        "the last estimate takes *all* the weight that is left (Step 4), and the critic behind the cut speaks with it.": tempting,
        "the critic behind the cut has no weight in yours. It is bootstrapped there.": no_last,
        "V(s_t) is missing: every estimate subtracts it.": no_first,
        "V(s_t) is subtracted, not added.": sign,
        "V(s_t+l) stands in two residuals: as successor in δ_t+l−1, and with a minus as start of δ_t+l. You took only the first.":
            once,
        "the weights of the values do not know γ.": undiscounted,
        "the weights in between are off by one in λ: V(s_t+1) comes from the 1-step estimate, whose weight is 1 − λ.": shifted,
    }  # fmt: skip


def _judge_value_weights(on_values, gamma, lam, steps, at):
    level, yours = _level(gamma, lam, steps), f"your weights of the values are {numbers(on_values)}. "
    if abs(on_values.sum() - level) > 1e-9:
        raise Wrong(
            f"{at}{yours}Raise every value by 1: each k-step estimate changes by γ^k − 1, so their mixture by {level:.4g}; yours "
            f"changes by {on_values.sum():.4g}."
        )
    raise Wrong(f"{at}{yours}They have the right sum, but are shared out wrongly among the states.")


def _level(gamma, lam, steps):
    mixture = [(1 - lam) * lam ** (k - 1) for k in range(1, steps)] + [lam ** (steps - 1)]
    return sum(w * (gamma**k - 1) for k, w in enumerate(mixture, start=1))


# --------------------------------------------------------------------------------------------------------- GAE is a filter

RICH = (
    np.array([3.0, -1.0, 2.0, 5.0, 1.0, -4.0, 2.0, 6.0]),  # rewards
    np.array([1.0, 7.0, -2.0, 4.0, 3.0, 8.0, -5.0, 2.0]),  # values
    np.array([7.0, 9.0, 4.0, 6.0, 8.0, 5.0, 2.0, 13.0]),  # next values
    np.array([0, 1, 0, 0, 0, 1, 0, 0], bool),  # terminated
    np.array([0, 0, 0, 1, 0, 1, 0, 0], bool),  # truncated
)


@exercise("03.2", "GAE by a filter", kind="implement", level=2, minutes=15)
def by_a_filter(answer):
    for stream in _streams():
        got = array("the advantages", run(answer, *stream, gamma=0.5, gae_lambda=0.4), stream[0].shape)
        if not close(got, _advantages(*stream)):
            on_rich = array("the advantages", run(answer, *RICH, gamma=0.5, gae_lambda=0.4), (8,))
            given = _stream_in_words(stream, got)
            recognise(on_rich, {f"{given}: {text}": value for text, value in _mistakes_of_filter(*RICH).items()})
            raise Wrong(
                f"{given}. Work out the residuals first and compare: after each end the filter must start "
                "afresh, from the last row of the piece to its first."
            )
    return "Equal to the sum Σ (γλ)^l δ, row by row, for 40 streams with every kind of end."


def _streams():
    one = np.array([1.0]), np.array([2.0]), np.array([10.0])
    for flags in ((1, 0), (0, 1), (1, 1), (0, 0)):
        yield *one, *np.array(flags, bool)[:, None]
    two = np.array([1.0, 3.0]), np.array([2.0, 4.0]), np.array([4.0, 10.0])
    for flags in ([[0, 0], [0, 0]], [[1, 0], [0, 0]], [[0, 0], [1, 0]]):
        yield *two, *np.array(flags, bool)
    rng = np.random.default_rng(1)
    for length in range(3, 36):
        yield *rng.integers(-9, 10, (3, length)).astype(float), *(rng.random((2, length)) < 0.15)


def _advantages(rewards, values, next_values, terminated, truncated, *, future=None, cut=None, decay=0.2, gamma=0.5):
    """The definition: residuals added up to the end of the piece with weights decay^l."""
    future = np.where(terminated, 0.0, next_values) if future is None else future
    cut = terminated | truncated if cut is None else cut
    delta, result = rewards + gamma * future - values, np.zeros(len(rewards))
    for t in range(len(rewards)):
        end = next((k for k in range(t, len(rewards)) if cut[k]), len(rewards) - 1)
        result[t] = sum(decay ** (k - t) * delta[k] for k in range(t, end + 1))
    return result


def _mistakes_of_filter(rewards, values, next_values, terminated, truncated):
    stream = rewards, values, next_values, terminated, truncated
    ended, right = terminated | truncated, _advantages(*stream)
    time_limit, late = np.where(ended, 0.0, next_values), np.append(False, ended[:-1])
    batch_end = np.where(terminated, 0.0, next_values) * (np.arange(len(rewards)) < len(rewards) - 1)
    forwards = _advantages(*(x[::-1] for x in stream), cut=np.append(ended[::-1][1:], True))
    return {
        "you added the value of the next state although the episode had terminated.": _advantages(*stream, future=next_values),
        "a truncation counts as a termination: the value of the final observation is missing there.":
            _advantages(*stream, future=time_limit),
        "where the stream stops, the value of the next observation is missing.": _advantages(*stream, future=batch_end),
        "the filter runs through all ends: each piece must start with an empty memory.": _advantages(*stream, cut=0 * ended),
        "the filter runs through truncations. The next row is another episode.": _advantages(*stream, cut=terminated),
        "the cut is one row late: the row that ends belongs to the piece *before* the cut.": _advantages(*stream, cut=late),
        "the cut is one row early: the row that ends belongs to the piece *before* the cut.":
            _advantages(*stream, cut=np.append(ended[1:], True)),
        "the filter runs forwards in time: each advantage then adds up the past. Turn each piece round, filter, and turn it "
        "back.":
            forwards[::-1],
        "the right numbers in reverse order: turn them back after the filter.": right[::-1],
        "a sign in the filter: lfilter computes a₀ yₙ = b₀ xₙ − a₁ yₙ₋₁, so every second residual now comes with a minus.":
            _advantages(*stream, decay=-0.2),
        "the memory of the filter is λ alone: a factor is missing.": _advantages(*stream, decay=0.4),
        "the memory of the filter is γ alone: λ does nothing.": _advantages(*stream, decay=0.5),
        "these are the residuals: nothing flows back.": _advantages(*stream, decay=0.0),
        "these are the value targets, Â + V.": right + values,
        "at an end you take the value of the next row, which is another episode. next_values knows what really came next.":
            _advantages(*stream, future=np.where(terminated, 0.0, np.append(values[1:], next_values[-1]))),
    }  # fmt: skip


def _stream_in_words(stream, got):
    if len(got) > 4:
        return f"In a stream of {len(got)} rows"
    columns = zip(*stream[:3], ends_in_words(*stream[3:]), strict=True)
    rows = [f"(reward {r:g}, value {v:g}, next value {w:g}, {end})" for r, v, w, end in columns]
    return f"With γ = 0.5, λ = 0.4 and the row{'s' * (len(rows) > 1)} {', '.join(rows)} your advantages are {numbers(got)}"


# ------------------------------------------------------------------------------------------- resets that waste a row


@exercise("03.3", "Where resets waste a row", kind="implement", level=3, minutes=25)
def reset_rows(answer):
    batches = [_next_step_batch(np.random.default_rng(seed), 3 + seed // 2, 1 + seed % 3) for seed in range(30)]
    for rewards, values, terminated, truncated, played in batches:
        got = array("the advantages", run(answer, rewards, values, terminated, truncated, 0.5, 0.4), rewards.shape)
        wanted = _column_by_column(rewards, values, terminated, truncated, played)
        if not close(got, wanted):
            _judge_batch(answer, got, rewards, values, terminated, truncated, played)
    return "Right in 30 batches: every piece equals its own sum of residuals, and reset rows are 0."


def _next_step_batch(rng, steps, envs):
    """Rewards, values (T + 1, N), flags and which rows were played; the row after an end is a reset row."""
    rewards, values = rng.integers(0, 9, (steps, envs)).astype(float), rng.integers(-9, 10, (steps + 1, envs)).astype(float)
    flags, played = rng.random((2, steps, envs)) < 0.2, np.ones((steps, envs), bool)
    for t in range(1, steps):
        played[t] = ~(played[t - 1] & flags[:, t - 1].any(0))
        flags[:, t] &= played[t]
    rewards[~played] = 0.0
    return rewards, values, *flags, played


def _column_by_column(rewards, values, terminated, truncated, played, *, after=None, **fault):
    """Each column on its own: pieces of played rows, by the definition. `after` replaces values[1:]; the rest puts in a fault."""
    result, after = np.zeros_like(rewards), values[1:] if after is None else after
    for n in range(rewards.shape[1]):
        rows = played[:, n]
        stream = rewards[rows, n], values[:-1][rows, n], after[rows, n], terminated[rows, n], truncated[rows, n]
        result[rows, n] = _advantages(*stream, **{name: make(*stream) for name, make in fault.items()})
    return result


def _mistakes_of_batch(rewards, values, terminated, truncated, played):
    batch, ended = (rewards, values, terminated, truncated, played), terminated | truncated
    new_start = np.where(ended, np.concatenate([values[2:], values[-1:]]), values[1:])
    no_last = np.concatenate([values[1:-1], 0 * values[-1:]])
    without_ends = _column_by_column(*batch, cut=lambda r, v, following, a, b: np.append((a | b)[1:], True) | a | b)
    return {
        "you added the value of the next state although the episode had terminated.":
            _column_by_column(*batch, future=lambda r, v, following, *flags: following),
        "a truncation counts as a termination: the value of the final observation is missing there.":
            _column_by_column(*batch, future=lambda r, v, following, a, b: np.where(a | b, 0.0, following)),
        "where the batch stops, the value behind it, values[T], is missing.": _column_by_column(*batch, after=no_last),
        "at an end you take the value of the new start. values[t + 1] is still that of the final observation.":
            _column_by_column(*batch, after=new_start),
        "the row with the flag is set to 0. It was played; the row after it is the reset row.":
            np.where(ended, 0.0, without_ends),
    }  # fmt: skip


def _judge_batch(answer, got, rewards, values, terminated, truncated, played):
    size = f"In a batch of {rewards.shape[0]} steps and {rewards.shape[1]} environment{'s' * (rewards.shape[1] > 1)}, "
    rich = _next_step_batch(np.random.default_rng(105), 40, 3)  # steps that pay 0, ends in the last row
    on_rich = np.where(rich[4], array("the advantages", run(answer, *rich[:4], 0.5, 0.4), (40, 3)), 0.0)
    recognise(on_rich, {size + message: value for message, value in _mistakes_of_batch(*rich).items()})
    if (on_rich[rich[4] & (rich[0] == 0)] == 0).all():
        raise Wrong(f"{size}a row that paid 0 was taken for a reset row. A step that was played may pay 0, too.")
    if (on_rich[0, (rich[2] | rich[3])[-1]] == 0).all():
        raise Wrong(f"{size}row 0 counts as a reset row. It was played. (np.roll brings the flags of the last row round to it.)")
    wanted = _column_by_column(rewards, values, terminated, truncated, played)
    if close(np.where(played, got, 0.0), wanted):
        t, n = np.argwhere(~played & (np.abs(got) > 1e-9))[0]
        reset = f"row {t} of environment {n} is a reset row, and its advantage is {got[t, n]:.3g}. "
        raise Wrong(f"{size}{reset}Nothing was played: set it to 0.")
    t, n = np.argwhere((np.abs(got - wanted) > 1e-6 * np.abs(wanted).max(initial=1)) & played)[-1]
    raise Wrong(
        f"{size}the last wrong row of environment {n} is row {t}: rewards {numbers(rewards[t:, n])} from there on, values "
        f"{numbers(values[t:, n])}, terminated {terminated[t:, n].tolist()}, truncated {truncated[t:, n].tolist()}, γ = 0.5, "
        f"λ = 0.4, your advantage {got[t, n]:.4g}. Credit must not flow over a reset row, and each row uses values[t] and "
        "values[t + 1] only."
    )


# ------------------------------------------------------------------------------------------------ blame for a mistake long ago

DIALS = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)


def _blame(lam, knows, gamma=0.99, steps=60):
    """How much lower the advantage of the mistake is than that of the other action."""
    rewards = np.zeros(steps + 1)
    rewards[-1] = -10.0
    doomed = -10.0 * gamma ** (steps - np.arange(steps + 1)) * knows
    start = doomed[0] / 2
    terminated = np.arange(steps + 1) == steps

    def first(rewards, future):
        values = np.append(start, future[:-1])
        flags = terminated, 0 * terminated
        return _advantages(rewards, values, future, *flags, decay=gamma * lam, gamma=gamma)[0]

    return first(0 * rewards, 0 * doomed) - first(rewards, np.append(doomed[1:], 0.0))


@exercise("03.4", "Blame for a mistake sixty steps ago", kind="predict", level=1, minutes=10)
def blame(answer):
    names = {"critic that says 0": False, "critic that knows": True}
    guess = entries(answer, names, lambda name, value: number(f"λ for the {name}", value))
    for name, knows in names.items():
        lam = guess[name]
        if lam not in DIALS:
            raise Wrong(f"Choose one of {', '.join(f'{each:g}' for each in DIALS)} for the {name}.")
        if (reached := _blame(lam, knows)) < 1:
            raise Wrong(f"{name}: at λ = {lam:g} the advantages of the two first actions differ by {reached:.2g} only.")
        if smaller := [each for each in DIALS if each < lam and _blame(each, knows) >= 1]:
            there = f"already at λ = {smaller[-1]:g} they differ by {_blame(smaller[-1], knows):.2g}."
            why = " Who tells the first action what it has done: the fall, or the state right after it?" if knows else ""
            raise Wrong(f"{name}: a smaller λ does it, too; {there}{why}")
    return "As computed. λ carries news back in time. A critic that sees what is coming brings the news forward, and needs no λ."


# ------------------------------------------------------------------------------------------------------ where the star goes

CHANGES = {
    "half of the truth": (dict(), dict(critic_error=-0.5)),
    "noisy rewards": (dict(), dict(reward_noise=0.5)),
    "19 squares": (dict(), dict(num_states=19)),
    "mean of 4 estimates": (dict(), dict(count=4)),
    "1 too high": (dict(critic_error=0.0), dict(critic_error=0.0, offset=1.0)),
}


@cache
def _star(critic_error=-0.8, offset=0.0, reward_noise=0.0, num_states=9, count=1):
    """λ of the least mean squared error of the λ-return as an estimate of Q on the fair walk; exact."""
    walk, pi = random_walk(num_states), torch.full((num_states, 2), 0.5, dtype=torch.float64)
    lam = torch.linspace(0, 1, 51, dtype=torch.float64)
    mean, variance = lambda_return_moments(walk, pi, (1 + critic_error) * walk.values(pi) + offset, lam)
    # independent noise σ on every reward adds σ² Σ_l λ^(2l) P(the episode lasts l more steps)
    move = lam[:, None, None] ** 2 * torch.einsum("sa,sat->st", pi, walk.transition)
    ones = torch.ones(len(lam), num_states, 1, dtype=torch.float64)
    lasting = torch.linalg.solve(torch.eye(num_states) - move, ones).squeeze(-1)
    extra = reward_noise**2 * (1 + lam[:, None, None] ** 2 * torch.einsum("sat,lt->lsa", walk.transition, lasting))
    visits = walk.state_visits(pi)
    error = (mean - walk.q_values(pi)) ** 2 + (variance + extra) / count
    return float(lam[(error * (visits / visits.sum())[:, None] * pi).sum((1, 2)).argmin()])


@exercise("03.5", "Where does the star go?", kind="predict", level=2, minutes=10)
def where_the_star_goes(answer):
    guess = entries(answer, CHANGES, lambda name, value: word(value, {"up": 1, "down": -1, "stays": 0}))
    for name, (before, after) in CHANGES.items():
        old, new = _star(**before), _star(**after)
        if guess[name] != np.sign(round(new - old, 6)):
            hint = {
                "noisy rewards": " Noise of the rewards adds up over the steps that are played.",
                "19 squares": " With more squares an episode lasts longer. But where does the critic's error hurt more?",
                "1 too high": " As baseline a constant is harmless. But V is also put in behind each step, and behind an end it "
                "is not.",
            }
            raise Wrong(f"“{name}”: the least error moves from λ = {old:.2f} to λ = {new:.2f}.{hint.get(name, '')}")
    return "All five as computed. Ask what got worse, the critic's word or the noise of playing on: λ moves away from it."


# ------------------------------------------------------------------------------------------------------- the better critic?


@exercise("03.6", "“λ = 0 has the better critic”", kind="explain", level=2, minutes=10)
def better_critic(answer):
    return explained(
        answer,
        [
            "Explained variance compares the critic with its own targets, and λ makes the targets: the two runs were marked "
            "against different answers.",
            "At λ = 0 the target is r + γV(s′): almost the critic's own opinion one step later. To agree with oneself is easy; "
            "it says little about the truth.",
            "At λ = 1 the targets are real returns, whose noise no critic can explain: a perfect critic, too, gets a low mark "
            "there.",
            "A fair comparison: the same targets for both, for example returns of fresh episodes played to the end, with the "
            "same policy; better still, the return that the agents reach.",
        ],
    )
