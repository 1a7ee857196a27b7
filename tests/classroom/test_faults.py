"""The fault mechanism: a faulty copy of the package beside the healthy one, and nothing else touched."""

import hashlib
import inspect
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch

import rlcourse
from rlcourse.classroom.faults import Fault, load_faulty

SIGN = Fault(
    "sign of the value",
    "rlcourse.equations.estimators",
    "np.where(terminated, 0, next_values) - values",
    "np.where(terminated, 0, next_values) + values",
    "The critic runs away.",
)
EXAMPLE = ([1.0], [2.0], [0.0], [True], [False], 0.9, 0.9)


def test_only_the_copy_has_the_fault():
    sick = load_faulty(SIGN)
    assert sick.gae(*EXAMPLE)[0].tolist() == [3.0]
    assert rlcourse.gae(*EXAMPLE)[0].tolist() == [-1.0]
    assert sys.modules["rlcourse"] is rlcourse


def test_every_module_of_the_copy_sees_the_fault():
    """vpg imports gae from the changed module; no healthy module is reachable from the copy, nor the other way round."""
    sick = load_faulty(SIGN)
    copies = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == sick.__name__}
    assert f"{sick.__name__}.agents.vpg" in copies
    assert sick.agents.vpg.gae is sick.gae is not rlcourse.gae
    healthy = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "rlcourse"}
    for modules, stranger in [(copies, "rlcourse"), (healthy, sick.__name__)]:
        for name, module in modules.items():
            homes = {getattr(value, "__module__", None) or "" for key, value in vars(module).items() if key[0] != "_"}
            assert not {home for home in homes if home.partition(".")[0] == stranger}, name


def test_both_train_in_turn_and_the_healthy_one_is_unaffected():
    sick = load_faulty(SIGN)

    def start(package):
        config = package.VPG(num_envs=4, num_steps=16)
        return package.iterate(config, "CartPole-v1", total_steps=3 * 64, seeds=[0])

    def explained(state):
        return state.history["explained_variance"][0, -1]

    alone = [explained(state) for state in start(rlcourse)]
    in_turn = [(explained(well), explained(ill)) for well, ill in zip(start(rlcourse), start(sick), strict=True)]
    assert [well for well, _ in in_turn] == alone
    assert [ill for _, ill in in_turn] != alone


def test_the_source_and_a_traceback_show_the_faulty_line():
    sick = load_faulty(SIGN)
    assert SIGN.new in inspect.getsource(sick.equations.estimators._residuals)
    assert SIGN.old in inspect.getsource(rlcourse.equations.estimators._residuals)
    crash = Fault("crash", SIGN.module, "    return restore(advantages), restore(value_targets)", "    return 1 / 0", "It stops.")
    with pytest.raises(ZeroDivisionError) as caught:
        load_faulty(crash).gae(*EXAMPLE)
    text = "".join(traceback.format_exception(caught.value))
    assert "return 1 / 0" in text and "rlcourse.equations.estimators with fault: crash" in text


def test_the_same_fault_gives_the_same_copy_and_another_fault_another():
    other = Fault("target", SIGN.module, "value_targets = advantages + v", "value_targets = advantages + r", "It chases itself.")
    assert load_faulty(SIGN) is load_faulty(SIGN) is not load_faulty(other)
    assert load_faulty(other).gae(*EXAMPLE)[1].tolist() == [0.0]
    assert load_faulty(SIGN).gae(*EXAMPLE)[0].tolist() == [3.0]


def test_several_faults_make_one_copy_in_one_module_or_in_two():
    target = Fault("target", SIGN.module, "value_targets = advantages + v", "value_targets = advantages + r", "It chases itself.")
    loss = Fault("loss", "rlcourse.equations.objectives", "return -(log_prob * adv", "return (log_prob * adv", "It falls.")
    sick = load_faulty(SIGN, target, loss)
    assert [array.tolist() for array in sick.gae(*EXAMPLE)] == [[3.0], [4.0]]
    assert sick.policy_gradient_loss(torch.ones(1), torch.ones(1)) == 1
    assert load_faulty(SIGN).gae(*EXAMPLE)[1].tolist() == [5.0]


def test_nothing_on_disk_changes():
    root = Path(rlcourse.__file__).parent

    def fingerprint():
        return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in root.rglob("*.py*")}

    rlcourse.gae(*EXAMPLE)
    before = fingerprint()
    load_faulty(Fault("fresh", SIGN.module, SIGN.old, SIGN.new + " + 1", "It drifts.")).gae(*EXAMPLE)
    assert fingerprint() == before


def test_a_test_process_can_be_infected():
    program = f"""
import rlcourse
from rlcourse.classroom.faults import Fault, infect
infect(Fault(*{[SIGN.name, SIGN.module, SIGN.old, SIGN.new, SIGN.symptom]!r}))
from rlcourse import VPG, gae
import rlcourse.agents.vpg
assert gae is rlcourse.agents.vpg.gae and VPG is rlcourse.agents.vpg.VPG
print(gae(*{EXAMPLE!r})[0].tolist())
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(rlcourse.__file__).parents[1], capture_output=True, encoding="utf-8"
    )
    assert result.stdout == "[3.0]\n", result.stderr


def test_a_fault_that_no_longer_fits_is_refused():
    for old, times in [("no such line", 0), ("gamma", "[0-9]+")]:
        with pytest.raises(ValueError, match=f"Fault 'drift': the old line must occur once .*, but occurs {times} times"):
            load_faulty(Fault("drift", SIGN.module, old, "other", "Nothing."))
    with pytest.raises(ValueError, match="changes nothing"):
        load_faulty(Fault("same", SIGN.module, SIGN.old, SIGN.old, "Nothing."))
    with pytest.raises(ValueError, match="no module rlcourse.equations.missing"):
        load_faulty(Fault("lost", "rlcourse.equations.missing", "a", "b", "Nothing."))
