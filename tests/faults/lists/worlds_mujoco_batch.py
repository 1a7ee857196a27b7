"""One-line faults of the robots' batched twins."""

MODULE = "rlcourse.worlds.mujoco_batch"
TESTS = ["tests/worlds/test_mujoco_batch.py"]
FAULTS = [
    (
        "solver's start forgotten",
        "self._parts(state)), action",
        "self._parts(state * (np.arange(len(state)) < self.nq + self.nv)[:, None])), action",
        "Episodes part from Gymnasium's, at first in the last digits.",
    ),
    (
        "starts at rest",
        "for _ in range(count)]) + self._rest",
        "for _ in range(count)]) * 0 + self._rest",
        "Every episode begins in the same state.",
    ),
    (
        "starts without a pose",
        "np.concatenate([env.init_qpos, env.init_qvel, np.zeros(self.nv)])",
        "np.zeros(self.nq + 2 * self.nv)",
        "The hopper begins in the ground.",
    ),
    (
        "one substep too few",
        "self._batch.step(nstep=self.frame_skip)",
        "self._batch.step(nstep=self.frame_skip - 1)",
        "Another time step than the task of the same name has.",
    ),
    (
        "speed per substep",
        "self.dt = self.model.opt.timestep * self.frame_skip",
        "self.dt = self.model.opt.timestep",
        "Running pays four or five times too much.",
    ),
    (
        "running backwards pays",
        "reward = (new[0] - state[0]) / self.dt",
        "reward = (state[0] - new[0]) / self.dt",
        "The robot learns to run to the left.",
    ),
    (
        "effort pays",
        "self.healthy_reward * healthy - effort",
        "self.healthy_reward * healthy + effort",
        "Actions grow until the bounds stop them.",
    ),
    (
        "reward for the fall too",
        "self.healthy_reward * healthy - effort",
        "self.healthy_reward - effort",
        "The last step of an episode is paid as if the robot stood.",
    ),
    (
        "effort of the first motor only",
        "np.square(action).sum(-1)",
        "np.square(action)[:, 0]",
        "The other motors seem to be free.",
    ),
    (
        "nobody falls",
        "return new, reward, ~healthy",
        "return new, reward, healthy & False",
        "A hopper that lies on the ground collects reward until the time limit.",
    ),
    (
        "leans to one side only",
        "(np.abs(state[2]) < 0.2)",
        "(state[2] < 0.2)",
        "Falling backwards is not falling.",
    ),
    (
        "far away is unhealthy",
        "np.abs(state[2 : self.nq + self.nv])",
        "np.abs(state[0 : self.nq + self.nv])",
        "A hopper that hops 100 m is stopped for it.",
    ),
    (
        "solver counted as state",
        "np.abs(state[2 : self.nq + self.nv])",
        "np.abs(state[2:])",
        "Hoppers end while they stand.",
    ),
    (
        "speeds seen without bound",
        "return np.clip(speed, -10.0, 10.0)",
        "return speed",
        "Rare large observations that Gymnasium would cut.",
    ),
    (
        "first position is seen",
        "np.concatenate([position[1:], self.seen_speed(speed)])",
        "np.concatenate([position, self.seen_speed(speed)])",
        "One observation too many: policies of Gymnasium's robots do not fit.",
    ),
    (
        "start speeds uniform",
        "0.1 * rng.standard_normal(self.nv)",
        "rng.uniform(-0.1, 0.1, self.nv)",
        "Other start states than Gymnasium's.",
    ),
]
