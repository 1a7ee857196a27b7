"""Every solution, taken out of its notebook, passes its check; every wrong answer fails with a message of its own.

Wrong answers: tests/classroom/wrong_answers/lesson_03.py holds WRONG = {"03.2": [(name, answer, part of the message), …]}. An
answer is the source that a learner would write: the lines that replace the stub. ALSO_RIGHT = {"03.2": [(name, answer), …]}, if
there, holds answers that look different from the solution, and must pass.
"""

import ast
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcourse.classroom import exercises
from rlcourse.classroom.exercises import (
    NotAttempted,
    Wrong,
    array,
    check,
    close,
    entries,
    explained,
    find,
    in_lesson,
    number,
    progress,
    recognise,
    run,
    word,
)

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}
LESSONS = [n for n in NOTEBOOKS if (Path(exercises.__file__).parent / f"lesson_{n}.py").exists()]
ALL = [each for lesson in LESSONS for each in in_lesson(lesson)]


def cells_of(lesson):
    return [(cell["cell_type"], cell["metadata"].get("tags", []), "".join(cell["source"]))
            for cell in json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"]]  # fmt: skip


def parts_of(each):
    """(text, code, solution) of an exercise: its markdown cells, its code cell, and the text of its solution cell."""
    text, code, solution, inside = [], [], [], False
    for kind, tags, source in cells_of(each.id[:2]):
        if heading := re.search(r"^### Exercise (\d+)", source, re.M):
            inside = int(heading[1]) == int(each.id[3:])
        elif re.search(r"^##? ", source, re.M) and kind == "markdown":
            inside = False
        if inside:
            (code if kind == "code" else solution if "solution" in tags else text).append(source)
    return "\n".join(text), [source for source in code if f'check("{each.id}"' in source], "\n".join(solution)


def answered(each, answer):
    """Result of the exercise's own cell with `answer` in place of the stub. Nothing else of the notebook is run."""
    (cell,) = parts_of(each)[1]
    *before, last = ast.parse(cell).body
    space = {}
    exec(compile(ast.Module(before, []), f"<stub {each.id}>", "exec"), space)
    exec(compile(answer, f"<answer {each.id}>", "exec"), space)
    return eval(compile(ast.Expression(last.value), f"<check {each.id}>", "eval"), space)


def solution_of(each):
    blocks = re.findall(r"```python\n(.*?)```", parts_of(each)[2], re.S)
    return "\n".join(blocks)


def answers_of(lesson):
    file = Path(__file__).parent / "wrong_answers" / f"lesson_{lesson}.py"
    spec = importlib.util.spec_from_file_location(f"wrong_{lesson}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRONG = {id: answers for lesson in LESSONS for id, answers in answers_of(lesson).WRONG.items()}
ALSO_RIGHT = [(find(id), *one) for lesson in LESSONS for id, answers in getattr(answers_of(lesson), "ALSO_RIGHT", {}).items()
              for one in answers]  # fmt: skip


# ------------------------------------------------------------------------------------------------- all lessons


@pytest.mark.parametrize("lesson", LESSONS)
def test_four_to_six_exercises_of_every_kind(lesson):
    kinds = [each.kind for each in in_lesson(lesson)]
    assert 4 <= len(kinds) <= 6 and set(kinds) == set(exercises.KINDS)


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)
def test_notebook_announces_the_exercise_and_has_hint_check_and_solution(each):
    text, code, solution = parts_of(each)
    assert f"### Exercise {each.id[3:].lstrip('0')} · {each.title}\n\n*{each.label}*" in text
    assert len(code) == 1, f"exactly one code cell must call check({each.id!r}, …)"
    assert re.search(r"<details><summary>.*Hint", text) and "<details><summary><b>Solution" in solution
    assert "<b>Solution" not in text, "the solution stands in a cell of its own, with the tag solution"


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)
def test_untouched_stub_is_not_attempted_and_no_error(each):
    result = answered(each, "")
    assert result.ok is None and "Not attempted yet" in repr(result)


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)
def test_solution_in_the_notebook_passes_its_check(each):
    result = answered(each, solution_of(each))
    assert result.ok is True, result


@pytest.mark.parametrize("each", [e for e in ALL if e.kind != "explain"], ids=lambda each: each.id)
def test_wrong_answers_fail_each_with_its_own_message(each):
    answers = WRONG.get(each.id, [])
    assert len(answers) >= {"implement": 3, "derive": 2, "predict": 1}[each.kind], f"too few wrong answers for {each.id}"
    messages = []
    for name, answer, part in answers:
        result = answered(each, answer)
        assert result.ok is False, f"{name}: {result}"
        assert part in result.message, f"{name}: {result.message!r} does not say {part!r}"
        messages.append(result.message)
    assert len(set(messages)) == len(messages), "two wrong answers get the same message"


