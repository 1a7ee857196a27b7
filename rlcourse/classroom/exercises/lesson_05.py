"""Exercises of lesson 05: the clip in nats, padded sequences, a baseline from the others, k3, what PPO's settings do."""

from itertools import product

import numpy as np
import torch
from scipy import optimize, special

from rlcourse.agents.ppo import PPO
from rlcourse.agents.training import iterate
from rlcourse.classroom.exercises import (
    NotAttempted,
    Wrong,
    array,
    close,
    entries,
    exercise,
    explained,
    number,
    numbers,
    recognise,
    run,
    word,
)

f64 = torch.float64

# --------------------------------------------------------------------------------------------------- 05.1 the clip in nats


def edge_by_search(p_old, advantage, epsilon):
    """The probability at which the slope of min(ρA, clip(ρ)A) vanishes, found by looking at the slope; None if nowhere."""

    def flat(p):
        def value(p):
            ratio = p / p_old
            return min(ratio * advantage, np.clip(ratio, 1 - epsilon, 1 + epsilon) * advantage)

        return value(p + 1e-9) == value(p - 1e-9)

    end = 1 - 1e-7 if advantage > 0 else 1e-7
    if not flat(end):
        return None
    return optimize.bisect(lambda p: flat(p) - 0.5, p_old, end, xtol=1e-12)


def coin_kl(old, new):
    return special.rel_entr([old, 1 - old], [new, 1 - new]).sum()


@exercise("05.1", "How far, in nats?", kind="derive", level=2, minutes=20)
def kl_at_the_edge(answer):
    found = []
    for p_old, advantage, epsilon in ((0.5, 2.0, 0.2), (0.5, -1.0, 0.2), (0.01, 1.0, 0.2), (0.8, -3.0, 0.1), (0.9, 1.0, 0.2)):
        try:
            got = float(run(answer, p_old, advantage, epsilon))
        except (TypeError, ValueError):
            raise Wrong("Your function should return one number, or np.inf.") from None
        except NotAttempted:
            if found:
                raise Wrong(
                    f"p_old = {p_old}, A = {advantage:g}: yours returned None. A number, or np.inf if it never happens."
                ) from None
            raise
        edge = edge_by_search(p_old, advantage, epsilon)
        found.append(np.inf if edge is None else coin_kl(p_old, edge))
        if got == found[-1] or (edge is not None and abs(got - found[-1]) <= 1e-5 * found[-1]):
            continue
        where = f"p_old = {p_old}, A = {advantage:g}, ε = {epsilon}: yours is {got:.4g}"
        raise Wrong(f"{where}. {_nats_fault(got, p_old, advantage, epsilon, edge)}")
    return (
        f"Equal to what a search for the flat part finds. Compare your own numbers for A > 0, ε = 0.2: {found[2]:.2g} nats for "
        f"p_old = 0.01, {found[0]:.2g} for 0.5, no end at all for 0.9. One ε, and no trust region."
    )


def _nats_fault(got, p_old, advantage, epsilon, edge):
    if edge is None:
        return "But this sample's gradient never vanishes: which ratio would it need, and can a probability do that?"
    up, down = (1 + epsilon) * p_old, (1 - epsilon) * p_old
    mistakes = {
        "That is the KL the wrong way round, D(new ‖ old).": coin_kl(edge, p_old),
        "You counted the sampled action only; the other one changes, too.": p_old * np.log(p_old / edge),
        "ε²/2 is a rule of thumb for p_old = 0.5 and small ε; asked for is the KL itself.": epsilon**2 / 2,
        "That is the KL at the other end of the interval: does a good action stop pushing when it has become likelier, or "
        "less likely?": (coin_kl(p_old, down if advantage > 0 else up) if up < 1 else np.nan),
        "You moved the probability by ε; the clip is on the ratio.": coin_kl(
            p_old, min(p_old + np.sign(advantage) * epsilon, 0.999999)
        ),
    }
    for text, value in mistakes.items():
        if abs(got - value) < 1e-5 * abs(value):
            return text
    if got < 0:
        return "A KL is never negative."
    return f"Walking p away from {p_old} until this sample's slope is 0 and measuring the KL there gives another number."


