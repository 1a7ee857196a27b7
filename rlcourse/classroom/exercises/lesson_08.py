"""Exercises of lesson 08: seeds or episodes, a test without a formula, tasks as strata, ways to a false alarm, a review."""

from itertools import combinations, product

import numpy as np
from scipy import optimize, stats

from rlcourse.classroom.exercises import (
    Wrong,
    array,
    close,
    entries,
    exercise,
    explained,
    number,
    numbers,
    recognise,
    run,
)
from rlcourse.experiments.statistics import interquartile_mean

# ------------------------------------------------------------------------------------------------- 08.1 seeds or episodes


def variance_per_cost(episodes, between, within, run_cost, episode_cost):
    """(σ_b² + σ_w²/m) (c + m e): the variance of the mean times the budget, whatever the budget."""
    return (between**2 + within**2 / episodes) * (run_cost + episodes * episode_cost)


@exercise("08.1", "Another seed, or more episodes?", kind="derive", level=2, minutes=15)
def best_episodes(answer):
    found = []
    for case in ((10.0, 50.0, 600.0, 1.0), (30.0, 30.0, 100.0, 1.0), (5.0, 100.0, 60.0, 2.0), (80.0, 20.0, 3600.0, 0.25)):
        got = number("the number of episodes", run(answer, *case))
        where = "σ_b = {:g}, σ_w = {:g}, a training costs {:g}, an episode {:g}".format(*case)
        if got <= 0:
            raise Wrong(f"{where}: your m = {got:.4g}; a number of episodes is positive.")
        best = np.exp(optimize.minimize_scalar(lambda x, case=case: np.log(variance_per_cost(np.exp(x), *case))).x)
        found.append(best)
        if abs(got / best - 1) > 1e-4:
            more = "more" if best > got else "fewer"
            raise Wrong(f"{where}: your m = {got:.4g}, and {more} episodes give less variance for the same budget. "
                        f"{_episodes_fault(got, *case)}")  # fmt: skip
    return (f"No other m gives less variance for the same budget, in four cases: {numbers(found)} episodes. Note what is not in "
            "the formula: the budget. It decides the number of seeds only.")  # fmt: skip


def _episodes_fault(got, between, within, run_cost, episode_cost):
    spread, cost = within / between, run_cost / episode_cost
    known = {
        "The two spreads are the wrong way round: which of them do episodes average away?": cost**0.5 / spread,
        "The two costs are the wrong way round: when trainings are dear, get more out of each.": spread / cost**0.5,
        "Look at the derivative again: is it m itself that equals this ratio, or its square?": spread**2 * cost,
        "One root too few: σ is given, the variance is σ².": spread**2 * cost**0.5,
        "One root too many: σ is given, the variance is σ².": spread**0.5 * cost**0.5,
        "Costs do not appear in your answer at all.": spread,
        "The spreads do not appear in your answer at all.": cost**0.5,
    }
    return next((text for text, value in known.items() if abs(got / value - 1) < 1e-4), "")


# --------------------------------------------------------------------------------------------- 08.2 a test without a formula


def share_of_splits(a, b, extreme):
    """Share of all ways to deal the scores out again for which extreme(new difference, observed) holds."""
    scores, n = np.concatenate([a, b]), len(a)
    observed, hits, total = np.mean(a) - np.mean(b), 0, 0
    for first in combinations(range(len(scores)), n):
        one = np.isin(np.arange(len(scores)), first)
        hits += bool(extreme(scores[one].mean() - scores[~one].mean(), observed))
        total += 1
    return hits / total


def as_extreme(difference, observed):
    return abs(difference) >= abs(observed) - 1e-9


def at_least(difference, observed):
    return difference >= observed - 1e-9


def at_most(difference, observed):
    return difference <= observed + 1e-9


@exercise("08.2", "A test without a formula", kind="implement", level=2, minutes=25)
def permutation_test(answer):
    cases = [
        ([3.0, 4.0, 5.0], [0.0, 1.0, 2.0]),
        ([0.0, 1.0, 2.0], [3.0, 4.0, 5.0]),
        ([1.0, 9.0], [2.0, 3.0, 4.0, 20.0]),
        ([7.0, 7.0], [7.0, 7.0, 7.0]),
        ([0.1, 0.2, 0.9], [0.3, 0.4, 0.5, 0.6]),
    ]
    cases += [tuple(np.random.default_rng(seed).standard_normal((2, 4)).round(1).tolist()) for seed in range(3)]
    for a, b in cases:
        a, b = np.array(a), np.array(b)
        got = number("the p-value", run(answer, a, b))
        if abs(got - share_of_splits(a, b, as_extreme)) > 1e-6:
            raise Wrong(f"a = {numbers(a)}, b = {numbers(b)}: your p is {got:.4g}. {_test_fault(got, a, b)}")
    p = [share_of_splits(np.arange(n) + n, np.arange(n), as_extreme) for n in (3, 4, 5)]
    return (f"Equal to brute force. Now the point: for 3 against 3 seeds the most extreme result that there is has p = {p[0]:g}; "
            f"4 against 4 {p[1]:.3g}, 5 against 5 {p[2]:.2g}. With three seeds no result whatever is below 5 %.")  # fmt: skip


