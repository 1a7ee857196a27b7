"""Proximal policy optimisation (Schulman et al. 2017): the clipped objective, and the variant with an adaptive KL penalty."""

from dataclasses import dataclass

import torch

from rlcourse.agents.algorithm import Algorithm, choice, setting, switch
from rlcourse.equations.estimators import explained_variance, gae, normalize_advantages
from rlcourse.equations.objectives import clip_fraction, clipped_surrogate_loss, kl_estimates, surrogate_objective, value_loss
from rlcourse.equations.processes import mean_over_processes


@dataclass
class PPO(Algorithm):
    """Settings of PPO; those shared by all algorithms are in `Algorithm`.

    Each update: `update_epochs` passes over the batch in `num_minibatches` steps of Adam, for policy and critic together.

        L = (1/b) Σ_i [−min(ρ_i Â_i, clip(ρ_i, 1−ε, 1+ε) Â_i) + value_coef (V(s_i) − V̂^targ_i)² − entropy_coef · H(π_θ(·|s_i))]

    Args:
        clip_epsilon: ε, how far a ratio may go before its sample stops pushing.
        update_epochs: passes over the batch. num_minibatches: steps in each pass.
        learning_rate: Adam's step size. anneal: let it fall linearly to 0 at total_steps.
        value_coef: weight of the value loss. entropy_coef: weight of the entropy bonus.
        value_clip: a sample stops pushing the critic once it is further than this from its old prediction; None: never.
        max_grad_norm: bound on the norm of a run's whole gradient; None: no bound.
        target_kl: a run takes no further epoch in this update once its mean KL is above; None: never.
        normalize: the advantages to mean 0 and standard deviation 1, within each "minibatch", within the "batch", or "never".

    Reference: Schulman et al. (2017), eq. 7 and 9 and algorithm 1.
    """

    clip_epsilon: float = setting(0.2, 0.0)
    update_epochs: int = setting(10, 0, whole=True)
    num_minibatches: int = setting(16, 1, whole=True)
    learning_rate: float = setting(3e-4, 0.0)
    anneal: bool = switch(False)
    value_coef: float = setting(0.5, 0.0)
    entropy_coef: float = setting(0.0, 0.0)
    value_clip: float | None = setting(None, 0.0, none=True, open_low=True)
    max_grad_norm: float | None = setting(0.5, 0.0, none=True, open_low=True)
    target_kl: float | None = setting(None, 0.0, none=True, open_low=True)
    normalize: str = choice("minibatch", "batch", "never")

    def policy_loss(self, log_prob, minibatch, agent):
        """The policy's part of the loss, one per run. Override this to try another objective."""
        return clipped_surrogate_loss(log_prob, minibatch.log_prob, minibatch.advantage, self.clip_epsilon)

    def update(self, agent, rollout):
        advantage, value_target = gae(*rollout.for_gae(), self.gamma, self.gae_lambda)
        batch = rollout.flatten(advantage=advantage, value_target=value_target)
        if self.normalize == "batch":
            batch.advantage = normalize_advantages(batch.advantage)
        with torch.no_grad():
            old = agent.policy(batch.obs)
            batch.log_prob = old.log_prob(batch.action)
        if self.normalize == "minibatch" and len(batch) < 2 * self.num_minibatches:
            raise ValueError(
                f"num_minibatches = {self.num_minibatches} leaves a single one of {len(batch)} rows for some minibatches, whose "
                "normalised advantage is 0. Take at most half as many minibatches as rows, or normalize='batch'."
            )
        learning_rate = self.learning_rate * (1 - agent.progress) if self.anneal else self.learning_rate

        for _ in range(self.update_epochs):
            for minibatch in batch.minibatches(self.num_minibatches, agent):
                if self.normalize == "minibatch":
                    minibatch.advantage = normalize_advantages(minibatch.advantage)
                policy, value = agent(minibatch.obs)
                loss = self.policy_loss(policy.log_prob(minibatch.action), minibatch, agent)
                loss = loss + self.value_coef * self.critic_loss(value, minibatch)
                if self.uses("entropy_coef"):
                    loss = loss - self.entropy_coef * policy.entropy().mean(-1)
                agent.step(loss, learning_rate, max_grad_norm=self.max_grad_norm)
            self.after_epoch(old, agent, batch)
            if not agent.active.any():
                break

        with torch.no_grad():
            new = agent.policy(batch.obs)
        return {
            "entropy": old.entropy().mean(-1),
            "kl": old.kl(new).mean(-1),
            "clip_fraction": clip_fraction(new.log_prob(batch.action), batch.log_prob, self.clip_epsilon),
            "explained_variance": explained_variance(batch.value, batch.value_target),
            "grad_norm": agent.grad_norm,
        }

    @torch.no_grad()
    def after_epoch(self, old, agent, batch):
        """Stop the runs whose mean KL, exact for each state of the batch, is above target_kl."""
        if self.target_kl is not None:
            kl = mean_over_processes(old.kl(agent.policy(batch.obs)).mean(-1))
            agent.stop_where(kl > self.target_kl)

    def critic_loss(self, value, minibatch):
        """The critic's part of the loss, one per run."""
        if self.value_clip is None:
            return value_loss(value, minibatch.value_target)
        return value_loss(value, minibatch.value_target, minibatch.value, self.value_clip)


@dataclass
class PenaltyPPO(PPO):
    """PPO with a KL penalty in place of the clip (the paper's section 4).

    The policy's loss is −surrogate + β · KL, with the KL estimated by the mean of k3. After each update β is doubled where the KL
    was above 1.5 · penalty_kl, and halved where it was below penalty_kl / 1.5.

    Args:
        penalty_kl: d_targ, the KL of one update to aim for, nats. initial_penalty: β of the first update.

    Reference: Schulman et al. (2017), eq. 8.
    """

    penalty_kl: float = setting(0.01, 0.0, open_low=True)
    initial_penalty: float = setting(1.0, 0.0, open_low=True)

    def policy_loss(self, log_prob, minibatch, agent):
        kl = kl_estimates(log_prob, minibatch.log_prob)[2].mean(-1)
        return agent.memory["penalty"] * kl - surrogate_objective(log_prob, minibatch.log_prob, minibatch.advantage)

    def update(self, agent, rollout):
        agent.memory.setdefault("penalty", agent.one_each(self.initial_penalty))
        metrics = super().update(agent, rollout)
        penalty, kl = agent.memory["penalty"], mean_over_processes(metrics["kl"])
        penalty = torch.where(kl > 1.5 * self.penalty_kl, 2 * penalty, penalty)
        penalty = torch.where(kl < self.penalty_kl / 1.5, penalty / 2, penalty)
        agent.memory["penalty"] = penalty.clamp(1e-10, 1e10)  # from an underflow to 0 there would be no way back
        return {**metrics, "penalty": agent.memory["penalty"]}
