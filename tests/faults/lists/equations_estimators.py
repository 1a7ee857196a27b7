"""One-line faults of the estimators."""

MODULE = "rlcourse.equations.estimators"
TESTS = ["tests/equations/test_estimators.py"]
FAULTS = [
    (
        "sign of the value",
        "np.where(terminated, 0, next_values) - values",
        "np.where(terminated, 0, next_values) + values",
        "Advantages grow with the value of the state, and the critic runs away.",
    ),
    (
        "bootstraps through termination",
        "gamma * np.where(terminated, 0, next_values) - values",
        "gamma * next_values - values",
        "Dying costs nothing: the value of the next episode is added to the last step of this one.",
    ),
    (
        "multiplies by zero instead of choosing",
        "np.where(terminated, 0, next_values) - values",
        "~terminated * next_values - values",
        "A NaN behind the end of an episode spoils the whole episode.",
    ),
    (
        "truncation treated as termination",
        "delta = _residuals(r, v, v_next, terminated, gamma)",
        "delta = _residuals(r, v, v_next, terminated | truncated, gamma)",
        "Values are too low near the time limit; on Pendulum, which never terminates, everywhere.",
    ),
    (
        "trace leaks across truncation",
        "gamma * gae_lambda, terminated | truncated)",
        "gamma * gae_lambda, terminated)",
        "The luck of the next episode is credited to the last steps of this one.",
    ),
    (
        "gamma missing from the trace",
        "gamma * gae_lambda, terminated | truncated)",
        "gae_lambda + 0 * gamma, terminated | truncated)",
        "Advantages are larger than they should be and reach further into the future.",
    ),
    (
        "target is reward plus advantage",
        "value_targets = advantages + v",
        "value_targets = advantages + r",
        "The critic chases a moving target and explains nothing.",
    ),
    (
        "first step left out",
        "range(len(x) - 2, -1, -1)",
        "range(len(x) - 2, 0, -1)",
        "The first step of each rollout learns from its one-step residual only.",
    ),
    (
        "forwards instead of backwards",
        "for t in range(len(x) - 2, -1, -1):",
        "for t in range(len(x) - 1):",
        "Each advantage sees two steps ahead, whatever lambda says.",
    ),
    (
        "end flag read one step late",
        "where=goes_on[t])",
        "where=goes_on[t + 1])",
        "The trace is cut one step too early, and leaks across the end.",
    ),
    (
        "trace never cut",
        "out=x[t], where=goes_on[t])",
        "out=x[t])",
        "Returns run on through the ends of episodes.",
    ),
    (
        "last row does not end",
        "ends[-1] = True",
        "ends[-1] = ends[-1]",
        "The value behind the end of the batch is lost, so late steps look worthless.",
    ),
    (
        "writes into the caller's flags",
        "ends = ends.copy()",
        "ends = ends[:]",
        "Whoever uses the flags afterwards sees an episode end that never was.",
    ),
    (
        "bootstrap at every step",
        "r + gamma * np.where(ends, value, 0)",
        "r + gamma * value",
        "Returns count the future twice.",
    ),
    (
        "bootstrap not discounted",
        "r + gamma * np.where(ends, value, 0)",
        "r + np.where(ends, value, 0)",
        "Returns of cut episodes are too high by 1 − gamma of the value.",
    ),
    (
        "divisor N − 1",
        "** 2).sum(-1, keepdims=True) / count)",
        "** 2).sum(-1, keepdims=True) / (count - 1))",
        "A minibatch of one sample turns the network into NaN.",
    ),
    (
        "variance for standard deviation",
        "std = np.sqrt((np.where(kept, data - mean, 0) ** 2)",
        "std = ((np.where(kept, data - mean, 0) ** 2)",
        "The step size depends on the scale of the reward again.",
    ),
    (
        "mean summed in float32",
        "keepdims=True, dtype=np.float64) / count",
        "keepdims=True) / count.astype(data.dtype)",
        "Advantages with a large common part are no longer centred.",
    ),
    (
        "rounding counts as spread",
        "constant = std <= 10 * np.finfo(data.dtype).eps * np.abs(mean)",
        "constant = std <= 0",
        "Equal advantages become ±1: rounding errors are learnt.",
    ),
    (
        "mask ignored in the mean",
        "mean = np.where(kept, data, 0).sum(",
        "mean = data.sum(",
        "Reset rows shift the advantages of all the others.",
    ),
    (
        "mask ignored in the result",
        "np.where(kept & ~constant, scaled, 0.0)",
        "np.where(~constant, scaled, 0.0)",
        "The actions ignored by the environment on reset rows are reinforced.",
    ),
    (
        "statistics over all runs",
        "(np.where(kept, data - mean, 0) ** 2).sum(-1, keepdims=True)",
        "(np.where(kept, data - mean, 0) ** 2).sum(keepdims=True)",
        "A run with large rewards slows the learning of the other runs.",
    ),
    (
        "explained variance over the values",
        "target_std, constant = _moments(targets, everything)",
        "target_std, constant = _moments(values, everything)",
        "A critic that predicts large nonsense looks good.",
    ),
    (
        "explained variance without the square",
        "(residual_std / np.where(constant, np.nan, target_std)) ** 2",
        "(residual_std / np.where(constant, np.nan, target_std))",
        "The critic looks worse than it is.",
    ),
    (
        "explained variance of constant targets",
        "np.where(constant, np.nan, target_std)",
        "np.where(constant, 1.0, target_std)",
        "A number is plotted where there is none.",
    ),
    (
        "the row that ended is called the reset row",
        "valid[t] = ~(valid[t - 1] & ended[t - 1])",
        "valid[t] = ~ended[t]",
        "The step that ended the episode, with its reward, never reaches the loss.",
    ),
    (
        "flags of reset rows believed",
        "valid[t] = ~(valid[t - 1] & ended[t - 1])",
        "valid[t] = ~ended[t - 1]",
        "The first real step after some resets is thrown away.",
    ),
    (
        "everything in float64",
        "dtype = np.result_type(*floats) if floats else np.dtype(np.float64)",
        "dtype = np.dtype(np.float64)",
        "float32 training silently runs in float64 behind the estimator.",
    ),
]
