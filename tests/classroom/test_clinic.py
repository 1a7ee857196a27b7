"""The patients of the debugging clinic: faults fit, symptoms are there, and the box and the doctor tell them apart."""

import numpy as np
import pytest

import rlcourse
from rlcourse import diagnose
from rlcourse.classroom.clinic import DIAGNOSES, NOTHING, PATIENTS, WARDS, diagnosis, patient, visit
from rlcourse.classroom.clinic.measures import SEEDS
from rlcourse.classroom.clinic.patient import cure_text, judge
from rlcourse.classroom.clinic.source import sick_lines
from rlcourse.classroom.clinic.symptoms import picture, stored
from rlcourse.classroom.faults import faulty_sources, load_faulty
from rlcourse.classroom.figures import layout_faults

SICK = [one for one in PATIENTS if not one.mistaken]
MISTAKEN = [one for one in PATIENTS if one.mistaken]
FAULTY = [one for one in SICK if one.faults]
QUICK = ["odd densities", "two rulers", "eight times the same", "dead on arrival", "NaN at once", "stone"]
OVERLAP = {"no brakes"}  # medians differ, single seeds need not
FOUND_WITH = {"early certainty": {"entropy_coef": 0.1}, "do not touch": {"entropy_coef": 0.1}}


def name_of(one):
    return one.name


# ------------------------------------------------------------------------------------------------------------- the list


def test_there_are_enough_of_every_kind():
    assert len(FAULTY) >= 20 and len(MISTAKEN) >= 4
    assert {one.ward for one in PATIENTS} == set(WARDS)
    assert len({one.name for one in PATIENTS}) == len(PATIENTS)
    assert [one.program for one in SICK if not one.faults] != [None]  # the one program of its own
    assert sum(one.program is not None for one in PATIENTS) == 1


@pytest.mark.parametrize("one", FAULTY, ids=name_of)
def test_every_fault_applies_once_and_the_cure_is_the_healthy_source(one):
    one.package()  # raises where an old line does not occur exactly once
    changed = [line for line in one.diff().splitlines() if line[0] in "+-"]
    assert 2 <= len(changed) <= 6 and one.diff().startswith("# rlcourse.")
    assert cure_text(one).count("<details>") == 1 and all(fault.symptom.endswith(".") for fault in one.faults)


@pytest.mark.parametrize("one", PATIENTS, ids=name_of)
def test_names_and_texts_give_nothing_away(one):
    assert one.suspect in DIAGNOSES and set(one.against) <= set(DIAGNOSES) - {one.suspect}
    assert (one.mistaken or one.suspect.replace("_", " ") not in one.name) and len(one.against) >= 3
    for label, address in one.sources:
        assert label and (address is None or address.startswith("https://"))


def test_the_programs_own_algorithm_is_no_copy():
    """It adds one method to PPO; everything else is ours."""
    own = patient("Keras style").program
    assert own.__bases__ == (rlcourse.PPO,) and {name for name in vars(own) if not name.startswith("__")} == {"policy_loss"}


# -------------------------------------------------------------------------------------------------------------- the box


@pytest.mark.parametrize("one", PATIENTS, ids=name_of)
def test_the_box_accepts_the_right_diagnosis_and_refuses_wrong_ones(one):
    assert diagnosis(one.name).ok is None
    right = diagnosis(one.name, one.suspect)
    assert right.ok and "Right" in repr(right) and "folded" in right.message
    wrong = {key: judge(one, key) for key in DIAGNOSES if key != one.suspect}
    assert not any(result.ok for result in wrong.values()) and all(result.ok is not None for result in wrong.values())
    own = {wrong[key].message for key in one.against}
    assert len(own) == len(one.against) >= 3, "each of these has a message of its own"
    for key, result in wrong.items():
        assert DIAGNOSES[one.suspect] not in result.message and f"“{one.suspect}”" not in result.message, key