def _test_fault(got, a, b):
    if not -1e-9 <= got <= 1 + 1e-9:
        return "A share lies between 0 and 1."
    n, sums = len(a), a.sum() - b.sum()
    scores = np.concatenate([a, b])
    splits = [np.isin(np.arange(len(scores)), first) for first in combinations(range(len(scores)), n)]
    by_sums = np.mean([abs(scores[one].sum() - scores[~one].sum()) >= abs(sums) - 1e-9 for one in splits])
    known = {
        "That counts one side only. A lead of b would have surprised you as much.": share_of_splits(a, b, at_least),
        "That counts the other side only: how often b leads by as much.": share_of_splits(a, b, at_most),
        "That is twice the smaller one-sided share. Count the splits with |difference| at least as large, on both sides; they "
        "need not be equally many.": 2 * min(share_of_splits(a, b, side) for side in (at_least, at_most)),
        "The observed split is one of the possible ones and counts, too: “at least as large”.": share_of_splits(
            a, b, lambda d, observed: abs(d) > abs(observed) + 1e-9
        ),
        "Sums instead of means: with groups of different sizes these are two different questions.": by_sums,
        "That is the share of the splits which are *less* extreme.": 1 - share_of_splits(a, b, as_extreme),
        "That is the t-test's p-value. It believes in normal scores; here nothing but the dealing is used.": float(
            stats.ttest_ind(a, b).pvalue
        ),
        "Some splits differ from the observed one by rounding only; allow for 1e-9.": share_of_splits(
            a, b, lambda d, observed: abs(d) >= abs(observed)
        ),
    }
    hint = next((text for text, value in known.items() if abs(got - value) < 1e-6), "")
    return hint or f"There are {len(splits)} ways to deal {len(scores)} scores out to {n} and {len(b)}; is each counted once?"


# ------------------------------------------------------------------------------------------------------ 08.3 tasks are strata


def all_resamples(scores):
    """The interquartile mean of every resample of two tasks with replacement within tasks, each equally likely."""
    first, second = (task[np.array(list(product(range(len(task)), repeat=len(task))))] for task in scores)
    i, j = np.indices((len(first), len(second))).reshape(2, -1)
    rows = np.concatenate([first[i], second[j]], axis=1)
    return interquartile_mean(rows)


def resampled(answer, scores, resamples, seed):
    return array("the resampled values", run(answer, scores, resamples, np.random.default_rng(seed)), (resamples,))


@exercise("08.3", "Tasks are strata", kind="implement", level=3, minutes=30)
def stratified(answer):
    flat = np.repeat(np.array([[0.0], [10.0], [50.0], [60.0], [1000.0]]), 3, axis=1)
    got = resampled(answer, flat, 200, 0)
    where = "Five tasks, every run of a task with the same score (0, 10, 50, 60, 1000)"
    recognise(got, {"That is the median of all runs. The interquartile mean was asked.": np.full(200, np.median(flat))})
    averaged = close(got, np.full(200, flat.mean()))  # named below, where a mean of all and a mean of tasks differ
    if not averaged and not close(got, np.full(200, interquartile_mean(flat.ravel()))):
        raise Wrong(f"{where}: whatever is drawn within a task, nothing changes. Yours goes from {got.min():.4g} to "
                    f"{got.max():.4g}. Are tasks drawn, too, or runs of different tasks thrown into one pot?")  # fmt: skip
    mirror = np.array([[1.0, 2.0, 4.0, 8.0], [-1.0, -2.0, -4.0, -8.0]])
    got = resampled(answer, mirror, 200, 1)
    if np.abs(got).max() < 1e-9:
        raise Wrong("Two tasks, the scores of one are minus those of the other: your values are all 0. The same columns are "
                    "drawn for every task, or nothing is drawn; run 0 of one and of the other are strangers.")  # fmt: skip
    scores = np.array([[0.0, 1.0, 2.0, 7.0], [3.0, 4.0, 5.0, 30.0]])
    exact = all_resamples(scores)
    got = resampled(answer, scores, 6000, 2)
    error = exact.std() / 6000**0.5
    if got.std() < 1e-9:
        raise Wrong("Every resample gives the same number. With replacement?")
    if averaged or abs(got.mean() - exact.mean()) > 5 * error or abs(got.std() / exact.std() - 1) > 0.06:
        raise Wrong(f"Two tasks with four runs, {numbers(scores)}: your 6,000 values have mean {got.mean():.3f} and spread "
                    f"{got.std():.3f}; all 65,536 resamples do not. {_strata_fault(got, scores)}")  # fmt: skip
    return ("The right mean and spread: all 65,536 resamples of a small case were enumerated. Each task keeps its runs; "
            "what is uncertain is the runs, not which tasks there are.")  # fmt: skip