# ---------------------------------------------------------------------------------------------- 05.2 the loss on sequences


def _by_ceiling(ratio, advantage, epsilon):
    """The clipped objective without a clip: min(ρA, A + ε|A|)."""
    return np.minimum(ratio * advantage, advantage + epsilon * np.abs(advantage))


def _loss(answer, log_prob, old, advantage, mask, epsilon=0.2):
    """(value, gradient in log_prob) of the learner's loss."""
    leaf = log_prob.clone().requires_grad_()
    loss = run(lambda: answer(leaf, old.clone(), advantage.clone(), mask.clone(), epsilon))
    if not isinstance(loss, torch.Tensor):
        raise Wrong(f"The loss must be a torch tensor that can be differentiated; this is a {type(loss).__name__}.")
    if loss.shape != ():
        raise Wrong(f"The loss must be one number; yours has shape {tuple(loss.shape)}.")
    if not loss.requires_grad:  # right, for example, for a single token beyond the clip
        return loss.item(), torch.zeros_like(leaf)
    (slope,) = torch.autograd.grad(loss, leaf, allow_unused=True)
    return loss.item(), torch.zeros_like(leaf) if slope is None else slope


@exercise("05.2", "PPO's loss on padded answers", kind="implement", level=3, minutes=35)
def token_loss(answer):
    if not callable(answer):
        run(answer)
    _six_cases(answer)
    _mean_over_tokens(answer)
    _padding(answer)
    _ratio_one(answer)
    _overflow(answer)
    return "Six cases, mean over the real tokens, padding without influence, policy gradient at ratio 1, finite at log-ratio 100."


RATIOS, ADVANTAGES = np.array([0.5, 1.1, 1.5] * 2), np.array([2.0] * 3 + [-2.0] * 3)  # the six cases


def _six_cases(answer):
    one = torch.ones(1, 1, dtype=f64)
    pairs = [
        _loss(answer, np.log(ratio) * one, 0 * one, advantage * one, one > 0)
        for ratio, advantage in zip(RATIOS, ADVANTAGES, strict=True)
    ]
    value, slope = np.array([value for value, _ in pairs]), np.array([slope.item() for _, slope in pairs])
    above, below = (-_by_ceiling(RATIOS * np.exp(h), ADVANTAGES, 0.2) for h in (1e-6, -1e-6))
    off = np.abs(value + _by_ceiling(RATIOS, ADVANTAGES, 0.2)) + np.abs(slope - (above - below) / 2e-6) > 1e-6
    if off.any():
        case = int(off.argmax())
        raise Wrong(
            f"Case {case + 1}: one token with ratio {RATIOS[case]} and A = {ADVANTAGES[case]:g}, ε = 0.2. Your loss is "
            f"{value[case]:.4g}, its slope in log π is {slope[case]:.4g}. {_case_fault(value, slope)}"
        )


def _case_fault(value, slope):
    plain, clipped = RATIOS * ADVANTAGES, np.clip(RATIOS, 0.8, 1.2) * ADVANTAGES
    known = {
        "The value is right, the slope cannot be. Is something detached that must not be?"
        if slope.any()
        else "Your loss carries no gradient: is the ratio detached, or turned into NumPy?": np.minimum(plain, clipped),
        "That is the objective itself; a loss is minimised.": -np.minimum(plain, clipped),
        "It has moved the wrong way and nothing pulls it back: is that the clip without the min?": clipped,
        "There is no clip to be seen in any of the six cases.": plain,
        "You take the more optimistic of the two; the bound is pessimistic.": np.maximum(plain, clipped),
        "For bad actions the flat part is on the wrong side: is A inside the min?": np.minimum(RATIOS, np.clip(RATIOS, 0.8, 1.2))
        * ADVANTAGES,
    }
    return next((text for text, objective in known.items() if close(value, -objective)), "min(ρA, clip(ρ)A) is another number.")


