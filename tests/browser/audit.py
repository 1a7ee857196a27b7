"""What axe-core finds on each lesson: in JupyterLab after Run All (light, dark, at 200 % zoom), as slides, as a hand-out.

    python tests/browser/audit.py                 all lessons, a table
    python tests/browser/audit.py 05              one

Only what we author is audited: texts and outputs in JupyterLab (its menus and editors are its makers' business), the whole
page of slides and hand-outs. Numbers are elements with a finding, by impact.
"""

import collections
import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from lab import ROOT, chromium, copy_of_the_lessons, jupyterlab  # noqa: E402

IMPACTS = ("critical", "serious", "moderate", "minor")
OURS = [".jp-Notebook .jp-OutputArea-output", ".jp-Notebook .jp-MarkdownOutput"]
AXE = """async include => {
    const found = include.some(selector => document.querySelector(selector));
    const context = include.length ? {include: include.filter(s => document.querySelector(s)).map(s => [s])} : document;
    if (include.length && !found) return [];
    const {violations} = await axe.run(context, {resultTypes: ['violations'], rules: {region: {enabled: !include.length}}});
    return violations.map(v => ({rule: v.id, impact: v.impact, help: v.help,
                                 nodes: v.nodes.map(n => [n.target.flat().join(' '), n.html, n.failureSummary])}));
}"""
UNSTACK = "#deck {height: auto} body {overflow: auto} .slide {visibility: visible; position: relative; height: 720px}"
UNFOLD = "() => document.querySelectorAll('details').forEach(d => { d.open = true; })"
WHOLE = """() => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.notebookConfig = {...notebook.notebookConfig, windowingMode: 'none'};
}"""


@functools.cache
def axe_source():
    import axe_playwright_python

    return Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")


def audit(page, include=()):
    """Findings of axe-core on a page, [{rule, impact, help, nodes: [(selector, html, what to do)]}]; folded text is unfolded."""
    page.evaluate(UNFOLD)
    page.add_style_tag(content=UNSTACK)
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe_source())
    return page.evaluate(AXE, list(include))


def audit_lesson(lesson):
    """Findings on everything that a lesson shows in JupyterLab, cells out of view included."""
    lesson.page.evaluate(WHOLE)
    lesson.page.wait_for_timeout(1500)
    return audit(lesson.page, OURS)


def dark(page):
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")


def zoom(page):
    """What a zoom of 200 % makes of a window of 1280 × 1000: half as many CSS pixels; the file browser is put away."""
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    page.set_viewport_size({"width": 640, "height": 500})


def too_wide(page):
    """Texts and outputs of ours that are wider than their cell; what scrolls by itself (tables, long lines of code) is not."""
    return page.evaluate(
        """selectors => [...document.querySelectorAll(selectors.join())]
        .filter(e => e.scrollWidth > e.clientWidth + 1 && !['auto', 'scroll'].includes(getComputedStyle(e).overflowX))
        .map(e => e.textContent.trim().slice(0, 60))""",
        OURS,
    )


def by_impact(findings):
    count = collections.Counter()
    for finding in findings:
        count[finding["impact"]] += len(finding["nodes"])
    return [count[impact] for impact in IMPACTS]


def main(numbers):
    sys.path.insert(0, str(ROOT))
    from tools.browser import find_browser

    lessons = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    lessons = [path for path in lessons if not numbers or path.name[:2] in numbers]
    rules = collections.Counter()
    print("| lesson | as | " + " | ".join(IMPACTS) + " |\n|---|---|" + "---|" * len(IMPACTS))

    def line(path, kind, findings):
        print(f"| {path.name[:2]} | {kind} | " + " | ".join(map(str, by_impact(findings))) + " |", flush=True)
        for finding in findings:
            rules[kind, finding["rule"], finding["impact"], finding["help"]] += len(finding["nodes"])
            details.append({"lesson": path.name[:2], "as": kind} | finding)

    details = []
    with (
        tempfile.TemporaryDirectory() as settings,
        tempfile.TemporaryDirectory() as folder,
        jupyterlab(settings, copy_of_the_lessons(folder)) as lab,
        chromium(find_browser()) as browser,
    ):
        for path in lessons:
            with lab.open(browser, f"notebooks/{path.name}") as lesson:
                lesson.run_all()
                line(path, "JupyterLab", audit_lesson(lesson))
                dark(lesson.page)
                line(path, "JupyterLab, dark", audit_lesson(lesson))
                zoom(lesson.page)
                line(path, "JupyterLab, 200 %", audit_lesson(lesson))
                for text in too_wide(lesson.page):
                    print(f"too wide at 200 %: {text}")
                lesson.page.screenshot(path=Path(tempfile.gettempdir(), f"audit-{path.name[:2]}.png"))
            for kind in ("slides", "handout"):
                subprocess.run(
                    [sys.executable, str(ROOT / "tools" / "lecture.py"), kind, path.name[:2]], check=True, capture_output=True
                )
                page = browser.new_page()
                page.goto((ROOT / "lecture" / f"{path.stem}.{kind}.html").as_uri())
                page.wait_for_timeout(1500)
                line(path, kind, audit(page))
                page.close()
    print()
    for (kind, rule, impact, text), nodes in rules.most_common():
        print(f"{nodes:5} {impact:9} {kind:10} {rule}: {text}")
    Path(tempfile.gettempdir(), "audit.json").write_text(json.dumps(details, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
