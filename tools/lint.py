"""The rules that a stored lesson keeps, beyond what nbval and ruff see. One function a rule: lesson -> list of findings.

    python tools/lint.py                           all lessons
    python tools/lint.py notebooks/02_x.ipynb      these

tests/notebooks/test_lint.py applies each rule to each lesson, and shows for each rule a notebook that it catches.
"""

import ast
import html
import json
import re
import sys
from pathlib import Path

if __package__ in (None, ""):  # started as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nbformat

from tools.refresh import CHANCE_ID, DIGEST, NOTEBOOKS, RANDOM, ROOT, WIDGET, digest, tidy

HEADINGS = (
    "See it first",
    "Derivation",
    "Build it",
    "Touch it",
    "Train it",
    "Exercises",
    "What goes wrong in practice",
    "Summary card",
)
MAX_LINES = 30
MAX_BYTES = 1_500_000
MAX_DIGITS = 8
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")
NETWORK = {"requests", "urllib", "urllib3", "http", "httpx", "aiohttp", "socket", "ftplib", "smtplib"}
OUTSIDE = NETWORK | {"subprocess", "pip"}
GLOBAL_STATE = re.compile(
    r"(np|numpy)\.random\.(?!default_rng|Generator|SeedSequence|PCG64)\w+|torch\.(manual_seed|seed)|random\.seed"
)
EVASIVE = {"nbval-skip", "nbval-raises-exception", "raises-exception", "nbval-check-output", "skip-execution"}
ASSERTING = {"compare", "within_standard_errors"}  # functions of rlcourse.classroom that assert
TRAINING = {"train", "iterate"}
RULES = []


def rule(function):
    RULES.append(function)
    return function


class Lesson:
    """A notebook file as stored: its text, and its cells with sources and outputs joined to single strings."""

    def __init__(self, path, text=None):
        self.path = Path(path)
        self.text = self.path.read_text(encoding="utf-8") if text is None else text
        self.notebook = json.loads(self.text)
        self.cells = [Cell(number, data) for number, data in enumerate(self.notebook["cells"])]
        self.code = [cell for cell in self.cells if cell.kind == "code" and cell.source.strip()]
        self.prose = [cell for cell in self.cells if cell.kind == "markdown"]

    def headings(self):
        """(level, text) of every heading, in order; those in fenced code do not count."""
        return [(len(m[1]), m[2].strip()) for cell in self.prose for m in re.finditer(r"^(#{1,6})\s+(.+)$", cell.prose(), re.M)]


class Cell:
    def __init__(self, number, data):
        self.kind, self.id, self.data = data["cell_type"], data.get("id"), data
        self.source = joined(data["source"])
        self.outputs = data.get("outputs", [])
        self.tags = data["metadata"].get("tags", [])
        self.name = f"cell {number} ({self.id or 'no id'})"

    def prose(self):
        return re.sub(r"```.*?```|`[^`\n]*`", "", self.source, flags=re.S)

    def tree(self):
        """Syntax tree of the code, IPython's lines (% and !) left out; empty where it is no Python."""
        try:
            return ast.parse(re.sub(r"^[ \t]*[%!].*$", "pass", self.source, flags=re.M))
        except SyntaxError:
            return ast.Module([], [])

    def calls(self, *, when_run=False):
        """Dotted names of all functions that are called; when_run: only those that run with the cell itself."""
        nodes = [self.tree()]
        for node in nodes:  # grows while it is walked
            inside = when_run and isinstance(node, ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef)
            nodes += [] if inside else ast.iter_child_nodes(node)
        return [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]

    def shown(self):
        """(kind, text) of everything that is stored as text in the outputs, pictures and their base64 left out."""
        for output in self.outputs:
            if "text" in output:
                yield output["name"], joined(output["text"])
            for kind, data in output.get("data", {}).items():
                if kind not in PICTURES:
                    text = joined(data) if isinstance(data, str | list) else json.dumps(data)
                    yield kind, re.sub(r"data:[\w/+.-]{1,40};base64,[A-Za-z0-9+/=]*", "data:", text)


