"""Judges of the exercises of lesson 01: scores, the theorem, baselines."""

import numpy as np
import torch
from scipy.stats import norm

from rlcourse.classroom.exercises import Wrong, array, close, entries, exercise, explained, number, numbers, recognise, run, word
from rlcourse.worlds.tabular import (
    enumerate_trajectories,
    finite_difference_gradient,
    gradient_estimates,
    random_mdp,
    score_table,
    softmax_policy,
)

# ----------------------------------------------------------------------------------------------------- score of a Gaussian


@exercise("01.1", "The score of a Gaussian", kind="derive", level=2, minutes=15)
def gaussian_score(answer):
    places = [(1.5, 0.5, -0.7), (-0.4, 0.2, 0.1), (3.0, 1.0, 0.4), (2.0, 2.0, 0.5)]
    got = np.array([array("the two derivatives", run(answer, *place), shape=(2,)) for place in places])
    slopes = np.array([_slopes_of_log_density(*place) for place in places])
    if not close(got, slopes, 1e-7):
        recognise(got, _mistakes_of_score(*np.array(places).T))
        _judge_score(answer, got, slopes, places)
    return "Equal to finite differences of SciPy's log density at four places. So the mean of your score over the actions is 0."


def _slopes_of_log_density(action, mean, log_std, h=1e-6):
    def log_density(mean, log_std):
        return norm.logpdf(action, mean, np.exp(log_std))

    by_mean = log_density(mean + h, log_std) - log_density(mean - h, log_std)
    by_log_std = log_density(mean, log_std + h) - log_density(mean, log_std - h)
    return by_mean / (2 * h), by_log_std / (2 * h)


def _mistakes_of_score(action, mean, log_std):
    std = np.exp(log_std)
    z = (action - mean) / std
    density = norm.pdf(action, mean, std)
    pairs = {
        "The derivative by the mean has the wrong sign. If the mean moves towards the action, the action gets more probable.":
            (-z / std, z**2 - 1),
        "Both signs are turned: this is the gradient of −log π.": (-z / std, 1 - z**2),
        "In the derivative by the mean one division by σ is missing: the exponent holds (a − μ)²/σ², and the inner derivative "
        "does "
        "not take its σ² away.": (z, z**2 - 1),
        "The second number is the derivative by σ. Asked for is that by log σ, one chain rule further.":
            (z / std, (z**2 - 1) / std),
        "The factor 1/σ in front of the density depends on σ, too. Its logarithm has a derivative.": (z / std, z**2),
        "You differentiated π. The score is the derivative of log π.": (density * z / std, density * (z**2 - 1)),
        "log_std is the logarithm of σ: take σ = exp(log_std).":
            ((action - mean) / log_std**2, (action - mean) ** 2 / log_std**2 - 1),
        "Here exp(log_std) was taken for the variance; it is the standard deviation.":
            ((action - mean) / std, ((action - mean) ** 2 / std - 1)),
        "The order is: first by the mean, then by log σ.": (z**2 - 1, z / std),
    }  # fmt: skip
    return {message: np.array(pair).T for message, pair in pairs.items()}


def _judge_score(answer, got, slopes, places):
    points, weights = np.polynomial.hermite_e.hermegauss(40)
    actions = 0.5 + np.exp(-0.7) * points
    scores = np.array([array("the two derivatives", run(answer, float(action), 0.5, -0.7), (2,)) for action in actions])
    mean = weights @ scores / weights.sum()
    for which, value in zip(("the mean", "log σ"), mean, strict=True):
        if abs(value) > 1e-6:
            raise Wrong(
                f"With μ = 0.5 and log σ = −0.7, the mean over all actions of your derivative by {which} is {value:.4g}. By the "
                "lemma of Step 6 it must be 0: this cannot be a score."
            )
    at, which = np.unravel_index(np.abs(got - slopes).argmax(), got.shape)
    raise Wrong(
        f"At a, μ, log σ = {places[at]} you say that log π changes at the rate {got[at, which]:.4g} with "
        f"{('μ', 'log σ')[which]}. Move it by 0.001 and compute log π again: it does not."
    )


# --------------------------------------------------------------------------------------------------- shared parameters


