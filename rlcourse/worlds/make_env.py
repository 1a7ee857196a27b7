"""Any Gymnasium environment as n sub-environments that step together, with episode ends handled right.

Two engines stand behind one interface: Gymnasium's own `SyncVectorEnv`, and for a few tasks a batched twin that computes the
same numbers for all sub-environments at once (`rlcourse.worlds.classic_control`, `mujoco_batch`, `lqr`).
"""

import contextlib
import difflib
import importlib
import math
import operator
import traceback
from collections.abc import Sequence
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlcourse.worlds import mujoco_batch, snapshots
from rlcourse.worlds.classic_control import TWINS


def make_env(env, num_envs=1, *, seed=0, batched=True):
    """Make `num_envs` copies of an environment that step together and never produce a reset row.

    Where an episode ends, the sub-environment is reset within the same step, and `step` returns both observations: the
    true successor (`next_obs`, what a value may be bootstrapped from) and the first one of the next episode (`obs`).

    Args:
        env: a Gymnasium id such as "CartPole-v1" ("my_module:MyTask-v0" imports my_module first), or a function without
            arguments that makes a `gymnasium.Env`.
        num_envs: how many sub-environments, ≥ 1.
        seed: an int ≥ 0, or a sequence of `num_envs` such ints, one per sub-environment. What happens in sub-environment i
            depends on its own seed and its own actions only. An int is spread by NumPy's SeedSequence.
        batched: use the batched twin for the ids that have one: the same numbers, many times faster (CartPole-v1,
            Acrobot-v1, Pendulum-v1) or somewhat faster (HalfCheetah-v5, Hopper-v5); and for an environment that brings a twin
            of its own (LQREnv). False takes Gymnasium's own code.

    Returns:
        A `VectorWorld`, with

        - `name`, `num_envs`, `observation_space`, `action_space` (of one sub-environment), `batched` (the twin is used),
          `obs_size` (length of one observation vector; a Discrete observation is shown one-hot);
        - `reset()` -> obs (num_envs, obs_size), float32 (float64 if the space is float64);
        - `step(action)` -> (obs, reward, terminated, truncated, next_obs). action: (num_envs,) ints 0..n−1 for Discrete
          (a `start` of the space is added inside), (num_envs, A) floats for Box (clipped to the bounds inside, and nowhere
          else). reward (num_envs,) float64, flags (num_envs,) bool. `next_obs` equals `obs` except where an episode ended;
        - `close()`.

    Raises:
        ValueError: unknown id; an environment that cannot be made; a space that is not supported; num_envs < 1; a wrong number
            of seeds; later: an action outside the space; an observation or reward that is not finite; an environment that
            raises an error of its own, which is kept as the cause.
        TypeError: env is neither an id nor a function that makes a `gymnasium.Env`; seed or num_envs is not an int.
    """
    num_envs = _check_num_envs(num_envs)
    seeds = _spread(seed, num_envs)
    if isinstance(env, gymnasium.Env):
        raise TypeError(f"env is an environment ({env}), but every sub-environment needs one of its own. Pass a function "
                        "that makes one: make_env(lambda: MyEnv(...)), or a Gymnasium id.")
    if isinstance(env, str):
        if batched and (env in TWINS or (env in mujoco_batch.ROBOTS and mujoco_batch.available())):
            with make(env) as made:
                dynamics = TWINS[env] if env in TWINS else mujoco_batch.ROBOTS[env](made)
                return _TwinWorld(env, made, dynamics, made.spec.max_episode_steps, seeds)
        check_id(env)
        return _GymnasiumWorld(lambda: make(env, disable_env_checker=True), env, seeds)
    if callable(env):
        first = [env()]
        if batched and (twin := getattr(first[0], "batched_twin", None)):
            return _TwinWorld(type(first[0]).__name__, first[0], twin, twin.max_episode_steps, seeds)
        return _GymnasiumWorld(lambda: first.pop() if first else env(), None, seeds)
    raise TypeError(f"env must be a Gymnasium id or a function that makes a gymnasium.Env, got {env!r} ({type(env).__name__}).")


