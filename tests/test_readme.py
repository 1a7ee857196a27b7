"""README.md and docs/ tell the truth: their links lead somewhere, and the map shows the lessons that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")


def broken_links(text, folder):
    links = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S))
    return [link for link in links if not re.match(r"https?:|#", link) and not (folder / link.split("#")[0]).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_exist(page):
    assert broken_links(page.read_text(encoding="utf-8"), page.parent) == []


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "there.md").touch()
    assert broken_links("[a](there.md#x) ![b](missing.png) [c](https://example.org)", tmp_path) == ["missing.png"]


def test_the_map_shows_the_lessons_that_there_are():
    linked = set(re.findall(r"\(notebooks/([^)]+\.ipynb)\)", README))
    assert linked == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    planned = re.findall(r"^\| (\d\d) \| .* \| \*planned\* ", README, re.M)
    assert sorted(planned + [name[:2] for name in linked]) == [f"{number:02d}" for number in range(9)]


def test_the_example_for_engineers_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "engineers.md").read_text(encoding="utf-8"), re.S)
    exec(compile(code, "engineers.md", "exec"), {"__name__": "engineers"})
    assert capsys.readouterr().out == "(6, 2)\n"


def test_the_two_commands_are_those_of_the_launcher():
    launcher = (ROOT / "course.py").read_text(encoding="utf-8")
    words = set(re.findall(r"course\.py ([a-z]+)", "\n".join(page.read_text(encoding="utf-8") for page in PAGES)))
    assert {"test", "reset", "help"} <= words and all(f"def cmd_{word}(" in launcher for word in words)


def test_both_licences_are_named():
    assert "MIT License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "creativecommons.org/licenses/by/4.0" in (ROOT / "LICENSE-text").read_text(encoding="utf-8")
    assert "(LICENSE)" in README and "(LICENSE-text)" in README and "(NOTICE)" in README
