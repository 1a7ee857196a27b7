"""Exercises of lesson 06: σ by softplus, squashed actions, a colleague's lines, what half the σ costs, the scale of rewards."""

from functools import lru_cache

import numpy as np
import torch
from scipy import stats

from rlcourse.classroom.exercises import (
    Wrong,
    array,
    close,
    entries,
    exercise,
    explained,
    number,
    numbers,
    run,
)

f64 = torch.float64
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)  # quadrature for a standard normal
WEIGHTS = WEIGHTS / WEIGHTS.sum()

# ------------------------------------------------------------------------------------------------------ 06.1 σ by softplus


def softplus(x):
    return np.logaddexp(0, x)


def score_by_differences(a, mean, x, h=1e-5):
    """d log N(a; mean, softplus(x)) / dx."""
    up, down = (stats.norm.logpdf(a, mean, softplus(x + step)) for step in (h, -h))
    return (up - down) / (2 * h)


@exercise("06.1", "σ by softplus: score and Fisher", kind="derive", level=2, minutes=20)
def softplus_score(answer):
    fishers = []
    for z, x in ((2.0, 0.5), (0.5, 0.5), (0.0, 3.0), (-1.5, -2.0), (3.0, 20.0), (0.3, -40.0)):
        std = softplus(x)
        a = 1.0 + z * std if x > -10 else z * std
        mean = 1.0 if x > -10 else 0.0
        with np.errstate(all="ignore"):
            pair = run(answer, a, mean, x)
        where = f"a = {a:.4g}, μ = {mean:g}, x = {x:g} (σ = {std:.4g})"
        try:
            got = array("score and Fisher number", pair, (2,))
        except Wrong as error:
            raise Wrong(
                f"{where}. {error} Is your σ exactly 0? log(1 + tiny) is; np.log1p is not." if x < -10 else str(error)
            ) from None
        slope = 1 / (1 + np.exp(-x))  # dσ/dx
        score = score_by_differences(a, mean, x)
        fisher = (WEIGHTS * score_by_differences(mean + std * NODES, mean, x) ** 2).sum()
        fishers.append(fisher)
        if abs(got[0] - score) > 1e-5 * max(1, abs(score)):
            raise Wrong(
                f"{where}. Your score is {got[0]:.4g}; moving x a little and looking at SciPy's log-density gives another "
                f"slope. {_score_fault(got[0], z, std, slope, score)}"
            )
        if abs(got[1] - fisher) > 1e-5 * max(1e-3, fisher):
            raise Wrong(
                f"{where}. The score is right; your Fisher number is {got[1]:.4g}, and the mean of the squared score over "
                f"actions is another. {_fisher_fault(got[1], score, std, slope)}"
            )
    return (
        f"Score and Fisher number as SciPy's differences say, for six cases. Compare F: {fishers[5]:.3g} at x = −40, "
        f"{fishers[0]:.2g} at 0.5, {fishers[4]:.2g} at 20. For small σ, x is like log σ; for large σ, like σ."
    )


def _score_fault(got, z, std, slope, score):
    plain = z**2 - 1
    known = {
        "That is the score in log σ: x is not log σ.": plain,
        "That is the score in σ: how does σ change with x?": plain / std,
        "dσ/dx is in it, but the score in σ is not yet (z² − 1).": plain * slope,
        "The sign is wrong.": -score,
        "Only the square was differentiated; log σ depends on x, too.": z**2 * slope / std,
        "Is this the Fisher number? The score comes first.": 2 * (slope / std) ** 2,
    }
    return next((text for text, value in known.items() if abs(got - value) < 1e-6 * max(1, abs(value))), "")


def _fisher_fault(got, score, std, slope):
    known = {
        "That is the Fisher number of log σ.": 2.0,
        "That is the Fisher number of σ.": 2 / std**2,
        "The chain rule's factor enters squared.": 2 * slope / std,
        "That is this action's squared score, not its mean over actions.": score**2,
        "That is the Fisher number of μ.": 1 / std**2,
        "What is the mean of (z² − 1)²? Not 1.": (slope / std) ** 2,
    }
    return next((text for text, value in known.items() if abs(got - value) < 1e-6 * max(1, abs(value))), "")


# ---------------------------------------------------------------------------------------------------- 06.2 squashed actions