class VectorWorld:
    """What both engines share: the spaces, the checks of actions, reset before step. See `make_env`."""

    batched = False

    def __init__(self, name, num_envs, observation_space, action_space):
        self.name, self.num_envs = name, num_envs
        self.observation_space, self.action_space = observation_space, action_space
        self.obs_size = _obs_size(name, observation_space)
        self.obs_dtype = np.float64 if observation_space.dtype == np.float64 else np.float32
        _check_action_space(name, action_space)
        self._open, self._ready = True, False

    def __repr__(self):
        engine = "batched twin" if self.batched else "Gymnasium"
        return f"<{self.name}, {self.num_envs} sub-environments, {engine}>"

    def reset(self):
        """Start a new episode in every sub-environment. Later calls go on with the same random streams.

        Returns:
            obs (num_envs, obs_size).
        """
        if not self._open:
            raise RuntimeError(f"{self.name} is closed; make a new one.")
        self._ready = True
        return self._reset()

    def step(self, action):
        """Take one step in every sub-environment; where an episode ends, start the next one.

        Args:
            action: (num_envs,) ints for Discrete, (num_envs, A) floats for Box.

        Returns:
            obs (num_envs, obs_size), reward (num_envs,), terminated (num_envs,), truncated (num_envs,), next_obs like obs.
        """
        if not self._ready:
            problem = "call reset() before step()" if self._open else "closed; make a new one"
            raise RuntimeError(f"{self.name}: {problem}.")
        discrete = isinstance(self.action_space, Discrete)
        return self._step(self._discrete_action(action) if discrete else self._box_action(action))

    def close(self):
        """Free what the sub-environments hold. Stepping is an error from here on."""
        if self._open:
            self._open = self._ready = False
            self._close()

    def _close(self):
        pass

    def snapshot(self):
        """Where every sub-environment stands, random streams included, as plain data with NumPy arrays.

        Raises:
            worlds.snapshots.CannotStore: an environment keeps something that is no plain data.
        """
        raise NotImplementedError

    def restore(self, snapshot):
        """Go on where another world, made by the same call, stood at its `snapshot()`. In place of a first `reset()`."""
        self._ready = True
        self._restore(snapshot)

    def _discrete_action(self, action):
        action, n = np.asarray(action), int(self.action_space.n)
        if action.dtype.kind not in "iu":
            raise TypeError(f"{self.name}: actions must be ints 0..{n - 1}, got dtype {action.dtype}.")
        if action.shape != (self.num_envs,):
            raise ValueError(f"{self.name}: actions must have shape ({self.num_envs},), got {action.shape}.")
        if action.min() < 0 or action.max() >= n:
            raise ValueError(f"{self.name}: actions must be ints 0..{n - 1}, got {action[(action < 0) | (action >= n)][0]}.")
        return action

    def _box_action(self, action):
        action, space = np.asarray(action), self.action_space
        size = math.prod(space.shape)
        if action.dtype.kind not in "fiu":
            raise TypeError(f"{self.name}: actions must be floats, got dtype {action.dtype}.")
        if action.shape != (self.num_envs, size):
            raise ValueError(f"{self.name}: actions must have shape ({self.num_envs}, {size}), got {action.shape}.")
        if not np.isfinite(action).all():
            row = np.flatnonzero(~np.isfinite(action).all(1))[0]
            raise ValueError(f"{self.name}: the action of sub-environment {row} is not finite: {action[row]}. "
                             "Look for NaN in the policy's parameters.")
        return np.clip(action, space.low.reshape(size), space.high.reshape(size)).astype(space.dtype)


