"""Answers that a learner may well give in lesson 07: (what it is, source, part of the message that it must get)."""

TEST = """
def is_right(gae):
    rewards, values = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([2.0, 4.0, 6.0, 8.0, 2.0])
    next_values = np.array([4.0, 77.0, 16.0, 2.0, 32.0])
    terminated = np.array([False, True, False, False, False])
    truncated = np.array([False, False, True, False, False])
    advantages, targets = gae(rewards, values, next_values, terminated, truncated, 0.5, 0.5)
    by_hand = np.array([1 - 0.25 * 2, 2 - 4, 3 + 8 - 6, -3 + 0.25 * 19, 5 + 16 - 2])
    return bool({verdict})
"""


def _factors(expression):
    return f"\ndef factors(advantages):\n    return {expression}\n"


def _settings(*guesses):
    return f"prediction = dict(zip(prediction, {guesses}))"


WRONG = {
    "07.1": [
        ("the right loss", _factors("-advantages / len(advantages)"), "the *right* loss"),
        ("no sign", _factors("np.full(len(advantages), advantages.mean() / len(advantages))"), "The sign"),
        ("the mean", _factors("np.full(len(advantages), -advantages.mean())"), "in the other direction"),
        ("one number", _factors("-advantages.mean() / len(advantages)"), "should have shape"),
    ],
    "07.2": [
        ("always", "\ndef is_right(gae):\n    return True\n", "6 of 6 sick functions pass"),
        ("never", "\ndef is_right(gae):\n    return False\n", "rejects a sound function"),
        ("targets not looked at", TEST.format(verdict="np.allclose(advantages, by_hand)"), "look at everything"),
        ("last row not looked at", TEST.format(verdict="np.allclose(advantages[:3], by_hand[:3]) and np.allclose(targets[:3], "
                                               "by_hand[:3] + values[:3])"), "look at the last row"),
        ("an array", "\ndef is_right(gae):\n    return np.ones(3)\n", "True or False"),
    ],
    "07.3": [
        ("all move", _settings("lower", "lower", "lower", "higher", "lower", "lower"), "a policy that is sure early"),
        ("nothing moves", _settings("same", "same", "same", "same", "same", "same"), "minimising"),
        ("KL upside down", _settings("lower", "same", "same", "lower", "lower", "lower"), "Who brings it back"),
        ("unknown word", _settings("down", "same", "same", "higher", "lower", "lower"), "Choose one of"),
    ],
    "07.4": [
        ("too short", 'reply = "It is right as it is."', "too few"),
        ("a number", "reply = 3", "Write a text"),
        ("three words", 'reply = "works as intended"', "too few"),
    ],
}  # fmt: skip

RIGHT = TEST.format(verdict="np.allclose(advantages, by_hand) and np.allclose(targets, by_hand + values)")
CALL = "truncated, 0.5, 0.5)"
ALSO_RIGHT = {
    "07.2": [
        ("two by name", RIGHT.replace(CALL, "truncated, gamma=0.5, gae_lambda=0.5)")),
        ("all by name", RIGHT.replace("(rewards, values, next_values, terminated, " + CALL,
                                      "(rewards=rewards, values=values, next_values=next_values, terminated=terminated, "
                                      "truncated=truncated, gamma=0.5, gae_lambda=0.5)")),
        ("lists", RIGHT.replace("(rewards, values, next_values, terminated, " + CALL,
                                "(rewards.tolist(), values.tolist(), next_values.tolist(), terminated.tolist(), "
                                "truncated.tolist(), 0.5, 0.5)")),
    ],
}  # fmt: skip
