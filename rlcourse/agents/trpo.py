"""Trust region policy optimisation (Schulman et al. 2015a), with GAE and a learned critic."""

from dataclasses import dataclass

import torch

from rlcourse.agents.algorithm import Algorithm, setting
from rlcourse.equations.estimators import explained_variance, gae, normalize_advantages
from rlcourse.equations.objectives import surrogate_objective, value_loss
from rlcourse.equations.processes import mean_over_processes
from rlcourse.equations.trust_region import backtracking_line_search, kkt_step


@dataclass
class TRPO(Algorithm):
    """Settings of TRPO; those shared by all algorithms are in `Algorithm`.

    Each update: the step that raises the surrogate most within the trust region (equations.trust_region), shortened until the
    true mean KL is within `max_kl` and the surrogate improves; then regression of the critic on V̂^targ = Â + V. A run in which
    conjugate gradient meets pᵀ(F + cI)p ≤ 0 is quarantined.

        L(θ) = (1/B) Σ_i ρ_i Â_i,   g = ∇L(θ_old),   (F + cI) d = g,   x = √(2δ_KL / dᵀ(F + cI)d) d,
        θ = θ_old + backtrack_coeffᵏ x  for the smallest k that passes

    Args:
        max_kl: δ_KL, limit on the mean D_KL(π_old ‖ π_θ) of one update, nats.
        cg_iters: limit on conjugate-gradient iterations. cg_tol: relative residual at which they end earlier.
        cg_damping: c in F + cI.
        fisher_stride: Fisher products use every so-many-th row of the batch.
        backtrack_coeff: c, the line search tries step lengths 1, c, c² …; max_backtracks: how many step lengths it tries.
        critic_learning_rate: Adam's step size for the critic.
        update_epochs: passes of the critic over the batch. num_minibatches: steps of the critic in each pass.

    Reference: Schulman et al. (2015a), eq. 14 and appendix C; the critic and GAE: Schulman et al. (2016).
    """

    num_envs: int = setting(16, 1, whole=True)
    num_steps: int = setting(64, 1, whole=True)
    max_kl: float = setting(0.01, 0.0, open_low=True)
    cg_iters: int = setting(10, 1, whole=True)
    cg_tol: float = setting(1e-3, 0.0, 0.99, per_run=False)
    cg_damping: float = setting(0.1, 0.0)
    fisher_stride: int = setting(1, 1, whole=True)
    backtrack_coeff: float = setting(0.5, 0.01, 0.99, per_run=False)
    max_backtracks: int = setting(10, 1, whole=True)
    critic_learning_rate: float = setting(0.01, 0.0)
    update_epochs: int = setting(4, 0, whole=True)
    num_minibatches: int = setting(4, 1, whole=True)

    def update(self, agent, rollout):
        advantage, value_target = gae(*rollout.for_gae(), self.gamma, self.gae_lambda)
        batch = rollout.flatten(advantage=advantage, value_target=value_target)
        advantage = normalize_advantages(batch.advantage)
        old = agent.policy(batch.obs).detach()
        old_log_prob = old.log_prob(batch.action)

        def surrogate_and_kl():
            policy = agent.policy(batch.obs)
            return surrogate_objective(policy.log_prob(batch.action), old_log_prob, advantage), old.kl(policy).mean(-1)

        objective, _ = surrogate_and_kl()
        gradient = agent.policy_gradient(objective)
        rows = batch.every(self.fisher_stride).obs
        fisher = agent.fisher_vector_product(rows, self.cg_damping)
        step = kkt_step(gradient, fisher, self.max_kl, cg_iters=self.cg_iters, rel_tol=self.cg_tol, strict=False)
        agent.quarantine(step.multiplier.isnan(), "F + cI is not positive definite: raise cg_damping, or train in float64")

        start = agent.policy_vector()

        @torch.no_grad()
        def evaluate(fraction):
            agent.move_policy(start, step.step, fraction)
            new_objective, kl = surrogate_and_kl()
            return mean_over_processes(new_objective - objective), mean_over_processes(kl)

        search = backtracking_line_search(
            evaluate, self.max_kl, backtrack_coeff=self.backtrack_coeff, max_backtracks=self.max_backtracks
        )
        agent.move_policy(start, step.step, search.fraction)

        for _ in range(self.update_epochs):
            for minibatch in batch.minibatches(self.num_minibatches, agent):
                agent.step(value_loss(agent.value(minibatch.obs), minibatch.value_target), self.critic_learning_rate, "critic")

        return {
            "entropy": old.entropy().mean(-1),
            "kl": search.kl,
            "improvement": search.improvement.detach(),
            "predicted_improvement": step.predicted_improvement * search.fraction,
            "accepted": search.accepted,
            "cg_residual": step.residual_norm,
            "explained_variance": explained_variance(batch.value, batch.value_target),
            "grad_norm": agent.grad_norm,
        }