@pytest.mark.parametrize(("each", "name", "answer"), ALSO_RIGHT, ids=lambda each: getattr(each, "id", ""))
def test_other_right_answers_pass(each, name, answer):
    result = answered(each, answer)
    assert result.ok is True, f"{name}: {result}"


def dressed(value, dress):
    """What a function returned, each array in it in another form."""
    if isinstance(value, bool | np.bool_):
        return value
    if isinstance(value, tuple | list):
        return type(value)(dressed(each, dress) for each in value)
    return dress(np.asarray(value.detach() if isinstance(value, torch.Tensor) else value))


CLOTHES = {
    "float32": lambda x: x.astype(np.float32) if x.dtype == float else x,
    "lists": lambda x: x.tolist(),
    "tensors with a graph": lambda x: torch.tensor(x, requires_grad=x.dtype == float),
}
MUST_HAVE_A_GRAPH = ("02.2", "05.2", "06.2")


@pytest.mark.parametrize("clothes", CLOTHES)
@pytest.mark.parametrize("each", [e for e in ALL if e.kind in ("derive", "implement") and e.id not in MUST_HAVE_A_GRAPH],
                         ids=lambda each: each.id)  # fmt: skip
def test_the_right_numbers_pass_in_any_clothes(each, clothes):
    *before, last = ast.parse(parts_of(each)[1][0]).body
    exec(compile(ast.Module(before, []), f"<stub {each.id}>", "exec"), space := {})
    exec(compile(solution_of(each), f"<solution {each.id}>", "exec"), space)
    answer = eval(compile(ast.Expression(last.value.args[1]), f"<stub {each.id}>", "eval"), space)

    def wrap(function):
        return lambda *args, **kwargs: dressed(function(*args, **kwargs), CLOTHES[clothes])

    result = check(each.id, tuple(map(wrap, answer)) if isinstance(answer, tuple) else wrap(answer))
    assert result.ok is True, result


ODD = (0, -1.5, True, "word", [1, 2], {}, set(), 1j, object, np.ones(3), np.ones((2, 2)), np.array("x"), float("nan"),
       torch.ones(2, requires_grad=True), [[1], [1, 2]], (np.ones(2), np.ones(3)), (1, 2, 3, 4, 5))  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)
def test_no_answer_is_too_odd_for_a_check(each):
    """Whatever a learner gives, whatever the function returns: never an exception, and never "holds"."""
    *before, last = ast.parse(parts_of(each)[1][0]).body
    exec(compile(ast.Module(before, []), f"<stub {each.id}>", "exec"), space := {})
    stub = eval(compile(ast.Expression(last.value.args[1]), f"<stub {each.id}>", "eval"), space)
    for odd in ODD:
        answers = [odd, lambda *args, odd=odd, **kwargs: odd, lambda odd=odd: odd]
        for answer in answers + ([dict.fromkeys(stub, odd)] if isinstance(stub, dict) else []):
            assert check(each.id, answer).ok is not True, answer


@pytest.mark.parametrize("lesson", LESSONS)
def test_progress_counts(lesson, monkeypatch):
    monkeypatch.setattr(exercises, "_RESULTS", {})
    total = len(in_lesson(lesson))
    assert f"0 of {total} exercises" in repr(progress(lesson))
    first = in_lesson(lesson)[0]
    assert f"1 of {total}" in answered(first, solution_of(first)).score
    assert f"1 of {total}" in progress(lesson)._repr_html_() and first.title in repr(progress(lesson))


@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson_ends_its_exercises_with_the_overview(lesson):
    assert any(kind == "code" and source.rstrip().endswith(f'progress("{lesson}")') for kind, _, source in cells_of(lesson))


# ------------------------------------------------------------------------------------------------ the mechanism


def test_unknown_exercise_names_those_that_exist():
    with pytest.raises(KeyError, match="there are no exercises for lesson '99'"):
        find("99.1")
    with pytest.raises(KeyError, match="there is no exercise"):
        find("nonsense")
    with pytest.raises(KeyError, match="two digits"):
        progress("3")


def test_run_protects_its_arguments_and_names_the_line():
    given = np.ones(3)

    def spoils(x):
        x[:] = 0
        return x

    run(spoils, given)
    assert (given == 1).all()

    def raises(x):
        return x.nonsense

    with pytest.raises(Wrong, match="AttributeError.*return x.nonsense"):
        run(raises, given)
    with pytest.raises(Wrong, match=r"np.linalg.inv\(x\)"):  # the learner's line, not NumPy's
        run(lambda x: np.linalg.inv(x), np.zeros((2, 2)))
    with pytest.raises(Wrong, match="arguments of the stub.*unexpected keyword argument 'gamma'"):
        run(lambda x: x, x=1, gamma=0.9)
    for stub in (lambda x: None, lambda x: ...):
        with pytest.raises(NotAttempted):
            run(stub, given)
    with pytest.raises(Wrong, match="function itself"):
        run(3.0)


