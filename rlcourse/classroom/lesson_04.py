"""Lesson 04: the ledge world, pictures, the KL-limit widget and the stored runs that only "TRPO" needs.

Everything that computes is a pure function; what draws comes in pairs `draw_…(figure) -> update(data)`.
"""

from dataclasses import dataclass
from functools import lru_cache

import gymnasium
import numpy as np
import torch
from matplotlib.colors import BoundaryNorm

from rlcourse.agents.training import train
from rlcourse.agents.trpo import TRPO
from rlcourse.classroom.controls import slider
from rlcourse.classroom.figures import PALETTE
from rlcourse.classroom.lesson_01 import angle_between  # noqa: F401, the lesson asks for it here
from rlcourse.equations.trust_region import kkt_step
from rlcourse.worlds.tabular import TabularMDP, exact_policy_gradient, fisher_matrix

NUM_CELLS, FALL = 12, 100.0

# ------------------------------------------------------------------------------------------------------------- the ledge


@lru_cache(maxsize=1)
def ledge():
    """Twelve cells in a row that end at an edge; the nearer to it, the better the pay, and one step too many is a fall.

    Every step pays x = cell / 11. Action 1 walks towards the edge, action 0 away from it (in cell 0 one stays). Action 1 in
    cell 11 is the fall: it costs 100, and one starts again in cell 0. Episodes never end; gamma = 0.95.
    """
    transition, reward = torch.zeros(NUM_CELLS, 2, NUM_CELLS), torch.zeros(NUM_CELLS, 2, dtype=torch.float64)
    for cell in range(NUM_CELLS):
        transition[cell, 0, max(cell - 1, 0)] = 1.0
        transition[cell, 1, (cell + 1) % NUM_CELLS] = 1.0
        reward[cell] = cell / (NUM_CELLS - 1)
    reward[-1, 1] -= FALL
    return TabularMDP(transition, reward, gamma=0.95, start=torch.eye(NUM_CELLS)[0])


def ledge_policy(theta):
    """pi(1 | cell) = sigmoid(theta_0 + theta_1 x), x = 1 in cell 0 … -1 at the edge. theta (..., 2) -> (..., 12, 2).

    theta_0 is the general courage, theta_1 the extra caution at the edge.
    """
    x = torch.linspace(1, -1, NUM_CELLS, dtype=torch.float64)
    logit = theta[..., :1] + theta[..., 1:] * x
    return torch.stack([torch.sigmoid(-logit), torch.sigmoid(logit)], -1)


def reward_per_step(theta):
    """(1 - gamma) J of the ledge: the return as an average reward per step, so that numbers are easy to read."""
    return (1 - ledge().gamma) * ledge().expected_return(ledge_policy(theta))


def gradient_step(theta, length):
    """A step of this length along the gradient of J. theta (2,)."""
    gradient = exact_policy_gradient(ledge(), ledge_policy, theta)
    return length * gradient / gradient.norm()


HEIGHTS = (-1.0, -0.5, 0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6)  # of the map's flat steps: they make small pictures
COURAGE, CAUTION = (-4.0, 4.0), (-2.0, 6.0)  # what the map shows of theta_0 and theta_1


@lru_cache(maxsize=1)
def landscape(points=301):
    """(1 - gamma) J on a grid of the map, (points, points), rows along theta_1."""
    courage, caution = (torch.linspace(*ends, points, dtype=torch.float64) for ends in (COURAGE, CAUTION))
    return reward_per_step(torch.stack(torch.meshgrid(courage, caution, indexing="xy"), -1)).numpy()


def draw_landscape(ax, colorbar=True):
    """The map of J in flat steps; below -1, deep in the abyss, it is all one colour."""
    extent, flat = COURAGE + CAUTION, BoundaryNorm(HEIGHTS, 256, extend="min")
    image = ax.imshow(landscape(), origin="lower", extent=extent, aspect="auto", norm=flat, interpolation="nearest", zorder=1)
    ax.set(
        xlabel="θ₀, courage",
        ylabel="θ₁, caution at the edge",
        xlim=COURAGE,
        ylim=CAUTION,
        xticks=range(-4, 5, 2),
        yticks=range(-2, 7, 2),
    )
    ax.grid(False)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, label="reward per step, (1−γ) J")


# ------------------------------------------------------------------------------- surrogate and bounds, exact and for many pairs


