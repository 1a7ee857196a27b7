"""Answers that a learner may well give in lesson 08: (what it is, source, part of the message that it must get)."""


def _episodes(expression):
    return f"""
def best_episodes(between, within, run_cost, episode_cost):
    return {expression}
"""


def _test(count, difference="scores[one].mean() - scores[~one].mean()", end="hits / total"):
    return f"""
from itertools import combinations
def p_value(a, b):
    scores, n = np.concatenate([a, b]), len(a)
    def difference(one):
        return {difference}
    observed = difference(np.arange(len(scores)) < n)
    hits = total = 0
    for first in combinations(range(len(scores)), n):
        one = np.isin(np.arange(len(scores)), first)
        d = difference(one)
        hits += {count}
        total += 1
    return {end}
"""


RIGHT = "abs(d) >= abs(observed) - 1e-9"


def _strata(draw, statistic="interquartile_mean(again.reshape(resamples, -1))"):
    return f"""
def resampled_iqm(scores, resamples, rng):
    tasks, runs = scores.shape
    {draw}
    return {statistic}
"""


WITHIN = """pick = rng.integers(runs, size=(resamples, tasks, runs))
    again = scores[np.arange(tasks)[:, None], pick]"""


def _guess(*values):
    return f"answer = dict(zip(answer, {values}))"


WRONG = {
    "08.1": [
        ("no root", _episodes("within**2 / between**2 * run_cost / episode_cost"), "or its square"),
        ("spreads upside down", _episodes("between / within * (run_cost / episode_cost) ** 0.5"), "episodes average away"),
        ("costs upside down", _episodes("within / between * (episode_cost / run_cost) ** 0.5"), "trainings are dear"),
        ("root of the costs only", _episodes("within**2 / between**2 * (run_cost / episode_cost) ** 0.5"), "One root too few"),
        ("σ taken for variances", _episodes("(within * run_cost / (between * episode_cost)) ** 0.5"), "One root too many"),
        ("no costs", _episodes("within / between"), "Costs do not appear"),
        ("no spreads", _episodes("(run_cost / episode_cost) ** 0.5"), "spreads do not appear"),
        ("a hundred, as always", _episodes("100"), "your m = 100"),
        ("negative", _episodes("-within / between"), "positive"),
    ],
    "08.2": [
        ("one side", _test("d >= observed - 1e-9"), "one side only"),
        ("other side", _test("d <= observed + 1e-9"), "the other side only"),
        (
            "SciPy's two-sided",
            "from scipy import stats\n"
            "def p_value(a, b):\n"
            "    lead = lambda x, y, axis: x.mean(axis) - y.mean(axis)\n"
            "    return stats.permutation_test((a, b), lead, vectorized=True, n_resamples=np.inf).pvalue",
            "twice the smaller",
        ),
        ("strictly more", _test("abs(d) > abs(observed) + 1e-9"), "counts, too"),
        ("sums", _test(RIGHT, "scores[one].sum() - scores[~one].sum()"), "Sums instead of means"),
        ("the rest", _test(RIGHT, end="1 - hits / total"), "*less* extreme"),
        (
            "t-test",
            "from scipy import stats\np_value = lambda a, b: stats.ttest_ind(a, b).pvalue",
            "believes in normal scores",
        ),
        ("rounding", _test("abs(d) >= abs(observed)"), "rounding"),
        ("counts, not a share", _test(RIGHT, end="hits"), "between 0 and 1"),
        ("hits without the number", _test(RIGHT, end="hits / 720"), "is each counted once"),
    ],
    "08.3": [
        (
            "tasks drawn, too",
            _strata("again = scores[rng.integers(tasks, size=(resamples, tasks))]"),
            "Are tasks drawn, too",
        ),
        (
            "the same columns for all tasks",
            _strata(
                "pick = rng.integers(runs, size=(resamples, runs))\n    again = scores[:, pick].transpose(1, 0, 2)",
            ),
            "The same columns are drawn",
        ),
        ("mean", _strata(WITHIN, "again.mean((1, 2))"), "mean of everything"),
        ("median", _strata(WITHIN, "np.median(again.reshape(resamples, -1), -1)"), "median of all runs"),
        ("per task", _strata(WITHIN, "interquartile_mean(again).mean(-1)"), "pool all runs"),
        ("one per task", _strata(WITHIN, "interquartile_mean(again)"), "should have shape"),
        (
            "with noise on top",
            _strata(WITHIN, "interquartile_mean(again.reshape(resamples, -1)) + rng.standard_normal(resamples)"),
            "goes from",
        ),
    ],
    "08.4": [
        ("all 5", _guess(5, 5, 5, 5), "“peek after every seed”: your 5 % is too low"),
        ("28 independent looks", _guess(5, 76, 14, 16), "too high"),
        ("shares", _guess(0.05, 0.2, 0.14, 0.1), "write 5 for 5 %"),
        ("once wrong", _guess(95, 25, 14, 16), "“one test”"),
        ("three times as many", _guess(5, 25, 40, 16), "“best of three scores”"),
        ("dropping is harmless", _guess(5, 25, 14, 5), "“drop A's two worst runs”"),
        ("nonsense", _guess(5, 25, 14, 120), "no percentage"),
    ],
}

ALSO_RIGHT = {
    "08.1": [("through the variance", _episodes("np.sqrt(within**2 * run_cost / (between**2 * episode_cost))"))],
    "08.2": [
        (
            "all orders",
            """
from itertools import permutations
def p_value(a, b):
    scores = [*a, *b]
    if len(scores) > 7:
        from scipy.stats import permutation_test
        return permutation_test((a, b), lambda x, y, axis: np.abs(x.mean(axis) - y.mean(axis)).round(9),
                                n_resamples=np.inf, alternative="greater", vectorized=True).pvalue
    observed = abs(np.mean(a) - np.mean(b))
    leads = [abs(np.mean(p[:len(a)]) - np.mean(p[len(a):])) for p in permutations(scores)]
    return sum(lead >= observed - 1e-9 for lead in leads) / len(leads)
""",
        ),
    ],
    "08.3": [
        (
            "loops, list returned",
            """
def resampled_iqm(scores, resamples, rng):
    return [interquartile_mean(np.concatenate([rng.choice(task, len(task)) for task in scores])) for _ in range(resamples)]
""",
        ),
        ("choice by task", _strata("again = np.stack([rng.choice(t, size=(resamples, runs)) for t in scores], axis=1)")),
    ],
}
