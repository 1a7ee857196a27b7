"""What learners write in the exercises of lesson 02, and what they must be told."""

LOCKED = "def locked_in(p, win):\n    return {}, {}"
WITHOUT, WITH = "(1 - p) / ((1 - p) + p * win)", "p * (1 - win)"

LOSS = """
def shared_loss(logits, action, value, target, value_coef):
    {value}
    target = target{detach}
    advantage = {advantage}
    log_prob = {log_prob}
    return {policy} + {critic}
"""


def loss(**changes):
    right = dict(
        value="value = value.squeeze(-1)", detach=".detach()", advantage="(target - value).detach()",
        log_prob="torch.log_softmax(logits, -1).gather(-1, action[:, None]).squeeze(-1)",
        policy="-(log_prob * advantage).mean()", critic="value_coef * ((value - target) ** 2).mean()",
    )  # fmt: skip
    return LOSS.format(**right | changes)


RETURNS = """
def episode_returns(reward, ended, running):
    finished, running = [], {start}
    for pay, over in zip(reward, ended):
        {steps}
    return {result}
"""


def returns(**changes):
    right = dict(start="running.copy()", steps="running += pay; finished.extend(running[over]); running[over] = 0.0",
                 result="finished, running")  # fmt: skip
    return RETURNS.format(**right | changes)


def prediction(right, **changes):
    return f"prediction = {right | changes}"


MARKS = {"V": 0.2, "V + 50": 0.2, "V / 2": 0.15, "2 V": 0.0, "-V": -0.6}
CONSTANT = {"-5": "more", "+5": "more", "+5, with V": "the same", "+1000, share": 0.5}

