"""What a patient is, and how a diagnosis of one is judged."""

import difflib
import html
from dataclasses import dataclass

import rlcourse
from rlcourse.classroom.clinic.measures import trained
from rlcourse.classroom.clinic.source import listing, sick_lines
from rlcourse.classroom.exercises import verdict
from rlcourse.classroom.faults import faulty_sources, file_of, load_faulty
from rlcourse.diagnosis.suspects import SUSPECTS

NOTHING = "nothing"
DIAGNOSES = {key: suspect.sentence for key, suspect in SUSPECTS.items()} | {
    NOTHING: "Nothing is wrong with the code; the report is mistaken."
}
WARDS = {
    "order": "Time and order",
    "gradients": "Shapes, signs and gradients",
    "continuous": "Continuous actions",
    "trust": "Trust region",
    "bookkeeping": "Bookkeeping",
    "mistaken": "Second opinions",
    "score": "The score is no proof",
}


@dataclass(frozen=True)
class Patient:
    """A report from the public record, and what belongs to it.

    Args:
        name: what to call it; gives nothing away. ward: a key of WARDS.
        complaint: the report, paraphrased. sources: pairs (label, address or None).
        suspect: the right diagnosis, a key of DIAGNOSES.
        faults: what to change in the healthy package; none if it is right as it is.
        program: for the one patient that is no changed package: its algorithm.
        case: the training that shows the symptom (measures.Case); None where numbers show it.
        measure: the symptom, one number per seed: (package, result, case), or without a case (package, seeds). label: its name.
        claim, claim_label: for a mistaken report, the number that it is about; `measure` is then what settles the matter.
        curve: name in the history that is drawn beside it, or None.
        read: the diagnostics to read. cure: what to do about it. against: {wrong diagnosis: what contradicts it}.
    """

    name: str
    ward: str
    complaint: str
    sources: list
    suspect: str
    measure: object
    label: str
    read: str
    cure: str
    against: dict
    faults: tuple = ()
    case: object = None
    claim: object = None
    claim_label: str = ""
    curve: str | None = None
    program: type | None = None

    __hash__ = object.__hash__

    @property
    def mistaken(self):
        return self.suspect == NOTHING

    def package(self):
        """The package as this patient has it; the healthy one if there is nothing to change."""
        return load_faulty(*self.faults) if self.faults else rlcourse

    def algorithm(self, healthy=False):
        """The algorithm with the settings of its case, sick or healthy; None without a case."""
        if self.case is None:
            return None
        settings = self.case.configure(rlcourse if healthy else self.package())
        return settings if healthy or self.program is None else self.program(**vars(settings))

    def examine(self, seeds, healthy=False):
        """The symptom: (numbers, history).

        Returns:
            numbers (R,), one per seed; history of the training that shows it, {} without a case.
        """
        package = rlcourse if healthy else self.package()
        if self.case is None:
            return self.measure(package, seeds), {}
        result = trained(self.case, package, self.algorithm(healthy), seeds)
        return self.measure(package, result, self.case), result.history

    def reported(self, seeds):
        """The number that a mistaken report is about, (R,)."""
        if self.case is None:
            return self.claim(rlcourse, seeds)
        return self.claim(rlcourse, trained(self.case, rlcourse, self.algorithm(), seeds), self.case)

    def diff(self):
        """What the cure changes, as the lines of a diff: from sick (-) to healthy (+)."""
        lines = []
        for module in dict.fromkeys(fault.module for fault in self.faults):
            sick = faulty_sources(self.faults)[module].splitlines()
            healthy = file_of(module).read_text(encoding="utf-8").splitlines()
            lines.append(f"# {module}")
            changes = list(difflib.unified_diff(sick, healthy, n=0))[2:]  # without the names of the files
            lines += [line.rstrip() for line in changes if line[0] != "@"]
        return "\n".join(lines)


