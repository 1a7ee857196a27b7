import gc
import io
import subprocess
import sys
import weakref

import matplotlib
import numpy as np
import pytest
from nbconvert import HTMLExporter
from nbformat import v4
from PIL import Image

from rlcourse.classroom import layout_faults, new_figure, show
from rlcourse.classroom.figures import LINESTYLES, MARKERS, MIN_POINTS, PALETTE, paint

ALT = "A straight line that rises from one to three."


def line_figure():
    fig, ax = new_figure()
    ax.plot([1, 2, 3], label="a line")
    ax.set(xlabel="step", ylabel="value (reward units)")
    ax.legend()
    return fig


# ------------------------------------------------------------------------------------------------------- show


@pytest.mark.parametrize("alt", ["", "plot", "figure", "a figure with a plot", "Learningcurvesofthreeagentsinoneword", "  \n "])
def test_show_refuses_an_alt_text_that_says_nothing(alt):
    with pytest.raises(ValueError, match="too short"):
        show(line_figure(), alt=alt)


@pytest.mark.parametrize("alt", [None, 3, b"A straight line that rises from one to three."])
def test_show_refuses_an_alt_text_that_is_no_text(alt):
    with pytest.raises(TypeError, match="alt must be a sentence"):
        show(line_figure(), alt=alt)


def test_show_needs_alt():
    with pytest.raises(TypeError, match="alt"):
        show(line_figure())


