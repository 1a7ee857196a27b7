"""Watch an agent: watch(result.policy(0), "CartPole-v1") plays one episode and shows it in the page.

The frames are drawn off screen, made small, and put into the page together: playing them takes no kernel and no display. The
player does not start by itself. What a stored notebook keeps is a strip of five frames.
"""

import contextlib
import html
import io
import json
import os
from base64 import b64encode
from typing import NamedTuple

import gymnasium
import ipywidgets as widgets
import numpy as np
from PIL import Image

from rlcourse.agents.policies import Policy
from rlcourse.classroom.figures import WIDTH, Picture, check_alt, new_figure, paint, png
from rlcourse.equations.arguments import check_whole
from rlcourse.experiments.film import play_episode

FRAME_WIDTH = 400  # pixels
MAX_BYTES = 1_200_000  # of all frames together as they go into the page; of a longer episode every second, fourth … is shown
STRIP = 5  # frames of the still picture
COLOURS = 64
DRAWING = 6_000  # bytes; a frame that is larger with so few colours is no drawing, and goes as JPEG

# The picture's load event makes the player: it reads the frames, and shows the one at which the slider stands.
_PLAYER = (
    "if(this.ready)return;this.ready=1;const b=this.closest('.rlcourse-player'),q=s=>b.querySelector(s),r=q('input'),p=q('.p'),"
    "d=JSON.parse(q('script').textContent);let t=null;"
    "const go=i=>{r.value=i;const k=+r.value;this.src=d.frames[k];const s='step '+d.steps[k]+' of '+d.steps.at(-1);"
    "q('output').textContent=s;r.setAttribute('aria-valuetext',s)},"
    "stop=()=>{clearInterval(t);t=null;p.textContent='Play'},last=d.frames.length-1;"
    "p.onclick=()=>{if(t)return stop();if(+r.value>=last)go(0);p.textContent='Pause';"
    "t=setInterval(()=>{if(!b.isConnected||+r.value>=last)return stop();go(+r.value+1)},d.ms)};"
    "r.oninput=()=>{stop();go(r.value)};q('.f').onclick=()=>{stop();go(0)};q('.l').onclick=()=>{stop();go(last)};"
)


class Episode(NamedTuple):
    """One episode: the frames before each step and after the last, as image files, and what happened."""

    frames: list[bytes]
    total_reward: float
    length: int
    ending: str
    frames_per_second: float


def play(policy, env, seed, deterministic, max_steps):
    """Play one episode in `env` (a Gymnasium environment that renders arrays)."""
    frames = []
    played = play_episode(policy, env, seed, deterministic, max_steps, lambda picture: frames.append(_small(picture)))
    return Episode(frames, *played, env.metadata.get("render_fps", 30))


def _small(frame):
    """An image file of a frame: a PNG with few colours, or a JPEG where that would be large."""
    image = Image.fromarray(np.asarray(frame, np.uint8))
    image = image.resize((FRAME_WIDTH, round(FRAME_WIDTH * image.height / image.width)), Image.Resampling.BOX)
    file = _file(image.quantize(COLOURS, Image.Quantize.FASTOCTREE), "png")
    return file if len(file) < DRAWING else _file(image, "jpeg")


def _file(image, kind):
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def thin_out(frames, max_bytes=MAX_BYTES):
    """(data URLs, numbers of their frames), evenly spaced and with the last: all, or every second, fourth … that fit."""
    kinds = ("png" if frame.startswith(b"\x89PNG") else "jpeg" for frame in frames)
    urls = [f"data:image/{kind};base64,{b64encode(frame).decode('ascii')}" for kind, frame in zip(kinds, frames, strict=True)]
    steps = [*range(len(urls))]
    while len(steps) > 2 and sum(len(urls[step]) for step in steps) > max_bytes:
        steps = [*steps[:-1:2], steps[-1]]
    return [urls[step] for step in steps], steps


def strip(frames):
    """A still picture: frames from the first to the last side by side, each with its step."""
    steps = np.linspace(0, len(frames) - 1, min(STRIP, len(frames))).round().astype(int)
    images = [np.asarray(Image.open(io.BytesIO(frames[step])).convert("RGB")) for step in steps]
    fig, axes = new_figure(1, STRIP, size=(9, 9 / STRIP * images[0].shape[0] / FRAME_WIDTH + 0.4))
    for ax in axes:
        ax.axis("off")
    for ax, step, image in zip(axes, steps, images, strict=False):
        ax.imshow(image)
        ax.set_title(f"step {step}")
    return fig


