"""Lesson 06: bandits with continuous actions, the widget of what reaches the environment, and the stored runs.

Everything that computes is a pure function; what draws comes in pairs `draw_…(figure) -> update(data)`.
"""

from dataclasses import dataclass, replace
from math import log10

import numpy as np
import torch
from gymnasium.spaces import Box
from scipy import stats

from rlcourse.agents.ppo import PPO
from rlcourse.agents.recommended import recommended
from rlcourse.agents.runs import Runs
from rlcourse.agents.training import train
from rlcourse.classroom.controls import choice, slider
from rlcourse.classroom.figures import PALETTE
from rlcourse.equations.distributions import DiagonalGaussian, SquashedGaussian
from rlcourse.equations.objectives import value_loss

# ------------------------------------------------------------------------------------------------------ one action, one Gaussian


def standard_normal_points(count=4000, width=10.0):
    """Points z and weights w, both (count,), with Σ w f(z) ≈ E[f(Z)], Z ~ N(0, 1): the midpoint rule, which forgives a jump in f.

    With an even count no point is 0, so that a jump at the mean lies between two points on every machine.
    """
    z = ((torch.arange(count, dtype=torch.float64) + 0.5) / count * 2 - 1) * width
    weight = torch.exp(-z.square() / 2)
    return z, weight / weight.sum()


def expected_reward(reward, mean, std):
    """J(μ, σ) = E[r(a)], a ~ N(μ, σ²), by quadrature. reward: tensor (…) -> (…); mean, std: numbers or tensors (…) -> (…)."""
    z, weight = standard_normal_points()
    mean, std = (torch.as_tensor(x, dtype=torch.float64)[..., None] for x in (mean, std))
    return (weight * reward(mean + std * z)).sum(-1)


def scores(action, mean, std):
    """(∂/∂μ, ∂/∂log σ) of log N(a; μ, σ²):   (a − μ)/σ²,   (a − μ)²/σ² − 1.   Arrays or tensors that broadcast."""
    z = (action - mean) / std
    return z / std, z**2 - 1


def ascend(objective, theta, rate=0.05, steps=2000):
    """Plain gradient ascent on a function of a float64 vector; the gradient by autograd. Returns the end, (n,)."""
    theta = torch.as_tensor(theta, dtype=torch.float64).clone()
    for _ in range(steps):
        leaf = theta.requires_grad_()
        (gradient,) = torch.autograd.grad(objective(leaf), leaf)
        theta = (leaf + rate * gradient).detach()
    return theta


def two_peaks(action, height=1.0):
    """A reward with a peak of 1 at −1 and one of `height` at +1, both 0.2 wide."""
    return torch.exp(-0.5 * ((action + 1) / 0.2) ** 2) + height * torch.exp(-0.5 * ((action - 1) / 0.2) ** 2)


def cliff(action):
    """A skewed reward: it rises gently to 1 at a = 1 and is −1 beyond."""
    return torch.where(action <= 1, 1 - 0.3 * (1 - action).abs(), -1.0)


# ------------------------------------------------------------------------- the widget: what reaches the environment

LOW, HIGH = -2.0, 2.0  # Pendulum's torque, Nm
U = np.linspace(-5, 5, 401)
INSIDE = np.linspace(LOW, HIGH, 203)[1:-1]


@dataclass(frozen=True)
class Reaches:
    """One Gaussian, one drawn number u, and what becomes of both on the way to the environment."""

    mean: float
    std: float
    drawn: float  # u
    density: np.ndarray  # (401,) of u, on U
    drawn_density: float
    log_prob: float  # of u
    score_mean: float
    score_log_std: float
    bounds: str
    action: float  # what the environment gets for u
    place: np.ndarray  # (n,) actions at which its density is given
    action_density: np.ndarray  # (n,)
    at_bounds: tuple  # probability that the environment gets exactly the low, the high bound
    height: float  # of the action in the picture: its density, or the probability of the bound it is at