def test_array_tells_shapes_and_numbers_apart():
    assert array("x", torch.ones(2, requires_grad=True), (2,)).dtype == float
    with pytest.raises(Wrong, match="axis too many"):
        array("the advantages", np.ones((3, 1)), (3,))
    with pytest.raises(Wrong, match=r"Did \(N, 1\) meet"):
        array("the advantages", np.ones((3, 3)), (3,))
    with pytest.raises(Wrong, match=r"yours has \(3, 2\)\.$"):
        array("the advantages", np.ones((3, 2)), (3,))
    with pytest.raises(Wrong, match="NaN"):
        array("the advantages", [np.nan, 1], (2,))
    assert np.isnan(array("the advantages", [np.nan, 1], (2,), finite=False)[0])
    assert array("x", [torch.tensor(1.0, requires_grad=True), 2.0], (2,)).tolist() == [1, 2]
    with pytest.raises(Wrong, match="Expected numbers"):
        array("the advantages", "abc")


def test_a_function_without_return_is_told_so(monkeypatch):
    judge = exercises.Exercise("00.9", "x", "implement", 1, 5, lambda answer: run(answer, 1))
    monkeypatch.setitem(exercises._EXERCISES, "00.9", judge)
    monkeypatch.setattr(exercises, "in_lesson", lambda lesson: [judge])

    def forgot(x):
        y = x + 1  # noqa: F841

    def refuses(x):
        raise NotImplementedError

    assert "`return` missing" in check("00.9", forgot).message and check("00.9", forgot).ok is False
    assert check("00.9", refuses).ok is None


def test_what_a_judge_says_inside_an_answer_is_handed_on():
    def judge():
        raise Wrong("called too often")

    with pytest.raises(Wrong, match="^called too often"):
        run(lambda: judge())


def test_word_explained_and_close():
    assert word(" Early ", {"early": 1, "late": 2}) == 1
    with pytest.raises(Wrong, match="'early', 'late'"):
        word("never", {"early": 1, "late": 2})
    with pytest.raises(Wrong, match="2 words"):
        explained("too short", ["a point"])
    assert "1. a point" in explained("word " * 30, ["a point"])
    assert close([1, 2], [1, 2 + 1e-12]) and not close([1, 2], [1, 2.1]) and not close([1], [1, 1])


def test_emphasis_and_code_of_a_message_are_shown_as_such():
    def page(message):
        return exercises.Result(exercises.Exercise("00.9", "x", "explain", 1, 5, None), False, message, "")._repr_html_()

    assert "the row <em>after</em> it, <code>obs[t]</code>" in page("the row *after* it, `obs[t]`")
    for plain in ("pi * (b * c) * d", "2*3*4", "x ** 2 ** y"):
        assert plain in page(plain)
    assert "a &lt;b&gt;" in page("a <b>")


def test_a_text_is_written_and_not_right(monkeypatch):
    judge = exercises.Exercise("00.9", "x", "explain", 1, 5, lambda answer: explained(answer, ["p"]))
    monkeypatch.setitem(exercises._EXERCISES, "00.9", judge)
    monkeypatch.setattr(exercises, "in_lesson", lambda lesson: [judge])
    result = check("00.9", "word " * 30)
    for shown in (repr(result), result._repr_html_()):
        assert "Exercise 00.9: Written." in shown and "Holds" not in shown
    assert "✓ written" in progress("00")._repr_html_()
    assert result.score == "0 of 1 exercises of lesson 00 hold so far, and 1 text is written."


def test_entries_and_recognise():
    assert entries({"a": 1, "b": 2.5}, ("a", "b"), number) == {"a": 1.0, "b": 2.5}
    with pytest.raises(Wrong, match="'a', 'b'"):
        entries({"a": 1}, ("a", "b"), number)
    with pytest.raises(Wrong, match="Expected numbers for a"):
        entries({"a": "x"}, ("a",), number)
    recognise([1.0, 2.0], {"reversed": [2.0, 1.0]})
    with pytest.raises(Wrong, match="reversed"):
        recognise([1.0, 2.0], {"doubled": [2.0, 4.0], "reversed": [1.0, 2.0]})


@pytest.mark.parametrize("answer", [None, ..., "", " … ", "...", "\n...\n", {"a": 1, "b": ...}, [1, None], (..., 2)])
def test_a_stub_of_any_kind_is_not_attempted(answer, monkeypatch):
    judge = exercises.Exercise("00.9", "x", "explain", 1, 5, lambda answer: explained(answer, ["p"]))
    monkeypatch.setitem(exercises._EXERCISES, "00.9", judge)
    monkeypatch.setattr(exercises, "in_lesson", lambda lesson: [judge])
    assert check("00.9", answer).ok is None
