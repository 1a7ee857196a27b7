"""One-line faults of make_env."""

MODULE = "rlcourse.worlds.make_env"
TESTS = ["tests/worlds/test_make_env.py"]
FAULTS = [
    (
        "the reset observation passed off as the successor",
        'next_obs[row] = info["final_obs"][row]',
        'info["final_obs"][row]',
        "At a time limit the value of the next episode's start is bootstrapped.",
    ),
    (
        "the agent acts on an episode that is over",
        "obs[rows] = self.dynamics.observe(self.state[:, rows])",
        "obs[rows] = next_obs[rows]",
        "The first action of every episode answers the last observation of the one before.",
    ),
    (
        "obs and next_obs are one array",
        "obs = next_obs.copy()\n        rows",
        "obs = next_obs\n        rows",
        "The final observation is overwritten by the reset one.",
    ),
    (
        "time limit one step late",
        "truncated = self._age >= self.max_episode_steps",
        "truncated = self._age > self.max_episode_steps",
        "Episodes of 501 steps.",
    ),
    (
        "the clock goes on after a reset",
        "self._age[rows] = 0",
        "self._age[rows] += 0",
        "After the first time limit every episode has one step.",
    ),
    (
        "one random stream for all",
        "self._starts = [self._start_states(seed) for seed in seeds]",
        "self._starts = [self._start_states(seeds[0])] * len(seeds)",
        "A run depends on its neighbours: adding a seed changes the others.",
    ),
    (
        "the seed of the neighbour",
        "return [operator.index(s) for s in seeds]",
        "return [operator.index(s) for s in sorted(seeds)]",
        "Results change with the order of the seeds.",
    ),
    (
        "every reset the same start",
        "self._seeds = None",
        "self._seeds = self._seeds",
        "Evaluation plays one and the same episode again and again.",
    ),
    (
        "neighbouring seeds overlap",
        "return [int(s) for s in np.random.SeedSequence(operator.index(seed)).generate_state(num_envs, np.uint64)]",
        "return [int(seed) + i for i in range(num_envs)]",
        "Runs with seeds 0 and 1 share all but one of their environments: the spread over seeds looks too small.",
    ),
    (
        "actions are not clipped",
        "return np.clip(action, space.low.reshape(size), space.high.reshape(size)).astype(space.dtype)",
        "return action.astype(space.dtype)",
        "A Gaussian policy learns to shout: torques beyond what the motor can give.",
    ),
    (
        "start of a Discrete space forgotten",
        "action = action + start",
        "action = action + 0 * start",
        "Every action is another one than the agent meant.",
    ),
    (
        "one-hot without the start",
        "vector[int(obs) - int(space.start)] = 1.0",
        "vector[int(obs) % int(space.n)] = 1.0",
        "States are mixed up, silently.",
    ),
    (
        "the environment's own array handed out",
        "vector = np.array(obs, self.observation_space.dtype)",
        "vector = np.asarray(obs, self.observation_space.dtype)",
        "With an environment that reuses its array, the final observation is the reset one.",
    ),
    (
        "NaN observations pass",
        "if not np.isfinite(vector).all():",
        "if np.isinf(vector).all():",
        "One NaN from the environment, and the network is NaN for ever; nobody says where it came from.",
    ),
    (
        "infinite rewards pass",
        "if not math.isfinite(reward):",
        "if math.isnan(reward):",
        "One infinite reward, and every value is infinite.",
    ),
    (
        "negative actions count from the end",
        "if action.min() < 0 or action.max() >= n:",
        "if action.max() >= n:",
        "Action -1 is silently the last one.",
    ),
    (
        "shapes of actions broadcast",
        "if action.shape != (self.num_envs, size):",
        "if action.size % size:",
        "One action is used for all sub-environments.",
    ),
    (
        "a wrong observation shape is filled up",
        "if vector.shape != space.shape:",
        "if vector.ndim != len(space.shape):",
        "A single number is copied into every entry of the observation.",
    ),
    (
        "sub-environments share one state",
        "if len({id(env.unwrapped) for env in envs}) < len(envs):",
        "if len({id(env) for env in envs}) == 0:",
        "Sixteen sub-environments that all step one and the same environment.",
    ),
    (
        "float64 observations lose half their digits",
        "np.float64 if observation_space.dtype == np.float64 else np.float32",
        "np.float32 if observation_space.dtype == np.float64 else np.float32",
        "Checks in float64 agree to seven digits only.",
    ),
]
