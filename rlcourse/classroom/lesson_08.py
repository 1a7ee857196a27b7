"""What lesson 08 needs: a spread of scores in two groups, the widget of many comparisons, and its stored trainings."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from rlcourse.agents.recommended import recommended
from rlcourse.agents.training import evaluate, iterate, train
from rlcourse.classroom.controls import choice, slider
from rlcourse.classroom.figures import PALETTE

# ------------------------------------------------------------------------------------------------- a spread in two groups


@dataclass(frozen=True)
class TwoGroups:
    """Scores that fall into two groups, as those of HalfCheetah in lesson 06: most runs gallop on their back, some run.

    A share of the runs scores `low + gap`, the others `low`, each with normal noise. The values are the five stored runs of PPO.
    """

    share: float = 0.2
    low: float = 1650.0
    gap: float = 2190.0
    noise: float = 120.0

    @property
    def mean(self):
        return self.low + self.share * self.gap

    @property
    def sd(self):
        return (self.noise**2 + self.share * (1 - self.share) * self.gap**2) ** 0.5

    def draw(self, rng, size):
        return self.low + self.gap * (rng.random(size) < self.share) + self.noise * rng.standard_normal(size)

    def below(self, score):
        """P(X ≤ score), exact."""
        z = (score - self.low) / self.noise
        return (1 - self.share) * stats.norm.cdf(z) + self.share * stats.norm.cdf(z - self.gap / self.noise)


# --------------------------------------------------------------------------------------------- the widget: many comparisons

COMPARISONS = 20_000
SHOWN = 30  # of them, with their intervals
RANGE = 200.0  # of the axis, points of score either side
BINS = np.linspace(-RANGE, RANGE, 81)


@dataclass(frozen=True)
class Comparisons:
    """The same experiment, done COMPARISONS times: observed differences of two means of n runs, and Welch's 95 % intervals."""

    difference: np.ndarray  # (COMPARISONS,)
    reach: np.ndarray  # (COMPARISONS,) half the width of the interval
    truth: float

    @property
    def wrong(self):
        """Share in which the worse one looks better (the half of it, where both are equally good)."""
        return float((self.difference < 0).mean())

    @property
    def found(self):
        """Share whose interval excludes 0 on the right side, and on the wrong one."""
        return float((self.difference > self.reach).mean()), float((self.difference < -self.reach).mean())


def compare_often(n, difference, spread, shape):
    """Two settings with true means `difference` apart, n seeds each, compared COMPARISONS times: Comparisons."""
    rng = np.random.default_rng(8)
    size = (2, COMPARISONS, n)
    groups = TwoGroups()
    scores = rng.standard_normal(size) if shape == "normal" else (groups.draw(rng, size) - groups.mean) / groups.sd
    mean, variance = spread * scores.mean(-1), spread**2 * scores.var(-1, ddof=1) / n
    total = variance.sum(0)
    freedom = total**2 / (variance**2 / (n - 1)).sum(0)  # Welch and Satterthwaite
    return Comparisons(difference + mean[0] - mean[1], stats.t.ppf(0.975, freedom) * total**0.5, difference)


def draw_comparisons(fig):
    left, right = fig.subplots(1, 2)
    looks = {"fill": True, "edgecolor": "black", "linewidth": 0.6}
    good = left.stairs(np.ones(80), BINS, facecolor=PALETTE["sky"], label="the better one leads", **looks)
    bad = left.stairs(np.ones(80), BINS, facecolor=PALETTE["vermillion"], hatch="//", label="the worse one leads", **looks)
    truths = [ax.axvline(0, color=PALETTE["black"], linestyle="--", linewidth=1.4) for ax in (left, right)]
    left.set(xlim=(-RANGE, RANGE), ylim=(0, 0.3), xlabel="observed difference, points", ylabel="share of experiments")
    left.legend(loc="upper left", fontsize=11.5)
    rows = np.arange(SHOWN)
    lines = right.hlines(rows, 0 * rows, 0 * rows + 1, color=PALETTE["black"], linewidth=1.4)
    kinds = {"o": "black", "^": "blue", "v": "vermillion"}
    points = [right.plot([], [], mark, color=PALETTE[colour], markersize=6)[0] for mark, colour in kinds.items()]
    right.axvline(0, color="#888888", linestyle=":", linewidth=1.2)
    right.set(xlim=(-RANGE, RANGE), ylim=(-1, SHOWN), yticks=[], xlabel="▲ better  ● open  ▼ worse, points")
    right.set_ylabel(f"{SHOWN} experiments")

    def update(data):
        counts = np.histogram(data.difference.clip(BINS[0], BINS[-1] - 1e-9), BINS)[0] / COMPARISONS
        good.set_data(np.where(BINS[1:] > 0, counts, 0))
        bad.set_data(np.where(BINS[1:] > 0, 0, counts))
        for line in truths:
            line.set_xdata([data.truth, data.truth])
        middle, reach = data.difference[:SHOWN], data.reach[:SHOWN]
        lines.set_segments([[(m - r, y), (m + r, y)] for m, r, y in zip(middle, reach, rows, strict=True)])
        states = [np.abs(middle) <= reach, middle > reach, middle < -reach]
        for point, state in zip(points, states, strict=True):
            point.set_data(middle[state].clip(-RANGE, RANGE), rows[state])

    return update


