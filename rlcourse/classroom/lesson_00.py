"""What lesson 00 computes and draws: a filmstrip, the map of the course, a chain of states, and what a clock costs."""

import contextlib
import os
import platform
from importlib.metadata import version

import gymnasium
import numpy as np
from matplotlib.patches import FancyBboxPatch

from rlcourse.classroom.explorer import slider
from rlcourse.classroom.figures import PALETTE, new_figure

PACKAGES = ("torch", "gymnasium", "numpy", "scipy", "matplotlib", "ipywidgets", "jupyterlab")


def versions():
    """One line for Python and one for each package the lessons use."""
    return "\n".join(f"{name:<12}{number}" for name, number in
                     [("Python", platform.python_version()), *((name, version(name)) for name in PACKAGES)])  # fmt: skip


# ------------------------------------------------------------------------------------------------------- filmstrip


@contextlib.contextmanager
def no_window():
    """Let pygame draw without a screen, and without its greeting; afterwards the environment is as it was."""
    wanted = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def film(policy, *, seed, count=6):
    """Play one episode of CartPole-v1 and draw some moments of it.

    Args:
        policy: function obs -> action.
        seed: of the environment.
        count: how many frames, spread evenly over the episode, its first and last moment among them.

    Returns:
        list of (step, frame (H, W, 3) uint8); the last step is the length of the episode.
    """
    with no_window(), contextlib.closing(gymnasium.make("CartPole-v1", render_mode="rgb_array")) as env:
        obs, _ = env.reset(seed=seed)
        states, ended = [env.unwrapped.state], False
        while not ended:
            obs, _, terminated, truncated, _ = env.step(policy(obs))
            states.append(env.unwrapped.state)
            ended = terminated or truncated
        frames = []
        for step in np.linspace(0, len(states) - 1, count).round().astype(int):
            env.unwrapped.state = states[step]
            frames.append((int(step), env.render()))
    return frames


def filmstrip(strips):
    """Frames side by side, one strip a row.

    Args:
        strips: {title: frames as from `film`}, all of one length.

    Returns:
        Figure.
    """
    count = len(next(iter(strips.values())))
    fig, axes = new_figure(len(strips), count, size=(9.0, 1.7 * len(strips)), squeeze=False)
    for row, (title, frames) in zip(axes, strips.items(), strict=True):
        for ax, (step, frame) in zip(row, frames, strict=True):
            ax.imshow(frame[150:330, 160:440])  # what lies around says nothing
            ax.set(xticks=[], yticks=[], xlabel=f"step {step}")
            ax.spines[:].set_visible(True)
        row[0].set_title(" ")  # keeps room for the words below, which are wider than a panel
        words = row[0].text(0, 1.08, f"{title}: {frames[-1][0]} steps", transform=row[0].transAxes, va="bottom", fontsize=13)
        words.set_in_layout(False)
    return fig


# ---------------------------------------------------------------------------------------------------------- the map

LESSONS = {  # number: name, what it is about, place on the map
    "00": ("Start here", "words and tools", (0, 1)),
    "01": ("Theorem", "which way is up", (1, 1)),
    "02": ("VPG", "a first learner", (2, 1)),
    "03": ("GAE", "less noise", (3, 1)),
    "04": ("TRPO", "safe steps", (4, 1)),
    "05": ("PPO", "simple steps", (4, 0)),
    "06": ("Continuous", "torques, forces", (3, 0)),
    "07": ("Clinic", "find the fault", (2, 0)),
    "08": ("Experiments", "what is proven", (1, 0)),
}
ARROWS = [
    ("00", "01"), ("01", "02"), ("02", "03"), ("03", "04"), ("03", "05"), ("04", "05"),
    ("05", "06"), ("06", "07"), ("07", "08")
]


def course_map():
    """The nine lessons as boxes, this one marked; an arrow leads from a lesson to one that builds on it."""
    fig, ax = new_figure(size=(9.0, 3.2))
    for start, end in ARROWS:
        (x0, y0), (x1, y1) = LESSONS[start][2], LESSONS[end][2]
        dx, dy = x1 - x0, y1 - y0
        leave = np.array([0.43 * dx, 0.31 * dy])
        ax.annotate("", np.array([x1, y1]) - leave, np.array([x0, y0]) + leave,
                    arrowprops={"arrowstyle": "-|>", "color": PALETTE["black"], "shrinkA": 0, "shrinkB": 0})  # fmt: skip
    for number, (name, about, (x, y)) in LESSONS.items():
        here = number == "00"
        ax.add_patch(FancyBboxPatch((x - 0.39, y - 0.27), 0.78, 0.54, boxstyle="round,pad=0.04", edgecolor=PALETTE["blue"],
                                    facecolor="#FFF3C4" if here else "#EAF3FA", linewidth=3 if here else 1))  # fmt: skip
        ax.text(x, y + 0.12, f"{number} {name}", ha="center", va="center", fontweight="bold", fontsize=12)
        ax.text(x, y - 0.13, about, ha="center", va="center", fontsize=11.5)
    ax.set(xlim=(-0.5, 4.5), ylim=(-0.4, 1.4))
    ax.set_axis_off()
    return fig


# ------------------------------------------------------------------------------------------------------- the chain


