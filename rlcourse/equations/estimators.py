"""Returns, advantages and their statistics, estimated from sampled trajectories.

Time is the first axis; any axes may follow (runs, environments), and no number crosses from one column to another.
Every function takes NumPy arrays or torch tensors, all of one kind, and gives back that kind. The dtype of a result is
the widest float dtype among the arguments: float32 stays float32, integers adapt, all-integer input becomes float64.
No gradient flows: an estimate is data.
"""

import numpy as np
import torch

from rlcourse.equations.arguments import check_same_shape, check_whole, per_run
from rlcourse.equations.processes import mean_over_processes


def discounted_returns(rewards, gamma, *, ends, bootstrap):
    """Discounted return-to-go at every step, for pieces of trajectory laid one after the other.

        Ĝ_t = r_t + γ Ĝ_{t+1}        if the piece goes on after step t
        Ĝ_t = r_t + γ bootstrap_t    if it ends there                        t = 0 … T−1

    Args:
        rewards: (T, …) real numbers, reward units.
        gamma: discount in [0, 1]; a number, or one per run (the leading axes after time).
        ends: (T, …) bool. The piece stops after step t. The last row always ends, whatever its flag says.
        bootstrap: (T, …) value of what follows an end: 0 where terminated, V of the final observation where truncated or
            cut. Ignored where the piece goes on, so it may hold anything there, even NaN.

    Returns:
        (T, …) returns-to-go, like rewards.

    Raises:
        TypeError: ends is not bool, or NumPy and torch are mixed.
        ValueError: shapes differ, the batch is empty, gamma is outside [0, 1].

    Reference: Sutton and Barto (2018), eq. 3.9 (their R_{t+1} is our r_t).
    """
    (r, value), (ends,), restore = _as_numpy({"rewards": rewards, "bootstrap": bootstrap}, {"ends": ends})
    gamma = per_run("gamma", gamma, r[0], 0.0, 1.0)
    ends = ends.copy()
    ends[-1] = True
    # r_t, and γ bootstrap_t where the piece ends
    terms = r + gamma * np.where(ends, value, 0)
    # Ĝ_t = terms_t + γ (1 − ends_t) Ĝ_{t+1}
    return restore(_sum_backwards(terms, gamma, ends))


def td_residuals(rewards, values, next_values, terminated, gamma):
    """One-step surprise of the critic.

        δ_t = r_t + γ (1 − terminated_t) V(s_{t+1}) − V(s_t)                 t = 0 … T−1

    Args:
        rewards: (T, …) real numbers.
        values: (T, …) V of the observation acted on at step t.
        next_values: (T, …) V of the true successor of step t: the final observation where an episode ended, never the
            reset one. Ignored where terminated, even if it is NaN.
        terminated: (T, …) bool. The MDP itself ended (a time limit does not count).
        gamma: discount in [0, 1]; a number, or one per run (the leading axes after time).

    Returns:
        (T, …) residuals, like rewards.

    Raises:
        TypeError, ValueError: as discounted_returns.

    Reference: Sutton and Barto (2018), eq. 6.5.
    """
    (r, v, v_next), (terminated,), restore = _as_numpy(
        {"rewards": rewards, "values": values, "next_values": next_values}, {"terminated": terminated}
    )
    return restore(_residuals(r, v, v_next, terminated, per_run("gamma", gamma, r[0], 0.0, 1.0)))


def gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """Generalised advantage estimation, with the value targets that go with it.

        δ_t = r_t + γ (1 − terminated_t) V(s_{t+1}) − V(s_t)
        Â_t = δ_t + γ λ (1 − (terminated_t or truncated_t)) Â_{t+1}          t = T−1 … 0,  Â_T = 0
        V̂^targ_t = Â_t + V(s_t)

    Termination removes the bootstrap and cuts the trace. Truncation keeps the bootstrap and cuts the trace. Where both
    flags are set, termination wins. The end of the batch is a cut that keeps its bootstrap.

    Args:
        rewards, values, next_values, terminated, gamma: as td_residuals.
        truncated: (T, …) bool. The clock, not the MDP, ended the episode.
        gae_lambda: λ in [0, 1]; a number, or one per run (the leading axes after time).

    Returns:
        (advantages, value_targets), both (T, …), like rewards.

    Raises:
        TypeError: a flag is not bool, or NumPy and torch are mixed.
        ValueError: shapes differ, the batch is empty, gamma or gae_lambda is outside [0, 1].

    Reference: Schulman et al. (2016), eq. 16, written as a recursion (their V is for the infinite horizon, without flags).
    """
    (r, v, v_next), (terminated, truncated), restore = _as_numpy(
        {"rewards": rewards, "values": values, "next_values": next_values}, {"terminated": terminated, "truncated": truncated}
    )
    gamma = per_run("gamma", gamma, r[0], 0.0, 1.0)
    gae_lambda = per_run("gae_lambda", gae_lambda, r[0], 0.0, 1.0)
    # δ_t, the one-step residual
    delta = _residuals(r, v, v_next, terminated, gamma)
    # Â_t = δ_t + γ λ (1 − (terminated_t or truncated_t)) Â_{t+1}
    advantages = _sum_backwards(delta, gamma * gae_lambda, terminated | truncated)
    # V̂^targ_t = Â_t + V(s_t)
    value_targets = advantages + v
    return restore(advantages), restore(value_targets)


def n_step_advantages(rewards, values, next_values, terminated, truncated, gamma, n):
    """Advantages that look n steps ahead and trust the critic for the rest; fewer steps where the piece ends before.

        Ĝ^(1)_t = r_t + γ (1 − terminated_t) V(s_{t+1})
        Ĝ^(k)_t = r_t + γ Ĝ^(k−1)_{t+1}   where the piece goes on after step t, else Ĝ^(1)_t        k = 2 … n
        Â^(n)_t = Ĝ^(n)_t − V(s_t)

    n = 1 gives the TD residuals; n ≥ T gives the return of the whole piece, minus V.

    Args:
        rewards, values, next_values, terminated, truncated, gamma: as gae.
        n: whole number ≥ 1, steps ahead.

    Returns:
        (T, …) advantages, like rewards.

    Raises:
        TypeError: n is no whole number; otherwise as gae. ValueError: n < 1; otherwise as gae.

    Reference: Schulman et al. (2016), eq. 11–14 (their infinite horizon, without flags); Sutton and Barto (2018), eq. 7.1.
    """
    check_whole("n", n, 1)
    (r, v, v_next), (terminated, truncated), restore = _as_numpy(
        {"rewards": rewards, "values": values, "next_values": next_values}, {"terminated": terminated, "truncated": truncated}
    )
    gamma = per_run("gamma", gamma, r[0], 0.0, 1.0)
    goes_on = ~(terminated | truncated)[:-1]
    # Ĝ^(1)_t = r_t + γ (1 − terminated_t) V(s_{t+1})
    one_step = r + gamma * np.where(terminated, 0, v_next)
    returns = one_step
    for _ in range(min(n, len(r)) - 1):
        # Ĝ^(k)_t = r_t + γ Ĝ^(k−1)_{t+1}
        longer = np.where(goes_on, r[:-1] + gamma * returns[1:], one_step[:-1])
        returns = np.concatenate([longer, one_step[-1:]])
    # Â^(n)_t = Ĝ^(n)_t − V(s_t)
    return restore(returns - v)