class Player(widgets.HTML):
    """Made by `watch`. Attributes: total_reward (the return), length (steps), ending, alt (all of it in words)."""

    def __init__(self, episode, name):
        self.total_reward, self.length, self.ending = episode.total_reward, episode.length, episode.ending
        self.alt = check_alt(
            f"One episode of {name}: return {episode.total_reward:.4g} in {episode.length} steps, {episode.ending}."
        )
        self._still = Picture(png(paint(strip(episode.frames))), f"{self.alt} Frames from its first to its last step.",
                              text=f"[episode of {name}]", live=False)  # fmt: skip
        urls, steps = thin_out(episode.frames)
        pause = 1000 / episode.frames_per_second * steps[-1] / (len(steps) - 1)
        with Image.open(io.BytesIO(episode.frames[0])) as image:
            super().__init__(_page(urls, steps, max(20, round(pause)), self.alt, image.size))

    def _repr_mimebundle_(self, include=None, exclude=None):
        live = super()._repr_mimebundle_(include=include, exclude=exclude)
        live = dict(live[0] if isinstance(live, tuple) else live or {})
        data, metadata = self._still._repr_mimebundle_()
        return live | data, metadata


def _page(urls, steps, milliseconds, alt, size):
    """The HTML of the player; `data-lm-suppress-shortcuts` keeps JupyterLab from taking its keys."""
    data = json.dumps({"frames": urls, "steps": steps, "ms": milliseconds})
    keys, words = 'type="button" data-lm-suppress-shortcuts="true"', html.escape(alt)
    buttons = "".join(
        f'<button {keys} class="jupyter-button widget-button {name}" style="width:5em;margin-right:4px">{text}</button>'
        for name, text in (("p", "Play"), ("f", "First"), ("l", "Last"))
    )
    return (
        f'<div class="rlcourse-player" role="group" aria-label="player" style="line-height:1.6">'
        f'<script type="application/json">{data}</script>'
        f'<img width="{size[0]}" height="{size[1]}" style="max-width:100%;height:auto" decoding="sync" '
        f'alt="{words}" src="{urls[0]}" onload="{html.escape(_PLAYER)}"><br>{buttons} '
        f'<input type="range" aria-label="frame" data-lm-suppress-shortcuts="true" min="0" max="{len(urls) - 1}" value="0" '
        f'style="width:{FRAME_WIDTH // 2}px;vertical-align:middle"> <output>step 0 of {steps[-1]}</output>'
        f'<div style="max-width:{WIDTH}px">{words}</div></div>'
    )


def watch(policy, env, *, seed=0, deterministic=False, max_steps=2000):
    """One episode of a trained policy as a player: the last line of a cell.

    Args:
        policy: from TrainingResult.policy.
        env: a Gymnasium id, or a function that makes an environment with render_mode="rgb_array".
        seed: of the episode's start and of the actions.
        deterministic: act with the mode instead of sampling.
        max_steps: stop there.

    Returns:
        Player, with total_reward, length and ending of the episode.

    Raises:
        TypeError: policy is no policy, env no environment. ValueError: seed < 0; the environment draws no pictures, or has
            other observations than the policy.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy = {policy!r}; expected the policy of one run, such as result.policy(0).")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps = {max_steps!r}; expected an integer ≥ 1.")
    if not isinstance(env, str) and not callable(env):
        raise TypeError(f"env = {env!r}; expected a Gymnasium id or a function that makes an environment.")
    check_whole("seed", seed, 0)
    for name, value in (("SDL_VIDEODRIVER", "dummy"), ("PYGAME_HIDE_SUPPORT_PROMPT", "1")):
        os.environ.setdefault(name, value)  # no window, no greeting
    one = gymnasium.make(env, render_mode="rgb_array") if isinstance(env, str) else env()
    with contextlib.closing(one):
        if one.render_mode != "rgb_array":
            way_out = 'lambda: gymnasium.make("CartPole-v1", render_mode="rgb_array")'
            raise ValueError(f"render_mode = {one.render_mode!r}; expected 'rgb_array', as in {way_out}.")
        name = env if isinstance(env, str) else one.spec.id if one.spec else type(one.unwrapped).__name__
        return Player(play(policy, one, seed, deterministic, max_steps), name)
