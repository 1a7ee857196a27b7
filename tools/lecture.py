"""Make a deck of slides or a hand-out from a lesson: one HTML file that needs neither network nor kernel.

    python3 course.py slides 04               lecture/04_trpo.slides.html
    python3 course.py slides 04 --no-notes    the same without the notes for the speaker, to give away
    python3 course.py handout 04              lecture/04_trpo.handout.html, and .pdf where there is a Chromium or Chrome
    python3 course.py handout 04 --code       the hand-out with all code; else only that of "Build it" and of the exercises
    python3 course.py worksheet 04            lecture/04_trpo.ipynb, the lesson without the solutions of its exercises

Both are made from the stored notebook; there is no second copy of its text. Formulas become drawings (ziamath), pictures
are put into the file, and the slides are laid out by 200 lines of our own (lecture/deck.js).

A section of a lesson goes from heading to heading. What the tags of a cell change: `show-code` and `hide-code` (on slides
and in print), `skip-slides`, `skip-handout`. Answers that are folded in the lesson come on a slide of their own; solutions
of exercises never come. Speaker notes are docs/lecturers/04.md: under "### Step 3", those of the section whose heading
begins so.
"""

import argparse
import base64
import contextlib
import functools
import html
import io
import itertools
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

if __package__ in (None, ""):  # started as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bs4
import nbformat
import ziamath
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from ziamath.tex import tex2mml

from tools.refresh import find

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "tools" / "lecture"
NOTES = ROOT / "docs" / "lecturers"
OUT = ROOT / "lecture"
CODE_IN = ("Build it", "Exercises")  # the parts whose code is shown
EM = 24  # ziamath's unit: formulas are drawn at this size, and given to the page in em
WIDE = 46  # em; a wider formula is broken at its \qquad
TALL = 0.628  # height over width; a taller figure would be unreadable on one slide
HELP = """<p><b>Keys.</b> → ← (or Space, PageUp, PageDown): next, previous · Home, End · N: notes · S: notes in a window of
their own · C: code of this part · O: contents · F: full screen · Esc: close</p>"""


# ------------------------------------------------------------------------------------------------------------- formulas


@functools.cache
def drawing(latex, inline):
    """A formula as SVG that takes its size and colour from the text around it."""
    try:
        mathml = tex2mml(latex.replace(r"\!", ""), inline=inline)  # ziamath takes \! for more than it is
        mathml = re.sub(r">\\([{}])<", r">\1<", mathml)  # and \Big\{ comes out with its backslash
        if unknown := re.search(r">(\\\S+?)<", mathml):
            raise ValueError(f"{unknown[1]} is not known")
        svg = ziamath.Math(mathml, size=EM).svg()
    except Exception as error:
        raise ValueError(f"the formula {latex!r} cannot be drawn: {error}; write it with simpler commands") from error
    _, top, width, height = map(float, re.search(r'viewBox="([^"]+)"', svg)[1].split())
    style = f"width:{width / EM:.3f}em;height:{height / EM:.3f}em;vertical-align:{-(top + height) / EM:.3f}em"
    if not inline:
        style = f"width:{width / EM:.3f}em"
    head = f'<svg class="math" role="img" aria-label="{html.escape(latex)}" style="{style}"'
    svg = re.sub(r"(\.\d\d)\d+", r"\1", svg.replace('"black"', '"currentColor"'))
    return re.sub(r"^<svg[^>]*?(?= viewBox)", lambda _: head, svg), width / EM


def display(latex):
    """A displayed formula; one that is too wide is broken at its \\qquad."""
    picture, width = drawing(latex, False)
    parts = [part.strip() for part in latex.split(r"\qquad")]
    if width > WIDE and all(part and part.count("{") == part.count("}") and r"\begin" not in part for part in parts):
        return "".join(f"<div>{drawing(part, False)[0]}</div>" for part in parts)
    return picture


def share_glyphs(page):
    """Every glyph is drawn once for the whole page: (page without the drawings, the drawings)."""
    glyphs = {}

    def keep(match):
        glyphs.setdefault(match[1], match[0])
        return ""

    page = re.sub(r'<symbol id="([^"]+)".*?</symbol>', keep, page, flags=re.S)
    return page, f'<svg id="glyphs" width="0" height="0" aria-hidden="true">{"".join(glyphs.values())}</svg>'