@exercise("01.2", "Few parameters, many states", kind="implement", level=3, minutes=25)
def shared_gradient(answer):
    rng = np.random.default_rng(2)
    for trial in range(8):
        world = random_mdp(rng, 5, 3, gamma=0.9, end_probability=0.2 * (trial % 2 == 0))
        features, theta = rng.standard_normal((5, 3, 2)), rng.standard_normal(2)
        table = (world.transition.numpy(), world.reward.numpy(), 0.9, world.start.numpy())
        got = array("the gradient", run(answer, *table, features, theta), shape=(2,))

        def expected_return(x, world=world, features=features):
            return world.expected_return(torch.softmax(torch.tensor(features) @ x, -1))

        slopes = finite_difference_gradient(expected_return, torch.tensor(theta)).numpy()
        if not close(got, slopes, 1e-7):
            recognise(got, _mistakes_of_gradient(world, features, theta))
            length = np.linalg.norm(got)
            if length < 1e-12:
                raise Wrong("Your gradient is 0, yet J changes when θ is moved a little.")
            raise Wrong(
                f"In one of the worlds your gradient is {numbers(got)}. Walk along it: by finite differences J rises at the rate "
                f"{slopes @ got / length:.4g} there. A gradient has that rate for its length, and yours has the length "
                f"{length:.4g}."
            )
    return "Equal to finite differences of J in eight random worlds, half of which never end."


