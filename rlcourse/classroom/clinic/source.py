"""The code of a patient around its fault: where the learner looks for the line."""

import ast
import difflib
import functools

from rlcourse.classroom.faults import faulty_sources, file_of

ENOUGH = 15  # lines to choose from, at least: the functions before and after are shown, too, until there are so many


@functools.cache
def sick_lines(*faults):
    """The code around these faults as a patient has it, and the lines that its cure changes.

    Returns:
        (module, {line number: text} without docstrings and empty lines, set of the numbers that the cure changes).

    Raises:
        ValueError: the faults lie in more than one module.
    """
    ((module, sick),) = faulty_sources(faults).items()
    lines, healthy = sick.splitlines(), file_of(module).read_text(encoding="utf-8").splitlines()
    changes = difflib.SequenceMatcher(None, lines, healthy, autojunk=False).get_opcodes()
    wrong = {number for kind, start, end, *_ in changes if kind != "equal" for number in range(start + 1, end + 1)}
    shown = [number for function in _around(ast.parse(sick), wrong) for number in _numbers(function)]
    return module, {number: lines[number - 1] for number in shown if lines[number - 1].strip()}, wrong


def listing(*faults):
    """These lines with their numbers, as text."""
    module, shown, _ = sick_lines(*faults)
    margin = min(len(text) - len(text.lstrip()) for text in shown.values())
    return "\n".join([f"# {module}", *(f"{number:4}  {text[margin:]}" for number, text in shown.items())])


def _around(tree, wrong):
    """The functions and methods that hold these lines, and neighbours of them until there is enough to choose from."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    functions = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef)]
    functions.sort(key=lambda one: one.lineno)
    inside = [k for k, one in enumerate(functions) if any(one.lineno <= number <= one.end_lineno for number in wrong)]
    first, last = min(inside), max(inside)
    while sum(len(_numbers(one)) for one in functions[first : last + 1]) < ENOUGH and (first > 0 or last < len(functions) - 1):
        first, last = max(0, first - 1), min(len(functions) - 1, last + 1)
    return functions[first : last + 1]


def _numbers(function):
    """Numbers of a function's lines, its docstring left out."""
    doc = function.body[0] if ast.get_docstring(function) else None
    left_out = range(doc.lineno, doc.end_lineno + 1) if doc else ()
    return [number for number in range(function.lineno, function.end_lineno + 1) if number not in left_out]
