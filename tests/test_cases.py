"""Every public case of cases.jsonl that the functions of the package can express.

A case is a small input with an answer verified by two independent routes, taken from a fault that somebody reported. Where it
also lists what known faults give, the test demands that its own comparison would refuse each of them.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcourse import (
    Categorical,
    DiagonalGaussian,
    SquashedGaussian,
    clip_fraction,
    clipped_surrogate_loss,
    discounted_returns,
    explained_variance,
    gae,
    normalize_advantages,
    valid_rows,
)

LINES = Path(__file__).with_name("cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {case["id"]: case for case in map(json.loads, LINES)}

ELSEWHERE = {  # run in tests/equations/test_trust_region.py
    "cg-spd",
    "cg-zero-rhs",
    "cg-ill-conditioned",
    "fvp-softmax",
    "trpo-step-length",
    "trpo-line-search-decisions",
}

KINDS = {
    "numpy float64": lambda numbers: np.asarray(numbers, np.float64),
    "numpy float32": lambda numbers: np.asarray(numbers, np.float32),
    "torch float64": lambda numbers: torch.tensor(numbers, dtype=torch.float64),
    "torch float32": lambda numbers: torch.tensor(numbers, dtype=torch.float32),
}
TORCH_KINDS = [kind for kind in KINDS if "torch" in kind]


def flags(given, kind):
    return torch.tensor(given) if "torch" in kind else np.asarray(given)


def run_gae(given, array, kind):
    numbers = [array(given[name]) for name in ("rewards", "values", "next_values")]
    ends = [flags(given[name], kind) for name in ("terminated", "truncated")]
    advantages, returns = gae(*numbers, *ends, given["gamma"], given["lam"])
    valid = valid_rows(*ends)
    return {
        "advantages": advantages,
        "returns": returns,
        "valid": valid,
        "mean_advantage_over_valid": float(advantages[valid].mean()),
    }


def run_returns(given, array, kind):
    bootstrap = [given["bootstrap_value_at_end"].get(str(t), 0.0) for t in range(len(given["rewards"]))]
    ends = flags([end is not None for end in given["step_end"]], kind)
    return {"returns": discounted_returns(array(given["rewards"]), given["gamma"], ends=ends, bootstrap=array(bootstrap))}


def run_entropy_categorical(given, array, kind):
    return {"entropy": [Categorical(array(row)).entropy().item() for row in given["logits"]]}


def gaussian(array, mean, std):
    return DiagonalGaussian(array(mean), array(std).log())


def run_entropy_gaussian(given, array, kind):
    return {"entropy": gaussian(array, given["mean"], given["std"]).entropy()}


def both_directions(old, new):
    return {"kl_old_new": old.kl(new), "kl_new_old": new.kl(old)}


def run_kl_categorical(given, array, kind):
    return both_directions(Categorical(array(given["p_old"]).log()), Categorical(array(given["p_new"]).log()))


def run_kl_gaussian(given, array, kind):
    return both_directions(*(gaussian(array, given[f"mean_{which}"], given[f"std_{which}"]) for which in ("old", "new")))


def run_gaussian_logp(given, array, kind):
    return {"logp": gaussian(array, given["mean"], given["std"]).log_prob(array(given["action"]))}


def run_clipped_loss(given, array, kind):
    log_prob, old_log_prob, advantage = (array(given[name]) for name in ("logp_new", "logp_old", "advantages"))
    log_prob.requires_grad_()
    loss = clipped_surrogate_loss(log_prob, old_log_prob, advantage, given["clip"])
    (gradient,) = torch.autograd.grad(loss, log_prob)
    fraction = clip_fraction(log_prob, old_log_prob, given["clip"])
    return {"loss": loss.item(), "grad_logp_new": gradient, "clip_fraction": fraction}


def run_tanh_logp(given, array, kind):
    """Through pre_tanh, and through the action where it is not rounded to a bound."""
    mean, log_std, u = (array(given["mean"])[None], array(given["std"]).log()[None], array(given["pre_tanh"])[None])
    policy = SquashedGaussian(mean, log_std, -given["scale"], given["scale"])
    log_prob = policy.log_prob(pre_tanh=u)[0]
    if "action" in given:
        assert agrees(policy.log_prob(array(given["action"])[None])[0], log_prob, 1e-5 if "32" in kind else 1e-9)
    return {"logp": log_prob}


def run_explained_variance(given, array, kind):
    returns = array(given["returns"])
    return {
        "explained_variance": explained_variance(array(given["values"]), returns),
        "explained_variance_offset": explained_variance(array(given["values_offset_by_10"]), returns),
    }


def run_normalisation(given, array, kind):
    return {"batch_divisor_N": normalize_advantages(array(given["advantages"]))}


# id of a case -> function that answers it, and the kinds of array it takes
NUMERIC = {
    **{name: (run_gae, list(KINDS)) for name in CASES if name.startswith("gae-")},
    "returns-to-go": (run_returns, list(KINDS)),
    "entropy-categorical": (run_entropy_categorical, TORCH_KINDS),
    "entropy-gaussian": (run_entropy_gaussian, TORCH_KINDS),
    "kl-categorical": (run_kl_categorical, TORCH_KINDS),
    "kl-gaussian": (run_kl_gaussian, TORCH_KINDS),
    "gaussian-logp": (run_gaussian_logp, TORCH_KINDS),
    "ppo-clip-quadrants": (run_clipped_loss, TORCH_KINDS),
    "tanh-logp": (run_tanh_logp, TORCH_KINDS),
    "tanh-logp-extreme": (run_tanh_logp, TORCH_KINDS),
    "explained-variance": (run_explained_variance, list(KINDS)),
    "advantage-normalisation": (run_normalisation, list(KINDS)),
}
BEHAVIOUR = ["explained-variance-constant-targets", "advantage-normalisation-single", "advantage-normalisation-constant"]


def agrees(got, expected, tolerance):
    """|got − expected| ≤ tolerance · max(1, |expected|) at every entry; an expected null is not looked at."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    if got.shape != expected.shape:
        return False
    error = np.abs(got - expected) <= tolerance * np.maximum(1, np.abs(expected))
    return bool(np.all(error | np.isnan(expected)))


