"""Checks that every equation makes on its arguments: shapes agree, hyper-parameters lie in their range."""

import numpy as np
import torch


def check_same_shape(**arguments):
    """Refuse data of different shapes, or of no samples: nothing is ever broadcast silently.

    Raises:
        ValueError: names the two arguments that differ and both shapes, for example (N,) with (N, 1).
    """
    (first, reference), *others = arguments.items()
    for name, data in others:
        if data.shape != reference.shape:
            raise ValueError(
                f"{first} and {name} must have the same shape, but {first} is {tuple(reference.shape)} and {name} is "
                f"{tuple(data.shape)}. Nothing is broadcast; reshape one of them, for example with squeeze(-1)."
            )
    if 0 in reference.shape or len(reference.shape) == 0:
        raise ValueError(f"{first} has shape {tuple(reference.shape)}: at least one axis and one sample are needed.")


def check_tensors(**arguments):
    """check_same_shape, for functions that take torch tensors only.

    Raises:
        TypeError: names the argument that is no tensor of floats. ValueError: as check_same_shape.
    """
    for name, data in arguments.items():
        if not isinstance(data, torch.Tensor):
            raise TypeError(f"{name} must be a torch tensor, not {type(data).__name__}. Convert it: torch.as_tensor({name}).")
        if not data.dtype.is_floating_point:
            raise TypeError(f"{name} must hold floats, not {str(data.dtype).removeprefix('torch.')}. Convert it: {name}.float().")
    check_same_shape(**arguments)


def check_whole(name, value, least):
    """Refuse what is no whole number (TypeError) or below `least` (ValueError)."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, not {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, but is {value}.")


def per_run(name, value, like, low, high):
    """A hyper-parameter that is one number, or one number per run, made ready to multiply the data `like`.

    Args:
        name: what to call it in an error.
        value: a number, or an array whose shape equals the leading axes of `like`, for example (R,) for data (R, N).
        like: array or tensor that the hyper-parameter will meet (for trajectories: one time step).
        low, high: the allowed range, both ends included.

    Returns:
        A float, or an array of the kind and dtype of `like` with trailing axes of length one.

    Raises:
        TypeError: value is not numeric. ValueError: out of range (or NaN), or one-per-run with the wrong shape.
    """
    if type(value) is float and low <= value <= high:
        return value  # the usual case, in the inner loop of training
    try:
        numbers = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
        readable = numbers.dtype.kind in "fiu"
    except ValueError:  # lists of unequal length
        readable = False
    if not readable:
        raise TypeError(f"{name} must be a number, or an array with one number per run, not {value!r}.")
    if not np.all((low <= numbers) & (numbers <= high)):
        raise ValueError(f"{name} must lie between {low} and {high}, but is {value!r}.")
    if numbers.ndim == 0:
        return float(numbers)
    if numbers.shape != tuple(like.shape[: numbers.ndim]):
        raise ValueError(
            f"{name} has shape {numbers.shape}, which does not match the leading axes of the data {tuple(like.shape)}. "
            "Give one number, or one number per run."
        )
    numbers = numbers.reshape(numbers.shape + (1,) * (len(like.shape) - numbers.ndim))
    return torch.as_tensor(numbers).to(like) if isinstance(like, torch.Tensor) else numbers.astype(like.dtype)
