"""What only lesson 07 needs: its stored file, and the widget that shows any diagnostic of any patient."""

from rlcourse.classroom.clinic import PATIENTS, patient
from rlcourse.classroom.clinic.symptoms import FILE, LOOKS, record, stored
from rlcourse.classroom.controls import choice
from rlcourse.classroom.figures import PALETTE
from rlcourse.classroom.training_panel import DIAGNOSTICS

DATA = {FILE: record}


def sick_patients():
    """Patients with a training, sick and healthy: those that the widget can show."""
    return [one for one in PATIENTS if one.case is not None and not one.mistaken and stored()[one.name].curves["sick"]]


def compute(name, diagnostic):
    """(steps, (3, K)) of a diagnostic, {"sick": …, "healthy": …}; without an entry where it was not recorded."""
    symptom = stored()[name]
    return {
        state: (symptom.steps[state] / 1000, symptom.curves[state][diagnostic])
        for state in LOOKS
        if diagnostic in symptom.curves[state]
    }


def draw(fig):
    ax = fig.subplots()
    ax.set(xlabel="thousand steps per run")

    def update(data):
        ax.clear()
        for state, (x, (low, middle, high)) in data.items():
            colour, dashes, _ = LOOKS[state]
            ax.fill_between(x, low, high, color=PALETTE[colour], alpha=0.2, linewidth=0)
            ax.plot(x, middle, dashes, color=PALETTE[colour], label=state)
        ax.set(xlabel="thousand steps per run", ylabel="see the sentence below")
        if data:
            ax.legend(loc="best")

    return update


def describe(data, name, diagnostic):
    label, meaning = DIAGNOSTICS[diagnostic]
    if not data:
        return f"{label} was not recorded for this algorithm."
    ends = ", ".join(f"{state} {middle[-1]:.3g} (from {low[-1]:.3g} to {high[-1]:.3g})" for state, (_, (low, middle,
                                                                                                        high)) in data.items())
    return f"{label} ({meaning}): in the end {ends}. {patient(name).complaint}"


def charts():
    """The widget: any diagnostic of any patient. Arguments of `explore` and `three_settings`."""
    return {
        "title": "Sick beside healthy",
        "compute": compute,
        "draw": draw,
        "describe": describe,
        "controls": {
            "name": choice([one.name for one in sick_patients()], value="six motors", label="patient"),
            "diagnostic": choice({label: name for name, (label, _) in DIAGNOSTICS.items()}, value="mean_return",
                                 label="diagnostic"),
        },
        "size": (9.0, 2.8),
    }