@exercise("06.2", "Squashed actions of several dimensions", kind="implement", level=3, minutes=30)
def squashed(answer):
    if not callable(answer):
        run(answer)
    rng = np.random.default_rng(62)
    mean, noise = torch.tensor(rng.standard_normal((5, 2))), torch.tensor(rng.standard_normal((5, 2)))
    log_std, low, high = (torch.tensor(pair, dtype=f64) for pair in ([-0.5, 0.3], [-2.0, 0.0], [2.0, 10.0]))

    def both(noise, mean=mean, log_std=log_std):
        bounds = low.to(mean.dtype), high.to(mean.dtype)
        pair = run(lambda: answer(mean, log_std.clone(), noise.clone(), *bounds))
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Wrong("Return two things: the action and its log-probability.")
        return pair

    action, log_prob = both(noise)
    action = array("the actions", action, (5, 2))
    _inside(action, (mean + log_std.exp() * noise).numpy(), low.numpy(), high.numpy())
    if isinstance(log_prob, torch.Tensor) and log_prob.shape == (5, 2):
        raise Wrong("The log-probs have shape (5, 2), one per dimension. One number per action: independent dimensions add up.")
    log_prob = array("the log-probabilities", log_prob, (5,))
    _density(log_prob, noise.numpy(), log_std.numpy(), _log_slopes(both, noise, log_std))
    _far_out(both)
    return "Equal to log N(u) minus the log of the slopes da/du, and right in float32 at u = ±20, gradient included."


def _inside(action, u, low, high):
    outside = (action < low) | (action > high)
    if outside.any():
        where = np.argwhere(outside)[0]
        raise Wrong(
            f"Action {action[tuple(where)]:.4g} of dimension {where[1]} lies outside [{low[where[1]]:g}, {high[where[1]]:g}]. "
            "The second dimension of this test goes from 0 to 10, not from −c to c."
        )
    wanted = low + (high - low) / (1 + np.exp(-2 * u))  # tanh by the logistic function
    if not close(action, wanted):
        raise Wrong(
            f"For u = {numbers(u[0])} and bounds {numbers(low)} to {numbers(high)} your action is {numbers(action[0])}: that "
            "is not low + (high − low)/2 · (tanh u + 1). Is u = μ + σ·noise?"
        )


def _log_slopes(both, noise, log_std):
    """log da/du of every dimension, by differences of the learner's own actions."""
    h = 1e-5
    up, down = (np.asarray(torch.as_tensor(both(noise + sign * h)[0])) for sign in (1, -1))
    return np.log((up - down) / (2 * h)) - log_std.numpy()


def _density(log_prob, noise, log_std, log_slopes):
    normal = stats.norm.logpdf(noise) - log_std  # log N(u), per dimension
    wanted = (normal - log_slopes).sum(1)
    if close(log_prob, wanted, 1e-7):
        return
    half = np.log([2.0, 5.0])
    known = {
        "You ADD the log of the slope da/du. Where tanh is flat, actions crowd together: is the density then higher or lower?": (
            normal + log_slopes
        ),
        "That is log N(u), without the slope of the squashing.": normal,
        "The slope of tanh is in it, the factor (high − low)/2 is not.": normal - log_slopes + half,
        "The whole range high − low, or half of it?": normal - log_slopes - np.log(2),
        "log σ is missing in the Gaussian's part.": normal + log_std - log_slopes,
        "½ log 2π is missing in the Gaussian's part.": normal + 0.5 * np.log(2 * np.pi) - log_slopes,
    }
    for text, each in known.items():
        if close(log_prob, each.sum(1), 1e-5):
            raise Wrong(f"Two dimensions, five actions: your first log-prob is {log_prob[0]:.4f}. {text}")
    if close(log_prob, (normal - log_slopes).mean(1), 1e-5):
        raise Wrong("That is the mean over the dimensions; a product of densities has the sum of their logs.")
    if close(log_prob, wanted, 0.01):
        raise Wrong(
            f"Two dimensions, five actions: your log-probs are off by up to {np.abs(log_prob - wanted).max():.1g} only, for "
            "moderate u. Is a small constant added somewhere, or u recovered from the action?"
        )
    raise Wrong(
        f"Two dimensions, five actions: your first log-prob is {log_prob[0]:.4f}, but log N(u) minus the log of the slopes of "
        "your own actions is another number. Compare the two parts one by one."
    )