# ----------------------------------------------------------------------------------------------------------------- text


class Renderer(IPythonRenderer):
    """Markdown to HTML, with formulas drawn and pictures put in."""

    def __init__(self, folder):
        super().__init__(escape=False, exclude_anchor_links=True)
        self.folder = folder

    def block_math(self, body):
        return f'<div class="formula">{display(body.strip())}</div>'

    def inline_math(self, body):
        return drawing(body.strip(), True)[0]

    def latex_environment(self, name, body):
        return self.block_math(rf"\begin{{{name}}}{body}\end{{{name}}}")

    def image(self, text, url, title=None):
        data = base64.b64encode((self.folder / url).read_bytes()).decode("ascii")
        return f'<img src="data:image/png;base64,{data}" alt="{html.escape(text)}">'

    def link(self, text, url, title=None):
        return super().link(text, url, title) if re.match(r"https?:", url) else text


def rendered(markdown, folder):
    """The top-level elements of a markdown text."""
    tree = bs4.BeautifulSoup(MarkdownWithMath(renderer=Renderer(folder)).render(markdown), "html.parser")
    for paragraph in tree.find_all("p"):  # a display formula stands alone, not in a paragraph
        if paragraph.find("div", class_="formula"):
            paragraph.unwrap()
    loose, found = [], []
    for node in [*tree.children, None]:
        if isinstance(node, bs4.Tag) and node.name not in ("a", "b", "code", "em", "strong", "svg", "kbd", "span", "br"):
            flush(loose, found)
            found.append(node)
        elif node is None:
            flush(loose, found)
        elif not isinstance(node, bs4.Comment):
            loose.append(node)
    return found


def flush(loose, found):
    """Text that lost its paragraph gets a new one."""
    if any(str(node).strip() for node in loose):
        found.append(bs4.BeautifulSoup(f"<p>{''.join(map(str, loose)).strip()}</p>", "html.parser").p)
    loose.clear()


# ------------------------------------------------------------------------------------------------------------- sections


class Section:
    """What stands below one heading: `blocks` is a list of HTML texts, `code` the code that is not shown."""

    def __init__(self, name, level, title, part, interrupted=None, resumed=False):
        self.name, self.level, self.title, self.part = name, level, title, part
        self.interrupted = interrupted  # of a folded answer: the section in which it stands
        self.resumed = resumed  # goes on after a folded answer
        self.blocks, self.code = [], []


def sections(path, *, slides, all_code=False):
    """A stored lesson as a list of sections."""
    notebook, found = nbformat.read(path, as_version=4), []
    count = {word: sum(word in cell.source for cell in notebook.cells) for word in ("explore(", "three_settings(")}
    explained = count["three_settings("] >= count["explore("]
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if ("skip-slides" if slides else "skip-handout") in tags:
            continue
        if cell.cell_type == "markdown":
            for node in rendered(cell.source, path.parent):
                add_text(found, node, cell.id, slides)
        elif cell.cell_type == "code" and cell.source.strip():
            resume(found, cell.id)
            shown = all_code or found[-1].part in CODE_IN
            shown = (shown or "show-code" in tags) and "hide-code" not in tags
            code = f"<pre>{highlight(cell.source, PythonLexer(), HtmlFormatter(nowrap=True)).rstrip()}</pre>"
            (found[-1].blocks if shown else found[-1].code).append(code)
            alive = ("explore(" in cell.source and explained) or "panel(" in cell.source
            if slides or not alive:  # in print, the figure of three settings stands for a widget
                found[-1].blocks += outputs(cell, slides)
    return found


