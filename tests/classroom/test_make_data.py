"""tools/make_data.py: a stored file holds its arrays and says how it was made."""

import json
import sys

import numpy as np
import pytest

from rlcourse import __version__
from tools import make_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(make_data, "DATA", tmp_path / "data")
    return tmp_path / "data"


def test_a_file_holds_its_arrays_and_the_facts(folder):
    path = make_data.write("lesson_99", "x.npz", lambda: {"x": np.arange(3), "names": np.array(["a", "b"])})
    with np.load(path, allow_pickle=False) as file:
        assert sorted(file.files) == ["facts", "names", "x"] and file["x"].tolist() == [0, 1, 2]
        facts = json.loads(str(file["facts"]))
    assert path == folder / "x.npz" and [file.name for file in folder.iterdir()] == ["x.npz"]
    assert facts["command"] == "python tools/make_data.py lesson_99 x.npz"
    assert facts["versions"]["rlcourse"] == __version__ and facts["versions"]["numpy"] == np.__version__
    assert set(facts) == {"command", "date", "versions", "processor", "seconds"}


def test_a_file_that_is_too_large_does_not_replace_the_old_one(folder):
    make_data.write("lesson_99", "x.npz", lambda: {"x": np.arange(3)})
    noise = np.random.default_rng(0).random(20_000)
    with pytest.raises(SystemExit, match="more than 100,000"):
        make_data.write("lesson_99", "x.npz", lambda: {"x": noise})
    assert [file.name for file in folder.iterdir()] == ["x.npz"]
    with np.load(folder / "x.npz") as file:
        assert len(file["x"]) == 3


def test_an_unknown_file_is_refused_and_the_known_ones_are_named(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_data.py", "lesson_02", "02_nothing.npz"])
    with pytest.raises(SystemExit, match="no file 02_nothing.npz; it has 02_vpg_sweep.npz, 02_vpg_ladder.npz"):
        make_data.main()
