"""What the test run adds to pytest and nbval. It lies at the top so that it also holds for notebooks/.

- `--full` adds the slow proofs (tests marked `full`) and writes what they showed to docs/full_test.md.
- Tests marked `browser` are skipped where no Chromium is found.
- Four gaps of nbval 0.11.0 are closed: see the second half.
"""

import datetime
import os
import platform
import queue
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from nbval.kernel import RunningKernel

from tools.browser import find_browser

ROOT = Path(__file__).parent
REPORT = ROOT / "docs" / "full_test.md"
OUTPUT_TIMEOUT = 30  # seconds nbval waits for the next piece of output; its own 5 are too short for a busy machine


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the slow proofs and write docs/full_test.md")


def pytest_configure(config):
    if not getattr(config.option, "nbval_sanitize_with", True):  # absolute, so that pytest may be started in any folder
        config.option.nbval_sanitize_with = str(ROOT / "tests" / "sanitize.cfg")
    if not hasattr(config, "workerinput"):  # not in the workers of xdist
        config.pluginmanager.register(FullReport(config), "full_report")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if not config.option.full and "full" not in config.option.markexpr:
        slow = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if not item.get_closest_marker("full")]
        if slow:
            config.hook.pytest_deselected(items=slow)
    no_browser = pytest.mark.skip(reason="no Chromium here: install it, or set CHROME to the path of one")
    for item in items:
        if item.get_closest_marker("browser") and find_browser() is None:
            item.add_marker(no_browser)
        if item.get_closest_marker("full"):
            item.user_properties.append(("proof", proof_of(item)))
        if is_notebook_cell(item):
            item.output_timeout = OUTPUT_TIMEOUT


# ----------------------------------------------------------------------------------------------------- browser


@pytest.fixture(scope="session")
def browser_path():
    return find_browser()


# -------------------------------------------------------------------------------------------------- slow proofs


def proof_of(item):
    """What a slow test proves: the first line of its docstring, else its name."""
    doc = getattr(getattr(item, "function", None), "__doc__", None)
    return doc.strip().splitlines()[0].rstrip(".") if doc else item.name.split("[")[0]


class FullReport:
    """Collects the slow tests of a --full run: one row a test function, its parametrised cases counted together.

    A test may say what it measured: `record_property("measured", "200 of 200 seeds reached 475")`.
    """

    def __init__(self, config):
        self.wanted = config.option.full
        self.rows = {}  # test function -> cases, passed, seconds, measured
        self.proofs = {}

    def pytest_runtest_logreport(self, report):
        properties = dict(report.user_properties)
        if "proof" not in properties or not (report.when == "call" or report.outcome != "passed"):
            return
        test = report.nodeid.split("[")[0]
        row = self.rows.setdefault(test, {"proof": properties["proof"], "cases": 0, "passed": 0, "seconds": 0.0, "measured": []})
        row["cases"] += 1
        row["passed"] += report.outcome == "passed"
        row["seconds"] += report.duration
        row["measured"] += [properties["measured"]] if "measured" in properties else []

    def table(self):
        yield "| proof | measured | passed | seconds |"
        yield "|---|---|---|---|"
        for row in sorted(self.rows.values(), key=lambda row: row["proof"]):
            yield f"| {row['proof']} | {'; '.join(row['measured'])} | {row['passed']} of {row['cases']} | {row['seconds']:.0f} |"

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter):
        if not (self.wanted and self.rows):
            return
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "gymnasium"))
        head = ["# The last full test", "", "Written by `python3 course.py test --full`; the ordinary test leaves these out.", ""]
        when = [f"{datetime.date.today()}, {machine}, Python {platform.python_version()}, {versions}.", ""]
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text("\n".join([*head, *when, *self.table()]) + "\n", encoding="utf-8", newline="\n")
        terminalreporter.section("slow proofs (saved as docs/full_test.md)")
        terminalreporter.write_line("\n".join(self.table()))


# ------------------------------------------------------------------------------------------- gaps of nbval 0.11.0


def is_notebook_cell(item):
    return type(item).__name__ == "IPyNbCell"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """A cell that was never run has no output to compare with: nbval lets it pass, here it fails."""
    if is_notebook_cell(item) and item.cell.source.strip() and item.cell.execution_count is None and not item.options["skip"]:
        pytest.fail("this cell was never executed, so nothing is compared; run: course.py refresh", pytrace=False)


def watch(await_reply):
    """nbval waits for a kernel's answer until the cell's time is up, even if the kernel has died. Look every second."""

    def watching(self, msg_id, timeout=None):
        deadline = time.monotonic() + (timeout or float("inf"))
        while True:
            try:
                return await_reply(self, msg_id, timeout=max(0.0, min(1.0, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= deadline:
                    raise
                if not self.is_alive():
                    raise RuntimeError("the kernel died in this cell") from None

    return watching


RunningKernel.await_reply = watch(RunningKernel.await_reply)
