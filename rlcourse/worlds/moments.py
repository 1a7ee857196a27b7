"""Exact mean and variance of advantage estimates and of the gradient estimates made from them, in tabular worlds.

The critic is any table of numbers, right or wrong, so bias and variance can be read off as functions of λ and of its error. Each
quantity is the solution of a linear system: the recursion over one time step, written for the mean and for the square.
"""

import torch
from torch import Tensor

from rlcourse.worlds.tabular import Policy, TabularMDP, _check_ends, score_table


def lambda_return_moments(mdp: TabularMDP, pi: Tensor, critic: Tensor, gae_lambda) -> tuple[Tensor, Tensor]:
    """Mean and variance of the λ-return of an episode that starts with action a in state s and then follows the policy.

        G^λ = r(s, a) + γ X(s'),      X(s') = (1 − λ) critic(s') + λ G^λ(s', a'),   a' ~ π(· | s'),      X = 0 after the end

    G^λ is Â + critic(s), the estimate of Q(s, a) behind generalised advantage estimation: its bias is mean − Q(s, a), whatever
    the critic says about s itself. The mean solves a linear system; so does the variance, by the law of total variance,

        Var(s, a) = γ² { Var_{s'}(E[X | s']) + λ² E_{s'}[Var(s')] }

    Args:
        mdp: the world; its gamma is the estimator's. Its reward must be what each (s, a) really pays, not only on average.
        pi: (S, A) policy table.
        critic: (S,) what the critic says.
        gae_lambda: λ in [0, 1], a number or a tensor (L,).

    Returns:
        (mean, variance), each (S, A) or (L, S, A).

    Raises:
        ValueError: critic has another shape, λ lies outside [0, 1], or γλ = 1 and the policy never ends from some state.
    """
    pi, critic, lam = mdp._check_policy(pi), _check_critic(mdp, critic), _check_lambda(gae_lambda)
    move = torch.einsum("sa,sat->st", pi, mdp.transition)
    if float((mdp.gamma * lam).max()) == 1.0:
        _check_ends(move)
    gamma, blend = mdp.gamma, lam.unsqueeze(-1)
    # M(s) = E[G^λ | s]:   M = r_π + γ P_π ((1 − λ) critic + λ M)
    right = (pi * mdp.reward).sum(-1) + gamma * (1 - blend) * (move @ critic)
    state_mean = _solve(move, gamma * lam, right.unsqueeze(-1)).squeeze(-1)
    ahead = (1 - blend) * critic + blend * state_mean
    step_mean = torch.einsum("sat,...t->...sa", mdp.transition, ahead)
    mean = mdp.reward + gamma * step_mean
    # γ² Var_{s'}(E[X | s']), where the end counts as a successor with X = 0
    one_step = gamma**2 * (torch.einsum("sat,...t->...sa", mdp.transition, ahead**2) - step_mean**2)
    # W(s) = Var(G^λ | s):   W = Σ_a π (one_step + (mean − M)²) + γ² λ² P_π W
    right = (pi * (one_step + (mean - state_mean.unsqueeze(-1)) ** 2)).sum(-1, keepdim=True)
    state_variance = _solve(move, (gamma * lam) ** 2, right).squeeze(-1)
    decay = (gamma * lam)[..., None, None] ** 2
    return mean, one_step + decay * torch.einsum("sat,...t->...sa", mdp.transition, state_variance)


def gae_gradient_moments(mdp: TabularMDP, policy: Policy, theta: Tensor, critic: Tensor, gae_lambda) -> tuple[Tensor, Tensor]:
    """Mean and noise of the policy-gradient estimate that one episode gives with generalised advantages.

        ĝ = Σ_t Â_t ∇log π(a_t | s_t)         noise = tr Cov ĝ = E‖ĝ‖² − ‖E ĝ‖²

    No factor γ^t, as in nearly all code. With ĝ_t = Σ_{k≥t} Â_k ∇log π_k and Â_t = δ_t + γλ Â_{t+1} the recursions

        E[ĝ_t] ,   E[Â_t ĝ_t] ,   E‖ĝ_t‖²          each from step t+1, given (s_t, a_t)

    are linear. The mean of N independent episodes has the same mean and 1/N of the noise.

    Args:
        mdp, critic, gae_lambda: as lambda_return_moments; the policy must surely end from every state.
        policy: differentiable function from theta to a table (S, A).
        theta: float64 parameters with D numbers in all.

    Returns:
        (mean, noise): (D,) and (), or (L, D) and (L,).

    Raises:
        ValueError: as lambda_return_moments, or the policy never ends from some state.
    """
    pi, critic, lam = mdp._check_policy(policy(theta)).detach(), _check_critic(mdp, critic), _check_lambda(gae_lambda)
    score = score_table(policy, theta).flatten(2)  # ψ(s, a), (S, A, D)
    move = torch.einsum("sa,sat->st", pi, mdp.transition)
    _check_ends(move)
    target, variance = lambda_return_moments(mdp, pi, critic, gae_lambda)
    first = target - critic.unsqueeze(-1)  # E[Â | s, a]
    second = variance + first**2  # E[Â² | s, a]
    # E[ĝ | s] = Σ_a π ψ E[Â] + P_π E[ĝ]
    ones = torch.ones_like(lam)
    mean = _solve(move, ones, torch.einsum("sa,sad,...sa->...sd", pi, score, first))
    # E[Â ĝ' | s, a] = Σ_{s'} P (δ E[ĝ | s'] + γλ E[Â ĝ | s']),      E[Â ĝ | s] = Σ_a π (ψ E[Â²] + E[Â ĝ' | s, a])
    delta = mdp.reward.unsqueeze(-1) + mdp.gamma * critic - critic[:, None, None]
    now = torch.einsum("sat,...td->...sad", mdp.transition * delta, mean)
    right = torch.einsum("sa,...sad->...sd", pi, score * second.unsqueeze(-1) + now)
    product = _solve(move, mdp.gamma * lam, right)
    product_ahead = now + (mdp.gamma * lam)[..., None, None, None] * torch.einsum("sat,...td->...sad", mdp.transition, product)
    # E‖ĝ‖² = Σ_a π (‖ψ‖² E[Â²] + 2 ψ·E[Â ĝ' | s, a]) + P_π E‖ĝ‖²
    right = pi * ((score**2).sum(-1) * second + 2 * (score * product_ahead).sum(-1))
    square = _solve(move, ones, right.sum(-1, keepdim=True)).squeeze(-1)
    mean = torch.einsum("s,...sd->...d", mdp.start, mean)
    return mean, square @ mdp.start - (mean**2).sum(-1)


def _solve(move: Tensor, factor: Tensor, right: Tensor) -> Tensor:
    """(I − factor P_π)^(−1) right, for each factor: () or (L,); right (…, S, K)."""
    return torch.linalg.solve(torch.eye(len(move), dtype=torch.float64) - factor[..., None, None] * move, right)


def _check_critic(mdp: TabularMDP, critic) -> Tensor:
    critic = torch.as_tensor(critic, dtype=torch.float64)
    if critic.shape != (mdp.num_states,):
        raise ValueError(f"critic must have one number per state, shape ({mdp.num_states},), got {tuple(critic.shape)}")
    return critic


def _check_lambda(gae_lambda) -> Tensor:
    lam = torch.as_tensor(gae_lambda, dtype=torch.float64)
    if lam.ndim > 1 or not bool(((lam >= 0) & (lam <= 1)).all()):
        raise ValueError(f"gae_lambda must be a number between 0 and 1, or a list of such numbers, got {gae_lambda}")
    return lam