def describe_comparisons(data, n, difference, spread, shape):
    low, high = np.quantile(data.difference, [0.025, 0.975])
    right, wrong = data.found
    leads = f"the worse one leads in {data.wrong:.0%}" if difference else f"B leads in {data.wrong:.0%}, though both are equal"
    return (f"{COMPARISONS:,} experiments with {n} seeds each: {leads}; 95 % of the observed differences lie between {low:.0f} "
            f"and {high:.0f}; the interval excludes 0 on the right side in {right:.0%}, on the wrong one in {wrong:.1%}.")


COMPARE = dict(
    title="A comparison, done many times",
    compute=compare_often, draw=draw_comparisons, describe=describe_comparisons, size=(9.0, 3.8),
    controls={
        "n": slider(2, 50, 1, value=10, label="seeds each, n"),
        "difference": slider(0, 100, 5, value=30, label="true difference, points"),
        "spread": slider(10, 150, 5, value=60, label="spread of one run, σ"),
        "shape": choice({"normal": "normal", "two groups": "two groups"}, value="normal", label="shape of the spread"),
    },
)  # fmt: skip


def draw_comparisons_still(fig):
    """The histogram alone, for three settings side by side."""
    ax = fig.subplots()
    looks = {"fill": True, "edgecolor": "black", "linewidth": 0.6}
    good = ax.stairs(np.ones(80), BINS, facecolor=PALETTE["sky"], **looks)
    bad = ax.stairs(np.ones(80), BINS, facecolor=PALETTE["vermillion"], hatch="//", **looks)
    ax.axvline(0, color="#888888", linestyle=":", linewidth=1.2)
    ax.set(xlim=(-RANGE, RANGE), ylim=(0, 0.2), xlabel="difference, points", ylabel="share", xticks=[-150, 0, 150])

    def update(data):
        counts = np.histogram(data.difference.clip(BINS[0], BINS[-1] - 1e-9), BINS)[0] / COMPARISONS
        good.set_data(np.where(BINS[1:] > 0, counts, 0))
        bad.set_data(np.where(BINS[1:] > 0, 0, counts))

    return update


COMPARE_STILL = COMPARE | {"draw": draw_comparisons_still, "size": (9.0, 3.2)}

# ------------------------------------------------------------------------------------------------------- stored results

ACROBOT = {"as in lesson 02": {}, "λ = 0.95": {"gae_lambda": 0.95}, "no entropy bonus": {"entropy_coef": 0.0}}
STEPS = 30_000


def acrobot(seeds=200, points=15):
    """VPG on Acrobot with three settings, the same 200 seeds for each.

    Returns:
        names (3,); score (3, 200), the mean return of the last up to 100 episodes after 30,000 steps; env_steps (points,) and
        curve (3, 200, points) of that return, NaN before the first episode has ended.
    """
    score, curve = [], []
    for change in ACROBOT.values():
        settings = replace(recommended("VPG", "Acrobot-v1"), **change)
        history = train(settings, "Acrobot-v1", total_steps=STEPS, seeds=range(seeds), progress=False).history
        at = np.linspace(0, history["env_steps"].shape[1] - 1, points).round().astype(int)
        score.append(history["mean_return"][:, -1])
        curve.append(history["mean_return"][:, at])
    arrays = {"score": np.array(score, np.float32), "curve": np.array(curve, np.float32)}
    return {"names": np.array(list(ACROBOT)), "env_steps": history["env_steps"][0, at], **arrays}


def checkpoints(seeds=40, number=10, few=5, many=50):
    """PPO on Pendulum, ten policies of each run between 15,000 and 60,000 steps, each evaluated twice, on different episodes.

    Returns:
        env_steps (number,); selection (seeds, number), mean return of 5 episodes; fresh (seeds, number), of 50 others.
    """
    due = list(range(15_000, 60_001, 5_000))[:number]
    steps, selection, fresh = [], [], []
    for state in iterate(recommended("PPO", "Pendulum-v1"), "Pendulum-v1", total_steps=60_000, seeds=range(seeds)):
        if len(steps) < number and state.env_steps >= due[len(steps)]:
            policies = [state.result().policy(run) for run in range(seeds)]
            first_seed = 10_000 * len(steps)  # no episode is used twice
            selection.append([_mean_return(policy, few, first_seed + run) for run, policy in enumerate(policies)])
            fresh.append([_mean_return(policy, many, first_seed + 5_000 + run) for run, policy in enumerate(policies)])
            steps.append(state.env_steps)
    arrays = {"selection": np.array(selection, np.float32).T, "fresh": np.array(fresh, np.float32).T}
    return {"env_steps": np.array(steps), **arrays}


def _mean_return(policy, episodes, seed):
    return evaluate(policy, "Pendulum-v1", episodes=episodes, seed=seed).mean()


DATA = {"08_acrobot.npz": acrobot, "08_checkpoints.npz": checkpoints}
