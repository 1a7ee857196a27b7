"""LunarLander, whose simulator is none of ours: that it trains, what is said without it, and that half a state is not stored."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlcourse import PPO, make_env, train
from rlcourse.worlds.snapshots import CannotStore

ROOT = Path(__file__).resolve().parents[2]
try:
    import Box2D  # noqa: F401
except ImportError:
    Box2D = None
needs_box2d = pytest.mark.skipif(Box2D is None, reason="no Box2D here: pip install box2d")


@needs_box2d
def test_a_lander_trains():
    result = train(PPO(num_envs=4, num_steps=256), "LunarLander-v3", total_steps=2048, seeds=[0, 1], progress=False)
    returns = result.history["mean_return"]
    assert returns.shape == (2, 2) and np.isfinite(returns[:, -1]).all() and not result.failed


@needs_box2d
def test_a_lander_depends_on_its_own_seed_only():
    worlds = [make_env("LunarLander-v3", 2, seed=seeds) for seeds in ([3, 4], [3, 5])]
    first, second = (world.reset() for world in worlds)
    assert (first[0] == second[0]).all() and (first[1] != second[1]).any()
    for action in np.random.default_rng(0).integers(4, size=(150, 2)):
        steps = [world.step(action) for world in worlds]
        assert all((a[0] == b[0]).all() for a, b in zip(*steps, strict=True))


@needs_box2d
def test_a_simulator_that_cannot_be_read_is_not_stored():
    world = make_env("LunarLander-v3", 1)
    world.reset()
    with pytest.raises(CannotStore, match="world"):
        world.snapshot()


def test_without_box2d_the_error_says_what_to_install():
    code = "import sys; sys.modules['Box2D'] = None; import rlcourse; rlcourse.make_env('LunarLander-v3', 2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 1 and "pip install" in done.stderr and "box2d" in done.stderr, done.stderr