def surrogate_return(mdp, new_pi, old_pi):
    """L(new) = J(old) + sum_s d_old(s) sum_a new(a | s) A_old(s, a): the performance difference with the *old* visits.

    Args:
        new_pi, old_pi: (..., S, A) policy tables.
    Returns:
        (...).
    Reference: Schulman et al. (2015a), eq. 3.
    """
    gain = torch.einsum("...s,...sa,...sa->...", mdp.discounted_state_distribution(old_pi), new_pi, mdp.advantages(old_pi))
    return mdp.expected_return(old_pi) + gain


def kl_per_state(old_pi, new_pi):
    """D_KL(old(. | s) || new(. | s)), (..., S)."""
    return (old_pi * (old_pi / new_pi).log()).sum(-1)


def total_variation(old_pi, new_pi):
    """Half the summed difference of probabilities per state, (..., S)."""
    return 0.5 * (new_pi - old_pi).abs().sum(-1)


def lower_bounds(mdp, new_pi, old_pi):
    """Two lower bounds on J(new) that use the old policy's visits only.

        Schulman: L - C max_s KL(s),                             C = 4 gamma max|A| / (1 - gamma)^2
        Achiam:   L - sqrt(2) gamma eps / (1 - gamma)^2 sqrt(E_{s~d} KL(s)),    eps = max_s |sum_a new(a | s) A(s, a)|

    with d normalised. The world must never end (d sums to 1).
    Returns:
        two tensors (...).
    Reference: Schulman et al. (2015a), Theorem 1; Achiam et al. (2017), Corollary 3 (average KL).
    """
    gamma, advantage, kl = mdp.gamma, mdp.advantages(old_pi), kl_per_state(old_pi, new_pi)
    surrogate = surrogate_return(mdp, new_pi, old_pi)
    visits = mdp.discounted_state_distribution(old_pi, normalised=True)
    schulman = 4 * gamma * advantage.abs().amax((-2, -1)) / (1 - gamma) ** 2 * kl.amax(-1)
    epsilon = (new_pi * advantage).sum(-1).abs().amax(-1)
    achiam = 2**0.5 * gamma * epsilon / (1 - gamma) ** 2 * (visits * kl).sum(-1).sqrt()
    return surrogate - schulman, surrogate - achiam


# -------------------------------------------------------------------------------------------------------------- natural steps


def natural_gradient(mdp, policy, theta):
    """F^+ grad J, both with the same visits; by pseudo-inverse, because a softmax table has directions that do nothing."""
    gradient = exact_policy_gradient(mdp, policy, theta).flatten()
    return (torch.linalg.pinv(fisher_matrix(mdp, policy, theta), hermitian=True, rtol=1e-12) @ gradient).reshape(theta.shape)


def combination_lock(length=6, num_actions=6, gamma=0.9):
    """A row of states: action 0 goes one further, every other action back to the start; only action 0 in the last state pays, 1.

    Args:
        length: number of states. num_actions: A; by chance the end is reached with probability A^-length.
    """
    transition, reward = torch.zeros(length, num_actions, length), torch.zeros(length, num_actions)
    transition[:, 1:, 0] = 1.0
    for state in range(length):
        transition[state, 0, min(state + 1, length - 1)] = 1.0
    reward[-1, 0] = 1.0
    return TabularMDP(transition, reward, gamma, torch.eye(length)[0])


def book_conjugate_gradient(matrix, gradient, iterations=10, *, tolerance=1e-10, guard=0.0):
    """Conjugate gradient as widely copied: ends when the *squared* residual is below `tolerance`; `guard` is added to pFp."""
    x, r, p = np.zeros_like(gradient), gradient.copy(), gradient.copy()
    for _ in range(iterations):
        product = matrix @ p
        alpha = (r @ r) / (p @ product + guard)
        x, new = x + alpha * p, r - alpha * product
        if new @ new < tolerance:
            break
        p, r = new + (new @ new) / (r @ r) * p, new
    return x


def spd_matrix(rng, eigenvalues):
    """A symmetric matrix with these eigenvalues and random eigenvectors."""
    q, _ = np.linalg.qr(rng.standard_normal((len(eigenvalues), len(eigenvalues))))
    return (q * eigenvalues) @ q.T


# ------------------------------------------------------------------------------------------------------ the KL-limit widget

START = (-1.5, 2.0)  # where the widget's step begins: still timid
LIMITS = np.geomspace(1e-4, 1.0, 60)
DIRECTIONS = np.linspace(0, 2 * np.pi, 145)


