"""Lesson 05: a real batch under the clip, its widget, verdicts of the ablation, and the stored runs of "PPO-clip".

Everything that computes is a pure function; what draws comes in pairs `draw_…(figure) -> update(data)`.
"""

import copy
import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import torch

from rlcourse.agents.ppo import PPO, PenaltyPPO
from rlcourse.agents.recommended import recommended
from rlcourse.agents.rollout import Episodes, collect
from rlcourse.agents.training import iterate, train
from rlcourse.classroom.controls import choice, slider
from rlcourse.classroom.figures import PALETTE
from rlcourse.equations.objectives import clip_fraction, clipped_surrogate_loss, kl_estimates
from rlcourse.experiments.statistics import bootstrap_interval, interquartile_mean
from rlcourse.worlds.make_env import make_env

# The settings around which the ablation turns: those of the lesson, kept here because the stored numbers belong to them.
CARTPOLE = PPO(num_envs=8, num_steps=128, num_minibatches=16, update_epochs=2, learning_rate=0.003, gamma=0.98,
               gae_lambda=0.95, clip_epsilon=0.3)  # fmt: skip
PENDULUM = PPO(num_envs=8, num_steps=200, num_minibatches=6, update_epochs=10, learning_rate=0.002, gamma=0.98,
               gae_lambda=0.9, clip_epsilon=0.2, reward_scale=0.1, initial_log_std=0.5, max_grad_norm=2.0)  # fmt: skip
NO_CLIP = 1e6  # an ε that no ratio reaches

# ------------------------------------------------------------------------------------------------ one batch, many epochs

EPOCHS = 10


@dataclass(frozen=True)
class Epochs:
    """One batch after 1 … 10 epochs of PPO; rows are epochs."""

    log_prob: torch.Tensor  # (10, B) of the actions taken, under the policy after that epoch
    old_log_prob: torch.Tensor  # (B,)
    advantage: torch.Tensor  # (B,) normalised over the batch
    kl: np.ndarray  # (10,) true mean KL(old || new)

    @property
    def ratio(self):
        """(10, B)."""
        return (self.log_prob - self.old_log_prob).exp().numpy()

    def estimates(self):
        """Means over the batch of k1, k2, k3, (3, 10)."""
        return np.array([k.mean(-1).numpy() for k in kl_estimates(self.log_prob, self.old_log_prob.expand_as(self.log_prob))])

    def clip_fractions(self, clip_epsilon):
        """(10,)."""
        return clip_fraction(self.log_prob, self.old_log_prob.expand_as(self.log_prob), clip_epsilon).numpy()


ONE_BATCH = replace(CARTPOLE, normalize="batch", num_minibatches=8)  # per batch, so that each sample keeps its advantage


@lru_cache(maxsize=4)
def _agent_and_batch(updates, dtype, seed):
    size = ONE_BATCH.num_envs * ONE_BATCH.num_steps
    *_, state = iterate(ONE_BATCH, "CartPole-v1", total_steps=updates * size, seeds=[seed], dtype=dtype)
    world = make_env("CartPole-v1", ONE_BATCH.num_envs, seed=seed)
    rollout, _ = collect(state.agent, world, world.reset(), ONE_BATCH.num_steps, Episodes(1, ONE_BATCH.num_envs))
    world.close()
    return state.agent, rollout


def agent_and_batch(updates=15, dtype=torch.float32, seed=0):
    """(agent, rollout): a copy of an agent after a few updates on CartPole, and 1,024 steps that it has not learned from."""
    agent, rollout = _agent_and_batch(updates, dtype, seed)
    return copy.deepcopy(agent), rollout


class Watched(PPO):
    """PPO that keeps, after each epoch, the log-probabilities of the batch and its true KL. It never stops early."""

    def update(self, agent, rollout):
        agent.memory["seen"] = []
        return super().update(agent, rollout)

    @torch.no_grad()
    def after_epoch(self, old, agent, batch):
        new = agent.policy(batch.obs)
        seen = new.log_prob(batch.action)[0], batch.log_prob[0], batch.advantage[0], old.kl(new).mean().item()
        agent.memory["seen"].append(seen)


@lru_cache(maxsize=32)
def epochs_on_one_batch(clip_epsilon, seed=0):
    """Ten epochs of PPO on the same batch, always from the same agent (Adam's moments included): Epochs."""
    agent, rollout = agent_and_batch(seed=seed)
    agent.begin_update()
    watched = Watched(**vars(ONE_BATCH) | {"clip_epsilon": clip_epsilon, "update_epochs": EPOCHS})
    watched.update(agent, rollout)
    log_prob, old_log_prob, advantage, kl = zip(*agent.memory["seen"], strict=True)
    return Epochs(torch.stack(log_prob), old_log_prob[0], advantage[0], np.array(kl))


