"""What lesson 01 computes for its pictures and widgets, and that its figures draw."""

import numpy as np
import pytest
import torch

from rlcourse.classroom import explore, layout_faults, lesson_01, new_figure, three_settings
from rlcourse.worlds import tabular


def test_corridor_formulas_agree_with_the_world():
    p = torch.linspace(0.05, 0.95, 19, dtype=torch.float64)
    theta = torch.logit(p)[:, None]
    corridor = tabular.short_corridor()
    exact = corridor.expected_return(tabular.corridor_policy(theta))
    np.testing.assert_allclose(lesson_01.corridor_return(p.numpy()), exact, atol=1e-10)
    slopes = [tabular.autograd_policy_gradient(corridor, tabular.corridor_policy, row).item() for row in theta]
    np.testing.assert_allclose(lesson_01.corridor_slope(p.numpy()), slopes, atol=1e-10)
    assert lesson_01.BEST_J == pytest.approx(lesson_01.corridor_return(lesson_01.BEST_P), abs=1e-12)


@pytest.mark.parametrize("gamma", [0.3, 0.5, 0.9, 1.0])
def test_discount_trap_by_hand(gamma):
    """J = gamma p / 2, and without gamma^t the field is (1.5 gamma - 1) dp/dtheta."""
    trap = lesson_01.discount_trap(gamma)
    theta = torch.tensor([0.4], dtype=torch.float64)
    p = torch.sigmoid(theta)
    slope = p * (1 - p)
    same = tabular.corridor_policy
    torch.testing.assert_close(trap.expected_return(same(theta)), (gamma * p * 0.5)[0])
    torch.testing.assert_close(tabular.exact_policy_gradient(trap, same, theta), gamma * 0.5 * slope)
    torch.testing.assert_close(tabular.dropped_discount_gradient(trap, same, theta), (1.5 * gamma - 1) * slope)


def test_trajectory_names_tell_episodes_apart():
    world = tabular.random_mdp(np.random.default_rng(0), 4, 2, end_probability=0.2, forward_only=True)
    every, _ = tabular.enumerate_trajectories(world, torch.full((4, 2), 0.5))
    names = lesson_01.trajectory_names(every, 4, 2)
    spelled = {tuple(zip(one.state, one.action, strict=True)) for one in map(every.one, range(len(names)))}
    assert len(set(names)) == len(names) == len(spelled)


def test_noise_of_baselines_against_a_scan():
    rng = np.random.default_rng(1)
    world = tabular.random_mdp(rng, 3, 2, gamma=0.8, end_probability=0.2, forward_only=True)
    theta = torch.tensor(rng.standard_normal((3, 2)))
    every, probability = tabular.enumerate_trajectories(world, tabular.softmax_policy(theta))
    score = tabular.score_table(tabular.softmax_policy, theta)

    def noise(table):
        weight = 0.8**every.time * (every.returns_to_go(0.8) - np.asarray(table)[every.state])
        estimates = tabular.gradient_estimates(every, weight, score).reshape(len(probability), -1)
        centre = probability.numpy() @ estimates
        return probability.numpy() @ ((estimates - centre) ** 2).sum(1)

    none, constant, value, best = lesson_01.noise_of_baselines(world, theta)
    assert none == pytest.approx(noise(np.zeros(3)))
    assert value == pytest.approx(noise(world.values(tabular.softmax_policy(theta))))
    scan = [noise(np.full(3, b)) for b in np.linspace(-3, 3, 601)]
    assert constant <= min(scan) <= constant + 1e-4
    tables = rng.uniform(-3, 3, (2000, 3))
    assert best <= min(noise(table) for table in tables)
    assert best <= min(none, constant, value)


def test_angle_between():
    assert lesson_01.angle_between([1, 0], [0, 2]) == pytest.approx(90)
    assert lesson_01.angle_between([1.0, 1.0], [-3.0, -3.0]) == pytest.approx(180)


def test_loop_gain_is_the_area_of_the_loop_for_a_turning_field_and_zero_for_a_gradient():
    centre = torch.tensor([[0.3, -0.2], [1.0, 0.0]], dtype=torch.float64)

    def turning(theta):  # (-y, x) in the plane of components 0 and 3: curl 2, so 2 pi r^2 per loop
        x, y = theta.flatten()[0], theta.flatten()[3]
        return torch.stack([-y, 0 * x, 0 * x, x])

    assert lesson_01.loop_gain(turning, centre, 0, 3, radius=0.7) == pytest.approx(2 * np.pi * 0.49, abs=1e-12)
    assert lesson_01.loop_gain(lambda theta: theta.exp(), centre, 0, 3) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("weighted_by", ["return to go", "whole return"])