def lambda_returns(rewards, next_values, terminated, truncated, gamma, gae_lambda):
    """Returns that mix all numbers of steps ahead, the weights falling as λ^k: what a critic may regress on.

        G^λ_t = r_t + γ (1 − terminated_t) [(1 − λ) V(s_{t+1}) + λ G^λ_{t+1}]      if the piece goes on after step t
        G^λ_t = r_t + γ (1 − terminated_t) V(s_{t+1})                              if it ends there       t = T−1 … 0

    Wherever next_values_t is values_{t+1} while a piece goes on, this is the value target of gae, Â_t + V(s_t). λ = 0 is the
    one-step target, λ = 1 the discounted return, bootstrapped at a cut. The last row always ends.

    Args:
        rewards, next_values, terminated, truncated, gamma, gae_lambda: as gae.

    Returns:
        (T, …) targets, like rewards.

    Raises:
        TypeError, ValueError: as gae.

    Reference: Sutton and Barto (2018), eq. 12.20 with constant λ and γ (they write the reward with index t+1).
    """
    (r, v_next), (terminated, truncated), restore = _as_numpy(
        {"rewards": rewards, "next_values": next_values}, {"terminated": terminated, "truncated": truncated}
    )
    gamma = per_run("gamma", gamma, r[0], 0.0, 1.0)
    gae_lambda = per_run("gae_lambda", gae_lambda, r[0], 0.0, 1.0)
    ends = terminated | truncated
    ends[-1] = True
    # (1 − terminated_t) V(s_{t+1}), of which 1 − λ counts where the piece goes on
    bootstrap = np.where(terminated, 0, v_next)
    terms = r + gamma * np.where(ends, bootstrap, (1 - gae_lambda) * bootstrap)
    # G^λ_t = terms_t + γ λ G^λ_{t+1}  if the piece goes on
    return restore(_sum_backwards(terms, gamma * gae_lambda, ends))


def normalize_advantages(advantages, mask=None):
    """Advantages shifted to mean 0 and scaled to standard deviation 1, over the last axis.

        (Â_i − mean Â) / std Â,   std² = (1/N) Σ_i (Â_i − mean Â)²           i over the N samples kept by the mask

    The moments are computed in float64. There is no ε in the denominator: where the spread is no more than the rounding
    of the numbers themselves (one sample, equal samples, std² ≤ (10 · precision of the dtype · mean)²), the result is 0.

    Args:
        advantages: (…, B) real numbers.
        mask: (…, B) bool, True for the samples that count. Default: all of them.

    Returns:
        (…, B), like advantages. Samples outside the mask are 0 and enter no statistic.

    Raises:
        TypeError: mask is not bool. ValueError: shapes differ, the batch is empty.

    Reference: not in the papers; Huang et al. (2022), "The 37 implementation details of PPO", detail 7, with N − 1 and an ε.
    """
    flags = {} if mask is None else {"mask": mask}
    (data,), flags, restore = _as_numpy({"advantages": advantages}, flags)
    kept = flags[0] if flags else np.ones(data.shape, dtype=bool)
    mean, std, constant = _moments(data, kept)
    # (Â_i − mean) / std
    scaled = (data - mean) / np.where(constant, 1.0, std)
    return restore(np.where(kept & ~constant, scaled, 0.0).astype(data.dtype))


def explained_variance(values, targets):
    """Share of the variance of the targets that the critic explains, over the last axis.

        1 − Var[targets − values] / Var[targets]

    1 is perfect up to a constant offset (which this number cannot see), 0 is no better than a constant, negative is worse.

    Args:
        values: (…, B) predictions of the critic.
        targets: (…, B) what it regresses on.

    Returns:
        (…) one number per batch, like values. NaN where the targets are constant: the quotient is not defined there.

    Raises:
        TypeError: NumPy and torch are mixed. ValueError: shapes differ, the batch is empty.

    Reference: OpenAI Baselines, common/math_util.py (`explained_variance`); R² without its penalty for a constant offset.
    """
    (values, targets), _, restore = _as_numpy({"values": values, "targets": targets}, {})
    everything = np.ones(values.shape, dtype=bool)
    _, residual_std, _ = _moments(targets.astype(np.float64) - values, everything)
    _, target_std, constant = _moments(targets, everything)
    # 1 − Var[targets − values] / Var[targets]
    share = 1 - (residual_std / np.where(constant, np.nan, target_std)) ** 2
    return restore(share[..., 0].astype(values.dtype))


