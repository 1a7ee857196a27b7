import numpy as np
import pytest

from rlcourse.classroom import learning_curve, new_figure, show
from rlcourse.classroom.curves import Curves


class Run:
    def __init__(self, setting, seed):
        self.setting, self.seed = setting, seed


class Result:
    def __init__(self, settings=2, seeds=3, iterations=10):
        steps = np.tile(np.arange(1, iterations + 1) * 1000.0, (settings * seeds, 1))
        noise = np.random.default_rng(0).normal(size=steps.shape)
        returns = 100 * (1 - np.exp(-steps / 4000)) + 5 * noise
        returns[:, 0] = np.nan
        self.history = {"env_steps": steps, "mean_return": returns, "entropy": noise}
        self.runs = [Run({"gae_lambda": lam}, seed) for lam in np.linspace(0, 1, settings) for seed in range(seeds)]


def test_learning_curve_shows_every_seed_the_median_and_the_threshold():
    result = Result()
    fig = learning_curve(result, threshold=95)
    (ax,) = fig.axes
    thin, thick = (
        [line for line in ax.lines if line.get_linewidth() < 2],
        [line for line in ax.lines if line.get_linewidth() > 2.5],
    )
    assert len(thin) == 6 + 1 and len(thick) == 2  # six seeds and the threshold
    for row, line in enumerate(thin[:6]):
        np.testing.assert_array_equal(line.get_ydata(), result.history["mean_return"][row])
    np.testing.assert_allclose(thick[1].get_ydata(), np.median(result.history["mean_return"][3:, 1:], axis=0))
    np.testing.assert_array_equal(thick[1].get_xdata(), np.arange(2, 11) * 1000)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["gae_lambda = 0, median of 3 seeds", "gae_lambda = 1, median of 3 seeds", "threshold 95"]
    assert ax.get_xlabel() == "environment steps per run" and ax.get_ylabel() == "mean return of recent episodes"
    assert thick[0].get_color() != thick[1].get_color() and thick[0].get_linestyle() != thick[1].get_linestyle()
    show(fig, alt="Two learning curves rise and level off near one hundred.")


def test_learning_curve_of_a_plain_history_and_of_another_quantity():
    history = Result(1, 4).history
    fig = learning_curve(history, name="entropy", ylabel="entropy (nats)", title="Entropy falls")
    assert len(fig.axes[0].lines) == 5 and fig.axes[0].get_title() == "Entropy falls"
    assert [text.get_text() for text in fig.axes[0].get_legend().get_texts()] == ["median of 4 seeds"]


def test_learning_curve_with_own_labels():
    fig = learning_curve(Result(), labels=["one step", "all steps"])
    assert [text.get_text() for text in fig.axes[0].get_legend().get_texts()][0] == "one step, median of 3 seeds"
    with pytest.raises(ValueError, match="3 names for 2 settings"):
        learning_curve(Result(), labels=["a", "b", "c"])
    for labels in (3, "ab", [1, 2]):
        with pytest.raises(TypeError, match="labels = .*expected a list of names"):
            learning_curve(Result(), labels=labels)


def test_one_seed_has_no_median():
    fig = learning_curve(Result(1, 1).history)
    assert len(fig.axes[0].lines) == 1 and fig.axes[0].get_legend() is None


@pytest.mark.parametrize("missing", ["mean_return", "env_steps"])
def test_learning_curve_says_what_the_history_lacks(missing):
    history = Result().history
    del history[missing]
    with pytest.raises(ValueError, match=f"no '{missing}'"):
        learning_curve(history)


def test_median_leaves_out_a_run_that_failed_and_keeps_the_others():
    history = Result(1, 3).history
    history["mean_return"][1, 5:] = np.nan
    median = Curves(new_figure()[1], {"": [0, 1, 2]}).update(history).medians[0].get_ydata()
    np.testing.assert_allclose(median[4:], history["mean_return"][[0, 2], 5:].mean(0))


def test_no_value_yet_is_no_error(recwarn):
    learning_curve({"env_steps": np.ones((2, 1)), "mean_return": np.full((2, 1), np.nan)})
    assert not recwarn.list