def _mean_over_tokens(answer):
    rng = np.random.default_rng(52)
    log_prob, advantage = (torch.tensor(0.1 * rng.standard_normal((2, 4))) for _ in range(2))
    mask = torch.tensor([[True, True, True, True], [True, False, False, False]])
    value, _ = _loss(answer, log_prob, 0 * log_prob, advantage, mask, epsilon=0.05)
    each, other = (_by_ceiling(log_prob.exp().numpy(), advantage.numpy(), epsilon) for epsilon in (0.05, 0.2))
    real = each[mask.numpy()]
    if abs(value + real.mean()) < 1e-9:
        return
    where = "Two answers, of 4 tokens and of 1 token (3 padded)."
    mistakes = {
        "Here ε is 0.05, and you clip at 0.2.": other[mask.numpy()].mean(),
        "You divide by the number of places, padding included: the more padding, the smaller the step.": real.sum() / 8,
        "You average over all places, also the padded ones.": each.mean(),
        "That is a sum; the step would grow with the length of the answers.": real.sum(),
        "You average within each answer first. Then the only token of the short answer counts as much as all four of the "
        "long one.": ((each[0].mean() + each[1, 0]) / 2),
        "Sum within each answer, mean over answers: the step then grows with the length of the answers.": real.sum() / 2,
        "Your mask is the wrong way round: True is a real token.": each[~mask.numpy()].mean(),
    }
    for text, found in mistakes.items():
        if abs(value + found) < 1e-9:
            raise Wrong(f"{where} {text}")
    raise Wrong(f"{where} Your loss is {value:.4g}, which is not minus the mean of the five real tokens' terms.")


def _padding(answer):
    bad = (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf))
    mask = torch.tensor([[True, True], [True, False]])
    real = torch.tensor([[0.1, -0.1], [0.05, 0.0]], dtype=f64), torch.zeros(2, 2, dtype=f64), torch.ones(2, 2, dtype=f64)
    names = "log_prob", "old_log_prob", "advantage"
    for (name, junk), where in product(bad, (names, *((one,) for one in names))):
        padded = [torch.where(mask, x, junk) if arg in where else x for arg, x in zip(names, real, strict=True)]
        value, slope = _loss(answer, *padded, mask)
        place = f"With {name} in a padded place of {' and '.join(where)}"
        if not np.isfinite(value):
            raise Wrong(f"{place} the loss is {value}: 0 · {name} is NaN. Do not multiply it away; leave it out.")
        if not torch.isfinite(slope).all():
            raise Wrong(
                f"{place} the loss is fine, but the gradient holds NaN: backpropagation goes through the padded place all the "
                "same. Replace it before the first operation."
            )
        if slope[1, 1] != 0:
            raise Wrong("The padded place has a gradient.")


def _ratio_one(answer):
    rng = np.random.default_rng(53)
    log_prob, advantage = -torch.tensor(rng.random((3, 5))), torch.tensor(rng.standard_normal((3, 5)))
    mask = torch.tensor(rng.random((3, 5)) < 0.7)
    _, slope = _loss(answer, log_prob, log_prob, advantage, mask)
    wanted = torch.where(mask, -advantage, 0.0) / mask.sum()
    if not close(slope.numpy(), wanted.numpy(), 1e-9):
        raise Wrong(
            "At ratio 1 the gradient must be that of −mean(log π · A) over the real tokens; yours begins with "
            f"{numbers(slope.flatten()[:3].numpy())}. Do advantages and tokens still belong together?"
        )


