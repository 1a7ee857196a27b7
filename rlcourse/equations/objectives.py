"""Losses to minimise and objectives to maximise. Each reduces over the last axis: (B,) gives a scalar, (R, B) gives R losses."""

from rlcourse.equations.arguments import check_tensors


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
    # L = (1/B) Σ_i exp(log π_θ − log π_old)_i Â_i
    return ((log_prob - old_log_prob.detach()).exp() * advantage.detach()).mean(-1)


def value_loss(values, targets):
    """Mean squared error of the critic.

        L = (1/B) Σ_i (V(s_i) − V̂^targ_i)²                                   i = 1 … B

    There is no factor ½, so the gradient of one sample is twice its error; value_coef takes it up.

    Args:
        values: (…, B) tensor, predictions of the critic, with gradient.
        targets: (…, B) tensor. A constant: detached here.

    Returns:
        (…) loss.

    Raises:
        TypeError: an argument is no tensor. ValueError: shapes differ (for example (B,) with (B, 1)), or the batch is empty.
    """
    check_tensors(values=values, targets=targets)
    # L = (1/B) Σ_i (V(s_i) − V̂^targ_i)²
    return (values - targets.detach()).square().mean(-1)