def joined(text):
    return text if isinstance(text, str) else "".join(text)


# ------------------------------------------------------------------------------------------------------ the lesson


@rule
def headings(lesson):
    """The title, then the parts of a lesson in their order."""
    number = lesson.path.name[:2]
    found = lesson.headings()
    title = found[0][1] if found and found[0][0] == 1 else ""
    parts = [text for level, text in found if level == 2]
    findings = []
    if not re.fullmatch(rf"{number} · \S.*", title):
        findings.append(f"the first heading must be '# {number} · Name', not {title!r}")
    findings += [] if parts == list(HEADINGS) else [f"the parts must be {list(HEADINGS)}, not {parts}"]
    findings += [f"a second title: {text!r}" for level, text in found[1:] if level == 1]
    steps = zip(found, found[1:], strict=False)
    return findings + [f"{text!r} skips a level" for (before, _), (level, text) in steps if level > before + 1]


@rule
def cell_length(lesson):
    """No cell over 30 lines."""
    long = [(cell, len(cell.source.splitlines())) for cell in lesson.cells]
    return [f"{cell.name} has {lines} lines; the limit is {MAX_LINES}" for cell, lines in long if lines > MAX_LINES]


@rule
def size(lesson):
    """Small enough to load and to keep in a repository."""
    size = len(lesson.text.encode("utf-8"))
    return [f"{size:,} bytes; the limit is {MAX_BYTES:,}"] if size > MAX_BYTES else []


@rule
def folded_text(lesson):
    """Every <details> is closed, has a summary, and a blank line before its markdown."""
    findings = []
    for cell in lesson.prose:
        text = cell.prose()
        if text.count("<details") != text.count("</details>") or text.count("<details") != text.count("<summary>"):
            findings.append(f"{cell.name}: <details>, <summary> and </details> do not match")
        if re.search(r"</summary>[^\n]*\n[^\n]*\S", text):
            findings.append(f"{cell.name}: markdown after </summary> needs a blank line, or it is not rendered")
    return findings


# ------------------------------------------------------------------------------------------------ pictures and links


@rule
def figures_have_alt_text(lesson):
    """Every stored figure says in words what is to be seen."""
    findings = []
    for cell in lesson.code:
        for output in cell.outputs:
            for kind in PICTURES:
                alt = output.get("metadata", {}).get(kind, {}).get("alt", "")
                if kind in output.get("data", {}) and len(alt.split()) < 3:
                    findings.append(f"{cell.name}: {kind} with alt text {alt!r}; show it with show(fig, alt=...)")
        findings += [f"{cell.name}: {tag[:60]} without alt text" for _, text in cell.shown() for tag in images_without_alt(text)]
    return findings


@rule
def images_have_alt_text(lesson):
    """Every image in a markdown cell has one, too."""
    findings = []
    for cell in lesson.prose:
        bare = [url for alt, url in MARKDOWN_IMAGE.findall(cell.prose()) if not alt.strip()]
        bare += [tag[:60] for tag in images_without_alt(cell.prose())]
        findings += [f"{cell.name}: {image} without alt text" for image in bare]
    return findings


MARKDOWN_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
MARKDOWN_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)[^)]*\)")
HTML_LINK = re.compile(r"<(?:img|a)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)")


def images_without_alt(text):
    return [tag for tag in re.findall(r"<img\b[^>]*>", text, re.I) if not re.search(r"\balt=([\"'])\s*[^\"'\s]", tag)]


@rule
def tables_have_headings(lesson):
    """Every column of a table has one, for those who hear the table."""
    findings = []
    for cell in lesson.prose:
        for head in re.findall(r"^(\|.*\|)[ \t]*\n\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*$", cell.source, re.M):
            if re.search(r"(?<!\\)\|\s*\|", head):
                findings.append(f"{cell.name}: the table {head} has a column without a heading")
    return findings


