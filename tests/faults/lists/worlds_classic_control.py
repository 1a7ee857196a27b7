"""One-line faults of the batched twins."""

MODULE = "rlcourse.worlds.classic_control"
TESTS = ["tests/worlds/test_classic_control.py"]
FAULTS = [
    (
        "pole twice as long",
        "theta_acc = (9.8 * sin - cos * push) / (0.5 * (",
        "theta_acc = (9.8 * sin - cos * push) / (1.0 * (",
        "The pole falls more slowly: the task is easier than the one of the same name.",
    ),
    (
        "the new speed moves the cart",
        "state = state + 0.02 * rate",
        "state = state + 0.02 * rate; state[0::2] += 0.02 * 0.02 * rate[1::2]",
        "Another integrator: policies behave slightly differently on Gymnasium's environment.",
    ),
    (
        "angle limit in the wrong unit",
        "LIMIT = np.array([[2.4], [12 * 2 * PI / 360]])",
        "LIMIT = np.array([[2.4], [12 * PI / 360]])",
        "Episodes end at 6 degrees, and returns are lower than anybody else's.",
    ),
    (
        "only the right edge ends the episode",
        "outside = np.abs(state[0::2]) > CartPole.LIMIT",
        "outside = state[0::2] > CartPole.LIMIT",
        "Falling to the left is not falling: agents learn to lie down there and collect reward.",
    ),
    (
        "no reward for the last step",
        "return state, np.ones(state.shape[1]), outside[0] | outside[1]",
        "return state, 1.0 - (outside[0] | outside[1]), outside[0] | outside[1]",
        "Every return that ends in a fall is too low by one.",
    ),
    (
        "cart starts too far out",
        "return rng.uniform(-0.05, 0.05, (count, 4))",
        "return rng.uniform(-0.1, 0.1, (count, 4))",
        "Harder starts: short episodes for the same policy.",
    ),
    (
        "torque without its middle",
        "f, torque = Acrobot._derivative, action - 1.0",
        "f, torque = Acrobot._derivative, action * 1.0",
        "Action 0 does nothing and no action pulls back.",
    ),
    (
        "wrong weight in Runge-Kutta",
        "(k1 + 2 * k2 + 2 * k3 + k4)",
        "(k1 + 2 * k2 + 2 * k3 + k3)",
        "The links gain or lose energy by themselves.",
    ),
    (
        "angles wrapped on one side only",
        "while np.abs(angles).max() > PI:",
        "while angles.max() > PI:",
        "States that Gymnasium never shows; after many turns to the left the float32 sines lose digits.",
    ),
    (
        "one speed limit for both links",
        "np.clip(state[3], -9 * PI, 9 * PI, out=state[3])",
        "np.clip(state[3], -4 * PI, 4 * PI, out=state[3])",
        "The second link cannot swing as fast as in Gymnasium; some swing-ups fail.",
    ),
    (
        "reward of the goal step missing",
        "return state, terminated - 1.0, terminated",
        "return state, 0.0 * terminated - 1.0, terminated",
        "Every Acrobot return is too low by one.",
    ),
    (
        "sines and cosines swapped",
        "obs[:, 0:4:2] = np.cos(state[:2]).T",
        "obs[:, 0:4:2] = np.sin(state[:2]).T",
        "Two observations carry the same number, and the policy cannot tell up from down.",
    ),
    (
        "angle of the reward is not wrapped",
        "angle = (theta + PI) % (2 * PI) - PI",
        "angle = theta",
        "A pendulum that has turned around once is punished for ever.",
    ),
    (
        "the reward sees the new state",
        "reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)",
        "reward = -(angle**2 + 0.1 * (speed + 0.75 * np.sin(theta)) ** 2 + 0.001 * torque**2)",
        "Rewards are shifted by a fraction of a step; returns differ slightly from everybody else's.",
    ),
    (
        "position moves with the old speed",
        "new[0] = theta + new[1] * 0.05",
        "new[0] = theta + speed * 0.05",
        "The pendulum gains energy by itself.",
    ),
    (
        "pendulum always starts at rest",
        "high = np.array([PI, 1.0])",
        "high = np.array([PI, 1e-9])",
        "Evaluation is easier than in Gymnasium.",
    ),
]
