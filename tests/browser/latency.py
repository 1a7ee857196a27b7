"""Milliseconds from key press to changed picture, for every slider of every widget; blank frames, jumps, and memory.

    python tests/browser/latency.py               all lessons
    python tests/browser/latency.py 01 05         these
    python tests/browser/latency.py 01 --presses 120 --moves 1000

A press is one arrow key on a focused slider, 60 by default, there and back, so that half of the positions were seen
before. The picture counts as changed in the first animation frame that has the new one; then there is a pause of 60 ms.
A frame without a picture is blank; a jump is a move of anything below the widget, in pixels. Memory: what kernel and page
have gained from move 100 to move 500 of a widget, in MB (a cache of pictures fills up at the beginning).
"""

import argparse
import itertools
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from lab import ROOT, chromium, copy_of_the_lessons, jupyterlab  # noqa: E402

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


def press(page, key):
    """Press a key; return once the picture has changed."""
    seen = page.evaluate("() => window.watch.changes.length")
    page.keyboard.press(key)
    page.wait_for_function("n => window.watch.changes.length > n", arg=seen, polling="raf")


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


def percentile(times, share):
    return sorted(times)[int(share * (len(times) - 1))]


def row(times):
    return f"median {statistics.median(times):3.0f}  p95 {percentile(times, 0.95):3.0f}  max {max(times):3.0f} ms"


KERNEL_MB = "import gc, os, psutil; gc.collect(); print(psutil.Process(os.getpid()).memory_info().rss / 1e6)"


def page_mb(page):
    """Megabytes of JavaScript's heap after its garbage is collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return metrics["JSHeapUsedSize"] / 1e6


def memory_gained(lesson, sliders, moves, early=100):
    """MB that kernel and page have gained between move `early` and move `moves`, the moves shared by the widget's sliders."""
    before, keys = None, itertools.cycle(["ArrowRight"] * 7 + ["ArrowLeft"] * 7)
    for move in range(moves + 1):
        if move in (early, moves):
            lesson.page.wait_for_timeout(1500)
            now = float(lesson.ask_kernel(KERNEL_MB)), page_mb(lesson.page)
            gained, before = before and [b - a for a, b in zip(before, now, strict=True)], now
        if move % 14 == 0:
            sliders[move // 14 % len(sliders)].focus()
        lesson.page.keyboard.press(next(keys))
        lesson.page.wait_for_timeout(25)
    return gained


def main(arguments=None):
    sys.path.insert(0, str(ROOT))
    from tools.browser import find_browser
    from tools.refresh import find

    parser = argparse.ArgumentParser(description="Latency and memory of the widgets.")
    parser.add_argument("lessons", nargs="*", help="numbers of lessons or paths of notebooks; all lessons if none is given")
    parser.add_argument("--presses", type=int, default=60, help="per slider (60)")
    parser.add_argument("--moves", type=int, default=0, help="per widget, for its memory, above 100 (0: not measured)")
    args = parser.parse_args(arguments)
    print("| lesson | widget, slider | median ms | p95 ms | blank frames | jump px | kernel MB | page MB |\n" + "|---" * 8 + "|")
    with (
        tempfile.TemporaryDirectory() as settings,
        tempfile.TemporaryDirectory() as folder,
        jupyterlab(settings, copy_of_the_lessons(folder)) as lab,
        chromium(find_browser()) as browser,
    ):
        for path in find(args.lessons):
            with lab.open(browser, f"notebooks/{path.name}") as lesson:
                lesson.run_all()
                for box in lesson.explorers():
                    sliders = box.locator("[role=slider]").all()
                    lines = [(slider, measure(lesson.page, box, slider, args.presses)) for slider in sliders]
                    gained = (
                        [f"{mb:+.1f}" for mb in memory_gained(lesson, sliders, args.moves)]
                        if args.moves and sliders
                        else ["", ""]
                    )
                    for slider, seen in lines:
                        name = f"{box.get_attribute('aria-label')}, {slider.get_attribute('aria-label')}"
                        median, p95 = statistics.median(seen["changes"]), percentile(seen["changes"], 0.95)
                        cells = (path.name[:2], name, f"{median:.0f}", f"{p95:.0f}", seen["blank"], seen["jumps"], *gained)
                        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
                        gained = ["", ""]


if __name__ == "__main__":
    main()
