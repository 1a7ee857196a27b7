"""Hyper-parameters: one number, or one number per run."""

import numpy as np
import pytest
import torch

from rlcourse.equations.arguments import check_tensors, check_whole, per_run


def test_a_number_stays_a_number():
    for value in (0.5, np.float32(0.5), torch.tensor(0.5), np.array(0.5)):
        got = per_run("x", value, np.zeros((3, 4)), 0, 1)
        assert type(got) is float and got == 0.5


@pytest.mark.parametrize("like", [np.zeros((3, 4, 2), np.float32), torch.zeros(3, 4, 2)])
@pytest.mark.parametrize("value", [[0.1, 0.2, 0.3], np.array([0.1, 0.2, 0.3]), torch.tensor([0.1, 0.2, 0.3])])
def test_one_number_per_run_gets_the_axes_and_dtype_of_the_data(like, value):
    got = per_run("x", value, like, 0, 1)
    assert type(got) is type(like) and got.dtype == like.dtype and got.shape == (3, 1, 1)
    assert (like + got)[2, 3, 1] == pytest.approx(0.3)


def test_what_does_not_fit_is_refused():
    data = torch.zeros(3, 4)
    with pytest.raises(ValueError, match=r"clip has shape \(4,\), which does not match the leading axes of the data \(3, 4\)"):
        per_run("clip", [0.1] * 4, data, 0, 1)
    with pytest.raises(ValueError, match=r"clip has shape \(3, 4, 1\)"):
        per_run("clip", np.zeros((3, 4, 1)), data, 0, 1)
    with pytest.raises(ValueError, match="clip must lie between 0 and 1, but is 1.5"):
        per_run("clip", 1.5, data, 0, 1)
    with pytest.raises(ValueError, match="clip must lie between 0 and 1, but is nan"):
        per_run("clip", float("nan"), data, 0, 1)
    with pytest.raises(TypeError, match="clip must be a number.*'much'"):
        per_run("clip", "much", data, 0, 1)


def test_flags_are_no_numbers():
    with pytest.raises(TypeError, match=r"advantage must hold floats, not bool.*advantage\.float\(\)"):
        check_tensors(log_prob=torch.zeros(2), advantage=torch.tensor([True, False]))
    with pytest.raises(TypeError, match=r"targets must hold floats, not int64.*targets\.float\(\)"):
        check_tensors(values=torch.zeros(2), targets=torch.tensor([1, 2]))


def test_whole_numbers():
    check_whole("n", np.int64(1), 1)
    for value, error in [(0, ValueError), (1.0, TypeError), (True, TypeError), ("1", TypeError), (None, TypeError)]:
        with pytest.raises(error, match=f"n must .*{value}"):
            check_whole("n", value, 1)
