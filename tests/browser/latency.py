"""Milliseconds from key press to changed picture, for every widget of a notebook.

    python tests/browser/latency.py notebooks/01_policy_gradient_theorem.ipynb [presses]

A press is one arrow key on a focused slider, 60 by default, there and back, so that half of the positions were seen
before. The picture counts as changed in the first animation frame that has the new one; then there is a pause of 60 ms.
A frame without a picture is blank; a jump is a move of anything below the widget, in pixels.
"""

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from lab import chromium, jupyterlab  # noqa: E402

WATCH = """box => {
    const watch = window.watch = {start: 0, changes: [], blank: 0, jumps: 0};
    const image = () => box.querySelector('img'), below = () => Math.round(box.getBoundingClientRect().bottom);
    const ready = i => i && i.complete && i.naturalWidth > 0;
    let last = image().alt, bottom = below();  // the alt text differs at every position, the pixels need not
    document.addEventListener('keydown', () => { watch.start = performance.now(); }, true);
    (function frame() {
        const now = image();
        if (!ready(now)) watch.blank += 1;
        else if (now.alt !== last) { last = now.alt; watch.changes.push(performance.now() - watch.start); }
        if (below() !== bottom) { watch.jumps = Math.max(watch.jumps, Math.abs(below() - bottom)); bottom = below(); }
        if (window.watch === watch) requestAnimationFrame(frame);
    })();
}"""


def press(page, key, timeout=5000):
    """Press a key; return once the picture has changed."""
    seen = page.evaluate("() => window.watch.changes.length")
    page.keyboard.press(key)
    page.wait_for_function("n => window.watch.changes.length > n", arg=seen, timeout=timeout, polling="raf")


def measure(page, box, slider, presses=60):
    """Latencies in ms of arrow keys on one slider of an explorer, with blank frames and jumps."""
    slider.scroll_into_view_if_needed()
    slider.focus()
    page.wait_for_timeout(800)  # the reader reads; the widget draws ahead
    box.evaluate(WATCH)
    there, back = ("ArrowLeft", "ArrowRight") if at_end(slider) else ("ArrowRight", "ArrowLeft")
    key = there
    for number in range(presses):
        if number == presses // 2 or at_end(slider, key):
            key = back if key == there else there
        press(page, key)
        page.wait_for_timeout(60)
    return page.evaluate("() => window.watch")


def at_end(slider, key="ArrowRight"):
    end = "aria-valuemax" if key == "ArrowRight" else "aria-valuemin"
    return float(slider.get_attribute("aria-valuenow")) == float(slider.get_attribute(end))


def row(times):
    ordered = sorted(times)
    return (
        f"median {statistics.median(ordered):3.0f}  p95 {ordered[int(0.95 * (len(ordered) - 1))]:3.0f}  max {ordered[-1]:3.0f} ms"
    )


def main(notebook, presses=60):
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from conftest import find_browser

    notebook = Path(notebook).resolve()
    with tempfile.TemporaryDirectory() as folder, jupyterlab(folder, notebook.parent) as lab, chromium(find_browser()) as browser:
        with lab.open(browser, notebook.name) as lesson:
            lesson.run_all()
            for box in lesson.explorers():
                for slider in box.locator("[role=slider]").all():
                    seen = measure(lesson.page, box, slider, int(presses))
                    name = f"{box.get_attribute('aria-label')}, {slider.get_attribute('aria-label')}"
                    print(f"{name:60.60} {row(seen['changes'])}  blank {seen['blank']}  jump {seen['jumps']} px", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
