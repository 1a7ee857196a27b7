import asyncio
import gc
import re
import threading
import time
import weakref

import ipywidgets
import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from rlcourse.classroom import choice, explore, new_figure, slider, three_settings, toggle

STEPS = np.arange(20)


class Calls:
    """compute, draw and describe that count how often they run."""

    def __init__(self):
        self.computed, self.updated = [], 0

    def compute(self, gae_lambda, shape, log=False):
        self.computed.append(gae_lambda)
        if gae_lambda == 0.13:
            raise RuntimeError("thirteen <is> unlucky\nreally")
        return gae_lambda**STEPS if shape == "power" else np.exp(-STEPS * (1 - gae_lambda))

    def draw(self, fig):
        ax = fig.subplots()
        (line,) = ax.plot(STEPS, np.zeros(20), "o-")
        ax.set(xlabel="steps ahead", ylabel="weight (no unit)", ylim=(0, 1.05))

        def update(data):
            self.updated += 1
            line.set_ydata(data)

        return update

    @staticmethod
    def describe(data, gae_lambda, shape, log=False):
        return f"ten steps ahead the weight is {data[10]:.2f}."

    def spec(self, **more):
        controls = {
            "gae_lambda": slider(0.0, 1.0, 0.01, value=0.95, label="λ"),
            "shape": choice(["power", "exponential"], value="power", label="shape"),
        }
        return {"title": "Weights & <more>", "compute": self.compute, "draw": self.draw, "describe": self.describe} | {
            "controls": controls | more
        }


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    monkeypatch.setattr("rlcourse.classroom.explorer.DPI", 60)


@pytest.fixture
def calls():
    return Calls()


def alt(widget):
    return re.search('alt="(.*?)"', widget.picture.value)[1]


def line(widget):
    return re.sub("<.*?>", "", widget.line.value)


def test_the_sentence_names_settings_and_finding_and_is_the_alt_text(calls):
    widget = explore(**calls.spec())
    assert (
        line(widget) == alt(widget) == "Weights &amp; &lt;more&gt;, λ = 0.95, shape = power: ten steps ahead the weight is 0.60."
    )
    widget.set(gae_lambda=0.5)
    assert (
        line(widget) == alt(widget) == "Weights &amp; &lt;more&gt;, λ = 0.50, shape = power: ten steps ahead the weight is 0.00."
    )


def test_a_move_changes_the_picture_and_a_second_visit_draws_nothing(calls):
    widget = explore(**calls.spec())
    first = widget.picture.value
    widget.inputs["gae_lambda"].value = 0.5
    second, count = widget.picture.value, len(calls.computed)
    assert second != first
    widget.inputs["gae_lambda"].value = 0.95
    assert widget.picture.value == first and len(calls.computed) == count


def test_number_field_and_slider_follow_each_other(calls):
    widget = explore(**calls.spec())
    number, bar = widget.children[0].children
    bar.value = 0.3
    assert number.value == 0.3
    number.value = 0.123  # between two positions: taken as it is
    assert bar.value == 0.123 and widget.values()["gae_lambda"] == 0.123 and "λ = 0.123" in line(widget)
    number.value = 7
    assert bar.value == 1.0 and "λ = 1.00" in line(widget)


def test_reset_goes_back_with_one_picture(calls):
    widget = explore(**calls.spec())
    widget.inputs["gae_lambda"].value, widget.inputs["shape"].value = 0.2, "exponential"
    start, count = widget.view.start(), calls.updated
    widget.children[2].click()
    assert widget.values() == start and alt(widget).count("0.95") == 1 and calls.updated <= count + 1


def test_an_error_is_shown_in_red_in_place_of_the_sentence_and_goes_away(calls):
    widget = explore(**calls.spec())
    widget.inputs["gae_lambda"].value = 0.13
    assert 'role="alert"' in widget.line.value and "color:#b00020" in widget.line.value
    assert line(widget).startswith("No picture for λ = 0.13, shape = power. RuntimeError: thirteen &lt;is&gt; unlucky")
    assert alt(widget) == line(widget)
    widget.inputs["gae_lambda"].value = 0.14
    assert "alert" not in widget.line.value and "No picture" not in alt(widget)


def test_an_error_at_the_start_is_raised_in_the_cell(calls):
    with pytest.raises(RuntimeError, match="unlucky"):
        explore(**calls.spec(gae_lambda=slider(0, 1, 0.01, value=0.13, label="λ")))


def test_trouble_finds_what_goes_wrong_at_the_ends(calls):
    assert explore(**calls.spec()).view.trouble() == []
    found = explore(**calls.spec(gae_lambda=slider(0.13, 1.0, 0.01, value=0.5, label="λ"))).view.trouble()
    assert len(found) == 1 and found[0].startswith("λ = 0.13, shape = power: RuntimeError")

    def draw(fig):
        note = fig.text(0.5, 0.5, "")
        update = calls.draw(fig)
        return lambda data: (update(data), note.set_text("far too long a note " * int(4 * data[1])))

    found = explore(**calls.spec(gae_lambda=slider(0.0, 1.0, 0.01, value=0.0, label="λ")) | {"draw": draw}).view.trouble()
    assert any("λ = 1.00" in fault and "clipped" in fault for fault in found)