def _overflow(answer):
    ones = torch.ones(1, 2)
    yes = torch.ones(1, 2, dtype=torch.bool)
    value, slope = _loss(answer, torch.tensor([[100.0, 0.01]]), 0 * ones, ones, yes)
    if not np.isfinite(value) or not torch.isfinite(slope).all():
        what = "gradient is NaN" if np.isfinite(value) else f"loss is {value}"
        raise Wrong(
            f"float32, one token with log-ratio 100 and A > 0 beside a normal one: the {what}. exp overflows; `min` picks the "
            "right branch and backpropagation still multiplies 0 by infinity (step 7)."
        )
    _, slope = _loss(answer, torch.tensor([[50.0, 0.01]]), 0 * ones, -ones, yes)
    wanted = 0.5 * np.exp(50.0)
    if abs(slope[0, 0].item() / wanted - 1) > 1e-3:
        raise Wrong(
            f"A bad token that has become exp(50) times as likely (case 6): its gradient is {slope[0, 0].item():.3g}, and must "
            "still pull it back, in proportion to its ratio. Is your bound on the log-ratio too tight?"
        )


# ------------------------------------------------------------------------------------------------- 05.3 a baseline from others


@exercise("05.3", "A baseline from the others", kind="implement", level=2, minutes=20)
def leave_one_out(answer):
    rewards = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    with np.errstate(all="ignore"):
        got = array("the advantages", run(answer, rewards), (3, 4), finite=False)
    if np.isfinite(got[:2]).all() and not np.isfinite(got[2]).any():
        raise Wrong("A group of four right answers gives NaN, 0/0. Is there a division by the std? A baseline only subtracts.")
    others = rewards.sum(1, keepdims=True) - rewards
    recognise(got, {
        "You divide the sum of the others by G; but how many others are there?": rewards - others / 4,
        "That is the baseline itself; it must come off the reward.": others / 3,
    })  # fmt: skip
    got = array("the advantages", got)
    mixed = "You compare answers to different questions: axis 0 holds the questions, axis 1 the answers of one question."
    recognise(got, {mixed: rewards - rewards.mean(0), f"{mixed} ": (3 * rewards - rewards.sum(0)) / 2})
    if not close(got[2], 0 * got[2]):
        raise Wrong(
            f"A group of four right answers teaches nothing: its advantages should be 0, yours are {numbers(got[2])}. Does a "
            "baseline come off at all, and from the same group?"
        )
    shifted = array("the advantages", run(answer, rewards + 5), (3, 4))
    if not close(shifted, got):
        raise Wrong("Add 5 to every reward, and your advantages change. A baseline must take that off.")
    alone = array("the advantages", run(answer, rewards[:1]), (1, 4))
    if not close(alone[0], got[0]):
        raise Wrong("The first question gets other advantages when it is alone in the batch: groups are mixed. Which axis is G?")
    tenfold = array("the advantages", run(answer, 10 * rewards), (3, 4))
    if not close(tenfold, 10 * got):
        raise Wrong(
            "Ten times the reward must be ten times the advantage; yours does not scale. Is there a division by the std? It "
            "gives each question a weight of its own."
        )
    for group, p in product((2, 4), (0.1, 0.5, 0.9)):
        mean = expected_gradient(answer, group, p)
        share = mean / (p * (1 - p))
        if abs(share - 1) > 1e-6:
            known = {
                1 - 1 / group: "R_i is part of its own baseline.",
                group - 1.0: "Sum of the others, or mean of the others?",
                -1.0: "The sign.",
                (1 - 1 / group) ** 2: "The factor that should repair it was put the wrong way round.",
            }
            hint = next((text for factor, text in known.items() if abs(share - factor) < 1e-6), "")
            raise Wrong(
                f"Groups of {group}, success probability {p}: averaged over all {2**group} outcomes, the gradient is "
                f"{share:.4g} times the true one. {hint}"
            )
    three = array("the advantages", run(answer, np.array([[3.0, 0.0]])), (1, 2))
    return (
        f"Unbiased for groups of 2 and 4 (all outcomes enumerated). With two answers it is the difference: {numbers(three[0])} "
        "for rewards 3 and 0."
    )


