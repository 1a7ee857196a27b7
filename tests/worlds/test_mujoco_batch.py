"""The robots' batched twins against Gymnasium's own environments, number for number; MuJoCo missing or too old; Reacher."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from rlcourse.worlds.make_env import make_env
from rlcourse.worlds.mujoco_batch import ROBOTS

try:
    import mujoco.batch  # noqa: F401
except ImportError:
    mujoco = None
needs_mujoco = pytest.mark.skipif(mujoco is None, reason="no MuJoCo >= 4.0 here: pip install mujoco imageio")
IDS = sorted(ROBOTS)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its warnings to a file in the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=IDS)
def robot(request):
    with gymnasium.make(request.param) as env:
        return ROBOTS[request.param](env)


def states_of(robot, count, seed=0):
    """States in mid-movement."""
    rng = np.random.default_rng(seed)
    state = robot.start(rng, count).T
    for _ in range(20):
        state, _, _ = robot.step(state, actions_for(robot, rng, count))
    return state


def actions_for(robot, rng, count):
    return rng.uniform(-1, 1, (count, robot.model.nu)).astype(np.float32)


# ---------------------------------------------------------------- the other engine: Gymnasium


@needs_mujoco
@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("limit, steps", [(None, 1100), (20, 700)])
def test_whole_trajectories_equal_gymnasiums(env_id, limit, steps):
    """Same seeds, same actions: the same numbers as a plain loop over `gymnasium.make`, to the last bit, through resets."""
    seeds, rng = [3, 1, 4, 15], np.random.default_rng(2)
    world = make_env(env_id, 4, seed=seeds)
    assert world.batched
    world.max_episode_steps = limit or world.max_episode_steps
    envs = [gymnasium.make(env_id, max_episode_steps=limit, disable_env_checker=True) for _ in seeds]
    theirs = np.array([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    np.testing.assert_array_equal(world.reset(), theirs)
    assert theirs.dtype == np.float64
    falls = late_ends = 0
    for action in rng.uniform(-1.5, 1.5, (steps, 4, *envs[0].action_space.shape)):
        obs, reward, terminated, truncated, next_obs = world.step(action)
        bounded = np.clip(action, -1, 1).astype(np.float32)
        theirs = [env.step(a) for env, a in zip(envs, bounded, strict=True)]
        seen, paid, dead, late, _ = (list(part) for part in zip(*theirs, strict=True))
        np.testing.assert_array_equal(next_obs, seen)
        np.testing.assert_array_equal(reward, paid)
        np.testing.assert_array_equal(terminated, dead)
        np.testing.assert_array_equal(truncated, late)
        for row in np.flatnonzero(terminated | truncated):
            seen[row] = envs[row].reset()[0]
        np.testing.assert_array_equal(obs, seen)
        falls, late_ends = falls + terminated.sum(), late_ends + truncated.sum()
    assert (falls > 30) == (env_id == "Hopper-v5")
    assert late_ends > 30 or (limit is None and (late_ends == 4 or env_id == "Hopper-v5"))  # more than one pool of starts


@needs_mujoco
@pytest.mark.parametrize("env_id", IDS)
def test_both_engines_of_make_env_agree(env_id):
    twin, plain = (make_env(env_id, 3, seed=8, batched=batched) for batched in (True, False))
    assert twin.batched and not plain.batched and twin.obs_size == plain.obs_size
    np.testing.assert_array_equal(twin.reset(), plain.reset())
    rng = np.random.default_rng(0)
    for _ in range(300):
        action = rng.normal(size=(3, *twin.action_space.shape))
        for ours, theirs in zip(twin.step(action), plain.step(action), strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype


# ---------------------------------------------------------------- one step, by hand


@needs_mujoco
def test_a_step_depends_on_its_own_column_only(robot):
    state, action = states_of(robot, 5), actions_for(robot, np.random.default_rng(1), 5)
    before = state.copy()
    new, reward, terminated = robot.step(state, action)
    assert (state == before).all() and new.shape == (robot.state_size, 5)
    assert new.dtype == reward.dtype == np.float64 and terminated.dtype == bool
    for i in (3, 0):
        alone = robot.step(state[:, [i]], action[[i]])
        np.testing.assert_array_equal(alone[0][:, 0], new[:, i])
        assert alone[1] == reward[i] and alone[2] == terminated[i]
    np.testing.assert_array_equal(robot.step(state[:, ::-1], action[::-1])[0], new[:, ::-1])


@needs_mujoco
@pytest.mark.parametrize("env_id, seconds, effort, bonus", [("HalfCheetah-v5", 0.05, 0.1, 0), ("Hopper-v5", 0.008, 1e-3, 1)])
def test_reward_is_speed_minus_effort(env_id, seconds, effort, bonus):
    robot = ROBOTS[env_id](gymnasium.make(env_id))
    state = robot.start(np.random.default_rng(4), 6).T
    for scale in (0.0, 1.0):
        action = np.full((6, robot.model.nu), scale, np.float32)
        new, reward, _ = robot.step(state, action)
        speed = (new[0] - state[0]) / seconds
        np.testing.assert_allclose(reward, speed + bonus - effort * scale * robot.model.nu, rtol=1e-6, atol=1e-8)


@needs_mujoco
def test_when_a_hopper_is_healthy():
    robot = ROBOTS["Hopper-v5"](gymnasium.make("Hopper-v5"))
    upright = robot.start(np.random.default_rng(0), 1)[0]

    def healthy(index, number):
        state = upright.copy()
        state[index] = number
        return bool(robot.healthy(state[:, None])[0])

    assert healthy(1, 0.71) and not healthy(1, 0.69)
    assert healthy(2, 0.19) and healthy(2, -0.19) and not healthy(2, 0.21) and not healthy(2, -0.21)
    last_speed = robot.nq + robot.nv - 1
    assert healthy(last_speed, 99.0) and not healthy(last_speed, 101.0) and not healthy(last_speed, -101.0)
    assert healthy(0, 500.0)  # far away is fine
    assert healthy(last_speed + 1, 500.0)  # where the solver starts is no part of it


@needs_mujoco
@pytest.mark.parametrize("env_id, seen", [("HalfCheetah-v5", 25.0), ("Hopper-v5", 10.0)])
def test_what_is_seen(env_id, seen):
    robot = ROBOTS[env_id](gymnasium.make(env_id))
    state = np.arange(2.0 * robot.state_size).reshape(-1, 2) / 1000
    state[robot.nq], state[robot.nq + robot.nv - 1] = 25.0, -25.0
    obs = robot.observe(state)
    assert obs.shape == (2, robot.nq + robot.nv - 1) and obs.flags.c_contiguous
    np.testing.assert_array_equal(obs[:, : robot.nq - 1], state[1 : robot.nq].T)
    assert (obs[:, robot.nq - 1] == seen).all() and (obs[:, -1] == -seen).all()


# ---------------------------------------------------------------- without MuJoCo, or with an old one


@needs_mujoco
def test_an_old_mujoco_is_stepped_by_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco.batch", None)
    world = make_env("Hopper-v5", 2)
    assert not world.batched and world.reset().shape == (2, 11)


def test_without_mujoco_the_error_says_what_to_install():
    code = "import sys; sys.modules['mujoco'] = None; import rlcourse; rlcourse.make_env('Hopper-v5', 2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 1 and "MuJoCo is not installed" in done.stderr and "pip install" in done.stderr, done.stderr


# ---------------------------------------------------------------- a robot without a twin


@needs_mujoco
def test_twenty_reachers_step_together():
    world = make_env("Reacher-v5", 20, seed=1)
    obs = world.reset()
    assert obs.shape == (20, 10) and not world.batched and len(np.unique(obs, axis=0)) == 20
    rng = np.random.default_rng(0)
    for t in range(1, 101):
        obs, reward, terminated, truncated, next_obs = world.step(rng.uniform(-1, 1, (20, 2)))
        assert (truncated == (t % 50 == 0)).all() and not terminated.any() and (reward < 0).all()
        assert (obs == next_obs).all() == (t % 50 != 0)
