"""Every rule of tools/lint.py holds for every lesson, and every rule can fail: each is shown a notebook that breaks it."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import lint
from tools.refresh import NOTEBOOKS, RANDOM, digest, tidy

LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem[:2])
@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_lesson(rule, path):
    findings = rule(lint.Lesson(path))
    assert not findings, rule.__doc__ + "\n" + "\n".join(findings)


def good():
    """A small lesson that keeps every rule. Its cells by name: title, exact, random, figure, parts ..."""
    picture = new_output(
        "display_data", {"image/png": PNG, "text/plain": "A line rises."}, metadata={"image/png": {"alt": "A line that rises."}}
    )
    text = new_output("stream", name="stdout", text="return 1.2345\n|difference| ≤ 1e-10: True\n")
    random_cell = new_code_cell("result = train()\nassert result > 1", metadata={"tags": [RANDOM]}, id="random")
    random_cell.metadata["output_of"] = digest(random_cell)
    code = [
        new_code_cell("value = 1\nprint(value)", outputs=[text], id="exact"),
        random_cell,
        new_code_cell("show(fig, alt='A line that rises.')", outputs=[picture], id="figure"),
    ]
    parts = [new_markdown_cell(f"## {part}", id=part.split()[0].lower()) for part in lint.HEADINGS]
    notebook = new_notebook(cells=[new_markdown_cell("# 03 · Name", id="title"), parts[0], *code, *parts[1:]])
    return tidy(notebook, "03_name")


def lesson(notebook, folder):
    """The notebook as a stored lesson in folder/notebooks."""
    path = folder / "notebooks" / "03_name.ipynb"
    path.parent.mkdir(exist_ok=True)
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "figures" / "there.png").touch()
    (path.parent / "here.csv").touch()
    path.touch()
    return lint.Lesson(path, nbformat.v4.writes(notebook).rstrip("\n") + "\n")  # v4: as it is, nothing mended


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_a_good_lesson_passes(rule, tmp_path):
    assert rule(lesson(good(), tmp_path)) == []


# ----------------------------------------------------------------------------------------- one breach after another

BREACHES = []


def breach(rule, message):
    def add(change):
        BREACHES.append(pytest.param(rule, message, change, id=f"{rule.__name__}: {change.__name__}"))
        return change

    return add


def source(rule, message, cell, text, *, add=True):
    """A breach that is a changed source."""

    def change(cells, notebook):
        cells[cell].source = cells[cell].source + "\n" + text if add else text

    change.__name__ = re.sub(r"\W+", " ", text)[:40].strip()
    breach(rule, message)(change)


def output(rule, message, text, cell="exact", name="stdout"):
    """A breach that is a stored output."""

    def change(cells, notebook):
        cells[cell].outputs = [new_output("stream", name=name, text=text)]

    change.__name__ = re.sub(r"[^\w/.-]+", " ", text)[:40].strip()
    breach(rule, message)(change)


source(lint.headings, "first heading", "title", "# 04 · Name", add=False)
source(lint.headings, "first heading", "title", "Name", add=False)
source(lint.headings, "parts must be", "build", "## Build", add=False)
source(lint.headings, "parts must be", "build", "## Touch it", add=False)
source(lint.headings, "parts must be", "build", "## One more")
source(lint.headings, "second title", "build", "# Again")
source(lint.headings, "skips a level", "build", "#### Deep")
source(lint.cell_length, "31 lines", "exact", "\n".join("x" * 31), add=False)
source(lint.cell_length, "31 lines", "build", "\n".join("x" * 31), add=False)
source(lint.size, "1,500,000", "build", "x" * 1_500_000)
source(lint.folded_text, "do not match", "build", "<details><summary>Hint</summary>\n\nx")
source(lint.folded_text, "do not match", "build", "<details>\n\nx</details>")
source(lint.tables_have_headings, "without a heading", "build", "| | b |\n|---|:-:|\n| 1 | 2 |")
source(lint.folded_text, "blank line", "build", "<details><summary>Hint</summary>\n**x**</details>")
source(lint.images_have_alt_text, "without alt text", "build", "![](../figures/there.png)")
source(lint.images_have_alt_text, "without alt text", "build", '<img src="../figures/there.png" alt="">')
source(lint.links_exist, "does not exist", "build", "[a](../figures/missing.png)")
source(lint.links_exist, "does not exist", "build", "![a picture](../figures/missing.png)")
source(lint.links_exist, "does not exist", "build", "[next](04_later.ipynb)")
source(lint.links_exist, "no heading", "build", "[up](#Nowhere)")
source(lint.links_exist, "learner's copy", "build", "[data](here.csv)")
source(lint.no_network, "installation", "exact", "!pip install x")
source(lint.no_network, "installation", "exact", "%pip install x")
source(lint.no_network, "installation", "exact", "%%bash\nls", add=False)
source(lint.no_network, "imports requests", "exact", "import requests")
source(lint.no_network, "imports urllib.request", "exact", "from urllib.request import urlopen")
source(lint.no_network, "imports subprocess", "exact", "import subprocess as s")
source(lint.no_network, "address", "exact", "x = 'https://example.org/data.csv'")
source(lint.no_network, "os.system", "exact", "os.system('ls')")
source(lint.no_pyplot, "pyplot", "exact", "import matplotlib.pyplot as plt")
source(lint.no_pyplot, "pyplot", "exact", "plt.show()")
source(lint.no_pyplot, "pyplot", "exact", "%matplotlib inline")
source(lint.random_cells_assert, "asserts nothing", "random", "result = train()", add=False)
source(lint.randomness_is_declared, "trains", "exact", "result = train(VPG(), 'CartPole-v1')")
source(lint.randomness_is_declared, "trains", "exact", "for state in iterate(VPG(), 'CartPole-v1'):\n    pass")
source(lint.randomness_is_declared, "global state", "exact", "np.random.seed(0)")
source(lint.randomness_is_declared, "global state", "exact", "torch.manual_seed(0)")
source(lint.randomness_is_declared, "without a seed", "exact", "rng = np.random.default_rng()")
source(lint.nothing_escapes_the_tests, "NBVAL_SKIP", "exact", "# NBVAL_SKIP")
source(lint.random_outputs_belong_to_their_code, "changed since", "random", "assert result > 2")
output(lint.no_errors_stored, "on stderr", "a warning", name="stderr")
output(lint.no_machine_in_outputs, "/tmp/x", "saved to /tmp/x.png")
output(lint.no_machine_in_outputs, "/home/ada", "saved to '/home/ada/x.png'")
output(lint.no_machine_in_outputs, "/Users/ada", "saved to /Users/ada/x.png")
output(lint.no_machine_in_outputs, r"C:\\Users", r"saved to C:\Users\ada\x.png")
output(lint.numbers_are_portable, "10 digits", "return 123.4567891")
output(lint.numbers_are_portable, "rounding noise", "difference 1.07e-14")
output(lint.numbers_are_portable, "rounding noise", "difference 3e-12")


@breach(lint.figures_have_alt_text, "show")
def a_figure_without_alt(cells, notebook):
    cells["figure"].outputs[0].metadata = {}


@breach(lint.figures_have_alt_text, "show")
def a_figure_with_an_empty_alt(cells, notebook):
    cells["figure"].outputs[0].metadata["image/png"]["alt"] = " "


@breach(lint.figures_have_alt_text, "without alt text")
def an_img_tag_without_alt(cells, notebook):
    cells["figure"].outputs[0].data["text/html"] = '<img src="data:image/png;base64,xx">'


@breach(lint.no_errors_stored, "ValueError: no")
def a_stored_exception(cells, notebook):
    cells["exact"].outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]


@breach(lint.nothing_escapes_the_tests, "raises-exception")
def an_expected_exception(cells, notebook):
    cells["exact"].metadata["tags"] = ["raises-exception"]


@breach(lint.cell_ids, "random id")
def an_id_by_chance(cells, notebook):
    cells["exact"].id = "6f1c2b9a"


@breach(lint.cell_ids, "random id")
def an_id_of_jupyterlab(cells, notebook):
    cells["exact"].id = "0d9c3f0e-1b1c-4f5e-9a57-2f1f0b6f2a11"


@breach(lint.cell_ids, "2 times")
def an_id_twice(cells, notebook):
    cells["exact"].id = "figure"


@breach(lint.cell_ids, "no id")
def no_id(cells, notebook):
    del cells["exact"]["id"]
    notebook.nbformat_minor = 4


@breach(lint.no_widget_state, "metadata")
def saved_widget_state(cells, notebook):
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}


@breach(lint.no_widget_state, "live widget")
def a_live_widget(cells, notebook):
    cells["figure"].outputs[0].data[lint.WIDGET] = {"model_id": "0", "version_major": 2, "version_minor": 0}


@breach(lint.executed_in_order, "expected 2")
def run_out_of_order(cells, notebook):
    cells["random"].execution_count = 7


@breach(lint.executed_in_order, "None")
def never_run(cells, notebook):
    cells["exact"].execution_count = None


@breach(lint.form, "refresh")
def other_metadata(cells, notebook):
    cells["exact"].metadata["collapsed"] = False


@pytest.mark.parametrize(("rule", "message", "change"), BREACHES)
def test_a_breach_is_found(rule, message, change, tmp_path):
    notebook = good()
    change({cell.id: cell for cell in notebook.cells}, notebook)
    findings = rule(lesson(notebook, tmp_path))
    assert re.search(message, "\n".join(findings)), findings


def test_every_rule_is_shown_a_breach():
    assert {entry.values[0] for entry in BREACHES} == set(lint.RULES)


@pytest.mark.parametrize(
    "text",
    [
        "return 1.23456",
        "gradient [0.12345, -1.5]  steps 1000000000",
        "|difference| ≤ 1e-10: True",
        "mean 0.000123",
        "step size 1e-05",
        "half of 0.00000001234",
    ],
)
def test_rounded_numbers_are_no_breach(text, tmp_path):
    notebook = good()
    notebook.cells[2].outputs = [new_output("stream", name="stdout", text=text)]
    assert lint.numbers_are_portable(lesson(notebook, tmp_path)) == []


def test_training_inside_a_function_is_no_breach_until_it_is_called(tmp_path):
    notebook = good()
    notebook.cells[2].source = "def experiment(seed):\n    return train(VPG(), 'CartPole-v1', seeds=[seed])"
    assert lint.randomness_is_declared(lesson(notebook, tmp_path)) == []
