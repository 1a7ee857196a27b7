"""Lesson 02: a pole small enough to be solved, a loan, a trap, a stored sweep; pictures and widgets of "Vanilla policy gradient".

What computes is a pure function with a fixed seed; what draws comes in pairs `draw_…(figure) -> update(data)`.
"""

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.special import expit
from torch import nn

from rlcourse import VPG, train
from rlcourse.classroom.controls import choice, slider, toggle
from rlcourse.classroom.data import data_path
from rlcourse.classroom.figures import LINESTYLES, MARKERS, PALETTE, new_figure, show, style
from rlcourse.classroom.lesson_01 import angle_between
from rlcourse.worlds.tabular import (
    TabularMDP,
    dropped_discount_gradient,
    exact_policy_gradient,
    gradient_estimates,
    sample_trajectories,
    score_table,
    softmax_policy,
)

DPI = 110  # the lesson has many pictures: 990 pixels wide, its file stays below 1.5 MB
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "handlelength": 1.6, "columnspacing": 1.0}  # of a legend


def _figure(*args, **kwargs):
    fig, axes = new_figure(*args, **kwargs)
    fig.set_dpi(DPI)
    return fig, axes


def stills(settings, *, draw, size=(9.0, 3.2), **widget):
    """`three_settings` with the smaller pictures of this lesson: a widget's left panel at three settings, side by side."""
    fig, _ = new_figure(size=size)
    fig.clear()
    fig.set_dpi(DPI)
    controls, sentences = widget["controls"], []
    for part, setting in zip(fig.subfigures(1, len(settings)), settings, strict=True):
        values = {name: setting.get(name, control.value) for name, control in controls.items()}
        data = widget["compute"](**values)
        with style():
            draw(part)(data)
            name = ", ".join(f"{controls[key].label} = {controls[key].text(values[key])}" for key in setting)
            part.suptitle(name)
        sentences.append(f"{name}: {widget['describe'](data, **values)}")
    return show(fig, alt=f"{widget['title']}, three settings. {' '.join(sentences)}", text=f"[{widget['title']}, three settings]")


# ------------------------------------------------------------------------------------------------------------------ worlds


def tiny_pole(gamma=1.0):
    """A pole that can be solved: 9 tilts, pushes to the left (action 0) or right (1), reward 1 per step, the end when it falls.

    A push moves the tilt by one in its direction with probability 0.8, else by one in the other. A pole at tilt x (−4 … 4) also
    falls one further outward with probability 0.06 |x|. Beyond ±4 it lies on the floor. A clock ends any step with probability
    0.02, so that the best policy's episodes last 42 steps and a coin's 14.
    """
    half, push, gravity, clock = 4, 0.8, 0.06, 0.02
    transition = torch.zeros(2 * half + 1, 2, 2 * half + 1, dtype=torch.float64)
    for x in range(-half, half + 1):
        for action, direction in ((0, -1), (1, 1)):
            for move, likely in ((direction, push), (-direction, 1 - push)):
                for fall, chance in ((int(np.sign(x)), gravity * abs(x)), (0, 1 - gravity * abs(x))):
                    if abs(x + move + fall) <= half:
                        transition[x + half, action, x + move + fall + half] += (1 - clock) * likely * chance
    return TabularMDP(transition, torch.ones(2 * half + 1, 2), gamma, start=torch.eye(2 * half + 1)[half])


def loan(size=10.0):
    """Two steps. First borrow (action 1) or not; then work (action 1 earns 1) or not, and a debt is paid back.

    States: 0 the bank, 1 work without debt, 2 work in debt. The loan cancels: the return of an episode is what work earned.
    """
    transition = torch.zeros(3, 2, 3)
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    reward = torch.tensor([[0.0, size], [0.0, 1.0], [-size, 1.0 - size]])
    return TabularMDP(transition, reward, gamma=1.0, start=torch.tensor([1.0, 0.0, 0.0]))


# ----------------------------------------------------------------------------------------------------- estimates of a gradient


@dataclass(frozen=True)
class Quality:
    """How good estimates (num_batches, D) of a gradient are, whatever their scale.

    noise: trace(Cov) / ‖mean‖²; angle: from the mean to the exact gradient, degrees; by_chance: what that angle would be by
    chance alone if it were 0; uphill: share of the estimates along which J rises.
    """

    noise: float
    angle: float
    by_chance: float
    uphill: float

    def __str__(self):
        return f"noise {self.noise:5.2f}   angle {self.angle:4.1f}° (chance {self.by_chance:.1f}°)   uphill {self.uphill:.0%}"


