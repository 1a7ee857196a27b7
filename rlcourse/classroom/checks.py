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
from scipy import stats

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
    lines = [(name.replace("_", " "), text(_without_noise(array, tolerance), tolerance)) for name, array in arrays.items()]
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


def _without_noise(array, tolerance):
    return np.where(np.abs(array) <= tolerance, 0.0, array)


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


def within_standard_errors(title, exact, samples, *, limit=4.0):
    """Print an exact value beside a Monte-Carlo mean and assert that they agree within `limit` standard errors.

    One number: |mean − exact| ≤ limit · s / √N. Several components: one joint test, T = N dᵀ C⁺ d with d = mean − exact and C the
    covariance of the samples; T is χ² with rank(C) degrees of freedom for large N, and its p-value must be at least that of a
    normal number `limit` standard errors away (4: 6e-5). Directions without variance must agree exactly.

    Args:
        exact: number or array (…).
        samples: independent estimates of it, (N, …), N at least 10 per component and 30. Draw them with a fixed seed.
        limit: standard errors, > 0.

    Raises:
        AssertionError: they do not agree. ValueError: wrong shapes, too few samples.
    """
    exact, samples = _array("exact", exact), _array("samples", samples)
    if samples.shape[1:] != exact.shape or samples.ndim == 0:
        raise ValueError(f"samples has shape {samples.shape}: it must be (N,) followed by the shape of exact, {exact.shape}")
    if len(samples) < max(30, 10 * exact.size):
        raise ValueError(
            f"{len(samples)} samples are too few for {exact.size} components: give at least {max(30, 10 * exact.size)}"
        )
    if not limit > 0:
        raise ValueError(f"limit={limit} must be above 0: how many standard errors you accept")
    mean, error = samples.mean(0), samples.std(0, ddof=1) / len(samples) ** 0.5
    distance, directions = _joint_distance((mean - exact).ravel(), samples.reshape(len(samples), -1))
    agree = bool(distance <= limit)
    print(title)
    print(f"  exact           {text(exact, np.maximum(error, 1e-10))}")
    print(f"  mean            {text(mean, np.maximum(error, 1e-10))} of {len(samples):,} samples")
    print(f"  standard error  {text(error, np.maximum(error, 1e-10))}")
    where = f", jointly over {directions} directions" if exact.ndim else ""
    print(f"  difference      ≤ {limit:g} standard errors{where}: {agree}")
    assert agree, (
        f"{title}: the mean is {distance:.3g} standard errors from the exact value (allowed {limit:g}): one of them is wrong, "
        "or the samples are not independent"
    )


def _joint_distance(difference, samples):
    """(Distance in standard errors of the normal number with the same p-value, directions that vary)."""
    spread = samples.std(0, ddof=1)
    vary = spread > 1e-9 * (1e-9 + np.abs(samples).max(0))
    if (np.abs(difference[~vary]) > 1e-9 * (1 + np.abs(samples).max(0)[~vary])).any():
        return float("inf"), int(vary.sum())
    if not vary.any():
        return 0.0, 0
    scaled = difference[vary] / spread[vary] * len(samples) ** 0.5
    size, direction = np.linalg.eigh(np.atleast_2d(np.corrcoef(samples[:, vary].T)))
    along, full = scaled @ direction, size > 1e-9
    if (np.abs(along[~full]) > 1e-3).any():
        return float("inf"), int(full.sum())
    statistic = float((along[full] ** 2 / size[full]).sum())
    return float(stats.norm.isf(stats.chi2.sf(statistic, full.sum()) / 2)), int(full.sum())


def text(value, tolerance=1e-10):
    """A number or array as text: ≤ 6 significant digits, none finer than a tenth of the tolerance, first components only.

    `tolerance` may be an array like value.
    """
    array, tolerance = np.broadcast_arrays(np.asarray(value, float), tolerance)
    shown = SHOWN if array.size > SHOWN + 1 else array.size
    numbers = [_number(x, t) for x, t in zip(array.flat[:shown], tolerance.flat[:shown], strict=True)]
    if array.ndim == 0:
        return numbers[0]
    listing = ", ".join(numbers) + (", …" if shown < array.size else "")
    return f"[{listing}]" + (f" shape {array.shape}" if array.ndim > 1 or shown < array.size else "")


def _number(value, tolerance):
    if not np.isfinite(value):
        return str(float(value))
    grid = Decimal(1).scaleb(floor(log10(tolerance)) - 1)
    noise_free = Decimal(float(value)).quantize(grid, context=Context(prec=400))
    short = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN).create_decimal(noise_free).normalize()
    if short == 0:
        return "0"
    return f"{short:f}" if -5 <= short.adjusted() < 9 else f"{short:e}"
