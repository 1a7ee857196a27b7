"""Exercises that answer: `check("03.2", my_function)` says whether an answer holds, and where it does not, what is off.

A check judges an answer by mathematics (an identity, brute force, SciPy, a world that is solved exactly), never by comparing
it with our solution. It never shows the right answer. An untouched stub is "not attempted yet" and no error, so a notebook
runs from top to bottom with nothing solved.

Each lesson has a module here, lesson_03 for lesson 03, with one function per exercise:

    @exercise("03.2", "GAE is a filter", kind="implement", level=2, minutes=15)
    def gae_filter(answer):
        got = array("the advantages", run(answer, rewards, gamma=0.9), shape=(5,))
        if close(got, backwards):
            raise Wrong("These are the right numbers in reverse order: …")
        …
        return "Equal to the sum over all l, for 20 random pieces with every kind of end."
"""

import copy
import html
import linecache
import re
import sysconfig
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

KINDS = ("derive", "implement", "predict", "explain")
_EXERCISES = {}  # id -> Exercise
_RESULTS = {}  # id -> the last Result in this process
# Code that no learner wrote: this package, and all that is installed.
_NOT_THEIRS = (str(Path(__file__).parents[2]), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


class Wrong(Exception):
    """An answer does not hold. The message says in the learner's terms what is off, with the smallest counter-example."""


class NotAttempted(Exception):
    """The answer is still the stub: a function that returns None (no arguments), or that says so (any argument)."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: how it is announced in the notebook, and the function that judges an answer."""

    id: str
    title: str
    kind: str
    level: int
    minutes: int
    judge: object

    @property
    def label(self):
        """The line below its heading: ★★☆ implement · 15 min."""
        return f"{'★' * self.level}{'☆' * (3 - self.level)} {self.kind} · {self.minutes} min"


def exercise(id, title, *, kind, level, minutes):
    """Decorator: registers `judge(answer)`, which returns a sentence if the answer holds and raises Wrong if not.

    Args:
        id: lesson and number, "03.2". kind: one of "derive", "implement", "predict", "explain".
        level: 1 to 3, the stars. minutes: that it takes somebody who has read the lesson.
    """
    if kind not in KINDS or level not in (1, 2, 3):
        raise ValueError(f"exercise {id}: kind {kind!r} must be one of {KINDS} and level {level!r} 1, 2 or 3")

    def register(judge):
        _EXERCISES[id] = Exercise(id, title, kind, level, minutes, judge)
        return judge

    return register


SIGNS = {True: "✓", False: "✗", None: "○"}
COLOURS = {True: "#009E73", False: "#D55E00", None: "#888888"}


def verdict(ok, head, text, colour=None, role="status"):
    """A judgement as HTML, in colour and with a sign for those who see none. text: HTML. role: "note" inside a line that is
    read out by itself."""
    look = f"border-left:5px solid {colour or COLOURS[ok]};padding:.3em .9em;max-width:60em"
    return f'<div role="{role}" style="{look}"><b>{SIGNS[ok]} {html.escape(head)}</b> {text}</div>'


def _state(exercise, ok):
    """In words. No program judges a text, so nothing may say that it holds."""
    return {True: "Written" if exercise.kind == "explain" else "Holds", False: "Not yet", None: "Not attempted yet"}[ok]


class Result:
    """What `check` says; the last line of a cell shows it. `ok` is True, False, or None for "not attempted yet"."""

    def __init__(self, exercise, ok, message, score):
        self.exercise, self.ok, self.message, self.score = exercise, ok, message, score

    def __repr__(self):
        return f"Exercise {self.exercise.id}: {_state(self.exercise, self.ok)}. {self.message}\n{self.score}".replace(
            "\n\n", "\n"
        )

    def _repr_html_(self):
        state = _state(self.exercise, self.ok)
        text = html.escape(self.message).replace("\n", "<br>")
        text = re.sub(r"(?<![\w*])\*(\w[^*<]*)\*(?![\w*])", r"<em>\1</em>", text)
        text = re.sub(r"`([^`<]+)`", r"<code>\1</code>", text)
        head, colour = f"Exercise {self.exercise.id}: {state}.", "#0072B2" if state == "Written" else None
        return verdict(self.ok, head, f"{text}<br><small>{self.score}</small>", colour)


def check(id, answer):
    """Judge an answer to an exercise: the last line of its cell.

    Args:
        id: of the exercise, for example "03.2".
        answer: what the exercise asks for: a function, a number, an array, a word, or a text.

    Returns:
        Result; it shows itself in the notebook.

    Raises:
        KeyError: there is no such exercise.
    """
    chosen = find(id)
    try:
        if _untouched(answer):
            raise NotAttempted
        ok, message = True, chosen.judge(answer)
    except NotAttempted as stub:
        ok, message = None, "Replace the dots by your answer and run this cell again."
        if _written(answer) and not stub.args:
            ok, message = False, "Your function returned None: is its `return` missing?"
    except Wrong as error:
        ok, message = False, str(error)
    _RESULTS[id] = result = Result(chosen, ok, message, "")
    result.score = _score(id[:2])
    return result


def _untouched(answer):
    """Whether dots of the stub are left, in a dictionary or a list too."""
    if isinstance(answer, dict | list | tuple):
        return any(map(_untouched, answer.values() if isinstance(answer, dict) else answer))
    return answer is None or answer is Ellipsis or (isinstance(answer, str) and not answer.strip(" .…\n"))


def _dots(): ...


def _dots_and_docstring():
    """A stub with a docstring."""
    ...


def _written(answer):
    """Whether the answer holds a function, and in all its functions somebody has written more than the dots."""
    functions = [each for each in (answer if isinstance(answer, tuple | list) else [answer]) if hasattr(each, "__code__")]
    stubs = {stub.__code__.co_code for stub in (_dots, _dots_and_docstring)}
    return bool(functions) and all(each.__code__.co_code not in stubs for each in functions)


def find(id):
    """The Exercise with this id."""
    if isinstance(id, str) and id[:2].isdecimal():
        in_lesson(id[:2])
    if id not in _EXERCISES:
        raise KeyError(f"there is no exercise {id!r}; there are {', '.join(sorted(_EXERCISES)) or 'none'}")
    return _EXERCISES[id]


def in_lesson(lesson):
    """The exercises of a lesson ("03"), in order."""
    try:
        import_module(f"{__name__}.lesson_{lesson}")
    except ModuleNotFoundError as error:
        raise KeyError(f"there are no exercises for lesson {lesson!r}; write two digits, as '03'") from error
    return [_EXERCISES[id] for id in sorted(_EXERCISES) if id.startswith(f"{lesson}.")]


def _score(lesson):
    exercises = in_lesson(lesson)
    done = [each for each in exercises if each.id in _RESULTS and _RESULTS[each.id].ok]
    texts = sum(each.kind == "explain" for each in done)
    written = f", and {texts} text{' is' if texts == 1 else 's are'} written" if texts else ""
    return f"{len(done) - texts} of {len(exercises)} exercises of lesson {lesson} hold so far{written}."


class Progress:
    """Overview of the exercises of a lesson, made by `progress`."""

    def __init__(self, lesson):
        self.score, self.rows = _score(lesson), []
        for each in in_lesson(lesson):
            ok = _RESULTS[each.id].ok if each.id in _RESULTS else None
            self.rows.append((each, f"{SIGNS[ok]} {_state(each, ok).lower()}"))

    def __repr__(self):
        return "\n".join([self.score, *(f"  {each.id}  {state:20} {each.label:28} {each.title}" for each, state in self.rows)])

    def _repr_html_(self):
        head = ("exercise", "state", "kind", "title")
        body = [(each.id, state, each.label, each.title) for each, state in self.rows]
        table = _row("th", head) + "".join(_row("td", cells) for cells in body)
        return f'<div role="status"><b>{self.score}</b><table>{table}</table></div>'


def _row(tag, cells):
    return "<tr>" + "".join(f'<{tag} style="text-align:left">{html.escape(cell)}</{tag}>' for cell in cells) + "</tr>"


def progress(lesson):
    """Which exercises of a lesson ("03") hold since the kernel was started: the last line of a cell."""
    return Progress(lesson)


# --------------------------------------------------------------------------------------- tools for those who write checks


def run(function, *args, **kwargs):
    """Call the learner's function on copies of the arguments.

    Raises:
        NotAttempted: it raises NotImplementedError or returns None or ... . Wrong: it is no function, its arguments are not
        those of the stub, or it raises anything else; the message names the error and the learner's line.
    """
    if not callable(function):
        raise Wrong(f"Give the function itself, without calling it; this is {_shown(function)}.")
    try:
        value = function(*map(_copy, args), **{name: _copy(value) for name, value in kwargs.items()})
    except NotImplementedError:
        raise NotAttempted("NotImplementedError") from None
    except (Wrong, NotAttempted):  # what a judge handed over has looked at the answer already
        raise
    except Exception as error:
        theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_NOT_THEIRS)]
        if isinstance(error, TypeError) and not theirs:
            raise Wrong(f"Keep the arguments of the stub, their names and their order: {error}.") from error
        raise Wrong(f"Your function raised {type(error).__name__}: {error}{_line_of(theirs)}") from error
    if value is None or value is Ellipsis:
        raise NotAttempted
    return value


