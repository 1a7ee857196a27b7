"""Judges of the exercises of lesson 07: a matrix, a test that finds faults, needles that move, an answer to a report."""

import numpy as np

from rlcourse.classroom.exercises import Wrong, array, close, entries, exercise, explained, numbers, recognise, run, word
from rlcourse.equations.estimators import gae

# ------------------------------------------------------------------------------------------------------------------ the matrix


@exercise("07.1", "What a matrix does to credit", kind="derive", level=2, minutes=10)
def factors(answer):
    for advantages in ([2.0], [1.0, 3.0], [1.0, -4.0, 6.0], [5.0, -1.0, -1.0, 0.0, 2.0]):
        A = np.array(advantages)
        got = array("the factors", run(answer, A), shape=A.shape)
        if not close(got, _by_enumeration(A)):
            recognise(got, _mistakes(A))
            raise Wrong(
                f"For the advantages {numbers(A)} you give {numbers(got)}. Write out all {len(A) ** 2} entries, and "
                "collect those that hold ℓ of the first sample."
            )
    return "Equal to the coefficients of all entries of the matrix, added up. All samples get the same: the mean, of everybody."


def _by_enumeration(A):
    """Coefficient of ℓ_j in −mean over the matrix, entry by entry."""
    size, result = len(A), np.zeros(len(A))
    for i in range(size):
        for j in range(size):
            result[j] -= A[i] / size**2
    return result


def _mistakes(A):
    size, mean = len(A), A.mean()
    return {
        "These are the factors of the *right* loss, where each sample has its own advantage. Here shapes (B,) and (B, 1) meet.":
            -A / size,
        "The sign: this is the gradient of the loss, and the loss has a minus.": np.full(size, mean / size),
        "You have the mean advantage. The mean over the matrix also divides by the number of samples in the other direction.":
            np.full(size, -mean),
        "You divided once: the mean runs over B² entries.": np.full(size, -A.sum() / size),
        "You divided by B² what is a mean already.": np.full(size, -mean / size**2),
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- the test to write


@exercise("07.2", "Write the test, not the code", kind="implement", level=3, minutes=25)
def is_right(answer):
    for name, sound in (("a recursion", gae), ("a sum over all later residuals", by_sums)):
        if not _verdict(answer, sound):
            raise Wrong(f"Your test rejects a sound function, written as {name}. Work your numbers out again, step by step.")
    missed = [symptom for symptom, sick in SICK.items() if _verdict(answer, sick)]
    if missed:
        rest = f" {len(missed)} of {len(SICK)} sick functions pass; this is one." if len(missed) > 1 else ""
        raise Wrong(f"Your test accepts a function that is wrong. {missed[0]}{rest}")
    return f"It accepts the sound function in both forms and rejects all {len(SICK)} sick ones."


def _verdict(answer, function):
    def gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):  # by position or by name, lists too
        arrays = map(np.asarray, (rewards, values, next_values, terminated, truncated))
        return function(*arrays, gamma, gae_lambda)

    verdict = run(answer, gae)
    if not isinstance(verdict, bool | np.bool_):
        raise Wrong(f"is_right must return True or False, not {type(verdict).__name__}.")
    return bool(verdict)


def by_sums(rewards, values, next_values, terminated, truncated, gamma, gae_lambda, *, end=None, bootstrap=None):
    """The definition, term by term: Σ (γλ)^l δ_{t+l} up to the end of the piece."""
    end = terminated | truncated if end is None else end
    delta = rewards + gamma * (np.where(terminated, 0, next_values) if bootstrap is None else bootstrap) - values
    advantages = np.zeros(len(rewards))
    for t in range(len(rewards)):
        for k in range(t, len(rewards)):
            advantages[t] += (gamma * gae_lambda) ** (k - t) * delta[k]
            if end[k]:
                break
    return advantages, advantages + values


def _through(r, v, n, term, trunc, g, lam):
    return by_sums(r, v, n, term, trunc, g, lam, bootstrap=n)


def _clock_is_death(r, v, n, term, trunc, g, lam):
    return by_sums(r, v, n, term | trunc, trunc, g, lam)


def _leaks(r, v, n, term, trunc, g, lam):
    return by_sums(r, v, n, term, trunc, g, lam, end=term)


