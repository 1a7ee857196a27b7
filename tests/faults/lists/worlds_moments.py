"""One-line faults of the exact moments."""

MODULE = "rlcourse.worlds.moments"
TESTS = ["tests/worlds/test_moments.py"]
FAULTS = [
    (
        "critic not mixed out",
        "right = (pi * mdp.reward).sum(-1) + gamma * (1 - blend) * (move @ critic)",
        "right = (pi * mdp.reward).sum(-1) + gamma * (move @ critic)",
        "The bias at lambda = 1 is not zero.",
    ),
    (
        "blend the wrong way round",
        "ahead = (1 - blend) * critic + blend * state_mean",
        "ahead = blend * critic + (1 - blend) * state_mean",
        "Bias grows with lambda.",
    ),
    (
        "variance discounted once",
        "one_step = gamma**2 * (",
        "one_step = gamma * (",
        "Variances are too large wherever gamma is below 1.",
    ),
    (
        "end left out of the variance",
        "mdp.transition, ahead**2) - step_mean**2)",
        "mdp.transition, ahead**2) - step_mean * ahead.mean())",
        "The gamble whether the episode ends is not counted.",
    ),
    (
        "choice of action left out of the variance",
        "right = (pi * (one_step + (mean - state_mean.unsqueeze(-1)) ** 2)).sum(-1, keepdim=True)",
        "right = (pi * (one_step + 0 * (mean - state_mean.unsqueeze(-1)) ** 2)).sum(-1, keepdim=True)",
        "A walk whose only chance lies in the policy has no variance.",
    ),
    (
        "variance decays like the mean",
        "state_variance = _solve(move, (gamma * lam) ** 2, right)",
        "state_variance = _solve(move, (gamma * lam), right)",
        "Variances are too large for lambda between 0 and 1.",
    ),
    (
        "last step of the variance not decayed",
        "decay = (gamma * lam)[..., None, None] ** 2",
        "decay = (gamma * lam)[..., None, None]",
        "Variances are a little too large.",
    ),
    (
        "return for advantage",
        "first = target - critic.unsqueeze(-1)",
        "first = target - 0 * critic.unsqueeze(-1)",
        "The noise is that of an estimate without a baseline.",
    ),
    (
        "second moment for variance",
        "second = variance + first**2",
        "second = variance",
        "The noise of the gradient is too small.",
    ),
    (
        "residual without the value of the state",
        "delta = mdp.reward.unsqueeze(-1) + mdp.gamma * critic - critic[:, None, None]",
        "delta = mdp.reward.unsqueeze(-1) + mdp.gamma * critic",
        "The correlation of advantages along an episode is wrong.",
    ),
    (
        "cross term once",
        "2 * (score * product_ahead).sum(-1)",
        "(score * product_ahead).sum(-1)",
        "Steps of one episode count as nearly independent.",
    ),
    (
        "trace of the cross term not decayed",
        "product = _solve(move, mdp.gamma * lam, right)",
        "product = _solve(move, ones, right)",
        "Noise does not depend on lambda as it should.",
    ),
    (
        "uncentred noise",
        "return mean, square @ mdp.start - (mean**2).sum(-1)",
        "return mean, square @ mdp.start",
        "The noise contains the signal.",
    ),
]
