"""The natural-gradient step under a KL limit: Fisher-vector products, conjugate gradient, the KKT step, line search.

Every function works on one problem, vectors (n,), or on many side by side, (…, n): a leading axis holds independent problems
(runs), each with its own step sizes, its own stop and its own acceptance.
"""

from dataclasses import dataclass

import torch

from rlcourse.equations.arguments import check_tensors, check_whole, per_run


def fisher_vector_product(policy, obs, damping=0.0, *, parameters=None):
    """The map v ↦ (F + cI)v at the policy's present parameters, without ever forming F.

        F = ∇²_θ (1/B) Σ_i D_KL(π_old(·|s_i) ‖ π_θ(·|s_i))  at θ = θ_old                              i = 1 … B
        F v = ∇_θ ((∇_θ D_KL)ᵀ v)                                    (Pearlmutter 1994: two backward passes)

    Exactly one distribution is a constant: the old one. With neither detached the KL is identically 0 and so is F v; with the
    new one detached F is the same at θ_old, but the KL is the reverse one everywhere else.

    Args:
        policy: callable obs → distribution with `kl` and `detach`, differentiable in its parameters.
        obs: (B, …), or (R, B, …) for runs.
        damping: c ≥ 0, added as c·v; a number, or one per run.
        parameters: list of tensors, for runs each with a leading axis R; default: policy.parameters().

    Returns:
        Function of v (…, n) → (…, n), n = number of parameters (of one run), in the order of `parameters`.

    Raises:
        ValueError: damping < 0, v of the wrong shape, or a parameter that the policy does not depend on. TypeError: there are no
            parameters, or v is no tensor.

    Reference: Schulman et al. (2015a), appendix C.
    """
    if parameters is None and not hasattr(policy, "parameters"):
        raise TypeError(f"policy {policy!r} has no parameters(); say which ones: parameters=net.parameters().")
    parameters = list(policy.parameters() if parameters is None else parameters)
    if not parameters:
        raise TypeError("parameters is empty: there is nothing to differentiate in.")
    new = policy(obs)
    mean_kl = new.detach().kl(new).mean(-1)
    lead = mean_kl.shape
    gradients = torch.autograd.grad(mean_kl.sum(), parameters, create_graph=True, allow_unused=True)
    for i, one in enumerate(gradients):
        if one is None:
            raise ValueError(f"the policy does not depend on parameters[{i}], {tuple(parameters[i].shape)}: is it the critic's? "
                             "Give the policy's parameters only.")  # fmt: skip
    gradient = _flat(gradients, lead)
    damping = per_run("damping", damping, gradient, 0.0, float("inf"))

    def product(v):
        check_tensors(gradient=gradient, v=v)
        # F v = ∇_θ ((∇_θ D_KL)ᵀ v)
        hessian_v = torch.autograd.grad((gradient * v).sum(), parameters, retain_graph=True)
        return _flat(hessian_v, lead) + damping * v

    return product


def _flat(tensors, lead):
    """Gradients as vectors: (…, n)."""
    return torch.cat([x.reshape(*lead, -1) for x in tensors], -1)