@pytest.mark.parametrize("one", FAULTY, ids=name_of)
def test_after_the_diagnosis_the_line_is_asked_for(one):
    """The code is that of the patient; the lines that its cure changes are right, all others are not."""
    module, shown, wrong = sick_lines(*one.faults)
    source = faulty_sources(one.faults)[module].splitlines()
    assert wrong <= set(shown) and 15 <= len(shown) <= 60 and len(wrong) <= 3
    assert all(source[number - 1] == text for number, text in shown.items())
    taken_out = [line[1:].strip() for line in one.diff().splitlines() if line.startswith("-")]
    assert sorted(shown[number].strip() for number in wrong) == sorted(taken_out)
    asked = diagnosis(one.name, one.suspect)
    assert asked.ok and f"{min(shown):4}  " in asked.code and "which line" in repr(asked)
    for number in shown:
        result = judge(one, one.suspect, number)
        assert result.ok == (number in wrong) and result.code == asked.code and f"ine {number} " in result.message
    assert not judge(one, "nothing", min(wrong)).code, "a wrong diagnosis shows no code"
    with pytest.raises(ValueError, match=f"line 99999 of '{one.name}': expected the number of a line that is shown:\n# rlc"):
        judge(one, one.suspect, 99999)


def test_where_nothing_was_changed_no_line_is_asked_for():
    for one in PATIENTS:
        if not one.faults:
            result = diagnosis(one.name, one.suspect)
            assert result.ok and not result.code and "which line" not in result.message
            assert visit(one.name).number.options == (("choose a line", None),)


def test_unknown_names_are_refused_with_a_list():
    with pytest.raises(ValueError, match="no patient 'nobody'; there are twenty arms"):
        diagnosis("nobody")
    with pytest.raises(ValueError, match="Did you mean 'termination'"):
        diagnosis("careless pole", "terminatoin")


def test_a_visit_is_a_picture_and_a_box_for_the_keyboard():
    one = visit("careless pole")
    assert one.result.ok is None and one.guess.value is None
    one.button.click()
    assert "Not attempted yet" in one.line.value
    one.choose("order")
    assert one.result.ok is False and "Not yet" in one.line.value
    assert one.number.layout.display == "none" and not one.code.value
    one.choose("termination")
    assert one.result.ok and "Right" in one.line.value and "<pre" in one.code.value and one.number.layout.display is None
    _, shown, (wrong,) = sick_lines(*one.patient.faults)
    one.choose("termination", min(shown))
    assert one.result.ok is False and "as it should be" in one.line.value and "<pre" in one.code.value
    one.choose("termination", wrong)
    assert one.result.ok and f"Line {wrong} it is." in one.line.value
    one.choose("order", wrong)
    assert one.result.ok is False and one.number.layout.display == "none" and not one.code.value
    data, metadata = one._repr_mimebundle_()
    assert data["text/plain"] == "[visit: careless pole]" and "healthy" in metadata["image/png"]["alt"]
    first, second = one.children[1].children
    assert first.description == "Diagnosis" and second.tooltip == "Check the diagnosis of careless pole"
    assert {key for _, key in first.options} == {None, *DIAGNOSES}


# --------------------------------------------------------------------------------------------------------- the symptoms


@pytest.mark.parametrize("one", PATIENTS, ids=name_of)
def test_pictures_have_room_for_their_texts(one):
    fig, alt = picture(one)
    assert layout_faults(fig) == [] and one.name in alt


@pytest.mark.parametrize("one", SICK, ids=name_of)
def test_the_stored_symptom_tells_sick_from_healthy(one):
    """Over ten seeds the two do not overlap (in one patient, their medians differ)."""
    sick, healthy = (stored()[one.name].numbers[state] for state in ("sick", "healthy"))
    sick, healthy = np.nan_to_num(sick, nan=-1e9), np.asarray(healthy)
    assert len(sick) == len(healthy) == len(SEEDS)
    if one.name in OVERLAP:
        assert np.median(sick) > 3 * np.median(healthy)
    else:
        assert sick.max() < healthy.min() or healthy.max() < sick.min()


