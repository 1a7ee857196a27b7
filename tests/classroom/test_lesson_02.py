"""What lesson 02 computes for its pictures and widgets, its stored sweep, and that its text agrees with both."""

import json
import re
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from rlcourse import VPG, explained_variance, make_env, normalize_advantages
from rlcourse.agents import vpg
from rlcourse.agents.rollout import Episodes, collect
from rlcourse.agents.runs import Runs
from rlcourse.classroom import explore, layout_faults, lesson_02
from rlcourse.classroom.data import DATA, data_path
from rlcourse.worlds import tabular

COIN = torch.full((9, 2), 0.5, dtype=torch.float64)
THETA = torch.zeros(9, 2, dtype=torch.float64)
NOTEBOOK = DATA.parent / "02_vanilla_policy_gradient.ipynb"


def prose():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


# ------------------------------------------------------------------------------------------------------------------ worlds


def fall_time(rng):
    """One episode of the tiny pole, played by its rules in words; a coin for a policy."""
    tilt, steps = 0, 0
    while True:
        steps += 1
        push = rng.choice((-1, 1)) * (1 if rng.random() < 0.8 else -1)
        fall = np.sign(tilt) if rng.random() < 0.06 * abs(tilt) else 0
        tilt += push + fall
        if abs(tilt) > 4 or rng.random() < 0.02:
            return steps


def test_tiny_pole_is_the_game_in_its_docstring():
    world, rng = lesson_02.tiny_pole(), np.random.default_rng(0)
    times = np.array([fall_time(rng) for _ in range(4000)])
    assert abs(times.mean() - world.expected_return(COIN)) < 4 * times.std() / np.sqrt(len(times))
    assert world.transition[4, 1, 5] == pytest.approx(0.98 * 0.8)
    assert world.transition[8, 0, 8] == pytest.approx(0.98 * 0.8 * 0.24)  # pushed back from the edge, but it falls on
    assert 1 - world.transition[8, 1].sum() == pytest.approx(1 - 0.98 * 0.2)  # pushed over the edge, or the clock
    assert round(float(world.optimal_values()[4])) == 42 and round(float(world.expected_return(COIN))) == 14


def test_a_loan_cancels_and_return_to_go_is_noisier():
    bank = lesson_02.loan(10.0)
    every, probability = tabular.enumerate_trajectories(bank, torch.full((3, 2), 0.5))
    assert sorted(every.returns(1.0)) == [0, 0, 1, 1]
    score = tabular.score_table(tabular.softmax_policy, torch.zeros(3, 2, dtype=torch.float64))

    def noise(weight):
        g = tabular.gradient_estimates(every, weight, score).reshape(4, -1)
        mean = probability.numpy() @ g
        return probability.numpy() @ ((g - mean) ** 2).sum(1) / (mean @ mean)

    weights = every.returns(1.0)[every.episode], every.returns_to_go(1.0)
    # scores are ±1/2 in two components, so ‖g‖² is half the sum of the squared weights; the gradient is ±1/8 in four components
    by_hand = [np.mean([np.sum(w[every.episode == n] ** 2) for n in range(4)]) / 2 / (4 / 64) - 1 for w in weights]
    assert [noise(w) for w in weights] == pytest.approx(by_hand)
    assert noise(weights[1]) > 50 * noise(weights[0])


# ------------------------------------------------------------------------------------------------------ estimates of a gradient


def test_quality_of_estimates_with_known_moments():
    rng = np.random.default_rng(0)
    exact = np.array([3.0, 0.0, 4.0])
    estimates = rng.multivariate_normal(exact, np.diag([4.0, 9.0, 12.0]), size=200_000)
    measured = lesson_02.quality(estimates, exact)
    assert measured.noise == pytest.approx(25 / 25, rel=0.02)
    assert measured.angle < 4 * measured.by_chance < 1
    spread = np.sqrt((9 * 4 + 16 * 12) / 25)  # standard deviation along the exact direction, mean 5
    assert measured.uphill == pytest.approx(norm.cdf(5 / spread), abs=0.01)
    scaled = lesson_02.quality(1000 * estimates, exact)
    assert (scaled.noise, scaled.angle, scaled.uphill) == pytest.approx((measured.noise, measured.angle, measured.uphill))
    turned = lesson_02.quality(estimates - exact + [4.0, 0.0, -3.0], exact)
    assert turned.angle == pytest.approx(90, abs=1)


def test_normalising_per_batch_is_the_packages_normalisation_of_each_batch():
    rng = np.random.default_rng(0)
    batch, weight = rng.permutation(np.repeat(np.arange(5), 7)), rng.standard_normal(35) * 3 + 1
    for number in range(5):
        one = batch == number
        by_batch = lesson_02.normalize_per_batch(weight, batch)[one]
        np.testing.assert_allclose(by_batch, normalize_advantages(weight[one]), atol=1e-12)