class _TwinWorld(VectorWorld):
    """A batched twin: the dynamics as functions of state columns; here the start states, the time limit and the resets."""

    batched = True

    def __init__(self, name, env, dynamics, max_episode_steps, seeds):
        super().__init__(name, len(seeds), env.observation_space, env.action_space)
        self.dynamics, self.max_episode_steps = dynamics, max_episode_steps
        self._pool = getattr(dynamics, "POOL", 32)  # start states drawn at a time, per sub-environment
        self._starts = [self._start_states(seed) for seed in seeds]
        self._age = np.zeros(self.num_envs, np.int64)  # steps since the last reset
        self.state = np.empty((self.dynamics.state_size, self.num_envs))

    def _start_states(self, seed):
        return _StartStates(self.dynamics, seed, self._pool)

    def snapshot(self):
        return {"state": self.state.copy(), "age": self._age.copy(), "starts": [starts.snapshot() for starts in self._starts]}

    def _restore(self, snapshot):
        self.state, self._age = snapshot["state"].copy(), snapshot["age"].copy()
        for starts, stored in zip(self._starts, snapshot["starts"], strict=True):
            starts.restore(stored)

    def _restart(self, rows):
        """Start a new episode in the sub-environments `rows`."""
        self.state[:, rows] = np.array([next(self._starts[row]) for row in rows]).T
        self._age[rows] = 0

    def _reset(self):
        self._restart(np.arange(self.num_envs))
        return self.dynamics.observe(self.state)

    def _step(self, action):
        self.state, reward, terminated = self.dynamics.step(self.state, action)
        self._age += 1
        truncated = self._age >= self.max_episode_steps
        next_obs = self.dynamics.observe(self.state)
        obs = next_obs.copy()
        rows = (terminated | truncated).nonzero()[0]
        if rows.size:
            self._restart(rows)
            obs[rows] = self.dynamics.observe(self.state[:, rows])
        return obs, reward, terminated, truncated, next_obs


class _StartStates:
    """Start states for ever, drawn `pool` at a time from the generator that Gymnasium makes of the same seed."""

    def __init__(self, dynamics, seed, pool):
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        self.draw = lambda: dynamics.start(self.rng, pool)
        self.pool, self.used, self.before = pool, pool, None

    def __next__(self):
        if self.used == self.pool:
            self.before = self.rng.bit_generator.state
            self.states, self.used = self.draw(), 0
        self.used += 1
        return self.states[self.used - 1]

    def snapshot(self):
        """How many of the pool are used, and the generator before the pool was drawn."""
        return {"used": self.used, "generator": self.before}

    def restore(self, snapshot):
        self.used, self.before = snapshot["used"], snapshot["generator"]
        if self.before is not None:
            self.rng.bit_generator.state = self.before
            self.states = self.draw()


class _GymnasiumWorld(VectorWorld):
    """Gymnasium's SyncVectorEnv with SAME_STEP resets; the true successor comes from its `final_obs`."""

    def __init__(self, make, name, seeds):
        with contextlib.ExitStack() as made:  # closes what was made if something fails on the way
            envs = [made.enter_context(contextlib.closing(_make_one(make))) for _ in seeds]
            self._set_up(envs, name, seeds)
            made.pop_all()

    def _set_up(self, envs, name, seeds):
        if len({id(env.unwrapped) for env in envs}) < len(envs):
            raise ValueError("The function returned the same environment twice: the sub-environments would share one state. "
                             "Let it make a new one at each call: make_env(lambda: MyEnv(...)).")
        spec = envs[0].spec
        name = name or (spec.id if spec else type(envs[0].unwrapped).__name__)
        super().__init__(name, len(envs), envs[0].observation_space, envs[0].action_space)
        for i, env in enumerate(envs):
            if (env.observation_space, env.action_space) != (self.observation_space, self.action_space):
                raise ValueError(f"{name}: sub-environment {i} has other spaces than sub-environment 0: "
                                 f"{env.observation_space}, {env.action_space}.")
        guarded = [_Guard(env, self, i) for i, env in enumerate(envs)]
        self._envs = SyncVectorEnv([lambda env=env: env for env in guarded], autoreset_mode=AutoresetMode.SAME_STEP)
        self._seeds = seeds

    def _reset(self):
        obs, _ = self._envs.reset(seed=self._seeds)
        self._seeds = None  # later resets go on with the same streams
        return obs

    def _step(self, action):
        start = getattr(self.action_space, "start", None)
        if start:
            action = action + start
        elif self.action_space.shape == ():
            action = action.reshape(self.num_envs)
        obs, reward, terminated, truncated, info = self._envs.step(action)
        next_obs = obs.copy()
        for row in np.flatnonzero(terminated | truncated):
            next_obs[row] = info["final_obs"][row]
        return obs, reward, terminated, truncated, next_obs

    def snapshot(self):
        return {"envs": [snapshots.take(env) for env in self._envs.envs]}

    def _restore(self, snapshot):
        self._reset()  # lets wrappers and simulators set themselves up
        for env, stored in zip(self._envs.envs, snapshot["envs"], strict=True):
            snapshots.put_back(env, stored)

    def _close(self):
        self._envs.close()


