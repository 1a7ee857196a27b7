MODULE = "rlcourse.agents.vpg"
TESTS = ["tests/agents/test_vpg.py"]
FAULTS = [
    (
        "gamma and lambda swapped",
        "self.gamma, self.gae_lambda)",
        "self.gae_lambda, self.gamma)",
        "The critic learns returns of another discount.",
    ),
    (
        "advantages are not normalised",
        "normalize_advantages(batch.advantage) if",
        "batch.advantage if",
        "The step size depends on the scale of rewards.",
    ),
    ("normalisation cannot be switched off", "if self.normalize else batch.advantage", "", "normalize changes nothing."),
    (
        "entropy bonus with the wrong sign",
        "loss - self.entropy_coef",
        "loss + self.entropy_coef",
        "The policy turns deterministic at once.",
    ),
    ("entropy bonus forgotten", "loss - self.entropy_coef * entropy", "loss", "entropy_coef changes nothing."),
    (
        "gradient ascent on the loss",
        "policy_gradient_loss(policy",
        "-policy_gradient_loss(policy",
        "The return falls to the worst possible.",
    ),
    ("critic regresses on advantages", "minibatch.value_target)", "minibatch.advantage)", "Explained variance stays near zero."),
    (
        "policy's rate for the critic",
        "agent.step(loss_v, self.critic_learning_rate",
        "agent.step(loss_v, self.learning_rate",
        "critic_learning_rate changes nothing.",
    ),
    (
        "policy loss moves the critic too",
        '"policy", self.max_grad_norm',
        '"both", self.max_grad_norm',
        "It stops with an error, or the critic drifts.",
    ),
    ("policy gradient not clipped", '"policy", self.max_grad_norm', '"policy", None', "Rare batches throw the policy far off."),
    (
        "KL in the other direction",
        "policy.kl(agent.policy(batch.obs))",
        "agent.policy(batch.obs).kl(policy)",
        "The reported KL is slightly off.",
    ),
    (
        "one epoch too few",
        "range(self.update_epochs)",
        "range(self.update_epochs - 1)",
        "The critic learns more slowly than it should.",
    ),
    (
        "critic's quality of the wrong pair",
        "explained_variance(batch.value, batch.value_target)",
        "explained_variance(batch.value_target, batch.value)",
        "Explained variance looks better or worse than it is.",
    ),
]
