"""Probe environments: so small that the right answer is known, each able to expose one kind of fault.

Try them in this order; the first that an agent fails tells where to look:

    ConstantReward        the critic and its loss
    ObservedReward        the critic's use of the observation
    DelayedReward         discounting, and the value of the next state
    TruncatedForever      bootstrapping at a time limit
    RewardedAction        the policy's loss (signs!) and the advantage
    ObservedAction        all of it together

Every class has `observations` (k, d), the distinct observations; `values(gamma)` (k,), the value of each under the best
policy (no probe before RewardedAction depends on the policy); and `optimal_return`, the best expected undiscounted return
of an episode. Use: `make_env(ConstantReward)`, or `make_env(lambda: RewardedAction(continuous=True))`.

Reference: Andy Jones, "Debugging RL, Without the Agonizing Pain" (2021), the section on probe environments.
"""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Probe(gymnasium.Env):
    """What the probes share: an observation of one number, episodes counted in steps.

    Args:
        continuous: a Box action, one number in [−1, 1], in place of a Discrete one.
    """

    observations = np.array([[0.0]])
    optimal_return = 1.0
    num_actions = 1

    def __init__(self, continuous=False):
        self.observation_space = Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32) if continuous else Discrete(self.num_actions)
        self.continuous = continuous

    def values(self, gamma):
        """Value of each of `observations` (k,), for discount gamma in [0, 1]."""
        return np.full(len(self.observations), self.optimal_return)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs = self.observations[self.np_random.integers(len(self.observations))].astype(np.float32)
        return self.obs, {}

    def step(self, action):
        return self.obs.copy(), self.reward(action), True, False, {}


class ConstantReward(Probe):
    """One observation, one step, reward 1, whatever the action. V = 1."""

    def reward(self, action):
        return 1.0


class ObservedReward(Probe):
    """Observation −1 or +1 by chance, one step, the reward is the observation. V(o) = o; expected return 0."""

    observations = np.array([[-1.0], [1.0]])
    optimal_return = 0.0

    def values(self, gamma):
        return self.observations[:, 0]

    def reward(self, action):
        return float(self.obs[0])


class DelayedReward(Probe):
    """Two steps: observation 0, reward 0; then observation 1, reward 1. V(0) = γ, V(1) = 1."""

    observations = np.array([[0.0], [1.0]])

    def values(self, gamma):
        return np.array([gamma, 1.0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs = np.zeros(1, np.float32)
        return self.obs, {}

    def step(self, action):
        reward = float(self.obs[0])
        self.obs = np.ones(1, np.float32)
        return self.obs, reward, reward == 1.0, False, {}


class TruncatedForever(Probe):
    """One observation, reward 1 at every step, never terminated, truncated after `horizon` steps. V = 1 / (1 − γ), γ < 1.

    Who takes truncation for termination learns a value below that: between 1 and (1 − γ^horizon) / (1 − γ), depending on
    the step of the episode, which the observation does not show.

    Args:
        continuous: as for every probe.
        horizon: steps until the episode is truncated, ≥ 1.
    """

    def __init__(self, continuous=False, horizon=10):
        super().__init__(continuous)
        self.horizon = horizon
        self.optimal_return = float(horizon)

    def values(self, gamma):
        return np.array([1.0 / (1.0 - gamma)])

    def reset(self, *, seed=None, options=None):
        self.elapsed = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.elapsed += 1
        return self.obs.copy(), 1.0, False, self.elapsed >= self.horizon, {}


class RewardedAction(Probe):
    """One observation, one step. Discrete: action 1 gives +1, action 0 gives −1. Box: 1 − (a − 1/2)². Best return 1."""

    num_actions = 2

    def reward(self, action):
        return 1.0 - float(action[0] - 0.5) ** 2 if self.continuous else 2.0 * int(action) - 1.0


class ObservedAction(Probe):
    """Observation o = −1 or +1 by chance, one step. Best return 1.

    Discrete: +1 if the action matches (0 for o = −1, 1 for o = +1), else −1. Box: 1 − (a − o/2)².
    """

    observations = np.array([[-1.0], [1.0]])
    num_actions = 2

    def reward(self, action):
        obs = float(self.obs[0])
        return 1.0 - float(action[0] - obs / 2) ** 2 if self.continuous else obs * (2.0 * int(action) - 1.0)


PROBES = (ConstantReward, ObservedReward, DelayedReward, TruncatedForever, RewardedAction, ObservedAction)