def quality(estimates, exact):
    """Quality of `estimates` (num_batches, D) of the direction of `exact` (D,).

    The squared length of the measured mean is trace(Cov)/num_batches too large on average, which is taken off.
    """
    estimates, exact = np.asarray(estimates), np.asarray(exact).ravel()
    mean, trace, count = estimates.mean(0), estimates.var(0, ddof=1).sum(), len(estimates)
    length = mean @ mean - trace / count
    by_chance = np.degrees(np.arctan(np.sqrt(trace / count / length)))
    return Quality(trace / length, angle_between(mean, exact), float(by_chance), float((estimates @ exact > 0).mean()))


def normalize_per_batch(weight, batch):
    """Weights shifted and scaled to mean 0 and standard deviation 1 within each batch; `batch` numbers the batch of each row."""
    count = np.bincount(batch)
    mean = np.bincount(batch, weight) / count
    std = np.sqrt(np.bincount(batch, (weight - mean[batch]) ** 2) / count)
    return (weight - mean[batch]) / std[batch]


def batch_gradients(played, weight, score, num_batches):
    """One gradient estimate per batch of equally many episodes, (num_batches, D): the mean of Σ_t weight_t ∇log π_t."""
    return gradient_estimates(played, weight, score).reshape(num_batches, -1, score[0, 0].numel()).mean(1)


