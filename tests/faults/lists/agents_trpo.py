MODULE = "rlcourse.agents.trpo"
TESTS = ["tests/agents/test_trpo.py", "tests/experiments/test_distributed.py"]
FAULTS = [
    (
        "full step always applied",
        "step.step, search.fraction)",
        "step.step, 1.0)",
        "KL exceeds the limit and the return collapses now and then.",
    ),
    (
        "old distribution not detached",
        "old = agent.policy(batch.obs).detach()",
        "old = agent.policy(batch.obs)",
        "The first gradient of the KL is wrong, or training stops with an error.",
    ),
    ("line search ignores the limit", "evaluate, self.max_kl, back", "evaluate, 1e9, back", "KL exceeds the limit."),
    (
        "KL in the other direction",
        "old.kl(policy)",
        "policy.kl(old)",
        "The limit holds for another quantity than reported.",
    ),
    (
        "advantages not normalised",
        "normalize_advantages(batch.advantage)",
        "batch.advantage",
        "The improvement depends on the scale of rewards.",
    ),
    (
        "gamma and lambda swapped",
        "self.gamma, self.gae_lambda)",
        "self.gae_lambda, self.gamma)",
        "The critic learns returns of another discount.",
    ),
    (
        "gradient descent on the objective",
        "agent.policy_gradient(objective)",
        "-agent.policy_gradient(objective)",
        "The line search refuses nearly every step.",
    ),
    ("damping forgotten", "rows, self.cg_damping", "rows, 0.0", "cg_damping changes nothing."),
    (
        "predicted improvement of the full step",
        "step.predicted_improvement * search.fraction",
        "step.predicted_improvement",
        "Predictions look too optimistic after backtracking.",
    ),
    (
        "a run without a step is not quarantined",
        "agent.quarantine(step.multiplier.isnan(),",
        "agent.quarantine(step.multiplier.isinf(),",
        "Its policy stands still for ever, and nobody is told.",
    ),
    (
        "every process searches by its own KL",
        ", mean_over_processes(kl)",
        ", kl",
        "Processes take steps of different lengths.",
    ),
]