def reaches(mean, std, drawn, bounds):
    """What the environment receives when the policy is N(mean, std²) and draws u = drawn.

    Args:
        bounds: "none": u itself; "clip": u clipped to LOW … HIGH; "tanh": u squashed into LOW … HIGH.
    Returns:
        Reaches.
    """
    one = torch.tensor([[mean]], dtype=torch.float64), torch.tensor([[np.log(std)]], dtype=torch.float64)
    gaussian, squashed = DiagonalGaussian(*one), SquashedGaussian(*one, LOW, HIGH)
    normal = stats.norm(mean, std)
    score_mean, score_log_std = scores(drawn, mean, std)
    u = torch.tensor([[drawn]], dtype=torch.float64)
    place, density, at_bounds, action, height = U, normal.pdf(U), (0.0, 0.0), drawn, normal.pdf(drawn)
    if bounds == "clip":
        place, density, at_bounds = INSIDE, normal.pdf(INSIDE), (normal.cdf(LOW), normal.sf(HIGH))
        action = float(np.clip(drawn, LOW, HIGH))
        height = at_bounds[0] if drawn <= LOW else at_bounds[1] if drawn >= HIGH else height
    elif bounds == "tanh":
        many = SquashedGaussian(*(x.expand(len(INSIDE), 1) for x in one), LOW, HIGH)
        place, density = INSIDE, many.log_prob(torch.from_numpy(INSIDE)[:, None]).exp().numpy()
        action = squashed.squash(u).item()
        height = squashed.log_prob(pre_tanh=u).exp().item()
    return Reaches(
        mean=mean,
        std=std,
        drawn=drawn,
        density=normal.pdf(U),
        drawn_density=float(normal.pdf(drawn)),
        log_prob=gaussian.log_prob(u).item(),
        score_mean=float(score_mean),
        score_log_std=float(score_log_std),
        bounds=bounds,
        action=action,
        place=place,
        action_density=density,
        at_bounds=at_bounds,
        height=float(height),
    )


TOP = 1.7  # of the densities' axes: a normal density with σ = 0.25 reaches 1.6


def draw_reaches(fig):
    """Left: the density of u, the drawn u, and the two scores. Right: what the environment gets."""
    axes = fig.subplot_mosaic([["u", "env"], ["score", "env"]], height_ratios=(2.4, 1))
    left, right, bars = axes["u"], axes["env"], axes["score"]
    for ax, label in ((left, "u, what the policy draws"), (right, "a, what the environment gets (Nm)")):
        ax.set(xlim=(-5, 5), ylim=(0, TOP), xlabel=label, xticks=range(-4, 5, 2))
        for bound in (LOW, HIGH):
            ax.axvline(bound, color=PALETTE["black"], linestyle=":", linewidth=1.4)
    left.set_ylabel("density (per Nm)")
    (density,) = left.plot([], [], color=PALETTE["blue"], linestyle="-")
    (drawn,) = left.plot([], [], "o", color=PALETTE["vermillion"], markeredgecolor="black", markersize=10)
    (to_mean,) = left.plot([], [], color=PALETTE["vermillion"], linestyle="-", linewidth=3, label="moves μ")
    (mean_head,) = left.plot([], [], color=PALETTE["vermillion"], marker=">", markersize=12, linestyle="none")
    (widen,) = left.plot([], [], color=PALETTE["green"], linestyle="--", linewidth=3, label="moves σ")
    (widen_head,) = left.plot([], [], color=PALETTE["green"], marker=">", markersize=12, linestyle="none")
    left.legend(loc="upper left", fontsize=11.5, handlelength=1.8)
    (arrives,) = right.plot([], [], color=PALETTE["blue"], linestyle="-", label="density")
    masses = right.bar([LOW, HIGH], [0, 0], width=0.3, color=PALETTE["orange"], edgecolor="black", label="probability of a bound")
    (action,) = right.plot([], [], "o", color=PALETTE["vermillion"], markeredgecolor="black", markersize=10, label="this action")
    right.legend(loc="upper left", fontsize=11.5)
    score_bars = bars.barh([1, 0], [0, 0], color=[PALETTE["vermillion"], PALETTE["green"]], edgecolor="black")
    bars.set_xscale("symlog", linthresh=1)
    bars.set(xlim=(-1000, 1000), xticks=[-100, -10, -1, 0, 1, 10, 100], yticks=[0, 1], xlabel="score ∂ log π / ∂ …")
    bars.set_yticklabels(["log σ", "μ"])
    bars.set_xticklabels(["−100", "−10", "−1", "0", "1", "10", "100"])

    def update(data):
        density.set_data(U, data.density)
        drawn.set_data([data.drawn], [data.drawn_density])
        _arrow(to_mean, mean_head, data.mean, data.drawn, 0.16)
        length = 1.2 * np.tanh(data.score_log_std)
        _arrow(widen, widen_head, data.mean + data.std, data.mean + data.std + length, 0.34)
        arrives.set_data(data.place, data.action_density)
        for bar, height in zip(masses, data.at_bounds, strict=True):
            bar.set_height(height)
        action.set_data([data.action], [min(data.height, 0.97 * TOP)])
        for bar, width in zip(score_bars, (data.score_mean, data.score_log_std), strict=True):
            bar.set_width(width)

    return update


