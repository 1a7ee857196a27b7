"""Losses to minimise. Each reduces over the last axis: a batch (B,) gives a scalar, a population (R, B) gives R losses."""

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
