"""tools/results.py: the page of results says what the run folders hold."""

import csv
import re

import numpy as np
import pytest

from rlcourse import PPO, VPG
from rlcourse.experiments.storage import train_in_folder
from tools import results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run folders of two algorithms on two tasks, 4 seeds each."""
    where = tmp_path_factory.mktemp("results")
    for algorithm, env in ((VPG(num_envs=4, num_steps=64), "CartPole-v1"), (PPO(num_envs=4, num_steps=64), "CartPole-v1"),
                           (PPO(num_envs=4, num_steps=250), "Pendulum-v1")):  # fmt: skip
        train_in_folder(where, algorithm, env, total_steps=1000, seeds=range(4), progress=False)
    return where


def last_returns(folder, start):
    found = []
    for file in folder.glob(f"{start}-*/history.csv"):
        with open(file, encoding="utf-8") as text:
            found.append(float(list(csv.DictReader(text))[-1]["mean_return"]))
    return np.array(found)


def cells(line):
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def test_numbers_of_the_page_are_those_of_the_files(folder):
    text = "\n".join(results.page(results.collected(folder)))
    parts = dict(re.findall(r"^## (\S+-v\d)[^\n]*\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert list(parts) == ["CartPole-v1", "Pendulum-v1"]
    for task, name in (("CartPole-v1", "VPG"), ("CartPole-v1", "PPO"), ("Pendulum-v1", "PPO")):
        (line,) = [line for line in parts[task].splitlines() if line.startswith(f"| {name} |") and "**" in line]
        returns = np.sort(last_returns(folder, f"{name}-{task}"))
        row = cells(line)
        assert row[2] == str(len(returns)) == "4"
        assert float(row[4].strip("*").replace(",", "").replace("−", "-")) == pytest.approx(returns[1:3].mean(), abs=0.051)
        reached = (returns >= results.TASKS[task][2]).sum()
        assert row[6] == f"{reached} of 4" and (reached or row[7] == "–")


def test_rows_that_are_missing_are_named(folder):
    text = "\n".join(results.page(results.collected(folder)))
    (line,) = [line for line in text.splitlines() if line.startswith("Not in these run folders")]
    assert "TRPO on CartPole-v1" in line and "VPG on Hopper-v5" in line and "VPG on CartPole-v1" not in line


def test_every_published_number_has_a_source():
    used = {source for rows in results.PUBLISHED.values() for *_, source in rows}
    assert used == set(results.SOURCES) and set(results.PUBLISHED) == set(results.TASKS)


def test_figure_has_a_panel_for_each_task_and_a_line_for_each_algorithm(folder, monkeypatch):
    monkeypatch.setattr(results, "show", lambda fig, alt: fig)
    fig = results.figure(results.collected(folder))
    assert {ax.get_title(): {line.get_label() for line in ax.get_lines()} for ax in fig.axes} == {
        "CartPole-v1": {"VPG", "PPO"},
        "Pendulum-v1": {"PPO"},
    }
    last = np.median(last_returns(folder, "PPO-Pendulum-v1"))
    assert fig.axes[1].get_lines()[0].get_ydata()[-1] == pytest.approx(last)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["VPG", "PPO"]


def test_unknown_task(capsys):
    with pytest.raises(SystemExit) as stopped:
        results.main(["CartPole-v1", "Hoper-v5"])
    assert stopped.value.code == 2 and "Hoper-v5" in capsys.readouterr().err