@dataclass(frozen=True)
class Limit:
    """One KL limit in the map: steps, contours and the curves over all limits."""

    max_kl: float
    kl_contour: np.ndarray  # (145, 2) points of true KL = max_kl
    ellipse: np.ndarray  # (145, 2) points of quadratic KL = max_kl
    gradient: np.ndarray  # (2,) end of the plain gradient step
    natural: np.ndarray  # (2,) end of the natural-gradient step
    candidates: np.ndarray  # (k, 2) tried by the line search, the last one accepted
    accepted: int  # its index, -1 if none
    kl: float  # true KL of the full natural step
    gain: float  # of the full natural step, reward per step
    accepted_gain: float
    kls: np.ndarray  # (60,) true KL of the full step at each of LIMITS, and its gains, predicted and true
    predicted_gains: np.ndarray  # g.x
    surrogate_gains: np.ndarray  # (1 - gamma)(L - J)
    gains: np.ndarray  # (1 - gamma) times the change of J


@lru_cache(maxsize=1)
def _at_start():
    """Old table, normalised visits, gradient and Fisher matrix (both per step, times 1 - gamma) at START."""
    theta, mdp = torch.tensor(START, dtype=torch.float64), ledge()
    old = ledge_policy(theta)
    scale = 1 - mdp.gamma
    gradient, fisher = exact_policy_gradient(mdp, ledge_policy, theta), fisher_matrix(mdp, ledge_policy, theta)
    return theta, old, mdp.discounted_state_distribution(old, normalised=True), scale * gradient, scale * fisher


def mean_kl_from_start(theta):
    """Mean of D_KL(old || new) over the old policy's visits, theta (..., 2) -> (...)."""
    _, old, visits, _, _ = _at_start()
    return (visits * kl_per_state(old, ledge_policy(theta))).sum(-1)


def surrogate_gain_from_start(theta):
    """(1 - gamma)(L - J_old), the mean of ratio times advantage, which a batch estimates. theta (..., 2) -> (...)."""
    _, old, _, _, _ = _at_start()
    return (1 - ledge().gamma) * (surrogate_return(ledge(), ledge_policy(theta), old) - ledge().expected_return(old))


@lru_cache(maxsize=1)
def _unit_ellipse():
    """Steps x with x.Fx / 2 = 1, (145, 2)."""
    size, axes = torch.linalg.eigh(_at_start()[4])
    circle = torch.tensor(np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], -1))
    return circle * (2 / size).sqrt() @ axes.mT


@lru_cache(maxsize=64)
def kl_contour(max_kl):
    """Points where the true mean KL is max_kl, one per direction: KL is convex in theta here, so it grows along each ray."""
    theta = _at_start()[0]
    rays = _unit_ellipse()
    low, high = torch.zeros(len(rays), dtype=torch.float64), torch.full((len(rays),), 10 * max_kl**0.5 + 3, dtype=torch.float64)
    for _ in range(30):
        middle = (low + high) / 2
        inside = mean_kl_from_start(theta + middle[:, None] * rays) < max_kl
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    return (theta + low[:, None] * rays).numpy()


def kl_limit(max_kl, damping, cg_iters):
    """The natural-gradient step from START under a KL limit, and what becomes of it.

    Args:
        max_kl: the limit, nats. damping: c in F + cI. cg_iters: 1 or 2 iterations (there are two parameters).
    Returns:
        Limit. The plain gradient step ends on the same ellipse.
    """
    theta, _, _, gradient, fisher = _at_start()
    damped = fisher + damping * torch.eye(2, dtype=torch.float64)
    step = kkt_step(gradient, lambda v: v @ damped, max_kl, cg_iters=cg_iters, rel_tol=1e-12)
    plain = (2 * max_kl / (gradient @ fisher @ gradient)).sqrt() * gradient
    ellipse = theta + max_kl**0.5 * _unit_ellipse()

    fractions = 0.5 ** torch.arange(10, dtype=torch.float64)
    tried = theta + fractions[:, None] * step.step
    good = (mean_kl_from_start(tried) <= max_kl) & (surrogate_gain_from_start(tried) > 0)
    accepted = int(good.nonzero()[0]) if good.any() else -1
    tried = tried[: accepted + 1] if accepted >= 0 else tried

    everywhere = theta + torch.tensor(np.sqrt(LIMITS / max_kl))[:, None] * step.step
    start = reward_per_step(theta)
    gains = (reward_per_step(torch.cat([everywhere, tried, (theta + step.step)[None]])) - start).numpy()
    return Limit(
        max_kl=max_kl,
        kl_contour=kl_contour(max_kl),
        ellipse=ellipse.numpy(),
        gradient=(theta + plain).numpy(),
        natural=(theta + step.step).numpy(),
        candidates=tried.numpy(),
        accepted=accepted,
        kl=float(mean_kl_from_start(theta + step.step)),
        gain=float(gains[-1]),
        accepted_gain=float(gains[-2]) if accepted >= 0 else 0.0,
        kls=mean_kl_from_start(everywhere).numpy(),
        predicted_gains=((everywhere - theta) @ gradient).numpy(),
        surrogate_gains=surrogate_gain_from_start(everywhere).numpy(),
        gains=gains[: len(LIMITS)],
    )