class _Guard(gymnasium.Wrapper):
    """One sub-environment that shows every observation as a fresh, checked vector, and checks every reward.

    Fresh matters: an environment that hands out its own state array overwrites the final observation when it resets.
    """

    def __init__(self, env, world, index):
        super().__init__(env)
        self.observation_space = Box(-np.inf, np.inf, (world.obs_size,), world.obs_dtype)
        self._name, self._index, self._steps, self._space = world.name, index, 0, world.observation_space

    def reset(self, *, seed=None, options=None):
        answer = self._ask("reset", seed=seed, options=options)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise self._error(f"reset() must return (obs, info), but returned {answer!r}")
        return self._vector(answer[0]), {}

    def step(self, action):
        self._steps += 1
        answer = self._ask("step", action)
        if not (isinstance(answer, tuple) and len(answer) == 5):
            raise self._error(f"step() must return (obs, reward, terminated, truncated, info), but returned {answer!r}")
        obs, reward, terminated, truncated, _ = answer
        try:
            reward = float(np.asarray(reward).item())
        except (TypeError, ValueError):
            raise self._error(f"the reward is not a number: {reward!r}") from None
        if not math.isfinite(reward):
            raise self._error(f"the reward is not finite: {reward}")
        return self._vector(obs), reward, bool(terminated), bool(truncated), {}

    def _ask(self, name, *arguments, **options):
        try:
            return getattr(self.env, name)(*arguments, **options)
        except Exception as error:
            raise self._error(f"{name}() raised {told(error)}") from error

    def _vector(self, obs):
        """One observation as a new vector (obs_size,)."""
        space = self._space
        if isinstance(space, Discrete):
            if not space.contains(obs):
                raise self._error(f"the observation {obs!r} is not in {space}")
            vector = np.zeros(space.n, np.float32)
            vector[int(obs) - int(space.start)] = 1.0
            return vector
        try:
            vector = np.array(obs, self.observation_space.dtype)
        except (TypeError, ValueError):
            raise self._error(f"the observation is not an array of numbers: {obs!r}") from None
        if vector.shape != space.shape:
            raise self._error(f"the observation has shape {vector.shape}, its space says {space.shape}")
        if not np.isfinite(vector).all():
            raise self._error(f"the observation is not finite: {vector}")
        return vector.reshape(-1)

    def _error(self, what):
        return ValueError(f"{self._name}, step {self._steps}, sub-environment {self._index}: {what}. "
                          "The fault is inside the environment; mend it there.")


def told(error):
    """An error of somebody else's code in one line: its kind, its words, and where it was raised."""
    steps = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(steps[-1].filename).name}, line {steps[-1].lineno})" if steps else ""
    return f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}{place}"


