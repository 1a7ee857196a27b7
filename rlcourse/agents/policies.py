"""From a network's output to actions: one head per kind of action space, and the policy of one trained run."""

import math

import numpy as np
import torch
from gymnasium import spaces

from rlcourse.equations.distributions import Categorical, DiagonalGaussian


class CategoricalHead:
    """Discrete(n) actions: the network's n outputs are logits. Actions are 0 … n−1; `Discrete.start` is added outside."""

    num_log_std, initial_log_std = 0, 0.0

    def __init__(self, space: spaces.Discrete, initial_log_std=0.0, std="free", bounds="clip"):
        if (std, bounds) != ("free", "clip"):
            raise ValueError(f"std = {std!r} and bounds = {bounds!r} are for Box actions; {space} has none. Leave them out.")
        self.space, self.num_outputs, self.action_shape, self.action_dtype = space, int(space.n), (), torch.int64

    def noise(self, generator, shape, dtype):
        return Categorical.noise(generator, (*shape, self.num_outputs), dtype)

    def distribution(self, output, log_std=None):
        return Categorical(output)

    def squash(self, action: np.ndarray) -> np.ndarray:
        return action

    def to_env(self, action: np.ndarray) -> np.ndarray:
        return action + self.space.start


LOWEST_LOG_STD, HIGHEST_LOG_STD = -10.0, 2.0  # σ from 4.5e-5 to 7.4: far from underflow, wide enough for any box scaled to ±1


class GaussianHead:
    """Box actions of shape (A,): a DiagonalGaussian over A unbounded numbers u, made to fit the box on the way to the
    environment only, so that log-probabilities always belong to what was drawn.

    bounds = "clip": the environment gets u clipped to the box. bounds = "tanh": it gets u squashed into the box, as by
    `SquashedGaussian`. What is stored and learned from is u in both cases: the density of the squashed action differs from that
    of u by a factor without θ, so ratios, score functions and KL are the same. (The entropy differs: this one is of u.)

    std = "free": the network's A outputs are means, log σ is a parameter that no state changes. std = "state": of 2A outputs the
    last A give σ = softplus(output + c), with c such that output 0 gives `initial_log_std`. Either way log σ is kept within
    LOWEST_LOG_STD … HIGHEST_LOG_STD; beyond, its gradient is zero.
    """

    def __init__(self, space: spaces.Box, initial_log_std=0.0, std="free", bounds="clip"):
        self.space, self.action_shape, self.action_dtype, self.std, self.bounds = space, space.shape, None, std, bounds
        self.initial_log_std, size = initial_log_std, space.shape[0]
        self.num_outputs, self.num_log_std = (2 * size, 0) if std == "state" else (size, size)
        self.offset = math.log(math.expm1(math.exp(initial_log_std)))  # softplus(offset) = exp(initial_log_std)
        if bounds == "tanh" and not np.isfinite(space.high - space.low).all():
            raise ValueError(f"bounds='tanh' needs a finite box of actions, but the space is {space}. Use bounds='clip'.")

    def noise(self, generator, shape, dtype):
        return DiagonalGaussian.noise(generator, (*shape, *self.action_shape), dtype)

    def distribution(self, output, log_std=None):
        if self.std == "free":  # clamp makes a copy, which matters: the parameters move in place
            return DiagonalGaussian(output, log_std.clamp(LOWEST_LOG_STD, HIGHEST_LOG_STD).expand_as(output))
        mean, raw = output.chunk(2, -1)
        # σ = softplus(raw + c); its input is bounded first, because the logarithm of an underflow has no gradient
        sigma = torch.nn.functional.softplus((raw + self.offset).clamp(LOWEST_LOG_STD, math.exp(HIGHEST_LOG_STD)))
        return DiagonalGaussian(mean, sigma.log())

    def squash(self, action: np.ndarray) -> np.ndarray:
        """What goes to `worlds.make_env`, which clips: u itself, or low + (high − low)(tanh(u) + 1)/2."""
        low, high = self.space.low, self.space.high
        return low + (high - low) * (np.tanh(action) + 1) / 2 if self.bounds == "tanh" else action

    def to_env(self, action: np.ndarray) -> np.ndarray:
        return np.clip(self.squash(action), self.space.low, self.space.high).astype(self.space.dtype)


