"""Losses to minimise and objectives to maximise. Each reduces over the last axis: (B,) gives a scalar, (R, B) gives R losses."""

import torch

from rlcourse.equations.arguments import check_tensors, per_run

LOG_RATIO_BOUND = 60.0  # e⁶⁰ ≈ 1e26 times |Â| ≤ 1e6 is still a float32; a real ratio never comes near


def policy_gradient_loss(log_prob, advantage):
    """Surrogate whose gradient is minus the policy-gradient estimate. Its value says nothing about performance.

        L = −(1/B) Σ_i log π(a_i | s_i) Â_i                                  i = 1 … B

    Args:
        log_prob: (…, B) tensor, log-probability of the actions taken, with gradient.
        advantage: (…, B) tensor. A constant: detached here.

    Returns:
        (…) loss.

    Raises:
        TypeError: an argument is no tensor. ValueError: shapes differ (for example (B,) with (B, 1)), or the batch is empty.

    Reference: Sutton et al. (2000), theorem 1, with samples of states and actions in place of the sums.
    """
    check_tensors(log_prob=log_prob, advantage=advantage)
    # L = −(1/B) Σ_i log π(a_i | s_i) Â_i
    return -(log_prob * advantage.detach()).mean(-1)


def surrogate_objective(log_prob, old_log_prob, advantage):
    """Importance-sampled advantage of the new policy on states and actions of the old one; to be maximised.

        L = (1/B) Σ_i ρ_i Â_i,   ρ_i = π_θ(a_i | s_i) / π_old(a_i | s_i)        i = 1 … B

    At θ = θ_old its gradient is minus that of policy_gradient_loss. Actions are reweighted, states are not.

    Args:
        log_prob: (…, B) tensor under the new policy, with gradient.
        old_log_prob, advantage: (…, B) tensors. Constants: detached here.

    Returns:
        (…) objective, in units of the advantage.

    Raises:
        TypeError: an argument is no tensor. ValueError: shapes differ (for example (B,) with (B, 1)), or the batch is empty.

    Reference: Schulman et al. (2015a), eq. 14.
    """
    check_tensors(log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage)
    # L = (1/B) Σ_i ρ_i Â_i
    return (_ratio(log_prob, old_log_prob) * advantage.detach()).mean(-1)


def clipped_surrogate_loss(log_prob, old_log_prob, advantage, clip_epsilon):
    """PPO's objective with its sign changed: a pessimistic bound on the surrogate, to be minimised.

        L = −(1/B) Σ_i min(ρ_i Â_i, clip(ρ_i, 1−ε, 1+ε) Â_i),   ρ_i = π_θ(a_i | s_i) / π_old(a_i | s_i)     i = 1 … B
          = −(1/B) Σ_i min(ρ_i Â_i, Â_i + ε|Â_i|)

    The gradient of a sample is zero where Â > 0 and ρ > 1+ε, or Â < 0 and ρ < 1−ε, and nowhere else. At θ = θ_old it is the
    gradient of policy_gradient_loss. log ρ is bounded at ±60 before exp: otherwise one sample at log ρ = 100 turns the gradient
    of all into NaN (0 · inf inside min). Beyond the bound the gradient is zero on purpose; loss and gradient are finite for
    finite log-probabilities and |Â| ≤ 1e6.

    Args:
        log_prob: (…, B) tensor under the new policy, with gradient.
        old_log_prob, advantage: (…, B) tensors. Constants: detached here.
        clip_epsilon: ε ≥ 0; a number, or one per run.

    Returns:
        (…) loss.

    Raises:
        TypeError: an argument is no tensor. ValueError: shapes differ (for example (B,) with (B, 1)), the batch is empty, or
        clip_epsilon is negative.

    Reference: Schulman et al. (2017), eq. 7; ρ is their r_t(θ).
    """
    check_tensors(log_prob=log_prob, old_log_prob=old_log_prob, advantage=advantage)
    epsilon = per_run("clip_epsilon", clip_epsilon, log_prob, 0.0, float("inf"))
    advantage = advantage.detach()
    ratio = _ratio(log_prob, old_log_prob)
    gain, limit = ratio * advantage, advantage + epsilon * advantage.abs()
    # L = −(1/B) Σ_i min(ρ_i Â_i, Â_i + ε|Â_i|); at equality the gradient of ρ_i Â_i stays
    return -torch.where(gain > limit, limit, gain).mean(-1)


