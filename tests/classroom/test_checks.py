import math

import numpy as np
import pytest
import torch

from rlcourse.classroom import compare, within_standard_errors
from rlcourse.classroom.checks import text


def test_compare_prints_both_sides_and_no_noise(capsys):
    compare("Value of the start state", series=1 / 3, solve=1 / 3 + 1e-15, sampled_sum=torch.tensor(1 / 3, dtype=torch.float64))
    assert capsys.readouterr().out == (
        "Value of the start state\n"
        "  series        0.333333\n"
        "  solve         0.333333\n"
        "  sampled sum   0.333333\n"
        "  |difference|  ≤ 1e-10: True\n"
    )


def test_compare_shortens_arrays_and_says_their_shape(capsys):
    long = np.arange(12.0).reshape(3, 4) / 7
    compare("Q", a=long, b=torch.tensor(long, requires_grad=True))
    compare("V", tolerance=1e-3, a=[1, 2.00049], b=[1, 2.0])
    out = capsys.readouterr().out
    assert "a             [0, 0.142857, 0.285714, 0.428571, …] shape (3, 4)\n" in out
    assert "a             [1, 2.0005]\n" in out and "≤ 0.001: True" in out


@pytest.mark.parametrize(
    ("value", "tolerance", "expected"),
    [
        (0.0, 1e-10, "0"),
        (-0.0, 1e-10, "0"),
        (-3e-12, 1e-10, "0"),
        (1e-3, 1e-10, "0.001"),
        (-11.656854249492381, 1e-10, "-11.6569"),
        (1234567.0, 1e-10, "1234570"),
        (6.02e23, 1e-10, "6.02e+23"),
        (2.5e-7, 1e-10, "2.5e-7"),
        (3.14159, 0.05, "3.142"),  # nothing below a tenth of the tolerance
        (math.nan, 1e-10, "nan"),
        (-math.inf, 1e-10, "-inf"),
    ],
)
def test_text_of_a_number(value, tolerance, expected):
    assert text(value, tolerance) == expected


@pytest.mark.parametrize("tie", [1 / 1024, 1 / 2048, 0.5 + 2**-21, 12345.65, -0.9999995, 2.0000005, 1e6 + 0.5])
def test_text_is_the_same_on_both_sides_of_a_rounding_boundary(tie):
    below, above = tie * (1 - 3e-16), tie * (1 + 3e-16)
    assert text(tie) == text(below) == text(above)


def test_plain_rounding_does_flip_there():
    flips = [
        tie for tie in (1 / 1024, 0.5 + 2**-21, 12345.65, 2.0000005) if f"{tie * (1 - 3e-16):.6g}" != f"{tie * (1 + 3e-16):.6g}"
    ]
    assert flips


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1.0, 2.0], [-1.0, -2.0], "wrong sign"),
        ([1.0, 2.0], [0.9, 1.8], "b is 0.9 times a"),
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.5]], "by 0.5 at component [1, 1] (4 against 4.5)"),
        (1.0, math.nan, "b contains NaN or infinity"),
        (math.inf, math.inf, "a and b contain NaN or infinity"),
    ],
)
def test_compare_explains_a_disagreement(capsys, a, b, words):
    with pytest.raises(AssertionError, match="^Title: ") as error:
        compare("Title", a=a, b=b)
    assert words in str(error.value)
    assert "≤ 1e-10: False" in capsys.readouterr().out


def test_compare_looks_at_every_pair():
    with pytest.raises(AssertionError):
        compare("t", tolerance=1.0, a=0.0, b=0.9, c=-0.9)


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        ({"a": 1.0}, "at least two routes"),
        ({"a": np.zeros(3), "b": np.zeros((3, 1))}, r"\(3,\).*\(3, 1\)"),
        ({"a": "1", "b": 1}, "route 'a' must be a real number"),
        ({"a": [], "b": []}, "non-empty"),
        ({"a": 1j, "b": 1j}, "real"),
    ],
)
def test_compare_refuses(routes, words):
    with pytest.raises(ValueError, match=words):
        compare("t", **routes)


@pytest.mark.parametrize("tolerance", [0, -1e-3, math.nan])
def test_compare_refuses_a_tolerance_that_is_not_positive(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        compare("t", tolerance=tolerance, a=1, b=1)


def normal(n, *shape, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *shape))


def test_standard_errors_print_only_the_digits_that_mean_something(capsys):
    within_standard_errors("A mean", 2.0, 2 + normal(10_000))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A mean" and lines[-1] == "  difference      ≤ 4 standard errors: True"
    assert (
        lines[1] == "  exact           2"
        and lines[2].startswith("  mean            2.0")
        and lines[2].endswith("of 10,000 samples")
    )
    assert lines[3] == "  standard error  0.01"


def test_standard_errors_are_a_z_test_for_one_number():
    samples = normal(1000)
    samples = (samples - samples.mean()) / samples.std(ddof=1) * 1000**0.5  # mean 0, standard error exactly 1
    within_standard_errors("t", 3.99, samples)
    with pytest.raises(AssertionError, match="4.01 standard errors"):
        within_standard_errors("t", 4.01, samples)


def test_standard_errors_are_joint():
    """Five components off by 3 standard errors each pass one by one, not together; the false-alarm rate is that of one test."""
    samples = normal(4000, 5)
    samples = (samples - samples.mean(0)) / samples.std(0, ddof=1) * 4000**0.5
    with pytest.raises(AssertionError):
        within_standard_errors("t", np.full(5, 3.0), samples)
    within_standard_errors("t", np.array([3.0, 0, 0, 0, 0]), samples)


def test_standard_errors_false_alarms_are_as_rare_as_promised(capsys):
    alarms = 0
    for seed in range(400):
        try:
            within_standard_errors("t", np.zeros(4), normal(200, 4, seed=seed) @ np.diag([1, 10, 0.1, 5]), limit=2.0)
        except AssertionError:
            alarms += 1
    assert 8 <= alarms <= 36  # 4.55 % of 400 is 18.2, standard deviation 4.2


def test_standard_errors_with_a_singular_covariance():
    """A softmax gradient sums to zero over actions: one direction has no variance and must be met exactly."""
    free = normal(2000, 2)
    samples = np.concatenate([free, -free.sum(1, keepdims=True), np.full((2000, 1), 7.0)], axis=1)
    within_standard_errors("t", np.array([0, 0, 0, 7.0]), samples)
    with pytest.raises(AssertionError):
        within_standard_errors("t", np.array([0, 0, 0.01, 7.0]), samples)
    with pytest.raises(AssertionError):
        within_standard_errors("t", np.array([0, 0, 0, 7.001]), samples)


@pytest.mark.parametrize(
    ("exact", "samples", "words"),
    [
        (np.zeros(2), np.zeros((100, 3)), "followed by the shape"),
        (0.0, np.zeros((100, 1)), "followed by the shape"),
        (0.0, np.zeros(20), "too few"),
        (np.zeros(50), np.zeros((100, 50)), "at least 500"),
    ],
)
def test_standard_errors_refuse(exact, samples, words):
    with pytest.raises(ValueError, match=words):
        within_standard_errors("t", exact, samples)
