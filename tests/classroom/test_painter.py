import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from rlcourse.classroom import style
from rlcourse.classroom.painter import Painter, fast_png


def test_fast_png_is_a_png_of_these_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (31, 17, 3), dtype=np.uint8)
    image = Image.open(io.BytesIO(fast_png(pixels)))
    image.verify()
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(fast_png(pixels)))), pixels)


def painter(draw):
    with style():
        fig = Figure(figsize=(6, 3), dpi=60, layout="constrained")
        one = Painter(fig)
        update = draw(fig)
    return one, update


def full(one):
    with style():
        one.canvas.draw()
    return np.array(one.canvas.buffer_rgba())[..., :3]


def moving_line(fig):
    left, right = fig.subplots(1, 2)
    (line,) = left.plot([0, 1], [0, 1], label="line")
    left.set(xlabel="x", ylabel="y", title="a title")
    left.legend()
    bars = right.bar([0, 1], [1, 2])
    note = right.text(0, 1, "note")
    fig.suptitle("over all")

    def update(k):
        line.set_ydata([0, k / 10])
        bars[0].set_height(k / 5)
        note.set_text(f"k = {k}")

    return update


def moving_limits(fig):
    ax = fig.subplots()
    (line,) = ax.plot([0, 1], [0, 1])
    return lambda k: (line.set_ydata([0, k]), ax.relim(), ax.autoscale_view())


def changing_labels(fig):
    ax = fig.subplots()
    ax.plot([0, 1])
    return lambda k: (
        ax.set_xlabel(f"x at {k}"),
        ax.set_title(f"title {k}"),
        ax.set_xticks([0, k / 10]),
        ax.set_facecolor(f"{k / 10}"),
    )


def new_artists(fig):
    ax = fig.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 10))
    fig.colorbar(ax.scatter([1, 2], [3, 4], c=[0, 1]), label="colour")

    def update(k):
        for old in list(ax.lines):
            old.remove()
        ax.plot([0, k], [0, 5])

    return update


def picture_below_the_grid(fig):
    ax = fig.subplots()
    image = ax.imshow(np.zeros((4, 4)), vmin=0, vmax=10)
    return lambda k: image.set_data(np.full((4, 4), k))


def map_below_a_line(fig):
    ax = fig.subplots()
    image = ax.imshow(np.arange(16.0).reshape(4, 4), zorder=1, aspect="auto", alpha=0.5)
    (line,) = ax.plot([0, 1], [0, 1])

    def update(k):
        line.set_ydata([0, k / 10])
        if k > 2:
            image.set_data(np.arange(16.0).reshape(4, 4) % k)
            image.set(clim=(0, k), visible=k != 9)

    return update


def polar(fig):
    ax = fig.add_subplot(projection="polar")
    (line,) = ax.plot([0, 1], [0, 1])
    return lambda k: line.set_ydata([0, k / 10])


def twins(fig):
    ax = fig.subplots()
    other = ax.twinx()
    (line,) = ax.plot([0, 1], [0, 1])
    (second,) = other.plot([0, 1], [5, 1])
    return lambda k: (line.set_ydata([0, k / 10]), second.set_ydata([k / 10, 1]))


def twins_without_a_second_grid(fig):
    ax = fig.subplots()
    other = ax.twinx()
    (line,) = ax.plot([0, 1], [0, 1], "o-", markersize=15)
    (second,) = other.plot([0, 1], [5, 1])
    other.grid(False)
    return lambda k: (line.set_data([0, k / 9], [0, k / 10]), second.set_ydata([k / 10, 1]), ax.set_xlim(0, 1))


def no_axis(fig):
    ax = fig.subplots()
    ax.set_axis_off()
    ax.set(xlim=(0, 10), ylim=(0, 10))
    (line,) = ax.plot([0, 1], [0, 1])
    return lambda k: line.set_ydata([0, k])


DRAWINGS = [
    moving_line,
    moving_limits,
    changing_labels,
    new_artists,
    picture_below_the_grid,
    map_below_a_line,
    polar,
    twins,
    twins_without_a_second_grid,
    no_axis,
]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_every_frame_has_the_pixels_of_a_full_drawing(draw):
    one, update = painter(draw)
    for k in (1, 2, 5, 9, 5, 5):
        with style():
            update(k)
        np.testing.assert_array_equal(one.paint(), full(one))


def test_only_what_moves_is_drawn_again():
    one, update = painter(moving_line)
    drawn = []
    for k in (1, 2, 3):
        update(k)
        one.paint()
    assert one.trusted is True
    for ax in one.fig.axes:
        for artist in (ax.xaxis, ax.lines[0] if ax.lines else ax.patches[0]):
            artist.draw = lambda *args, artist=artist: drawn.append(type(artist).__name__)
    one.paint()
    assert sorted(drawn) == ["Line2D", "Rectangle"]


def test_a_map_is_drawn_again_only_when_it_changes():
    one, update = painter(map_below_a_line)
    drawn = []
    for k in (1, 2):
        update(k)
        one.paint()
    (image,) = one.fig.axes[0].images
    draw = image.draw
    image.draw = lambda renderer: drawn.append(k) or draw(renderer)
    for k in (1, 2, 5, 1, 1):
        update(k)
        one.paint()
    assert one.trusted is True and drawn == [5, 1], "with its new data, and once more for the new background"


def test_layers_are_kept_only_where_that_is_right(monkeypatch):
    kept = {}
    for draw in DRAWINGS:
        one, update = painter(draw)
        for k in (1, 2):
            update(k)
            one.paint()
        kept[draw.__name__] = one.trusted
    full = dict.fromkeys(["picture_below_the_grid", "polar", "twins"])  # None: never tried
    assert kept == dict.fromkeys(kept, True) | full


def test_a_first_frame_that_differs_is_the_last_of_its_kind(monkeypatch):
    one, update = painter(moving_line)
    monkeypatch.setattr("rlcourse.classroom.painter._above", lambda ax: [])
    for k in (1, 2):
        update(k)
        np.testing.assert_array_equal(one.paint(), full(one))
    assert one.trusted is False


def test_axes_stay_where_the_first_drawing_put_them():
    one, update = painter(moving_line)
    update(1)
    one.paint()
    before = [ax.get_position().bounds for ax in one.fig.axes]
    one.fig.axes[0].set_ylabel("a label\nof two lines")
    one.paint()
    assert [ax.get_position().bounds for ax in one.fig.axes] == before


def test_pixels_are_a_copy():
    one, update = painter(moving_line)
    first = one.paint()
    kept = first.copy()
    update(9)
    one.paint()
    np.testing.assert_array_equal(first, kept)
