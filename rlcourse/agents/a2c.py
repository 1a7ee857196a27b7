"""Advantage actor-critic, the synchronous form of A3C (Mnih et al. 2016): short rollouts, one shared loss, one step."""

from dataclasses import dataclass

import torch

from rlcourse.agents.algorithm import Algorithm, setting, switch
from rlcourse.equations.estimators import explained_variance, gae, normalize_advantages
from rlcourse.equations.objectives import policy_gradient_loss, value_loss


@dataclass
class A2C(Algorithm):
    """Settings of A2C; those shared by all algorithms are in `Algorithm`.

    Each update: one step of Adam for policy and critic together.

        L = (1/B) Σ_i [−log π_θ(a_i|s_i) Â_i + value_coef (V(s_i) − V̂^targ_i)² − entropy_coef · H(π_θ(·|s_i))]

    Args:
        learning_rate: Adam's step size. value_coef: weight of the value loss. entropy_coef: weight of the entropy bonus.
        max_grad_norm: bound on the norm of a run's whole gradient; None: no bound.
        normalize: shift and scale the advantages of a batch to mean 0 and standard deviation 1.

    Reference: Mnih et al. (2016), algorithm S3 in the supplement, with all workers in step.
    """

    num_envs: int = setting(16, 1, whole=True)
    num_steps: int = setting(5, 1, whole=True)
    gae_lambda: float = setting(1.0, 0.0, 1.0)
    learning_rate: float = setting(0.002, 0.0)
    value_coef: float = setting(0.5, 0.0)
    entropy_coef: float = setting(0.0, 0.0)
    max_grad_norm: float | None = setting(0.5, 0.0, none=True, open_low=True)
    normalize: bool = switch(False)

    def update(self, agent, rollout):
        advantage, value_target = gae(*rollout.for_gae(), self.gamma, self.gae_lambda)
        batch = rollout.flatten(advantage=advantage, value_target=value_target)

        policy, value = agent(batch.obs)
        weight = normalize_advantages(batch.advantage) if self.normalize else batch.advantage
        policy_loss = policy_gradient_loss(policy.log_prob(batch.action), weight)
        entropy = policy.entropy().mean(-1)
        loss = policy_loss + self.value_coef * value_loss(value, batch.value_target) - self.entropy_coef * entropy
        agent.step(loss, self.learning_rate, max_grad_norm=self.max_grad_norm)

        with torch.no_grad():
            kl = policy.kl(agent.policy(batch.obs)).mean(-1)
        return {
            "policy_loss": policy_loss.detach(),
            "entropy": entropy.detach(),
            "kl": kl,
            "explained_variance": explained_variance(batch.value, batch.value_target),
            "grad_norm": agent.grad_norm,
        }
