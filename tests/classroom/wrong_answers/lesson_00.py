"""What learners write in the exercises of lesson 00, and what they must be told."""

MACHINE = """
def machine_values(gamma):
    difference = 3 / (1 - gamma / 4)
    working = (2 - gamma / 4 * difference) / (1 - gamma)
    return {}
"""

MATRIX = """
import numpy as np
def machine_values(gamma):
    P, r = np.array({moves}), np.array([2, -1])
    return np.linalg.solve(np.eye(2) - gamma * P, {pays})
"""

RETURNS = """
def returns_from_log(rewards, next_values, terminated, truncated, gamma):
    returns = np.zeros(len(rewards))
    following = {behind}
    for t in reversed(range(len(rewards))):
        if {first}:
            following = {value}
        elif {second}:
            following = {other}
        returns[t] = following = rewards[t] + gamma * following
    return {result}
"""
RIGHT = dict(
    behind="next_values[-1]", first="terminated[t]", value="0.0", second="truncated[t]", other="next_values[t]", result="returns"
)

PLAYED = """
def played_steps(obs, action, reward, terminated, truncated):
    ended = terminated | truncated
    played = np.ones_like(ended)
    {mask}
    return {rows}
"""
ROWS = "obs[:-1][played], action[played], reward[played], obs[1:][played], terminated[played]"

POLICY = """
def best_actions(transition, reward, gamma):
    states, actions = np.arange(len(reward)), np.zeros(len(reward), dtype=int)
    for _ in range(50):
        P, r = transition[states, actions], reward[states, actions]
        value = np.linalg.solve(np.eye(len(states)) - gamma * P, r)
        actions = {improved}
    return actions
"""

WRONG = {
    "00.1": [
        ("order", MACHINE.format("working - difference, working"), "wrong order"),
        ("on arrival", MATRIX.format(moves="[[.75, .25], [.5, .5]]", pays="P @ r"), "comes *next*"),
        ("probabilities", MATRIX.format(moves="[[.5, .5], [.25, .75]]", pays="r"), "mixed up"),
        ("never stays", MATRIX.format(moves="[[0, .25], [.5, 0]]", pays="r"), "stay as it is"),
        ("discounted at once", MATRIX.format(moves="[[.75, .25], [.5, .5]]", pays="gamma * r"), "discounted already"),
        ("mean per step", MACHINE.format("(1 - gamma) * working, (1 - gamma) * (working - difference)"), "per step"),
        ("no future", MACHINE.format("2.0, -1.0"), "one step only"),
        ("for one gamma", "def machine_values(gamma):\n    return 1.5 / 0.0875, 1.0 / 0.0875", "contradict the equation"),
        ("a number", "def machine_values(gamma):\n    return 2 / (1 - gamma)", "should have shape (2,)"),
        ("called", "machine_values = (20.0, 17.0)", "function itself"),
        ("renamed argument", MACHINE.format("working - difference, working").replace("(gamma)", "()"), "arguments of the stub"),
        ("no return", MACHINE.format("None").replace("return None", "working, working - difference"), "`return` missing"),
    ],
    "00.2": [
        ("clock is the end", RETURNS.format(**RIGHT | dict(other="0.0")), "the clock for the end"),
        ("no end", RETURNS.format(**RIGHT | dict(value="next_values[t]")), "although the episode had terminated"),
        ("truncation wins", RETURNS.format(**RIGHT | dict(first="truncated[t]", value="next_values[t]", second="terminated[t]",
                                                          other="0.0")), "termination must win"),
        ("last row", RETURNS.format(**RIGHT | dict(behind="0.0")), "stops in the middle"),
        ("leaks", RETURNS.format(**RIGHT | dict(first="False", second="False")), "the flags cut nothing"),
        ("truncation does not cut", RETURNS.format(**RIGHT | dict(second="False")), "a truncation cuts, too"),
        ("no bootstrap", RETURNS.format(**RIGHT | dict(behind="0.0", other="0.0")), "neither at a truncation nor"),
        ("reversed", RETURNS.format(**RIGHT | dict(result="returns[::-1]")), "reverse order"),
        ("from the start", RETURNS.format(**RIGHT | dict(result="returns * gamma ** np.arange(len(returns))")), "afresh"),
        ("no discount", RETURNS.format(**RIGHT).replace("gamma * following", "following"), "nothing is discounted"),
        ("one step", RETURNS.format(**RIGHT | dict(second="True")), "only one step"),
        ("something else", "def returns_from_log(rewards, *rest, gamma):\n    return 0 * rewards", "Follow one row by hand"),
        ("shape", RETURNS.format(**RIGHT | dict(result="returns[:, None]")), "an axis too many"),
    ],
    "00.3": [
        ("all rows", PLAYED.format(mask="", rows=ROWS), "did not follow from the end"),
        ("drops the end", PLAYED.format(mask="played = ~ended", rows=ROWS), "carries the flag"),
        ("drops both", PLAYED.format(mask="played[1:] = ~ended[:-1]\n    played &= ~ended", rows=ROWS), "*after* it"),
        ("reward 0", PLAYED.format(mask="played = reward != 0", rows=ROWS), "paid 0, but it was played"),
        ("flattened first", PLAYED.format(mask="played.ravel()[1:] = ~ended.ravel()[:-1]", rows=ROWS), "before you flatten"),
        ("same obs", PLAYED.format(mask="played[1:] = ~ended[:-1]", rows=ROWS.replace("obs[1:]", "obs[:-1]")), "to itself"),
        ("terminated only", PLAYED.format(mask="played[1:] = ~terminated[:-1]", rows=ROWS), "after a truncation, too"),
        ("action of the next row", PLAYED.format(mask="played[1:] = ~ended[:-1]",
                                                 rows=ROWS.replace("action[", "np.roll(action, -1, 0)[")), "another row"),
        ("one flag", PLAYED.format(mask="played[1:] = ~ended[:-1]", rows=ROWS.replace("terminated[", "ended[")), "clock stopped"),
        ("np.roll", PLAYED.format(mask="played = ~np.roll(ended, 1, 0)", rows=ROWS), "Row 0 is missing"),
        ("still (T, N)", PLAYED.format(mask="", rows="obs[:-1], action, reward, obs[1:], terminated"), "one long list"),
        ("four arrays", PLAYED.format(mask="", rows="obs, action, reward, terminated"), "five arrays"),
    ],
    "00.4": [
        ("first step", 'prediction = {"shortest clock": 100, "at gamma 0.999": "longer"}', "Not the first step decides"),
        ("too long", 'prediction = {"shortest clock": 500, "at gamma 0.999": "longer"}', "shorter clock of the list"),
        ("same", 'prediction = {"shortest clock": 200, "at gamma 0.999": "the same"}', "not any more"),
        ("shorter", 'prediction = {"shortest clock": 200, "at gamma 0.999": "shorter"}', "A shorter one is worse"),
        ("not in the list", 'prediction = {"shortest clock": 110, "at gamma 0.999": "longer"}', "Choose one of the clocks"),
    ],
    "00.6": [
        ("myopic", "def best_actions(transition, reward, gamma):\n    return reward.argmax(1)", "pays most at once"),
        ("worst", POLICY.format(improved="(reward + gamma * transition @ value).argmin(1)"), "worst way to act"),
        ("once", "def best_actions(transition, reward, gamma):\n"
         "    V = np.linalg.solve(np.eye(len(reward)) - gamma * transition.mean(1), reward.mean(1))\n"
         "    return (reward + gamma * transition @ V).argmax(1)", "until nothing changes"),
        ("no reward", POLICY.format(improved="(transition @ value).argmax(1)"), "greedy with respect to its *own* values"),
        ("states for actions", POLICY.format(improved="(reward + gamma * transition @ value).argmax(0)"), "IndexError"),
        ("the table", "def best_actions(transition, reward, gamma):\n    return reward", "should have shape (4,)"),
    ],
}  # fmt: skip

