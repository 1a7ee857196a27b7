"""rlcourse: verified policy-gradient algorithms, small enough to read.

The public names of all rooms but the classroom are here: `from rlcourse import gae, VPG, train`.
"""

from rlcourse.agents.recommended import recommended
from rlcourse.agents.training import TrainingResult, TrainingState, evaluate, iterate, load, train
from rlcourse.agents.vpg import VPG
from rlcourse.equations.distributions import Categorical, DiagonalGaussian
from rlcourse.equations.estimators import (
    discounted_returns,
    explained_variance,
    gae,
    normalize_advantages,
    td_residuals,
    valid_rows,
)
from rlcourse.equations.objectives import policy_gradient_loss, value_loss
from rlcourse.worlds.make_env import make_env

__version__ = "0.1.0"