def action_head(space: spaces.Space, **options):
    """The head for a Gymnasium action space: Discrete or one-dimensional Box. Options: as for GaussianHead.

    Raises:
        ValueError: for any other space, naming it.
    """
    if isinstance(space, spaces.Discrete):
        return CategoricalHead(space, **options)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return GaussianHead(space, **options)
    raise ValueError(f"action space {space} is not supported, only Discrete(n) and Box with shape (A,). Wrap the environment.")


class Policy:
    """The policy of one trained run.

    Args:
        agent: a population of one run (agents.runs.Runs).
        observation_space: single Gymnasium Box (D,) or Discrete; Discrete observations become one-hot vectors.
        seed: of the policy's own generator, used where `act` is not given one.
    """

    def __init__(self, agent, observation_space, seed: int = 0):
        self.agent, self.observation_space, self.action_space = agent, observation_space, agent.head.space
        self.generator = np.random.default_rng(seed)

    def distribution(self, obs: torch.Tensor):
        """π(·|s) for observation vectors (B, obs_size), as a distribution over (B,)."""
        return _first_run(self.agent.policy(obs.to(self.agent.dtype)[None]))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """The critic's V(s) for observation vectors (B, obs_size) → (B,)."""
        return self.agent.value(obs.to(self.agent.dtype)[None])[0]

    @torch.no_grad()
    def act(self, obs, deterministic: bool = False, generator=None):
        """An action ready for `env.step`, for one observation or a batch of them.

        Args:
            obs: one observation of the environment, or a batch with one more leading axis.
            deterministic: True: the most probable action. False: a random one.
            generator: numpy Generator; default: the policy's own.

        Returns:
            An int (Discrete) or an array of the action space's shape and dtype; for a batch an array of B actions.

        Raises:
            ValueError: obs has another shape than the environment's observations, or is not finite.
        """
        vector, single = self._vectors(obs)
        policy = self.distribution(vector)
        action = policy.mode() if deterministic else policy.sample(self.generator if generator is None else generator)
        action = self.agent.head.to_env(action.numpy())
        if not single:
            return action
        return int(action[0]) if isinstance(self.action_space, spaces.Discrete) else action[0]

    def _vectors(self, obs):
        """Observations as a (B, obs_size) tensor, and whether there was only one without a batch axis."""
        space = self.observation_space
        obs = np.asarray(obs)
        single = obs.ndim == len(space.shape)
        expected = f"one observation of shape {space.shape} or a batch (B, {', '.join(map(str, space.shape))})"
        if obs.shape[obs.ndim - len(space.shape) :] != space.shape or obs.ndim > len(space.shape) + 1:
            raise ValueError(f"obs has shape {obs.shape}; expected {expected}.")
        if isinstance(space, spaces.Discrete):
            allowed = np.arange(space.start, space.start + space.n)
            if obs.dtype.kind not in "iu" or not np.isin(obs, allowed).all():
                raise ValueError(f"obs = {obs}; expected integers from {space.start} to {space.start + space.n - 1}.")
            obs = np.eye(space.n)[np.atleast_1d(obs) - space.start]
        vector = torch.as_tensor(obs, dtype=self.agent.dtype).reshape(-1, self.agent.obs_size)
        if not torch.isfinite(vector).all():
            raise ValueError(f"obs = {obs}; expected finite numbers.")
        return vector, single


def _first_run(distribution):
    """The distribution of the only run, without the axis of runs."""
    if isinstance(distribution, Categorical):
        return Categorical(distribution.logits[0])
    return DiagonalGaussian(distribution.mean[0], distribution.log_std[0])