def expected_gradient(answer, group, p):
    """Mean over all outcomes of (1/G) Σ_i Â_i d log π_i/dθ for p = sigmoid(θ): the true gradient is p(1 − p)."""
    outcomes = np.array(list(product((0.0, 1.0), repeat=group)))
    chance = np.where(outcomes == 1, p, 1 - p).prod(1)
    advantage = array("the advantages", run(answer, outcomes), outcomes.shape)
    return float((chance * (advantage * (outcomes - p)).mean(1)).sum())


# -------------------------------------------------------------------------------------------- 05.4 the noise taken off k1


def std_of_estimate(p_old, p_new, c):
    """Standard deviation of −log ρ + c(ρ − 1) over actions of the old policy, exact."""
    ratio = p_new / p_old
    estimate = -np.log(ratio) + c * (ratio - 1)
    return np.sqrt((p_old * (estimate - (p_old * estimate).sum()) ** 2).sum())


@exercise("05.4", "Why k3? The noise of k1, taken off", kind="derive", level=3, minutes=25)
def best_factor(answer):
    factors = []
    for p_old, p_new in (
        ([0.2, 0.3, 0.5], [0.21, 0.3, 0.49]),
        ([0.05, 0.95], [0.5, 0.5]),
        ([0.5, 0.5], [0.05, 0.95]),
        ([0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.2, 0.3]),
    ):
        p_old, p_new = np.array(p_old), np.array(p_new)
        c = number("the factor c", run(answer, p_old, p_new))
        best = optimize.minimize_scalar(lambda c, p=p_old, q=p_new: std_of_estimate(p, q, c) ** 2).x  # a parabola in c
        factors.append(best)
        if abs(c - best) > 1e-5 * abs(best):
            raise Wrong(
                f"π_old = {numbers(p_old)}, π_θ = {numbers(p_new)}: your c = {c:.4g} gives the standard deviation "
                f"{std_of_estimate(p_old, p_new, c):.4g}, and a {'larger' if best > c else 'smaller'} c gives less. "
                f"{_factor_fault(c, p_old, p_new)}"
            )
    near, common, rare = factors[:3]
    return (
        f"No other c gives less noise, for four pairs of policies. Near the old policy it is {near:.2f}; where a rare action "
        f"has become common {common:.2f}, where a common one has become rare {rare:.2f}. k3 takes 1, and need not know the "
        "policies."
    )


def _factor_fault(c, p_old, p_new):
    log, change = np.log(p_new / p_old), p_new / p_old - 1
    same = np.full_like(log, 1 / len(log))
    known = {
        "The sign: what would it take to cancel −log ρ?": -_regression(log, change, p_old),
        "That is k3 itself; near the old policy it is good, but not the best.": 1.0,
        "Samples come from the old policy; you averaged over the new one's.": _regression(log, change, p_new),
        "You averaged over the list of actions, not over samples of π_old.": _regression(log, change, same),
        "You divided by the variance of log ρ: regression of what on what?": _regression(change, log, p_old),
        "Samples come from the old policy; you took all means over the new one.": (p_new * log * change).sum()
        / (p_new * change**2).sum(),
        "You added over the list of actions; a mean over samples of π_old weighs them.": (log * change).sum() / (change**2).sum(),
        "In your formula ρ is π_old/π_θ. It is the other way round.": -(p_old * log * (p_old / p_new - 1)).sum()
        / (p_old * (p_old / p_new - 1) ** 2).sum(),
        "The covariance is only a part of it: E[ρ log ρ] − E[log ρ], two terms.": (p_new * log).sum() / (p_old * change**2).sum(),
        "Look at the parabola again: where is a + 2bc + dc² lowest? There is a factor 2.": _regression(log, change, p_old) * 2,
        "Look at the parabola again: where is its slope 2b + 2dc equal to 0?": _regression(log, change, p_old) / 2,
    }
    return next((text for text, value in known.items() if abs(c - value) < 1e-6 * abs(value)), "")