def add_text(found, node, name, slides):
    """Add a top-level element; a heading begins a section, and on slides a folded answer does, too."""
    if node.name in ("h1", "h2", "h3"):
        level, title = int(node.name[1]), node.decode_contents()
        part = "" if level == 1 else node.get_text().strip() if level == 2 else found[-1].part
        found.append(Section(name if all(s.name != name for s in found) else f"{name}-{len(found)}", level, title, part))
    elif node.name == "details":
        answer = node.summary.extract().get_text().strip()
        if found[-1].part == "Exercises":
            return
        body = [str(child) for child in node.children if str(child).strip()]
        if slides:
            found.append(Section(f"{name}-answer", 3, html.escape(answer), found[-1].part, interrupted=found[-1]))
            found[-1].blocks += body
        else:
            heading = f"h{found[-1].level + 1}"
            found[-1].blocks += [f'<{heading} class="answer">{html.escape(answer)}</{heading}>', *body]
    else:
        resume(found, name)
        if slides and node.name == "h4":
            node.name = "h3"  # the title of a slide is an h2
        found[-1].blocks.append(str(node))


def resume(found, name):
    """After a folded answer, go on with the section in which it stands."""
    if section := found[-1].interrupted:
        found.append(Section(f"{name}-after", max(3, section.level), section.title, section.part, resumed=True))


def outputs(cell, slides):
    """The stored outputs of a code cell: pictures with their alt text, and what was printed."""
    widget = slides and re.search(r"\b(explore|panel|watch)\(", cell.source)
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/png" in data:
            alt = html.escape(" ".join(output.metadata.get("image/png", {}).get("alt", "").split()))
            caption = "<figcaption>A widget: live in the notebook.</figcaption>" if widget else ""
            for png in cut_if_tall(base64.b64decode(data["image/png"])) if slides else [base64.b64decode(data["image/png"])]:
                width, height = struct.unpack(">II", png[16:24])
                data = base64.b64encode(png).decode("ascii")
                image = f'<img src="data:image/png;base64,{data}" alt="{alt}" width="{width}" height="{height}" '
                image += f'style="--ratio:{width / height:.4f}">'
                yield f"<figure>{image}{caption}</figure>"
        elif text := output.get("text") or data.get("text/plain"):
            if "text/html" not in data and text.strip():
                yield f'<pre class="result">{html.escape(text.rstrip())}</pre>'


def cut_if_tall(png):
    """A figure that is too tall for a slide is cut at white rows, into as few and as equal parts as possible."""
    image = Image.open(io.BytesIO(png))
    width, height = image.size
    if height <= (most := int(TALL * width)):
        return [png]
    grey = image.convert("L")
    white = [row for row in range(height) if grey.crop((0, row, width, row + 1)).getextrema()[0] > 250]
    for number in range(2, 10):
        ends = [0, *(min(white, default=0, key=lambda row: abs(row - height * i / number)) for i in range(1, number)), height]
        if all(height / number / 2 < bottom - top <= most for top, bottom in itertools.pairwise(ends)):
            return [cropped(image, top, bottom) for top, bottom in itertools.pairwise(ends)]
    return [png]


def cropped(image, top, bottom):
    image.crop((0, top, image.width, bottom)).save(file := io.BytesIO(), "png", optimize=True)
    return file.getvalue()


# ---------------------------------------------------------------------------------------------------------------- notes


def read_notes(path):
    """docs/lecturers/04.md as {heading without its minutes: (minutes or None, markdown)}."""
    notes = {}
    if path.exists():
        pieces = re.split(r"^##+ +(.+)$", path.read_text(encoding="utf-8"), flags=re.M)
        for heading, text in zip(pieces[1::2], pieces[2::2], strict=True):
            minutes = re.search(r"\s*\((\d+) min\)$", heading)
            name = heading[: minutes.start()] if minutes else heading
            notes[name.strip()] = (int(minutes[1]) if minutes else None, text.strip())
    return notes


