"""One-line faults of the probe environments."""

MODULE = "rlcourse.worlds.probes"
TESTS = ["tests/worlds/test_probes.py"]
FAULTS = [
    (
        "the clock claims that the world ended",
        "return self.obs.copy(), 1.0, False, self.elapsed >= self.horizon, {}",
        "return self.obs.copy(), 1.0, self.elapsed >= self.horizon, False, {}",
        "The probe for truncation passes agents that confuse it with termination.",
    ),
    (
        "clock one step late",
        "self.elapsed >= self.horizon, {}",
        "self.elapsed > self.horizon, {}",
        "Returns are one higher than promised.",
    ),
    (
        "delay without discount",
        "return np.array([gamma, 1.0])",
        "return np.array([1.0, 1.0])",
        "An agent that discounts rightly is called faulty.",
    ),
    (
        "the reward ignores the observation",
        "return float(self.obs[0])",
        "return 1.0",
        "A critic that is blind to the observation passes.",
    ),
    (
        "always the same observation",
        "self.observations[self.np_random.integers(len(self.observations))]",
        "self.observations[self.np_random.integers(1)]",
        "One half of the probe is never met.",
    ),
    (
        "observations share one array",
        "return self.obs.copy(), self.reward(action), True, False, {}",
        "return self.obs, self.reward(action), True, False, {}",
        "Whoever keeps an observation keeps one that may change.",
    ),
    (
        "the wrong action is the right one",
        "obs * (2.0 * int(action) - 1.0)",
        "-obs * (2.0 * int(action) - 1.0)",
        "An agent with a sign error in its loss passes.",
    ),
    (
        "the best torque is at the edge",
        "1.0 - float(action[0] - obs / 2) ** 2",
        "1.0 - float(action[0] - obs) ** 2",
        "A policy that always shouts passes.",
    ),
]
