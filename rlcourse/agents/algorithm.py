"""What all algorithms share: settings with ranges, and settings that differ from run to run."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import torch


def setting(default, low, high=None, *, whole=False, per_run=True, none=False, open_low=False):
    """A field of an algorithm: its default and the range in which it makes sense.

    Args:
        low, high: allowed range, ends included (`open_low`: low itself is not allowed); high None: no upper end.
        whole: an integer (then never per run: it fixes array shapes). per_run: may be a list, one value per setting.
        none: None is allowed.
    """
    limits = {"low": low, "high": high, "whole": whole, "per_run": per_run and not whole, "none": none, "open_low": open_low}
    return dataclasses.field(default=default, metadata=limits)


def choice(*options):
    """A field of an algorithm that is one of a few words, the same for all runs; the first is the default."""
    return dataclasses.field(default=options[0], metadata={"options": options})


def switch(default):
    """A field of an algorithm that is True or False, the same for all runs."""
    return dataclasses.field(default=default, metadata={"switch": True})


@dataclasses.dataclass
class Algorithm:
    """Settings of an algorithm, checked when they are set; a subclass adds fields and `update(agent, rollout)`.

    A field that is a plain number may be given as a list or tuple instead, one value per setting. All lists must have the
    same length; `train` crosses the settings with the seeds.

    Args:
        num_envs: N, environments per run. num_steps: T, steps per environment and update; a batch has N·T steps.
        hidden_sizes: widths of the tanh layers of policy and critic.
        gamma: discount γ in [0, 1]. gae_lambda: λ in [0, 1].
        reward_scale: rewards are multiplied by this before learning (reported returns are not).
        initial_log_std: start value of log σ for Gaussian policies.
        std: "free": log σ is a parameter that no state changes; "state": σ(s) = softplus(output of the network).
        bounds: of Gaussian actions. "clip": the environment gets the action clipped; "tanh": squashed into the box.
        initialisation: of the weights. "orthogonal": gains √2, and 0.01 in the policy's last layer; "uniform": torch's default.
        normalize_obs: networks see observations shifted and scaled by each run's own statistics (saved with the policy).
        normalize_reward: rewards are divided by the standard deviation of the discounted return so far, per run.
    """

    num_envs: int = setting(8, 1, whole=True)
    num_steps: int = setting(128, 1, whole=True)
    hidden_sizes: tuple = (64, 64)
    gamma: float = setting(0.99, 0.0, 1.0)
    gae_lambda: float = setting(0.95, 0.0, 1.0)
    reward_scale: float = setting(1.0, 0.0, open_low=True)
    initial_log_std: float = setting(0.0, -10.0, 2.0, per_run=False)
    std: str = choice("free", "state")
    bounds: str = choice("clip", "tanh")
    initialisation: str = choice("orthogonal", "uniform")
    normalize_obs: bool = switch(False)
    normalize_reward: bool = switch(False)

    def __setattr__(self, name, value):
        fields = {field.name: field for field in dataclasses.fields(self)}
        if name not in fields:
            raise AttributeError(f"{type(self).__name__} has no setting {name!r}; it has {', '.join(fields)}.")
        super().__setattr__(name, _checked(type(self).__name__, name, value, fields[name]))

    def network(self) -> dict:
        """What the networks are to look like: the options of `agents.runs.Runs`, fixed during training."""
        names = "hidden_sizes", "initial_log_std", "std", "bounds", "initialisation", "normalize_obs"
        return {name: getattr(self, name) for name in names}

    def update(self, agent, rollout) -> dict:
        """Change the parameters of `agent` by one batch; return what to record, name → (R,) tensor."""
        raise NotImplementedError(f"{type(self).__name__} must define update(agent, rollout).")

    @property
    def num_settings(self) -> int:
        """How many settings the lists spell out; 1 without lists."""
        lengths = {name: len(value) for name, value in self._lists().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"lists of settings must be equally long; got lengths {lengths}.")
        return next(iter(lengths.values()), 1)

    def settings(self) -> list[dict]:
        """One dict per setting, with the fields that are lists."""
        return [{name: value[i] for name, value in self._lists().items()} for i in range(self.num_settings)]

    def for_runs(self, num_seeds: int, dtype: torch.dtype) -> "Algorithm":
        """A copy in which every list has become a tensor with one value per run: each setting, repeated for every seed."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        for name, value in self._lists().items():
            numbers = [math.inf if number is None else number for number in value]  # None: no limit
            copy.__dict__[name] = torch.tensor(numbers, dtype=dtype).repeat_interleave(num_seeds)
        return copy

    def uses(self, coefficient: str) -> bool:
        """Whether the weight of this name is other than 0 in any run: if not, its term need not be computed."""
        return bool(np.any(np.asarray(getattr(self, coefficient))))

    def _lists(self):
        fields = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self) if field.metadata.get("per_run"))
        return {name: value for name, value in fields if isinstance(value, tuple)}


def _checked(owner, name, value, field):
    """`value` as stored: lists become tuples, NumPy numbers become Python's. Raises if it is out of range."""
    limits = field.metadata
    if limits.get("switch"):
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{owner}({name}={value!r}): expected True or False, one for all runs.")
        return bool(value)
    if "options" in limits:
        if not isinstance(value, str) or value not in limits["options"]:
            words = ", ".join(map(repr, limits["options"]))
            raise ValueError(f"{owner}({name}={value!r}): expected one of {words}, the same for all runs.")
        return value
    if not limits:
        return _checked_sizes(owner, name, value) if name == "hidden_sizes" else value
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and np.ndim(value) == 1:
        if not limits["per_run"]:
            raise TypeError(
                f"{owner}({name}={value!r}): one value for all runs, please: it fixes array shapes."
            )
        if len(value) == 0:
            raise ValueError(f"{owner}({name}={value!r}): an empty list of settings.")
        return tuple(_checked_number(owner, name, item, limits) for item in value)
    return _checked_number(owner, name, value, limits)


def _checked_number(owner, name, value, limits):
    low, high = limits["low"], limits["high"]
    kind = "an integer" if limits["whole"] else "a number"
    edge = "(" if limits["open_low"] else "["
    wanted = f"{kind} in {edge}{low}, {'∞)' if high is None else f'{high}]'}{' or None' if limits['none'] else ''}"
    if value is None and limits["none"]:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{owner}({name}={value!r}): expected {wanted}.")
    value = value.item() if isinstance(value, np.generic) else value
    inside = math.isfinite(value) and value >= low and (high is None or value <= high)
    inside = inside and not (limits["whole"] and value != math.floor(value))
    if not inside or (limits["open_low"] and value == low):
        raise ValueError(f"{owner}({name}={value!r}): expected {wanted}.")
    return int(value) if limits["whole"] else value


def _checked_sizes(owner, name, value):
    sizes = value if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [None]
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in sizes):
        raise ValueError(f"{owner}({name}={value!r}): expected widths of hidden layers, positive integers such as (64, 64).")
    return tuple(int(n) for n in sizes)