def _regression(y, x, weights):
    """Slope of the best straight line through (x, y) with these weights."""
    x, y = x - (weights * x).sum(), y - (weights * y).sum()
    return (weights * x * y).sum() / (weights * x * x).sum()


# ------------------------------------------------------------------------------------------------------- 05.5 which settings


KNOBS = {
    "clip_epsilon=0.01": {"clip_epsilon": 0.01},
    "value_clip=0.01": {"value_clip": 0.01},
    "num_minibatches=2": {"num_minibatches": 2},
    "target_kl=1e-9": {"target_kl": 1e-9},
    "update_epochs=2": {"update_epochs": 2},
    "update_epochs=2, target_kl=1e-9": {"update_epochs": 2, "target_kl": 1e-9},
}
ASK = {
    "clip_epsilon=0.01": "How large is each ratio at the moment when the only gradient of an update is taken?",
    "value_clip=0.01": "How far is the critic from its old prediction at the moment when the only gradient of an update is "
    "taken?",
    "num_minibatches=2": "What are the ratios when the second minibatch has its turn?",
    "target_kl=1e-9": "When is the KL measured, and what is there left to stop?",
    "update_epochs=2": "What are the ratios, and the critic, in the second epoch?",
    "update_epochs=2, target_kl=1e-9": "What is the KL after the first epoch, and what happens then?",
}


def parameters_after_two_updates(**changes):
    """All parameters of PPO on CartPole with one epoch of one minibatch, and these changes."""
    settings = {
        "num_envs": 4,
        "num_steps": 16,
        "hidden_sizes": (16,),
        "learning_rate": 0.003,
        "num_minibatches": 1,
        "update_epochs": 1,
        "normalize": "batch",
    }
    *_, state = iterate(PPO(**settings | changes), "CartPole-v1", total_steps=2 * 64, seeds=[0], dtype=f64)
    return state.agent.parameters.detach()


@exercise("05.5", "Which settings still turn?", kind="predict", level=2, minutes=15)
def which_settings(answer):
    guesses = entries(answer, KNOBS, lambda name, value: word(value, {"same": True, "different": False}))
    base = parameters_after_two_updates()
    off = {name: (parameters_after_two_updates(**change) - base).abs().max().item() for name, change in KNOBS.items()}
    missed = [name for name, same in guesses.items() if same != (off[name] < 1e-10)]
    if missed:
        raise Wrong(
            f"I ran all six: {len(missed)} of your guesses {'is' if len(missed) == 1 else 'are'} contradicted. One of them is "
            f"{missed[0]}. {ASK[missed[0]]}"
        )
    apart = min(value for value in off.values() if value > 1e-10)
    return f"I ran all six, two updates each: the same parameters where you said so, else at least {apart:.1g} apart."


# ------------------------------------------------------------------------------------------------------------ 05.6 explain


@exercise("05.6", "“The ratio is always 1, so PPO does nothing”", kind="explain", level=1, minutes=15)
def always_one(answer):
    return explained(
        answer,
        [
            "In the first minibatch after collecting, the ratio must be 1: the policy has not moved. It is the test that the "
            "old log-probabilities are right.",
            "A value of 1 is not a gradient of 0: ∇ρ = ρ ∇log π, so at ratio 1 the gradient is exactly the policy gradient "
            "E[A ∇log π]. The loss's value, −mean(A), says nothing.",
            "After the first step the ratios move; in later minibatches and epochs they differ from 1, and the clip begins to "
            "act.",
            "When it IS a fault: ratio 1 in all minibatches of all epochs. Then the old log-probability is recomputed with "
            "the present policy, or the optimiser does not change the network that is asked.",
            "With one epoch and one minibatch it is always 1, without any fault: that is A2C.",
        ],
        words=60,
    )
