"""What lesson 04 computes: the ledge, the bounds, the widget, and the copied conjugate gradient that it warns of."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcourse.classroom import lesson_04
from rlcourse.classroom.data import data_path
from rlcourse.classroom.explorer import View
from rlcourse.worlds.tabular import finite_difference_gradient, random_mdp, sample_trajectories, softmax_policy

f64 = torch.float64
LESSON = Path(__file__).parents[2] / "notebooks" / "04_trpo.ipynb"


def theta(*numbers):
    return torch.tensor(numbers, dtype=f64)


# ------------------------------------------------------------------------------------------------------------- the ledge


def test_by_hand_on_the_ledge():
    """Never forward: one stays in cell 0 and earns 0. Always forward: twelve steps a round, 0 + 1/11 + … + 1 − 100."""
    assert abs(lesson_04.reward_per_step(theta(-60.0, 0.0))) < 1e-12
    discounts = 0.95 ** np.arange(12)
    round_trip = discounts @ (np.arange(12) / 11) - 100 * discounts[-1]
    np.testing.assert_allclose(lesson_04.reward_per_step(theta(60.0, 0.0)), 0.05 * round_trip / (1 - 0.95**12), rtol=1e-10)


def test_ledge_against_play():
    pi = lesson_04.ledge_policy(theta(0.0, 1.0))
    world = lesson_04.ledge()
    assert (pi[:, 1].diff() < 0).all() and (world.transition.sum(-1) == 1).all()
    ending = lesson_04.TabularMDP(0.95 * world.transition, world.reward, 1.0, world.start)  # discount as a chance to end
    played = sample_trajectories(ending, pi, 20_000, np.random.default_rng(0)).returns(1.0).ravel()
    assert abs(played.mean() - world.expected_return(pi)) < 4 * played.std() / len(played) ** 0.5


def test_equal_steps_one_harmless_one_fatal():
    starts = [theta(-2.0, 1.0), theta(1.0, 4.0)]
    steps = [lesson_04.gradient_step(start, 2.0) for start in starts]
    assert all(abs(step.norm() - 2) < 1e-12 for step in steps)
    change = [lesson_04.reward_per_step(a + b) - lesson_04.reward_per_step(a) for a, b in zip(starts, steps, strict=True)]
    assert change[0] > 0.2 and change[1] < -1.5


def test_landscape_is_the_return():
    grid = lesson_04.landscape(points=5)
    assert grid.shape == (5, 5)
    corner = theta(lesson_04.COURAGE[1], lesson_04.CAUTION[0])  # lower right
    assert grid[0, -1] == pytest.approx(lesson_04.reward_per_step(corner).item(), rel=1e-12)


# ---------------------------------------------------------------------------------------------------- surrogate and bounds


def pair(seed, distance=1.0):
    rng = np.random.default_rng(seed)
    start = torch.tensor(rng.standard_normal((5, 3)))
    return random_mdp(rng, 5, 3, gamma=0.9), start, start + distance * torch.tensor(rng.standard_normal((5, 3)))


def test_surrogate_has_value_and_gradient_of_the_return_at_the_old_policy():
    world, start, _ = pair(0)
    surrogate = lambda x: lesson_04.surrogate_return(world, softmax_policy(x), softmax_policy(start))  # noqa: E731
    expected = lambda x: world.expected_return(softmax_policy(x))  # noqa: E731
    assert abs(surrogate(start) - expected(start)) < 1e-12
    slopes = [finite_difference_gradient(f, start) for f in (surrogate, expected)]
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-8)


def test_kl_and_total_variation_against_scipy():
    from scipy.stats import entropy

    _, start, end = pair(1)
    old, new = softmax_policy(start), softmax_policy(end)
    np.testing.assert_allclose(lesson_04.kl_per_state(old, new), entropy(old.numpy(), new.numpy(), axis=-1), rtol=1e-12)
    np.testing.assert_allclose(lesson_04.total_variation(old, new), (new - old).clamp(min=0).sum(-1), rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_lower_bounds_hold_and_are_written_as_in_the_papers(seed):
    world, start, end = pair(seed, distance=0.3)
    old, new = softmax_policy(start), softmax_policy(end)
    schulman, achiam = lesson_04.lower_bounds(world, new, old)
    assert max(schulman, achiam) <= world.expected_return(new)
    A, D = world.advantages(old).numpy(), lesson_04.kl_per_state(old, new).numpy()
    L = lesson_04.surrogate_return(world, new, old).item()
    d = 0.1 * world.discounted_state_distribution(old).numpy()
    assert schulman == pytest.approx(L - 4 * 0.9 * abs(A).max() / 0.1**2 * D.max(), rel=1e-10)
    epsilon = abs((new.numpy() * A).sum(1)).max()
    assert achiam == pytest.approx(L - 2 * 0.9 * epsilon / 0.1**2 * np.sqrt(d @ D / 2), rel=1e-10)


# -------------------------------------------------------------------------------------------------------------- solvers


def test_natural_gradient_of_a_table_is_the_advantage():
    world, start, _ = pair(3)
    natural = lesson_04.natural_gradient(world, softmax_policy, start)
    advantage = world.advantages(softmax_policy(start))
    centred = advantage - advantage.mean(-1, keepdim=True)  # what is constant in a state does nothing
    torch.testing.assert_close(natural, centred, rtol=0, atol=1e-8)


def test_copied_conjugate_gradient_shows_its_three_faults():
    matrix, g = np.diag([1.0, 10.0]), np.array([1.0, 1.0])
    np.testing.assert_allclose(lesson_04.book_conjugate_gradient(matrix, g), [1.0, 0.1], atol=1e-8)
    stopped = lesson_04.book_conjugate_gradient(matrix, 1e-6 * g)
    guarded = lesson_04.book_conjugate_gradient(matrix, 1e-6 * g, tolerance=0, guard=1e-8)
    assert lesson_04.angle_between(stopped, g) < 1e-6 and lesson_04.angle_between(guarded, g) < 1
    with np.errstate(invalid="ignore"):
        assert np.isnan(lesson_04.book_conjugate_gradient(matrix, np.zeros(2))).all()


def test_small_helpers():
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(np.linalg.eigvalsh(lesson_04.spd_matrix(rng, np.array([1.0, 2.0, 5.0]))), [1, 2, 5], rtol=1e-12)
    assert lesson_04.angle_between([1, 0], [0, 2]) == pytest.approx(90) and lesson_04.angle_between([1, 1], [2, 2]) < 1e-10
    lock = lesson_04.combination_lock(length=3, num_actions=2, gamma=0.5)
    assert lock.optimal_values()[0] == pytest.approx(0.25 / 0.5)  # two steps to the last state, then 1 for ever


# ---------------------------------------------------------------------------------------------------------- the widget


@pytest.mark.parametrize("max_kl", [1e-4, 0.03, 1.0])
def test_contours_lie_at_the_limit(max_kl):
    limit = lesson_04.kl_limit(max_kl, 0.0, 2)
    kl = lesson_04.mean_kl_from_start(torch.tensor(limit.kl_contour))
    np.testing.assert_allclose(kl, max_kl, rtol=1e-4)
    fisher = finite_difference_gradient(
        lambda x: finite_difference_gradient(lesson_04.mean_kl_from_start, x, h=1e-4), theta(*lesson_04.START), h=1e-4
    )
    for points in (limit.ellipse, limit.natural[None], limit.gradient[None]):
        x = points - np.array(lesson_04.START)
        np.testing.assert_allclose(0.5 * (x @ fisher.numpy() * x).sum(1), max_kl, rtol=1e-5)


def test_natural_step_gains_most_of_all_points_on_the_ellipse():
    limit, start = lesson_04.kl_limit(0.01, 0.0, 2), theta(*lesson_04.START)
    slope = finite_difference_gradient(lesson_04.reward_per_step, start).numpy()
    gain = lambda point: float(slope @ (point - start.numpy()))  # noqa: E731
    best = max(map(gain, limit.ellipse))
    assert best <= gain(limit.natural) * (1 + 1e-9) and best > 0.999 * gain(limit.natural) > gain(limit.gradient)


def test_one_iteration_is_the_plain_gradient_and_damping_shortens():
    one = lesson_04.kl_limit(0.01, 0.0, 1)
    np.testing.assert_allclose(one.natural, one.gradient, atol=1e-9)
    assert lesson_04.kl_limit(0.01, 0.1, 2).kl < 0.9 * lesson_04.kl_limit(0.01, 0.0, 2).kl


def test_line_search_points():
    for max_kl in (1e-3, 0.03, 0.1, 0.3, 1.0):
        limit = lesson_04.kl_limit(max_kl, 0.0, 2)
        kl = lesson_04.mean_kl_from_start(torch.tensor(limit.candidates))
        assert len(kl) == limit.accepted + 1 and kl[-1] <= max_kl and (kl[:-1] > max_kl).all()
    assert limit.accepted == 0 and limit.gain < -5 and limit.surrogate_gains[-1] > 0.2  # the disaster at δ = 1


def test_widget_is_sound_everywhere_and_fast():
    parts = ("title", "compute", "draw", "describe", "controls", "size")
    assert View(**{name: lesson_04.LIMIT[name] for name in parts}).trouble() == []
    started = time.process_time()
    for step in range(10):
        lesson_04.kl_limit(0.01 + 0.01 * step, 0.0, 2)
    assert (time.process_time() - started) / 10 < 0.05


def test_stored_settings_are_those_of_the_study_note():
    cartpole, pendulum = lesson_04.BOOK_CARTPOLE, lesson_04.BOOK_PENDULUM
    assert (cartpole.max_kl, cartpole.gamma, pendulum.max_kl, pendulum.cg_damping) == (5e-4, 0.98, 5e-5, 0.1)
    env = lesson_04.book_pendulum()
    env.reset(seed=0)
    plain = env.unwrapped
    state = plain.state.copy()
    _, scaled, *_ = env.step(np.array([0.5], np.float32))
    plain.state = state
    assert scaled == pytest.approx((plain.step(np.array([0.5], np.float32))[1] + 8) / 8)
    assert lesson_04.book_cartpole().spec.max_episode_steps == 200


def test_what_the_lesson_says_of_the_stored_runs():
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(LESSON.read_text(encoding="utf-8"))["cells"]}
    text = cells["04-train-book-text"].replace("−", "-")
    with np.load(data_path("04_book_settings.npz")) as file:
        assert "tools/make_data.py lesson_04" in json.loads(str(file["facts"]))["command"]
        for name, settings, steps in (
            ("cartpole", lesson_04.BOOK_CARTPOLE, 100_000),
            ("pendulum", lesson_04.BOOK_PENDULUM, 400_000),
        ):
            last = file[f"{name}_mean_return"][:, -1]
            assert f"after {steps:,} steps" in text and (file[f"{name}_env_steps"][:, -1] == steps).all()
            assert f"between {last.min():.0f} and {last.max():.0f}" in text and f"(median {np.median(last):.0f}" in text
            assert (file[f"{name}_largest_kl"] <= settings.max_kl).all() and (file[f"{name}_refused"] == 0).all()
