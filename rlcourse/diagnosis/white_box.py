"""Examinations of single functions (hooks): small inputs whose answers are known by another route than our own formulas.

The known answers come from double sums, enumeration, closed forms of NumPy and SciPy, quadrature and linear algebra, never from
`rlcourse.equations`: a function that is compared with itself is always right.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy  # its parts are loaded when first used
import torch

from rlcourse.diagnosis.examination import EXACT, HINT, LIKELY, Refusal, as_array, examination, listed, same, show


@dataclasses.dataclass(kw_only=True)
class Hooks:
    """Functions of your program for `diagnose` to examine. Each is optional; what is missing is listed as not examined.

    Estimates, on NumPy arrays of shape (T,), flags bool:
        gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda) → (advantages, value_targets);
            next_values[t] is V of the true successor of step t
        discounted_returns(rewards, gamma, ends, bootstrap) → (T,); `ends`: the episode stops after t, `bootstrap`: the
            value of what follows there
        normalize_advantages(advantages) → like advantages

    Losses to minimise, on torch tensors of shape (B,), float64 → a scalar tensor:
        policy_gradient_loss(log_prob, advantage)
        policy_loss(log_prob, old_log_prob, advantage, clip_epsilon)
        value_loss(value, value_target)
        total_loss(logits, action, old_log_prob, advantage, value, value_target, clip_epsilon, value_coef, entropy_coef);
            logits (B, n), action (B,) int64
        own_batch() → (policy's loss on any batch of yours, list of the policy's parameters, list of the critic's)

    Distributions, on tensors: mean, log_std, action (B, A); logits (B, n) → (B,):
        log_prob(mean, log_std, action), entropy(mean, log_std), kl(mean, log_std, new_mean, new_log_std) = KL(first ‖ new)
        squashed_log_prob(mean, log_std, pre_tanh, low, high): density of low + (high − low)(tanh(u) + 1)/2
        categorical_log_prob(logits, action), categorical_entropy(logits), categorical_kl(logits, new_logits)
        kl_estimate(log_prob, old_log_prob) → (B,), per sample, for actions drawn from the old policy

    Trust region, on vectors (n,), tensors:
        fisher_vector_product(net, obs, v, damping) → (n,); net: a torch.nn.Module, obs (B, d) → logits (B, k)
        conjugate_gradient(matvec, b) → x
        line_search(evaluate, max_kl) → fraction of the step, 0 if refused; evaluate(fraction) → (improvement, kl)

    Data:
        rollout(env_fn, num_steps, seed, value) → dict of arrays (T, N, …): obs, action, reward, terminated, truncated,
            value, next_value; `value` is the critic to use, a function of obs (B, d) → (B,). Rows that are no transitions
            (resets) may be marked with a bool array `valid`
        reload(act) → act, the policy saved and loaded again
    """

    gae: Callable | None = None
    discounted_returns: Callable | None = None
    normalize_advantages: Callable | None = None
    policy_gradient_loss: Callable | None = None
    policy_loss: Callable | None = None
    value_loss: Callable | None = None
    total_loss: Callable | None = None
    own_batch: Callable | None = None
    log_prob: Callable | None = None
    entropy: Callable | None = None
    kl: Callable | None = None
    squashed_log_prob: Callable | None = None
    categorical_log_prob: Callable | None = None
    categorical_entropy: Callable | None = None
    categorical_kl: Callable | None = None
    kl_estimate: Callable | None = None
    fisher_vector_product: Callable | None = None
    conjugate_gradient: Callable | None = None
    line_search: Callable | None = None
    rollout: Callable | None = None
    reload: Callable | None = None

    def __post_init__(self):
        for name, function in self.given().items():
            if not callable(function):
                raise TypeError(f"Hooks({name}={function!r}): expected a function, or None.")

    def given(self):
        """The hooks that are there, name → function."""
        return {field.name: value for field in dataclasses.fields(self) if (value := getattr(self, field.name)) is not None}


def tensor(numbers, grad=False):
    return torch.tensor(np.array(numbers, dtype=float), requires_grad=grad)


# ------------------------------------------------------------------------------------------------------------- estimates


def ask_gae(ask, rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """(advantages, targets) from the learner's gae, and the question in words."""
    numbers = [np.array(x, dtype=float) for x in (rewards, values, next_values)]
    flags = [np.array(x, dtype=bool) for x in (terminated, truncated)]
    answer = ask("gae", *numbers, *flags, gamma, gae_lambda)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Refusal("gae must return (advantages, value_targets)")
    question = f"rewards {show(numbers[0])}, V {show(numbers[1])}, V(next) {show(numbers[2])}"
    for name, flag in zip(("terminated", "truncated"), flags, strict=True):
        if flag.any():
            question += f", {name} at t = {', '.join(map(str, np.flatnonzero(flag)))}"
    shape = (len(rewards),)
    arrays = [as_array(f"gae ({which})", x, shape) for which, x in zip(("Â", "targets"), answer, strict=True)]
    return *arrays, f"{question}, γ = {gamma:g}, λ = {gae_lambda:g}"


def advantages_by_sums(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """Â_t = Σ_k (γλ)^k δ_{t+k} over the rest of the episode, one sum for each t."""
    T = len(rewards)
    delta = [rewards[t] + (0 if terminated[t] else gamma * next_values[t]) - values[t] for t in range(T)]
    ends = [k for k in range(T) if terminated[k] or truncated[k] or k == T - 1]
    last = [min(k for k in ends if k >= t) for t in range(T)]
    return np.array([sum((gamma * gae_lambda) ** (k - t) * delta[k] for k in range(t, last[t] + 1)) for t in range(T)])


NO, YES = [False], [True]


@examination("advantages: order", "gae", suspects=("order", "discount"))
def advantages_in_order(ask):
    zeros, no = [0.0] * 3, [False] * 3
    for rewards, expected in (([8, 0, 0], [8, 0, 0]), ([0, 0, 8], [2, 4, 8])):
        got, _, question = ask_gae(ask, rewards, zeros, zeros, no, no, 0.5, 1.0)
        if not same(got, expected):
            turned = same(got[::-1], expected)
            weights = {"order": EXACT} if turned else {"discount": LIKELY, "order": LIKELY}
            yield weights, f"{question}: expected Â = {show(expected)}, got {show(got)}{', the reverse' * turned}"
            return


@examination("advantages: γ and λ", "gae", suspects=("discount",))
def advantages_discounted(ask):
    for gamma, lam, expected in ((1.0, 0.5, [2, 4, 8]), (0.5, 0.5, [0.5, 2, 8]), (0.5, 1.0, [2, 4, 8]), (1.0, 0.0, [0, 0, 8])):
        got, _, question = ask_gae(ask, [0, 0, 8], [0.0] * 3, [0.0] * 3, NO * 3, NO * 3, gamma, lam)
        if not same(got, expected) and not same(got[::-1], expected):
            yield {"discount": LIKELY * 2}, f"{question}: expected Â = {show(expected)}, got {show(got)}"
            break
    for gamma, lam in ((0.5, 1.0), (1.0, 0.5)):
        got, _, question = ask_gae(ask, [1], [3], [8], NO, NO, gamma, lam)
        if not same(got, [expected := 1 + gamma * 8 - 3]):
            weights = {"discount": LIKELY * 2, "truncation": HINT, "critic": HINT}
            yield weights, f"{question}: expected Â = {show(expected)}, got {show(got[0])}"
            return


@examination("advantages: a terminated step", "gae", suspects=("termination",))
def advantage_terminated(ask):
    got, _, question = ask_gae(ask, [1], [0.5], [40], YES, NO, 0.5, 0.5)
    if not same(got, [0.5]):
        through = same(got, [20.5]) or same(got, [40.5])
        yield {"termination": EXACT if through else LIKELY}, f"{question}: expected Â = 0.5, got {show(got[0])}"


@examination("advantages: a truncated step", "gae", suspects=("truncation",))
def advantage_truncated(ask):
    got, _, question = ask_gae(ask, [1], [0.5], [4], NO, YES, 0.5, 0.5)
    if not same(got, [2.5]):
        masked = same(got, [0.5])
        yield {"truncation": EXACT if masked else LIKELY}, f"{question}: expected Â = 1 + 0.5·4 − 0.5 = 2.5, got {show(got[0])}"
    got, _, question = ask_gae(ask, [1], [0.5], [40], YES, YES, 0.5, 0.5)
    if not same(got, [0.5]):
        yield {"termination": LIKELY, "truncation": LIKELY}, f"{question}: termination wins, Â = 0.5, got {show(got[0])}"


@examination("advantages: nothing leaks across an end", "gae", suspects=("leak",))
def advantages_do_not_leak(ask):
    for terminated, truncated in (([True, False], NO * 2), (NO * 2, [True, False])):
        got, _, question = ask_gae(ask, [0, 8], [0, 0], [0, 0], terminated, truncated, 0.5, 1.0)
        if not same(got, [0, 8]) and not same(got, [8, 0]):
            leaked = same(got[1], 8)
            yield {"leak": EXACT if leaked else LIKELY}, f"{question}: expected Â = [0, 8], got {show(got)}"
            return
    got, _, question = ask_gae(ask, [0, 8, 0], [0] * 3, [0] * 3, [False, True, False], NO * 3, 0.5, 1.0)
    if not same(got, [4, 8, 0]):
        yield {"leak": LIKELY, "order": HINT}, f"{question}: expected Â = [4, 8, 0], got {show(got)}"


@examination("advantages: value targets", "gae", suspects=("critic",))
def targets_are_advantage_plus_value(ask):
    got, targets, question = ask_gae(ask, [1, 2], [3, 5], [5, 6], NO * 2, NO * 2, 0.5, 0.5)
    if not same(targets, expected := got + [3, 5]):
        yield {"critic": EXACT}, f"{question}: expected targets Â + V = {show(expected)}, got {show(targets)}"


@examination("advantages: twenty random steps", "gae", suspects=("discount", "leak", "order"))
def advantages_at_random(ask):
    rng = np.random.default_rng(0)
    numbers, flags = rng.normal(size=(3, 20)).round(2), rng.random((2, 20)) < 0.15
    goes_on = ~flags.any(0)[:-1]
    numbers[2, :-1][goes_on] = numbers[1, 1:][goes_on]  # within an episode the next value is the value of the next step
    expected = advantages_by_sums(*numbers, *flags, 0.9, 0.8)
    got, _, _ = ask_gae(ask, *numbers, *flags, 0.9, 0.8)
    if not same(got, expected):
        t = int(np.argmax(np.abs(got - expected)))
        text = f"20 random steps, γ = 0.9, λ = 0.8: at t = {t} expected Â = {show(expected[t])}, got {show(got[t])}"
        yield {"discount": HINT, "leak": HINT, "order": HINT}, text


@examination("returns", "discounted_returns", suspects=("order", "discount", "leak"))
def returns_by_hand(ask):
    def asked(rewards, ends, bootstrap):
        arrays = np.array(rewards, float), 0.5, np.array(ends), np.array(bootstrap, float)
        return ask.array("discounted_returns", *arrays, shape=(len(rewards),))

    got = asked([0, 0, 8], [False, False, True], [0, 0, 0])
    if not same(got, [2, 4, 8]):
        weights = {"order": EXACT} if same(got[::-1], [2, 4, 8]) else {"discount": 2 * LIKELY, "order": LIKELY}
        yield weights, f"rewards [0, 0, 8], γ = 0.5: expected returns [2, 4, 8], got {show(got)}"
        return
    got = asked([0, 8], [True, True], [0, 0])
    if not same(got, [0, 8]):
        yield {"leak": EXACT}, f"two episodes of one step, rewards [0, 8]: expected returns [0, 8], got {show(got)}"
    got = asked([1], [True], [4])
    if not same(got, [3]):
        weights = {"truncation": EXACT} if same(got, [1]) else {"discount": LIKELY, "truncation": LIKELY}
        weights = {"discount": EXACT} if same(got, [5]) else weights
        yield weights, f"reward 1, cut where the next value is 4, γ = 0.5: expected return 3, got {show(got[0])}"
    got = asked([0, 1], [False, True], [40, 0])
    if not same(got, [0.5, 1]):
        yield {"termination": LIKELY, "leak": LIKELY}, f"rewards [0, 1], the end at t = 1: expected [0.5, 1], got {show(got)}"


@examination("normalised advantages", "normalize_advantages", suspects=("normalization",))
def normalised_by_hand(ask):
    asked = lambda x: ask.array("normalize_advantages", np.array(x, float), shape=(len(x),))  # noqa: E731
    got = asked([1, 3, 5, 7])
    exact = np.array([-3, -1, 1, 3])
    if not (same(got, exact / np.sqrt(5)) or same(got, exact / np.sqrt(20 / 3))):  # divisor N or N − 1
        yield {"normalization": EXACT}, f"[1, 3, 5, 7]: expected ±1.342, ±0.4472, got {show(got)}"
    for constant, words in (([0.1] * 1000, "a thousand equal numbers 0.1"), ([0.3] * 77, "77 equal numbers 0.3"), ([3.0], "[3]")):
        try:
            got = asked(constant)
        except Refusal as refusal:
            yield {"normalization": EXACT}, f"{words}: {refusal}"
            continue
        if not same(got, np.zeros(len(constant)), 0.05):
            yield {"normalization": EXACT}, f"{words}: expected 0, got {show(got[:3])}"


# ---------------------------------------------------------------------------------------------------------------- losses


def one_sample(ask, log_prob, old_log_prob, advantage, clip_epsilon):
    """(loss, slope in log_prob) of the learner's clipped loss for a single sample."""
    x = tensor([log_prob], grad=True)
    loss, slope = ask.gradient("policy_loss", x, tensor([old_log_prob]), tensor([advantage]), clip_epsilon, wrt=x)
    return loss, slope[0]


@examination("policy loss at the first step", "policy_loss", suspects=("ratio", "policy_sign"))
def clipped_loss_at_ratio_one(ask):
    for advantage in (1.0, -1.0):
        loss, slope = one_sample(ask, -1.0, -1.0, advantage, 0.2)
        case = f"log-probability −1, old −1 (ratio 1), advantage {advantage:g}"
        if same(slope, advantage):
            yield {"policy_sign": EXACT}, f"{case}: expected slope {-advantage:g} in log π, got {slope:g}"
        elif same(slope, 0):
            weights = {"no_gradient": LIKELY, "old_log_prob_gradient": LIKELY}
            weights = weights if same(loss, -advantage) else {"clip": EXACT, "no_gradient": HINT}
            yield weights, f"{case}: expected loss and slope {-advantage:g}, got {loss:.4g} and 0"
        elif not (same(loss, -advantage) and same(slope, -advantage)):
            weights = {"ratio": 2 * LIKELY, "policy_sign": HINT}
            yield weights, f"{case}: expected loss {-advantage:g} and slope {-advantage:g}, got {loss:.4g} and {slope:.4g}"
        else:
            continue
        return


@examination("policy loss: the ratio", "policy_loss", suspects=("ratio",))
def ratio_is_new_over_old(ask):
    known = {np.exp(-1): "old over new", 0.5: "a ratio of log-probabilities", 1.0: "log π − log π_old"}
    loss, slope = one_sample(ask, -1.0, -2.0, 1.0, 100.0)
    sizes = abs(loss), abs(slope)
    if not same(sizes, [np.e, np.e]):
        names = [name for number, name in known.items() if same(sizes[0], number)]
        text = "log-probability −1, old −2, advantage 1, no limit: expected loss −e = −2.718, got "
        yield {"ratio": EXACT if names else LIKELY}, f"{text}{loss:.4g}{f' ({names[0]})' if names else ''}"


def _clipped_by_cases(ratio, advantage, low=0.8, high=1.2):
    """(loss, slope in log π) of one sample, case by case: Â > 0 stops at ρ > 1 + ε, Â < 0 at ρ < 1 − ε."""
    if advantage > 0 and ratio > high:
        return np.array([-high * advantage, 0.0])
    if advantage < 0 and ratio < low:
        return np.array([-low * advantage, 0.0])
    return np.array([-ratio * advantage, -ratio * advantage])


def _clip_only(ratio, advantage):
    inside = 0.8 <= ratio <= 1.2
    return np.array([-min(max(ratio, 0.8), 1.2) * advantage, -ratio * advantage * inside])


def _clip_by_max(ratio, advantage):
    free, limited = ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage
    return np.array([-max(free, limited), 0.0 if limited > free else -free])


_CLIP_MISTAKES = _clip_only, _clip_by_max, lambda r, a: np.array([-r * a, -r * a])  # the last: no limit at all


@examination("policy loss: the clip", "policy_loss", suspects=("clip",))
def clip_by_enumeration(ask):
    sign = np.sign(one_sample(ask, -1.0, -1.0, -1.0, 0.2)[0]) or 1.0  # a wrong sign is the business of others
    cases = [(ratio, advantage) for ratio in (0.5, 0.9, 1.1, 1.5) for advantage in (1.0, -1.0)]
    got = sign * np.array([one_sample(ask, np.log(ratio) - 2, -2.0, advantage, 0.2) for ratio, advantage in cases])
    expected = np.array([_clipped_by_cases(*case) for case in cases])
    if same(got, expected):
        return
    k = int(np.argmax(np.abs(got - expected).max(1)))
    ratio, advantage = cases[k]
    known = [np.array([mistake(*case) for case in cases]) for mistake in _CLIP_MISTAKES]
    inverse = same(got, np.array([_clipped_by_cases(1 / r, a) * (1, -1) for r, a in cases]))
    weights = {"clip": EXACT} if any(same(got, wrong) for wrong in known) else {"clip": LIKELY, "ratio": LIKELY}
    text = f"ratio {ratio}, advantage {advantage:g}, ε = 0.2: expected loss and slope {show(expected[k])}, got {show(got[k])}"
    yield {"ratio": EXACT} if inverse else weights, text


@examination("policy loss: mean over the samples", "policy_loss", suspects=("broadcast",))
def clipped_loss_is_a_mean(ask):
    x = tensor([-1.0, -2.0, -3.0], grad=True)
    _, slope = ask.gradient("policy_loss", x, x.detach(), tensor([1.0, 2.0, -3.0]), 0.2, wrt=x)
    if not same(np.abs(slope), [1 / 3, 2 / 3, 1]):
        weights = {"broadcast": 2 * LIKELY} if same(slope, [0, 0, 0]) else {"broadcast": LIKELY, "ratio": HINT}
        yield weights, f"advantages [1, 2, −3], ratios 1: expected slopes [−1/3, −2/3, 1], got {show(slope)}"


@examination("policy gradient loss", "policy_gradient_loss", suspects=("policy_sign", "broadcast"))
def policy_gradient_by_hand(ask):
    x, advantage = tensor([-1.0, -2.0], grad=True), tensor([1.0, -3.0])
    _, slope = ask.gradient("policy_gradient_loss", x, advantage, wrt=x)
    expected = [-0.5, 1.5]
    if not same(slope, expected):
        flipped, total = same(-slope, expected), same(slope, np.multiply(2, expected))
        weights = {"policy_sign": EXACT} if flipped else {"broadcast": LIKELY, "ratio": 2 * LIKELY, "no_gradient": HINT}
        if same(slope, [0.5, 0.5]):  # the mean advantage for every sample: the mean over the matrix (N, N)
            weights = {"broadcast": 2 * EXACT}
        if not total:  # a sum instead of the mean only changes the size of the step
            yield weights, f"log π = [−1, −2], advantages [1, −3]: expected slopes [−0.5, 1.5] in log π, got {show(slope)}"


@examination("value loss", "value_loss", suspects=("critic",))
def value_loss_by_hand(ask):
    value, target = tensor([0.2, -0.1, 0.0], grad=True), tensor([0.0, 0.3, 0.0])
    try:
        _, slope = ask.gradient("value_loss", value, target, wrt=value)
    except Refusal as refusal:
        raise Refusal(str(refusal), {"critic": EXACT}) from refusal
    error = (value - target).detach().numpy()
    factor = slope @ error / (error @ error)
    if factor <= 1e-6 or not same(slope, factor * error):
        text = f"V = [0.2, −0.1, 0], targets [0, 0.3, 0]: the slope must be in proportion to V − target = {show(error)}"
        yield {"critic": 2 * LIKELY, "broadcast": LIKELY}, f"{text}, got {show(slope)}"


@examination("total loss", "total_loss", suspects=("entropy_sign", "critic", "policy_sign"))
def parts_of_the_total_loss(ask):
    p = np.array([0.5, 0.3, 0.2])
    numbers = {"action": torch.tensor([0, 2]), "old_log_prob": tensor(np.log(p[[0, 2]]))}

    def slopes(advantage, value, entropy_coef):
        logits, v = tensor(np.log([p, p]), grad=True), tensor(value, grad=True)
        target = tensor([1.0, 1.0])
        loss = ask.loss("total_loss", logits, *numbers.values(), tensor(advantage), v, target, 0.2, 0.5, entropy_coef)
        parts = torch.autograd.grad(loss, (logits, v), allow_unused=True) if loss.requires_grad else (None, None)
        return [np.zeros(n) if x is None else x.numpy() for x, n in zip(parts, ((2, 3), 2), strict=True)]

    in_logits, _ = slopes([0.0, 0.0], [1.0, 1.0], 1.0)
    expected = p * (np.log(p) - (p * np.log(p)).sum()) / 2  # −∂H/∂logits, for the mean of two samples
    yield from _entropy_part(in_logits, expected)
    in_logits, _ = slopes([1.0, -1.0], [1.0, 1.0], 0.0)
    expected = -np.array([[1.0], [-1.0]]) * (np.eye(3)[[0, 2]] - p)
    yield from _policy_part(in_logits, expected)
    _, in_value = slopes([0.0, 0.0], [1.5, 0.8], 0.0)
    if not (in_value[0] > 1e-9 > -1e-9 > in_value[1]):
        yield {"critic": 2 * LIKELY}, f"V = [1.5, 0.8], targets [1, 1]: slopes must be above and below 0, got {show(in_value)}"


def _entropy_part(slopes, expected):
    along = (slopes * expected).sum()
    case = "advantages 0, entropy_coef = 1, π = [0.5, 0.3, 0.2]: slope of −entropy in the first logit"
    if along <= 1e-9:
        weights = {"entropy_sign": EXACT if along < -1e-9 else LIKELY}
        yield weights, f"{case} is {expected[0]:.4g}, got {slopes[0, 0]:.4g}"


def _policy_part(slopes, expected):
    cosine = (slopes * expected).sum() / (np.linalg.norm(slopes) * np.linalg.norm(expected) + 1e-12)
    if cosine < 0.999:
        case = "advantages [1, −1], ratios 1: slopes in the logits"
        weights = {"policy_sign": EXACT} if cosine < -0.999 else {"broadcast": LIKELY, "ratio": LIKELY, "action_sum": HINT}
        if np.abs(slopes).max() < 1e-9:
            weights = {"no_gradient": 2 * LIKELY, "old_log_prob_gradient": 2 * LIKELY, "broadcast": LIKELY}
        yield weights, f"{case} expected {show(expected)}, got {show(slopes)}"


@examination("a batch of your own", "own_batch", suspects=("no_gradient",))
def gradients_of_an_own_batch(ask):
    answer = ask("own_batch")
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise Refusal("own_batch must return (loss, policy parameters, critic parameters)")
    loss, policy, critic = answer[0], list(answer[1]), list(answer[2])
    parameters = policy + critic
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        raise Refusal("the policy's loss depends on no parameter", {"no_gradient": EXACT})
    slopes = torch.autograd.grad(loss.sum(), parameters, allow_unused=True)
    size = [0.0 if x is None else float(x.abs().max()) for x in slopes]
    largest = max(size[: len(policy)], default=0.0)
    if largest <= 1e-9:
        weights = {"old_log_prob_gradient": 2 * LIKELY, "no_gradient": 2 * LIKELY, "broadcast": LIKELY}
        yield weights, f"the largest gradient of the policy's loss in the policy's parameters is {largest:.2g}"
    shared = {id(x) for x in policy}
    into_critic = max((s for s, x in zip(size, parameters, strict=True) if id(x) not in shared), default=0.0)
    if into_critic > 1e-9:
        yield {"advantage_gradient": EXACT}, f"the policy's loss has a gradient in the critic: {into_critic:.2g}, expected none"


# --------------------------------------------------------------------------------------------------------- distributions

MEAN, LOG_STD, ACTION = [[0.0, 0.5], [1.0, -1.0]], [[-1.0, 0.5], [0.0, 0.3]], [[0.3, 1.0], [0.5, -3.0]]


@examination("Gaussian: log-probability", "log_prob", suspects=("std_scale", "action_sum"))
def gaussian_log_prob(ask):
    one, half = tensor([[0.0]]), tensor([[0.5]])
    got = ask.array("log_prob", one, one, half, shape=(1,))[0]
    expected = scipy.stats.norm.logpdf(0.5)
    if not same(got, expected):
        yield {"std_scale": LIKELY, "action_sum": HINT}, f"N(0, 1) at 0.5: expected {expected:.4g}, got {got:.4g}"
    got = ask.array("log_prob", one, one - 1, half, shape=(1,))[0]
    expected = scipy.stats.norm.logpdf(0.5, scale=np.exp(-1))
    if not same(got, expected):
        yield {"std_scale": 2 * LIKELY}, f"mean 0, log σ = −1, at 0.5: expected {expected:.4g}, got {got:.4g}"
    parts = scipy.stats.norm.logpdf(ACTION, MEAN, np.exp(LOG_STD))
    answer = ask("log_prob", *map(tensor, (MEAN, LOG_STD, ACTION)))
    if np.shape(answer) == parts.shape:
        yield {"action_sum": EXACT}, "two action dimensions: expected one number per sample, got one per dimension"
        return
    got = as_array("log_prob", answer, (2,))
    if not same(got, parts.sum(1)):
        mean = same(got, parts.mean(1))
        weights = {"action_sum": EXACT} if mean else {"action_sum": LIKELY, "std_scale": LIKELY}
        text = f"two action dimensions, {show(parts[0])}: expected their sum {parts[0].sum():.4g}, got {got[0]:.4g}"
        yield weights, text + " (the mean)" * mean


@examination("Gaussian: entropy", "entropy", suspects=("std_scale", "entropy_sign"))
def gaussian_entropy(ask):
    for log_std in ([[0.0]], [[-1.0]], [[0.5, -2.0]]):
        mean = np.zeros((1, len(log_std[0])))
        expected = scipy.stats.norm.entropy(scale=np.exp(log_std)).sum()
        got = ask.array("entropy", tensor(mean), tensor(log_std), shape=(1,))[0]
        if not same(got, expected):
            weights = {"entropy_sign": EXACT} if same(-got, expected) else {"std_scale": LIKELY, "action_sum": HINT}
            yield weights, f"log σ = {show(log_std[0])}: expected entropy {expected:.4g} nats, got {got:.4g}"
            return


@examination("Gaussian: KL divergence", "kl", suspects=("kl_direction", "std_scale"))
def gaussian_kl(ask):
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()

    def by_quadrature(mean, log_std, new_mean, new_log_std):
        a = mean + np.exp(log_std) * nodes
        log_density = scipy.stats.norm.logpdf
        return weights @ (log_density(a, mean, np.exp(log_std)) - log_density(a, new_mean, np.exp(new_log_std)))

    for case in ((0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 0.0), (0.5, -1.0, 0.0, 0.2), (0.0, 0.0, 0.0, 0.0)):
        got = ask.array("kl", *(tensor([[x]]) for x in case), shape=(1,))[0]
        expected, reverse = by_quadrature(*case), by_quadrature(*case[2:], *case[:2])
        if not same(got, expected):
            weight = {"kl_direction": EXACT} if same(got, reverse) else {"std_scale": LIKELY, "kl_direction": LIKELY}
            words = "KL(N({}, e^{}) ‖ N({}, e^{}))".format(*map("{:g}".format, case))
            yield weight, f"{words}: expected {expected:.4g}, got {got:.4g}{' (the reverse one)' * same(got, reverse)}"
            return


@examination("Gaussian squashed by tanh", "squashed_log_prob", suspects=("tanh",))
def squashed_density(ask):
    mean, log_std, low, high = tensor([[0.3]]), tensor([[-0.5]]), -2.0, 3.0
    center, sigma = 0.3, np.exp(-0.5)
    for u in (0.0, 1.0, -2.0, 20.0):
        # log(1 − tanh²u) = log 4 − 2|u| − 2 log(1 + e^(−2|u|))
        slope = np.log(4) - 2 * abs(u) - 2 * np.log1p(np.exp(-2 * abs(u)))
        expected = scipy.stats.norm.logpdf(u, center, sigma) - slope - np.log((high - low) / 2)
        got = ask.array("squashed_log_prob", mean, log_std, tensor([[u]]), low, high, shape=(1,))[0]
        if not same(got, expected):
            base, width = scipy.stats.norm.logpdf(u, center, sigma), np.log((high - low) / 2)
            known = base, base + slope + width, base - slope, base - width, base + slope, base - slope + width
            text = f"u = {u:g}, mean 0.3, log σ = −0.5, bounds −2 and 3: expected {expected:.4g}, got {got:.4g}"
            yield {"tanh": EXACT if any(same(got, x) for x in known) else LIKELY}, text
            return
    points = np.linspace(-6, 6, 2001)
    got = ask.array("squashed_log_prob", mean.expand(2001, 1), log_std.expand(2001, 1), tensor(points[:, None]), low, high,
                    shape=(2001,))  # fmt: skip
    area = scipy.integrate.trapezoid(np.exp(got) * (high - low) / 2 / np.cosh(points) ** 2, points)
    if not same(area, 1.0, 0.01):
        yield {"tanh": LIKELY}, f"the density integrates to {area:.4g} over the bounds, expected 1"


@examination("Categorical", "categorical_log_prob", suspects=("action_sum",))
def categorical_log_prob(ask):
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    got = ask.array("categorical_log_prob", tensor(np.log(p) + 1.0), torch.tensor([1, 2]), shape=(2,))
    if not same(got, np.log([0.3, 0.8])):
        weights = {"ratio": LIKELY, "broadcast": HINT}
        yield weights, f"π(1) = 0.3 and π(2) = 0.8: expected log-probabilities {show(np.log([0.3, 0.8]))}, got {show(got)}"


@examination("Categorical: entropy", "categorical_entropy", suspects=("entropy_sign",))
def categorical_entropy(ask):
    p = np.array([0.5, 0.25, 0.25])
    got, expected = ask.array("categorical_entropy", tensor([np.log(p)]), shape=(1,))[0], 1.5 * np.log(2)
    if not same(got, expected):
        weights = {"entropy_sign": EXACT if same(-got, expected) else LIKELY}
        yield weights, f"π = [1/2, 1/4, 1/4]: expected entropy {expected:.4g} nats, got {got:.4g}"


@examination("Categorical: KL divergence", "categorical_kl", suspects=("kl_direction",))
def categorical_kl(ask):
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.2, 0.6])
    got = ask.array("categorical_kl", tensor([np.log(p)]), tensor([np.log(q)]), shape=(1,))[0]
    expected, reverse = scipy.stats.entropy(p, q), scipy.stats.entropy(q, p)
    if not same(got, expected):
        turned = same(got, reverse)
        text = f"KL([0.7, 0.2, 0.1] ‖ [0.2, 0.2, 0.6]): expected {expected:.4g}, got {got:.4g}{' (the reverse one)' * turned}"
        yield {"kl_direction": EXACT if turned else LIKELY}, text