def _copy(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value if callable(value) else copy.deepcopy(value)


def _line_of(frames):
    lines = [line for frame in frames if (line := linecache.getline(frame.filename, frame.lineno).strip())]
    return f" (at the line “{lines[-1]}”)." if lines else "."


def array(name, value, shape=None, finite=True):
    """The learner's value as a float64 array of the given shape: an array, a tensor, a number, or lists of them.

    Raises:
        Wrong: not numbers, another shape, or (if `finite`) NaN or infinity; `name` says what it is ("the advantages").
    """
    try:
        got = np.asarray(_plain(value), dtype=float)
    except (TypeError, ValueError):
        raise Wrong(f"Expected numbers for {name}, got {_shown(value)}.") from None
    if shape is not None and got.shape != tuple(shape):
        extra = got.size == np.prod(shape, dtype=int) and " The numbers may be right, but look for an axis too many or too few."
        square = got.ndim > 1 and got.ndim > len(shape) and got.shape[-1] == got.shape[-2]
        blown = not extra and square and " Did (N, 1) meet (N,) somewhere? That makes (N, N)."
        raise Wrong(f"{name[0].upper()}{name[1:]} should have shape {tuple(shape)}, yours has {got.shape}.{extra or blown or ''}")
    if finite and not np.isfinite(got).all():
        raise Wrong(f"{name[0].upper()}{name[1:]} contain NaN or infinity: {numbers(got)}.")
    return got


def _plain(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def number(name, value):
    """The learner's value as one float; as `array`."""
    return float(array(name, value, shape=()))


def word(answer, options):
    """The learner's choice, one of `options` (word -> anything), case and spaces aside; returns options[word]."""
    key = answer.strip().lower() if isinstance(answer, str) else answer
    if not isinstance(key, str | int | float) or key not in options:
        raise Wrong(f"Choose one of {', '.join(map(repr, options))}; this is {_shown(answer)}.")
    return options[key]


def entries(answer, names, read):
    """The learner's dictionary with exactly these names, each value read by read(name, value): `number`, for example."""
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise Wrong(f"Keep the dictionary with its entries {', '.join(map(repr, names))} and fill in the values.")
    return {name: read(name, answer[name]) for name in names}


def recognise(got, mistakes):
    """Raise Wrong with the message of the first mistake, {message: what it gives}, that explains what the learner's code gave."""
    for message, value in mistakes.items():
        if close(got, value):
            raise Wrong(message)


def explained(answer, points, *, words=25):
    """A text to be judged by its writer: at least `words` words; returns the points to compare it with."""
    if not isinstance(answer, str):
        raise Wrong(f"Write a text, in quotes; this is {_shown(answer)}.")
    if (count := len(answer.split())) < words:
        raise Wrong(f"{count} words are too few for a colleague to follow; write at least {words}.")
    listing = "\n".join(f"{i}. {point}" for i, point in enumerate(points, start=1))
    return f"No program can judge it; you can. Does your text say these {len(points)} things?\n{listing}"


def close(got, wanted, tolerance=1e-6):
    """Whether two arrays of one shape agree to `tolerance`, relative to 1 or to the largest number.

    No usual mistake is as small as 1e-6, and a right answer in float32 is that near.
    """
    got, wanted = np.asarray(got, float), np.asarray(wanted, float)
    if got.shape != wanted.shape:
        return False
    return bool(np.abs(got - wanted).max(initial=0) <= tolerance * np.abs(wanted).max(initial=1))


def numbers(value):
    """Numbers for a message, at most 4 digits and 8 entries."""
    flat = np.asarray(value, float)
    return np.array2string(flat, precision=4, separator=", ", threshold=8, edgeitems=3, suppress_small=True).replace("\n", "")


def ends_in_words(terminated, truncated):
    """For a message: what happens to the episode in each row."""
    words = {(False, False): "no flag", (True, False): "terminated", (False, True): "truncated", (True, True): "both flags"}
    return [words[bool(a), bool(b)] for a, b in zip(terminated, truncated, strict=True)]


def _shown(value):
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"