@lru_cache(maxsize=1)
def first_look(num_batches=250, batch_size=10):
    """Two estimates of the same gradient from the same play of the tiny pole, a coin for a policy.

    Returns:
        (estimates with the whole return, estimates with the normalised advantage, exact gradient), (num_batches, 18) and (18,).
    """
    theta, world = torch.zeros(9, 2, dtype=torch.float64), tiny_pole(gamma=0.9)
    played = sample_trajectories(world, softmax_policy(theta), num_batches * batch_size, np.random.default_rng(0))
    value = world.values(softmax_policy(theta)).numpy()
    score = score_table(softmax_policy, theta)
    advantage = normalize_per_batch(played.returns_to_go(0.9) - value[played.state], played.episode // batch_size)
    raw = batch_gradients(played, played.returns(1.0)[played.episode], score, num_batches)
    exact = exact_policy_gradient(tiny_pole(), softmax_policy, theta)
    return raw, batch_gradients(played, advantage, score, num_batches), exact.numpy().ravel()


def clouds_figure(clouds, exact):
    """Each cloud {title: estimates}: component along the exact gradient, and along the direction across in which it is widest.

    The clouds are scaled so that their means have length 1 along the exact gradient: lengths of different weights do not compare.
    """
    fig, axes = _figure(1, len(clouds), size=(9.0, 4.1), sharex=True, sharey=True)
    along = exact / np.linalg.norm(exact)
    for ax, (title, estimates) in zip(axes, clouds.items(), strict=True):
        scaled = estimates / (estimates @ along).mean()
        rest = scaled - np.outer(scaled @ along, along)
        across = np.linalg.svd(rest - rest.mean(0), full_matrices=False)[2][0]
        x, y = scaled @ along, rest @ across * np.sign(across[np.abs(across).argmax()])
        up = x > 0
        ax.axvspan(-9, 0, color="#EEEEEE")
        ax.plot(x[up], y[up], "o", color=PALETTE["blue"], markersize=3.5, alpha=0.7, linestyle="none")
        ax.plot(x[~up], y[~up], "x", color=PALETTE["vermillion"], markersize=5, linestyle="none")
        ax.annotate("", (1, 0), (0, 0), arrowprops={"arrowstyle": "-|>", "linewidth": 3, "color": PALETTE["black"]})
        ax.set_title(f"{title}: {up.mean():.0%} uphill")
        ax.set(xlim=(-7, 9), ylim=(-8, 8), xlabel="along the exact gradient (its length = 1)")
    axes[0].set_ylabel("across")
    return fig


def ladder_figure(ladder):
    """Bars of the noise (log scale) and of the angle, one per rung {name: Quality}."""
    fig, (left, right) = _figure(1, 2, size=(9.0, 3.9), sharey=True, width_ratios=(1.25, 1))
    names = list(ladder)[::-1]
    left.barh(names, [ladder[name].noise for name in names], color=PALETTE["blue"], height=0.6)
    right.barh(names, [ladder[name].angle for name in names], color=PALETTE["orange"], height=0.6)
    right.barh(names, [ladder[name].by_chance for name in names], facecolor="none", edgecolor=PALETTE["black"], hatch="//",
               height=0.6, label="explained by chance")  # fmt: skip
    left.set(xscale="log", xlim=(1, 60), xlabel="noise: trace(Cov) / ‖mean‖²")
    left.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    left.minorticks_off()
    right.set(xlabel="angle of the mean, degrees", xlim=(0, 12))
    right.legend(**ABOVE)
    return fig


def cut_gradient(gamma, theta, num_steps, last_value):
    """Mean direction of VPG on the tiny pole when pieces of `num_steps` steps are cut out of an endless stream of episodes.

        Σ_s d(s)/H Σ_a ∇π(a|s) (1/T) Σ_{k=1…T} Q_k(s, a),   Q_k = r + γ P V_{k−1},  V_k(s) = Σ_a π Q_k,  V_0 = last_value

    A step of the piece has k = 1 … T steps left, each equally often; k steps on, the return is cut and `last_value` put in.

    Args:
        theta: (9, 2) parameters of the softmax policy. num_steps: T ≥ 1. last_value: (9,) tensor.
    Returns:
        (18,) array.
    """
    world, pi = tiny_pole(gamma), softmax_policy(theta)
    visits = world.state_visits(pi)
    value, total = last_value, torch.zeros_like(pi)
    for _ in range(num_steps):
        q = world.reward + gamma * world.transition @ value
        value, total = (pi * q).sum(-1), total + q / num_steps
    field = torch.autograd.functional.jacobian(softmax_policy, theta)
    return torch.einsum("s,sa,sa...->...", visits / visits.sum(), total, field).numpy().ravel()


def field_without_cut(gamma, theta):
    """The same without any cut: what usual code follows, discounted inside, undiscounted outside. (18,) array."""
    visits = tiny_pole(gamma).state_visits(softmax_policy(theta)).sum()
    return (dropped_discount_gradient(tiny_pole(gamma), softmax_policy, theta) / visits).numpy().ravel()


# -------------------------------------------------------------------------------------------------------- the loss is not a loss


def exact_ascent(num_updates=150, step_size=0.5):
    """Exact gradient ascent on the tiny pole: expected return J, and the value of the loss, before each update.

        L = −Σ_s d(s)/H Σ_a π(a|s) A(s,a) log π(a|s)        its gradient (π outside the logarithm held) is −∇J / H

    Returns:
        (J, L), arrays (num_updates + 1,).
    """
    world, theta, path = tiny_pole(), torch.zeros(9, 2, dtype=torch.float64), []
    for _ in range(num_updates + 1):
        pi = softmax_policy(theta)
        visits = world.state_visits(pi)
        loss = -((visits / visits.sum())[:, None] * pi * world.advantages(pi) * pi.log()).sum()
        path.append((float(world.expected_return(pi)), float(loss)))
        theta = theta + step_size * exact_policy_gradient(world, softmax_policy, theta) / visits.sum()
    return tuple(np.array(path).T)


def ascent_figure(value, loss):
    """Left the expected return, right the value of the loss, against the updates; a dotted line where the loss is lowest."""
    fig, (left, right) = _figure(1, 2)
    left.plot(value, color=PALETTE["blue"], linestyle="-")
    right.plot(loss, color=PALETTE["vermillion"], linestyle="--")
    right.axvline(loss.argmin(), color=PALETTE["black"], linestyle=":", linewidth=1.5)
    left.set(xlabel="updates", ylabel="expected return J")
    right.set(xlabel="updates", ylabel="value of the loss")
    return fig


# --------------------------------------------------------------------------------------------------------------------- the trap

SURE, PRIZE, WIN = 1.0, 10.0, 0.2  # a sure coin; a lottery ticket that wins PRIZE with probability WIN, 2 on average
LOCKED = 0.05  # a run whose probability of the lottery is below this has locked in, above 1 − this has found it
TRAP_RUNS, TRAP_UPDATES, LARGEST_TRAP_BATCH = 100, 500, 16


def trap_runs(step_size, baseline, batch_size=1, num_runs=TRAP_RUNS, num_updates=TRAP_UPDATES, seed=0):
    """Policy gradient on two arms, a sure coin and a lottery, many runs at once, from p = 1/2.

        p = 1 / (1 + e^{−x}),     x ← x + α · mean over the batch of (1[lottery] − p)(r − b)

    Args:
        step_size: α, a number or an array (K,).
        baseline: True: b = p · 2 + (1 − p) · 1, the exact value of the state. False: b = 0.
    Returns:
        (num_updates + 1, num_runs) probabilities of the lottery, or (num_updates + 1, K, num_runs).
    """
    rng = np.random.default_rng(seed)
    alpha = np.asarray(step_size, float)[..., None]
    x = np.zeros(np.broadcast_shapes(alpha.shape, (num_runs,)))
    path = np.empty((num_updates + 1, *x.shape))
    path[0] = 0.5
    for t in range(num_updates):
        p = path[t]
        chance, luck = rng.random((2, batch_size) + (1,) * (x.ndim - 1) + (num_runs,))
        lottery = chance < p
        reward = np.where(lottery, PRIZE * (luck < WIN), SURE)
        b = p * PRIZE * WIN + (1 - p) * SURE if baseline else 0.0
        x = x + alpha * ((lottery - p) * (reward - b)).mean(0)
        path[t + 1] = expit(x)
    return path


def trap_law(step_size, baseline, num_updates=TRAP_UPDATES, half_width=60.0, cell=0.01):
    """Probability that a run of `trap_runs` with batches of one is locked in after `num_updates`, without sampling.

    x is a Markov chain: three things can happen in a step (sure; lottery lost; lottery won), and where each leads is known. So
    the distribution of x is carried along on a grid; a move that ends between two grid points is shared between them so that
    its mean is right.
    """
    x = np.arange(-half_width, half_width + cell / 2, cell)
    p = expit(x)
    b = p * PRIZE * WIN + (1 - p) * SURE if baseline else np.zeros_like(x)
    outcomes = [(1 - p, -p, SURE), (p * (1 - WIN), 1 - p, 0.0), (p * WIN, 1 - p, PRIZE)]
    entries, rows = [], []
    for probability, score, reward in outcomes:
        place = np.clip((x + step_size * score * (reward - b) + half_width) / cell, 0, len(x) - 1.000001)
        low = place.astype(int)
        rows += [low, low + 1]
        entries += [probability * (1 - (place - low)), probability * (place - low)]
    columns = np.tile(np.arange(len(x)), len(rows))
    move = csr_array((np.concatenate(entries), (np.concatenate(rows), columns)), shape=(len(x), len(x)))
    law = (np.abs(x) < cell / 2).astype(float)
    for _ in range(num_updates):
        law = move @ law
    return float(law[p < LOCKED].sum())


def trap_figure(step_sizes, measured, laws):
    """Share of runs that are locked in, against the step size: measured (points with two standard errors) and exact (lines).

    Args:
        measured: {name: (K,) shares of TRAP_RUNS runs}. laws: {name: (K,) probabilities}.
    """
    fig, ax = _figure(size=(9.0, 3.9))
    for (name, share), marker, dashes, colour in zip(measured.items(), MARKERS, LINESTYLES, PALETTE.values(), strict=False):
        error = 2 * np.sqrt(laws[name] * (1 - laws[name]) / TRAP_RUNS)
        ax.plot(step_sizes, laws[name], color=colour, linestyle=dashes, label=f"{name}: exact")
        ax.errorbar(step_sizes, share, error, fmt=marker, color=colour, capsize=3, label=f"{name}: {TRAP_RUNS} runs")
    ax.set(xscale="log", xlabel="step size α", ylabel="share of runs locked in", ylim=(-0.03, 1))
    ax.legend(loc="upper left")
    return fig


@dataclass(frozen=True)
class Trap:
    """Where the runs stand: probability of the lottery (num_updates + 1, runs)."""

    p: np.ndarray

    @property
    def shares(self):
        """Shares of the runs (found, undecided, locked) after each update, (3, num_updates + 1)."""
        found, locked = (self.p > 1 - LOCKED).mean(1), (self.p < LOCKED).mean(1)
        return np.array([found, 1 - found - locked, locked])


def trap(step_size, baseline, batch_size):
    """Widget: TRAP_RUNS runs of TRAP_UPDATES updates. Returns a Trap."""
    return Trap(trap_runs(step_size, baseline, batch_size))


def draw_trap_paths(fig, shown=10):
    """Left panel of the widget: probability of the lottery in the first runs."""
    return _trap_paths(fig.subplots(), shown)


def _trap_paths(ax, shown=10):
    updates = np.arange(TRAP_UPDATES + 1)
    lines = [ax.plot(updates, 0.0 * updates, color=PALETTE["blue"], linestyle="-", linewidth=0.9, alpha=0.6)[0]
             for _ in range(shown)]  # fmt: skip
    ax.axhspan(-0.02, LOCKED, color=PALETTE["vermillion"], alpha=0.25, linewidth=0)
    ax.set(xlabel="updates", ylabel="probability of the lottery", ylim=(-0.02, 1.02), xlim=(1, TRAP_UPDATES), xscale="log")

    def update(data):
        for line, path in zip(lines, data.p.T, strict=False):
            line.set_ydata(path)

    return update


def draw_trap(fig):
    left, right = fig.subplots(1, 2)
    update_paths = _trap_paths(left)
    updates = np.arange(TRAP_UPDATES + 1)
    looks = zip(("found it", "undecided", "locked in"), ("green", "black", "vermillion"), ("-", ":", "--"), strict=True)
    curves = [right.plot(updates, 0.0 * updates, color=PALETTE[c], linestyle=d, linewidth=2.5, label=name)[0]
              for name, c, d in looks]  # fmt: skip
    right.set(xlabel="updates", ylabel=f"share of {TRAP_RUNS} runs", ylim=(-0.02, 1.02), xlim=(1, TRAP_UPDATES), xscale="log")
    right.legend(ncols=3, **ABOVE)

    def update(data):
        update_paths(data)
        for curve, share in zip(curves, data.shares, strict=True):
            curve.set_ydata(share)

    return update


def describe_trap(data, step_size, baseline, batch_size):
    found, undecided, locked = (round(TRAP_RUNS * share) for share in data.shares[:, -1])
    return (f"after {TRAP_UPDATES} updates {locked} of {TRAP_RUNS} runs are locked into the sure coin, {found} have found the "
            f"lottery, {undecided} are undecided.")  # fmt: skip


TRAP = dict(
    title="The trap",
    compute=trap, draw=draw_trap, describe=describe_trap,
    controls={
        "step_size": slider(0.1, 10.0, value=1.0, log=True, label="step size α"),
        "baseline": toggle(value=True, label="subtract the exact V"),
        "batch_size": choice([1, 2, 4, 8, LARGEST_TRAP_BATCH], value=1, label="plays per update"),
    },
)  # fmt: skip

# --------------------------------------------------------------------------------------------------- networks, and the ladder


def as_network(parameters, sizes):
    """A run's flat parameters (P,) as plain PyTorch layers, Linear and Tanh in turn, float64; a copy.

    Args:
        sizes: widths, input first. The flat order is that of agents.runs: per layer the weights (in, out), then the biases.
    """
    layers, start = [], 0
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        layer = nn.Linear(inputs, outputs, dtype=torch.float64)
        weight, bias = parameters[start : start + (inputs + 1) * outputs].detach().split([inputs * outputs, outputs])
        with torch.no_grad():
            layer.weight.copy_(weight.view(inputs, outputs).T)
            layer.bias.copy_(bias)
        layers += [layer, nn.Tanh()]
        start += (inputs + 1) * outputs
    if start != len(parameters):
        raise ValueError(f"layers {sizes} have {start} parameters, but {len(parameters)} were given")
    return nn.Sequential(*layers[:-1])


def as_parameters(*networks):
    """The way back from `as_network`: the parameters of all networks as one flat tensor."""
    layers = [layer for network in networks for layer in network if isinstance(layer, nn.Linear)]
    return torch.cat([part.detach().flatten() for layer in layers for part in (layer.weight.T, layer.bias)])


def earned_before(rollout):
    """Rewards of the same episode earlier in the rollout, (T, R, N): what return-to-go forgets of the total return."""
    ended = rollout.terminated | rollout.truncated
    earned = np.zeros_like(rollout.reward)
    for t in range(1, len(earned)):
        earned[t] = np.where(ended[t - 1], 0, earned[t - 1] + rollout.reward[t - 1])
    return earned


def ladder_curves_figure(trained):
    """{rung: TrainingResult}: left the medians over the seeds, right every seed at the end."""
    fig, (left, right) = _figure(1, 2, size=(9.0, 4.2), sharey=True, width_ratios=(1.3, 1))
    looks = zip(trained.items(), PALETTE.values(), LINESTYLES, MARKERS, strict=False)
    for row, ((name, result), colour, dashes, marker) in enumerate(looks):
        returns, steps = result.history["mean_return"], result.history["env_steps"][0] / 1000
        some = np.isfinite(returns).any(0)
        left.plot(steps[some], np.nanmedian(returns[:, some], 0), color=colour, linestyle=dashes, label=f"{row + 1} {name}")
        right.plot(np.full(len(returns), row), returns[:, -1], marker, color=colour, linestyle="none", alpha=0.8)
        right.plot([row - 0.3, row + 0.3], [np.median(returns[:, -1])] * 2, color=colour, linestyle="-", linewidth=3)
    left.set(xlabel="1000 steps per run", ylabel="mean return", ylim=(0, None))
    left.legend(loc="upper left")
    right.set_xticks(range(len(trained)), [str(number + 1) for number in range(len(trained))])
    right.set(xlabel="rung", title="each seed at the end")
    return fig


def reuse_figure(once, often, name):
    """Return and KL of two histories: one policy step per batch, and several (`name`)."""
    fig, (left, right) = _figure(1, 2)
    for history, label, colour, dashes in ((once, "1 step per batch", "blue", "-"), (often, name, "vermillion", "--")):
        count = often["kl"].shape[1]
        steps = history["env_steps"][0, :count] / 1000
        for ax, key in ((left, "mean_return"), (right, "kl")):
            _band(ax, steps, np.maximum(history[key][:, :count], 1e-7), colour, dashes, label)
    left.set(xlabel="1000 steps per run", ylabel="mean return", ylim=(0, None))
    right.set(xlabel="1000 steps per run", ylabel="KL of one update, nats", yscale="log")
    left.legend(loc="upper left")
    return fig


# ------------------------------------------------------------------------------------------------------- reading a training run


def smoothed(values, points=50):
    """Means of consecutive stretches of the last axis, at most `points` of them; NaN is left out."""
    stretches = np.array_split(np.ma.masked_invalid(values), min(points, values.shape[-1]), axis=-1)
    return np.ma.stack([stretch.mean(-1) for stretch in stretches], -1).filled(np.nan)


def _band(ax, x, values, colour, dashes, label=None):
    """Median over the seeds as a line, lowest to highest seed as a band."""
    some = np.isfinite(values).any(0)
    low, middle, high = np.nanquantile(values[:, some], (0, 0.5, 1), axis=0)
    ax.fill_between(x[some], low, high, color=PALETTE[colour], alpha=0.2, linewidth=0)
    ax.plot(x[some], middle, color=PALETTE[colour], linestyle=dashes, label=label)


def diagnostics_figure(result):
    """Six panels of a training, median and range of the seeds, averaged over stretches of updates.

    Return, entropy, KL of an update, explained variance, gradient norm, value of the loss.
    """
    panels = {
        "mean_return": "return",
        "entropy": "entropy, nats",
        "kl": "KL of one update, nats",
        "explained_variance": "explained variance, cut at −1",
        "grad_norm": "gradient norm",
        "policy_loss": "value of the loss",
    }
    fig, axes = _figure(2, 3, size=(9.0, 5.2), sharex=True)
    steps = smoothed(result.history["env_steps"][0]) / 1000
    for ax, (name, label) in zip(axes.flat, panels.items(), strict=True):
        values = result.history[name]
        _band(ax, steps, smoothed(values.clip(-1) if name == "explained_variance" else values), "blue", "-")
        ax.set_title(label)
    axes[0, 2].set_yscale("log")
    axes[1, 0].set_ylim(-1.05, 1.05)
    for ax in axes[1]:
        ax.set_xlabel("1000 steps per run")
    return fig


# ------------------------------------------------------------------------------------------------- stored: a sweep on CartPole

SWEEP_FILE = "02_vpg_sweep.npz"
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
ENVS = (4, 16, 64)  # of 64 steps each: batches of 256, 1024 and 4096 steps
SWEEP_STEPS, SWEEP_SEEDS, SWEEP_POINTS = 80_000, 8, 40
SMALL = {"num_steps": 64, "hidden_sizes": (32, 32), "critic_learning_rate": 0.01}  # small networks are quick


class ReturnToGo(VPG):
    """VPG whose policy step weighs log π by the return-to-go itself; the critic only bootstraps where a batch cuts an episode."""

    def advantages(self, rollout):
        _, return_to_go = super().advantages(rollout)
        return return_to_go, return_to_go


def measure_sweep():
    """Learning curves of VPG on CartPole-v1 for every rate and batch size, baseline on or off, normalisation on or off.

    Returns:
        dict: `returns` (baseline off/on, normalise off/on, batch size, rate, seed, point) uint16 in tenths, the mean return of
        the last 100 episodes; `steps` (point,); `rates`; `batch_sizes`.
    """
    steps = np.linspace(SWEEP_STEPS / SWEEP_POINTS, SWEEP_STEPS, SWEEP_POINTS)
    returns = np.zeros((2, 2, len(ENVS), len(RATES), SWEEP_SEEDS, SWEEP_POINTS), dtype=np.uint16)
    for baseline, normalize, batch in np.ndindex(returns.shape[:3]):
        algorithm = (VPG if baseline else ReturnToGo)(
            **SMALL, num_envs=ENVS[batch], learning_rate=RATES, normalize=bool(normalize)
        )
        result = train(algorithm, "CartPole-v1", total_steps=SWEEP_STEPS, seeds=range(SWEEP_SEEDS), progress=False)
        curves = [np.interp(steps, x[np.isfinite(y)], y[np.isfinite(y)])
                  for x, y in zip(result.history["env_steps"], result.history["mean_return"], strict=True)]  # fmt: skip
        returns[baseline, normalize, batch] = np.rint(10 * np.reshape(curves, returns.shape[3:]))
    batch_sizes = 64 * np.array(ENVS)
    return {"returns": returns, "steps": steps.astype(np.int32), "rates": np.array(RATES), "batch_sizes": batch_sizes}


@lru_cache(maxsize=1)
def load_sweep():
    """(returns as in `measure_sweep` but in units of return, steps, facts: the command, date and versions that made them)."""
    file = _load(SWEEP_FILE)
    return file["returns"] / 10, file["steps"], file["facts"]


def _load(name):
    with np.load(data_path(name), allow_pickle=False) as file:
        return dict(file) | {"facts": json.loads(str(file["facts"]))}


@dataclass(frozen=True)
class Sweep:
    """One setting of the stored sweep, and its neighbours in the learning rate."""

    curves: np.ndarray  # (seeds, points) mean return
    final: np.ndarray  # (2, rates, seeds): baseline off and on, after the last step, same batch size and normalisation
    rate: int
    baseline: bool


def sweep(rate, batch, baseline, normalize):
    """Widget: look up a setting of the stored sweep. rate, batch: positions in RATES and ENVS."""
    returns, *_ = load_sweep()
    both = returns[:, int(normalize), batch]  # baseline off, on
    return Sweep(both[int(baseline), rate], both[..., -1], rate, bool(baseline))


def draw_sweep(fig):
    left, right = fig.subplots(1, 2)
    update_curves = _sweep_curves(left)
    rates = np.array(RATES)
    medians = [right.plot(rates, 0 * rates, marker=m, color=PALETTE[c], linestyle=d, label=f"baseline {name}")[0]
               for name, m, c, d in (("off", "s", "orange", "--"), ("on", "o", "blue", "-"))]  # fmt: skip
    bands = [right.vlines(rates, 0, 0, color=PALETTE[c], linewidth=4, alpha=0.35) for c in ("orange", "blue")]
    (here,) = right.plot([], [], "o", color="none", markeredgecolor=PALETTE["vermillion"], markersize=17, markeredgewidth=2.5)
    right.set(xscale="log", xlabel="learning rate", ylabel=f"return after {SWEEP_STEPS // 1000}k steps", ylim=(0, 510))
    right.legend(ncols=2, **ABOVE)

    def update(data):
        update_curves(data)
        for line, band, final in zip(medians, bands, data.final, strict=True):
            line.set_ydata(np.median(final, -1))
            low, high = np.quantile(final, (0.25, 0.75), axis=-1)
            band.set_segments([[(x, a), (x, b)] for x, a, b in zip(rates, low, high, strict=True)])
        here.set_data([rates[data.rate]], [np.median(data.final[int(data.baseline), data.rate])])

    return update


def draw_sweep_curves(fig):
    """Left panel of the widget alone, without its legend."""
    ax = fig.subplots()
    update = _sweep_curves(ax)
    ax.get_legend().remove()
    return update


def _sweep_curves(ax):
    steps = np.linspace(SWEEP_STEPS / SWEEP_POINTS, SWEEP_STEPS, SWEEP_POINTS) / 1000
    seeds = [ax.plot(steps, 0 * steps, color=PALETTE["blue"], linestyle="-", linewidth=1, alpha=0.55)[0]
             for _ in range(SWEEP_SEEDS)]  # fmt: skip
    (median,) = ax.plot(steps, 0 * steps, color=PALETTE["vermillion"], linestyle="-", linewidth=2.6, label="median")
    ax.set(xlabel="1000 steps per run", ylabel="mean return", ylim=(0, 510), xlim=(0, SWEEP_STEPS / 1000))
    ax.legend(**ABOVE)

    def update(data):
        for line, curve in zip(seeds, data.curves, strict=True):
            line.set_ydata(curve)
        median.set_ydata(np.median(data.curves, 0))

    return update


def describe_sweep(data, rate, batch, baseline, normalize):
    end = data.curves[:, -1]
    updates = -(-SWEEP_STEPS // (64 * ENVS[batch]))
    return (f"after {updates} updates the median of {SWEEP_SEEDS} seeds is {np.median(end):.0f}, the worst {end.min():.0f}, "
            f"the best {end.max():.0f}.")  # fmt: skip


SWEEP = dict(
    title="VPG on CartPole-v1, stored runs",
    compute=sweep, draw=draw_sweep, describe=describe_sweep,
    controls={
        "rate": choice({f"{rate:g}": i for i, rate in enumerate(RATES)}, value=2, label="learning rate"),
        "batch": choice({f"{64 * n} steps": i for i, n in enumerate(ENVS)}, value=1, label="batch"),
        "baseline": toggle(value=True, label="subtract the critic's V"),
        "normalize": toggle(value=False, label="normalise the advantages"),
    },
)  # fmt: skip

# ------------------------------------------------------------------------------------------ stored: the ladder with many seeds

LADDER_FILE = "02_vpg_ladder.npz"
LADDER_STEPS, LADDER_SEEDS = 40_000, 60
LADDER = dict(SMALL, num_envs=16, learning_rate=0.01)


class TotalReturn(ReturnToGo):
    """VPG whose policy step weighs log π by all that the episode pays inside the batch, before the action and after it."""

    def advantages(self, rollout):
        return_to_go, _ = super().advantages(rollout)
        return return_to_go + earned_before(rollout), return_to_go


def measure_ladder():
    """The five rungs on CartPole-v1: mean return of the last 100 episodes after the last step.

    Returns:
        dict: `final` (rung, seed) uint16 in tenths; `rungs`, their names.
    """
    rungs = {
        "total return": TotalReturn(**LADDER, gamma=1.0, normalize=False),
        "return-to-go": ReturnToGo(**LADDER, gamma=1.0, normalize=False),
        "discount": ReturnToGo(**LADDER, gamma=0.99, normalize=False),
        "value baseline": VPG(**LADDER, gamma=0.99, normalize=False),
        "normalised": VPG(**LADDER, gamma=0.99),
    }
    runs = {"total_steps": LADDER_STEPS, "seeds": range(LADDER_SEEDS), "progress": False}
    final = [train(rung, "CartPole-v1", **runs).history["mean_return"][:, -1] for rung in rungs.values()]
    return {"final": np.rint(10 * np.array(final)).astype(np.uint16), "rungs": np.array(list(rungs))}


def load_ladder():
    """({rung: final returns (seeds,)}, facts)."""
    file = _load(LADDER_FILE)
    return dict(zip(file["rungs"].tolist(), file["final"] / 10, strict=True)), file["facts"]


DATA = {SWEEP_FILE: measure_sweep, LADDER_FILE: measure_ladder}