# ---------------------------------------------------------------------------------------------------------- the ε widget

RATIOS = np.linspace(0.0, 2.0, 401)
EDGES = np.linspace(0.0, 2.0, 41)  # bins of the histogram; beyond 2 everything is counted in the last one


@dataclass(frozen=True)
class Clip:
    """What the widget shows at one position."""

    clip_epsilon: float
    sign: int
    epoch: int
    objective: np.ndarray  # (401,) min(ρA, clip(ρ) A) for A = sign
    gradient: np.ndarray  # (401,) its derivative in ρ, by automatic differentiation
    flat: tuple  # the interval of ρ without gradient
    counts: np.ndarray  # (40,) samples with that sign of Â, by ratio
    ratio: np.ndarray  # of these samples
    kl: np.ndarray  # (10,)
    clip_fraction: np.ndarray  # (10,) of the whole batch


def clip_view(clip_epsilon, sign, epoch):
    """Objective and gradient against ρ, and a real batch after `epoch` epochs with that ε: Clip."""
    log_ratio = torch.tensor(np.log(RATIOS.clip(1e-9)), dtype=torch.float64)[:, None].requires_grad_()
    constant = torch.ones_like(log_ratio)
    objective = -clipped_surrogate_loss(log_ratio, 0 * constant, sign * constant, clip_epsilon)  # one batch of one per ρ
    (slope,) = torch.autograd.grad(objective.sum(), log_ratio)
    batch = epochs_on_one_batch(clip_epsilon)
    ratio = batch.ratio[epoch - 1][(batch.advantage * sign > 0).numpy()]
    return Clip(
        clip_epsilon=clip_epsilon,
        sign=sign,
        epoch=epoch,
        objective=objective.detach().numpy(),
        gradient=slope[:, 0].numpy() / RATIOS.clip(1e-9),  # d/dρ = (1/ρ) d/d(log ρ)
        flat=(1 + clip_epsilon, 2.0) if sign > 0 else (0.0, 1 - clip_epsilon),
        counts=np.histogram(ratio.clip(0, EDGES[-1] - 1e-6), EDGES)[0],
        ratio=ratio,
        kl=batch.kl,
        clip_fraction=batch.clip_fractions(clip_epsilon),
    )


def draw_clip(fig):
    """Objective above gradient on the left; histogram of ratios above KL and clip fraction on the right."""
    axes = fig.subplot_mosaic([["objective", "histogram"], ["gradient", "kl"]], width_ratios=(1, 1.25))
    left = _draw_objective(axes["objective"], axes["gradient"])
    histogram = _draw_histogram(axes["histogram"])
    axes["histogram"].set_xlabel("ratio ρ, real batch (2: and above)")
    curves = _draw_progress(axes["kl"])

    def update(view):
        left(view)
        histogram(view)
        curves(view)

    return update


def _zone(ax, label=None):
    """A shaded zone of ρ, to be moved."""
    return ax.axvspan(0, 1, facecolor="#DDDDDD", edgecolor="#999999", hatch="//", linewidth=0, zorder=1, label=label)


def _move(zone, flat):
    zone.set_x(flat[0])
    zone.set_width(flat[1] - flat[0])


def _draw_objective(above, below):
    zones = [_zone(above, "flat"), _zone(below)]
    (objective,) = above.plot(RATIOS, 0 * RATIOS, color=PALETTE["blue"], linestyle="-", label="clipped")
    (surrogate,) = above.plot(RATIOS, RATIOS, color=PALETTE["black"], linestyle=":", label="ρA")
    (gradient,) = below.plot(RATIOS, 0 * RATIOS, color=PALETTE["vermillion"], linestyle="-")
    above.set(xlim=(0, 2), ylim=(-2.1, 2.1), ylabel="objective, |A| = 1", yticks=[-2, -1, 0, 1, 2])
    below.set(xlim=(0, 2), ylim=(-1.2, 1.2), ylabel="its slope in ρ", xlabel="ratio ρ", yticks=[-1, 0, 1])
    above.tick_params(labelbottom=False)
    legend = above.legend(loc="lower left", fontsize=11.5, ncols=3, handlelength=1.2, columnspacing=0.8)

    def update(view):
        for zone in zones:
            _move(zone, view.flat)
        objective.set_ydata(view.objective)
        surrogate.set_ydata(view.sign * RATIOS)
        gradient.set_ydata(view.gradient)
        legend.set_loc("lower left" if view.sign > 0 else "upper left")

    return update