def _mistakes_of_gradient(world, features, theta):
    def parts(axis):
        preference = features @ theta
        pi = np.exp(preference) / np.exp(preference).sum(axis, keepdims=True)
        system = np.eye(5) - 0.9 * np.einsum("sa,sat->st", pi, world.transition.numpy())
        value = np.linalg.solve(system, (pi * world.reward.numpy()).sum(1))
        q_value = world.reward.numpy() + 0.9 * world.transition.numpy() @ value
        return pi, system, q_value, np.linalg.solve(system.T, world.start.numpy())

    pi, system, q_value, visits = parts(1)
    start, score = world.start.numpy(), features - np.einsum("sa,sad->sd", pi, features)[:, None]
    advantage = q_value - (pi * q_value).sum(1, keepdims=True)

    def summed(visits, weight, score=score):
        return np.einsum("s,sa,sad->d", visits, weight, score)

    right, (other_pi, _, other_q, other_visits) = summed(visits, pi * advantage), parts(0)
    undiscounted = np.eye(5) - np.einsum("sa,sat->st", pi, world.transition.numpy())
    surely_ends = bool((world.transition.sum(-1) < 0.99).all())
    once = np.linalg.solve(undiscounted.T, start) if surely_ends else np.full(5, np.nan)
    return {
        "Every state counts the same in your sum. The theorem weights a state with d(s), how often it is visited.":
            summed(np.ones(5), pi * advantage),
        "You weight states with the start distribution only: the first step of each episode, and no later one.":
            summed(start, pi * advantage),
        "The right direction, too short by 1 − γ: d is not normalised in the theorem (Step 8).": 0.1 * right,
        "Your d counts visits without γ^t: this is the field of Step 11, which is no gradient.": summed(once, pi * advantage),
        "d comes from the *transposed* system: a value looks at where one goes, a visit at where one came from.":
            summed(np.linalg.solve(system, start), pi * advantage),
        "The feature of an action is not its score: what all actions of a state have in common must be taken off. (With A for Q "
        "it would not matter. Why?)": summed(visits, pi * q_value, features),
        "The actions of a state must be weighted with π: this sum gives them all the same weight.": summed(visits, advantage),
        "Only the reward of the step itself counts in your sum. Take Q or A, which know about the future.":
            summed(visits, pi * world.reward.numpy()),
        "The right arrow, turned round: a sign.": -right,
        "The softmax runs over the wrong axis: probabilities of the actions must sum to 1 in each state.":
            summed(other_visits, other_pi * other_q, features - np.einsum("sa,sad->sd", other_pi, features)[:, None]),
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------- how many episodes

PAID = np.array([100.0, 101.0])


def _noise_of_arms(b):
    """Variance of one estimate (r − b) · score over the squared mean, a coin toss between the two arms."""
    estimates = (PAID - b) * np.array([-0.5, 0.5])
    return estimates.var() / estimates.mean() ** 2, estimates.mean()


@exercise("01.3", "How many episodes is a baseline worth?", kind="predict", level=2, minutes=10)
def how_many_episodes(answer):
    baselines = {"b = 0": 0.0, "b = 90": 90.0, "b = 200": 200.0}
    guess = entries(answer, (*baselines, "mean at b = 200"), lambda name, value: value)
    for name, b in baselines.items():
        episodes = number(f"the number of episodes at {name}", guess[name])
        noise, mean = _noise_of_arms(b)
        if episodes < 1:
            raise Wrong(f"{name}: give the number of episodes, at least 1.")
        error = np.sqrt(noise / episodes)
        if not 0.5 <= error**2 <= 2:
            raise Wrong(
                f"{name}: after {episodes:,.0f} episodes the standard error of the estimate is "
                f"{'still' if error > 1 else 'only'} {error:.3g} times as large as its mean."
            )
    if not word(guess["mean at b = 200"], {"better arm": True, "worse arm": False, "nowhere": False}):
        raise Wrong(
            "At b = 200 both arms are discouraged whenever they are played. But look at the mean of the estimate over the two "
            f"arms: it is {_noise_of_arms(200.0)[1]:+.3g}, in the direction of arm 1, for every b."
        )
    return "Within a factor of 2. The noise is a parabola in b: ten times nearer to the best b is worth 100 times the play."


# ------------------------------------------------------------------------------------- a baseline that looks at the action


@exercise("01.4", "A baseline that may look at the action", kind="implement", level=3, minutes=20)
def corrected_estimate(answer):
    rng = np.random.default_rng(3)
    for _ in range(5):
        logits, pays, guess = rng.standard_normal((3, 3))
        pi = np.exp(logits) / np.exp(logits).sum()
        each = [array("the estimate", run(answer, pi, a, pays[a], guess), (3,)) for a in range(3)]
        _judge_mean(pi @ each, logits, pi, guess, pays)
        perfect = np.array([array("the estimate", run(answer, pi, a, pays[a], pays), (3,)) for a in range(3)])
        if not close(perfect, np.broadcast_to(pi @ perfect, (3, 3))):
            raise Wrong(
                "The mean is right, but so it was without b. If b is exactly what each action pays, nothing is left to chance: "
                f"the estimate must be the same whichever action is drawn. Yours are {numbers(perfect)}."
            )
    return "The mean is the exact gradient, whatever b says. And where b is right, one sample is enough."


def _judge_mean(mean, logits, pi, guess, pays):
    def expected_pay(x):
        return torch.softmax(x, 0) @ torch.tensor(pays)

    slopes = finite_difference_gradient(expected_pay, torch.tensor(logits)).numpy()
    if close(mean, slopes, 1e-7):
        return
    taken = pi * (guess - pi @ guess)  # Σ_a π b ∇log π, what the baseline takes away on average
    recognise(mean, {
        "b[action] is subtracted and, on average, nothing given back: the lemma does not cover a b that looks at the action, so "
        "the mean is off. (A constant times the score gives back 0 on average.) What was taken away? You can compute it.":
            slopes - taken,
        "The correction has the wrong sign: what the baseline takes away on average must be added.": slopes - 2 * taken,
        "In the correction each action must count with its probability π(a).": slopes - taken + guess - pi * guess.sum(),
        "You give back b(a) π(a), but that is not a score times b: each term needs the score of its own action.":
            slopes - taken + pi * guess,
        "The whole estimate has the wrong sign.": -slopes,
    })  # fmt: skip
    raise Wrong(
        f"With π = {numbers(pi)}, pay {numbers(pays)} and b = {numbers(guess)} the mean of your estimate over the actions is "
        f"{numbers(mean)}. It depends on b: with b = 0 everywhere it is another. The gradient of the expected pay does not know "
        "b."
    )


# ----------------------------------------------------------------------------------------------------- biased or unbiased

REASONS = {
    "G_t - V(s_t)": "V(s_t) is known before a_t is drawn.",
    "G_t - V(s_t+1)": "s_t+1 is known only after a_t is drawn, and depends on it.",
    "G_t - r_t-1": "The previous reward is paid before a_t is drawn.",
    "G_t - r_t": "r_t is paid for a_t itself.",
    "r_t + gamma V(s_t+1)": "Given s_t and a_t, its mean is Q(s_t, a_t), as that of G_t.",
    "G_t - t": "The time is known before a_t is drawn.",
    "G_t - length of the episode": "How long the episode will be depends on a_t.",
    "G_t - return of another episode": "Another episode knows nothing about a_t.",
}


def _weights_to_judge():
    """Each estimator's exact mean in a listed world, (8,), and the gradient."""
    rng = np.random.default_rng(1067)
    world = random_mdp(rng, 4, 2, gamma=0.9, end_probability=0.2, forward_only=True)
    theta = torch.tensor(rng.standard_normal((4, 2)))
    pi = softmax_policy(theta)
    every, probability = enumerate_trajectories(world, pi)
    P, to_go, value = probability.numpy(), every.returns_to_go(0.9), world.values(pi).numpy()
    row = {(e, t): i for i, (e, t) in enumerate(zip(every.episode, every.time, strict=True))}
    after = [row.get((e, t + 1), -1) for e, t in zip(every.episode, every.time, strict=True)]
    before = [row.get((e, t - 1), -1) for e, t in zip(every.episode, every.time, strict=True)]
    next_value = np.append(value[every.state], 0.0)[after]
    weights = dict(zip(REASONS, (
        to_go - value[every.state], to_go - next_value, to_go - np.append(every.reward, 0.0)[before], to_go - every.reward,
        every.reward + 0.9 * next_value, to_go - every.time, to_go - np.bincount(every.episode)[every.episode],
        to_go - P @ every.returns(0.9),
    ), strict=True))  # fmt: skip
    score = score_table(softmax_policy, theta)
    estimates = {name: gradient_estimates(every, 0.9**every.time * w, score) for name, w in weights.items()}
    means = {name: np.tensordot(P, each, 1).ravel() for name, each in estimates.items()}
    slopes = finite_difference_gradient(lambda x: world.expected_return(softmax_policy(x)), theta)
    return means, slopes.numpy().ravel()


@exercise("01.5", "Biased or unbiased?", kind="predict", level=2, minutes=15)
def biased_or_unbiased(answer):
    guess = entries(answer, REASONS, lambda name, value: word(value, {"biased": True, "unbiased": False}))
    means, gradient = _weights_to_judge()
    wrong = [name for name, mean in means.items() if guess[name] == close(mean, gradient, 1e-7)]
    if wrong:
        mean = means[wrong[0]]
        if guess[wrong[0]]:
            what = "the exact mean over all 80 trajectories *is* the gradient."
        else:
            cosine = mean @ gradient / np.linalg.norm(mean) / np.linalg.norm(gradient)
            what = (
                f"the exact mean over all 80 trajectories is {np.linalg.norm(mean) / np.linalg.norm(gradient):.2f} times as long "
                f"as the gradient and {np.degrees(np.arccos(cosine)):.0f}° off."
            )
        raise Wrong(f"“{wrong[0]}”: {what} Ask when the number is known: before a_t is drawn, or after? ({len(wrong)} to go.)")
    return "All eight as computed over all 80 trajectories.\n" + "\n".join(f"{name}: {why}" for name, why in REASONS.items())


# ---------------------------------------------------------------------------------------------------------- gamma to the t


@exercise("01.6", "A reviewer and γ^t", kind="explain", level=2, minutes=15)
def reviewer(answer):
    return explained(
        answer,
        [
            "The reviewer is right about the theorem: the gradient of the discounted return from the start has γ^t in front of "
            "each step, and the code leaves it out.",
            "So the arrow that the code follows is biased for that objective; and it is the gradient of no objective at all (its "
            "Jacobian is not symmetric).",
            "Why one does it: with the factor, late steps hardly count (0.99^500 is 0.7 %), and one wants to act well at every "
            "step. γ serves as a knob that trades bias for noise.",
            "When it is harmless and when not: with one block of parameters per state the angle stays below 90°; with shared "
            "parameters and conflicts between early and late steps the sign can turn.",
            "What you would do: say it in the paper, judge by the undiscounted return, and check on a small world or with the "
            "factor put in.",
        ],
    )
