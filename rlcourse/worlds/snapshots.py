"""The state of an environment as plain data, taken and put back: what a checkpoint needs, without pickle.

A Gymnasium environment is a chain of wrappers around the environment proper; its state is in their attributes. Plain data,
arrays, random generators and MuJoCo's simulation are stored. What never changes (spaces, specifications, functions, models) is
left out. Anything else, say a simulator of its own, cannot be stored, and `take` says so rather than store half a state.
"""

import sys
import types
from collections import deque

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

FIXED = (gymnasium.Env, gymnasium.Space, EnvSpec, type, types.FunctionType, types.MethodType, types.ModuleType)


class CannotStore(Exception):
    """The state holds something that is not plain data; the message names it."""


def layers(env):
    """The wrappers of an environment from the outside in, then the environment proper."""
    while True:
        yield env
        if env is env.unwrapped:
            return
        env = env.env


def take(env) -> list[dict]:
    """The state of one environment: for each of its layers, attribute → plain data with NumPy arrays in it.

    Raises:
        CannotStore: an attribute is neither plain data nor known to be fixed, or two attributes are one object.
    """
    seen = set()
    return [
        {
            name: _stored(value, f"{type(layer).__name__}.{name}", seen)
            for name, value in vars(layer).items()
            if not (_fixed(value) or name.startswith("_ezpickle"))  # arguments of the constructor
        }
        for layer in layers(env)
    ]


def put_back(env, state: list[dict]) -> None:
    """Give a newly made environment the state that `take` found in another one of its kind."""
    for layer, attributes in zip(layers(env), state, strict=True):
        for name, stored in attributes.items():
            value = _restored(stored, vars(layer).get(name))
            if value is not None or stored is None:
                vars(layer)[name] = value


def _fixed(value):
    kind = type(value)
    return isinstance(value, FIXED) or (kind.__name__ in ("MjModel", "MujocoRenderer") and "mujoco" in kind.__module__)


def _stored(value, name, seen):
    """One attribute as JSON-like data: whatever is not JSON becomes a dict with one key that says what it is."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": np.array(value)}
    if id(value) in seen:
        raise CannotStore(f"{name} is also another attribute: one object under two names")
    if type(value) is not tuple:
        seen.add(id(value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": value.copy()}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    if type(value).__name__ == "MjData":
        return {"simulation": _simulation(value)}
    if type(value) in (list, tuple, deque):
        items = [_stored(item, f"{name}[{i}]", seen) for i, item in enumerate(value)]
        return {type(value).__name__: items, "maxlen": getattr(value, "maxlen", None)}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: _stored(item, f"{name}[{key!r}]", seen) for key, item in value.items()}}
    raise CannotStore(f"{name} is a {type(value).__name__}, which is no plain data")


def _restored(stored, now):
    """The value of one attribute; `now` is what a new environment has there. None: `now` was changed in place."""
    if not isinstance(stored, dict):
        return stored
    kind, value = next(iter(stored.items()))
    if kind == "scalar":
        return value[()]
    if kind == "array":
        return value.copy()
    if kind == "generator":
        bits = getattr(np.random, value["bit_generator"])()
        bits.state = value
        return np.random.Generator(bits)
    if kind == "simulation":
        return _set_simulation(now, value)
    if kind == "dict":
        return {key: _restored(item, None) for key, item in value.items()}
    items = [_restored(item, None) for item in value]
    return deque(items, stored["maxlen"]) if kind == "deque" else tuple(items) if kind == "tuple" else items


def _simulation(data):
    """MuJoCo's own vector of everything that a next step depends on."""
    mujoco = sys.modules["mujoco"]
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(data.model, kind))
    mujoco.mj_getState(data.model, data, state, kind)
    return state


def _set_simulation(data, state):
    mujoco = sys.modules["mujoco"]
    mujoco.mj_setState(data.model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(data.model, data)  # positions of bodies and the like, which observations are made of
    mujoco.mj_setState(data.model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)  # where the solver started is part of it