LEAST = -0.6  # lower end of the gains in the picture; a fall goes far below


def draw_limit_map(fig_or_ax):
    """The map with the step, for its own figure or for given axes."""
    ax = fig_or_ax if hasattr(fig_or_ax, "plot") else fig_or_ax.subplots()
    draw_landscape(ax, colorbar=False)
    (contour,) = ax.plot([], [], color=PALETTE["black"], linestyle="-", linewidth=2.2, label="true KL = δ")
    (ellipse,) = ax.plot([], [], color=PALETTE["black"], linestyle=":", linewidth=2.2, label="quadratic KL = δ")
    (plain,) = ax.plot([], [], color=PALETTE["vermillion"], linestyle="--", marker="s", markevery=[1], label="gradient step")
    (natural,) = ax.plot(
        [], [], color=PALETTE["sky"], linestyle="-", marker="^", markevery=[1], markersize=9, label="natural step"
    )
    (refused,) = ax.plot([], [], "X", color="white", markeredgecolor="black", markersize=9, linestyle="none", label="refused")
    (taken,) = ax.plot(
        [], [], "*", color=PALETTE["yellow"], markeredgecolor="black", markersize=17, linestyle="none", label="accepted"
    )
    ax.plot(*START, "o", color="white", markeredgecolor="black", markersize=8)

    def update(limit):
        contour.set_data(*limit.kl_contour.T)
        ellipse.set_data(*limit.ellipse.T)
        for line, end in ((plain, limit.gradient), (natural, limit.natural)):
            line.set_data(*np.array([START, end]).T)
        tried = limit.candidates[:-1] if limit.accepted >= 0 else limit.candidates
        refused.set_data(*tried.T)
        taken.set_data(*(limit.candidates[-1:].T if limit.accepted >= 0 else ([], [])))

    return update


def draw_limit(fig):
    """The map on the left; on the right true against predicted, over all limits."""
    axes = fig.subplot_mosaic([["map", "kl"], ["map", "gain"]], width_ratios=(1.25, 1))
    update_map = draw_limit_map(axes["map"])
    axes["map"].legend(loc="upper left", fontsize=11.5, handlelength=1.6, labelspacing=0.25, borderpad=0.3)
    lines = {}
    for name, label in (("kl", "KL of the full step"), ("gain", "gain, reward per step")):
        ax = axes[name]
        (lines[name, "predicted"],) = ax.plot(LIMITS, LIMITS, color=PALETTE["black"], linestyle=":", label="model")
        (lines[name, "true"],) = ax.plot([], [], color=PALETTE["blue"], linestyle="-", label="true")
        (lines[name, "here"],) = ax.plot([], [], "^", color=PALETTE["sky"], markeredgecolor="black", markersize=11)
        ax.set(xscale="log", ylabel=label, xlim=(LIMITS[0], LIMITS[-1]))
        lines[name, "limit"] = ax.axvline(1.0, color=PALETTE["vermillion"], linestyle="--", linewidth=1.2)
    axes["kl"].set(yscale="log", ylim=(5e-5, 5), yticks=[1e-4, 1e-3, 1e-2, 1e-1, 1])
    axes["kl"].tick_params(labelbottom=False)
    (surrogate,) = axes["gain"].plot([], [], color=PALETTE["green"], linestyle="-.", label="surrogate L")
    axes["gain"].set(ylim=(LEAST, -LEAST), xlabel="limit δ, nats", yticks=[-0.5, -0.25, 0, 0.25, 0.5])
    axes["kl"].legend(loc="upper left")
    axes["gain"].legend(loc="lower left")

    def update(limit):
        update_map(limit)
        lines["kl", "true"].set_data(LIMITS, limit.kls)
        lines["kl", "here"].set_data([limit.max_kl], [limit.kl])
        lines["gain", "predicted"].set_data(LIMITS, limit.predicted_gains)
        lines["gain", "true"].set_data(LIMITS, limit.gains)
        surrogate.set_data(LIMITS, limit.surrogate_gains)
        lines["gain", "here"].set_data([limit.max_kl], [max(limit.gain, 0.97 * LEAST)])
        for name in ("kl", "gain"):
            lines[name, "limit"].set_xdata([limit.max_kl] * 2)

    return update