class Result:
    """What `diagnosis` says. ok: True, False, or None for "not attempted yet". code: where to look for the line, or ""."""

    def __init__(self, name, ok, message, code=""):
        self.name, self.ok, self.message, self.code = name, ok, message, code

    def _words(self):
        return {True: "Right", False: "Not yet", None: "Not attempted yet"}[self.ok]

    def __repr__(self):
        return f"{self.name}: {self._words()}. {self.message}" + f"\n{self.code}" * bool(self.code)

    def _repr_html_(self):
        return self.html("status") + self.code_html()

    def html(self, role="note"):
        return verdict(self.ok, f"{self.name}: {self._words()}.", html.escape(self.message), role=role)

    def code_html(self):
        """The code, which is not read out with the verdict."""
        look = 'style="max-height:26em;overflow:auto;line-height:1.3;margin:.5em 0" tabindex="0" role="region"'
        name = f'aria-label="code of {html.escape(self.name)}"'
        return f"<pre {look} {name}>{html.escape(self.code)}</pre>" if self.code else ""


def judge(patient, guess, line=None):
    """Result of a diagnosis: right, or not yet with what contradicts it; never the answer.

    Args:
        line: once the diagnosis is right, the number of the line that is wrong; see `clinic.source`.

    Raises:
        ValueError: no such diagnosis, or no such line; the message lists them.
    """
    if guess is None or guess is Ellipsis:
        return Result(patient.name, None, "Choose a diagnosis.")
    if guess not in DIAGNOSES:
        near = difflib.get_close_matches(str(guess), DIAGNOSES, n=2)
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ValueError(f"diagnosis {guess!r} of {patient.name!r}: {hint}There are {', '.join(DIAGNOSES)}.")
    if guess == patient.suspect:
        return judge_line(patient, line)
    if guess == NOTHING:
        default = f"Something is wrong. Look at {patient.read}."
    elif patient.mistaken:
        default = f"If it were that, you would find it so: {SUSPECTS[guess].look} Here that test is passed."
    else:
        default = f"To be sure of that: {SUSPECTS[guess].look} Then look at {patient.read}."
    return Result(patient.name, False, patient.against.get(guess, default))


def judge_line(patient, line):
    """Result of the search for the line, which begins when the diagnosis is right."""
    known = DIAGNOSES[patient.suspect]
    if not patient.faults:
        return Result(patient.name, True, f"{known} {'The second opinion' if patient.mistaken else 'The cure'} is folded below.")
    _, shown, wrong = sick_lines(*patient.faults)
    code = listing(*patient.faults)
    if line is None:
        return Result(patient.name, True, f"{known} And which line is it? (The cure is folded below.)", code)
    if line not in shown:
        raise ValueError(f"line {line!r} of {patient.name!r}: expected the number of a line that is shown:\n{code}")
    if line not in wrong:
        return Result(patient.name, False, f"The diagnosis is right, but line {line} is as it should be.", code)
    more = f" It is one of the {len(wrong)} lines that the cure changes." if len(wrong) > 1 else ""
    return Result(patient.name, True, f"Line {line} it is.{more} The cure is folded below.", code)


def complaint_text(patient):
    """The cell above a patient: heading, complaint, threads, what to read."""
    threads = ", ".join(f"[{label}]({address})" if address else label for label, address in patient.sources)
    return f"#### {patient.name}\n\n> {patient.complaint}\n\n*Threads:* {threads}. *Read:* {patient.read}."


def cure_text(patient):
    """The cell below a patient: its cure, folded, with the lines that change."""
    lines = f"\n\n```diff\n{patient.diff()}\n```" if patient.faults else ""
    verdict = "Nothing is wrong." if patient.mistaken else DIAGNOSES[patient.suspect]
    title = "The second opinion" if patient.mistaken else "The cure"
    return f"<details><summary><b>{title}</b></summary>\n\n**{verdict}** {patient.cure}{lines}\n\n</details>"
