MODULE = "rlcourse.agents.a2c"
TESTS = ["tests/agents/test_ppo.py"]
FAULTS = [
    (
        "gamma and lambda swapped",
        "self.gamma, self.gae_lambda)",
        "self.gae_lambda, self.gamma)",
        "The critic learns returns of another discount.",
    ),
    (
        "gradient ascent on the loss",
        "policy_loss = policy_gradient_loss(",
        "policy_loss = -policy_gradient_loss(",
        "The return falls to the worst possible.",
    ),
    ("normalisation always on", "if self.normalize else batch.advantage", "", "normalize changes nothing."),
    ("normalisation never", "normalize_advantages(batch.advantage) if", "batch.advantage if", "normalize changes nothing."),
    (
        "entropy bonus with the wrong sign",
        "- self.entropy_coef * entropy",
        "+ self.entropy_coef * entropy",
        "The policy turns deterministic at once.",
    ),
    ("value weight forgotten", "self.value_coef * value_loss", "value_loss", "value_coef changes nothing."),
    (
        "critic regresses on advantages",
        "value_loss(value, batch.value_target)",
        "value_loss(value, batch.advantage)",
        "Explained variance stays near zero.",
    ),
    ("gradient not clipped", ", max_grad_norm=self.max_grad_norm", "", "Rare batches throw the policy far off."),
    (
        "KL in the other direction",
        "policy.kl(agent.policy(batch.obs))",
        "agent.policy(batch.obs).kl(policy)",
        "The reported KL is slightly off.",
    ),
]
