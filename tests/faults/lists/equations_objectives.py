"""One-line faults of the objectives."""

MODULE = "rlcourse.equations.objectives"
TESTS = ["tests/equations/test_objectives.py"]
FAULTS = [
    (
        "sign of the policy loss",
        "return -(log_prob * advantage.detach()).mean(-1)",
        "return (log_prob * advantage.detach()).mean(-1)",
        "The return falls from the first update on.",
    ),
    (
        "advantage not detached",
        "log_prob * advantage.detach()",
        "log_prob * advantage",
        "The policy loss moves the critic towards large advantages.",
    ),
    (
        "probability for log-probability",
        "(log_prob * advantage.detach())",
        "(log_prob.exp() * advantage.detach())",
        "Rare good actions are hardly reinforced.",
    ),
    (
        "sum for mean in the policy loss",
        "(log_prob * advantage.detach()).mean(-1)",
        "(log_prob * advantage.detach()).sum(-1)",
        "The step size grows with the batch.",
    ),
    (
        "runs mixed in the policy loss",
        "(log_prob * advantage.detach()).mean(-1)",
        "(log_prob * advantage.detach()).mean()",
        "One loss for all runs: each learns more slowly the more of them there are.",
    ),
    (
        "shapes of the policy loss unchecked",
        "check_tensors(log_prob=log_prob, advantage=advantage)",
        "pass",
        "(N, 1) and (N,) give an (N, N) product; with normalised advantages its gradient is zero.",
    ),
    (
        "target not detached",
        "(values - targets.detach())",
        "(values - targets)",
        "The critic fits its targets by moving them.",
    ),
    (
        "value detached instead of target",
        "(values - targets.detach())",
        "(values.detach() - targets)",
        "The critic never learns.",
    ),
    (
        "half a square",
        "targets.detach()).square().mean(-1)",
        "targets.detach()).square().mean(-1) / 2",
        "value_coef means something else than in the docstring.",
    ),
    (
        "absolute error",
        "targets.detach()).square()",
        "targets.detach()).abs()",
        "The critic learns the median of the targets, not their mean.",
    ),
    (
        "shapes of the value loss unchecked",
        "check_tensors(values=values, targets=targets)",
        "pass",
        "(N, 1) and (N,) pull every value to the mean of all targets.",
    ),
]
