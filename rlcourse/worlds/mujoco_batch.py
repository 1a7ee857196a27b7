"""HalfCheetah and Hopper for n sub-environments at once: MuJoCo's own batch stepping, with Gymnasium's rewards and resets.

MuJoCo is an optional extra; nothing here imports it before a robot is asked for. The robot's model is Gymnasium's, and the
rewards, observations and start states follow Gymnasium's environments (MIT licence, see NOTICE) to the last bit; the tests
prove it. Where MuJoCo has no `mujoco.batch` (before 4.0), `make_env` takes Gymnasium's own code.

A state is a column of numbers, as in `classic_control`: positions, speeds, and the accelerations with which MuJoCo's solver
starts its next search. The last are no physics, but without them two equal robots would part at the last digits.
"""

import numpy as np


def available():
    """Whether MuJoCo is installed and can step many simulations in one call."""
    try:
        import mujoco.batch  # noqa: F401
    except ImportError:
        return False
    return True


class Robot:
    """What the two robots share: MuJoCo advances all of them by `frame_skip` steps of its own.

        reward = (x_after - x_before) / dt - ctrl_cost ‖action‖²  (+ 1 while healthy, where robots can fall)

    Args:
        env: Gymnasium's environment, for its model.
    """

    def __init__(self, env):
        env = env.unwrapped
        self.model, self.frame_skip = env.model, env.frame_skip
        self.nq, self.nv = self.model.nq, self.model.nv
        self.state_size = self.nq + 2 * self.nv
        self.dt = self.model.opt.timestep * self.frame_skip
        self._rest = np.concatenate([env.init_qpos, env.init_qvel, np.zeros(self.nv)])
        self._batch = self._bound = None

    def start(self, rng, count):
        """Draw `count` start states from the stream of random numbers that Gymnasium would draw them from: (count, d)."""
        calm = np.zeros(self.nv)  # where the solver starts
        return np.array([np.concatenate([*self.noise(rng), calm]) for _ in range(count)]) + self._rest

    def step(self, state, action):
        """Advance one step.

        Args:
            state: (d, n) float64.
            action: (n, A) float32 in [-1, 1].

        Returns:
            next state (d, n) float64, reward (n,) float64, terminated (n,) bool.
        """
        if self._batch is None or self._batch.nsim != state.shape[1]:
            self._make_batch(state.shape[1])
        position, speed, warm_start, control = self._bound
        position[:], speed[:], warm_start[:], control[:] = *(part.T for part in self._parts(state)), action
        self._batch.step(nstep=self.frame_skip)
        new = np.concatenate([position.T, speed.T, warm_start.T])
        healthy = self.healthy(new)
        effort = self.ctrl_cost * np.square(action).sum(-1)
        reward = (new[0] - state[0]) / self.dt + self.healthy_reward * healthy - effort
        return new, reward, ~healthy

    def observe(self, state):
        """All positions but the first (how far the robot has come), and the speeds: (d, n) float64 -> (n, nq + nv − 1)."""
        position, speed, _ = self._parts(state)
        return np.ascontiguousarray(np.concatenate([position[1:], self.seen_speed(speed)]).T)

    def _parts(self, state):
        return np.split(state, [self.nq, self.nq + self.nv])

    def _make_batch(self, count):
        from mujoco.batch import Batch

        self._batch = Batch(self.model, nsim=count, nthread=1)  # one thread, as everywhere in this package
        self._bound = [self._batch.bind(name) for name in ("qpos", "qvel", "qacc_warmstart", "ctrl")]


class HalfCheetah(Robot):
    """HalfCheetah-v5: run to the right on two legs. It never terminates; dt = 0.05 s, effort 0.1 ‖action‖²."""

    ctrl_cost, healthy_reward = 0.1, 0.0

    def noise(self, rng):
        return rng.uniform(-0.1, 0.1, self.nq), 0.1 * rng.standard_normal(self.nv)

    def healthy(self, state):
        return np.ones(state.shape[1], bool)

    def seen_speed(self, speed):
        return speed


class Hopper(Robot):
    """Hopper-v5: hop to the right on one leg; dt = 0.008 s, effort 0.001 ‖action‖², and a reward of 1 while it is healthy.

    terminated, no longer healthy: torso below 0.7 m or leaning by more than 0.2 rad, or a number of the state beyond ±100.
    """

    ctrl_cost, healthy_reward = 1e-3, 1.0

    def noise(self, rng):
        return rng.uniform(-5e-3, 5e-3, self.nq), rng.uniform(-5e-3, 5e-3, self.nv)

    def healthy(self, state):
        inside = (np.abs(state[2 : self.nq + self.nv]) < 100.0).all(0)
        return inside & (state[1] > 0.7) & (np.abs(state[2]) < 0.2)

    def seen_speed(self, speed):
        return np.clip(speed, -10.0, 10.0)


ROBOTS = {"HalfCheetah-v5": HalfCheetah, "Hopper-v5": Hopper}
