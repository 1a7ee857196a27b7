"""What learners write in the exercises of lesson 01, and what they must be told."""

SCORE = """
def gaussian_score(action, mean, log_std):
    std = {std}
    z = (action - mean) / std
    density = np.exp(-(z**2) / 2) / std / np.sqrt(2 * np.pi)
    return {result}
"""

GRADIENT = """
def shared_gradient(transition, reward, gamma, start, features, theta):
    weight = np.exp(features @ theta)
    pi = weight / weight.sum({axis}, keepdims=True)
    P = np.einsum("sa,sat->st", pi, transition)
    system = np.eye(len(start)) - gamma * P
    value = np.linalg.solve(system, (pi * reward).sum(1))
    q_value = reward + gamma * transition @ value
    advantage = q_value - value[:, None]
    visits = {visits}
    score = features - np.einsum("sa,sad->sd", pi, features)[:, None]
    return {sign}np.einsum("s,sa,sad->{out}", visits, {weight}, {by})
"""


def gradient(**changes):
    right = dict(axis=1, visits="np.linalg.solve(system.T, start)", sign="", out="d", weight="pi * q_value", by="score")
    return GRADIENT.format(**right | changes)


ESTIMATE = """
def corrected_estimate(pi, action, reward, b):
    scores = np.eye(len(pi)) - pi
    return {}
"""

VERDICT = {
    "G_t - V(s_t)": "unbiased", "G_t - V(s_t+1)": "biased", "G_t - r_t-1": "unbiased", "G_t - r_t": "biased",
    "r_t + gamma V(s_t+1)": "unbiased", "G_t - t": "unbiased", "G_t - length of the episode": "biased",
    "G_t - return of another episode": "unbiased",
}  # fmt: skip


def prediction(**changes):
    right = {"b = 0": 40_000, "b = 90": 400, "b = 200": 40_000, "mean at b = 200": "better arm"}
    return f"prediction = {right | changes}"


