"""rlcourse: verified policy-gradient algorithms, small enough to read.

The public names of all rooms but the classroom are here: `from rlcourse import gae, VPG, train`.
"""

from rlcourse.agents.a2c import A2C
from rlcourse.agents.ppo import PPO, PenaltyPPO
from rlcourse.agents.recommended import recommended
from rlcourse.agents.training import TrainingResult, TrainingState, evaluate, iterate, load, train
from rlcourse.agents.trpo import TRPO
from rlcourse.agents.vpg import VPG
from rlcourse.diagnosis.diagnose import Hooks, Report, diagnose
from rlcourse.equations.distributions import Categorical, DiagonalGaussian, SquashedGaussian
from rlcourse.equations.estimators import (
    discounted_returns,
    explained_variance,
    gae,
    lambda_returns,
    n_step_advantages,
    normalize_advantages,
    td_residuals,
    valid_rows,
)
from rlcourse.equations.objectives import (
    clip_fraction,
    clipped_surrogate_loss,
    kl_estimates,
    policy_gradient_loss,
    surrogate_objective,
    value_loss,
)
from rlcourse.equations.trust_region import backtracking_line_search, conjugate_gradient, fisher_vector_product, kkt_step
from rlcourse.experiments.distributed import train_data_parallel
from rlcourse.experiments.storage import load_run, train_in_folder
from rlcourse.experiments.sweep import sweep
from rlcourse.worlds.lqr import LQR
from rlcourse.worlds.make_env import make_env
from rlcourse.worlds.tabular import TabularMDP, exact_policy_gradient, finite_difference_gradient

__version__ = "0.1.0"
__all__ = [
    "A2C",
    "backtracking_line_search",
    "Categorical",
    "clip_fraction",
    "clipped_surrogate_loss",
    "conjugate_gradient",
    "diagnose",
    "DiagonalGaussian",
    "discounted_returns",
    "evaluate",
    "exact_policy_gradient",
    "explained_variance",
    "finite_difference_gradient",
    "fisher_vector_product",
    "gae",
    "Hooks",
    "iterate",
    "kkt_step",
    "kl_estimates",
    "lambda_returns",
    "load",
    "load_run",
    "LQR",
    "make_env",
    "n_step_advantages",
    "normalize_advantages",
    "policy_gradient_loss",
    "PenaltyPPO",
    "PPO",
    "recommended",
    "Report",
    "SquashedGaussian",
    "surrogate_objective",
    "sweep",
    "TabularMDP",
    "td_residuals",
    "train",
    "train_data_parallel",
    "train_in_folder",
    "TrainingResult",
    "TrainingState",
    "TRPO",
    "valid_rows",
    "value_loss",
    "VPG",
]
