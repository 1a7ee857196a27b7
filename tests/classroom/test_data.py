"""data_path: finds what is there, and says clearly what is not."""

import pytest

from rlcourse.classroom import data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "notebooks" / "data"
    folder.mkdir(parents=True)
    (folder / "seeds.csv").write_text("seed,return\n", encoding="utf-8")
    monkeypatch.setattr(data, "DATA", folder)
    return folder


def test_it_finds_a_file(folder):
    assert data.data_path("seeds.csv") == folder / "seeds.csv"


def test_a_missing_file_names_those_that_are_there(folder):
    with pytest.raises(FileNotFoundError, match="'sedes.csv'.*seeds.csv"):
        data.data_path("sedes.csv")


@pytest.mark.parametrize("name", ["../secret.csv", "/etc/hostname"])
def test_a_name_that_leads_out_is_refused(folder, name):
    (folder.parent / "secret.csv").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="leads out"):
        data.data_path(name)


def test_an_installation_without_the_lessons_is_explained(folder, monkeypatch):
    monkeypatch.setattr(data, "DATA", folder / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"pip install -e \."):
        data.data_path("seeds.csv")


def test_the_real_folder_lies_beside_the_lessons():
    assert data.DATA.parts[-2:] == ("notebooks", "data")
    assert (data.DATA.parents[1] / "pyproject.toml").is_file()