def clip_fraction(log_prob, old_log_prob, clip_epsilon):
    """Share of samples whose ratio has left [1−ε, 1+ε]: how much of the batch is near or past PPO's limit.

        (1/B) Σ_i 1[|ρ_i − 1| > ε]

    It counts the samples that have left on either side, whatever the sign of their advantage: those pushed back included.

    Args, Raises: as for clipped_surrogate_loss, without the advantage.

    Returns:
        (…) in [0, 1], no gradient.

    Reference: Huang et al. (2022), "The 37 implementation details of PPO", detail 12.
    """
    check_tensors(log_prob=log_prob, old_log_prob=old_log_prob)
    epsilon = per_run("clip_epsilon", clip_epsilon, log_prob, 0.0, float("inf"))
    # (1/B) Σ_i 1[|ρ_i − 1| > ε]
    ratio = _ratio(log_prob.detach(), old_log_prob)
    return ((ratio - 1).abs() > epsilon).to(ratio.dtype).mean(-1)


def kl_estimates(log_prob, old_log_prob):
    """Three estimates per sample of D_KL(π_old ‖ π_θ), from actions that π_old drew.

        k1 = −log ρ,   k2 = ½ (log ρ)²,   k3 = ρ − 1 − log ρ,   log ρ = log π_θ(a|s) − log π_old(a|s)

    The means of k1 and k3 are exactly the KL, in value and (differentiated in θ) in gradient; that of k2 is neither. k1 can be
    negative on a batch; k2 and k3 cannot. For actions drawn by π_θ itself, all of this changes. (The ρ in k3 ends at e⁶⁰.)

    Args:
        log_prob, old_log_prob: (…, B) tensors. old_log_prob is a constant: detached here.

    Returns:
        (k1, k2, k3), each (…, B): average over the last axis.

    Raises:
        TypeError: an argument is no tensor. ValueError: shapes differ, or the batch is empty.

    Reference: J. Schulman (2020), "Approximating KL divergence" (joschu.net/blog/kl-approx.html), with p = π_θ and q = π_old.
    """
    check_tensors(log_prob=log_prob, old_log_prob=old_log_prob)
    log_ratio = log_prob - old_log_prob.detach()
    # k1 = −log ρ,  k2 = ½ (log ρ)²,  k3 = ρ − 1 − log ρ
    return -log_ratio, 0.5 * log_ratio.square(), torch.expm1(log_ratio.clamp(max=LOG_RATIO_BOUND)) - log_ratio


def value_loss(values, targets, old_values=None, clip=None):
    """Mean squared error of the critic, with optional clipping.

        L = (1/B) Σ_i (V(s_i) − V̂^targ_i)²                                                          i = 1 … B
        L = (1/B) Σ_i max[(V(s_i) − V̂^targ_i)², (V^clip_i − V̂^targ_i)²],   V^clip = V_old + clip(V − V_old, −c, c)

    There is no factor ½, so the gradient of one sample is twice its error; value_coef takes it up. With clipping a
    sample stops pushing once V has moved further than c towards its target (that is no bound: other samples may carry it on).
    c is in units of the value: what is right depends on the scale of the rewards.

    Args:
        values: (…, B) tensor, predictions of the critic, with gradient.
        targets: (…, B) tensor. A constant: detached here.
        old_values: (…, B) tensor, the predictions when the data were collected. A constant.
        clip: c ≥ 0; a number, or one per run. Needs old_values. None: no clipping.

    Returns:
        (…) loss.

    Raises:
        TypeError: an argument is no tensor. ValueError: shapes differ (for example (B,) with (B, 1)), the batch is empty, or
        only one of old_values and clip is given.

    Reference: the clipped form is in OpenAI's baselines (ppo2), not in the paper.
    """
    check_tensors(values=values, targets=targets)
    targets = targets.detach()
    if clip is None and old_values is None:
        # L = (1/B) Σ_i (V(s_i) − V̂^targ_i)²
        return (values - targets).square().mean(-1)
    if clip is None or old_values is None:
        raise ValueError(f"clip = {clip!r} and old_values = {old_values!r}: value clipping needs both, plain regression neither.")
    check_tensors(values=values, old_values=old_values)
    limit = per_run("clip", clip, values, 0.0, float("inf"))
    old_values = old_values.detach()
    clipped = old_values + (values - old_values).clamp(-limit, limit)
    # L = (1/B) Σ_i max[(V − V̂^targ)², (V^clip − V̂^targ)²]
    return torch.maximum((values - targets).square(), (clipped - targets).square()).mean(-1)


def _log_ratio(log_prob, old_log_prob):
    """log ρ, bounded so that its exponential is finite."""
    return (log_prob - old_log_prob.detach()).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)


def _ratio(log_prob, old_log_prob):
    # ρ = exp(log π_θ − log π_old)
    return _log_ratio(log_prob, old_log_prob).exp()