def _draw_histogram(ax):
    zone = _zone(ax)
    looks = {"fill": True, "facecolor": PALETTE["sky"], "edgecolor": "black", "zorder": 2}
    bars = ax.stairs(np.ones(len(EDGES) - 1), EDGES, baseline=0.5, **looks)
    ends = [ax.axvline(1.0, color=PALETTE["black"], linestyle="--", linewidth=1.2) for _ in range(2)]
    ax.set(xlim=(0, 2), yscale="log", ylim=(0.5, 1000), ylabel="samples")

    def update(view):
        _move(zone, view.flat)
        bars.set_data(np.maximum(view.counts, 0.5))
        for line, end in zip(ends, (1 - view.clip_epsilon, 1 + view.clip_epsilon), strict=True):
            line.set_xdata([end, end])

    return update


def _draw_progress(ax):
    epochs = np.arange(1, EPOCHS + 1)
    right = ax.twinx()
    (kl,) = ax.plot(epochs, 0 * epochs + 1e-3, color=PALETTE["blue"], linestyle="-", marker="o", markersize=5, label="true KL")
    (share,) = right.plot(epochs, 0 * epochs, color=PALETTE["vermillion"], linestyle="--", marker="s", markersize=5)
    (here,) = ax.plot([1], [1e-3], "o", color=PALETTE["yellow"], markeredgecolor="black", markersize=12, zorder=4)
    (here_too,) = right.plot([1], [0], "s", color=PALETTE["yellow"], markeredgecolor="black", markersize=11, zorder=4)
    ax.set(yscale="log", ylim=(3e-5, 1), xlabel="epochs on this batch", ylabel="○ KL, nats", xticks=epochs)
    right.set(ylim=(0, 0.6), ylabel="□ clip fraction")
    right.grid(False)

    def update(view):
        kl.set_ydata(view.kl)
        share.set_ydata(view.clip_fraction)
        here.set_data([view.epoch], [view.kl[view.epoch - 1]])
        here_too.set_data([view.epoch], [view.clip_fraction[view.epoch - 1]])

    return update


def describe_clip(view, clip_epsilon, sign, epoch):
    low, high = (view.ratio < 1 - clip_epsilon).sum(), (view.ratio > 1 + clip_epsilon).sum()
    flat, pulled = (high, low) if sign > 0 else (low, high)
    return (f"of {len(view.ratio)} samples with this sign {flat} lie in the zone without gradient and {pulled} outside on the "
            f"other side, where the gradient pulls them back; true KL {view.kl[epoch - 1]:.2g}, "
            f"clip fraction {view.clip_fraction[epoch - 1]:.0%}.")  # fmt: skip


CLIP = dict(
    title="The clip, and a real batch",
    compute=clip_view, draw=draw_clip, describe=describe_clip, size=(9.0, 5.0),
    controls={
        "clip_epsilon": slider(0.05, 0.6, 0.05, value=0.2, label="clip range ε"),
        "sign": choice({"A > 0": 1, "A < 0": -1}, value=1, label="advantage"),
        "epoch": slider(1, EPOCHS, 1, value=3, label="epochs"),
    },
)  # fmt: skip


def draw_clip_still(fig_or_ax):
    """The histogram alone, for three settings side by side."""
    ax = fig_or_ax if hasattr(fig_or_ax, "plot") else fig_or_ax.subplots()
    ax.set_xlabel("ratio ρ")
    return _draw_histogram(ax)


CLIP_STILL = CLIP | {"draw": draw_clip_still, "size": (9.0, 3.4)}

# ------------------------------------------------------------------------------------------------ verdicts of the ablation

FAMILY = 0.05  # chance of any false alarm among all comparisons of one environment


@dataclass(frozen=True)
class Effect:
    """A variant against the lesson's settings: difference of interquartile means of the score, with its interval."""

    name: str
    difference: float
    low: float
    high: float

    @property
    def verdict(self):
        return "better" if self.low > 0 else "worse" if self.high < 0 else "no detectable effect here"


def gap(variant, base):
    """Difference of interquartile means, over the last axis."""
    return interquartile_mean(variant) - interquartile_mean(base)


def effects(stored, seed=0):
    """The rule, applied: bootstrap intervals of level 1 − 0.05 / (number of comparisons), one per variant.

    Args:
        stored: with names (V,) and score (V, seeds); row 0 is what the others are compared with.
    Returns:
        list of Effect, in the stored order.
    """
    names, score = [str(name) for name in stored["names"]], stored["score"]
    level = 1 - FAMILY / (len(names) - 1)
    found = []
    for name, row in zip(names[1:], score[1:], strict=True):
        low, high = bootstrap_interval(gap, row, score[0], level=level, rng=np.random.default_rng(seed))
        found.append(Effect(name, float(gap(row, score[0])), low, high))
    return found


