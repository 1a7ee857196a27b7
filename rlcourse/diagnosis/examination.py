"""What an examination is: it asks a learner's function something whose answer is known, and yields what is wrong.

An examination is a generator of findings, pairs (weights, evidence): weights maps suspects (diagnosis.suspects) to how strongly
they are suspected, EXACT where the numbers are those of that very fault, LIKELY or HINT where several faults could explain them.
The weights of all findings are added up, and that sum is the ranking; there is nothing more to it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

EXACT, LIKELY, HINT = 10.0, 3.0, 1.0


class Examination(NamedTuple):
    """name: as shown in the report. needs: names of the hooks it asks. suspects: whom a refusal (an error, NaN) points to."""

    name: str
    needs: tuple[str, ...]
    suspects: tuple[str, ...]
    run: Callable


def examination(name, *needs, suspects):
    """Make a generator function `(ask) → findings` an Examination."""
    return lambda run: Examination(name, needs, suspects, run)


def listed(module_globals):
    """The examinations of a module, in the order in which they are defined."""
    return [entry for entry in module_globals.values() if isinstance(entry, Examination)]


class Refusal(Exception):
    """A learner's function raised an error, or returned what is no answer.

    weights: what that tells; {}: nothing, None: the suspects of the examination are hinted at.
    """

    def __init__(self, evidence, weights=None):
        super().__init__(evidence)
        self.weights = weights


def guarded(name, function, *args, **kwargs):
    """What the function returns; any error of the learner's becomes a Refusal that names it."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001, it is a finding
        text = str(error).strip().split("\n")[0][:200]
        raise Refusal(f"{name} raised {type(error).__name__}: {text}", {}) from error


class Ask:
    """Asks the learner's functions, by name; whatever goes wrong in them becomes a Refusal.

    Args:
        functions: dict name → function.
    """

    def __init__(self, functions):
        self.functions = functions

    def __call__(self, name, *args, **kwargs):
        """The answer as it came."""
        return guarded(name, self.functions[name], *args, **kwargs)

    def array(self, name, *args, shape, **kwargs):
        """The answer as a float64 array of that shape, finite."""
        return as_array(name, self(name, *args, **kwargs), shape)

    def loss(self, name, *args):
        """The answer as a scalar tensor."""
        answer = self(name, *args)
        if not isinstance(answer, torch.Tensor):
            raise Refusal(f"{name} returned {kind(answer)}; expected a torch tensor, the loss", {"no_gradient": LIKELY})
        if answer.numel() != 1:
            raise Refusal(f"{name} returned shape {tuple(answer.shape)}; expected one number", {"broadcast": LIKELY})
        if not torch.isfinite(answer).all():
            raise Refusal(f"{name} returned {answer.item()}")
        return answer.reshape(())

    def gradient(self, name, *args, wrt):
        """(loss, its gradient in the tensor `wrt` as an array); a loss that does not depend on it is a Refusal."""
        loss = self.loss(name, *args)
        slope = torch.autograd.grad(loss, wrt, allow_unused=True)[0] if loss.requires_grad else None
        if slope is None:
            raise Refusal(f"no gradient flows from {name} to its first argument", {"no_gradient": EXACT})
        if not torch.isfinite(slope).all():
            raise Refusal(f"the gradient of {name} is not finite: {show(slope)}")
        return loss.item(), slope.numpy().astype(float)


def blame(keys, otherwise):
    """Weights for the suspects whose mistakes give exactly the numbers found (they share EXACT); without any, `otherwise`."""
    keys = list(dict.fromkeys(keys))
    return {key: EXACT / len(keys) for key in keys} or otherwise


def as_array(name, answer, shape):
    """`answer` as a finite float64 array of `shape`; Refusal if it is none."""
    try:
        answer = answer.detach().cpu().numpy() if isinstance(answer, torch.Tensor) else np.asarray(answer)
        array = answer.astype(float)
    except (TypeError, ValueError) as error:
        raise Refusal(f"{name} returned {kind(answer)}; expected numbers of shape {shape}") from error
    if array.shape != shape:
        column = array.size == int(np.prod(shape)) and array.ndim > len(shape)
        weights = {"broadcast": EXACT} if column else {"broadcast": LIKELY} if array.ndim > len(shape) else None
        raise Refusal(f"{name} returned shape {array.shape}; expected {shape}", weights)
    if not np.isfinite(array).all():
        raise Refusal(f"{name} returned numbers that are not finite: {show(array)}")
    return array


def kind(answer):
    return "None" if answer is None else f"a {type(answer).__name__}"


def same(got, expected, tolerance=1e-3):
    """|got − expected| ≤ tolerance · max(1, |expected|) everywhere: wide enough for float32."""
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    return got.shape == expected.shape and bool((np.abs(got - expected) <= tolerance * np.maximum(1, np.abs(expected))).all())


def show(numbers):
    """Numbers with four significant digits, as short text: 0.5 or [1, 0.25]."""
    if isinstance(numbers, torch.Tensor):
        numbers = numbers.detach().cpu().numpy()
    numbers = np.asarray(numbers)
    if numbers.ndim == 0:
        return f"{numbers.item() + 0.0:.4g}" if numbers.dtype.kind == "f" else str(numbers.item())
    return "[" + ", ".join(map(show, numbers)) + "]"
