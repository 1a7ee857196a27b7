"""Vanilla policy gradient with a learned value baseline (Sutton & Barto 2018, section 13.5; Spinning Up's VPG)."""

from dataclasses import dataclass

import torch

from rlcourse.agents.algorithm import Algorithm, setting, switch
from rlcourse.equations.estimators import explained_variance, gae, normalize_advantages
from rlcourse.equations.objectives import policy_gradient_loss, value_loss


@dataclass
class VPG(Algorithm):
    """Settings of vanilla policy gradient; those shared by all algorithms are in `Algorithm`.

    Each update: one step of Adam for the policy, then `update_epochs` passes of regression of the critic on V̂^targ = Â + V,
    each in `num_minibatches` steps.

        L_π = −(1/B) Σ_i [log π_θ(a_i|s_i) Â_i + entropy_coef · H(π_θ(·|s_i))],   L_V = (1/b) Σ_i (V(s_i) − V̂^targ_i)²

    Args:
        learning_rate: Adam's step size for the policy. critic_learning_rate: Adam's step size for the critic.
        entropy_coef: weight of the entropy bonus. max_grad_norm: bound on a run's gradient norm; None: no bound.
        update_epochs: passes of the critic over the batch. The policy takes one step on the whole batch: a second step would
            use data that is no longer on-policy. num_minibatches: steps of the critic in each pass.
        normalize: shift and scale the advantages of a batch to mean 0 and standard deviation 1 before the policy step.

    Reference: Sutton and Barto (2018), sections 13.4 and 13.5; Williams (1992).
    """

    num_envs: int = setting(16, 1, whole=True)
    num_steps: int = setting(32, 1, whole=True)
    gae_lambda: float = setting(1.0, 0.0, 1.0)
    learning_rate: float = setting(0.002, 0.0)
    critic_learning_rate: float = setting(0.01, 0.0)
    entropy_coef: float = setting(0.0, 0.0)
    max_grad_norm: float | None = setting(None, 0.0, none=True, open_low=True)
    update_epochs: int = setting(2, 0, whole=True)
    num_minibatches: int = setting(2, 1, whole=True)
    normalize: bool = switch(True)

    def advantages(self, rollout):
        """(Â, V̂^targ) of a rollout, both (T, R, N). Override this to try another estimator."""
        return gae(*rollout.for_gae(), self.gamma, self.gae_lambda)

    def update(self, agent, rollout):
        advantage, value_target = self.advantages(rollout)
        batch = rollout.flatten(advantage=advantage, value_target=value_target)

        policy = agent.policy(batch.obs)
        weight = normalize_advantages(batch.advantage) if self.normalize else batch.advantage
        loss = policy_gradient_loss(policy.log_prob(batch.action), weight)
        entropy = policy.entropy().mean(-1)
        agent.step(loss - self.entropy_coef * entropy, self.learning_rate, "policy", self.max_grad_norm)

        for _ in range(self.update_epochs):
            for minibatch in batch.minibatches(self.num_minibatches, agent):
                loss_v = value_loss(agent.value(minibatch.obs), minibatch.value_target)
                agent.step(loss_v, self.critic_learning_rate, "critic", self.max_grad_norm)

        with torch.no_grad():
            kl = policy.kl(agent.policy(batch.obs)).mean(-1)
        return {
            "policy_loss": loss.detach(),
            "entropy": entropy.detach(),
            "kl": kl,
            "explained_variance": explained_variance(batch.value, batch.value_target),
            "grad_norm": agent.grad_norm,
        }