@pytest.mark.parametrize("one", MISTAKEN, ids=name_of)
def test_what_settles_a_mistaken_report(one):
    claim, settles = (stored()[one.name].numbers[part] for part in ("claim", "settles"))
    holds = {
        "exactly one": claim.max() < 1e-5 and settles.min() > 0.1,
        "a loss that stays": np.abs(claim).max() < 0.1 and settles.min() > 100,
        "zero KL": claim.max() < 1e-6 and settles.min() > 1e-5,
        "less than nothing": claim.max() < 0 and np.abs(settles - 1).max() < 1e-5,
        "actions out of bounds": claim.max() < -0.2 and np.abs(settles).max() < 0.1,
        "worse than a constant": claim.min() < 0 and settles.min() > 200,
    }
    assert holds[one.name]


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_symptom_comes_again(name):
    one, seeds = patient(name), SEEDS[:5]
    for state in ("sick", "healthy"):
        numbers, _ = one.examine(seeds, healthy=state == "healthy")
        np.testing.assert_allclose(numbers, stored()[name].numbers[state][:5], rtol=0.5, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("one", SICK, ids=name_of)
def test_the_symptom_comes_again_on_other_seeds(one, record_property):
    """Every patient's symptom on ten fresh seeds, beside the healthy package."""
    sick, healthy = (np.nan_to_num(one.examine(range(100, 110), healthy=state)[0], nan=-1e9) for state in (False, True))
    record_property("measured", f"{one.name}: {np.median(sick):.3g} against {np.median(healthy):.3g}")
    lower = np.median(stored()[one.name].numbers["sick"]) < np.median(stored()[one.name].numbers["healthy"])
    pairs = (sick[:, None] < healthy) if lower else (sick[:, None] > healthy)
    assert pairs.mean() >= 0.85, pairs.mean()  # of all pairs of a sick and a healthy seed


def test_one_cure_is_not_enough_for_the_first_patient():
    """Both faults are in the change, so that each can be cured alone."""
    sick = patient("twenty arms").package()
    r, v, n = [1.0, 2.0], [0.5, 0.5], [0.5, 9.0]
    end, go = np.array([False, True]), np.zeros(2, bool)
    ours, theirs = (package.gae(r, v, n, end, go, 0.5, 0.0)[0] for package in (rlcourse, sick))
    assert ours.tolist() == [0.75, 1.5] and theirs.tolist() == [6.0, 0.75]


# ----------------------------------------------------------------------------------------------------------- the doctor

@pytest.mark.full
@pytest.mark.parametrize("one", SICK, ids=name_of)
def test_the_doctor_names_the_right_suspect_first_or_second(one, record_property):
    """`diagnose` on the sick algorithm: the right suspect comes first or second."""
    package = one.package()
    kind = type(one.algorithm()).__name__ if one.case else {"two rulers": "TRPO"}.get(one.name, "PPO")
    algorithm = one.algorithm() if one.program else getattr(package, kind)(**FOUND_WITH.get(one.name, {}))
    report = diagnose(algorithm)
    ranks = [report.rank(key) for key in (one.suspect, *ALSO_RIGHT.get(one.name, ())) if report.rank(key)]
    record_property("measured", f"{one.name}: {one.suspect} rank {report.rank(one.suspect)}")
    assert ranks and min(ranks) <= 2, [accused.key for accused in report.suspects]


ALSO_RIGHT = {"twenty arms": ["termination"]}  # both are wrong there


def test_the_doctor_finds_in_seconds_what_needs_no_training():
    for name, hooks in (("runaway", "policy_loss"), ("careless pole", "gae"), ("odd densities", "log_prob")):
        one = patient(name)
        report = diagnose(one.package().PPO(), only=[hooks])
        assert report.rank(one.suspect) == 1, (name, report)
        assert diagnose(rlcourse.PPO(), only=[hooks]).ok
    keras = diagnose(patient("Keras style").algorithm(), only=["functions"])
    assert keras.rank("no_gradient") == 1 and list(keras.failed) == ["a policy loss of your own"]


class WithoutClip(rlcourse.PPO):
    """An honest variant of PPO: no false alarm."""

    def policy_loss(self, log_prob, minibatch, agent):
        return -rlcourse.surrogate_objective(log_prob, minibatch.log_prob, minibatch.advantage)


def test_a_variant_of_ppo_is_no_suspect():
    assert diagnose(WithoutClip(), only=["functions"]).ok and diagnose(rlcourse.PenaltyPPO(), only=["functions"]).ok


def test_nothing_is_a_diagnosis_of_mistaken_reports_only():
    assert all((one.suspect == NOTHING) == one.mistaken for one in PATIENTS)
    assert all(one.package() is rlcourse for one in MISTAKEN)
    assert load_faulty(*patient("stone").faults) is patient("stone").package()
