"""The debugging clinic of lesson 07: patients from the public record, what shows their symptoms, and a box to diagnose them in.

    visit("careless pole")                       the symptom beside the healthy package, and the diagnosis box
    diagnosis("careless pole", "termination")    the same box without a widget; it answers with the code around the fault
    patient("careless pole").package()           the sick package: .train(.PPO(…), …)
"""

from rlcourse.classroom.clinic.patient import DIAGNOSES, NOTHING, WARDS, Patient, Result, judge
from rlcourse.classroom.clinic.patients import PATIENTS
from rlcourse.classroom.clinic.visits import Visit

__all__ = ["DIAGNOSES", "NOTHING", "PATIENTS", "Patient", "Result", "WARDS", "diagnosis", "patient", "visit"]


def patient(name):
    """The Patient of this name.

    Raises:
        ValueError: there is none; the message lists them.
    """
    found = [one for one in PATIENTS if one.name == name]
    if not found:
        raise ValueError(f"there is no patient {name!r}; there are {', '.join(one.name for one in PATIENTS)}.")
    return found[0]


def diagnosis(name, guess=None, line=None):
    """Judge a diagnosis; the last line of a cell.

    Args:
        name: of the patient. guess: a key of DIAGNOSES, such as "clip" or "nothing"; None: not attempted yet.
        line: the number of the wrong line in the code that is shown when the diagnosis is right.

    Returns:
        Result: right, or not yet with what contradicts the guess.

    Raises:
        ValueError: no such patient, no such diagnosis, or no such line.
    """
    return judge(patient(name), guess, line)


def visit(name):
    """The symptom of a patient beside the healthy package, from the stored runs, and the diagnosis box: the last line of a cell.

    Raises:
        ValueError: no such patient.
    """
    return Visit(patient(name))
