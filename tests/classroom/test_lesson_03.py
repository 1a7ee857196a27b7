"""What lesson 03 computes: against sampling, hand numbers and the package; its widget at all ends; its data against its text."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcourse import discounted_returns, gae
from rlcourse.classroom import lesson_03
from rlcourse.classroom.data import data_path
from rlcourse.classroom.explorer import View
from rlcourse.classroom.figures import SIZE, layout_faults, new_figure
from rlcourse.worlds.moments import lambda_return_moments
from rlcourse.worlds.tabular import exact_policy_gradient, random_walk, sample_trajectories, softmax_policy

LESSON = Path(__file__).parents[2] / "notebooks" / "03_generalised_advantage_estimation.ipynb"


def source_and_output(cell_id):
    cell = next(cell for cell in json.loads(LESSON.read_text(encoding="utf-8"))["cells"] if cell["id"] == cell_id)
    return "".join(cell["source"]), "".join("".join(output.get("text", "")) for output in cell.get("outputs", []))


# ----------------------------------------------------------------------------------------------------- the random walk


def test_the_critic_errs_as_it_is_told():
    walk = random_walk(5)
    truth = np.array([-2, -1, 0, 1, 2]) / 3
    for error in (-1.0, 0.0, 0.5):
        np.testing.assert_allclose(lesson_03.wrong_critic(walk, error), (1 + error) * truth, atol=1e-14)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.6, 1.0])
def test_episodes_as_a_batch_equal_episodes_one_by_one(gae_lambda):
    walk, critic = random_walk(5), torch.tensor([0.3, -0.2, 0.5, 0.1, 0.9])
    played = sample_trajectories(walk, lesson_03.fair_policy(5), 50, np.random.default_rng(0))
    together = gae(*lesson_03.as_batch(played, critic), 0.9, gae_lambda)[0]
    for episode in range(50):
        one = played.one(episode)
        values = critic.numpy()[one.state]
        last = np.arange(len(values)) == len(values) - 1
        alone = gae(one.reward, values, np.append(values[1:], np.nan), last, np.zeros_like(last), 0.9, gae_lambda)[0]
        np.testing.assert_array_equal(together[: len(alone), episode], alone)


def test_errors_of_q_are_those_of_sampled_episodes():
    gamma, error, at = 0.95, -0.6, 70
    walk, estimator, fair = random_walk(9), random_walk(9, gamma), lesson_03.fair_policy(9)
    played = sample_trajectories(walk, fair, 4000, np.random.default_rng(1))
    critic = lesson_03.wrong_critic(estimator, error)
    targets = gae(*lesson_03.as_batch(played, critic), gamma, lesson_03.LAMBDAS[at])[1][played.time, played.episode]
    square = (targets - walk.q_values(fair).numpy()[played.state, played.action]) ** 2
    per_episode = np.bincount(played.episode, square - lesson_03.q_errors(gamma, error).total[at])  # mean 0 over all visits
    assert abs(per_episode.mean()) < 4 * per_episode.std() / 4000**0.5


def test_errors_at_the_ends_by_hand():
    perfect = lesson_03.q_errors(1.0, 0.0)
    assert np.abs(perfect.bias_squared).max() < 1e-20 and perfect.best_lambda == 0.0 and abs(perfect.total[0]) < 1e-20
    # λ = 1: pure play, whatever the critic: no bias; V² + Var = 1 for a return of ±1, and Var = 1 − Q² averages to 0.8
    for error in (-1.0, 1.0):
        errors = lesson_03.q_errors(1.0, error)
        assert errors.bias_squared[-1] < 1e-20 and errors.variance[-1] == pytest.approx(0.8)
    # λ = 0 in a walk without slips has no variance; the bias of the critic 0 is V of the next square
    zero = lesson_03.q_errors(1.0, -1.0)
    assert abs(zero.variance[0]) < 1e-15 and zero.bias_squared[0] == pytest.approx(0.16)
    assert 0 < zero.best_lambda < 1


def test_gradient_errors():
    one, many = (lesson_03.gradient_errors(1.0, -0.5, episodes) for episodes in (1, 64))
    np.testing.assert_allclose(one.variance, 64 * many.variance)
    np.testing.assert_array_equal(one.bias_squared, many.bias_squared)
    assert one.bias_squared[-1] < 1e-20 and one.best_lambda < many.best_lambda
    walk, theta = random_walk(9), torch.zeros(9, 2, dtype=torch.float64)
    # at λ = 0 the mean is Σ visits π ψ (target − critic)
    mean, _ = lambda_return_moments(walk, lesson_03.fair_policy(9), lesson_03.wrong_critic(walk, -0.5), 0.0)
    half = walk.state_visits(lesson_03.fair_policy(9)) * (mean[:, 1] - mean[:, 0]) / 4
    gradient = torch.stack([-half, half], 1)
    exact = exact_policy_gradient(walk, softmax_policy, theta)
    assert one.bias_squared[0] == pytest.approx(float(((gradient - exact) ** 2).sum()))


def test_influence_shows_one_triangle_per_piece():
    terminated, truncated = np.array([0, 1, 0, 0], bool), np.array([0, 0, 0, 0], bool)
    expected = [[1, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]]
    np.testing.assert_array_equal(lesson_03.influence(terminated, truncated, 1.0, 0.5), expected)
    np.testing.assert_array_equal(lesson_03.influence(truncated, terminated, 1.0, 0.5), expected)


# ---------------------------------------------------------------------------------------------------- CartPole, recorded


def test_the_recorded_episodes_are_cartpole():
    with np.load(data_path(lesson_03.EPISODES)) as file:
        obs, episode = file["obs"], file["episode"]
    starts = np.flatnonzero(np.append(True, episode[1:] != episode[:-1]))
    assert len(starts) == lesson_03.NUM_RECORDED and (np.diff(episode.astype(int)) >= 0).all()
    assert (np.abs(obs[starts]) <= 0.05).all()  # CartPole's start
    inside = np.append(episode[1:] == episode[:-1], False)
    np.testing.assert_allclose(obs[1:][inside[:-1], 0], (obs[:, 0] + 0.02 * obs[:, 1])[inside], atol=1e-5)  # x' = x + τ ẋ


@pytest.mark.parametrize("gamma", [0.8, 0.98, 1.0])
def test_the_critic_of_the_episode_is_the_least_squares_fit_to_the_others(gamma):
    features, episode, shown, _ = lesson_03.recorded()
    targets = []
    for number in range(lesson_03.NUM_RECORDED):
        length = (episode == number).sum()
        targets.append(discounted_returns(np.ones(length), gamma, ends=np.zeros(length, bool), bootstrap=np.zeros(length)))
    others = np.concatenate(targets)[episode != shown]
    weights = np.linalg.lstsq(features[episode != shown], others, rcond=None)[0]
    values, share = lesson_03.fitted_critic(gamma)
    np.testing.assert_allclose(values, features[episode == shown] @ weights, rtol=1e-6)
    assert 0.5 < share < 1


def test_advantages_of_the_episode_by_hand():
    steps = len(lesson_03.fitted_critic(0.9)[0])
    # a critic that says 0 and rewards of 1: Σ_{l < T − t} (γλ)^l
    expected = (1 - 0.72 ** np.arange(steps, 0, -1)) / (1 - 0.72)
    np.testing.assert_allclose(lesson_03.episode_advantages(0.8, 0.9, -1.0), expected, rtol=1e-12)
    np.testing.assert_allclose(lesson_03.episode_advantages(1.0, 1.0, -1.0), np.arange(steps, 0, -1))


# ----------------------------------------------------------------------------------------------------------- the widget


def test_the_widget_is_fine_at_all_ends():
    parts = {key: lesson_03.LAMBDA[key] for key in ("title", "compute", "draw", "describe", "controls")}
    assert View(**parts, size=SIZE).trouble() == []


def test_what_the_widget_shows():
    view = lesson_03.lambda_view(0.5, 0.9, -0.5)
    np.testing.assert_allclose(view.weights, 0.45 ** np.arange(61))
    assert view.horizon == pytest.approx(1 / 0.55)
    np.testing.assert_array_equal(view.advantages, lesson_03.episode_advantages(0.5, 0.9, -0.5))
    assert np.isinf(lesson_03.lambda_view(1.0, 1.0, 0.0).horizon)
    sentence = lesson_03.describe_lambda(view, 0.5, 0.9, -0.5)
    assert f"{view.errors.total[50]:.3f}" in sentence and f"λ = {view.errors.best_lambda:.2f}" in sentence


def test_the_pictures_have_no_faults():
    flags = np.zeros((2, 10, 3), bool)
    flags[0, 3, 0] = flags[1, 5, 1] = True
    fig, axes = new_figure(1, 2)
    lesson_03.draw_trace(axes[0], *flags)
    lesson_03.draw_influence(fig, axes[1], lesson_03.influence(*flags[:, :, 1], 0.9, 0.9))
    assert layout_faults(fig) == []


def test_the_table_of_best_lambdas():
    lines = lesson_03.best_lambdas([(9, 1.0, 0.0), (19, 0.9, -0.5)]).splitlines()
    assert [line.split()[3] for line in lines[1:]] == ["0.00", "1.00"]


# ---------------------------------------------------------------------------------------------- the text and the numbers


def test_what_the_lesson_says_of_the_stored_sweep():
    """Forty seeds per λ: λ = 1 is as good as any, λ = 0 and 0.5 fall behind, and explained variance points the other way."""
    with np.load(data_path(lesson_03.SWEEP)) as file:
        last, explained = file["mean_return"][:, :, -1].astype(float), file["explained_variance"].astype(float)
        assert "tools/make_data.py lesson_03" in json.loads(str(file["facts"]))["command"]
    median = np.median(last, 1)
    assert median[-1] > 0.95 * median.max() and median[:2].max() < 0.75 * median[2:].min()
    middle = np.median(explained[:, :, 24:], (1, 2))
    assert (np.diff(middle[1:]) < 0).all() and middle[0] > 0.9 > 0.8 > middle[-1]
    _, shown = source_and_output("03-train-sweep")
    assert [line.split()[1] for line in shown.splitlines()[1:]] == [f"{x:.0f}" for x in median]


def test_the_numbers_in_the_text():
    text, _ = source_and_output("03-see")
    assert "Q = 0.6" in text and float(random_walk(9).q_values(lesson_03.fair_policy(9))[6, 1]) == pytest.approx(0.6)
    discounted, plain = lesson_03.q_errors(0.95, 0.0), lesson_03.q_errors(1.0, 0.0)
    assert 4 < plain.variance[-1] / discounted.variance[-1] < 4.5  # step 11: "four times smaller"
    text, _ = source_and_output("03-step7")
    assert f"{0.95 * (1 - 0.9) / (1 - 0.95 * 0.9):.2f} at $\\lambda=0.9$" in text