def draw_effects(ax, found, labels=True):
    """One line per variant: the difference and its interval; the marker's shape is the verdict."""
    looks = {"better": ("^", "blue"), "worse": ("v", "vermillion"), "no detectable effect here": ("o", "black")}
    for height, effect in enumerate(reversed(found)):
        marker, colour = looks[effect.verdict]
        ax.plot([effect.low, effect.high], [height, height], color=PALETTE[colour], linestyle="-", linewidth=2)
        ax.plot(effect.difference, height, marker, color=PALETTE[colour], markersize=8)
    ax.axvline(0, color=PALETTE["black"], linestyle=":", linewidth=1.2)
    ax.set(ylim=(-0.7, len(found) - 0.3), xlabel="difference of the mean return")
    ax.locator_params(axis="x", nbins=5)
    ax.set_yticks(range(len(found)), [effect.name for effect in reversed(found)] if labels else [])


# ------------------------------------------------------------------------------------------------------- stored results

ABLATION_SEEDS, PLACEBO_SEEDS = range(100, 120), range(200, 220)
PLACEBO = "placebo: other seeds"


def variants(base):
    """What the ablation changes in `base`, one thing at a time: {name: settings}. The placebo changes nothing."""
    changes = {
        "ε = 0.1": {"clip_epsilon": 0.1},
        "no clip": {"clip_epsilon": NO_CLIP},
        "early stop at KL 0.01": {"target_kl": 0.01},
        "half the epochs": {"update_epochs": base.update_epochs // 2},
        "twice the epochs": {"update_epochs": 2 * base.update_epochs},
        "whole batch, no minibatches": {"num_minibatches": 1},
        "Â normalised per batch": {"normalize": "batch"},
        "Â never normalised": {"normalize": "never"},
        "value clipping 0.2": {"value_clip": 0.2},
        "entropy bonus 0.01": {"entropy_coef": 0.01},
        "uniform initial weights": {"initialisation": "uniform"},
        "learning rate annealed": {"anneal": True},
        "no gradient clipping": {"max_grad_norm": None},
        "observations normalised": {"normalize_obs": True},
        "rewards normalised": {"normalize_reward": True},
        "rewards times 10": {"reward_scale": 10 * base.reward_scale},
    }
    changed = {name: replace(base, **change) for name, change in changes.items()}
    return changed | {"KL penalty, not clip": PenaltyPPO(**vars(base)), PLACEBO: base}


def ablation(base, env, total_steps, points=20):
    """Train `base` and each of its variants with 20 seeds.

    Returns:
        names (V,), the first one is "as in the lesson"; score (V, 20), each run's mean over all updates of the mean return of
        recent episodes, that is the height of its learning curve; curve (V, 20, points) of that return at env_steps (points,);
        kl, clip_fraction (V, 20), means over updates.
    """
    names, rows = ["as in the lesson"], []
    runs = {names[0]: base} | variants(base)
    for name, settings in runs.items():
        seeds = PLACEBO_SEEDS if name == PLACEBO else ABLATION_SEEDS
        history = train(settings, env, total_steps=total_steps, seeds=seeds, progress=False).history
        at = np.linspace(0, history["env_steps"].shape[1] - 1, points).round().astype(int)
        returns = history["mean_return"]
        rows.append((np.nanmean(returns, 1), returns[:, at], history["kl"].mean(1), history["clip_fraction"].mean(1)))
    score, curve, kl, clip = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    steps = history["env_steps"][0, at]
    return {"names": np.array(list(runs)), "env_steps": steps, "score": score, "curve": curve, "kl": kl, "clip_fraction": clip}


def race(env, total_steps, algorithms=("VPG", "TRPO", "PPO"), points=40):
    """The recommended settings of three algorithms, 10 seeds each, all ten at once: return against steps and CPU seconds.

    Returns:
        for each algorithm {name}_env_steps (points,), {name}_seconds (points,) of processor time for all ten runs, and
        {name}_mean_return (10, points).
    """
    arrays = {}
    for name in algorithms:
        clock = []
        tick = partial(_tick, clock)
        tick()
        settings = recommended(name, env)
        result = train(settings, env, total_steps=total_steps, seeds=range(100, 110), progress=False, callbacks=tick)
        at = np.linspace(0, len(clock) - 2, points).round().astype(int)
        arrays[f"{name}_seconds"] = (np.array(clock[1:])[at] - clock[0]).astype(np.float32)
        arrays[f"{name}_env_steps"] = result.history["env_steps"][0, at]
        arrays[f"{name}_mean_return"] = result.history["mean_return"][:, at].astype(np.float32)
    return arrays


def _tick(clock, state=None):
    clock.append(time.process_time())


DATA = {
    "05_ablation_cartpole.npz": lambda: ablation(CARTPOLE, "CartPole-v1", 80_000),
    "05_ablation_pendulum.npz": lambda: ablation(PENDULUM, "Pendulum-v1", 50_000),
    "05_race_cartpole.npz": lambda: race("CartPole-v1", 120_000),
    "05_race_pendulum.npz": lambda: race("Pendulum-v1", 120_000),
}