@rule
def links_exist(lesson):
    """Links to files and headings lead somewhere, from notebooks/ and from the learner's folder beside it."""
    folder = lesson.path.parent
    anchors = {text.replace(" ", "-") for _, text in lesson.headings()}
    findings = []
    for cell in lesson.prose:
        text = cell.prose()
        urls = MARKDOWN_LINK.findall(text) + [url for _, url in MARKDOWN_IMAGE.findall(text)] + HTML_LINK.findall(text)
        for url in map(html.unescape, urls):
            file, _, anchor = url.partition("#")
            if re.match(r"[a-z]+:", url):
                continue
            if not file and anchor not in anchors:
                findings.append(f"{cell.name}: no heading for {url}")
            elif file and not (folder / file).exists():
                findings.append(f"{cell.name}: {url} does not exist")
            elif file and not file.startswith("../") and not re.fullmatch(r"[^/]+\.ipynb", file):
                findings.append(f"{cell.name}: {url} is not there for a learner's copy; write ../notebooks/{file}")
    return findings


# ---------------------------------------------------------------------------------------------------- what code does


@rule
def no_network(lesson):
    """A lesson runs offline and installs nothing."""
    findings = []
    for cell in lesson.code:
        if re.search(r"^\s*(!|%(pip|conda|uv|sx|system)\b|%%(bash|sh|system|script)\b)", cell.source, re.M):
            findings.append(f"{cell.name}: a shell or installation command")
        for node in ast.walk(cell.tree()):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            findings += [f"{cell.name}: imports {name}" for name in names if name.split(".")[0] in OUTSIDE]
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"(https?|ftp|s3)://", node.value):
                findings.append(f"{cell.name}: the address {node.value}")
        findings += [f"{cell.name}: calls {name}" for name in cell.calls() if name in ("os.system", "os.popen")]
    return findings


@rule
def no_pyplot(lesson):
    """Figures are made with new_figure and shown with show: pyplot keeps them alive and shows them without alt text."""
    findings = []
    for cell in lesson.code:
        if re.search(r"\bpyplot\b|\bpylab\b|^\s*%matplotlib|\bplt\.", cell.source, re.M):
            findings.append(f"{cell.name}: uses pyplot; take new_figure() and show(fig, alt=...)")
    return findings


@rule
def random_cells_assert(lesson):
    """A cell whose output is not compared asserts something instead."""
    findings = []
    for cell in lesson.code:
        asserts = any(isinstance(node, ast.Assert) for node in ast.walk(cell.tree())) or ASSERTING & set(cell.calls())
        if RANDOM in cell.tags and not asserts:
            findings.append(f"{cell.name}: tagged {RANDOM}, but asserts nothing")
    return findings


@rule
def randomness_is_declared(lesson):
    """Training is in tagged cells; other noise comes from a generator with a seed, never from global state."""
    findings = []
    for cell in lesson.code:
        if RANDOM not in cell.tags and TRAINING & set(cell.calls(when_run=True)):
            findings.append(f"{cell.name}: trains, so its numbers are not portable: tag it {RANDOM}")
        for name in cell.calls():
            if GLOBAL_STATE.fullmatch(name):
                findings.append(f"{cell.name}: {name} is global state; use numpy.random.default_rng(seed)")
        if re.search(r"\bdefault_rng\(\s*\)", cell.source):
            findings.append(f"{cell.name}: default_rng() without a seed")
    return findings


@rule
def nothing_escapes_the_tests(lesson):
    """No cell is skipped, and an exception is no expected result."""
    findings = []
    for cell in lesson.code:
        findings += [f"{cell.name}: tag {tag}" for tag in cell.tags if tag in EVASIVE]
        findings += [f"{cell.name}: comment {word}; use the tag {RANDOM}" for word in re.findall(r"#\s*(NBVAL_\w+)", cell.source)]
    return findings


# --------------------------------------------------------------------------------------------------- stored outputs


@rule
def no_errors_stored(lesson):
    """No exception and nothing on stderr."""
    findings = []
    for cell in lesson.code:
        for output in cell.outputs:
            if output["output_type"] == "error":
                findings.append(f"{cell.name}: {output['ename']}: {output['evalue']}")
            elif output.get("name") == "stderr":
                findings.append(f"{cell.name}: on stderr: {joined(output['text'])[:80]!r}")
    return findings