def test_batch_gradients_by_hand():
    played = tabular.sample_trajectories(lesson_02.tiny_pole(), COIN, 6, np.random.default_rng(0))
    weight = np.arange(len(played.state), dtype=float)
    by_hand = np.zeros((2, 9, 2))
    for state, action, w, episode in zip(played.state, played.action, weight, played.episode, strict=True):
        by_hand[episode // 3, state, action] += w / 2 / 3  # the score of a coin: +1/2 for the action taken, −1/2 for the other
        by_hand[episode // 3, state, 1 - action] -= w / 2 / 3
    score = tabular.score_table(tabular.softmax_policy, THETA)
    np.testing.assert_allclose(lesson_02.batch_gradients(played, weight, score, 2), by_hand.reshape(2, 18), atol=1e-9)


def test_first_look_shows_what_the_text_says():
    raw, weighted, exact = lesson_02.first_look()
    assert raw.shape == weighted.shape == (250, 18)
    assert lesson_02.quality(raw, exact).uphill < 0.7 < 0.97 < lesson_02.quality(weighted, exact).uphill
    assert layout_faults(lesson_02.clouds_figure({"a": raw, "b": weighted}, exact)) == []


def test_a_cut_without_bootstrap_by_hand_and_with_the_exact_value():
    gamma, world = 0.9, lesson_02.tiny_pole(0.9)
    uncut, value = lesson_02.field_without_cut(gamma, THETA), world.values(COIN)
    for steps in (1, 3, 20):
        np.testing.assert_allclose(lesson_02.cut_gradient(gamma, THETA, steps, value), uncut, atol=1e-12)
    # two steps left: the pay is 1 + gamma · survival, and only survival depends on the action; one step left: nothing does
    visits, survive = world.state_visits(COIN), world.transition.sum(-1)
    by_hand = (visits / visits.sum() / 2)[:, None] * 0.25 * gamma * (survive - survive.flip(1))
    nothing = torch.zeros(9, dtype=torch.float64)
    np.testing.assert_allclose(lesson_02.cut_gradient(gamma, THETA, 2, nothing), by_hand.numpy().ravel(), atol=1e-12)


def test_without_discount_the_uncut_field_is_the_gradient_per_step():
    world = lesson_02.tiny_pole()
    differences = tabular.finite_difference_gradient(lambda x: world.expected_return(tabular.softmax_policy(x)), THETA)
    per_step = differences / world.state_visits(COIN).sum()
    np.testing.assert_allclose(lesson_02.field_without_cut(1.0, THETA), per_step.numpy().ravel(), atol=1e-8)


def test_exact_ascent_climbs_by_the_squared_gradient():
    value, loss = lesson_02.exact_ascent(num_updates=2, step_size=1e-5)
    world = lesson_02.tiny_pole()
    gradient = tabular.exact_policy_gradient(world, tabular.softmax_policy, THETA)
    assert value[0] == pytest.approx(float(world.expected_return(COIN)))
    assert value[1] - value[0] == pytest.approx(1e-5 * float((gradient**2).sum() / world.state_visits(COIN).sum()), rel=1e-4)
    assert loss[0] == pytest.approx(0, abs=1e-12)  # log π is the same everywhere and the mean advantage is 0


# --------------------------------------------------------------------------------------------------------------------- the trap


def test_trap_runs_take_the_steps_of_the_formula():
    rng = np.random.default_rng(7)
    x, path = np.zeros(3), [np.full(3, 0.5)]
    for _ in range(4):
        p = 1 / (1 + np.exp(-x))
        chance, luck = rng.random((2, 2, 3))
        step = np.zeros(3)
        for play, run in product(range(2), range(3)):
            ticket = chance[play, run] < p[run]
            reward = (10.0 if luck[play, run] < 0.2 else 0.0) if ticket else 1.0
            step[run] += ((1 if ticket else 0) - p[run]) * (reward - (1 + p[run])) / 2
        x = x + 0.7 * step
        path.append(1 / (1 + np.exp(-x)))
    runs = lesson_02.trap_runs(0.7, True, batch_size=2, num_runs=3, num_updates=4, seed=7)
    np.testing.assert_allclose(runs, path, rtol=1e-12)
    several = lesson_02.trap_runs([0.1, 0.7], True, batch_size=2, num_runs=3, num_updates=4, seed=7)
    np.testing.assert_allclose(several[:, 1], runs, rtol=1e-12)


@pytest.mark.parametrize("baseline", [True, False])
def test_the_law_against_all_paths(baseline):
    """Seven updates have 3^7 histories: their probabilities, summed over those that end locked in."""

    def locked(x, probability, left):
        p = 1 / (1 + np.exp(-x))
        if left == 0:
            return probability * (p < lesson_02.LOCKED)
        b = 1 + p if baseline else 0.0
        outcomes = [(1 - p, -p * (1 - b)), (p * 0.8, (1 - p) * -b), (p * 0.2, (1 - p) * (10 - b))]
        return sum(locked(x + 1.5 * step, probability * chance, left - 1) for chance, step in outcomes)

    assert lesson_02.trap_law(1.5, baseline, num_updates=7, cell=0.001) == pytest.approx(locked(0.0, 1.0, 7), abs=5e-3)


@pytest.mark.parametrize("baseline", [True, False])
def test_the_law_against_many_runs(baseline):
    share = (lesson_02.trap_runs(1.0, baseline, num_runs=4000, seed=3)[-1] < lesson_02.LOCKED).mean()
    law = lesson_02.trap_law(1.0, baseline)
    assert abs(share - law) < 4 * np.sqrt(law * (1 - law) / 4000)


def test_shares_of_the_trap_add_up():
    shares = lesson_02.trap(1.0, False, 4).shares
    np.testing.assert_allclose(shares.sum(0), 1)
    assert shares[1, 0] == 1


# ------------------------------------------------------------------------------------------------------ networks, and the ladder


@pytest.fixture
def rollout():
    world = make_env("CartPole-v1", 6)
    agent = Runs(4, world.action_space, (8, 5), [0, 1], torch.float64)
    return agent, collect(agent, world, world.reset(), 60, Episodes(2, 3))[0]


def test_a_plain_network_computes_what_the_run_computes(rollout):
    agent, rollout = rollout
    split, obs = agent.num_policy_parameters, rollout.obs[:, 1]
    policy = lesson_02.as_network(agent.parameters[1, :split], (4, 8, 5, 2))
    critic = lesson_02.as_network(agent.parameters[1, split:], (4, 8, 5, 1))
    both = rollout.obs.transpose(0, 1).flatten(1, 2)
    torch.testing.assert_close(policy(obs).flatten(0, 1), agent.policy(both).logits[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(critic(obs).flatten(), agent.value(both)[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(lesson_02.as_parameters(policy, critic), agent.parameters[1].detach(), rtol=0, atol=0)
    with pytest.raises(ValueError, match="parameters"):
        lesson_02.as_network(agent.parameters[1], (4, 8, 5, 2))


def test_earned_before_is_the_rest_of_the_episodes_return(rollout):
    _, rollout = rollout
    earned = lesson_02.earned_before(rollout)
    ended = rollout.terminated | rollout.truncated
    assert ended.any()
    for r, n in product(range(2), range(3)):
        start = 0
        for t in range(60):
            assert earned[t, r, n] == rollout.reward[start:t, r, n].sum()
            start = t + 1 if ended[t, r, n] else start


def test_no_baseline_weighs_by_the_return_to_go(rollout):
    _, rollout = rollout
    advantage, target = VPG(gamma=0.9).advantages(rollout)
    weight, same = lesson_02.ReturnToGo(gamma=0.9).advantages(rollout)
    np.testing.assert_allclose(weight, advantage + rollout.value)
    np.testing.assert_array_equal(same, target)
    whole, _ = lesson_02.TotalReturn(gamma=0.9).advantages(rollout)
    np.testing.assert_allclose(whole, weight + lesson_02.earned_before(rollout))


# ---------------------------------------------------------------------------------------------------- pictures and widgets


@pytest.mark.parametrize("widget", [lesson_02.TRAP, lesson_02.SWEEP], ids=["trap", "sweep"])
def test_widgets_at_the_ends_of_their_controls(widget):
    view = explore(**widget)
    for ends in product(*([control.around(control.value, 1)[-1], control.value] for control in widget["controls"].values())):
        view.set(**dict(zip(widget["controls"], ends, strict=True)))
        assert 'role="alert"' not in view.line.value
    assert layout_faults(view.view.fig) == []


def test_what_the_trap_widget_says():
    data = lesson_02.trap(10.0, True, 1)
    locked = int((data.p[-1] < 0.05).sum())
    assert f"{locked} of 100 runs are locked" in lesson_02.describe_trap(data, 10.0, True, 1)


def test_what_the_folded_answers_say_about_the_trap():
    settings = [(1, 1, 1), (1, 0, 1), (3, 1, 1), (3, 1, 16)]  # step size, baseline, plays per update
    locked = {setting: lesson_02.trap(*setting).shares[2, -1] for setting in settings}
    assert locked[1, 0, 1] > locked[1, 1, 1]
    assert f"from {100 * locked[3, 1, 1]:.0f} runs to none" in prose() and locked[3, 1, 16] == 0


# ------------------------------------------------------------------------------------------------------------ the stored sweep


@pytest.mark.parametrize("name", lesson_02.DATA)
def test_a_stored_file_says_how_it_was_made_and_the_text_agrees(name):
    facts = lesson_02.load_sweep()[2] if name == lesson_02.SWEEP_FILE else lesson_02.load_ladder()[1]
    assert facts["command"] == f"python tools/make_data.py lesson_02 {name}"
    assert f"`{facts['command'].removesuffix(f' {name}')}`" in prose() and f"`notebooks/data/{name}`" in prose()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"]) and {"python", "torch", "numpy", "gymnasium"} <= set(facts["versions"])
    assert data_path(name).stat().st_size < 100_000


def test_the_sweep_has_the_shape_that_the_widget_expects():
    returns, steps, _ = lesson_02.load_sweep()
    assert returns.shape == (2, 2, 3, 6, 8, 40) and steps[-1] == lesson_02.SWEEP_STEPS
    assert returns.min() >= 8 and returns.max() <= 500


def test_the_text_quotes_the_stored_ladder():
    final, _ = lesson_02.load_ladder()
    medians = [f"{np.median(seeds):.0f}" for seeds in final.values()]
    assert len(final["total return"]) == 60
    assert f"{', '.join(medians[:-1])} and {medians[-1]}" in prose()


def test_the_widget_shows_what_is_stored():
    returns, *_ = lesson_02.load_sweep()
    one = lesson_02.sweep(rate=3, batch=2, baseline=False, normalize=True)
    np.testing.assert_array_equal(one.curves, returns[0, 1, 2, 3])
    np.testing.assert_array_equal(one.final, returns[:, 1, 2, :, :, -1])
    assert f"median of 8 seeds is {np.median(one.curves[:, -1]):.0f}" in lesson_02.describe_sweep(one, 3, 2, False, True)


def test_the_pseudocode_table_quotes_the_package():
    source = " ".join(open(vpg.__file__, encoding="utf-8").read().split())
    rows = re.findall(r"^\| \d+ \|.*\| `([^`]*)` \|$", prose(), re.M)
    assert len(rows) >= 9
    for line in rows:
        assert " ".join(line.split()) in source, line


def test_the_ceiling_of_explained_variance_that_the_text_states():
    world = lesson_02.tiny_pole(0.9)
    played = tabular.sample_trajectories(world, COIN, 20_000, np.random.default_rng(1))
    ceiling = explained_variance(world.values(COIN).numpy()[played.state], played.returns_to_go(0.9))
    assert f"here {ceiling:.2f}." in prose()


def test_smoothing_averages_stretches_and_leaves_nan_out():
    values = np.array([[1.0, 3.0, np.nan, 5.0, np.nan, np.nan]])
    np.testing.assert_allclose(lesson_02.smoothed(values, 3), [[2.0, 5.0, np.nan]])
    np.testing.assert_allclose(lesson_02.smoothed(values), values)


def test_figures_have_room_for_their_texts():
    steps = np.tile(np.arange(30) * 1e3, (5, 1))
    history = {"mean_return": np.random.default_rng(0).uniform(20, 500, (5, 30)), "env_steps": steps}
    names = ("total return", "return-to-go", "discount", "value baseline", "normalised")
    assert layout_faults(lesson_02.ladder_curves_figure({name: SimpleNamespace(history=history) for name in names})) == []
    assert layout_faults(lesson_02.ladder_figure({name: lesson_02.Quality(5.0, 8.0, 2.0, 0.9) for name in names})) == []


def test_the_numbers_that_the_folded_answers_quote():
    returns, *_ = lesson_02.load_sweep()
    final = returns[..., -1]  # baseline, normalise, batch, rate, seed
    start, without, rescued = final[1, 0, 1, 2], final[0, 0, 1, 2], final[0, 1, 1, 2]
    large, small = final[1, 0, 2, 2], final[1, 0, 0, 2]
    for quoted in (
        f"the median falls from {np.median(start):.0f} to {np.median(without):.0f}",
        f"the worst seed from {start.min():.0f} to {without.min():.0f}",
        f"ends at {np.median(large):.0f}",
        f"a median of {np.median(small):.0f}, and its worst seed has {small.min():.0f}",
        f"from {np.median(without):.0f} to {np.median(rescued):.0f}",
    ):
        assert quoted in prose(), quoted
    best = [lesson_02.RATES[row.argmax()] for row in np.median(final[1, 0], -1)]
    assert f"{best[0]:g}, {best[1]:g} and {best[2]:g}" in prose()
    assert final[:, :, :, 5].min() < 10
