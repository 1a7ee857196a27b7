"""What learners write in the exercises of lesson 03, and what they must be told."""

WEIGHTS = """
def advantage_weights(gamma, gae_lambda, K):
    lam, ahead = gae_lambda, np.arange(K)
    on_rewards = {rewards}
    on_values = np.zeros(K + 1)
    on_values[0] = {first}
    on_values[1:] = {between}
    on_values[K] = {last}
    return {result}
"""


def weights(**changes):
    right = dict(
        rewards="(gamma * lam) ** ahead", first="-1.0", between="gamma * (1 - lam) * (gamma * lam) ** ahead",
        last="gamma * (gamma * lam) ** (K - 1)", result="on_rewards, on_values",
    )  # fmt: skip
    return WEIGHTS.format(**right | changes)


FILTER = """
def gae_by_filter(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    ended = terminated | truncated
    delta = rewards + gamma * {future} - values
    places = np.flatnonzero({cut}) + {shift}
    pieces = np.split(delta, places)
    return {result}
"""


def filtered(coefficient="-gamma * gae_lambda", turn="[::-1]", **changes):
    one = f"lfilter([1.0], [1.0, {coefficient}], piece{turn}){turn}"
    right = dict(future="np.where(terminated, 0.0, next_values)", cut="ended[:-1]", shift="1",
                 result=f"np.concatenate([{one} for piece in pieces])")  # fmt: skip
    return FILTER.format(**right | changes)


NEXT_STEP = """
def gae_next_step(rewards, values, terminated, truncated, gamma, gae_lambda):
    ended = terminated | truncated
    played = np.ones_like(ended)
    {played}
    delta = rewards + gamma * {future} - values[:-1]
    advantages, following = np.zeros_like(rewards), np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        following = {step}
        advantages[t] = following
    return {result}
"""


def next_step(**changes):
    right = dict(
        played="played[1:] = ~ended[:-1]", future="np.where(terminated, 0.0, values[1:])",
        step="np.where(played[t], delta[t] + gamma * gae_lambda * np.where(ended[t], 0.0, following), 0.0)", result="advantages",
    )  # fmt: skip
    return NEXT_STEP.format(**right | changes)


STAR = {"half of the truth": "down", "noisy rewards": "down", "19 squares": "up", "mean of 4 estimates": "up", "1 too high": "up"}


def prediction(**changes):
    return f"prediction = {STAR | changes}"


NO_SUCCESSOR = "np.concatenate([values[1:-1], 0 * values[-1:]])"