def test_a_bad_figure_is_refused(calls):
    def draw(fig):
        fig.text(0.5, 0.5, "over each other")
        fig.text(0.5, 0.5, "over each other")
        return calls.draw(fig)

    with pytest.raises(ValueError, match="“over each other” overlaps “over each other”"):
        explore(**calls.spec() | {"draw": draw})


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"controls": {}}, ValueError, "at least one control"),
        ({"draw": lambda fig: None}, TypeError, "draw must return the function"),
        ({"describe": lambda data, **values: " "}, ValueError, "describe must return the finding"),
    ],
)
def test_explore_refuses(calls, change, error, words):
    with pytest.raises(error, match=words):
        explore(**calls.spec() | change)


# ------------------------------------------------------------------------------------------------- the output


def test_one_output_carries_widget_and_picture_with_alt(calls, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "lesson.ipynb")
    data, metadata = explore(**calls.spec())._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert metadata["image/png"]["alt"].startswith("Weights & <more>, λ = 0.95") and metadata["image/png"]["width"] == 900
    assert data["text/plain"] == "[interactive figure: Weights & <more>]"  # no number that could differ by processor


def test_nothing_is_left_behind_after_many_moves(calls):
    gc.collect()
    before, settings = sum(type(thing) is Figure for thing in gc.get_objects()), dict(matplotlib.rcParams)
    widget = explore(**calls.spec())
    for k in range(200):
        widget.inputs["gae_lambda"].value = round(0.2 + 0.003 * k, 3)
    gc.collect()
    assert sum(type(thing) is Figure for thing in gc.get_objects()) == before + 1
    assert dict(matplotlib.rcParams) == settings and calls.updated >= 200


def test_memory_is_bounded(calls, monkeypatch):
    monkeypatch.setattr("rlcourse.classroom.explorer.REMEMBERED", 5)
    widget = explore(**calls.spec())
    for k in range(20):
        widget.inputs["gae_lambda"].value = k / 100
    assert len(widget._seen) == 5


# ----------------------------------------------------------------------------------------------- drawing ahead


def drawn_ahead(calls, move, *positions):
    """The widget after a move, when these positions were drawn."""

    async def session():
        widget = explore(**calls.spec())
        calls.computed.clear()
        move(widget)
        while any(calls.computed.count(position) < positions.count(position) for position in positions):
            await asyncio.sleep(0.02)
        return widget

    return asyncio.run(asyncio.wait_for(session(), 300))


def test_the_next_positions_in_the_direction_of_the_move_are_drawn_while_idle(calls):
    drawn_ahead(calls, lambda widget: setattr(widget.inputs["gae_lambda"], "value", 0.5), 0.5, 0.51, 0.5)
    assert calls.computed[:6] == [0.5, 0.49, 0.48, 0.47, 0.46, 0.51]
    assert calls.computed.count(0.5) == 2  # after a rest, the other control at the same λ


def test_a_picture_drawn_ahead_is_the_one_shown(calls):
    widget = drawn_ahead(calls, lambda widget: setattr(widget.inputs["gae_lambda"], "value", 0.5), 0.49, 0.48)
    count = len(calls.computed)
    widget.inputs["gae_lambda"].value = 0.49
    assert len(calls.computed) == count
    assert "λ = 0.49" in line(widget) == alt(widget)


def test_a_new_move_drops_the_old_plan(calls):
    def move(widget):
        widget.inputs["gae_lambda"].value = 0.5
        widget.inputs["gae_lambda"].value = 0.9

    drawn_ahead(calls, move, 0.91, 0.92)
    assert not {0.49, 0.48, 0.51} & set(calls.computed)


def test_errors_while_drawing_ahead_are_silent_until_the_reader_gets_there(calls):
    widget = drawn_ahead(calls, lambda widget: setattr(widget.inputs["gae_lambda"], "value", 0.15), 0.13, 0.12)
    assert "alert" not in widget.line.value
    widget.inputs["gae_lambda"].value = 0.13
    assert "unlucky" in widget.line.value


def test_slow_pictures_are_not_drawn_ahead(calls):
    def compute(gae_lambda, shape):
        time.sleep(0.25)
        return calls.compute(gae_lambda, shape)

    async def session():
        widget = explore(**calls.spec() | {"compute": compute})
        calls.computed.clear()
        widget.inputs["gae_lambda"].value = 0.5
        await asyncio.sleep(1.2)

    asyncio.run(session())
    assert len(calls.computed) == 2  # the picture itself and one attempt


def test_without_a_loop_nothing_is_drawn_ahead(calls):
    widget = explore(**calls.spec())
    calls.computed.clear()
    widget.inputs["gae_lambda"].value = 0.5
    time.sleep(0.1)
    assert calls.computed == [0.5]


