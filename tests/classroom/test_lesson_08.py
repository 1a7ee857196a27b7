"""What lesson 08 computes: a spread in two groups, many comparisons, its stored trainings, and the numbers that it quotes."""

import json
import re

import numpy as np
import pytest
from scipy import stats

from rlcourse import recommended, train
from rlcourse.classroom import lesson_08
from rlcourse.classroom.data import DATA, data_path
from rlcourse.classroom.explorer import View
from rlcourse.experiments.statistics import bootstrap_interval


def stored(name):
    return {key: value for key, value in np.load(data_path(name)).items()}


def prose():
    notebook = json.loads((DATA.parent / "08_experiments.ipynb").read_text(encoding="utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return text.replace("−", "-")


# ------------------------------------------------------------------------------------------------- a spread in two groups


def test_two_groups_have_the_mean_spread_and_distribution_that_they_say():
    groups = lesson_08.TwoGroups()
    x = groups.draw(np.random.default_rng(0), 200_000)
    assert abs(x.mean() - groups.mean) < 5 * groups.sd / 200_000**0.5
    assert abs(x.std() / groups.sd - 1) < 0.01
    for score in (1600, groups.mean, 3800):
        assert abs((x <= score).mean() - groups.below(score)) < 0.005


def test_two_groups_look_like_the_five_stored_runs():
    last = np.sort(stored("06_half_cheetah.npz")["PPO_returns"][:, -1])
    groups = lesson_08.TwoGroups()
    assert (last > groups.low + groups.gap / 2).mean() == groups.share
    assert abs(last[:4].mean() - groups.low) < 25 and abs(last[4] - groups.low - groups.gap) < 25
    assert abs(last[:4].std(ddof=1) / groups.noise - 1) < 0.1


# --------------------------------------------------------------------------------------------------------------- the widget


@pytest.mark.parametrize(("n", "difference", "spread"), [(3, 30, 60), (20, 10, 60), (5, 0, 100)])
def test_comparisons_of_normal_scores_follow_theory(n, difference, spread):
    data = lesson_08.compare_often(n, difference, spread, "normal")
    error = spread * (2 / n) ** 0.5
    assert abs(data.difference.mean() - difference) < 5 * error / lesson_08.COMPARISONS**0.5
    assert abs(data.wrong - stats.norm.cdf(-difference / error)) < 0.02
    covered = (np.abs(data.difference - difference) <= data.reach).mean()
    assert 0.945 < covered < 0.975  # Welch is careful where n is small
    assert sum(data.found) < 1 and data.found[0] >= data.found[1] - 0.01


def test_the_reach_is_scipys():
    data = lesson_08.compare_often(4, 20, 50, "two groups")
    rng, groups = np.random.default_rng(8), lesson_08.TwoGroups()
    a, b = 50 * (groups.draw(rng, (2, lesson_08.COMPARISONS, 4)) - groups.mean) / groups.sd
    interval = stats.ttest_ind(a[7] + 20, b[7], equal_var=False).confidence_interval()
    np.testing.assert_allclose([interval.low, interval.high], data.difference[7] + np.array([-1, 1]) * data.reach[7])


def test_the_sentence_says_what_equal_settings_are():
    said = lesson_08.describe_comparisons(lesson_08.compare_often(3, 0, 60, "normal"), 3, 0, 60, "normal")
    assert "though both are equal" in said
    assert "the worse one leads in 2" in lesson_08.describe_comparisons(
        lesson_08.compare_often(3, 30, 60, "normal"), 3, 30, 60, "normal"
    )


def test_the_still_picture_is_whole_at_the_ends():
    view = View(*(lesson_08.COMPARE_STILL[name] for name in ("title", "compute", "draw", "describe", "controls", "size")))
    assert view.trouble() == []


# --------------------------------------------------------------------------------------------------------- stored trainings


def test_a_stored_run_is_what_training_gives():
    file = stored("08_acrobot.npz")
    assert file["score"].shape == (3, 200) and np.isfinite(file["score"]).all() and (file["score"] >= -500).all()
    assert [*file["names"]] == [*lesson_08.ACROBOT]
    fresh = train(recommended("VPG", "Acrobot-v1"), "Acrobot-v1", total_steps=lesson_08.STEPS, seeds=range(300, 340),
                  progress=False).history["mean_return"][:, -1]  # fmt: skip
    assert stats.ks_2samp(fresh, file["score"][0]).pvalue > 1e-4  # other seeds, the same distribution


def test_recipes_are_small_enough_to_be_tried(monkeypatch):
    monkeypatch.setattr(lesson_08, "STEPS", 2_000)
    assert lesson_08.acrobot(seeds=2, points=3)["curve"].shape == (3, 2, 3)
    few = lesson_08.checkpoints(seeds=1, number=1, few=2, many=3)
    assert few["selection"].shape == few["fresh"].shape == (1, 1)


def test_numbers_that_the_text_quotes():
    text = prose()
    choose, judge = (stored("08_checkpoints.npz")[name].astype(float) for name in ("selection", "fresh"))
    best = choose.argmax(1)
    flattered = choose.max(1) - judge[np.arange(40), best]
    assert "about 70 points too good" in text and 60 < flattered.mean() < 80
    assert "not even better than the last one" in text and judge[np.arange(40), best].mean() < judge[:, -1].mean()
    scores = stored("08_acrobot.npz")["score"].astype(float)
    rho = np.corrcoef(scores)
    assert f"$\\varrho={rho[0, 2]:.2f}$" in text and 5.5 < 1 / (1 - rho[0, 2]) < 8.5 and "a seventh of the seeds" in text
    rng = np.random.default_rng(0)
    lead = np.diff(scores[0][rng.permuted(np.tile(np.arange(200), (10_000, 1)), axis=1)[:, :6].reshape(-1, 2, 3)].mean(-1))
    assert "it is more than half" in text and (np.abs(lead) > 50).mean() > 0.55
    effect = scores[1] - scores[0]
    low, high = bootstrap_interval(lambda x: x.mean(-1), effect, rng=np.random.default_rng(0))
    assert high < -40 and "$\\lambda=0.95$ does worse" in text
    race = stored("05_race_cartpole.npz")
    reached = (race["TRPO_mean_return"] >= 475).any(1).sum()
    assert f"TRPO reached 475 in {reached} runs of 10" in text
    returns = stored("06_half_cheetah.npz")["PPO_returns"][:, -1]
    assert re.search(r"about 1,600 four times and 3,800 once", text) and (abs(returns - 1650) < 150).sum() == 4

