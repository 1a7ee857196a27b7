"""Learning curves: every seed, and the median over the seeds of each setting."""

from itertools import cycle

import numpy as np
from matplotlib.ticker import EngFormatter

from rlcourse.classroom.figures import LINESTYLES, PALETTE, SIZE, new_figure

RETURN_LABEL = "mean return of recent episodes"


def learning_curve(result, *, threshold=None, labels=None, name="mean_return", ylabel=RETURN_LABEL, title=None, size=SIZE):
    """Learning curves: every seed a thin line, their median a thick one; one colour and line style per setting.

    Args:
        result: a TrainingResult, or its history (name -> array (R, iterations)).
        threshold: height of a dotted line for "solved", if any.
        labels: one name per setting for the legend, instead of the fields in which they differ.
        name: which entry of the history is drawn against `env_steps`.
        ylabel, title: texts of the picture; give ylabel its unit.
        size: inches.

    Returns:
        Figure, to be handed to `show`.
    """
    history = getattr(result, "history", result)
    for needed in (name, "env_steps"):
        if needed not in history:
            raise ValueError(f"the history has no {needed!r}, only {', '.join(sorted(history))}")
    groups = group(getattr(result, "runs", None), len(history[name]))
    fig, ax = new_figure(size=size)
    Curves(ax, groups, labels=labels, threshold=threshold, ylabel=ylabel, title=title).update(history, name)
    return fig


def group(runs, count):
    """Rows of each setting, {name of the setting: [row, …]} in order of appearance; without records all are one setting."""
    groups = {}
    for row in range(count):
        setting = runs[row].setting if runs is not None else {}
        fields = [(field, f"{value:g}" if isinstance(value, float) else value) for field, value in setting.items()]
        name = ", ".join(f"{field} = {value}" for field, value in fields)
        groups.setdefault(name, []).append(row)
    return groups


class Curves:
    """The lines of `learning_curve` on given axes, kept and updated: the live curve and the final picture are one."""

    def __init__(self, ax, groups, *, labels=None, threshold=None, ylabel=RETURN_LABEL, title=None, legend="best"):
        labels = list(groups) if labels is None else labels
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise TypeError(f"labels = {labels!r}; expected a list of names, one per setting.")
        if threshold is not None and not isinstance(threshold, int | float | np.number):
            raise TypeError(f"threshold = {threshold!r}; expected a number, such as 475, or None.")
        if len(labels) != len(groups):
            raise ValueError(f"labels has {len(labels)} names for {len(groups)} settings: give one per setting")
        self.ax, self.rows, self.seeds, self.medians = ax, list(groups.values()), {}, []
        self.threshold, self.low, self.high = threshold, np.inf, -np.inf
        for label, rows, colour, dashes in zip(labels, self.rows, cycle(PALETTE.values()), cycle(LINESTYLES), strict=False):
            several = len(rows) > 1
            for row in rows:
                width, name = (1.0, None) if several else (2.6, label or None)
                (self.seeds[row],) = ax.plot([], [], color=colour, linestyle="-", linewidth=width, alpha=0.6, label=name)
            if several:
                name = ", ".join(filter(None, [label, f"median of {len(rows)} seeds"]))
                self.medians += ax.plot([], [], color=colour, linestyle=dashes, linewidth=2.6, label=name)
        if threshold is not None:
            dots = {"color": PALETTE["black"], "linestyle": (0, (1, 1.5)), "linewidth": 1.6}
            ax.axhline(threshold, label=f"threshold {threshold:g}", **dots)
        ax.set(xlabel="environment steps per run", ylabel=ylabel, title=title or "")
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        if legend and ax.get_legend_handles_labels()[1]:
            ax.legend(loc=legend)

    def update(self, history, name="mean_return", rescale=True):
        """Set the lines to history[name] against history["env_steps"], both (R, iterations)."""
        steps, values = np.asarray(history["env_steps"], float), np.asarray(history[name], float)
        for row, line in self.seeds.items():
            line.set_data(steps[row], values[row])
        for rows, line in zip([rows for rows in self.rows if len(rows) > 1], self.medians, strict=True):
            line.set_data(*median(steps[rows], values[rows]))
        if rescale:
            self.ax.relim()
            self.ax.autoscale_view()
        return self

    def make_room(self, values):
        """Let the vertical limits grow, rarely and with room to spare: a live picture stays calm. True if they grew."""
        heights = np.append(values[np.isfinite(values)], [] if self.threshold is None else self.threshold)
        if not heights.size or self.low <= heights.min() <= heights.max() <= self.high:
            return False
        span = np.ptp(heights) or abs(heights[0]) or 1.0
        self.low, self.high = min(self.low, heights.min() - 0.05 * span), max(self.high, heights.max() + 0.25 * span)
        self.ax.set_ylim(self.low, self.high)
        return True


def median(steps, values):
    """Median over the seeds that have a value; seeds that counted steps differently are read at the first one's steps."""
    grid = steps[0]
    if (steps != grid).any():
        values = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in zip(steps, values, strict=True)])
    some = np.isfinite(values).any(axis=0)
    return grid[some], np.nanmedian(values[:, some], axis=0)