def test_two_threads_may_draw(calls):
    """Moves may arrive in a thread of their own while the main one draws."""
    settings = dict(matplotlib.rcParams)
    widgets = [explore(**Calls().spec()) for _ in range(2)]
    expected = {k: None for k in range(20, 40)}
    for k in expected:
        widgets[0].set(gae_lambda=k / 100)
        expected[k] = widgets[0].picture.value
    one = explore(**Calls().spec())

    def move(start):
        for k in range(start, 40, 2):
            one._look({"gae_lambda": k / 100, "shape": "power"})

    threads = [threading.Thread(target=move, args=(start,)) for start in (20, 21)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        new_figure()[0].canvas.draw()
    for thread in threads:
        thread.join()
    assert {k: one._seen[(k / 100, "power")][0] for k in expected} == expected
    assert dict(matplotlib.rcParams) == settings


# ---------------------------------------------------------------------------------------------------- controls


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: slider(0, 1, 0.1, value=2, label="λ"), "low ≤ value ≤ high"),
        (lambda: slider(1, 0, 0.1, value=0.5, label="λ"), "low < high"),
        (lambda: slider(0, 1, 0, value=0.5, label="λ"), "step > 0"),
        (lambda: slider(0, 1, 0.1, value=float("nan"), label="λ"), "value=nan"),
        (lambda: slider(0, 1, value=0.5, label="λ", log=True), "needs low > 0"),
        (lambda: choice(["a", "b"], value="c", label="kind"), "not among the options"),
    ],
)
def test_controls_refuse(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_toggle_refuses_what_is_not_a_truth_value():
    with pytest.raises(TypeError, match="True or False"):
        toggle(value=1, label="log axis")


def test_whole_numbers_stay_whole():
    _, bar = slider(1, 50, 1, value=8, label="batch size").build("5em")
    assert isinstance(bar, ipywidgets.IntSlider) and type(bar.value) is int
    one = slider(1, 50, 1, value=8, label="batch size")
    assert one.near(50, 3) == 50 and one.near(8, -1) == 7 and type(one.near(8, 1)) is int and one.text(8) == "8"


def test_positions_have_no_dust_and_reach_both_ends():
    one = slider(0.0, 1.0, 0.1, value=0.3, label="λ")
    assert [one.near(0.0, k) for k in range(12)] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1]
    assert one.tidy(0.1 + 0.2) == 0.3 and one.text(0.3) == "0.3" and one.text(0.25) == "0.25"
    uneven = slider(0.0, 1.0, 0.35, value=0.0, label="λ")
    assert [uneven.near(0.0, k) for k in range(5)] == [0, 0.35, 0.7, 1, 1]


def test_logarithmic_slider():
    one = slider(1e-4, 1.0, value=0.01, log=True, label="α")
    (number, bar) = one.build("5em")[0].children
    assert isinstance(bar, ipywidgets.FloatLogSlider) and bar.value == 0.01 and (bar.min, bar.max) == (-4, 0)
    bar.value = 10**-1.9
    assert number.value == 0.0126 and bar.value == 10**-1.9  # the field shows three digits and leaves the slider alone
    assert [one.near(0.01, k) for k in (-1, 0, 1, 10)] == [0.00794, 0.01, 0.0126, 0.1] and one.text(0.0126) == "0.0126"
    number.value = 0.5
    assert bar.value == 0.5


def test_choice_of_named_values_and_toggle(calls):
    spec = calls.spec(
        gae_lambda=choice({"none": 0.0, "half": 0.5}, value=0.5, label="mixing"), log=toggle(value=False, label="log axis")
    )
    widget = explore(**spec)
    assert "mixing = half, shape = power, log axis = off" in line(widget)
    widget.set(gae_lambda=0.0, log=True)
    assert "mixing = none, shape = power, log axis = on" in line(widget)


# ---------------------------------------------------------------------------------------------- three settings


def test_three_settings_draw_the_same_picture_three_times(calls, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    picture = three_settings([{"gae_lambda": 0.0}, {"gae_lambda": 0.9}, {"gae_lambda": 1.0}], **calls.spec())
    assert calls.computed == [0.0, 0.9, 1.0] and calls.updated == 3
    assert picture.alt == (
        "Weights & <more>, three settings. λ = 0.00: ten steps ahead the weight is 0.00. "
        "λ = 0.90: ten steps ahead the weight is 0.35. λ = 1.00: ten steps ahead the weight is 1.00."
    )
    assert picture._repr_mimebundle_()[0]["text/plain"] == "[Weights & <more>, three settings]"


def test_three_settings_one_below_the_other(calls):
    picture = three_settings([{"shape": "power"}, {"shape": "exponential"}, {}], columns=1, **calls.spec())
    assert "start: ten steps" in picture.alt


@pytest.mark.parametrize(
    ("settings", "words"), [([], "at least one"), ([{"lambda": 1}], r"names gae_lambda, shape; got \['lambda'\]")]
)
def test_three_settings_refuse(calls, settings, words):
    with pytest.raises(ValueError, match=words):
        three_settings(settings, **calls.spec())


def test_a_widget_that_nobody_holds_can_be_freed(calls):
    widget = explore(**calls.spec())
    figure = weakref.ref(widget.view.fig)
    widget.close_all()
    del widget
    gc.collect()
    assert figure() is None