def _backwards(r, v, n, term, trunc, g, lam):
    advantages, targets = gae(r, v, n, term, trunc, g, lam)
    return advantages[::-1].copy(), targets[::-1].copy()


def _wrong_target(r, v, n, term, trunc, g, lam):
    advantages, _ = gae(r, v, n, term, trunc, g, lam)
    return advantages, advantages + r


def _batch_end_is_death(r, v, n, term, trunc, g, lam):
    bootstrap = np.where(term, 0, n)
    bootstrap[-1] = 0
    return by_sums(r, v, n, term, trunc, g, lam, bootstrap=bootstrap)


SICK = {
    "With it, falling costs nothing: put a large decoy behind a termination.": _through,
    "With it, values near a time limit are too low: what stands behind a truncation must be used.": _clock_is_death,
    "With it, the luck of the next episode is credited to this one: let an episode be truncated in the middle of the batch, and "
    "another one follow.": _leaks,
    "With it, each action gets the credit of another: use steps that differ.": _backwards,
    "With it, the advantages are right, and the critic learns nonsense: look at everything that is returned.": _wrong_target,
    "With it, the last steps of a batch look worthless, although nothing ended there: look at the last row.": _batch_end_is_death,
}

# ------------------------------------------------------------------------------------------------------------------ the needles

NEEDLES = {
    "entropy bonus with the wrong sign: entropy": ("early certainty", "entropy"),
    "entropy bonus with the wrong sign: return": ("early certainty", "mean_return"),
    "line search that ignores the limit: return": ("over the limit", "mean_return"),
    "clip without min: KL": ("runaway", "kl"),
    "ratio detached: KL": ("stone", "kl"),
    "time limit taken for an end: explained variance": ("short-sighted pendulum", "explained_variance"),
}
WHY = {
    "entropy bonus with the wrong sign: entropy": "What does minimising +c · entropy do to the entropy?",
    "entropy bonus with the wrong sign: return": "On this easy task a policy that is sure early is no worse; the return "
                                                 "rises in both.",
    "line search that ignores the limit: return": "On this easy task steps of twice the length do no harm yet. What is "
                                                  "exceeded is the limit.",
    "clip without min: KL": "A bad action that became likelier has no gradient any more. Who brings it back?",
    "ratio detached: KL": "Nothing flows to the policy. How far does it move?",
    "time limit taken for an end: explained variance": "Equal observations have different targets, depending on a clock "
                                                       "that the critic does not see.",
}


def moved(name):
    """What the stored runs say: "higher", "lower" or "same"."""
    from rlcourse.classroom.clinic.symptoms import stored

    patient, diagnostic = NEEDLES[name]
    (low, middle, high), (low0, middle0, high0) = (
        np.median(stored()[patient].curves[state][diagnostic][:, -4:], axis=1) for state in ("sick", "healthy")
    )
    overlap = min(high, high0) - max(low, low0)
    if overlap > 0.5 * min(high - low, high0 - low0):
        return "same"
    return "higher" if middle > middle0 else "lower"


@exercise("07.3", "Which needle moves?", kind="predict", level=2, minutes=10)
def needles(answer):
    options = {word: word for word in ("higher", "lower", "same")}
    given = entries(answer, NEEDLES, lambda name, value: word(value, options))
    wrong = [name for name, value in given.items() if value != moved(name)]
    if wrong:
        rest = f" ({len(wrong)} of {len(NEEDLES)} are not as the stored runs say.)" if len(wrong) > 1 else ""
        raise Wrong(f"“{wrong[0]}” is not “{given[wrong[0]]}” in the stored runs. {WHY[wrong[0]]}{rest}")
    return "As in the stored runs, all six. In both lines about the return nothing is to be seen."


# ------------------------------------------------------------------------------------------------------------------ the answer


@exercise("07.4", "Answer a report", kind="explain", level=2, minutes=10)
def reply(answer):
    return explained(answer, [
        "What is right: before the first step new and old policy are equal, so the ratio is 1 and the loss is (nearly) 0.",
        "A value of 0 is no gradient of 0: at ratio 1 the gradient is the policy gradient, mean of A ∇log π.",
        "A measurement: the norm of the gradient in the first minibatch, or the ratio in the second, which is not 1.",
        "What would be a bug: a ratio of 1 after several steps on the same data.",
        "The proposed fix throws away the minibatch whose gradient is exactly on-policy.",
    ])  # fmt: skip
