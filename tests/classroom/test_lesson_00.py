"""Lesson 00: what its pictures and widgets compute, by other routes; its pictures at all ends of their controls."""

import contextlib
import os
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

from rlcourse import discounted_returns
from rlcourse.classroom import explore, layout_faults, three_settings
from rlcourse.classroom import lesson_00 as lesson
from rlcourse.worlds.probes import TruncatedForever

DISCOUNT = dict(title="discount", compute=lesson.discount_weights, draw=lesson.draw_discount, describe=lesson.describe_discount,
                controls=lesson.DISCOUNT_CONTROLS)  # fmt: skip
CLOCK = dict(title="clock", compute=lesson.clock_cost, draw=lesson.draw_clock, describe=lesson.describe_clock,
             controls=lesson.CLOCK_CONTROLS)  # fmt: skip


def test_versions_name_every_package():
    lines = lesson.versions().splitlines()
    assert [line.split()[0] for line in lines] == ["Python", *lesson.PACKAGES]
    assert all(line.split()[1][0].isdigit() for line in lines)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_discount_weights(gamma):
    data = lesson.discount_weights(gamma)
    exact = [Fraction(gamma) ** t for t in range(101)]
    np.testing.assert_allclose(data["weights"], [float(w) for w in exact], rtol=1e-13)
    assert abs(data["total"] - sum(gamma**t for t in range(5000))) < 1e-9
    assert lesson.discount_weights(0.5)["weights"][:3].tolist() == [1, 0.5, 0.25]


@pytest.mark.parametrize("gamma", np.round(np.arange(0.5, 0.995, 0.01), 2))
def test_the_sentence_about_the_discount_is_true(gamma):
    words = lesson.describe_discount(lesson.discount_weights(gamma), gamma).split()
    steps = int(words[words.index("rewards") + 1])
    assert gamma**steps < 0.01 <= gamma ** (steps - 1)


@pytest.mark.parametrize("gamma, horizon", [(0.9, 10), (0.99, 200), (0.999, 500), (0.0, 3)])
def test_clock_cost_against_returns_with_and_without_bootstrap(gamma, horizon):
    """The share is confused return / true return, both by the backward recursion; the true one is the same at every step."""
    value = TruncatedForever().values(gamma)[0]
    rewards, ends = np.ones(horizon), np.arange(horizon) == horizon - 1
    confused = discounted_returns(rewards, gamma, ends=ends, bootstrap=np.zeros(horizon))
    true = discounted_returns(rewards, gamma, ends=ends, bootstrap=np.full(horizon, value))
    np.testing.assert_allclose(true, value, rtol=1e-12)
    data = lesson.clock_cost(gamma, horizon)
    np.testing.assert_allclose(data["share"], confused / true, rtol=1e-9)
    closed = 1 - gamma * (1 - gamma**horizon) / (horizon * (1 - gamma))
    assert abs(data["mean"] - closed) < 1e-12 and data["horizon"] == horizon


def test_clock_cost_by_hand():
    np.testing.assert_allclose(lesson.clock_cost(0.5, 2)["share"], [0.75, 0.5])
    words = lesson.describe_clock(lesson.clock_cost(0.5, 2), 0.5, 2)
    assert words == "75 % of the value is left at the first step, 50 % at the last, 62.5 % on average."


def test_answers_given_in_the_text():
    """1 % at the last step, less than 1 % lost at the first from 459 steps on, for γ = 0.99."""
    assert abs(lesson.clock_cost(0.99, 200)["share"][-1] - 0.01) < 1e-12
    assert lesson.clock_cost(0.99, 459)["share"][0] > 0.99 > lesson.clock_cost(0.99, 458)["share"][0]


# ---------------------------------------------------------------- film


def test_film_shows_what_gymnasium_shows():
    """Frames drawn afterwards from kept states equal those drawn during play."""
    frames = lesson.film(lambda obs: 1, seed=3, count=4)
    assert [step for step, _ in frames] == [0, 3, 7, 10]
    with lesson.no_window(), contextlib.closing(gymnasium.make("CartPole-v1", render_mode="rgb_array")) as env:
        env.reset(seed=3)
        seen = [env.render()]
        for _ in range(10):
            seen.append(env.step(1)[2] or env.render())
        seen[-1] = env.render()
    for step, frame in frames:
        np.testing.assert_array_equal(frame, seen[step])


def test_no_window_puts_everything_back(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "before")
    monkeypatch.delenv("PYGAME_HIDE_SUPPORT_PROMPT", raising=False)
    with pytest.raises(ZeroDivisionError), lesson.no_window():
        assert os.environ["SDL_VIDEODRIVER"] == "dummy"
        raise ZeroDivisionError
    assert os.environ["SDL_VIDEODRIVER"] == "before" and "PYGAME_HIDE_SUPPORT_PROMPT" not in os.environ


# ---------------------------------------------------------------- pictures


def test_pictures_have_no_clipped_or_overlapping_labels():
    strip = lesson.film(lambda obs: 0, seed=1)
    pictures = [lesson.course_map(), lesson.filmstrip({"a title that is wider than one frame": strip, "b": strip}),
                lesson.chain_picture({"one": np.arange(5), "two": np.arange(5) + 5.0})]  # fmt: skip
    assert [layout_faults(fig) for fig in pictures] == [[], [], []]


def test_the_map_leads_everywhere_from_here():
    reached = {"00"}
    for _ in lesson.LESSONS:
        reached |= {end for start, end in lesson.ARROWS if start in reached}
    assert reached == set(lesson.LESSONS) == {f"{n:02d}" for n in range(9)}
    assert all(start < end for start, end in lesson.ARROWS)


@pytest.mark.parametrize("widget", [DISCOUNT, CLOCK], ids=["discount", "clock"])
def test_widgets_at_the_ends_of_their_sliders(widget):
    assert explore(**widget).view.trouble() == []


def test_static_figures():
    assert "γ = 0.50" in three_settings([{"gamma": 0.5}, {"gamma": 0.9}, {"gamma": 0.99}], **DISCOUNT).alt
    assert "57.1 % on average" in three_settings([{"horizon": 10}, {"horizon": 100}, {"horizon": 200}], **CLOCK).alt