def _strata_fault(got, scores):
    rng, (tasks, runs) = np.random.default_rng(3), scores.shape
    pick = rng.integers(runs, size=(20_000, tasks, runs))
    rows = np.take_along_axis(np.broadcast_to(scores, pick.shape), pick, -1)
    known = {
        "That is an interquartile mean per task, and then their mean; pool all runs of all tasks first.": interquartile_mean(
            rows
        ).mean(-1),
        "That is the mean of everything: one task with large numbers decides alone. The interquartile mean was asked.": rows.mean(
            (1, 2)
        ),
        "That is the median.": np.median(rows.reshape(20_000, -1), -1),
    }
    off = {text: abs(got.mean() - x.mean()) + abs(got.std() - x.std()) for text, x in known.items()}
    near = (text for text in known if off[text] < 0.1 + 0.03 * got.std())
    return next(near, "Are tasks and runs the right way round? scores is (tasks, runs).")


# -------------------------------------------------------------------------------------------------- 08.4 ways to a false alarm

FAMILIES = 4000
WAYS = ("one test", "peek after every seed", "best of three scores", "drop A's two worst runs")
ASK = {
    "one test": "What is a level of 5 %?",
    "peek after every seed": "Each look is another chance to stop at the wrong moment. Are 28 looks independent, or alike?",
    "best of three scores": "What is the chance that none of three independent tests raises an alarm?",
    "drop A's two worst runs": "How far does a mean of ten move when its two lowest values go, in units of its standard error? "
    "(Step 2: the extreme of ten lies 1.54 σ out, the second about 1.) And what happens to the spread?",
}


def false_alarms():
    """Share of FAMILIES experiments without any difference that end with p < 0.05, by what was done: exact runs, fixed seed."""
    rng = np.random.default_rng(84)
    a, b = rng.standard_normal((2, FAMILIES, 30))
    looks = np.zeros(FAMILIES, bool)
    for n in range(3, 31):
        looks |= stats.ttest_ind(a[:, :n], b[:, :n], axis=1).pvalue < 0.05
    three = stats.ttest_ind(*rng.standard_normal((2, FAMILIES, 3, 10)), axis=-1).pvalue.min(1)
    fewer = stats.ttest_ind(np.sort(a[:, :10], 1)[:, 2:], b[:, :10], axis=1).pvalue
    once = stats.ttest_ind(a[:, :10], b[:, :10], axis=1).pvalue
    shares = (once < 0.05).mean(), looks.mean(), (three < 0.05).mean(), (fewer < 0.05).mean()
    return dict(zip(WAYS, (100 * np.array(shares)).tolist(), strict=True))


@exercise("08.4", "Four ways to 5 %", kind="predict", level=2, minutes=15)
def ways_to_a_false_alarm(answer):
    guesses = entries(answer, WAYS, number)
    if outside := [name for name, guess in guesses.items() if not 0 < guess <= 100]:
        raise Wrong(f"{outside[0]}: {guesses[outside[0]]:g} is no percentage above 0.")
    if all(guess < 1 for guess in guesses.values()):
        raise Wrong("Percent, please: write 5 for 5 %.")
    found = false_alarms()
    for name, guess in guesses.items():
        if not found[name] / 1.5 <= guess <= found[name] * 1.5:
            way = "too low" if guess < found[name] else "too high"
            raise Wrong(f"{FAMILIES:,} experiments in which A and B are the same. “{name}”: your {guess:g} % is {way}, by "
                        f"more than a factor 1.5. {ASK[name]}")  # fmt: skip
    return "Measured: " + ", ".join(f"{name} {share:.1f} %" for name, share in found.items()) + ". All of it with no difference."


# ------------------------------------------------------------------------------------------------------------ 08.5 explain


@exercise("08.5", "Referee number two", kind="explain", level=2, minutes=25)
def review(answer):
    return explained(
        answer,
        [
            "n is 3 per algorithm, not 300: episodes of one policy are not independent runs, so the t-test's standard error is "
            "far too small. With 3 against 3 runs no exact test can be below 10 %.",
            "The best checkpoint of each run, reported with the number that chose it, is biased upwards, and more so for the "
            "noisier algorithm. Last policy, or a fresh evaluation of the chosen one.",
            "Forty settings were tried for the new method, one for the baseline. The best of 40 wins by selection alone; equal "
            "tuning for both, and new seeds for the final comparison.",
            "The baseline's number is from elsewhere: another version of the environment, another protocol (sampled or most "
            "probable actions, which checkpoint), another code. It has to be run again, side by side.",
            "Seconds on different machines say nothing about algorithms. Say whether samples or seconds are the claim, and "
            "measure both on one machine.",
            "What would convince: a rule beforehand, 10 to 20 new seeds for each, all points shown, an interval of the "
            "difference, failures counted, code and one command.",
        ],
        words=80,
    )
