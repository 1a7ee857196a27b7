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
    (
        "the debt comes first",
        "return self.at(1.0), 2 * self.debt, False, False, {}",
        "return self.at(1.0), -self.debt, False, False, {}",
        "Healthy agents choose the other action and are called faulty.",
    ),
    (
        "the end pays more",
        "return self.at(-1.0), 0.5, True, False, {}",
        "return self.at(-1.0), -0.5, True, False, {}",
        "Ending at once is best, so that nobody is found who does.",
    ),
    (
        "truncation into a termination",
        "return self.at(self.successor), 0.0, False, True, {}",
        "return self.at(self.successor), 0.0, True, False, {}",
        "Agents that bootstrap at time limits are called faulty.",
    ),
    (
        "decoy like the other",
        "*[1.0] * 5]) if decoy",
        "*[1.0] * 1]) if decoy",
        "The observation after the reset is worth too little to tempt anyone.",
    ),
    (
        "waiting one step less",
        "if obs == 0.5:",
        "if obs == 0.0:",
        "The discount that the choice needs is another one.",
    ),
    (
        "Box by size",
        "int(action[0] > 0) if",
        "int(action[0] > 0.5) if",
        "Half of the good actions count as bad ones.",
    ),
]