def test_picture_carries_png_alt_width_and_text(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    data, metadata = show(line_figure(), alt="A straight line\n   that rises from one to three.", width=700)._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == ALT and metadata == {"image/png": {"alt": ALT, "width": 700}}


def test_at_jupyterlab_the_picture_is_html_with_alt_because_its_own_view_of_png_has_none(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "lesson.ipynb")
    data, _ = show(line_figure(), alt='Values "A" & <B> rise from one to three.')._repr_mimebundle_()
    assert 'alt="Values &quot;A&quot; &amp; &lt;B&gt; rise from one to three."' in data["text/html"]
    assert data["image/png"] in data["text/html"] and 'width="900" height="340"' in data["text/html"]


def test_alt_reaches_the_page_that_nbconvert_makes(monkeypatch):
    """By its template "classic"; its template "lab" drops the alt text of every image/png."""
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    data, metadata = show(line_figure(), alt=ALT)._repr_mimebundle_()
    cell = v4.new_code_cell("show(…)", outputs=[v4.new_output("execute_result", data, metadata=metadata)])
    page, _ = HTMLExporter(template_name="classic").from_notebook_node(v4.new_notebook(cells=[cell]))
    assert f'alt="{ALT}"' in page


def test_png_is_the_same_every_time_and_says_nothing_about_its_maker():
    one, other = (show(line_figure(), alt=ALT).png for _ in range(2))
    assert one == other
    image = Image.open(io.BytesIO(one))
    assert image.size == (1440, 544) and image.mode == "P" and not image.info
    drawn, stored = (np.asarray(pixels, float) for pixels in (paint(line_figure()), image.convert("RGB")))
    assert np.abs(drawn - stored).max() <= 24 and np.sqrt(np.mean((drawn - stored) ** 2)) <= 1  # of 255: nothing one can see
    assert (stored[0, 0] == 255).all()
    assert len(one) < 60_000


def test_nothing_is_left_behind():
    before = dict(matplotlib.rcParams)
    fig = line_figure()
    picture = show(fig, alt=ALT)
    gone = weakref.ref(fig)
    del fig
    gc.collect()
    assert gone() is None and picture.png
    assert dict(matplotlib.rcParams) == before


def test_a_figure_made_with_pyplot_is_closed():
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
    ax.set(xlabel="step", ylabel="value")
    for text in [ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]:
        text.set_fontsize(12)
    show(fig, alt=ALT)
    assert not plt.fignum_exists(fig.number)


def test_import_neither_loads_pyplot_nor_touches_settings():
    code = (
        "import sys; from matplotlib import rcParams; state = lambda: {k: str(rcParams[k]) for k in rcParams if k != 'backend'}; "
        "before = state(); from rlcourse.classroom import show, explore, new_figure; new_figure(); "
        "assert 'matplotlib.pyplot' not in sys.modules and state() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_checks_load_neither_matplotlib_nor_widgets():
    code = "from rlcourse.classroom import compare; import sys; assert not {'matplotlib', 'ipywidgets'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------------------------------------------ style


def luminance(colour):
    """Relative luminance of WCAG 2."""
    channel = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_the_first_colours_stand_out_from_white_and_every_one_has_its_own_line_and_marker():
    contrast = [1.05 / (luminance(colour) + 0.05) for colour in PALETTE.values()]
    assert min(contrast[:3]) > 3 and len(PALETTE) == len(LINESTYLES) == len(MARKERS) == len(set(MARKERS)) == len(set(LINESTYLES))


def test_new_figure_sets_colour_and_line_style_together_and_all_text_is_large():
    fig, ax = new_figure()
    lines = [ax.plot([0, k])[0] for k in range(8)]
    assert [line.get_color() for line in lines] == list(PALETTE.values())
    assert len({str(line._dash_pattern) for line in lines}) == 8
    ax.set_title("a title")
    ax.text(1, 1, "a note")
    legend = ax.legend(lines, list("abcdefgh"), title="letters")
    fig.suptitle("over all")
    texts = [*fig.findobj(matplotlib.text.Text), *legend.get_texts()]
    assert min(text.get_fontsize() for text in texts if text.get_text()) >= 12


# ------------------------------------------------------------------------------------------------ layout faults


def test_a_good_figure_has_no_faults():
    assert layout_faults(line_figure()) == []


def busy():
    fig, axes = new_figure(2, 2, size=(9, 6.8))
    for k, ax in enumerate(axes.flat):
        ax.plot(np.arange(20) * 10.0**k, label=f"curve {k}")
        ax.set_title(f"panel {k} with $\\nabla_\\theta J$")
        ax.legend()
        ax.annotate("here", (10, 10 * 10.0**k), xytext=(12, 3 * 10.0**k), arrowprops={"arrowstyle": "->"})
    axes[1, 0].set(xlabel="steps", ylabel="a\ntwo-line label")
    axes[1, 1].set_xticks(range(0, 20, 4), [f"setting {k}" for k in range(5)], rotation=30, ha="right")
    fig.suptitle("All of it")
    return fig


def hidden_texts():
    fig, ax = new_figure()
    ax.plot([1, 2])
    ax.text(1, 1, "one")
    ax.text(1, 1, "other").set_visible(False)
    ax.text(50, 50, "far away", clip_on=True)
    return fig


@pytest.mark.parametrize("make", [busy, hidden_texts])
def test_no_false_alarm(make):
    assert layout_faults(make()) == []


def fault(change):
    fig, ax = new_figure()
    ax.plot([1, 2, 3])
    change(fig, ax)
    return layout_faults(fig)


def no_room(fig, ax):
    fig.set_layout_engine("none")
    ax.set_position([0, 0.2, 1, 0.8])
    ax.set_ylabel("up")


def crowded_ticks(fig, ax):
    ax.set_xticks(np.linspace(0, 2, 12), [f"label number {k}" for k in range(12)])


def two_notes(fig, ax):
    ax.text(1, 2, "first words")
    ax.text(1.02, 2.02, "second words")


def two_titles(fig, ax):
    ax.set_title("left " * 9, loc="left")
    ax.set_title("middle " * 9)


def under_the_legend(fig, ax):
    ax.text(0.9, 0.05, "under", transform=ax.transAxes)
    ax.legend(ax.lines, ["curve"], loc="lower right")


def legend_outside(fig, ax):
    fig.set_layout_engine("none")
    ax.legend(ax.lines, ["a"], bbox_to_anchor=(1.2, 0.5))


def cut_by_axes(fig, ax):
    ax.set_xlim(0, 2)
    ax.text(1.9, 2, "cut by its axes", clip_on=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fig, ax: fig.text(0.9, 0.5, "over the edge"), "“over the edge” is clipped at the edge of the figure"),
        (no_room, "“up” is clipped at the edge of the figure"),
        (two_notes, "“first words” overlaps “second words”"),
        (two_titles, "overlaps “left left"),
        (crowded_ticks, "“label number 3” overlaps “label number 4”"),
        (lambda fig, ax: ax.text(1, 1.5, "tiny", fontsize=7), "“tiny” is 7 pt, too small: use 11 pt or more"),
        (lambda fig, ax: fig.set_size_inches(18, 6.8), "“0.50” is 12 pt, too small: use 22 pt or more"),
        (under_the_legend, "a legend covers “under”"),
        (legend_outside, "a legend is clipped at the edge of the figure"),
        (cut_by_axes, "“cut by its axes” is clipped at the edge of its axes"),
    ],
)
def test_faults_are_found_and_named(change, message):
    assert message in "; ".join(fault(change))


def test_show_refuses_a_figure_with_a_fault_and_names_the_label():
    fig = line_figure()
    fig.axes[0].text(1, 2, "first words")
    fig.axes[0].text(1, 2, "second words")
    with pytest.raises(ValueError, match="“first words” overlaps “second words”"):
        show(fig, alt=ALT)


def test_measuring_changes_nothing():
    fig = line_figure()
    fig.axes[0].set_gid("mine")
    before = show(fig, alt=ALT).png
    layout_faults(fig)
    assert show(fig, alt=ALT).png == before and fig.axes[0].get_gid() == "mine"


def test_smallest_text_is_the_promised_one():
    assert not fault(lambda fig, ax: ax.text(1, 1.5, "just", fontsize=MIN_POINTS))
