"""What only lesson 07 needs: its stored file, and the widget that shows any diagnostic of any patient."""

from rlcourse.classroom.clinic import PATIENTS
from rlcourse.classroom.clinic.symptoms import FILE, band, record, stored
from rlcourse.classroom.controls import choice
from rlcourse.classroom.training_panel import DIAGNOSTICS

DATA = {FILE: record}


def sick_patients():
    """Patients with a training, sick and healthy: those that the widget can show."""
    return [one for one in PATIENTS if one.case is not None and not one.mistaken and stored()[one.name].curves["sick"]]


def compute(name, diagnostic):
    """(stored symptom of the patient, name of the diagnostic)."""
    return stored()[name], diagnostic


def draw(fig):
    ax = fig.subplots()
    ax.set_position((0.11, 0.2, 0.87, 0.68))  # room for any tick label: the axes stay where they are

    def update(data):
        ax.clear()
        band(ax, *data)
        if ax.lines:
            ax.legend(loc="best")

    update((stored()["careless pole"], "mean_return"))
    return update


def describe(data, name, diagnostic):
    """Where sick and healthy end."""
    symptom, (label, meaning) = data[0], DIAGNOSTICS[diagnostic]
    ends = []
    for state, curves in symptom.curves.items():
        if diagnostic in curves:
            low, middle, high = curves[diagnostic][:, -1]
            ends.append(f"{state} {middle:.3g} (from {low:.3g} to {high:.3g})")
    if not ends:
        return f"{label} was not recorded for this algorithm."
    return f"{label} ({meaning}): in the end {', '.join(ends)}."


def charts():
    """The widget: any diagnostic of any patient. Arguments of `explore` and `three_settings`."""
    names = [one.name for one in sick_patients()]
    diagnostics = {label: name for name, (label, _) in DIAGNOSTICS.items()}
    return {
        "title": "Sick beside healthy",
        "compute": compute,
        "draw": draw,
        "describe": describe,
        "controls": {
            "name": choice(names, value="careless pole", label="patient"),
            "diagnostic": choice(diagnostics, value="mean_return", label="diagnostic"),
        },
        "size": (9.0, 2.8),
    }