def chain_picture(values):
    """Five states in a row with their arrows, and below each state its value under every policy.

    Args:
        values: {name of the policy: (S,) values}.

    Returns:
        Figure.
    """
    fig, (top, below) = new_figure(2, 1, size=(9.0, 4.6), height_ratios=(1, 1.7), sharex=True)
    states = len(next(iter(values.values())))
    for s in range(states):
        top.text(s, 0, str(s), ha="center", va="center", fontweight="bold",
                 bbox={"boxstyle": "circle,pad=0.5", "facecolor": "#EAF3FA", "edgecolor": PALETTE["blue"]})  # fmt: skip
        if s + 1 < states:
            for y, x0, x1 in ((0.14, s + 0.18, s + 0.82), (-0.14, s + 0.82, s + 0.18)):
                top.annotate("", (x1, y), (x0, y), arrowprops={"arrowstyle": "-|>", "color": PALETTE["black"]})
    top.text(states - 0.72, 0, "right: reward 1,\nand stay", va="center")
    top.text(-0.28, 0, "left: stay", va="center", ha="right")
    top.set(xlim=(-0.95, states), ylim=(-0.6, 0.6))
    top.set_axis_off()
    width = 0.8 / len(values)
    for i, ((name, value), colour, hatch) in enumerate(zip(values.items(), PALETTE.values(), ("", "//", ".."), strict=False)):
        below.bar(np.arange(states) + (i - (len(values) - 1) / 2) * width, value, width * 0.9, label=name, color=colour,
                  hatch=hatch, edgecolor="white")  # fmt: skip
    below.set(xlabel="state", ylabel="value", xticks=range(states))
    below.legend(loc="upper left")
    return fig


# ------------------------------------------------------------------------------------------- widget: the discount

AHEAD = np.arange(0, 101)
DISCOUNT_CONTROLS = {"gamma": slider(0.5, 0.99, 0.01, value=0.9, label="γ")}


def discount_weights(gamma):
    """What a reward t steps ahead counts, γ^t for t = 0 … 100, and the sum over all t: 1 / (1 − γ)."""
    return {"weights": gamma**AHEAD, "total": 1 / (1 - gamma)}


def draw_discount(fig):
    ax = fig.subplots()
    (line,) = ax.plot(AHEAD, AHEAD * 0.0, "o", markersize=4, color=PALETTE["blue"])
    mark = ax.axvline(0, color=PALETTE["vermillion"], linestyle="--", label="1/(1 − γ)")
    ax.set(xlabel="steps ahead", ylabel="weight $\\gamma^t$", xlim=(-1, 101), ylim=(0, 1.04))
    ax.legend(loc="upper right")

    def update(data):
        line.set_ydata(data["weights"])
        mark.set_xdata([data["total"]] * 2)

    return update


def describe_discount(data, gamma):
    """The finding in one sentence."""
    percent = np.ceil(np.log(0.01) / np.log(gamma) - 1e-9)
    return f"all weights together are {data['total']:.3g}; rewards {percent:.0f} or more steps ahead count less than 1 %."


# ------------------------------------------------------------------------------------- widget: what a clock costs

EPISODE = np.arange(500)
CLOCK_CONTROLS = {
    "gamma": slider(0.9, 0.999, 0.001, value=0.99, label="γ"),
    "horizon": slider(10, 500, 10, value=200, label="clock stops at step"),
}


def clock_cost(gamma, horizon):
    """What is left of a value if a clock that stops after `horizon` steps is taken for the end of the world.

    Reward 1 at every step for ever is worth 1/(1 − γ). Seen from step t, the rewards before the clock stops are worth
    (1 − γ^(T−t))/(1 − γ), so the share that is left is 1 − γ^(T−t), with T the horizon.

    Args:
        gamma: in [0, 1).
        horizon: T ≥ 1.

    Returns:
        dict: share (T,) for t = 0 … T−1; mean: of the shares; horizon: T. A critic that regresses on these returns and
        cannot see the clock learns the mean.
    """
    share = 1 - gamma ** np.arange(horizon, 0, -1.0)
    return {"share": share, "mean": share.mean(), "horizon": horizon}


def draw_clock(fig):
    ax = fig.subplots()
    ax.axhline(100, color=PALETTE["black"], linewidth=1.4, label="true")
    (line,) = ax.plot([], [], color=PALETTE["vermillion"], linestyle="--", label="cut off")
    (mean,) = ax.plot([], [], color=PALETTE["blue"], linestyle=":", label="average")
    stop = ax.axvline(0, color="#777777", linewidth=1)
    ax.set(xlabel="step of the episode", ylabel="% of the true value", xlim=(-5, 505), ylim=(0, 108))
    ax.legend(loc="lower right")

    def update(data):
        steps = EPISODE[: data["horizon"]]
        line.set_data(steps, 100 * data["share"])
        mean.set_data([0, data["horizon"]], [100 * data["mean"]] * 2)
        stop.set_xdata([data["horizon"]] * 2)

    return update


def describe_clock(data, gamma, horizon):
    """The finding in one sentence."""
    first, last, mean = (100 * x for x in (data["share"][0], data["share"][-1], data["mean"]))
    return f"{first:.3g} % of the value is left at the first step, {last:.2g} % at the last, {mean:.3g} % on average."