def valid_rows(terminated, truncated):
    """Which rows of a NEXT_STEP autoreset stream are real transitions.

    A vector environment that resets on the *next* step spends one row on each reset: that row ignores its action and has
    reward 0. Row t is such a reset row exactly when row t−1 was real and ended an episode. The first row is real; for a
    batch that starts in mid-stream, put the row before it in front.

        valid_0 = True,   valid_t = not (valid_{t−1} and (terminated_{t−1} or truncated_{t−1}))      t = 1 … T−1

    Args:
        terminated, truncated: (T, …) bool.

    Returns:
        (T, …) bool, same kind. False rows must enter no loss, no statistic and no step count.

    Raises:
        TypeError: a flag is not bool. ValueError: shapes differ, the batch is empty.

    Reference: Gymnasium ≥ 1.0, documentation of vector environments, AutoresetMode.NEXT_STEP.
    """
    _, (terminated, truncated), restore = _as_numpy({}, {"terminated": terminated, "truncated": truncated})
    ended = terminated | truncated
    valid = np.ones_like(ended)
    for t in range(1, len(valid)):
        # valid_t = not (valid_{t−1} and ended_{t−1})
        valid[t] = ~(valid[t - 1] & ended[t - 1])
    return restore(valid)


def _residuals(rewards, values, next_values, terminated, gamma):
    # δ_t = r_t + γ (1 − terminated_t) V(s_{t+1}) − V(s_t); chosen, not multiplied by 0, because 0 · NaN is NaN
    return rewards + gamma * np.where(terminated, 0, next_values) - values


def _sum_backwards(terms, decay, ends):
    """x_t = terms_t + decay (1 − ends_t) x_{t+1} for t = T−1 … 0, with x_T = 0; writes over terms."""
    x = terms.reshape(len(terms), -1)
    goes_on = ~ends.reshape(x.shape)
    decay = np.broadcast_to(np.asarray(decay, x.dtype), terms.shape[1:]).reshape(-1)
    for t in range(len(x) - 2, -1, -1):
        np.add(x[t], decay * x[t + 1], out=x[t], where=goes_on[t])
    return x.reshape(terms.shape)


def _moments(data, kept):
    """Mean and standard deviation (divisor N, float64) over the last axis, and whether the data are constant up to rounding."""
    count = np.maximum(kept.sum(-1, keepdims=True), 1)
    mean = mean_over_processes(np.where(kept, data, 0).sum(-1, keepdims=True, dtype=np.float64) / count)
    # std² = (1/N) Σ (x_i − mean)²
    std = np.sqrt(mean_over_processes((np.where(kept, data - mean, 0) ** 2).sum(-1, keepdims=True) / count))
    constant = std <= 10 * np.finfo(data.dtype).eps * np.abs(mean)
    return mean, std, constant


def _as_numpy(numbers, flags):
    """Views of the arguments as NumPy arrays of one shape and float dtype, and the way back to the caller's kind."""
    named = numbers | flags
    tensors = [name for name, data in named.items() if isinstance(data, torch.Tensor)]
    if tensors and len(tensors) < len(named):
        rest = [name for name in named if name not in tensors]
        raise TypeError(f"{', '.join(tensors)} are torch tensors but {', '.join(rest)} are not. Convert all to one kind.")
    device = named[tensors[0]].device if tensors else None
    arrays = {name: np.asarray(data.detach().cpu() if tensors else data) for name, data in named.items()}
    for name in numbers:
        if arrays[name].dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold real numbers, not {arrays[name].dtype}.")
    for name in flags:
        if arrays[name].dtype != bool:
            how = f"{name}.bool()" if tensors else f"np.asarray({name}, dtype=bool)"
            raise TypeError(f"{name} must be bool, not {arrays[name].dtype}. If it holds zeros and ones, convert it: {how}.")
    check_same_shape(**arrays)
    floats = [arrays[name].dtype for name in numbers if arrays[name].dtype.kind == "f"]
    dtype = np.result_type(*floats) if floats else np.dtype(np.float64)

    def restore(result):
        return torch.as_tensor(np.asarray(result), device=device) if tensors else result

    return [arrays[name].astype(dtype, copy=False) for name in numbers], [arrays[name] for name in flags], restore
