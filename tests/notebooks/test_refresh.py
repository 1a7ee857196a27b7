"""tools/refresh.py: what it keeps, what it replaces, what it calls stale. The kernel is replaced, except in the last test."""

import base64
import copy
import io
import itertools

import nbformat
import numpy as np
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from tools import refresh


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


WHITE = np.full((40, 60, 3), 255)
NUMBER = itertools.count()


def picture(pixels=WHITE, alt="a picture"):
    return new_output("display_data", {"image/png": png(pixels), "text/plain": alt}, metadata={"image/png": {"alt": alt}})


def text(words):
    return new_output("stream", name="stdout", text=words)


def widget(**data):
    view = {"model_id": f"{next(NUMBER):032x}", "version_major": 2, "version_minor": 0}
    return new_output("display_data", {refresh.WIDGET: view, "text/plain": "Slider()", **data})


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A notebook file and what its cells put out: change stored.outputs, then call stored.refresh(...)."""

    class Stored:
        path = tmp_path / "05_try.ipynb"
        outputs = {}  # source of a cell -> its outputs when run

        def write(self, *cells):
            nbformat.write(new_notebook(cells=[new_markdown_cell("# 05 · Try"), *cells]), self.path)

        def read(self):
            return nbformat.read(self.path, as_version=4)

        def refresh(self, **options):
            return refresh.refresh(self.path, **options)[0]

    def execute(notebook, folder, timeout):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = copy.deepcopy(stored.outputs[cell.source])
                cell.execution_count = 17
        notebook.metadata["widgets"] = {"state": {}}

    stored = Stored()
    monkeypatch.setattr(refresh, "execute", execute)
    return stored


RANDOM = {"tags": [refresh.RANDOM]}


def test_a_second_refresh_changes_nothing(stored):
    stored.outputs = {
        "a": [text("1\n"), picture()],
        "b": [text("2\n")],
        "w": [widget(**{"image/png": png(WHITE)})],
    }
    stored.write(new_code_cell("a"), new_code_cell("b", metadata=RANDOM), new_code_cell("w"))
    assert stored.refresh(check=True) == "stale"
    assert stored.refresh() == "saved"
    first = stored.path.read_bytes()
    stored.outputs["b"] = [text("another random number\n")]
    assert stored.refresh() == "unchanged" and stored.refresh(check=True) == "unchanged"
    assert stored.path.read_bytes() == first and b"\r" not in first and first.endswith(b"}\n")


def test_the_stored_form(stored):
    bar = widget()
    bar.data["text/plain"] = "0%| | 0/100"
    stored.outputs = {"a": [widget(**{"image/png": png(WHITE)}), widget()], "r": [bar, text("7\n")], "": []}
    stored.write(new_code_cell("a", metadata={"collapsed": True}), new_code_cell(""), new_code_cell("r", metadata=RANDOM))
    stored.refresh()
    notebook = stored.read()
    _, a, empty, r = notebook.cells
    assert [cell.id for cell in notebook.cells] == ["05-cell-00", "05-cell-01", "05-cell-02", "05-cell-03"]
    assert [a.execution_count, empty.execution_count, r.execution_count] == [1, None, 2]
    assert [sorted(output.data) for output in a.outputs] == [["image/png", "text/plain"], ["text/plain"]]
    assert [output.output_type for output in r.outputs] == ["stream"]  # a bar alone, in a random cell, is not kept
    assert a.metadata == {} and set(r.metadata) == {"tags", refresh.DIGEST}
    assert "widgets" not in notebook.metadata and set(notebook.metadata) == {"kernelspec", "language_info"}


def test_ids_that_mean_something_stay_and_others_are_replaced_once(stored):
    stored.outputs = {"a": [], "b": [], "c": []}
    stored.write(new_code_cell("a", id="gae-check"), new_code_cell("b", id="05-cell-00"), new_code_cell("c", id="deadbeef"))
    stored.refresh()
    ids = [cell.id for cell in stored.read().cells]
    assert ids == ["05-cell-01", "gae-check", "05-cell-00", "05-cell-02"]
    notebook = stored.read()
    notebook.cells.insert(1, new_code_cell("a", id="0d9c3f0e-1b1c-4f5e-9a57-2f1f0b6f2a11"))
    nbformat.write(notebook, stored.path)
    stored.refresh()
    assert [cell.id for cell in stored.read().cells] == [ids[0], "05-cell-03", *ids[1:]]  # a new cell renames no other


def noise(pixels, size):
    return np.clip(pixels + np.random.default_rng(0).integers(-size, size + 1, pixels.shape), 0, 255)


def moved_label():
    pixels = WHITE.copy()
    pixels[10:12, 10:14] = 0
    return pixels


GREY = np.full((40, 60, 3), 128)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (text("object at 0x7f00aa11bb22\n"), text("object at 0x7f0000000001\n"), True),
        (text("10%|#  | 1/10 [00:01<00:09]\n"), text("10%|#  | 1/10 [00:03<00:20]\n"), True),
        (text("0.1234\n"), text("0.1235\n"), False),
        (text("1\n"), new_output("stream", name="stderr", text="1\n"), False),
        (picture(GREY), picture(noise(GREY, 0)), True),
        (picture(GREY), picture(np.where(np.arange(60)[:, None] % 8 == 0, GREY + 1, GREY)), True),
        (picture(GREY), picture(noise(GREY, 3)), False),
        (picture(WHITE), picture(moved_label()), False),
        (picture(WHITE), picture(WHITE[:-1]), False),
        (picture(alt="a line"), picture(alt="two lines"), False),
        (text("1\n"), picture(), False),
    ],
)
def test_when_two_outputs_agree(old, new, same):
    assert refresh.agree(new, old) is same and refresh.agree(old, new) is same


@pytest.mark.parametrize(
    ("old", "new"), [([text("1\n")], [text("2\n")]), ([picture()], [picture(moved_label())]), ([text("1\n")], [])]
)
def test_check_calls_it_stale_and_saves_nothing(stored, old, new):
    stored.outputs = {"a": old}
    stored.write(new_code_cell("a"))
    stored.refresh()
    before = stored.path.read_bytes()
    stored.outputs = {"a": new}
    assert stored.refresh(check=True) == "stale"
    assert stored.path.read_bytes() == before
    assert stored.refresh() == "saved"
    assert [dict(output) for output in stored.read().cells[1].outputs] == [dict(output) for output in new]


def test_a_random_output_is_replaced_when_its_code_changes_or_when_asked(stored):
    def number():
        return stored.read().cells[1].outputs[0].text

    stored.outputs = {"r": [text("0.1\n")]}
    stored.write(new_code_cell("r", metadata=RANDOM))
    stored.refresh()
    stored.outputs = {"r": [text("0.2\n")], "r2": [text("0.3\n")]}
    assert stored.refresh() == "unchanged" and number() == "0.1\n"
    assert stored.refresh(new_random=True) == "saved" and number() == "0.2\n"
    notebook = stored.read()
    notebook.cells[1].source = "r2"
    nbformat.write(notebook, stored.path)
    assert stored.refresh(check=True) == "stale"
    assert stored.refresh() == "saved" and number() == "0.3\n"
    assert stored.refresh(check=True) == "unchanged"


def test_a_cell_that_is_no_longer_random_is_compared_again(stored):
    stored.outputs = {"r": [text("0.1\n")]}
    stored.write(new_code_cell("r", metadata=RANDOM))
    stored.refresh()
    notebook = stored.read()
    notebook.cells[1].metadata.pop("tags")
    nbformat.write(notebook, stored.path)
    stored.outputs = {"r": [text("0.2\n")]}
    stored.refresh()
    assert stored.read().cells[1].outputs[0].text == "0.2\n" and stored.read().cells[1].metadata == {}


def test_a_cell_that_fails_is_reported_and_nothing_is_saved(stored, monkeypatch):
    def execute(*_):
        raise CellExecutionError("ValueError: gamma = 2", "ValueError", "gamma = 2")

    stored.outputs = {"a": []}
    stored.write(new_code_cell("a"))
    before = stored.path.read_bytes()
    monkeypatch.setattr(refresh, "execute", execute)
    assert refresh.refresh(stored.path) == ("failed", "ValueError: gamma = 2")
    assert stored.path.read_bytes() == before


def test_numbers_and_paths_find_lessons(tmp_path, monkeypatch):
    monkeypatch.setattr(refresh, "NOTEBOOKS", tmp_path)
    for name in ("00_start.ipynb", "03_gae.ipynb", "scratch.ipynb"):
        nbformat.write(new_notebook(), tmp_path / name)
    assert [path.name for path in refresh.find([])] == ["00_start.ipynb", "03_gae.ipynb"]
    assert [path.name for path in refresh.find(["3", "00"])] == ["03_gae.ipynb", "00_start.ipynb"]
    assert refresh.find([str(tmp_path / "scratch.ipynb")]) == [tmp_path / "scratch.ipynb"]
    with pytest.raises(SystemExit, match="no lesson '4'"):
        refresh.find(["4"])


def test_with_a_real_kernel(tmp_path, capsys):
    path = tmp_path / "05_try.ipynb"
    cells = [new_code_cell("x = 20\nprint(object())"), new_code_cell("x + 1")]
    nbformat.write(new_notebook(cells=cells), path)
    assert refresh.main([str(path)]) == 0
    assert nbformat.read(path, as_version=4).cells[1].outputs[0].data["text/plain"] == "21"
    assert refresh.main([str(path), "--check"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["saved", "unchanged"]
