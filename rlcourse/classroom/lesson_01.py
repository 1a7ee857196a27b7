"""Lesson 01: worlds, pictures and widgets that only "The policy-gradient theorem" needs.

Everything that computes is a pure function with a fixed seed; what draws comes in pairs `draw_…(figure) -> update(data)`.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from matplotlib.patches import Ellipse, FancyArrowPatch, Rectangle

from rlcourse.classroom.controls import choice, slider
from rlcourse.classroom.figures import PALETTE
from rlcourse.worlds.tabular import (
    TabularMDP,
    corridor_policy,
    enumerate_trajectories,
    exact_policy_gradient,
    finite_difference_gradient,
    gradient_estimates,
    logistic_policy,
    sample_trajectories,
    score_table,
    short_corridor,
    softmax_policy,
)

BEST_P = 2 - np.sqrt(2)  # best probability of "right" in the corridor, Sutton & Barto (2018), Example 13.1
BEST_J = -(6 + 4 * np.sqrt(2))
two_knobs = partial(logistic_policy, groups=(0, 1, 0))  # one parameter for the outer cells, one for the swapped cell


def corridor_return(p):
    """J(p) = -2 (2 - p) / (p (1 - p)): expected return in the corridor when "right" has probability p everywhere."""
    return -2 * (2 - p) / (p * (1 - p))


def corridor_slope(p):
    """dJ/dtheta = (4 - 8 p + 2 p^2) / (p (1 - p)) in the corridor, theta being the log-odds of "right"."""
    return (4 - 8 * p + 2 * p**2) / (p * (1 - p))


def differences(mdp, policy, theta):
    """Gradient of J by central finite differences: neither the theorem nor automatic differentiation is involved."""
    return finite_difference_gradient(lambda parameters: mdp.expected_return(policy(parameters)), theta)


def discount_trap(gamma=0.5):
    """Three states that the agent cannot tell apart; leaving out gamma^t turns the gradient around.

    State 0, then state 1 after action 0 or state 2 after action 1, then the end. Action 1 costs 1 in state 1 or 2; state 2 pays
    1.5 whatever is done. With the same probability p of action 1 everywhere, J = gamma p (1.5 - 1): more p is better for every
    gamma > 0. Without gamma^t the field is (1.5 gamma - 1) dp/dtheta: negative for gamma < 2/3.
    In the spirit of the counterexample of Nota & Thomas (2020).
    """
    transition = torch.zeros(3, 2, 3)
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    reward = torch.tensor([[0.0, 0.0], [0.0, -1.0], [1.5, 0.5]])
    return TabularMDP(transition, reward, gamma, start=torch.tensor([1.0, 0.0, 0.0]))


def trajectory_names(trajectories, num_states, num_actions):
    """One whole number per episode that spells out its states and actions (the digits, in order of time)."""
    base = num_states * num_actions + 1
    digit = 1 + trajectories.state * num_actions + trajectories.action
    name = np.zeros(trajectories.shape[0], dtype=np.int64)
    np.add.at(name, trajectories.episode, digit * base**trajectories.time)
    return name


def noise_of_baselines(mdp, theta):
    """Exact noise (trace of the covariance) of the return-to-go estimate under four baselines, for a tabular softmax.

    Args:
        mdp: a world whose trajectories can be listed and visit no state twice.
        theta: (S, A).
    Returns:
        noise with no baseline, the best constant, V, and the best baseline per state.
    """
    pi, score = softmax_policy(theta), score_table(softmax_policy, theta)
    every, probability = enumerate_trajectories(mdp, pi)
    chance, discount, to_go = probability.numpy(), mdp.gamma**every.time, every.returns_to_go(mdp.gamma)

    def estimates(weight):
        return gradient_estimates(every, discount * weight, score).reshape(len(chance), -1)

    raw, score_sum = estimates(to_go), estimates(np.ones_like(to_go))
    constant = (chance @ (raw * score_sum).sum(1)) / (chance @ (score_sum**2).sum(1))
    weight = pi * (score**2).sum((2, 3))
    best = ((weight * mdp.q_values(pi)).sum(1) / weight.sum(1)).numpy()
    tables = (np.zeros(mdp.num_states), np.full(mdp.num_states, constant), mdp.values(pi).numpy(), best)
    centre = chance @ raw
    return [chance @ ((estimates(to_go - table[every.state]) - centre) ** 2).sum(1) for table in tables]


def angle_between(u, v):
    """Angle between two directions, in degrees."""
    u, v = (np.asarray(x, float).ravel() for x in (u, v))
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    return float(np.degrees(2 * np.arctan2(np.linalg.norm(u - v), np.linalg.norm(u + v))))


def loop_gain(field, centre, i, j, radius=0.5, num_points=64):
    """Line integral of a field around a circle in the plane of parameters i and j: 0 for the gradient of any function.

        sum over the circle of field(theta) . dtheta      (equal steps on a circle: converges faster than any power)
    """
    angles = 2 * np.pi * np.arange(num_points) / num_points
    gain = 0.0
    for angle in angles:
        theta = centre.clone().flatten()
        theta[i] += radius * np.cos(angle)
        theta[j] += radius * np.sin(angle)
        arrow = field(theta.reshape(centre.shape)).flatten()
        gain += float(radius * (-np.sin(angle) * arrow[i] + np.cos(angle) * arrow[j])) * 2 * np.pi / num_points
    return gain


# -------------------------------------------------------------------------------------------------- the first picture


def draw_corridor(ax):
    """The map: three cells, where "right" leads from each (solid arrows) and where "left" leads (dashed)."""
    ax.text(1.3, 0.95, "“right” (solid)", color=PALETTE["vermillion"], ha="center", fontsize=12)
    ax.text(1.3, -1.25, "“left” (dashed)", color=PALETTE["blue"], ha="center", fontsize=12)
    ax.set(xlim=(-0.95, 3.55), ylim=(-1.5, 1.3))
    ax.set_axis_off()
    for x, name in enumerate(("start", "swap", "")):
        ax.add_patch(Rectangle((x - 0.42, -0.3), 0.84, 0.6, facecolor="#EEEEEE" if x != 1 else "#CDE5F5", edgecolor="black"))
        ax.text(x, 0, name, ha="center", va="center", fontsize=12)
    ax.text(3.15, 0, "end", ha="center", va="center", fontsize=12)
    moves = [(0.1, 0.9, 1, "-"), (1.1, 0.1, -1, "-"), (2.1, 3.1, 1, "-"), (1.9, 1.1, -1, "--"), (0.9, 1.9, 1, "--")]
    for x, to, bend, dashes in moves:
        side = 0.33 if (to > x) == (bend > 0) and to > x else -0.33
        ax.add_patch(FancyArrowPatch((x, side), (to, side), arrowstyle="-|>", mutation_scale=16, linestyle=dashes,
                                     connectionstyle="arc3,rad=-0.45", color=PALETTE["vermillion" if dashes == "-" else "blue"],
                                     linewidth=1.8))  # fmt: skip


def draw_slopes(ax, measured):
    """J against theta and, at each theta measured, a short line of the measured slope; `measured`: pairs (theta, slope)."""
    theta = np.linspace(-3.1, 3.1, 200)
    p = 1 / (1 + np.exp(-theta))
    ax.plot(theta, corridor_return(p), color=PALETTE["black"], linestyle="-", label="J, computed from the map")
    for number, (at, slope) in enumerate(measured):
        x = at + np.array([-0.45, 0.45])
        height = corridor_return(1 / (1 + np.exp(-at)))
        ax.plot(x, height + slope * (x - at), color=PALETTE["vermillion"], linestyle="-", linewidth=4,
                label="slope, from play at that θ only" if number == 0 else None)  # fmt: skip
        ax.plot(at, height, "o", color=PALETTE["vermillion"])
    ax.set(xlabel="θ (log-odds of “right”)", ylabel="expected return J", ylim=(-72, 0))
    ax.legend(loc="lower center")


# ------------------------------------------------------------------------------------- widget 1: a cloud of gradient estimates

CLOUD_SIZE, SHOWN, LARGEST_BATCH = 250, 150, 64  # estimates, arrows drawn, episodes per estimate at most


@dataclass(frozen=True)
class Cloud:
    """Many estimates of one gradient, and what is known about them."""

    estimates: np.ndarray  # (CLOUD_SIZE, 2)
    exact: np.ndarray  # (2,)
    baseline: float
    noise: float  # trace of the covariance of one estimate, measured
    best_baseline: float
    baselines: np.ndarray  # a grid, and the noise of an estimate for each of them
    noises: np.ndarray

    @property
    def bias(self):
        """Distance from the mean of the cloud to the exact gradient."""
        return float(np.linalg.norm(self.estimates.mean(0) - self.exact))

    @property
    def bias_error(self):
        """Size of that distance which chance alone explains: its root mean square under no bias."""
        return float(np.sqrt(self.noise / len(self.estimates)))


@lru_cache(maxsize=4)
def _episodes_for_clouds(weighted_by):
    """Per episode, at theta = (0, 0): sum_t grad log pi_t G_t (or G) and sum_t grad log pi_t; both (250, 64, 2)."""
    theta = torch.zeros(2, dtype=torch.float64)
    score = score_table(two_knobs, theta)
    episodes = sample_trajectories(short_corridor(), two_knobs(theta), CLOUD_SIZE * LARGEST_BATCH, np.random.default_rng(0))
    weight = episodes.returns_to_go(1.0) if weighted_by == "return to go" else episodes.returns(1.0)[episodes.episode]
    raw, score_sum = (gradient_estimates(episodes, w, score) for w in (weight, np.ones_like(weight)))
    return raw.reshape(CLOUD_SIZE, LARGEST_BATCH, 2), score_sum.reshape(CLOUD_SIZE, LARGEST_BATCH, 2)


def gradient_cloud(baseline, batch_size, weighted_by):
    """250 estimates of the gradient of the two-parameter corridor at theta = (0, 0), each from `batch_size` episodes.

        g = mean over episodes of sum_t grad log pi(a_t | s_t) (G_t - b)

    Args:
        baseline: b.
        batch_size: 1 .. 64.
        weighted_by: "return to go", G_t, or "whole return": then G of the episode stands in its place.
    Returns:
        Cloud.
    """
    raw, score_sum = _episodes_for_clouds(weighted_by)
    raw_mean, sum_mean = raw[:, :batch_size].mean(1), score_sum[:, :batch_size].mean(1)
    estimates = raw_mean - baseline * sum_mean
    all_raw, all_sum = raw.reshape(-1, 2), score_sum.reshape(-1, 2)
    cross, square = (all_raw * all_sum).sum(1).mean(), (all_sum**2).sum(1).mean()
    exact = exact_policy_gradient(short_corridor(), two_knobs, torch.zeros(2, dtype=torch.float64)).numpy()
    grid = np.linspace(-40, 10, 101)
    noises = ((all_raw**2).sum(1).mean() - 2 * grid * cross + grid**2 * square - exact @ exact) / batch_size
    return Cloud(estimates, exact, baseline, float(estimates.var(0, ddof=1).sum()), float(cross / square), grid, noises)


def draw_cloud(fig, panels=2):
    """The cloud, and beside it (if there are two panels) its noise against the baseline."""
    left, right, *_ = [*fig.subplots(1, panels, squeeze=False)[0], None]
    nowhere = np.zeros(SHOWN)
    whole = dict(angles="xy", scale_units="xy", scale=1)
    arrows = left.quiver(*[nowhere] * 4, width=0.0035, alpha=0.5, color=PALETTE["sky"], **whole)
    ellipse = left.add_patch(Ellipse((0, 0), 1, 1, fill=False, linestyle="--", linewidth=1.5, edgecolor=PALETTE["blue"]))
    exact = left.quiver([0], [0], [0], [0], width=0.013 if panels == 2 else 0.025, color=PALETTE["vermillion"], **whole)
    (mean,) = left.plot([], [], "X", color=PALETTE["black"], markersize=10, linestyle="none")
    left.set(xlabel="∂J/∂θ, outer cells", ylabel="∂J/∂θ, swapped cell", aspect="equal")
    if right is None:
        left.set(xlim=(-24, 36), ylim=(-34, 20))
    else:
        left.set(xlim=(-34, 62), ylim=(-40, 28))
        left.legend([exact, mean, ellipse], ["exact gradient", "mean of the cloud", "two standard deviations"],
                    loc="upper right", handlelength=1.2, borderpad=0.2, labelspacing=0.2)  # fmt: skip
        (curve,) = right.plot([], [], color=PALETTE["black"], linestyle="-")
        (here,) = right.plot([], [], "o", color=PALETTE["blue"], markersize=11, label="this cloud")
        best = right.axvline(0, color=PALETTE["green"], linestyle="--", label="best b")
        right.set(xlabel="baseline b", ylabel="noise: trace of covariance", yscale="log", xlim=(-40, 10), ylim=(2, 2e4))
        right.legend(loc="upper right")

    def update(cloud):
        arrows.set_UVC(*cloud.estimates[:SHOWN].T)
        exact.set_UVC(*cloud.exact[:, None])
        mean.set_data(*cloud.estimates.mean(0)[:, None])
        size, axes = np.linalg.eigh(np.cov(cloud.estimates.T))
        ellipse.set(center=cloud.estimates.mean(0), width=4 * np.sqrt(size[1]), height=4 * np.sqrt(size[0]),
                    angle=np.degrees(np.arctan2(axes[1, 1], axes[0, 1])))  # fmt: skip
        if right is not None:
            curve.set_data(cloud.baselines, cloud.noises)
            here.set_data([cloud.baseline], [cloud.noise])
            best.set_xdata([cloud.best_baseline] * 2)

    return update


def describe_cloud(cloud, baseline, batch_size, weighted_by):
    return (f"noise {cloud.noise:.3g}; the cloud's mean is {cloud.bias:.2g} from the exact gradient (8, −6), "
            f"where chance alone gives about {cloud.bias_error:.2g}. The best constant baseline is {cloud.best_baseline:.1f}.")


CLOUD = dict(
    title="Estimates of one gradient",
    compute=gradient_cloud, draw=draw_cloud, describe=describe_cloud,
    controls={
        "baseline": slider(-40.0, 10.0, 1.0, value=0.0, label="baseline b"),
        "batch_size": slider(1, LARGEST_BATCH, 1, value=8, label="episodes per estimate"),
        "weighted_by": choice(["return to go", "whole return"], value="return to go", label="each step is weighted by"),
    },
)  # fmt: skip

CLOUD_STILL = CLOUD | {"draw": partial(draw_cloud, panels=1)}

# --------------------------------------------------------------------------------------- widget 2: a walk on the corridor's curve

NUM_UPDATES, NUM_WALKERS = 30, 5
EDGE = 0.002  # a walker with p below this or above 1 - this has left the picture: its episodes would last thousands of steps


@dataclass(frozen=True)
class Walk:
    """Gradient ascent on the corridor: probability of "right" and expected return after 0, 1, … 30 updates."""

    p: np.ndarray  # (NUM_UPDATES + 1, walkers); NaN once a walker is lost
    expected_return: np.ndarray

    @property
    def lost(self):
        return int(np.isnan(self.p[-1]).sum())


def ascent_walk(start_p, step_size, episodes):
    """theta <- theta + step_size * gradient, thirty times, theta being the log-odds of "right".

    Args:
        start_p: probability of "right" at the start.
        step_size: factor of the gradient.
        episodes: per gradient estimate (whole-return estimator without a baseline); 0 for the exact gradient and one walker.
    Returns:
        Walk. A walker that comes within EDGE of p = 0 or 1 is lost: NaN from there on.
    """
    corridor, rng = short_corridor(), np.random.default_rng(0)
    theta = np.full(NUM_WALKERS if episodes else 1, np.log(start_p / (1 - start_p)))
    path = [theta]
    for _ in range(NUM_UPDATES):
        p = 1 / (1 + np.exp(-theta))
        alive = np.flatnonzero(np.minimum(p, 1 - p) >= EDGE)
        gradient = np.full(len(theta), np.nan)
        if len(alive) and not episodes:
            gradient[alive] = exact_policy_gradient(corridor, corridor_policy, torch.tensor(theta)).numpy()
        elif len(alive):
            played = sample_trajectories(corridor, corridor_policy(torch.tensor(theta[alive, None])), episodes, rng)
            surprise = played.action - p[alive][played.episode // episodes]  # d log pi / d theta: 1 - p for right, -p for left
            score_sum = np.bincount(played.episode, surprise).reshape(played.shape)
            gradient[alive] = (score_sum * played.returns(1.0)).mean(1)
        theta = theta + step_size * gradient
        path.append(theta)
    with np.errstate(over="ignore"):
        p = 1 / (1 + np.exp(-np.array(path)))
    p[~(np.minimum(p, 1 - p) >= EDGE)] = np.nan
    return Walk(p, corridor_return(p))


def draw_walk(fig, panels=2):
    """The walk on the curve of J, and beside it (if there are two panels) the distance from the top against updates."""
    left, right, *_ = [*fig.subplots(1, panels, squeeze=False)[0], None]
    p = np.linspace(0.02, 0.98, 300)
    left.plot(p, corridor_return(p), color=PALETTE["black"], linestyle="-", linewidth=1.5)
    left.plot(BEST_P, BEST_J, "*", color=PALETTE["green"], markersize=17, linestyle="none", label="top")
    steps = dict(color=PALETTE["vermillion"], linestyle="-", marker="o")
    paths = [left.plot([], [], markersize=5, linewidth=0.8, **steps)[0] for _ in range(NUM_WALKERS)]
    (start,) = left.plot([], [], "s", color=PALETTE["blue"], markersize=10, linestyle="none", label="start", zorder=5)
    left.set(xlabel="probability p of “right”", ylabel="expected return J", xlim=(0, 1), ylim=(-85, 0))
    left.legend(loc="lower center")
    curves = []
    if right is not None:
        curves = [right.plot([], [], markersize=4, linewidth=1, **steps)[0] for _ in range(NUM_WALKERS)]
        right.set(xlabel="updates", ylabel="below the top: J* − J", xlim=(-0.5, NUM_UPDATES + 0.5))
        right.set(yscale="log", ylim=(1e-3, 1e3))

    def update(walk):
        for line in (*paths, *curves):
            line.set_data([], [])
        for path, p, height in zip(paths, walk.p.T, walk.expected_return.T, strict=False):
            path.set_data(p, height)
        for curve, height in zip(curves, walk.expected_return.T, strict=False):
            curve.set_data(np.arange(NUM_UPDATES + 1), BEST_J - height)
        start.set_data([walk.p[0, 0]], [walk.expected_return[0, 0]])

    return update


def describe_walk(walk, start_p, step_size, episodes):
    walkers = walk.p.shape[1]
    end = walk.expected_return[-1]
    if walk.lost == walkers:
        return "lost: a step threw the walk to the edge, where an episode lasts thousands of steps."
    lost = f" {walk.lost} of {walkers} are lost at an edge." if walk.lost else ""
    worst, best = np.nanmin(end), np.nanmax(end)
    reached = f"{best:.2f}" if best - worst < 0.005 else f"{worst:.2f} to {best:.2f}"
    return f"after {NUM_UPDATES} updates J is {reached} (the best possible is {BEST_J:.2f}).{lost}"


WALK = dict(
    title="Gradient ascent in the corridor",
    compute=ascent_walk, draw=draw_walk, describe=describe_walk,
    controls={
        "start_p": slider(0.05, 0.95, 0.05, value=0.3, label="start p"),
        "step_size": slider(0.003, 0.3, value=0.03, log=True, label="step size α"),
        "episodes": choice({"∞ (exact)": 0, "1": 1, "10": 10, "100": 100}, value=0, label="episodes per gradient"),
    },
)  # fmt: skip
WALK_STILL = WALK | {"draw": partial(draw_walk, panels=1)}
