"""Lesson 03: what "Generalised advantage estimation" computes and draws beyond the package.

The random walk answers exactly (rlcourse.worlds.moments). The CartPole episodes are real: recorded once, by the recipe in DATA.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator

from rlcourse.agents.recommended import recommended
from rlcourse.agents.training import train
from rlcourse.classroom.controls import slider
from rlcourse.classroom.data import data_path
from rlcourse.classroom.figures import PALETTE
from rlcourse.equations.estimators import discounted_returns, gae
from rlcourse.worlds.make_env import make_env
from rlcourse.worlds.moments import gae_gradient_moments, lambda_return_moments
from rlcourse.worlds.tabular import exact_policy_gradient, random_walk, softmax_policy

LAMBDAS = np.linspace(0, 1, 101)

# --------------------------------------------------------------------------------------------------- the random walk


def fair_policy(num_states):
    """Left or right with probability one half: (S, 2)."""
    return torch.full((num_states, 2), 0.5, dtype=torch.float64)


def wrong_critic(mdp, critic_error):
    """The critic (1 + c) V: c = 0 is perfect, c = −1 says 0 everywhere as a new network does, c = 1 says twice too much."""
    return (1 + critic_error) * mdp.values(fair_policy(mdp.num_states))


def as_batch(played, critic):
    """Sampled episodes of a tabular world as the arguments of `gae`, one column per episode; behind an end all is terminated.

    Args:
        played: Trajectories with N episodes, the longest of T steps.
        critic: (S,).
    Returns:
        rewards, values, next_values, terminated, truncated, each (T, N). A row's place is [played.time, played.episode].
    """
    steps, episodes = played.time.max() + 1, int(np.prod(played.shape))
    rewards, values = np.zeros((2, steps, episodes))
    rewards[played.time, played.episode] = played.reward
    values[played.time, played.episode] = np.asarray(critic)[played.state]
    lengths = np.bincount(played.episode, minlength=episodes)
    terminated = np.arange(steps)[:, None] >= lengths - 1
    next_values = np.concatenate([values[1:], np.zeros((1, episodes))])
    return rewards, values, next_values, terminated, np.zeros_like(terminated)


@dataclass(frozen=True)
class Errors:
    """Squared bias and variance of an estimate, for every λ in LAMBDAS."""

    bias_squared: np.ndarray
    variance: np.ndarray

    @property
    def total(self):
        return self.bias_squared + self.variance

    @property
    def best_lambda(self):
        return float(LAMBDAS[self.total.argmin()])


@lru_cache(maxsize=512)
def q_errors(gamma, critic_error, num_states=9):
    """How far the λ-return Â + V̂ is from the *undiscounted* Q, mean over the visits of the fair walk; exact.

    Args:
        gamma: discount of the estimator. The critic is wrong_critic for this gamma.
        critic_error: c of wrong_critic.
        num_states: length of the walk, odd.
    Returns:
        Errors.
    """
    question, estimator = random_walk(num_states, 1.0), random_walk(num_states, gamma)
    pi = fair_policy(num_states)
    mean, variance = lambda_return_moments(estimator, pi, wrong_critic(estimator, critic_error), LAMBDAS)
    visits = question.state_visits(pi)
    weight = (visits / visits.sum()).unsqueeze(-1) * pi
    bias_squared = ((mean - question.q_values(pi)) ** 2 * weight).sum((1, 2))
    return Errors(bias_squared.numpy(), (variance * weight).sum((1, 2)).numpy())


@lru_cache(maxsize=64)
def gradient_errors(gamma, critic_error, episodes=1, num_states=9):
    """The same for the gradient estimate Σ_t Â_t ∇log π_t of the fair walk, averaged over `episodes` episodes.

    Returns:
        Errors: squared distance of the mean from the exact undiscounted gradient, and trace of the covariance.
    """
    question, estimator = random_walk(num_states, 1.0), random_walk(num_states, gamma)
    theta = torch.zeros(num_states, 2, dtype=torch.float64)
    mean, noise = gae_gradient_moments(estimator, softmax_policy, theta, wrong_critic(estimator, critic_error), LAMBDAS)
    exact = exact_policy_gradient(question, softmax_policy, theta).flatten()
    return Errors(((mean - exact) ** 2).sum(-1).numpy(), noise.numpy() / episodes)


# ------------------------------------------------------------------------------------------------ one CartPole episode

EPISODES = "03_cartpole_episodes.npz"
NUM_RECORDED = 30


def record_episodes():
    """Thirty episodes of a CartPole policy that is still learning; every one ends by falling. For tools/make_data.py."""
    settings = replace(recommended("VPG", "CartPole-v1"), learning_rate=0.002)
    result = train(settings, "CartPole-v1", total_steps=14_000, seeds=[0], progress=False)
    policy, env = result.policy(0), make_env("CartPole-v1", NUM_RECORDED, seed=3)
    obs, running, rows = env.reset(), np.ones(NUM_RECORDED, bool), []
    generator = np.random.default_rng(3)
    while running.any():
        rows += [(obs[i].copy(), i) for i in np.flatnonzero(running)]
        obs, _, terminated, truncated, _ = env.step(policy.act(obs.astype(np.float32), generator=generator))
        if (truncated & running).any():
            raise ValueError("an episode reached the time limit: train less, or take another seed")
        running &= ~terminated
    env.close()
    order = np.argsort([i for _, i in rows], kind="stable")
    return {
        "obs": np.array([row for row, _ in rows], np.float32)[order],
        "episode": np.array([i for _, i in rows], np.uint8)[order],
    }


SWEEP = "03_vpg_lambda.npz"
TRAINED = (0.0, 0.5, 0.9, 0.95, 1.0)  # values of λ that are trained


def sweep_lambda():
    """VPG on CartPole, five values of λ times forty seeds, all at once. For tools/make_data.py (two minutes).

    Returns:
        env_steps (T,); mean_return and explained_variance, (5, 40, T), every second update.
    """
    algorithm = replace(recommended("VPG", "CartPole-v1"), gae_lambda=TRAINED)
    history = train(algorithm, "CartPole-v1", total_steps=50_000, seeds=range(6000, 6040), progress=False).history
    arrays = {name: history[name][:, ::2].reshape(5, 40, -1).astype(np.float16) for name in ("mean_return", "explained_variance")}
    return {"env_steps": history["env_steps"][0, ::2].astype(np.int32)} | arrays


DATA = {EPISODES: record_episodes, SWEEP: sweep_lambda}


@lru_cache(maxsize=1)
def recorded():
    """(features (n, 15) of each observation, its episode (n,), number of the episode that is shown, least-squares matrix)."""
    with np.load(data_path(EPISODES)) as file:
        obs, episode = file["obs"].astype(float), file["episode"].astype(int)
    obs = obs / obs.std(0)
    pairs = [obs[:, i] * obs[:, j] for i in range(4) for j in range(i, 4)]
    features = np.column_stack([np.ones(len(obs)), obs, *pairs])
    lengths = np.bincount(episode)
    shown = int(np.argsort(lengths)[len(lengths) // 2])
    return features, episode, shown, np.linalg.pinv(features[episode != shown])


def fitted_critic(gamma):
    """A critic for CartPole: quadratic in the observation, fitted to the discounted returns of the *other* recorded episodes.

    Returns:
        (values (T,) along the shown episode, share of the variance of its returns that they explain).
    """
    features, episode, shown, inverse = recorded()
    ends = np.append(episode[1:] != episode[:-1], True)
    returns = discounted_returns(np.ones(len(episode)), gamma, ends=ends, bootstrap=np.zeros(len(episode)))
    here = episode == shown
    values = features[here] @ (inverse @ returns[~here])
    return values, float(1 - np.var(returns[here] - values) / np.var(returns[here]))


def episode_advantages(gae_lambda, gamma, critic_error):
    """Â along the shown episode (T,), with the fitted critic times 1 + critic_error. Every reward is 1; it ends by falling."""
    values = (1 + critic_error) * fitted_critic(gamma)[0]
    terminated = np.arange(len(values)) == len(values) - 1
    next_values = np.append(values[1:], 0.0)
    return gae(np.ones(len(values)), values, next_values, terminated, np.zeros_like(terminated), gamma, gae_lambda)[0]


# ---------------------------------------------------------------------------------------------------------- the widget

NUM_WEIGHTS = 61


@dataclass(frozen=True)
class LambdaView:
    """What one position of the λ widget shows."""

    weights: np.ndarray  # (61,) (γλ)^l
    advantages: np.ndarray  # (T,) along the CartPole episode
    errors: Errors
    gae_lambda: float

    @property
    def horizon(self):
        """Sum of all weights, 1 / (1 − γλ): how many steps ahead count, so to speak."""
        decay = self.weights[1]
        return np.inf if decay == 1 else 1 / (1 - decay)


def lambda_view(gae_lambda, gamma, critic_error):
    """Weights on later residuals, Â of one CartPole episode, and the exact errors on the random walk.

    Args:
        gae_lambda, gamma: in [0, 1].
        critic_error: c; both critics are 1 + c times what they should be.
    Returns:
        LambdaView.
    """
    weights = (gamma * gae_lambda) ** np.arange(NUM_WEIGHTS)
    advantages = episode_advantages(gae_lambda, gamma, critic_error)
    return LambdaView(weights, advantages, q_errors(gamma, critic_error), gae_lambda)


def draw_lambda(fig):
    first, second, third = fig.subplots(1, 3)
    steps = np.arange(NUM_WEIGHTS)
    (weights,) = first.plot(steps, steps * 0.0, "o-", color=PALETTE["blue"], markersize=3.5, linewidth=1)
    first.set(title="weight of δ$_{t+l}$ in Â$_t$", xlabel="l, steps ahead", xlim=(-1, NUM_WEIGHTS), ylim=(-0.04, 1.04))
    first.set(xticks=(0, 20, 40, 60), yticks=(0, 0.5, 1))
    length = len(episode_advantages(0.0, 0.9, 0.0))
    second.axhline(0, color=PALETTE["black"], linewidth=1, linestyle="-")
    (advantages,) = second.plot(np.arange(length), np.zeros(length), color=PALETTE["purple"], linewidth=1.6, linestyle="-")
    second.set(title="Â in a CartPole episode", xlabel="step t", xlim=(0, length), xticks=range(0, length, 50))
    second.yaxis.set_major_locator(MaxNLocator(5))
    lines = [third.plot(LAMBDAS, np.ones(101), color=PALETTE[colour], linestyle=dashes, label=label, linewidth=width)[0]
             for colour, dashes, label, width in (("vermillion", "--", "bias²", 2), ("blue", "-.", "variance", 2),
                                                  ("black", "-", "sum", 2.4))]  # fmt: skip
    here = third.axvline(0, color=PALETTE["green"], linestyle=":", linewidth=2)
    (dot,) = third.plot([0], [1], "o", color=PALETTE["green"], markersize=10)
    (best,) = third.plot([0], [1], "*", color=PALETTE["orange"], markersize=15, markeredgecolor="black", zorder=5)
    third.set(title="squared error, walk", xlabel="λ", yscale="log", xlim=(-0.04, 1.04), ylim=(1e-3, 3))
    third.set(xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    third.legend(loc="lower center", ncols=1, handlelength=1.6, labelspacing=0.2, borderpad=0.2)

    def update(view):
        weights.set_ydata(view.weights)
        advantages.set_ydata(view.advantages)
        top = next(top for top in (2, 5, 10, 20, 50, 100, 200, 500) if top > np.abs(view.advantages).max())
        second.set_ylim(-top, top)  # few different limits: the ticks need drawing anew only when they change
        for line, values in zip(lines, (view.errors.bias_squared, view.errors.variance, view.errors.total), strict=True):
            line.set_ydata(np.maximum(values, 1e-9))
        at = int(round(100 * view.gae_lambda))
        here.set_xdata([view.gae_lambda] * 2)
        dot.set_data([view.gae_lambda], [max(view.errors.total[at], 1.1e-3)])
        best.set_data([view.errors.best_lambda], [max(view.errors.total.min(), 1.1e-3)])

    return update


def describe_lambda(view, gae_lambda, gamma, critic_error):
    at = int(round(100 * gae_lambda))
    errors = view.errors
    ahead = "all later steps count fully" if np.isinf(view.horizon) else f"the weights add up to {view.horizon:.3g} steps"
    return (f"{ahead}. On the walk: bias² {errors.bias_squared[at]:.3f} + variance {errors.variance[at]:.3f} "
            f"= {errors.total[at]:.3f}; least {errors.total.min():.3f}, at λ = {errors.best_lambda:.2f} (star).")  # fmt: skip


LAMBDA = dict(
    title="What λ trades",
    compute=lambda_view, draw=draw_lambda, describe=describe_lambda,
    controls={
        "gae_lambda": slider(0.0, 1.0, 0.01, value=0.9, label="λ"),
        "gamma": slider(0.8, 1.0, 0.01, value=0.98, label="discount γ"),
        "critic_error": slider(-1.0, 1.0, 0.1, value=-0.8, label="critic error c"),
    },
)  # fmt: skip

# -------------------------------------------------------------------------------------------------------- the pictures


def draw_estimates(ax, lambdas, estimates, truth, rng):
    """Estimates of one Q as a cloud of dots for each λ, with their mean and the truth."""
    for x, column in enumerate(estimates):
        some = column[:300]
        ax.plot(x + rng.uniform(-0.27, 0.27, len(some)), some, ".", color=PALETTE["sky"], markersize=4, alpha=0.6,
                label="one episode" if x == 0 else None)  # fmt: skip
    ax.plot(range(len(lambdas)), estimates.mean(1), "D", color=PALETTE["vermillion"], markersize=9, label="mean")
    ax.axhline(truth, color=PALETTE["black"], linestyle="--", label="true Q")
    ax.set(xlabel="λ", ylabel="estimate of Q", ylim=(-1.3, 1.9))
    ax.set(xticks=range(len(lambdas)), xticklabels=[f"{x:g}" for x in lambdas])
    ax.legend(loc="upper center", ncols=3, handletextpad=0.3, columnspacing=0.8, handlelength=1.4)


def draw_trace(ax, terminated, truncated):
    """N environments in one batch: residuals as dots, joined where the trace goes on, with what happens at each end."""
    steps, envs = terminated.shape
    names = ("terminated: no bootstrap", "truncated: V(final obs)", "batch cut: V(next obs)")
    kinds = dict(zip(names, zip("Xs^", (PALETTE["vermillion"], PALETTE["blue"], PALETTE["green"]), strict=True), strict=True))
    ends = {name: [] for name in kinds}
    for env in range(envs):
        y = envs - 1 - env
        for t in range(steps):
            over = terminated[t, env] or truncated[t, env]
            if over or t == steps - 1:
                name = names[0 if terminated[t, env] else 1 if truncated[t, env] else 2]
                ends[name].append((t + 0.42, y))
                ax.plot([t, t + 0.42], [y, y], color=kinds[name][1], linestyle="-", linewidth=2)
            else:
                ax.annotate("", (t, y), (t + 1, y), arrowprops={"arrowstyle": "->", "color": "black", "shrinkA": 5, "shrinkB": 5})
        ax.plot(range(steps), [y] * steps, "o", color=PALETTE["black"], markersize=6)
    for name, (marker, colour) in kinds.items():
        ax.plot(*np.array(ends[name]).reshape(-1, 2).T, marker, color=colour, markersize=11, linestyle="none", label=name)
    ax.set(xlabel="step t of the batch", xticks=range(0, steps, 2), xlim=(-0.6, steps), ylim=(-0.6, envs + 1.35))
    ax.set(yticks=range(envs), yticklabels=[f"env {envs - 1 - y}" for y in range(envs)])
    ax.grid(False)
    ax.legend(loc="upper left", borderpad=0.2, labelspacing=0.25)


def influence(terminated, truncated, gamma, gae_lambda):
    """∂Â_t / ∂δ_k for one environment, (T, T), read off `gae` itself: unit rewards, one at a time, and a critic that says 0."""
    steps = len(terminated)
    zero, flags = np.zeros((steps, steps)), [np.repeat(flag[:, None], steps, 1) for flag in (terminated, truncated)]
    return gae(np.eye(steps), zero, zero, *flags, gamma, gae_lambda)[0]


def draw_influence(fig, ax, matrix):
    picture = ax.imshow(matrix, cmap="cividis", vmin=0, vmax=1, zorder=1)
    ticks = range(0, len(matrix), 2)
    ax.set(xlabel="step k of the residual", ylabel="step t of Â", xticks=ticks, yticks=ticks)
    ax.grid(False)
    fig.colorbar(picture, ax=ax, label="weight of δ$_k$ in Â$_t$")


def draw_errors(ax, errors, title, ylabel=None):
    """Squared bias, variance and their sum against λ, with the best λ."""
    ax.plot(LAMBDAS, errors.bias_squared, color=PALETTE["vermillion"], linestyle="--", label="bias²")
    ax.plot(LAMBDAS, errors.variance, color=PALETTE["blue"], linestyle="-.", label="variance")
    ax.plot(LAMBDAS, errors.total, color=PALETTE["black"], linestyle="-", label="sum")
    star = {"color": PALETTE["orange"], "markersize": 17, "markeredgecolor": "black", "zorder": 5}
    ax.plot(errors.best_lambda, errors.total.min(), "*", **star)
    ax.set(xlabel="λ", title=title, ylabel=ylabel or "")


def best_lambdas(cases):
    """One line of text per case (num_states, gamma, critic_error): where the error of Â + V̂ is least, and how large it is."""
    lines = [" states   gamma  critic error   best λ   error there   at λ=0   at λ=1"]
    for num_states, gamma, critic_error in cases:
        total = q_errors(gamma, critic_error, num_states)
        lines.append(f"{num_states:7d} {gamma:7.2f} {critic_error:13.2f} {total.best_lambda:8.2f} {total.total.min():13.3f} "
                     f"{total.total[0]:8.3f} {total.total[-1]:8.3f}")  # fmt: skip
    return "\n".join(lines)