def _arrow(line, head, start, end, height):
    line.set_data([start, end], [height, height])
    head.set_data([end], [height])
    head.set_marker(">" if end >= start else "<")


def describe_reaches(data, mean, std, drawn, bounds):
    share = {
        "none": "nothing is changed on the way",
        "clip": f"{sum(data.at_bounds):.0%} of all actions arrive exactly at a bound",
        "tanh": "no action arrives exactly at a bound",
    }[bounds]
    return (f"log π(u) = {data.log_prob:.2f}, score {data.score_mean:.2f} in μ and {data.score_log_std:.2f} in log σ; "
            f"u = {drawn:.1f} reaches the environment as a = {data.action:.2f}, and {share}.")  # fmt: skip


REACHES = dict(
    title="What reaches the environment",
    compute=reaches, draw=draw_reaches, describe=describe_reaches, size=(9.0, 4.6),
    controls={
        "mean": slider(-3.0, 3.0, 0.1, value=0.5, label="mean μ"),
        "std": slider(0.25, 3.0, log10(4) / 6, value=1.0, log=True, label="standard deviation σ"),
        "drawn": slider(-4.5, 4.5, 0.1, value=2.5, label="drawn number u"),
        "bounds": choice(["none", "clip", "tanh"], value="clip", label="bounds"),
    },
)  # fmt: skip


def draw_reaches_still(ax_or_fig):
    """The right panel alone, for three settings side by side."""
    ax = ax_or_fig if hasattr(ax_or_fig, "plot") else ax_or_fig.subplots()
    (before,) = ax.plot([], [], color=PALETTE["black"], linestyle=":", label="u")
    (after,) = ax.plot([], [], color=PALETTE["blue"], linestyle="-", label="a")
    masses = ax.bar([LOW, HIGH], [0, 0], width=0.3, color=PALETTE["orange"], edgecolor="black", label="bound")
    ax.set(xlim=(-5, 5), ylim=(0, 1.2), xlabel="u, a (Nm)", ylabel="density, probability", xticks=range(-4, 5, 2))
    ax.legend(loc="upper center", fontsize=11.5, handlelength=1.2, framealpha=0)

    def update(data):
        before.set_data(U, data.density)
        after.set_data(data.place, data.action_density)
        for bar, height in zip(masses, data.at_bounds, strict=True):
            bar.set_height(height)

    return update


REACHES_STILL = REACHES | {
    "draw": draw_reaches_still,
    "size": (9.0, 3.6),
    "controls": REACHES["controls"] | {"std": replace(REACHES["controls"]["std"], value=1.5)},
}

# ------------------------------------------------------------------------------------------------------- stored results

SEEDS, STEPS = 10, 100_000

# Settings that are widely used for CartPole: those of CleanRL's ppo.py.
CARTPOLE = PPO(num_envs=4, num_steps=128, update_epochs=4, num_minibatches=4, learning_rate=2.5e-4, anneal=True,
               gamma=0.99, gae_lambda=0.95, entropy_coef=0.01, max_grad_norm=0.5)  # fmt: skip
PENDULUM = PPO(num_envs=8, num_steps=200, num_minibatches=6, update_epochs=10, learning_rate=0.002, gamma=0.98, gae_lambda=0.9,
               reward_scale=0.1, initial_log_std=0.5, max_grad_norm=2.0)  # fmt: skip
# One thing changed at a time, then all three; first each as it is.
FROM_CARTPOLE = {
    "cartpole": {},
    "cartpole, reward x 0.1": {"reward_scale": 0.1},
    "cartpole, gamma 0.9": {"gamma": 0.9},
    "cartpole, learning rate x 8": {"learning_rate": 0.002},
    "cartpole, all three": {"reward_scale": 0.1, "gamma": 0.9, "learning_rate": 0.002},
}
FROM_PENDULUM = {
    "pendulum": {},
    "pendulum, gamma 0.99": {"gamma": 0.99},
    "pendulum, gamma 0.9": {"gamma": 0.9},
    "pendulum, reward x 1": {"reward_scale": 1.0},
    "pendulum, learning rate 0.00025": {"learning_rate": 2.5e-4},
}
# These fix shapes or are one for all runs, so each is a training of its own.
ALONE = {
    "pendulum, cartpole's batch": {"num_envs": 4, "num_steps": 128, "update_epochs": 4, "num_minibatches": 4},
    "pendulum, tanh": {"bounds": "tanh"},
    "pendulum, sigma by state": {"std": "state"},
    "pendulum, normalised": {"normalize_obs": True, "normalize_reward": True, "reward_scale": 1.0},
}
POINTS = 25  # of a stored curve