WRONG = {
    "02.1": [
        ("first play", LOCKED.format("1 - p", WITH), "no step at all"),
        ("ticket punished", LOCKED.format("1 - p * win", WITH), "changes nothing"),
        ("the other one", LOCKED.format(f"1 - {WITHOUT}", WITH), "Without baseline: this is the probability to find"),
        ("order", LOCKED.format(WITH, WITHOUT), "The order is"),
        ("coin locks in", LOCKED.format(WITHOUT, "1 - p"), "Which way does x go"),
        ("coin and ticket", LOCKED.format(WITHOUT, "1 - p * win"), "the coin, too, is a disappointment"),
        ("no difference", LOCKED.format(WITHOUT, WITHOUT), "nothing is 0 any more"),
        ("found with V", LOCKED.format(WITHOUT, f"1 - {WITH}"), "With V: this is the probability to find"),
        ("a half", LOCKED.format("0.5", WITH), "the share of locked runs is"),
        ("a half with V", LOCKED.format(WITHOUT, "0.5"), "With V: with p ="),
        ("odds", LOCKED.format("(1 - p) / (p * win)", WITH), "between 0 and 1"),
    ],
    "02.2": [
        ("not detached", loss(advantage="target - value"), "not detached"),
        ("(B, 1)", loss(value="pass"), "a matrix (B, B), and"),
        ("(B, 1) for the policy", loss(advantage="(target - value[:, None]).detach()"), "in the policy's part; squeeze"),
        ("(B, 1) for the critic", loss(critic="value_coef * ((value[:, None] - target) ** 2).mean()"), "in the critic's part"),
        ("sign", loss(policy="(log_prob * advantage).mean()"), "a loss goes down"),
        ("sum", loss(policy="-(log_prob * advantage).sum()", critic="value_coef * ((value - target) ** 2).sum()"),
         "instead of the mean"),
        ("probability", loss(log_prob="torch.softmax(logits, -1).gather(-1, action[:, None]).squeeze(-1)"), "not its logarithm"),
        ("all actions", loss(log_prob="torch.log_softmax(logits, -1)[:, action]"), "log_prob[:, action]"),
        ("critic detached", loss(value="value = value.squeeze(-1).detach()"), "No gradient reaches the critic"),
        ("value_coef", loss(critic="((value - target) ** 2).mean()"), "value_coef is not used"),
        ("half", loss(critic="value_coef * 0.5 * ((value - target) ** 2).mean()"), "only half"),
        ("no baseline", loss(advantage="target"), "the baseline is missing"),
        ("target attached", loss(detach=""), "flows into the targets"),
        ("no number", loss(policy="-(log_prob * advantage)"), "A loss is one number"),
        ("no graph", "def shared_loss(logits, *rest):\n    return logits.detach().mean()", "connected with"),
        ("nothing squeezed or detached", loss(value="", advantage="target - value"), "when that is mended"),
        ("log_prob (B, 1)", loss(log_prob="torch.log_softmax(logits, -1).gather(-1, action[:, None])"), "after gather"),
        ("normalised", loss(policy="-(log_prob * (advantage - advantage.mean()) / advantage.std()).mean()"), "is normalised"),
        ("logits", loss(log_prob="logits.gather(-1, action[:, None]).squeeze(-1)"), "weight the logit"),
        ("wrong axis", loss(log_prob="torch.log_softmax(logits, 0).gather(-1, action[:, None]).squeeze(-1)"),
         "gradient in the logits is"),
        ("fourth power", loss(critic="value_coef * ((value - target) ** 4).mean()"), "gradient in the values is"),
    ],
    "02.3": [
        ("forgets", returns(start="np.zeros_like(running)"), "start from running"),
        ("never set to 0", returns(steps="running += pay; finished.extend(running[over])"), "into the next episode"),
        ("order", returns(steps="finished.extend(running[over]); running[over] = 0.0; running += pay"), "belongs to the episode"),
        ("unfinished", returns(result="finished + list(running), running"), "They are still going on"),
        ("whole batch", "def episode_returns(reward, ended, running):\n    total = reward.sum(0) + running\n"
         "    return total[ended.any(0)], np.where(ended.any(0), 0.0, total)", "whole batch"),
        ("mean", "def episode_returns(reward, ended, running):\n    finished, running = [], running.copy()\n"
         "    for pay, over in zip(reward, ended):\n        running += pay; finished.extend(pay[over]); running[over] = 0.0\n"
         "    return finished, running", "not what they earned"),
        ("hands on nothing", returns(result="finished, np.zeros_like(running)"), "that you hand on"),
        ("in place", returns(start="running"), "copy it"),
        ("a list per row", returns(steps="running += pay; finished.append(running[over]); running[over] = 0.0"), "one flat list"),
        ("only the list", returns(result="finished"), "Return two things"),
        ("one number", returns(result="finished, running.sum()"), "running should have shape (1,)"),
        ("nothing", returns(result="[], np.zeros_like(running)"), "as running on"),
    ],
    "02.4": [
        ("perfect is 1", prediction(MARKS, V=1.0), "“V”: lower"),
        ("offset counts", prediction(MARKS, **{"V + 50": -500}), "does not see a constant"),
        ("half", prediction(MARKS, **{"V / 2": 0.1}), "“V / 2”: higher"),
        ("exaggerates", prediction(MARKS, **{"2 V": 0.2}), "twice too far"),
        ("never negative", prediction(MARKS, **{"-V": 0}), "worse than a constant"),
        ("a word", prediction(MARKS, **{"-V": "bad"}), "Expected numbers"),
    ],
    "02.5": [
        ("blame explores", prediction(CONSTANT, **{"-5": "fewer"}), "“-5”"),
        ("no effect", prediction(CONSTANT, **{"+5": "the same"}), "“+5”"),
        ("baseline does not help", prediction(CONSTANT, **{"+5, with V": "more"}), "“+5, with V”"),
        ("all locked", prediction(CONSTANT, **{"+1000, share": 1.0}), "fewer than 100%"),
        ("in percent", prediction(CONSTANT, **{"+1000, share": 50}), "between 0 and 1"),
        ("none locked", prediction(CONSTANT, **{"+1000, share": 0.03}), "more than 3%"),
    ],
}  # fmt: skip

ALSO_RIGHT = {
    "02.1": [("by waiting", """
def locked_in(p, win):
    return sum((p * (1 - win)) ** n for n in range(1000)) * (1 - p), p - p * win
""")],
    "02.2": [
        ("torch's own", """
import torch.nn.functional as F
def shared_loss(logits, action, value, target, value_coef):
    with torch.no_grad():
        advantage = target - value[:, 0]
    policy = torch.distributions.Categorical(logits=logits)
    return (-policy.log_prob(action) * advantage).mean() + value_coef * F.mse_loss(value[:, 0], target.detach())
"""),
        ("shape (1,)", loss(policy="-(log_prob * advantage).mean(0, keepdim=True)")),
    ],
    "02.3": [("column by column, an array", """
def episode_returns(reward, ended, running):
    finished, new = [], []
    for n in range(reward.shape[1]):
        cuts = np.flatnonzero(ended[:, n]) + 1
        sums = [piece.sum() for piece in np.split(reward[:, n], cuts)]
        sums[0] += running[n]
        finished += sums[:-1]
        new.append(sums[-1])
    return np.array(finished), new
""")],
}  # fmt: skip