@examination("estimate of the KL divergence", "kl_estimate", suspects=("kl_estimate",))
def kl_estimate_by_enumeration(ask):
    yield from estimates_match(ask, "kl_estimate", ("k1", "k2", "k3"))


def estimates_match(ask, name, kinds):
    """Is it one of these three, for log-ratios −1, 0.5 and 0.01? k1 = −x, k2 = x²/2, k3 = eˣ − 1 − x."""
    x = np.array([-1.0, 0.5, 0.01])
    known = {"k1": -x, "k2": x**2 / 2, "k3": np.exp(x) - 1 - x}
    got = ask.array(name, tensor(x - 2), tensor([-2.0] * 3), shape=(3,))
    if not any(same(got, known[kind], 1e-6) for kind in kinds):
        expected = " or ".join(f"{kind} = {show(known[kind])}" for kind in kinds)
        yield {"kl_estimate": EXACT}, f"log-ratios {show(x)}: expected {expected}, got {show(got)}"


# ---------------------------------------------------------------------------------------------------------- trust region


def _linear_policy():
    """A linear softmax policy with 3 actions, observations (4, 2), and its Fisher matrix Σ_i Jᵢᵀ (diag p − p pᵀ) Jᵢ / B."""
    net = torch.nn.Linear(2, 3, bias=False, dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(tensor([[0.3, -0.5], [0.1, 0.8], [-0.4, 0.2]]))
    obs = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [2.0, 0.5]])
    logits = obs @ net.weight.detach().numpy().T
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    fisher = sum(np.kron(np.diag(q) - np.outer(q, q), np.outer(o, o)) for q, o in zip(p, obs, strict=True)) / len(obs)
    return net, tensor(obs), fisher