def make(env_id, **options):
    """gymnasium.make; ValueError where the environment's own code, or a package that it needs, is not there or fails."""
    try:
        return gymnasium.make(env_id, **options)
    except Exception as error:
        raise ValueError(f"{env_id} cannot be made: {told(error)}. If a package is missing, install it; otherwise the fault is "
                         "inside the environment.") from error


def _make_one(make):
    """Call the user's function and insist on a gymnasium.Env."""
    env = make()
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"The function must make a gymnasium.Env, but it returned {env!r} ({type(env).__name__}).")
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env.unwrapped, name, None), Space):
            raise TypeError(f"{type(env.unwrapped).__name__} has no {name}. Set it in __init__, to one of gymnasium.spaces.")
    return env


def _check_num_envs(num_envs):
    if isinstance(num_envs, bool) or not hasattr(num_envs, "__index__"):
        raise TypeError(f"num_envs must be an int ≥ 1, got {num_envs!r}.")
    if num_envs < 1:
        raise ValueError(f"num_envs must be ≥ 1, got {num_envs}.")
    return operator.index(num_envs)


def _spread(seed, num_envs):
    """One int seed per sub-environment, from one int or from a sequence of them."""
    single = not isinstance(seed, Sequence | np.ndarray)
    seeds = [seed] if single else list(seed)
    for s in seeds:
        if isinstance(s, bool) or not hasattr(s, "__index__"):
            raise TypeError(f"seed must be an int ≥ 0 or one such int per sub-environment, got {seed!r}.")
        if s < 0:
            raise ValueError(f"seeds must be ≥ 0, got {s}.")
    if single:
        return [int(s) for s in np.random.SeedSequence(operator.index(seed)).generate_state(num_envs, np.uint64)]
    if len(seeds) != num_envs:
        raise ValueError(f"{num_envs} sub-environments need {num_envs} seeds (or a single int), got {len(seeds)}.")
    return [operator.index(s) for s in seeds]


def check_id(env_id):
    """Raise ValueError with close matches if Gymnasium does not know the id. In "module:Id-v0" the module is imported first."""
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            way_out = f"there is no module {error.name!r}. It must lie in the folder where Python was started, or be installed."
        else:
            way_out = f"importing {module!r} raised {told(error)}. Mend it there."
        raise ValueError(f"Unknown environment id {env_id!r}: {way_out}") from error
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = difflib.get_close_matches(env_id, gymnasium.registry.keys(), n=3, cutoff=0.6)
        hint = f"Did you mean {', '.join(near)}?" if near else "gymnasium.pprint_registry() lists the ids."
        raise ValueError(f"Unknown environment id {env_id!r}. {hint} An environment from another package has to be "
                         f"installed and imported first. ({error})") from None


def _obs_size(name, space):
    """Length of the observation vector the agent sees; ValueError for a space that has none."""
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, Box) and len(space.shape) <= 1 and space.dtype != np.uint8:
        return math.prod(space.shape)
    if isinstance(space, Box) and space.dtype == np.uint8:
        advice = ("This course has networks for vectors only, none for images. For a small image, flatten and scale it: "
                  "gymnasium.wrappers.DtypeObservation(gymnasium.wrappers.FlattenObservation(env), numpy.float32), then / 255.")
    else:
        advice = "Flatten it: make_env(lambda: gymnasium.wrappers.FlattenObservation(gymnasium.make(...)))."
    raise ValueError(f"{name}: the observation space {space} is not supported (Box with one axis, or Discrete). {advice}")


def _check_action_space(name, space):
    if isinstance(space, Discrete):
        return
    if isinstance(space, Box) and len(space.shape) <= 1 and space.dtype.kind == "f" and math.prod(space.shape) > 0:
        return
    raise ValueError(f"{name}: the action space {space} is not supported (Discrete, or Box of floats with one axis). Map it to "
                     "one of these with gymnasium.wrappers.TransformAction(env, function, action_space).")
