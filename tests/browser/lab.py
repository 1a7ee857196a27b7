"""JupyterLab in a real browser, driven as a reader would. Used by the browser tests and by tools that measure."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# How long to wait for anything, s: no measure, only the end of what would hang. A busy machine may be many times slower.
PATIENCE = 600
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
KERNEL_IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
CELLS = "window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells"
# Done when the kernel rests and every code cell was run, or one failed (the cells after it are not run).
FINISHED = f"""() => {{
    const cells = {CELLS}.filter(cell => cell.cell_type === 'code' && cell.source.trim());
    const failed = cells.some(cell => cell.outputs.some(output => output.output_type === 'error'));
    const idle = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle';
    return idle && (failed || cells.every(cell => cell.execution_count !== null));
}}"""
ASK_KERNEL = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel, future = kernel.requestExecute({code});
    let text = '';
    future.onIOPub = message => { text += message.content.text ?? ''; };
    await future.done;
    return text;
}"""


def environment(folder):
    """The variables of a JupyterLab that has its settings under `folder`, and asks no questions about news."""
    folder = Path(folder)
    (folder / "config" / "labconfig").mkdir(parents=True)
    no_news = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (folder / "config" / "labconfig" / "page_config.json").write_text(json.dumps(no_news), encoding="utf-8")
    places = {"CONFIG_DIR": "config", "DATA_DIR": "data", "RUNTIME_DIR": "runtime"}
    env = os.environ | {f"JUPYTER_{name}": str(folder / place) for name, place in places.items()}
    return env | {"JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces")}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def jupyterlab(folder, root):
    """Start JupyterLab on `root` with settings of its own under `folder`; yield its address, stop it at the end."""
    folder, token, port = Path(folder), "lesson", free_port()
    env = environment(folder) | {"PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}  # as course.py does
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    options += [
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={root}",
        "--LabApp.expose_app_in_browser=True",
    ]
    with started([sys.executable, "-m", "jupyterlab", *options], folder / "server.log", env=env) as server:
        wait_for_server(server, f"http://127.0.0.1:{port}/api/status?token={token}", folder / "server.log")
        yield Lab(f"http://127.0.0.1:{port}", token, folder / "server.log")


@contextlib.contextmanager
def started(command, log, **options):
    """A process whose output goes to the file `log`; it is ended at the end."""
    with open(log, "wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **options)
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def copy_of_the_lessons(folder):
    """Copies of the lessons and pictures in `folder`: JupyterLab saves what it has run, and the originals must stay."""
    for name in ("notebooks", "figures"):
        shutil.copytree(ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return Path(folder)


def wait_for_server(server, address, log):
    for _ in range(PATIENCE * 5):
        try:
            return urllib.request.urlopen(address, timeout=2).close()
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.2)
    raise RuntimeError("JupyterLab did not start: " + log.read_text(encoding="utf-8", errors="replace")[-2000:])


@contextlib.contextmanager
def chromium(path):
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(path), headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Lab:
    """A running JupyterLab."""

    def __init__(self, url, token, log):
        self.url, self.token, self.log = url, token, log

    @contextlib.contextmanager
    def open(self, browser, notebook, width=1280, height=1000):
        """Open a notebook (path below the server's root) and wait for its kernel; shut the kernel down at the end."""
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(1000 * PATIENCE)
        lesson = Lesson(page, self)
        try:
            page.goto(f"{self.url}/lab/tree/{notebook}?token={self.token}&reset")
            page.wait_for_selector(".jp-Notebook .jp-Cell")
            # the toolbar says "idle" before the kernel is connected; running then would ask for a kernel
            page.wait_for_function(f"() => document.querySelector('.jp-Dialog') || ({KERNEL_IDLE})()")
            for dialog in page.locator(".jp-Dialog").all():
                raise RuntimeError(f"{notebook}: JupyterLab asks: {' '.join(dialog.inner_text().split())}")
            yield lesson
        finally:
            with contextlib.suppress(Exception):
                page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
            page.close()


class Lesson:
    """An open notebook: run it, look for trouble."""

    def __init__(self, page, lab):
        self.page, self.trouble = page, []
        page.on("pageerror", lambda error: self.trouble.append(f"page error: {error}"))
        page.on("console", lambda message: message.type == "error" and self.trouble.append(f"console: {message.text[:300]}"))
        ours = (lab.url, lab.url.replace("http", "ws", 1), "data:", "blob:")
        page.on("request", lambda request: request.url.startswith(ours) or self.trouble.append(f"request: {request.url[:200]}"))

    def run_all(self):
        """Run → Run All Cells, by the menu; return when the kernel has run them all, or one has failed."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self.page.wait_for_function(FINISHED)

    def ask_kernel(self, code):
        """Run code that is in no cell; what it prints."""
        return self.page.evaluate(ASK_KERNEL, code)

    def outputs(self):
        """All outputs as the page's model has them (cells out of view are not in the DOM)."""
        return self.page.evaluate(
            f"() => {CELLS}.flatMap(c => c.outputs ?? [])"
            ".map(o => ({type: o.output_type, name: o.name, text: [o.text ?? o.evalue ?? ''].flat().join('')}))"
        )

    def reveal(self, cell):
        """Scroll to cell number `cell`, so that JupyterLab puts it into the page."""
        notebook = "window.jupyterapp.shell.currentWidget.content"
        self.page.evaluate(f"i => {{ {notebook}.activeCellIndex = i; return {notebook}.scrollToItem(i, 'start'); }}", cell)

    def cell(self, number):
        """A cell in the page, scrolled to."""
        self.reveal(number)
        cell = self.page.locator(f".jp-Notebook-cell[data-windowed-list-index='{number}']")
        cell.wait_for()
        return cell

    def cells_with_pictures(self):
        """Numbers of the cells that show one, in their text or in an output."""
        shows = "JSON.stringify(cell.outputs ?? []).includes('image/png') || /!\\[|<img/.test(cell.source)"
        return self.page.evaluate(f"() => {CELLS}.flatMap((cell, i) => {shows} ? [i] : [])")

    def explorers(self):
        """The widgets made by `explore`, one after the other, each scrolled into the page and ready."""
        kind = "application/vnd.jupyter.widget-view+json"
        shown = self.page.evaluate(
            f"kind => {CELLS}.flatMap((cell, i) => (cell.outputs ?? []).some(o => o.data && kind in o.data) ? [i] : [])", kind
        )
        for number in shown:
            box = self.cell(number).locator(".rlcourse-explorer[aria-label]")  # named once its picture has loaded
            if self.cell(number).locator(".rlcourse-explorer").count():
                box.wait_for()
                yield box