def test_gradient_cloud(weighted_by):
    theta = torch.zeros(2, dtype=torch.float64)
    exact = tabular.autograd_policy_gradient(tabular.short_corridor(), lesson_01.two_knobs, theta)
    np.testing.assert_allclose(exact, [8, -6], atol=1e-10)
    for baseline, batch_size in ((0.0, 1), (-16.0, 8), (5.0, 64)):
        cloud = lesson_01.gradient_cloud(baseline, batch_size, weighted_by)
        np.testing.assert_allclose(cloud.exact, exact, atol=1e-10)
        assert cloud.bias < 3 * cloud.bias_error
        predicted = np.interp(baseline, cloud.baselines, cloud.noises)
        assert cloud.noise == pytest.approx(predicted, rel=0.4)
    assert abs(cloud.baselines[cloud.noises.argmin()] - cloud.best_baseline) <= 0.5


def test_gradient_cloud_from_one_episode_is_the_formula():
    """The first estimate at batch size 1, worked step by step."""
    theta = torch.zeros(2, dtype=torch.float64)
    episodes = tabular.sample_trajectories(tabular.short_corridor(), lesson_01.two_knobs(theta),
                                           lesson_01.CLOUD_SIZE * lesson_01.LARGEST_BATCH, np.random.default_rng(0))
    one = episodes.one(0)
    length = len(one.time)
    by_hand = np.zeros(2)
    for t, (state, action) in enumerate(zip(one.state, one.action, strict=True)):
        by_hand[int(state == 1)] += (t - length + 3.0) * (action - 0.5)  # return to go t - length, baseline -3
    np.testing.assert_allclose(lesson_01.gradient_cloud(-3.0, 1, "return to go").estimates[0], by_hand, atol=1e-12)


def test_ascent_walk_follows_the_slope_to_the_top():
    walk = lesson_01.ascent_walk(0.3, 0.03, 0)
    theta = np.log(0.3 / 0.7)
    for k in range(3):
        p = 1 / (1 + np.exp(-theta))
        assert walk.p[k, 0] == pytest.approx(p, abs=1e-12)
        theta += 0.03 * lesson_01.corridor_slope(p)
    assert walk.p.shape == (lesson_01.NUM_UPDATES + 1, 1) and walk.lost == 0
    assert lesson_01.BEST_J - walk.expected_return[-1, 0] < 0.01
    assert lesson_01.ascent_walk(0.05, 0.1, 0).lost == 1


def test_ascent_walk_from_play_goes_the_right_way_on_average():
    walk = lesson_01.ascent_walk(0.2, 0.01, 100)
    assert walk.p.shape[1] == lesson_01.NUM_WALKERS and walk.lost == 0
    expected = np.log(0.2 / 0.8) + 0.01 * lesson_01.corridor_slope(0.2)
    assert np.log(walk.p[1] / (1 - walk.p[1])).mean() == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("widget", ["CLOUD", "WALK"])
def test_widgets_draw_at_their_ends_and_sentences_are_whole(widget):
    parts = getattr(lesson_01, widget)
    explorer = explore(**parts)
    for name, control in parts["controls"].items():
        values = [control.low, control.high] if hasattr(control, "low") else [value for _, value in control.options]
        for value in values:
            explorer.set(**{name: value})
            assert "No picture" not in explorer.line.value and "nan" not in explorer.line.value
    explorer.close()


def test_stills_and_the_first_picture_draw():
    three_settings([{"baseline": 0.0}, {"baseline": -16.0}, {"batch_size": 32}], **lesson_01.CLOUD_STILL)
    three_settings([{"start_p": 0.3}, {"start_p": 0.05}, {"episodes": 10}], **lesson_01.WALK_STILL)
    fig, (left, right) = new_figure(1, 2)
    lesson_01.draw_corridor(left)
    lesson_01.draw_slopes(right, [(0.0, 2.0)])
    assert layout_faults(fig) == []
