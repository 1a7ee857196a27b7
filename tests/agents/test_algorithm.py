"""Settings: ranges, lists, and the errors that name the value and the way out."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rlcourse import VPG, recommended
from rlcourse.agents.algorithm import Algorithm


@pytest.mark.parametrize(
    "field, value, error, message",
    [
        ("gamma", 1.5, ValueError, r"VPG\(gamma=1.5\).*\[0.0, 1.0\]"),
        ("gamma", float("nan"), ValueError, "gamma=nan"),
        ("gae_lambda", -0.1, ValueError, "gae_lambda=-0.1"),
        ("gae_lambda", [0.5, 1.2], ValueError, "gae_lambda=1.2"),
        ("gamma", "0.9", TypeError, "gamma='0.9'"),
        ("gamma", True, TypeError, "gamma=True"),
        ("gamma", [], ValueError, "empty list"),
        ("learning_rate", float("inf"), ValueError, "learning_rate=inf"),
        ("num_envs", 0, ValueError, r"num_envs=0.*an integer in \[1, ∞\)"),
        ("num_envs", 2.5, ValueError, "num_envs=2.5"),
        ("num_envs", float("inf"), ValueError, "num_envs=inf"),
        ("num_envs", float("nan"), ValueError, "num_envs=nan"),
        ("num_envs", [1, 2], TypeError, "one value for all runs, please"),
        ("max_grad_norm", 0.0, ValueError, "or None"),
        ("hidden_sizes", 64, ValueError, r"hidden_sizes=64.*\(64, 64\)"),
        ("hidden_sizes", (64, 0), ValueError, "hidden_sizes"),
        ("hidden_sizes", [True], ValueError, "hidden_sizes"),
        ("hidden_sizes", None, ValueError, "hidden_sizes=None"),
        ("reward_scale", 0, ValueError, r"reward_scale=0\).*\(0.0, ∞\)"),
        ("normalize", "no", TypeError, "normalize=.no.*True or False"),
        ("normalize", [True, False], TypeError, "one for all runs"),
    ],
)
def test_values_out_of_range_are_refused_when_set(field, value, error, message):
    with pytest.raises(error, match=message):
        VPG(**{field: value})
    settings = VPG()
    with pytest.raises(error, match=message):
        setattr(settings, field, value)
    assert settings == VPG()


def test_numpy_integers_are_widths():
    assert VPG(hidden_sizes=np.array([8, 4])) == VPG(hidden_sizes=[np.int64(8), 4]) == VPG(hidden_sizes=(8, 4))


def test_none_in_a_list_means_no_limit():
    limits = VPG(max_grad_norm=[None, 0.5]).for_runs(num_seeds=2, dtype=torch.float64).max_grad_norm
    assert limits.tolist() == [float("inf"), float("inf"), 0.5, 0.5]


def test_an_unknown_setting_is_named_with_the_known_ones():
    with pytest.raises(AttributeError, match="no setting 'lam'.*gae_lambda"):
        VPG().lam = 0.9


def test_numpy_numbers_and_edges_are_fine():
    settings = VPG(gamma=np.float32(1.0), gae_lambda=0, num_envs=np.int64(3), max_grad_norm=None, hidden_sizes=[])
    assert (settings.gamma, settings.num_envs, settings.hidden_sizes) == (1.0, 3, ())
    assert type(settings.num_envs) is int


def test_lists_are_settings_and_are_repeated_for_every_seed():
    settings = VPG(gamma=[0.9, 0.99], entropy_coef=np.array([0.0, 0.1]))
    assert settings.num_settings == 2
    assert settings.settings() == [{"gamma": 0.9, "entropy_coef": 0.0}, {"gamma": 0.99, "entropy_coef": 0.1}]
    spread = settings.for_runs(3, torch.float64)
    assert spread.gamma.tolist() == [0.9] * 3 + [0.99] * 3 and spread.gae_lambda == 1.0
    assert settings.gamma == (0.9, 0.99)


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="equally long.*'gamma': 2.*'entropy_coef': 3"):
        _ = VPG(gamma=[0.9, 0.99], entropy_coef=[0.0, 0.1, 0.2]).num_settings


def test_a_subclass_must_define_update():
    @dataclass
    class Mine(Algorithm):
        pass

    with pytest.raises(NotImplementedError, match="Mine must define update"):
        Mine().update(None, None)


def test_recommended_gives_a_copy_and_names_what_it_knows():
    first = recommended("VPG", "CartPole-v1")
    first.gamma = 0.5
    assert recommended("VPG", "CartPole-v1").gamma != 0.5
    with pytest.raises(ValueError, match="'Walker'.*VPG on CartPole-v1"):
        recommended("VPG", "Walker")
