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

Four more, CHOICES, tell faults apart by what the agent *does*, so that nothing but its actions need be seen. In each there is
one choice, at observation `choice`, and the fault makes the wrong action look like the better one:

    EarlyReward           advantages of an episode in reverse order
    EndOrGoOn             bootstrapping through a termination
    TruncatedInto         no bootstrap at a time limit, or one from the observation after the reset
    Patience              a missing discount

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


class Choice(Probe):
    """What the probes with one choice share: Discrete: action 0 or 1. Box: a > 0 counts as 1, all else as 0.

    `choice`: the observation where it matters; `best`: the better action there.
    """

    num_actions, choice, best = 2, -1.0, 1

    def picked(self, action):
        return int(action[0] > 0) if self.continuous else int(action)

    def at(self, obs):
        self.obs = np.array([obs], np.float32)
        return self.obs.copy()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.at(self.choice), {}


class EarlyReward(Choice):
    """Two steps. At −1, action 1 pays 1 at once and costs 1/2 in the next step (at +1); action 0 pays nothing.

    Q(−1, 1) = 1 − γ/2 and Q(−1, 0) = 0: action 1 for every γ. Who gives each step the advantage of the other one credits the
    choice with −1/2, and picks 0. The observation +1 does not show what is to be paid: V(+1) = −1/2 under the best policy.
    """

    observations = np.array([[-1.0], [1.0]])
    optimal_return = 0.5

    def values(self, gamma):
        return np.array([1.0 - gamma / 2, -0.5])

    def step(self, action):
        if self.obs[0] > 0:
            return self.obs.copy(), -self.debt, True, False, {}
        self.debt = 0.5 * self.picked(action)
        return self.at(1.0), 2 * self.debt, False, False, {}


class EndOrGoOn(Choice):
    """At −1 both actions pay 1. Action 0 ends the episode; action 1 leads to +1, where 1/2 is paid and the episode ends.

    Q(−1, 1) = 1 + γ/2 and Q(−1, 0) = 1: action 1 for every γ > 0. The last observation of every episode is −1, like the first
    of the next. Who bootstraps through the termination sees Q'(−1, 0) = 1 + γV and Q'(−1, 1) = 1 + γ(1/2 + γV) with, for action
    0, V = 1/(1 − γ): a difference of γ/2 in favour of ending at once.
    """

    observations = np.array([[-1.0], [1.0]])
    optimal_return = 1.5

    def values(self, gamma):
        return np.array([1.0 + gamma / 2, 0.5])

    def step(self, action):
        if self.obs[0] > 0:
            return self.at(-1.0), 0.5, True, False, {}
        if self.picked(action) == 0:
            return self.obs.copy(), 1.0, True, False, {}
        return self.at(1.0), 1.0, False, False, {}


class TruncatedInto(Choice):
    """A time limit right after a step into a state whose value is known, because other episodes start there.

    Episodes start at −1, 0 or +1. At ±1 the first step pays the observation and ends the episode. At 0, action 0 pays 0.3 and
    ends the episode; action 1 pays nothing, leads to +1 and is truncated there.

    Q(0, 1) = γ V(+1) = γ and Q(0, 0) = 0.3: action 1 for γ > 0.3. Truncation taken for termination gives Q'(0, 1) = 0, and a
    bootstrap from the observation after the reset γ V(0)/3 = 0.1 γ, because −1, 0 and +1 are equally likely: action 0.

    With `decoy` the state behind action 1 is −1, and +1 starts five episodes of seven: Q(0, 1) = −γ, so action 0. The
    observation after the reset is worth (5 − 1 + 0.3)/7 = 0.61, so that fault picks 1 (for γ > 0.5); truncation as termination
    does not (Q' = 0).

    Args:
        continuous: as for every probe. decoy: see above.
    """

    observations = np.array([[-1.0], [0.0], [1.0]])
    choice = 0.0

    def __init__(self, continuous=False, decoy=False):
        super().__init__(continuous)
        self.successor, self.starts = (-1.0, [-1.0, 0.0, *[1.0] * 5]) if decoy else (1.0, [-1.0, 0.0, 1.0])
        self.best = int(not decoy)
        self.optimal_return = (4.0 + 0.3) / 7 if decoy else 0.1

    def values(self, gamma):
        return np.array([-1.0, max(0.3, gamma * self.successor), 1.0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.at(self.starts[self.np_random.integers(len(self.starts))]), {}

    def step(self, action):
        obs = float(self.obs[0])
        if obs != 0.0:
            return self.obs.copy(), obs, True, False, {}
        if self.picked(action) == 0:
            return self.obs.copy(), 0.3, True, False, {}
        return self.at(self.successor), 0.0, False, True, {}


class Patience(Choice):
    """At −1, action 0 pays `now` and ends the episode; action 1 leads over three more observations to a reward of 1.

    Q(−1, 1) = γ³ and Q(−1, 0) = now. Without the discount, waiting is worth 1.

    Args:
        continuous: as for every probe. now: between γ³ and 1 it is best to take it, below γ³ to wait.
    """

    observations = np.array([[-1.0], [-0.5], [0.0], [0.5]])
    best = 0

    def __init__(self, continuous=False, now=0.75):
        super().__init__(continuous)
        self.now, self.optimal_return = now, now

    def values(self, gamma):
        return np.array([max(self.now, gamma**3), gamma**2, gamma, 1.0])

    def step(self, action):
        obs = float(self.obs[0])
        if obs == -1.0 and self.picked(action) == 0:
            return self.obs.copy(), self.now, True, False, {}
        if obs == 0.5:
            return self.obs.copy(), 1.0, True, False, {}
        return self.at(obs + 0.5), 0.0, False, False, {}


CHOICES = (EarlyReward, EndOrGoOn, TruncatedInto, Patience)
PROBES = (ConstantReward, ObservedReward, DelayedReward, TruncatedForever, RewardedAction, ObservedAction)