def describe_limit(limit, max_kl, damping, cg_iters):
    outcome = f"the line search takes candidate {limit.accepted}" if limit.accepted >= 0 else "the line search refuses them all"
    return (f"the full step has true KL {limit.kl:.2g} and changes the reward per step by {limit.gain:+.2g}; {outcome}, "
            f"which changes it by {limit.accepted_gain:+.2g}.")  # fmt: skip


LIMIT = dict(
    title="A step under a KL limit",
    compute=kl_limit, draw=draw_limit, describe=describe_limit, size=(9.0, 4.6),
    controls={
        "max_kl": slider(1e-4, 1.0, value=0.03, log=True, label="KL limit δ"),
        "damping": slider(0.0, 0.2, 0.005, value=0.0, label="damping c"),
        "cg_iters": slider(1, 2, 1, value=2, label="CG iterations"),
    },
)  # fmt: skip
LIMIT_STILL = LIMIT | {"draw": draw_limit_map, "size": (9.0, 3.6)}

# ------------------------------------------------------------------------------------------------------- stored results

# The settings of a widely read study note ("Hands-on RL", chapter 11), as far as our TRPO can take them.
BOOK_CARTPOLE = TRPO(num_envs=1, num_steps=200, hidden_sizes=(128,), gamma=0.98, gae_lambda=0.95, critic_learning_rate=0.01,
                     update_epochs=1, num_minibatches=1, max_kl=5e-4, cg_iters=10, cg_damping=0.0, backtrack_coeff=0.5,
                     max_backtracks=15)  # fmt: skip
BOOK_PENDULUM = TRPO(num_envs=1, num_steps=200, hidden_sizes=(128,), gamma=0.9, gae_lambda=0.9, critic_learning_rate=0.005,
                     update_epochs=1, num_minibatches=1, max_kl=5e-5, cg_iters=10, cg_damping=0.1, backtrack_coeff=0.5,
                     max_backtracks=15)  # fmt: skip


def book_cartpole():
    """CartPole-v0 is CartPole-v1 with a time limit of 200 steps."""
    return gymnasium.make("CartPole-v1", max_episode_steps=200)


def book_pendulum():
    """Pendulum-v1 with rewards (r + 8) / 8."""
    return gymnasium.wrappers.TransformReward(gymnasium.make("Pendulum-v1"), lambda reward: (reward + 8) / 8)


def book_runs():
    """The study note's settings on both tasks, 5 seeds each: every twentieth update of {env}_{name}, (5, points).

    Over all updates, (5,): {env}_largest_kl, and {env}_refused, how often the line search took nothing.

    CartPole: 500 updates of 200 steps, the most that its 500 episodes can have. Pendulum: 2,000 updates of one episode.
    """
    arrays = {}
    for name, settings, env, updates in (
        ("cartpole", BOOK_CARTPOLE, book_cartpole, 500),
        ("pendulum", BOOK_PENDULUM, book_pendulum, 2000),
    ):
        result = train(settings, env, total_steps=200 * updates, seeds=range(5), progress=False)
        for field in ("env_steps", "mean_return"):
            arrays[f"{name}_{field}"] = result.history[field][:, 19::20].astype(np.float32)
        arrays[f"{name}_largest_kl"] = result.history["kl"].max(1)
        arrays[f"{name}_refused"] = (result.history["accepted"] < 0).sum(1)
    # the wrapped return is (R + 8 · 200) / 8
    arrays["pendulum_mean_return"] = 8 * arrays["pendulum_mean_return"] - 1600
    return arrays


DATA = {"04_book_settings.npz": book_runs}