def _far_out(both):
    mean = torch.zeros(2, 2, dtype=torch.float32)
    noise = torch.tensor([[20.0, 0.0], [0.0, -20.0]])
    log_prob = array_or_wrong(both(noise, mean, torch.zeros(2))[1])
    far = np.log(4) - 40  # log(1 − tanh² 20), up to 1e-17
    wanted = stats.norm.logpdf(20) + stats.norm.logpdf(0) - far - np.log([2.0, 5.0]).sum()
    if np.abs(log_prob - wanted).max() > 1e-2:
        raise Wrong(
            f"float32, u = 20: your log-prob is off by {np.abs(log_prob - wanted).max():.3g} nats. A small constant inside the "
            "log is finite, and wrong, and so is a bound on u: use a form that does not subtract tanh² from 1."
        )
    if np.abs(array_or_wrong(both(2.5 * noise, mean, torch.zeros(2))[1])).max() > 2e3:
        raise Wrong("At u = 50 the log-prob explodes.")
    leaf = mean.clone().requires_grad_()
    log_prob = both(noise, leaf, torch.zeros(2))[1]
    if not isinstance(log_prob, torch.Tensor) or not log_prob.requires_grad:
        raise Wrong("The log-prob must be differentiable in the mean (as SAC needs it); yours carries no gradient.")
    (slope,) = torch.autograd.grad(log_prob.sum(), leaf)
    if not torch.isfinite(slope).all():
        raise Wrong("float32, u = 20: the log-prob is right, its gradient in the mean is NaN or infinite.")


def array_or_wrong(log_prob):
    with np.errstate(all="ignore"):
        value = np.asarray(torch.as_tensor(log_prob).detach(), float)
    if not np.isfinite(value).all():
        raise Wrong(
            f"float32, u = 20: your log-probs are {numbers(value)}. There tanh is rounded to 1, and log(1 − tanh²) is log 0."
        )
    return value


# ------------------------------------------------------------------------------------------------ 06.3 a colleague's lines


class _Noise:
    """A generator whose normal numbers are known."""

    def __init__(self, values):
        self.values = np.asarray(values, float)

    def standard_normal(self, size=None, dtype=float):
        shape = () if size is None else size
        if np.prod(shape) != self.values.size:
            raise Wrong(f"You drew noise of the shape {shape}. Each action dimension needs its own, so take the shape of mean.")
        return self.values.reshape(shape).astype(dtype)

    def normal(self, loc=0.0, scale=1.0, size=None):
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
        return np.asarray(loc) + np.asarray(scale) * self.standard_normal(shape)


@exercise("06.3", "A colleague's seven lines", kind="implement", level=2, minutes=25)
def seven_lines(answer):
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Wrong('Give both functions: check("06.3", (draw, log_prob)).')
    draw, log_prob = answer
    _drawn(draw)
    _constant_reward(log_prob)
    return (
        "Stored actions are Gaussian, sent ones within the bounds; the density has mass 1 in one and in two dimensions, so a "
        "constant reward moves nothing."
    )


def _drawn(draw):
    noise = np.array([[0.0, 0.0], [1.0, -1.0], [6.0, 0.5], [-0.5, -8.0]])
    mean = torch.tensor([[0.5, -0.5]] * 4, dtype=f64)
    log_std = torch.tensor([-0.5, 0.2], dtype=f64)
    pair = run(draw, mean, log_std, _Noise(noise), -2.0, 2.0)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise Wrong("draw returns two things: what is stored, and what is sent to the environment.")
    stored, sent = (
        array(name, value, (4, 2)) for name, value in zip(("the stored actions", "the sent actions"), pair, strict=True)
    )
    if not close(stored[0], [0.5, -0.5]):
        raise Wrong(
            f"With noise 0 the stored action must be the mean (0.5, −0.5); yours is {numbers(stored[0])}. (All noise comes from "
            "`rng`.)"
        )
    spread = np.abs(stored[1] - stored[0])
    if (np.abs(stored[2:]) == 2).any() and close(spread, np.exp([-0.5, 0.2])):
        raise Wrong(
            "Two of the four stored actions lie exactly at a bound. A Gaussian has no lumps: which action was it whose "
            "density log_prob will be asked for?"
        )
    if not close(spread, np.exp([-0.5, 0.2])):
        raise Wrong(
            f"Noise of ±1 moves the stored action by {numbers(spread)}. That is one σ, and log σ is {numbers([-0.5, 0.2])}."
        )
    if not close(stored, mean.numpy() + np.exp([-0.5, 0.2]) * noise):
        raise Wrong("The stored actions are not μ + σ·noise.")
    if np.abs(sent).max() > 2:
        raise Wrong(f"The environment takes −2 … 2 and would get {sent.flat[np.abs(sent).argmax()]:.3g}.")
    if not close(sent, stored.clip(-2, 2)):
        raise Wrong("What is sent is not the stored action, clipped to the bounds.")