ALSO_RIGHT = {
    "00.1": [("by a solve, as a tensor", "import torch\n" + MATRIX.format(moves="[[.75, .25], [.5, .5]]", pays="r").replace(
        "return np.linalg.solve(np.eye(2) - gamma * P, r)", "return torch.tensor(np.linalg.solve(np.eye(2) - gamma * P, r))"))],
    "00.2": [
        ("recursive, a list", """
def returns_from_log(rewards, next_values, terminated, truncated, gamma):
    if len(rewards) == 0:
        return []
    rest = returns_from_log(*(x[1:] for x in (rewards, next_values, terminated, truncated)), gamma)
    ends = terminated[0] or truncated[0] or not rest
    return [rewards[0] + gamma * (next_values[0] * (not terminated[0]) if ends else rest[0])] + rest
"""),
        ("the package", """
from rlcourse import discounted_returns
def returns_from_log(rewards, next_values, terminated, truncated, gamma):
    behind = np.where(terminated, 0.0, next_values)
    return discounted_returns(rewards, gamma, ends=terminated | truncated, bootstrap=behind)
"""),
    ],
    "00.3": [("stacked", PLAYED.format(mask="played[1:] = ~ended[:-1]", rows=f"np.stack([{ROWS}])")), ("column by column", """
def played_steps(obs, action, reward, terminated, truncated):
    rows = []
    for n in range(obs.shape[1]):
        ended = False
        for t in range(len(action)):
            if not ended:
                rows.append((obs[t, n], action[t, n], reward[t, n], obs[t + 1, n], terminated[t, n]))
            ended = not ended and (terminated[t, n] or truncated[t, n])
    return [list(column) for column in zip(*rows)]
""")],
    "00.4": [("capitals", 'prediction = {"shortest clock": 200.0, "at gamma 0.999": "Longer"}')],
    "00.6": [("value iteration", """
def best_actions(transition, reward, gamma):
    V = np.zeros(len(reward))
    for _ in range(500):
        Q = reward + gamma * transition @ V
        V = Q.max(axis=1)
    return Q.argmax(axis=1).tolist()
""")],
}  # fmt: skip