WRONG = {
    "03.1": [
        ("tempting last weight", weights(last="gamma * (1 - lam) * (gamma * lam) ** (K - 1)"), "*all* the weight"),
        ("nothing behind the cut", weights(last="0.0"), "behind the cut has no weight"),
        ("no baseline", weights(first="0.0"), "every estimate subtracts it"),
        ("baseline added", weights(first="1.0"), "not added"),
        ("one residual", weights(between="gamma * (gamma * lam) ** ahead"), "two residuals"),
        ("no gamma in V", weights(between="(1 - lam) * lam ** ahead", last="lam ** (K - 1)"), "of the values do not know γ"),
        ("off by one", weights(between="gamma * lam * (1 - lam) * (gamma * lam) ** ahead"), "off by one in λ"),
        ("no lambda", weights(rewards="gamma ** ahead"), "do not know λ"),
        ("no gamma", weights(rewards="lam ** ahead"), "weights of the rewards do not know γ"),
        ("1 - lambda", weights(rewards="(1 - lam) * (gamma * lam) ** ahead"), "carry 1 − λ"),
        ("rewards off by one", weights(rewards="(gamma * lam) ** (ahead + 1)"), "r_t itself"),
        ("other rewards", weights(rewards="(gamma * lam / 2) ** ahead"), "Add up the weights of those"),
        ("other values", weights(between="gamma * (1 - lam) * lam ** ahead"), "Raise every value by 1"),
        ("one array", weights(result="on_values"), "Return two arrays"),
        ("swapped", weights(result="on_values, on_rewards"), "The order is"),
        ("one too many", weights(result="on_values, on_values"), "should have shape (4,)"),
    ],
    "03.2": [
        ("through termination", filtered(future="next_values"), "although the episode had terminated"),
        ("truncation is the end", filtered(future="np.where(ended, 0.0, next_values)"), "counts as a termination"),
        ("stream stops", filtered(future="np.append(np.where(terminated, 0.0, next_values)[:-1], 0.0)"), "where the stream"),
        ("no cut", filtered(cut="0 * ended"), "through all ends"),
        ("cut at falls only", filtered(cut="terminated[:-1]"), "through truncations"),
        ("cut before the end", filtered(shift="0", cut="ended"), "one row early"),
        ("cut late", filtered(shift="2", cut="ended[:-2]"), "one row late"),
        ("forwards", filtered(turn=""), "forwards in time"),
        ("sign", filtered(coefficient="gamma * gae_lambda"), "a sign in the filter"),
        ("lambda alone", filtered(coefficient="-gae_lambda"), "filter is λ alone"),
        ("gamma alone", filtered(coefficient="-gamma"), "filter is γ alone"),
        ("residuals", filtered(result="delta"), "nothing flows back"),
        ("targets", filtered().replace("return ", "return values + "), "value targets"),
        ("turned", filtered().replace("return ", "return (").rstrip() + ")[::-1]", "in reverse order"),
        ("next row", filtered(future="np.where(terminated, 0.0, np.append(values[1:], next_values[-1]))"), "really came"),
        ("something else", filtered(result="0 * delta"), "start afresh"),
        ("pieces", filtered(result="pieces"), "should have shape (1,)"),
    ],
    "03.3": [
        ("through termination", next_step(future="values[1:]"), "although the episode had terminated"),
        ("truncation is the end", next_step(future="np.where(ended, 0.0, values[1:])"), "counts as a termination"),
        ("batch stops", next_step(future=f"np.where(terminated, 0.0, {NO_SUCCESSOR})"), "where the batch stops"),
        ("reset rows stay", next_step(played=""), "is a reset row, and its advantage"),
        ("rows that pay 0", next_step(played="played = rewards != 0"), "may pay 0"),
        ("np.roll", next_step(played="played = ~np.roll(ended, 1, 0)"), "row 0 counts as"),
        ("drops the end", next_step(played="played = ~ended"), "the row with the flag is set to 0"),
        ("value of the new start", next_step(
            future="np.where(terminated, 0.0, np.where(ended, np.concatenate([values[2:], values[-1:]]), values[1:]))"),
         "new start"),
        ("carries over", next_step(step="np.where(played[t], delta[t] + gamma * gae_lambda * following, following)"),
         "must not flow over a reset row"),
        ("only the played", next_step(result="advantages[played]"), "should have shape"),
    ],
    "03.4": [
        ("the usual", 'prediction = {"critic that says 0": 0.95, "critic that knows": 0}', "only"),
        ("Monte Carlo", 'prediction = {"critic that says 0": 1, "critic that knows": 0}', "a smaller λ does it, too"),
        ("the same", 'prediction = {"critic that says 0": 0.99, "critic that knows": 0.99}', "Who tells the first action"),
        ("between", 'prediction = {"critic that says 0": 0.97, "critic that knows": 0}', "Choose one of"),
    ],
    "03.5": [
        ("better critic", prediction(**{"half of the truth": "up"}), "half of the truth"),
        ("noise", prediction(**{"noisy rewards": "up"}), "adds up over the steps"),
        ("length", prediction(**{"19 squares": "down"}), "19 squares"),
        ("mean", prediction(**{"mean of 4 estimates": "stays"}), "mean of 4 estimates"),
        ("offset", prediction(**{"1 too high": "stays"}), "As baseline a constant is harmless"),
    ],
}  # fmt: skip

ALSO_RIGHT = {
    "03.1": [("by unit vectors", """
from rlcourse import gae
def advantage_weights(gamma, gae_lambda, K):
    no = np.zeros(K, bool)
    f = lambda r, v: gae(r, v[:-1], v[1:], no, no, gamma, gae_lambda)[0][0]
    return [f(e, np.zeros(K + 1)) for e in np.eye(K)], [f(np.zeros(K), e) for e in np.eye(K + 1)]
""")],
    "03.2": [
        ("a loop, a list", """
def gae_by_filter(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    out, a = [], 0.0
    for t in range(len(rewards) - 1, -1, -1):
        if terminated[t] or truncated[t]:
            a = 0.0
        a = rewards[t] + gamma * next_values[t] * (1 - terminated[t]) - values[t] + gamma * gae_lambda * a
        out.insert(0, a)
    return out
"""),
        ("a triangular matrix", """
def gae_by_filter(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    ended = terminated | truncated
    delta = rewards + gamma * np.where(terminated, 0, next_values) - values
    piece = np.append(0, np.cumsum(ended)[:-1])
    t = np.arange(len(delta))
    lag = t[None, :] - t[:, None]
    W = np.where((lag >= 0) & (piece[:, None] == piece[None, :]), (gamma * gae_lambda) ** np.abs(lag), 0.0)
    return W @ delta
"""),
    ],
    "03.3": [("the package and a mask", """
from rlcourse import gae, valid_rows
def gae_next_step(rewards, values, terminated, truncated, gamma, gae_lambda):
    played = valid_rows(terminated, truncated)
    advantages, _ = gae(rewards, values[:-1], values[1:], terminated, truncated, gamma, gae_lambda)
    return np.where(played, advantages, 0.0)
""")],
}  # fmt: skip