@examination("Fisher-vector product", "fisher_vector_product", suspects=("fisher", "damping"))
def fisher_by_its_matrix(ask):
    net, obs, fisher = _linear_policy()
    v = np.array([1.0, 2.0, -1.0, 0.5, 0.0, 3.0])
    asked = lambda damping: ask.array("fisher_vector_product", net, obs, tensor(v), damping, shape=(6,))  # noqa: E731
    plain, damped, expected = asked(0.0), asked(0.1), fisher @ v
    if not same(plain, expected):
        why = " (no gradient: is a distribution detached?)" if same(plain, 0 * v) else ""
        why = " (the sum over states, not the mean)" if same(plain, len(obs) * expected) else why
        yield {"fisher": EXACT}, f"F v for v = {show(v)}: expected {show(expected)}, got {show(plain)}{why}"
    if not same(damped - plain, 0.1 * v):
        text = f"damping 0.1 adds {show((damped - plain)[:2])} to the first two numbers of F v, expected {show(0.1 * v[:2])}"
        yield {"damping": EXACT}, text


@examination("conjugate gradient", "conjugate_gradient", suspects=("conjugate_gradient",))
def conjugate_gradient_by_elimination(ask):
    root = np.array([[1.0, 0.5, 0.0, 0.2], [0.0, 3.0, 1.0, 0.0], [0.3, 0.0, 7.0, 1.0], [0.0, 0.1, 0.0, 0.4]])
    matrix = root @ root.T
    b = np.array([1.0, -2.0, 3.0, 0.5])
    for scale in (1.0, 1e-7, 0.0):
        expected = np.linalg.solve(matrix, b) * scale
        got = ask.array("conjugate_gradient", lambda v: tensor(matrix) @ v, tensor(b * scale), shape=(4,))
        if not same(got / (scale or 1.0), expected / (scale or 1.0), 0.01):
            words = f"F x = g, 4 × 4, g = {scale:g} · {show(b)}"
            yield {"conjugate_gradient": EXACT}, f"{words}: expected x = {show(expected)}, got {show(got)}"
            return


@examination("line search", "line_search", suspects=("line_search",))
def line_search_by_hand(ask):
    cases = (
        ("improves and stays within the limit", lambda f: (f, 0.005 * f), 1.0, 1.0),
        ("improves, but the KL of the whole step is 4 times the limit", lambda f: (f, 0.04 * f**2), 0.0, 0.5),
        ("is too long: it improves below a fraction of 0.3 only", lambda f: (0.3 - f, 0.001 * f), 0.0, 0.3),
        ("never improves", lambda f: (-f, 0.001 * f), 0.0, 0.0),
    )
    for words, evaluate, low, high in cases:
        numbers = lambda fraction, e=evaluate: tuple(torch.as_tensor(x, dtype=torch.float64) for x in e(fraction))  # noqa: E731
        answer = ask.array("line_search", numbers, 0.01, shape=())
        nothing = low == 0.0 < high and answer <= 0  # a step exists and was not found
        if not low - 1e-9 <= answer <= high + 1e-9 or nothing:
            yield {"line_search": EXACT}, f"a step that {words}: fraction {answer:.4g}, expected at most {high:g}"
            return


EXAMINATIONS = listed(globals())