def settings_runs():
    """PPO on Pendulum from CartPole's settings to Pendulum's, and one step back at a time: `names`, and for all of them
    `env_steps` (names, 25) and `mean_return` (names, 10 seeds, 25). `solves_cartpole`: CartPole's settings on CartPole, (10, 25).
    """
    curves = {}
    for base, changes in ((CARTPOLE, FROM_CARTPOLE), (PENDULUM, FROM_PENDULUM)):
        curves |= dict(zip(changes, _curves(_all_of(base, changes)), strict=True))
    for name, change in ALONE.items():
        (curves[name],) = _curves(replace(PENDULUM, **change))
    (on_cartpole,) = _curves(CARTPOLE, "CartPole-v1")
    steps, returns = zip(*curves.values(), strict=True)
    return {
        "names": np.array(list(curves)),
        "env_steps": np.array(steps),
        "mean_return": np.array(returns),
        "solves_cartpole": on_cartpole[1],
    }


def critic_runs():
    """What the critic explains where settings differ in numbers only: `names`, `explained_variance` (names, 5 seeds, 25)."""
    rows = []
    for base, changes in ((CARTPOLE, FROM_CARTPOLE), (PENDULUM, FROM_PENDULUM)):
        rows += [explained for _, explained in _curves(_all_of(base, changes), seeds=5, name="explained_variance")]
    return {"names": np.array([*FROM_CARTPOLE, *FROM_PENDULUM]), "explained_variance": np.array(rows)}


def _all_of(base, changes):
    """One algorithm with a list for each field that the changes touch: as many settings as there are changes."""
    fields = {field for change in changes.values() for field in change}
    lists = {field: [change.get(field, getattr(base, field)) for change in changes.values()] for field in fields}
    return replace(base, **lists)


def steps_to_arrive(targets, learning_rates, limit=3000):
    """Adam steps after which a fresh critic of the lesson has come 90 % of the way to a constant target.

    Args:
        targets, learning_rates: (n,) arrays; all n critics start from the same weights. limit: steps that are tried.
    Returns:
        (n,) float array; NaN where it took more than `limit`.
    """
    rng, n = np.random.default_rng(0), len(targets)
    agent = Runs(3, Box(LOW, HIGH, (1,)), seeds=[0] * n, dtype=torch.float32, **PENDULUM.network())
    angle, speed = rng.uniform(-np.pi, np.pi, 32), rng.uniform(-8, 8, 32)
    obs = torch.tensor(np.stack([np.cos(angle), np.sin(angle), speed], -1), dtype=torch.float32).expand(n, 32, 3)
    rates, goal = (torch.tensor(np.asarray(x), dtype=torch.float32) for x in (learning_rates, targets))
    goal, arrived = goal[:, None].expand(n, 32), np.full(n, np.nan)
    agent.begin_update()
    for step in range(limit):
        value = agent.value(obs)
        there = (value / goal).mean(-1).detach().numpy() >= 0.9
        arrived = np.where(np.isnan(arrived) & there, step, arrived)
        agent.step(value_loss(value, goal), rates, "critic")
    return arrived


def algorithms_runs():
    """A2C and TRPO on Pendulum, 10 seeds: {name}_env_steps (25,), {name}_mean_return (10, 25). PPO is in the other file."""
    arrays = {}
    for name, steps in (("A2C", 5 * STEPS), ("TRPO", 2 * STEPS)):
        ((arrays[f"{name}_env_steps"], arrays[f"{name}_mean_return"]),) = _curves(recommended(name, "Pendulum-v1"), steps=steps)
    return arrays


def _curves(settings, env="Pendulum-v1", steps=STEPS, seeds=SEEDS, name="mean_return"):
    """One (env_steps (25,), history[name] (seeds, 25)) per setting."""
    history = train(settings, env, total_steps=steps, seeds=range(seeds), progress=False).history
    columns = np.linspace(0, history[name].shape[1] - 1, POINTS + 1).round().astype(int)[1:]
    rows = history[name][:, columns].astype(np.float32)
    return [(history["env_steps"][0, columns].astype(np.int32), part) for part in np.split(rows, len(rows) // seeds)]


DATA = {
    "06_pendulum_settings.npz": settings_runs,
    "06_pendulum_algorithms.npz": algorithms_runs,
    "06_pendulum_critic.npz": critic_runs,
}