@rule
def no_machine_in_outputs(lesson):
    """No path of the machine that made them."""
    path = re.compile(r"(?<![\w.])(?:/(?:tmp|root|home|Users|usr|opt|var|private|mnt|work)/|[A-Za-z]:\\+(?!\w+\{)\w)\S{0,60}")
    return [f"{cell.name}: {match[0]}" for cell in lesson.code for _, text in cell.shown() for match in path.finditer(text)]


@rule
def numbers_are_portable(lesson):
    """Compared output shows rounded numbers, and a tiny difference only as `≤ bound: True`."""
    findings = []
    for cell in lesson.code:
        if RANDOM in cell.tags:
            continue
        for kind, text in cell.shown():
            if kind not in ("stdout", "text/plain"):
                continue
            for match in re.finditer(r"(?<![\w.])(\d+\.\d+|\d+\.|\.\d+|\d+(?=e))(e[+-]?\d+)?", text):
                digits = re.sub(r"\D", "", match[1]).lstrip("0")
                bounded = re.search(r"[≤<≥>=~]\s?[-−]?$|10\^$", text[: match.start()])
                if len(digits) > MAX_DIGITS:
                    findings.append(f"{cell.name}: {match[0]} has {len(digits)} digits; round it to 6 or fewer")
                elif match[2] and int(match[2][1:]) <= -9 and not bounded:
                    findings.append(f"{cell.name}: {match[0]} is rounding noise, not portable; print `≤ 1e-10: True`")
    return findings


# ----------------------------------------------------------------------------------------------------- stored form


@rule
def cell_ids(lesson):
    """Ids are there, once each, and not left to chance: a random one changes with every rewriting."""
    ids = [cell.id for cell in lesson.cells]
    findings = [f"{cell.name}: no id" for cell in lesson.cells if not cell.id]
    findings += [f"{cell.name}: a random id" for cell in lesson.cells if cell.id and CHANCE_ID.fullmatch(cell.id)]
    twice = sorted(name for name in set(ids) - {None} if ids.count(name) > 1)
    return findings + [f"the id {name} is used {ids.count(name)} times" for name in twice]


@rule
def no_widget_state(lesson):
    """A stored widget is dead: the picture stands for it. Saved state makes GitHub show nothing at all."""
    findings = ["widget state in the metadata"] if "widgets" in lesson.notebook["metadata"] else []
    alive = [cell for cell in lesson.code if any(WIDGET in output.get("data", {}) for output in cell.outputs)]
    return findings + [f"{cell.name}: a reference to a live widget" for cell in alive]


@rule
def executed_in_order(lesson):
    """Every code cell was run, once, from top to bottom."""
    counts = [(cell, cell.data.get("execution_count"), number) for number, cell in enumerate(lesson.code, start=1)]
    return [f"{cell.name}: execution count {count}, expected {number}" for cell, count, number in counts if count != number]


@rule
def random_outputs_belong_to_their_code(lesson):
    """The stored output of a random cell was made by the code that stands there."""
    changed = [cell for cell in lesson.code if RANDOM in cell.tags and cell.data["metadata"].get(DIGEST) != digest(cell)]
    return [f"{cell.name}: its code has changed since; run course.py refresh" for cell in changed]


@rule
def form(lesson):
    """Exactly as course.py refresh stores it."""
    notebook = nbformat.reads(lesson.text, as_version=4)
    same = nbformat.writes(tidy(notebook, lesson.path.stem)).rstrip("\n") + "\n" == lesson.text
    return [] if same else ["not in the stored form (ids, counts, metadata); run course.py refresh"]


def main(paths):
    lessons = [Path(path) for path in paths] or sorted(NOTEBOOKS.glob("*.ipynb"))
    findings = [(path, check.__name__, what) for path in lessons for check in RULES for what in check(Lesson(path))]
    for path, name, what in findings:
        print(f"{path.resolve().relative_to(ROOT) if path.resolve().is_relative_to(ROOT) else path}: {name}: {what}")
    print(f"{len(lessons)} lessons, {len(RULES)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