def _unit(b):
    """b scaled to largest entry 1 and the scale, (…, 1): squares of tiny numbers would underflow. b = 0 stays 0."""
    size = b.abs().amax(-1, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    return b / size, size


@dataclass(frozen=True)
class Solution:
    """x (…, n); iters (…), multiplications per problem; residual_norm (…), ‖b − Fx‖ / ‖b‖ as the recursion has it (0 if b = 0);
    residuals: list of such numbers after 0, 1, 2 … iterations."""

    x: torch.Tensor
    iters: torch.Tensor
    residual_norm: torch.Tensor
    residuals: list


def conjugate_gradient(matvec, b, *, max_iters=10, rel_tol=1e-10, strict=True):
    """Solve F x = b for symmetric positive definite F, known only through its products: minimises ½xᵀFx − bᵀx.

        α = rᵀr / pᵀFp,   x ← x + αp,   r ← r − αFp,   β = r_newᵀr_new / rᵀr,   p ← r + βp

    A problem stops when ‖r‖ ≤ rel_tol · ‖b‖: relative, because an absolute tolerance would stop at once when b is small. There is
    no constant in the denominators for the same reason. b = 0 gives x = 0. Below the precision of b's dtype the residual of the
    recursion is noise, and so would be every further step: rel_tol is at least that.

    Args:
        matvec: function (…, n) → (…, n), each problem with its own F.
        b: (…, n) float tensor.
        max_iters: at most so many products. rel_tol: in [0, 1); below the dtype's precision (1e-7, 2e-16) it counts as that.
        strict: what to do about a problem with pᵀFp ≤ 0. True: raise. False: its x and residual_norm are NaN, and the problems
            beside it go on as if it were not there.

    Returns:
        Solution.

    Raises:
        ValueError: max_iters < 0, rel_tol out of range, b empty or not finite, a product of another shape, or (if strict)
            pᵀFp ≤ 0: F is not positive definite. Is a sign wrong, is something not detached, or is damping needed?
        TypeError: b or a product is no tensor, max_iters is no whole number.

    Reference: Hestenes and Stiefel (1952); Nocedal and Wright (2006), algorithm 5.2.
    """
    check_tensors(b=b)
    check_whole("max_iters", max_iters, 0)
    if not 0 <= rel_tol < 1:
        raise ValueError(f"rel_tol = {rel_tol} must lie in [0, 1).")
    if not torch.isfinite(b).all():
        raise ValueError("b holds NaN or infinity; look at the loss that it is the gradient of.")
    rel_tol = max(rel_tol, torch.finfo(b.dtype).eps)
    r, size = _unit(b)
    x, p = torch.zeros_like(r), r
    start = rr = (r * r).sum(-1, keepdim=True)
    iters = torch.zeros(b.shape[:-1], dtype=torch.int64)
    broken = torch.zeros_like(start, dtype=torch.bool)
    relative = lambda: torch.where(start > 0, rr / torch.where(start > 0, start, 1.0), 0.0).sqrt()[..., 0]  # noqa: E731
    residuals = [relative()]
    for _ in range(max_iters):
        going = ~broken & (rr > rel_tol**2 * start)
        if not going.any():
            break
        product = matvec(p)
        check_tensors(p=p, **{"matvec(p)": product})
        curvature = (p * product).sum(-1, keepdim=True)
        broken |= going & ~(curvature > 0)
        if strict and broken.any():
            raise ValueError(
                f"pᵀFp = {curvature[going].min():.3g}, but F must be positive definite. Is a sign wrong, is the new distribution "
                "detached, or is damping needed?"
            )
        going &= ~broken
        alpha = torch.where(going, rr / curvature, 0.0)
        x = x + alpha * p
        r = r - alpha * product
        rr_new = torch.where(going, (r * r).sum(-1, keepdim=True), rr)
        p = torch.where(going, r + rr_new / torch.where(rr > 0, rr, 1.0) * p, p)
        rr = rr_new
        iters += going[..., 0]
        residuals.append(relative())
    nan = torch.where(broken, torch.nan, 0.0)
    return Solution(x * size + nan, iters, residuals[-1] + nan[..., 0], residuals)


@dataclass(frozen=True)
class KKTStep:
    """The solution of  max gᵀx  subject to  ½xᵀFx ≤ δ.

    direction (…, n) F⁻¹g; step (…, n) the scaled direction; multiplier (…) ν = dL*/dδ; predicted_kl (…) ½xᵀFx;
    predicted_improvement (…) gᵀx; iters, residual_norm of the conjugate gradient.
    """

    direction: torch.Tensor
    step: torch.Tensor
    multiplier: torch.Tensor
    predicted_kl: torch.Tensor
    predicted_improvement: torch.Tensor
    iters: torch.Tensor
    residual_norm: torch.Tensor


def kkt_step(gradient, fisher_vector_product, max_kl, *, cg_iters=10, rel_tol=1e-10, strict=True):
    """The step that raises gᵀx most within the trust region ½xᵀFx ≤ δ_KL.

    Stationarity g = νFx and complementary slackness with ν > 0 give x = F⁻¹g/ν, and the active constraint fixes

        ν = sqrt(gᵀF⁻¹g / (2δ_KL)),    x* = sqrt(2δ_KL / (gᵀF⁻¹g)) F⁻¹g

    F⁻¹g comes from conjugate gradient, so it is inexact: the length is taken from dᵀFd of the direction d that was found (one
    more product), so that the quadratic KL of the step is δ_KL however rough d is. g = 0 gives step 0 and multiplier 0.

    Args:
        gradient: (…, n), g.
        fisher_vector_product: function v (…, n) → F v (…, n), damping included.
        max_kl: δ_KL > 0 in nats; a number, or one per run.
        cg_iters: limit on products. rel_tol, strict: see conjugate_gradient; not strict, a problem without a step has NaN in
            all its numbers.

    Returns:
        KKTStep.

    Raises:
        ValueError: max_kl ≤ 0 or infinite, or what conjugate_gradient refuses. TypeError: gradient is no tensor.

    Reference: Schulman et al. (2015a), appendix C; Kakade (2002).
    """
    check_tensors(gradient=gradient)
    limit = per_run("max_kl", max_kl, gradient, 0.0, float("inf"))
    if not ((torch.as_tensor(limit) > 0) & torch.isfinite(torch.as_tensor(limit))).all():
        raise ValueError(f"max_kl = {max_kl} must be above 0 and finite.")
    unit, size = _unit(gradient)
    solution = conjugate_gradient(fisher_vector_product, unit, max_iters=cg_iters, rel_tol=rel_tol, strict=strict)
    moves = (solution.x != 0).any(-1, keepdim=True)
    # dᵀFd, of the direction that belongs to the gradient of size 1: the step does not depend on the size
    curvature = torch.where(moves, (solution.x * fisher_vector_product(solution.x)).sum(-1, keepdim=True), 1.0)
    # x = sqrt(2δ / dᵀFd) d
    scale = torch.where(moves, (2 * limit / curvature).sqrt(), 0.0)
    step = scale * solution.x
    # ν = sqrt(dᵀFd / (2δ))
    multiplier = torch.where(moves, size * (curvature / (2 * limit)).sqrt(), 0.0)
    return KKTStep(
        direction=size * solution.x,
        step=step,
        multiplier=multiplier[..., 0],
        predicted_kl=(0.5 * scale**2 * curvature)[..., 0],
        predicted_improvement=(gradient * step).sum(-1),
        iters=solution.iters,
        residual_norm=solution.residual_norm,
    )


@dataclass(frozen=True)
class LineSearch:
    """accepted (…) int64: index of the accepted candidate, −1 if none; fraction (…) of the step to take, 0 if none;
    improvement, kl (…): of the accepted candidate, 0 if none."""

    accepted: torch.Tensor
    fraction: torch.Tensor
    improvement: torch.Tensor
    kl: torch.Tensor


def backtracking_line_search(evaluate, max_kl, *, backtrack_coeff=0.5, max_backtracks=10):
    """The longest of the fractions 1, c, c², … of a step that improves the objective and keeps the *true* KL within the limit.

        the smallest k with  L(θ_old + cᵏx) > L(θ_old)  and  D_KL(π_old ‖ π_{θ_old + cᵏx}) ≤ δ_KL               k = 0, 1, 2 …

    The quadratic model behind the step is only a model. Testing the improvement alone, or applying the step whatever the search
    says, are two classic faults. Where no fraction is good (fraction 0) the caller must keep the old parameters bit for bit.

    Args:
        evaluate: function fraction (…) → (improvement, kl), both (…): of the objective over its old value, and
            D_KL(π_old ‖ π_new). Not finite counts as refused.
        max_kl: limit in nats; a number, or (…).
        backtrack_coeff: c in (0, 1). max_backtracks: how many fractions are tried in all.

    Returns:
        LineSearch.

    Raises:
        ValueError: max_kl (negative, NaN), backtrack_coeff or max_backtracks out of range, or improvement and kl of different
            shapes. TypeError: not numbers.

    Reference: Schulman et al. (2015a), appendix C.
    """
    check_whole("max_backtracks", max_backtracks, 1)
    if not 0 < backtrack_coeff < 1:
        raise ValueError(f"backtrack_coeff = {backtrack_coeff} must lie in (0, 1).")
    found = None
    for index in range(max_backtracks):
        trial = backtrack_coeff**index
        if found is not None:
            trial = torch.where(found.accepted < 0, trial, found.fraction)
        improvement, kl = (torch.as_tensor(x) for x in evaluate(trial))
        if improvement.shape != kl.shape:
            shapes = f"{tuple(improvement.shape)} and {tuple(kl.shape)}"
            raise ValueError(f"evaluate must return improvement and kl of one shape, one number per problem, not {shapes}.")
        if found is None:
            max_kl = per_run("max_kl", max_kl, kl, 0.0, float("inf"))
            none = torch.full(kl.shape, -1, dtype=torch.int64)
            found = LineSearch(none, *(torch.zeros_like(kl) for _ in range(3)))
        good = (found.accepted < 0) & torch.isfinite(improvement) & (improvement > 0) & (kl <= max_kl)
        found = LineSearch(
            torch.where(good, index, found.accepted),
            torch.where(good, torch.as_tensor(trial, dtype=kl.dtype), found.fraction),
            torch.where(good, improvement, found.improvement),
            torch.where(good, kl, found.kl),
        )
        if (found.accepted >= 0).all():
            break
    return found
