"""Faults in what a lesson derives, by file and name in lists/: some check in the lesson's own cells must notice each."""

LESSONS = {
    "01_policy_gradient_theorem": {
        "worlds_tabular": [
            "undiscounted visits in the theorem",
            "gamma missing from Q",
            "score of the probability",
            "advantage relative to the best action",
            "return to go without discount",
            "performance difference on the old states",
        ],
    },
    "02_vanilla_policy_gradient": {
        "equations_objectives": ["sign of the policy loss", "sum for mean in the policy loss"],
        "equations_estimators": ["bootstrap not discounted", "divisor N − 1"],
        "agents_vpg": ["gradient ascent on the loss", "critic regresses on advantages"],
    },
    "03_generalised_advantage_estimation": {
        "equations_estimators": [
            "bootstraps through termination",
            "truncation treated as termination",
            "trace leaks across truncation",
            "gamma missing from the trace",
            "lambda for 1 − lambda",
            "bootstrap of n steps not discounted",
        ],
        "worlds_moments": ["variance decays like the mean"],
    },
    "04_trpo": {
        "equations_trust_region": [
            "factor 2 dropped",
            "multiplier without the factor 2",
            "absolute tolerance",
            "nothing detached",
            "directions not conjugate",
            "limit not checked",
        ],
        "agents_trpo": ["line search ignores the limit"],
    },
    "05_ppo_clip": {
        "equations_objectives": [
            "clip without min",
            "max for min",
            "ratio upside down",
            "limit without the absolute value",
            "log-ratio unbounded",
            "log-ratio bounded too tightly",
            "sign of k1",
            "k3 of the inverse ratio",
            "value clipping by min",
        ],
        "agents_ppo": [
            "gamma and lambda swapped",
            "entropy bonus with the wrong sign",
            "penalty moves the wrong way",
            "gradient not clipped",
            "one epoch too many",
        ],
    },
    "06_continuous_gaussian_policies": {
        "equations_distributions": [
            "log-probability averaged over dimensions",
            "standard deviation read as variance",
            "entropy without e",
            "spread counted once",
            "tanh term missing",
            "width of the bounds left out of the density",
            "tanh term by the formula that underflows",
            "quadrature over a different spread",
        ],
        "worlds_lqr": [
            "exploration left out of the state",
            "gradient without its two",
            "log sigma for one step only",
            "advantage without the two",
            "simulated with the other sign",
            "Riccati without discount",
        ],
        "agents_policies": ["log σ unbounded", "logarithm of an underflow"],
        "agents_runs": ["select forgets what the run has seen"],
    },
    "07_debugging_clinic": {
        "equations_objectives": ["sign of the policy loss", "ratio upside down"],
    },
    "08_experiments": {
        "experiments_statistics": [
            "cut of a half",
            "nothing cut",
            "not sorted",
            "one permutation instead of resampling",
            "one tail twice as long",
            "ties count as losses",
            "the other way round",
            "share at or above",
            "last entry instead of first",
            "failures dropped",
            "width for half the width",
        ],
    },
}
