"""The one way to draw and show a figure: readable at the back of the room, told apart without colour, and with alt text.

    fig, (left, right) = new_figure(1, 2)
    left.plot(steps, values)
    show(fig, alt="Value of the start state against steps: it rises and levels off at 10.")

Nothing here touches matplotlib's global settings or pyplot: figures are plain objects that go away when nobody holds them.
"""

import functools
import html
import io
import os
import sys
import threading
from base64 import b64encode
from contextlib import contextmanager
from itertools import combinations

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text
from PIL import Image

# Okabe and Ito's colours, told apart with every common kind of colour blindness; the palest three come last.
PALETTE = {
    "blue": "#0072B2", "vermillion": "#D55E00", "green": "#009E73", "purple": "#CC79A7", "black": "#000000",
    "orange": "#E69F00", "sky": "#56B4E9", "yellow": "#F0E442",
}  # fmt: skip
LINESTYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 3)), (0, (3, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

WIDTH = 900  # CSS pixels of a figure in the page
SIZE = (9.0, 3.4)  # inches
DPI = 160
MIN_POINTS = 11.0  # smallest text at 9 inches wide


def _settings():
    from cycler import cycler

    return {
        "font.family": "DejaVu Sans", "font.size": 13, "axes.titlesize": 13, "axes.labelsize": 13, "figure.titlesize": 14,
        "xtick.labelsize": 12, "ytick.labelsize": 12, "legend.fontsize": 12, "legend.title_fontsize": 12,
        "legend.frameon": True, "legend.framealpha": 0.85, "legend.edgecolor": "none",
        "axes.prop_cycle": cycler(color=list(PALETTE.values())) + cycler(linestyle=list(LINESTYLES)),
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "image.cmap": "cividis",
        "grid.color": "#DDDDDD", "grid.linewidth": 0.8, "lines.linewidth": 2.0, "lines.markersize": 7, "hatch.linewidth": 1.0,
        "figure.facecolor": "white", "savefig.facecolor": "white", "text.usetex": False, "path.simplify": True,
    }  # fmt: skip


_SETTINGS = _settings()


_DRAWING = threading.RLock()  # matplotlib's settings belong to the process, and widgets may draw from a thread of their own


@contextmanager
def style():
    """Context manager with the style of the course; `new_figure` and `explore` apply it by themselves."""
    with _DRAWING, rc_context(_SETTINGS):
        yield


def _in_style(base, *names):
    """Subclass of `base` whose methods `names` run in the style: matplotlib reads many defaults when an artist is made."""

    def styled(method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            with style():
                return method(*args, **kwargs)

        return wrapper

    return type(base.__name__, (base,), {name: styled(getattr(base, name)) for name in names})


_Axes = _in_style(Axes, "set_title", "legend", "text", "annotate", "plot", "step", "scatter", "bar", "barh", "hist", "errorbar",
                  "axhline", "axvline", "quiver", "imshow", "twinx", "set_xlabel", "set_ylabel", "table", "clear")  # fmt: skip
_Figure = _in_style(Figure, "suptitle", "legend", "text", "colorbar", "supxlabel", "supylabel")


def new_figure(rows=1, cols=1, *, size=None, **subplots):
    """Figure and axes in the style of the course, unknown to pyplot.

    Args:
        rows, cols: panels.
        size: (width, height) in inches; 9 wide and 3.4 per row if not given. Text sizes are meant for 9 inches.
        subplots: passed to `Figure.subplots`, as `sharey=True` or `width_ratios=(2, 1)`.

    Returns:
        (figure, axes); axes is one object for one panel, an array for more.
    """
    with style():
        fig = _Figure(figsize=size or (SIZE[0], SIZE[1] * rows), dpi=DPI, layout="constrained")
        FigureCanvasAgg(fig)
        kinds = {"axes_class": _Axes} | subplots.pop("subplot_kw", {})
        return fig, fig.subplots(rows, cols, subplot_kw=kinds, **subplots)


def paint(fig):
    """Pixels of a figure, (height, width, 3) uint8."""
    canvas = fig.canvas if isinstance(fig.canvas, FigureCanvasAgg) else FigureCanvasAgg(fig)
    with style():
        canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def png(pixels):
    """PNG bytes of a picture to store: the same for the same pixels, no time, no version, no software name inside.

    At most 256 colours, chosen for the picture: no pixel changes visibly, and the file has 40 % of the size.
    """
    buffer = io.BytesIO()
    few = Image.fromarray(pixels).quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(buffer, format="PNG", compress_level=9)
    return buffer.getvalue()


def check_alt(alt):
    """Return `alt` with single spaces; raise where it does not say what is to be seen."""
    if not isinstance(alt, str):
        raise TypeError(f"alt must be a sentence (str), got {type(alt).__name__}")
    text = " ".join(alt.split())
    if len(text) < 25 or len(text.split()) < 5:
        raise ValueError(f"alt={alt!r} is too short: say in a sentence what is drawn and what one sees in it")
    return text


class Picture:
    """A PNG with its alt text, ready to be the last line of a cell. Made by `show`."""

    def __init__(self, png, alt, width=WIDTH, text=None, live=True):
        self.png, self.alt, self.width, self.text = png, alt, width, text or alt
        # A person at JupyterLab gets HTML, because JupyterLab's own view of image/png drops the alt text.
        self.live = live and "JPY_SESSION_NAME" in os.environ

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"image/png": b64encode(self.png).decode("ascii"), "text/plain": self.text}
        if self.live:
            with Image.open(io.BytesIO(self.png)) as image:
                data["text/html"] = image_tag(self.png, self.alt, image.size, self.width)
        return data, {"image/png": {"alt": self.alt, "width": self.width}}


def image_tag(png, alt, size, width=WIDTH, more=""):
    """HTML of a picture that keeps its place in the page; `size` in any unit, `more` attributes of the tag."""
    height = round(width * size[1] / size[0])
    return (f'<img decoding="sync" width="{width}" height="{height}" style="max-width:100%;height:auto" {more} '
            f'alt="{html.escape(alt)}" src="data:image/png;base64,{b64encode(png).decode("ascii")}">')  # fmt: skip


def show(fig, *, alt, width=WIDTH, text=None):
    """Picture of `fig` with alt text: the last line of a cell.

    Args:
        fig: a matplotlib Figure, best from `new_figure`.
        alt: a sentence that says what is drawn and what one sees in it, for readers who cannot see it.
            It is also the output's text, which nbval compares: put no number in it that could differ by processor.
        width: in the page, CSS pixels.
        text: the output's text, if not alt.

    Raises:
        ValueError: alt is missing or too short; a label is clipped, overlaps another, or is too small to read.
    """
    alt = check_alt(alt)
    pixels = paint(fig)
    faults = layout_faults(fig)
    if faults:
        raise ValueError("the figure cannot be shown like this: " + "; ".join(faults))
    if "matplotlib.pyplot" in sys.modules:  # a figure made with pyplot would be shown twice and never freed
        sys.modules["matplotlib.pyplot"].close(fig)
    return Picture(png(pixels), alt, width, text)


class _Listener(RendererAgg):
    """Renderer that remembers which texts and legends are really drawn: matplotlib announces each by its gid."""

    def __init__(self, fig):
        super().__init__(*map(int, fig.bbox.size), fig.dpi)
        self.seen = set()

    def open_group(self, s, gid=None):
        self.seen.add(gid)


def _drawn(fig):
    """(texts, legends) of the figure that are really drawn, with the renderer that measures them."""
    renderer, artists = _Listener(fig), fig.findobj(lambda artist: isinstance(artist, (Text, Legend)))
    old = [artist.get_gid() for artist in artists]
    for number, artist in enumerate(artists):
        artist.set_gid(str(number))
    with style():
        fig.draw(renderer)
    drawn = [artist for number, artist in enumerate(artists) if str(number) in renderer.seen]
    for artist, gid in zip(artists, old, strict=True):
        artist.set_gid(gid)
    texts = [artist for artist in drawn if isinstance(artist, Text) and artist.get_text().strip()]
    inside = [text for text in texts if not _clip(text) or text.get_window_extent(renderer).overlaps(_clip(text))]
    return inside, [artist for artist in drawn if isinstance(artist, Legend)], renderer


def layout_faults(fig):
    """Faults of a figure's text: clipped, overlapping, or too small; an empty list for a good figure.

    The figure is drawn and the extents of every text that appears are measured: titles, axis and tick labels, legends,
    annotations. A legend that covers a label counts as overlap. "Too small" is below 11 points at 9 inches wide.

    Returns:
        list of sentences, each naming the text.
    """
    texts, legends, renderer = _drawn(fig)
    boxes = [_inked(text, renderer) for text in texts]
    names = [_name(text) for text in texts]
    owned = [set(map(id, legend.findobj(Text))) for legend in legends]
    faults = []
    for text, box, name in zip(texts, boxes, names, strict=True):
        points = text.get_fontsize() * SIZE[0] / (fig.bbox.width / fig.dpi)
        if points < MIN_POINTS:
            least = text.get_fontsize() * MIN_POINTS / points
            faults.append(f"{name} is {text.get_fontsize():.3g} pt, too small: use {least:.3g} pt or more")
        if not _inside(box, _clip(text) or fig.bbox):
            faults.append(f"{name} is clipped at the edge of {'its axes' if _clip(text) else 'the figure'}")
    for (i, one), (j, other) in combinations(enumerate(texts), 2):
        slanted = one.get_rotation() % 90 and other.get_rotation() % 90  # boxes of slanted texts overlap where the texts do not
        if boxes[i].overlaps(boxes[j]) and not slanted:
            faults.append(f"{names[i]} overlaps {names[j]}")
    for legend, own in zip(legends, owned, strict=True):
        frame = legend.get_window_extent(renderer)
        if not _inside(frame, fig.bbox):
            faults.append("a legend is clipped at the edge of the figure")
        faults += [f"a legend covers {name}" for text, box, name in zip(texts, boxes, names, strict=True)
                   if id(text) not in own and frame.overlaps(box)]  # fmt: skip
    return faults


def _inked(text, renderer):
    """Box of a text without the empty room that matplotlib keeps above and below its letters."""
    box = text.get_window_extent(renderer)
    upright = text.get_rotation() % 180 == 0
    spare = 0.15 * text.get_fontsize() / 72 * text.get_figure(root=True).dpi
    return box.padded(-1.0, -spare) if upright else box.padded(-spare, -1.0)


def _clip(text):
    """The box beyond which a text is not drawn, or None. (`clip_on` is also set where there is nothing to clip at.)"""
    return text.get_clip_box() if text.get_clip_on() else None


def _inside(box, frame, slack=1.0):
    return (box.x0 >= frame.x0 - slack and box.y0 >= frame.y0 - slack and box.x1 <= frame.x1 + slack
            and box.y1 <= frame.y1 + slack)  # fmt: skip


def _name(text):
    words = " ".join(text.get_text().split())
    return f"“{words[:40]}{'…' if len(words) > 40 else ''}”"