WRONG = {
    "01.1": [
        ("sign of the mean", SCORE.format(std="np.exp(log_std)", result="-z / std, z**2 - 1"), "towards the action"),
        ("both signs", SCORE.format(std="np.exp(log_std)", result="-z / std, 1 - z**2"), "Both signs"),
        ("inner derivative", SCORE.format(std="np.exp(log_std)", result="z, z**2 - 1"), "one division by σ is missing"),
        ("by sigma", SCORE.format(std="np.exp(log_std)", result="z / std, (z**2 - 1) / std"), "derivative by σ"),
        ("no normalising factor", SCORE.format(std="np.exp(log_std)", result="z / std, z**2"), "in front of the density"),
        ("of pi", SCORE.format(std="np.exp(log_std)", result="density * z / std, density * (z**2 - 1)"), "differentiated π"),
        ("variance", SCORE.format(std="np.exp(log_std / 2)", result="z / std, z**2 - 1"), "taken for the variance"),
        ("no exp", SCORE.format(std="log_std", result="z / std, z**2 - 1"), "take σ = exp(log_std)"),
        ("order", SCORE.format(std="np.exp(log_std)", result="z**2 - 1, z / std"), "The order is"),
        ("not centred", SCORE.format(std="np.exp(log_std)", result="z / std, (z**2 + 1) / 2"), "cannot be a score"),
        ("too small", SCORE.format(std="np.exp(log_std)", result="z / std, (z**2 - 1) / 2"), "it does not"),
    ],
    "01.2": [
        ("no d", gradient(visits="np.ones(len(start))"), "Every state counts the same"),
        ("start only", gradient(visits="start"), "start distribution only"),
        ("normalised", gradient(visits="(1 - gamma) * np.linalg.solve(system.T, start)"), "too short by 1 − γ"),
        ("plain visits", gradient(visits="np.linalg.solve((np.eye(len(start)) - P).T, start)"), "Step 11"),
        ("not transposed", gradient(visits="np.linalg.solve(system, start)"), "*transposed*"),
        ("features", gradient(by="features"), "not its score"),
        ("no pi", gradient(weight="advantage"), "weighted with π"),
        ("reward", gradient(weight="pi * reward"), "step itself"),
        ("sign", gradient(sign="-"), "turned round"),
        ("axis", gradient(axis=0), "wrong axis"),
        ("value for Q", gradient(weight="pi * value[:, None]"), "Your gradient is 0"),
        ("d twice", gradient(visits="np.linalg.solve(system.T, start) ** 2"), "Walk along it"),
        ("per state", gradient(out="sd"), "shape (2,)"),
    ],
    "01.3": [
        ("only the spread", prediction(**{"b = 0": 200}), "b = 0: after 200 episodes"),
        ("too high is worse", prediction(**{"b = 200": 1_000_000}), "b = 200: after 1,000,000"),
        ("linear", prediction(**{"b = 90": 4000}), "b = 90: after 4,000"),
        ("biased", prediction(**{"mean at b = 200": "nowhere"}), "for every b"),
        ("none", prediction(**{"b = 90": 0}), "at least 1"),
        ("a word", prediction(**{"mean at b = 200": "up"}), "Choose one of"),
    ],
    "01.4": [
        ("no correction", ESTIMATE.format("(reward - b[action]) * scores[action]"), "nothing given back"),
        ("sign", ESTIMATE.format("(reward - b[action]) * scores[action] - (pi * b) @ scores"), "must be added"),
        ("no probability", ESTIMATE.format("(reward - b[action]) * scores[action] + b @ scores"), "with its probability"),
        ("no score", ESTIMATE.format("(reward - b[action]) * scores[action] + pi * b"), "score of its own action"),
        ("b not used", ESTIMATE.format("reward * scores[action]"), "so it was without b"),
        ("mean of b", ESTIMATE.format("(reward - pi @ b) * scores[action]"), "the same whichever action is drawn"),
        ("upside down", ESTIMATE.format("-(reward - b[action]) * scores[action] - (pi * b) @ scores"), "whole estimate"),
        ("half", ESTIMATE.format("(reward - b[action]) * scores[action] + (pi * b) @ scores / 2"), "does not know b"),
        ("one number", ESTIMATE.format("(reward - b[action]) * scores[action, action]"), "should have shape (3,)"),
    ],
    "01.5": [
        ("next value", f"verdict = {VERDICT | {'G_t - V(s_t+1)': 'unbiased'}}", "“G_t - V(s_t+1)”"),
        ("own reward", f"verdict = {VERDICT | {'G_t - r_t': 'unbiased'}}", "“G_t - r_t”"),
        ("length", f"verdict = {VERDICT | {'G_t - length of the episode': 'unbiased'}}", "length of the episode"),
        ("random b", f"verdict = {VERDICT | {'G_t - return of another episode': 'biased'}}", "*is* the gradient"),
        ("a word", f"verdict = {VERDICT | {'G_t - t': 'yes'}}", "Choose one of"),
    ],
}  # fmt: skip

ALSO_RIGHT = {
    "01.1": [("autograd, for the lazy", """
import torch
def gaussian_score(action, mean, log_std):
    x = torch.tensor([mean, log_std], dtype=torch.float64, requires_grad=True)
    log_prob = torch.distributions.Normal(x[0], x[1].exp()).log_prob(torch.tensor(action, dtype=torch.float64))
    return torch.autograd.grad(log_prob, x)[0]
""")],
    "01.2": [
        ("A with the bare features", gradient(weight="pi * advantage", by="features")),
        ("loops", """
def shared_gradient(transition, reward, gamma, start, features, theta):
    S, A, D = features.shape
    pi = np.array([[np.exp(features[s, a] @ theta) for a in range(A)] for s in range(S)])
    pi = pi / pi.sum(axis=1)[:, None]
    d, V = np.zeros(S), np.zeros(S)
    P = (pi[:, :, None] * transition).sum(1)
    at = start.copy()
    for t in range(600):
        d += gamma**t * at
        at = at @ P
        V = (pi * (reward + gamma * transition @ V)).sum(1)
    Q = reward + gamma * transition @ V
    g = np.zeros(D)
    for s in range(S):
        for a in range(A):
            g += d[s] * pi[s, a] * (Q[s, a] - V[s]) * (features[s, a] - pi[s] @ features[s])
    return list(g)
"""),
    ],
    "01.4": [("sum over all actions", """
def corrected_estimate(pi, action, reward, b):
    value = b.astype(float).copy()
    value[action] += (reward - b[action]) / pi[action]  # importance weighting, then the exact sum
    return pi * (value - pi @ value)
""")],
}  # fmt: skip
