"""One episode of a policy as a film: a GIF, an MP4, or a window."""

import contextlib
import io
import os
import sys
from pathlib import Path

import numpy as np

from rlcourse.experiments.storage import write_bytes
from rlcourse.worlds.make_env import make, told

WIDTH = 480  # pixels, at most


def play_episode(policy, env, seed, deterministic, max_steps, see):
    """Play one episode in `env` (a Gymnasium environment) and call `see` with each picture, the first and the last included.

    Returns:
        (return, length, how it ended).
    """
    generator = np.random.default_rng(seed)
    obs, _ = _ask(env.reset, seed=seed)
    see(_ask(env.render))
    total = 0.0
    for step in range(1, max_steps + 1):
        obs, reward, terminated, truncated, _ = _ask(env.step, policy.act(obs, deterministic, generator))
        see(_ask(env.render))
        total += float(reward)
        if terminated or truncated:
            return total, step, "terminated: the task itself ended it" if terminated else "truncated: the time limit ended it"
    return total, max_steps, f"stopped after {max_steps} steps"


def _ask(method, *arguments, **options):
    try:
        return method(*arguments, **options)
    except Exception as error:
        raise ValueError(f"{method.__name__}() of the environment raised {told(error)}. Mend it there.") from error


def film(policy, env_id, path=None, *, seed=0, deterministic=False, max_steps=2000):
    """Play one episode into a file, or with path None in a window.

    Args:
        policy: from TrainingResult.policy. path: ends in .gif or .mp4 (.mp4 needs the package imageio-ffmpeg).

    Returns:
        (return, length, how it ended).

    Raises:
        ValueError: another ending; an environment that draws nothing. RuntimeError: what draws or writes is not there.
    """
    if path is not None and Path(path).suffix not in WRITERS:
        raise ValueError(f"{str(path)!r}: a film ends in {' or '.join(WRITERS)}.")
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(Path(path).parent)!r} for {Path(path).name!r}; make it first.")
    write = None if path is None else WRITERS[Path(path).suffix]()  # complains before an episode is played
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if path is not None:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    pictures = []
    with contextlib.closing(_drawing(env_id, "human" if path is None else "rgb_array")) as env:
        see = _check_window if path is None else (lambda picture: pictures.append(_picture(picture)))
        played = play_episode(policy, env, seed, deterministic, max_steps, see)
        if path is not None:
            write_bytes(Path(path), write(pictures, env.metadata.get("render_fps", 30)))
    return played


def _picture(drawn):
    picture = np.asarray(drawn)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.size == 0 or picture.dtype.kind not in "iuf":
        raise ValueError(f"render() gave {drawn!r:.80}; expected an array (height, width, 3) of numbers from 0 to 255.")
    return picture.astype(np.uint8)


def _check_window(picture):
    """Without a display pygame draws into nowhere and says nothing."""
    display = sys.modules["pygame"].display if "pygame" in sys.modules else None
    if display is not None and display.get_init() and display.get_driver() in ("dummy", "offscreen"):
        raise RuntimeError("there is no display to open a window on. Write a file: --video film.gif")


def _drawing(env_id, mode):
    env = make(env_id, render_mode=mode)
    if mode not in env.metadata.get("render_modes", ()):
        env.close()
        raise ValueError(f"{env_id} draws no pictures ({mode}).")
    return env


def _gif_writer():
    try:
        from PIL import Image
    except ImportError as error:
        raise RuntimeError("a GIF needs Pillow: pip install pillow") from error

    def write(pictures, frames_per_second):
        every = max(1, round(frames_per_second / 25))  # a GIF counts in hundredths of a second, and browsers slow down short ones
        images = [Image.fromarray(picture) for picture in [*pictures[:-1:every], pictures[-1]]]
        if images[0].width > WIDTH:
            size = WIDTH, round(WIDTH * images[0].height / images[0].width)
            images = [image.resize(size, Image.Resampling.BOX) for image in images]
        images = [image.quantize(64, Image.Quantize.FASTOCTREE) for image in images]
        file = io.BytesIO()
        images[0].save(file, "gif", save_all=True, append_images=images[1:], duration=1000 * every / frames_per_second, loop=0)
        return file.getvalue()

    return write


def _mp4_writer():
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise RuntimeError("an MP4 needs ffmpeg: pip install imageio-ffmpeg. A GIF needs nothing: --video film.gif") from error

    def write(pictures, frames_per_second):
        import tempfile

        height, width = (size // 2 * 2 for size in pictures[0].shape[:2])  # the format wants even numbers
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "film.mp4"
            sink = imageio_ffmpeg.write_frames(str(file), (width, height), fps=frames_per_second, macro_block_size=2)
            sink.send(None)
            for picture in pictures:
                sink.send(np.ascontiguousarray(picture[:height, :width]))
            sink.close()
            return file.read_bytes()

    return write


WRITERS = {".gif": _gif_writer, ".mp4": _mp4_writer}