def test_every_case_is_run():
    assert len(CASES) == 25
    assert {*NUMERIC, *BEHAVIOUR, *ELSEWHERE} == set(CASES)
    assert len(NUMERIC) + len(BEHAVIOUR) + len(ELSEWHERE) == len(CASES)
    text = (Path(__file__).parent / "equations" / "test_trust_region.py").read_text(encoding="utf-8")
    assert all(f'CASES["{name}"]' in text for name in ELSEWHERE)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (_, kinds) in NUMERIC.items() for kind in kinds])
def test_case(name, kind):
    case = CASES[name]
    got = NUMERIC[name][0](case["input"], KINDS[kind], kind)
    tolerance = max(case["tolerance"], 1e-5) if "32" in kind else case["tolerance"]
    # The normalisation case offers three divisors and asks for the documented one.
    expected = {k: v for k, v in case["expect"].items() if k in got} if "choose" in case else case["expect"]
    assert expected
    for field, answer in expected.items():
        assert agrees(got[field], answer, tolerance), f"{field}: got {got[field]}, expected {answer}"


@pytest.mark.parametrize("name", NUMERIC)
def test_the_comparison_refuses_the_known_faults(name):
    case = CASES[name]
    for fault, wrong in case.get("fault_values", {}).items():
        value = np.asarray(wrong["gives"], np.float64)  # the string "nan" becomes NaN
        assert not agrees(value, case["expect"][wrong["field"]], max(case["tolerance"], 1e-5)), fault


@pytest.mark.parametrize("kind", KINDS)
def test_explained_variance_of_constant_targets_is_nan(kind):
    given, array = CASES["explained-variance-constant-targets"]["input"], KINDS[kind]
    for values in (given["values"], given["values_2"]):
        assert math.isnan(explained_variance(array(values), array(given["returns"])))


@pytest.mark.parametrize("kind", KINDS)
def test_one_advantage_stays_finite(kind):
    case = CASES["advantage-normalisation-single"]
    got = normalize_advantages(KINDS[kind](case["input"]["advantages"]))
    assert got.tolist() in case["expect"]["allowed"]


@pytest.mark.parametrize("kind", ["numpy float32", "torch float32"])
def test_equal_advantages_do_not_blow_up(kind):
    case = CASES["advantage-normalisation-constant"]
    equal = KINDS[kind]([case["input"]["advantages_value"]] * case["input"]["count"])
    assert abs(normalize_advantages(equal)).max() <= case["expect"]["max_abs_normalised_at_most"]