def _constant_reward(log_prob):
    axis = np.linspace(-12, 12, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    cell = axis[1] - axis[0]
    for log_std in ([0.0, 0.0], [-0.3, 0.4]):
        for actions, stds, space in ((axis[:, None], log_std[:1], cell), (grid, log_std, cell**2)):
            dims = len(stds)
            mean, actions = torch.tensor([[0.5, -1.0]], dtype=f64)[:, :dims].expand(len(actions), dims), torch.tensor(actions)
            value = run(log_prob, mean, torch.tensor(stds, dtype=f64), actions)
            if isinstance(value, torch.Tensor) and value.shape == (len(actions), dims):
                raise Wrong(f"log_prob gives shape (N, {dims}): one number per dimension. It must be one per action, (N,).")
            value = array("the log-probabilities", value, (len(actions),))
            mass = np.exp(value).sum() * space
            if abs(mass - 1) < 1e-6:
                _mean_and_std(np.exp(value) * space, actions.numpy(), mean[0].numpy(), np.exp(stds))
                continue
            hint = ""
            if dims == 1 and abs(mass - np.exp(stds[0])) < 1e-6 and abs(value.max() + 0.5 * np.log(2 * np.pi)) < 1e-6:
                hint = "It is 1 for σ = 1 only: with a constant reward σ would grow for ever, as a wider one has more mass."
            elif dims == 1 and abs(value.max() + stds[0] + 0.5 * np.log(2 * np.pi)) < 1e-6:
                hint = "At the mean it is right, so it falls off too fast or too slowly: by which power of σ is a − μ divided?"
            elif dims == 1 and abs(mass - np.sqrt(2 * np.pi)) < 1e-4:
                hint = "That number is √(2π)."
            elif dims == 1 and stds[0] and abs(mass - np.exp(-stds[0])) < 1e-6:
                hint = "That number is 1/σ: how often does log σ come off?"
            elif dims == 2 and stds == [0.0, 0.0]:
                hint = "In one dimension it was right. How do the log-densities of independent dimensions combine?"
            where = f"{dims} dimension{'s' * (dims > 1)}, log σ = {numbers(stds)}"
            raise Wrong(f"{where}: your density has the mass {mass:.4g} instead of 1. {hint}")


def _mean_and_std(weight, actions, mean, std):
    """Mass 1 is not enough: the density must also lie where `draw` draws."""
    center = weight @ actions
    spread = np.sqrt(weight @ (actions - center) ** 2)
    for name, wanted, found in (("mean", mean, center), ("standard deviation", std, spread)):
        if not close(found, wanted):
            raise Wrong(f"Your density has mass 1, but its {name} is {numbers(found)}, and draw draws with {numbers(wanted)}.")


# ------------------------------------------------------------------------------------------------------- 06.4 half the σ

PLACES = {
    "μ, no baseline": ("mean", False, 0.0),
    "μ, b = E[r]": ("mean", True, 0.0),
    "μ, b = E[r], noise": ("mean", True, 1.0),
    "log σ, b = E[r], noise": ("log_std", True, 1.0),
}


def samples_needed(name, std):
    """Var / mean² of the one-sample score-function gradient, exact by quadrature: the samples for a relative error of 1."""
    coordinate, with_baseline, noise = PLACES[name]
    reward = -((std * NODES - 1) ** 2)
    baseline = (WEIGHTS * reward).sum() if with_baseline else 0.0
    score = NODES / std if coordinate == "mean" else NODES**2 - 1
    mean = (WEIGHTS * score * (reward - baseline)).sum()
    second = (WEIGHTS * score**2 * ((reward - baseline) ** 2 + noise**2)).sum()
    return second / mean**2 - 1


@exercise("06.4", "What half the σ costs", kind="predict", level=2, minutes=15)
def half_the_sigma(answer):
    for name, guess in entries(answer, PLACES, number).items():
        before, after = (samples_needed(name, std) for std in (0.02, 0.01))
        factor = after / before
        if not 0.75 * factor <= guess <= factor / 0.75:
            more = "few" if guess < factor else "many"
            raise Wrong(
                f"“{name}”: computed exactly, {guess:g} times the samples are too {more}. At σ = 0.02 a relative error of 10 % "
                f"takes {100 * before:,.0f} samples. Ask separately what happens to the noise of one sample, and to the "
                "gradient itself."
            )
    costs = ", ".join(f"{samples_needed(name, 0.01) / samples_needed(name, 0.02):.1f}" for name in PLACES)
    return (
        f"Computed exactly: {costs} times the samples. The last one is why σ is the slowest thing to learn: its gradient fades "
        "with σ², and the noise of its estimate does not fade at all."
    )


# ------------------------------------------------------------------------------------------------------- 06.5 a new task

GOAL, RATE = -2 / (1 - 0.98), 1e-3  # the mean value at reward_scale = 1; Adam's learning rate
TRAINING = 40_000 // 1024 * 4 * 32  # Adam steps: whole updates, epochs, minibatches


@lru_cache(maxsize=8)
def steps_until_arrival(scale, limit=2500):
    """Adam steps until a small critic (64 tanh units, both layers learning) has come 90 % of the way to the mean value."""
    rng = np.random.default_rng(65)
    obs = np.column_stack([rng.standard_normal((32, 3)), np.ones(32)])
    weights = [rng.standard_normal((4, 64)) / 1.5, np.zeros(65)]
    first, second = [0 * w for w in weights], [0 * w for w in weights]
    for step in range(1, limit):
        hidden = np.tanh(obs @ weights[0])
        inputs = np.column_stack([hidden, np.ones(32)])
        value = inputs @ weights[1]
        if value.mean() / (scale * GOAL) >= 0.9:
            return step
        error = 2 * (value - scale * GOAL) / 32
        slopes = obs.T @ (np.outer(error, weights[1][:64]) * (1 - hidden**2)), inputs.T @ error
        for k, slope in enumerate(slopes):
            first[k], second[k] = 0.9 * first[k] + 0.1 * slope, 0.999 * second[k] + 0.001 * slope**2
            size = np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8
            weights[k] = weights[k] - RATE * first[k] / (1 - 0.9**step) / size
    return None


QUESTIONS = ("Adam steps of the training", "Adam steps until the critic arrives", "reward_scale for a tenth")


@exercise("06.5", "A new task: how large may the rewards be?", kind="predict", level=2, minutes=15)
def new_task(answer):
    training, arrival, scale = entries(answer, QUESTIONS, number).values()
    if abs(training / TRAINING - 1) > 0.05:
        known = {
            39: "updates.",
            156: "epochs; each has many minibatches.",
            1248: "minibatches of one epoch.",
            40_000: "steps of the environment.",
        }
        what = next((f"Those are {text}" for count, text in known.items() if abs(training / count - 1) < 0.05), "")
        raise Wrong(f"{training:,.0f} Adam steps in the whole training? Each minibatch that is learned from is one. {what}")
    found = steps_until_arrival(1.0)
    if not found / 2 <= arrival <= 2 * found:
        known = {
            31.25: "How large is the value of a state, if every step brings −2?",
            100_000: "How many weights move at once?",
            100: "How far does a weight move per step?",
        }
        what = next((text for count, text in known.items() if abs(arrival / count - 1) < 0.1), "")
        more = "few" if arrival < found else "many"
        raise Wrong(f"I trained the critic: {arrival:,.0f} steps are too {more}, by more than a factor of 2. {what}")
    if scale <= 0:
        raise Wrong(f"reward_scale = {scale:g} must be above 0.")
    arrived = steps_until_arrival(scale)
    share = np.inf if arrived is None else arrived / TRAINING
    if not 0.05 <= share <= 0.2:
        when = "not within half of the training" if arrived is None else f"after {arrived:,} steps, {share:.1%} of the training"
        raise Wrong(
            f"I trained the critic with reward_scale = {scale:g}: it arrives {when}. A tenth is wanted, within a factor of 2."
        )
    return (
        f"I trained the critic: with reward_scale = 1 it arrives after {found:,} steps, {found / TRAINING:.0%} of the "
        f"training; with yours after {arrived:,}, {share:.0%}."
    )


# ----------------------------------------------------------------------------------------------------------- 06.6 explain


@exercise("06.6", "“The best actions are skewed, so a Gaussian is wrong”", kind="explain", level=1, minutes=15)
def skewed(answer):
    return explained(
        answer,
        [
            "For one fixed state of an MDP some single action is best; a Gaussian with small σ can stand there, whatever the "
            "shape of the reward around it. It is a distribution to search with, not a model of which actions are good.",
            "The histogram was taken over all states. Each state has its own mean μ(s), and a mixture of Gaussians over "
            "states may have any shape, two humps at the bounds included.",
            "How to check: plot the actions, or the policy, of ONE state.",
            "Where the shape does cost something: while σ is large, near a cliff (the best mean keeps a distance), and with "
            "two peaks (one must be chosen, perhaps the lower one).",
            "When more than a Gaussian is needed: two different actions must both be kept in the same state or observation, "
            "for an entropy objective, against an opponent, or when the observation hides what state it is. Then: a mixture, "
            "or another family.",
        ],
        words=60,
    )
