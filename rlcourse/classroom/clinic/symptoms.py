"""The stored symptoms: what each patient and the healthy package did over ten seeds, and how it is drawn."""

import textwrap
from dataclasses import dataclass
from functools import cache

import numpy as np

from rlcourse.classroom.clinic.measures import SEEDS
from rlcourse.classroom.clinic.patients import PATIENTS
from rlcourse.classroom.data import data_path
from rlcourse.classroom.figures import PALETTE, new_figure
from rlcourse.classroom.training_panel import DIAGNOSTICS

FILE = "07_symptoms.npz"
POINTS = 16  # of a stored curve
LOWEST = {"explained_variance": -2}  # it has no lower end, and the scale would be lost
LOOKS = {"healthy": ("blue", "-", "o"), "sick": ("vermillion", "--", "s")}


@dataclass(frozen=True)
class Symptom:
    """numbers: {"sick": (R,), "healthy": (R,)}, or {"claim": …, "settles": …} of a mistaken report.
    curves: {"sick": {name: (3, K)}, …}, smallest, median and largest over the seeds. steps: {"sick": (K,), …}."""

    numbers: dict
    curves: dict
    steps: dict


def record():
    """Train all patients, sick and healthy: the arrays of the stored file. Healthy curves are kept once for each case."""
    arrays = {}
    for one in PATIENTS:
        if one.mistaken:
            arrays[f"{one.name}/claim"] = one.reported(SEEDS)
            arrays[f"{one.name}/settles"], _ = one.examine(SEEDS)
            continue
        for state in LOOKS:
            arrays[f"{one.name}/{state}"], history = one.examine(SEEDS, healthy=state == "healthy")
            owner = first_with_case(one) if state == "healthy" else one
            if history and owner is one:
                arrays |= {f"{one.name}/{state}/{name}": value for name, value in thinned(history).items()}
    return {name: np.asarray(value, np.float16 if name.count("/") == 2 and "env_steps" not in name else np.float32)
            for name, value in arrays.items()}  # fmt: skip


def first_with_case(one):
    """The first patient with the same case: its healthy curves are those of this one, too."""
    return next(other for other in PATIENTS if other.case == one.case and not other.mistaken)


def thinned(history):
    """A few points of each diagnostic, (3, K): smallest, median and largest over the seeds; and of env_steps, (K,)."""
    length = history["env_steps"].shape[1]
    keep = np.unique(np.linspace(0, length - 1, POINTS).round().astype(int))
    names = [name for name in DIAGNOSTICS if name in history and np.isfinite(history[name][:, keep]).any()]
    filled = {name: np.where(np.isfinite(history[name]).any(0), history[name], 0.0)[:, keep] for name in names}
    curves = {name: np.nanquantile(value, [0, 0.5, 1], axis=0) for name, value in filled.items()}
    return curves | {"env_steps": history["env_steps"][0, keep]}


@cache
def stored():
    """Name of the patient -> Symptom."""
    with np.load(data_path(FILE)) as file:
        arrays = {name: file[name].astype(float) for name in file.files if name != "facts"}
    found = {}
    for one in PATIENTS:
        parts = {name.removeprefix(f"{one.name}/"): value for name, value in arrays.items() if name.startswith(f"{one.name}/")}
        curves = {state: {} for state in LOOKS}
        for name, value in parts.items():
            state, _, diagnostic = name.partition("/")
            if diagnostic:
                curves[state][diagnostic] = value
        if one.case is not None and not one.mistaken and (owner := first_with_case(one)) is not one:
            prefix = f"{owner.name}/healthy/"
            curves["healthy"] = {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
        steps = {state: curve.pop("env_steps", None) for state, curve in curves.items()}
        found[one.name] = Symptom({name: value for name, value in parts.items() if "/" not in name}, curves, steps)
    return found


def band(ax, symptom, name):
    """Curves of a diagnostic, sick beside healthy: the median of ten seeds, and the range."""
    for state, (colour, dashes, _) in LOOKS.items():
        if name in symptom.curves[state]:
            low, middle, high = symptom.curves[state][name].clip(LOWEST.get(name))
            x = symptom.steps[state] / 1000
            ax.fill_between(x, low, high, color=PALETTE[colour], alpha=0.2, linewidth=0)
            ax.plot(x, middle, dashes, color=PALETTE[colour], label=state)
    note = f"\n(cut at {LOWEST[name]})" if name in LOWEST else ""
    ax.set(xlabel="thousand steps per run", ylabel=DIAGNOSTICS[name][0] + note)


def dots(ax, rows, label, width=32):
    """One mark per seed; rows: {name: numbers}, the first on top. width: letters of the label that fit in a line."""
    styles = [LOOKS[name] if name in LOOKS else LOOKS["healthy"] for name in rows]
    for height, ((_, values), (colour, _, marker)) in enumerate(zip(rows.items(), styles, strict=True)):
        ax.plot(values, np.full(len(values), -height), marker, color=PALETTE[colour], alpha=0.6, linestyle="none")
    ax.set(yticks=-np.arange(len(rows)), yticklabels=list(rows), ylim=(0.6 - len(rows), 0.4))
    ax.set_xlabel(textwrap.fill(label, width))
    ax.locator_params(axis="x", nbins=5)


def picture(one):
    """(figure, alt text) of a patient's symptom."""
    symptom = stored()[one.name]
    if one.mistaken:
        fig, axes = new_figure(1, 2, size=(9, 2.1))
        dots(axes[0], {"reported": symptom.numbers["claim"]}, one.claim_label)
        dots(axes[1], {"settles it": symptom.numbers["settles"]}, one.label)
        what = f"{one.claim_label}: {span(symptom.numbers['claim'])}. {one.label}: {span(symptom.numbers['settles'])}."
    elif one.curve is None:
        fig, ax = new_figure(size=(9, 1.9))
        dots(ax, {"sick": symptom.numbers["sick"], "healthy": symptom.numbers["healthy"]}, one.label, width=90)
        what = compared(one, symptom)
    else:
        fig, axes = new_figure(1, 2, size=(9, 2.9), width_ratios=(5, 4))
        band(axes[0], symptom, one.curve)
        axes[0].legend(loc="best")
        dots(axes[1], {"sick": symptom.numbers["sick"], "healthy": symptom.numbers["healthy"]}, one.label)
        what = f"On the left, {DIAGNOSTICS[one.curve][0]} against steps. {compared(one, symptom)}"
    return fig, f"Patient “{one.name}”, ten seeds. {what}"


def compared(one, symptom):
    sick, healthy = (span(symptom.numbers[state]) for state in ("sick", "healthy"))
    return f"{one.label[0].upper()}{one.label[1:]}: sick {sick}; healthy {healthy}."


def span(values):
    """Median and range, in three digits."""
    return f"median {np.median(values):.3g}, from {values.min():.3g} to {values.max():.3g}"
