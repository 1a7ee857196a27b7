"""The second source patient, PPO "in Keras style": the one patient that is a program of its own, not a changed line of ours.

Per minibatch, in the order of the original: a copy of the actor is fitted on the advantages; the new probability is read from
the copy; ratio and clip are computed as plain numbers; and the actor is fitted on the clipped numbers as targets (a cross-entropy
with target x at the action taken is −x log π(a|s)). So its gradient is a *number* times ∇log π, and the clip can make that number
a little smaller, but never 0.
"""

import copy

import torch

from rlcourse import PPO, policy_gradient_loss


class KerasStyle(PPO):
    """PPO's update with the policy's loss of the second source patient."""

    def policy_loss(self, log_prob, minibatch, agent):
        temporary = copy.deepcopy(agent)
        fitted = temporary.policy(minibatch.obs).log_prob(minibatch.action)
        temporary.step(policy_gradient_loss(fitted, minibatch.advantage), self.learning_rate, "policy")
        with torch.no_grad():
            new_prob = temporary.policy(minibatch.obs).log_prob(minibatch.action).exp()
            ratio = new_prob / log_prob.exp()  # numbers: no graph leads from here to the actor
            clipped = ratio.clamp(1 - self.clip_epsilon, 1 + self.clip_epsilon)
            target = torch.minimum(ratio * minibatch.advantage, clipped * minibatch.advantage)
        return -(target * log_prob).mean(-1)
