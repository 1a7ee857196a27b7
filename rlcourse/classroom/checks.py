"""Checks that show both sides: `compare` for numbers that must be equal, `within_standard_errors` for Monte Carlo.

The text they print is the same on every processor, so nbval may compare it strictly. Two rules make it so. Numbers are
printed with at most 6 significant digits and never finer than a tenth of the tolerance, so rounding noise is not shown. And a
number is first rounded at a tenth of the tolerance, only then to 6 digits: a "nice" number that sits exactly
between two printed values (0.0009765625 = 1/1024) comes out the same whether noise put it just below or just above.
A difference is never printed, only whether it is within the tolerance.
"""

from decimal import ROUND_HALF_EVEN, Context, Decimal
from math import floor, log10

import numpy as np

DIGITS = 6
SHOWN = 4  # components of a vector that are printed


def compare(title, *, tolerance=1e-10, **routes):
    """Print a quantity computed by two or more routes and assert that they agree: max over pairs and components ≤ tolerance.

    Args:
        title: what is compared, for the reader.
        tolerance: largest absolute difference allowed, > 0.
        routes: name=value, two or more; numbers, NumPy arrays or torch tensors of one shape.

    Raises:
        AssertionError: the routes disagree, or one is not finite; the message says where and how.
        ValueError: fewer than two routes, different shapes, or a tolerance that is not positive.
    """
    arrays = {name: _array(name, value) for name, value in routes.items()}
    if len(arrays) < 2:
        raise ValueError(f"compare needs at least two routes to the same quantity, got {list(arrays)}")
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance} must be above 0: the largest difference you accept")
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"the routes of {title!r} have different shapes {shapes}: bring them to one shape first")
    lines = [(name.replace("_", " "), text(array, tolerance)) for name, array in arrays.items()]
    lines.append(("|difference|", f"≤ {tolerance:g}: {_agree(arrays, tolerance)}"))
    width = max(len(name) for name, _ in lines)
    print("\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines)]))
    assert _agree(arrays, tolerance), _disagreement(title, arrays, tolerance)


def _array(name, value):
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.size == 0:
        raise ValueError(f"route {name!r} must be a real number or a non-empty array of them, got {value!r}")
    return array.astype(float)


def _agree(arrays, tolerance):
    stack = np.stack(list(arrays.values()))
    return bool(np.isfinite(stack).all() and (stack.max(0) - stack.min(0)).max() <= tolerance)


def _disagreement(title, arrays, tolerance):
    """What is wrong, where, and the likely reason."""
    broken = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if broken:
        return f"{title}: {' and '.join(broken)} contain{'s' if len(broken) == 1 else ''} NaN or infinity"
    (first, a), *others = arrays.items()
    other, b = max(others, key=lambda item: np.abs(item[1] - a).max())
    where = np.unravel_index(np.abs(b - a).argmax(), a.shape)
    place = f" at component {list(map(int, where))}" if a.ndim else ""
    message = (f"{title}: {first} and {other} disagree by {np.abs(b - a).max():.3g}{place} "
               f"({a[where]:.6g} against {b[where]:.6g}); allowed {tolerance:g}")  # fmt: skip
    factor = float((a * b).sum() / max((a * a).sum(), 1e-300))
    if a.any() and np.abs(b - factor * a).max() <= 1e-6 * np.abs(b).max():
        sign = ". One side has the wrong sign"
        message += sign if abs(factor + 1) < 1e-6 else f". {other} is {factor:.6g} times {first}: look for a missing factor"
    return message


def text(value, tolerance=1e-10):
    """A number or array as text: ≤ 6 significant digits, nothing below the tolerance, first components only."""
    array = np.asarray(value, float)
    numbers = [_number(x, tolerance) for x in array.flat[: SHOWN if array.size > SHOWN + 1 else None]]
    if array.ndim == 0:
        return numbers[0]
    listing = ", ".join(numbers)
    if array.size > len(numbers):
        return f"[{listing}, …] shape {array.shape}"
    return f"[{listing}]" if array.ndim == 1 else f"[{listing}] shape {array.shape}"


def _number(value, tolerance):
    if not np.isfinite(value):
        return str(float(value))
    if abs(value) <= tolerance:
        return "0"
    noise_free = Decimal(float(value)).quantize(Decimal(1).scaleb(floor(log10(tolerance)) - 1), context=Context(prec=400))
    short = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN).create_decimal(noise_free).normalize()
    return f"{short:f}" if -5 <= short.adjusted() < 9 else f"{short:e}"