def belongs(name, title):
    """Whether a heading of the notes means a section: "Step 1" means "Step 1. The theorem", not "Step 10. ..."."""
    return re.match(re.escape(name) + r"(?!\w)", html.unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", "", title, flags=re.S)).strip())


def notes_of(section, notes, folder):
    """The minutes of a section, 0 where it has none of its own, and its notes as HTML."""
    for name, (minutes, text) in notes.items():
        if belongs(name, section.title):
            time = f"<p><b>{minutes} minutes</b></p>" if minutes else ""
            return 0 if section.resumed else minutes or 0, time + "".join(map(str, rendered(text, folder)))
    return 0, ""


# ---------------------------------------------------------------------------------------------------------------- pages


def code_css(scope):
    return HtmlFormatter(style="bw" if scope == "handout" else "default").get_style_defs("pre")


def page(title, css, body):
    body, glyphs = share_glyphs(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>\n{css}\n</style>\n</head>\n<body>\n{glyphs}\n{body}\n</body>\n</html>\n"
    )


def text_of(title):
    return bs4.BeautifulSoup(title, "html.parser").get_text()


def slides(path, out=OUT, with_notes=True):
    """Write the deck of a lesson; its path."""
    found, parts = sections(path, slides=True), []
    notes = read_notes(NOTES / f"{path.name[:2]}.md") if with_notes else {}
    for section in found:
        minutes, note = notes_of(section, notes, path.parent)
        kind = {1: "title", 2: "part"}.get(section.level, "step")
        attributes = f'id="{section.name}" class="{kind}" data-title="{html.escape(section.title)}" data-minutes="{minutes}"'
        part = html.escape(section.part if section.level > 2 else "")
        hidden = "".join(f'<div class="code-of">{code}</div>' for code in section.code)
        body = "\n".join([*section.blocks, hidden, f"<aside>{note}</aside>" if note else ""])
        parts.append(f'<section {attributes} data-part="{part}">\n{body}\n</section>')
    script = (ASSETS / "deck.js").read_text(encoding="utf-8")
    body = (
        f'<div id="source">{"".join(parts)}</div>\n<main id="deck"></main>\n<div id="panel" tabindex="-1" hidden></div>\n'
        '<div id="steer"><button id="back" aria-label="previous slide">←</button> '
        '<button id="on" aria-label="next slide">→</button></div>\n'
        f'<template id="help">{HELP}</template>\n<script>\n{script}</script>'
    )
    css = (ASSETS / "deck.css").read_text(encoding="utf-8") + code_css("deck")
    return write(out / f"{path.stem}.slides.html", page(f"{text_of(found[0].title)}: slides", css, body))


def handout(path, out=OUT, all_code=False, browser=None):
    """Write the hand-out of a lesson, and a PDF of it where there is a browser; the paths."""
    found = sections(path, slides=False, all_code=all_code)
    parts = ["<main>", *(f"<h{s.level}>{s.title}</h{s.level}>\n" + "\n".join(s.blocks) for s in found), "</main>"]
    css = (ASSETS / "handout.css").read_text(encoding="utf-8") + code_css("handout")
    target = write(out / f"{path.stem}.handout.html", page(f"{text_of(found[0].title)}: hand-out", css, "\n".join(parts)))
    pdf = target.with_suffix(".pdf")
    return [target, pdf] if browser and print_pdf(browser, target, pdf) else [target]


def worksheet(path, out=OUT):
    """Write the lesson without the cells tagged `solution`, for a class that is to hand in its answers; its path."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "solution" not in cell.metadata.get("tags", [])]
    return write(out / path.name, nbformat.writes(notebook).rstrip("\n") + "\n")


def print_pdf(browser, source, pdf):
    """Print a page to PDF with a Chromium; whether that worked."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--disable-gpu", "--no-sandbox", "--no-pdf-header-footer", f"--user-data-dir={profile}"]
        command = [str(browser), *options, f"--print-to-pdf={pdf}", source.as_uri()]
        pdf.unlink(missing_ok=True)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    return pdf.exists()


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="course.py", description="Make slides, a hand-out or a worksheet from lessons.")
    parser.add_argument("kind", choices=["slides", "handout", "worksheet"])
    parser.add_argument("lessons", nargs="*", help="numbers of lessons or paths of notebooks; all lessons if none is given")
    parser.add_argument("--no-notes", action="store_true", help="slides to give away, without the notes for the speaker")
    parser.add_argument("--code", action="store_true", help="all code in the hand-out")
    args = parser.parse_args(arguments)
    for path in find(args.lessons):
        if args.kind == "slides":
            made = [slides(path, with_notes=not args.no_notes)]
        elif args.kind == "worksheet":
            made = [worksheet(path)]
        else:
            from tools.browser import find_browser

            made = handout(path, all_code=args.code, browser=find_browser())
        for target in made:
            print(f"{target.relative_to(ROOT)}  ({target.stat().st_size / 1e6:.1f} MB)", flush=True)


if __name__ == "__main__":
    main()
