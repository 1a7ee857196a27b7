"""Answers that a learner may well give in lesson 04: (what it is, source, part of the message that it must get)."""


def _changed(source, *changes):
    for old, new in changes:
        assert source.count(old) == 1, (old, source)
        source = source.replace(old, new)
    return source


SEARCH = """
def line_search(parameters, step, evaluate, max_kl):
    old = parameters.copy()
    for k in range(10):
        parameters[:] = old + 0.5**k * step
        improvement, kl = evaluate()
        if np.isfinite([improvement, kl]).all() and improvement > 0 and kl <= max_kl:
            return k
    parameters[:] = old
    return -1
"""
TEST = "if np.isfinite([improvement, kl]).all() and improvement > 0 and kl <= max_kl:"

FISHER = """
def fisher_product(obs, weights, v):
    logits = obs @ weights
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    u = obs @ v
    m = p * (u - (p * u).sum(-1, keepdims=True))
    return obs.T @ m / len(obs)
"""

CG = """
def preconditioned_cg(product, g, diagonal, rel_tol, max_iters):
    x, r = np.zeros_like(g), g.copy()
    z = r / diagonal
    p, rz = z, r @ z
    for _ in range(max_iters):
        if not np.linalg.norm(r) > rel_tol * np.linalg.norm(g):
            break
        Fp = product(p)
        if not p @ Fp > 0:
            raise ValueError("not positive definite")
        alpha = rz / (p @ Fp)
        x, r = x + alpha * p, r - alpha * Fp
        z = r / diagonal
        rz, old = r @ z, rz
        p = z + rz / old * p
    return x
"""
STOP = "if not np.linalg.norm(r) > rel_tol * np.linalg.norm(g):"
GUARD = """        if not p @ Fp > 0:
            raise ValueError("not positive definite")
"""


def _coin(expression):
    return f"coin_step = lambda p, difference, max_kl: {expression}"


def _ten(*guesses):
    return f"answer = dict(zip(answer, {guesses}))"


WRONG = {
    "04.1": [
        ("factor 2 lost", _coin("np.sign(difference) * np.sqrt(max_kl / (p * (1 - p)))"), "half of the limit"),
        ("no sign", _coin("np.sqrt(2 * max_kl / (p * (1 - p)))"), "has a sign"),
        ("direction, not scaled", _coin("difference"), "not yet scaled"),
        ("times the curvature", _coin("np.sign(difference) * np.sqrt(2 * max_kl * p * (1 - p))"), "must divide"),
        ("no curvature", _coin("np.sign(difference) * np.sqrt(2 * max_kl)"), "the same for every p"),
        ("root forgotten", _coin("np.sign(difference) * 2 * max_kl / (p * (1 - p))"), "solve for |x|"),
        ("called", "coin_step = 0.2", "without calling it"),
    ],
    "04.2": [
        ("no copy", _changed(SEARCH, ("parameters.copy()", "parameters")), "another name"),
        (
            "adds up",
            _changed(SEARCH, ("parameters[:] = old + 0.5**k * step", "parameters += 0.5**k * step")),
            "add to the previous",
        ),
        (
            "local name",
            _changed(SEARCH, ("parameters[:] = old + 0.5**k * step", "parameters = old + 0.5**k * step")),
            "local name",
        ),
        ("no KL test", _changed(SEARCH, (TEST, "if improvement > 0:")), "both tests must hold"),
        ("KL test only", _changed(SEARCH, (TEST, "if kl <= max_kl:")), "worse (improvement −1)"),
        ("refuses instead of accepting", _changed(SEARCH, (TEST, "if not (kl > max_kl or improvement <= 0):")), "KL = nan"),
        ("infinite KL", _changed(SEARCH, ("np.isfinite([improvement, kl]).all()", "np.isfinite(improvement)")), "-inf ≤ δ"),
        ("infinite gain", _changed(SEARCH, (TEST, "if improvement > 0 and kl <= max_kl:")), "inf > 0"),
        ("strict limit", _changed(SEARCH, ("kl <= max_kl", "kl < max_kl")), "exactly at the limit"),
        ("takes a gain of 0", _changed(SEARCH, ("improvement > 0", "improvement >= 0")), "Nothing improved"),
        ("not restored", _changed(SEARCH, ("    parameters[:] = old\n    return", "    return")), "at the last candidate"),
        (
            "subtracted again",
            _changed(
                SEARCH,
                ("parameters[:] = old + 0.5**k * step", "parameters += 0.5**k * step"),
                ("            return k\n", "            return k\n        parameters -= 0.5**k * step\n"),
                ("    parameters[:] = old\n", ""),
            ),
            "rounds twice",
        ),
        ("nothing returned", _changed(SEARCH, ("    return -1", "    return")), "returned None"),
        ("returns the fraction", _changed(SEARCH, ("return k", "return 0.5**k")), "you returned 1 with"),
        ("one candidate too few", _changed(SEARCH, ("range(10)", "range(9)")), "9 candidates"),
        ("starts with a half", _changed(SEARCH, ("0.5**k", "0.5**(k + 1)")), "The first candidate is the full step"),
    ],
    "04.3": [
        ("mean not taken off", _changed(FISHER, ("u - (p * u).sum(-1, keepdims=True)", "u")), "been taken off"),
        (
            "plain mean taken off",
            _changed(FISHER, ("(p * u).sum(-1, keepdims=True)", "u.mean(-1, keepdims=True)")),
            "weighs all actions alike",
        ),
        ("probabilities once", _changed(FISHER, ("p * (u", "(u")), "only half of it"),
        ("something else", _changed(FISHER, ("obs.T @ m", "(obs.T @ m)[::-1]")), "begins with"),
        (
            "all the middle matrices",
            """
def fisher_product(obs, weights, v):
    logits = obs @ weights
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    middle = np.array([np.diag(row) - np.outer(row, row) for row in p])
    return obs.T @ np.einsum("bac,bc->ba", middle, obs @ v) / len(obs)
""",
            "a third axis",
        ),
        ("sum over the batch", _changed(FISHER, (" / len(obs)", "")), "a mean over observations"),
        ("softmax over the batch", _changed(FISHER, ("p.sum(-1, keepdims=True)", "p.sum(0, keepdims=True)")), "taken off"),
        ("mean over the whole batch", _changed(FISHER, ("(p * u).sum(-1, keepdims=True)", "(p * u).sum()")), "per observation"),
        ("wrong sign", _changed(FISHER, ("u - (p", "-u + (p")), "right direction, but -1 times"),
        ("flat", _changed(FISHER, ("obs.T @ m", "(obs.T @ m).ravel()")), "axis too many"),
        ("overflow", _changed(FISHER, ("np.exp(logits - logits.max(-1, keepdims=True))", "np.exp(logits)")), "exp overflows"),
    ],
    "04.4": [
        (
            "plain",
            _changed(
                CG, ("    z = r / diagonal\n    p", "    z = r.copy()\n    p"), ("        z = r / diagonal\n", "        z = r\n")
            ),
            "still along g",
        ),
        ("multiplies", CG.replace("r / diagonal", "r * diagonal"), "divide"),
        ("r.r in alpha", _changed(CG, ("alpha = rz", "alpha = (r @ r)")), "numerator is r·z"),
        (
            "r.r in beta",
            _changed(
                CG,
                ("p = z + rz / old * p", "p = z + (r @ r) / before * p"),
                ("        x, r = x", "        before = r @ r\n        x, r = x"),
            ),
            "look at β",
        ),
        ("no beta", _changed(CG, ("p = z + rz / old * p", "p = z")), "look at β"),
        ("r instead of z", _changed(CG, ("p = z + rz / old * p", "p = r + rz / old * p")), "Three unknowns"),
        ("absolute tolerance", _changed(CG, (STOP, "if r @ r < 1e-15:")), "your answer is 0"),
        (
            "absolute tolerance, tested later",
            _changed(CG, (STOP, "if x.any() and r @ r < 1e-10 or not r.any():")),
            "along the plain gradient",
        ),
        (
            "guard",
            _changed(
                CG, (STOP, "if False:"), (GUARD, ""), ("rz / (p @ Fp)", "rz / (p @ Fp + 1e-8)"), ("rz / old", "rz / (old + 1e-8)")
            ),
            "+ 1e-8",
        ),
        ("0/0", _changed(CG, (STOP, "if np.linalg.norm(r) < rel_tol * np.linalg.norm(g):"), (GUARD, "")), "g = 0 must give 0"),
        ("raises at g = 0", _changed(CG, (STOP, "if r @ r < 1e-20 * (g @ g):")), "g = 0 must give 0. Your function raised"),
        ("no guard", _changed(CG, (GUARD, "")), "without a word"),
        ("no early stop", _changed(CG, (STOP, "if not r.any() or np.linalg.norm(r) < 1e-13 * np.linalg.norm(g):")), "went on"),
        (
            "stops by z",
            _changed(CG, (STOP, "if not r.any() or np.linalg.norm(z) <= rel_tol * np.linalg.norm(g / diagonal):")),
            "not at z",
        ),
        ("product twice", _changed(CG, ("r - alpha * Fp", "r - alpha * product(p)")), "one per iteration"),
        ("one iteration short", _changed(CG, ("range(max_iters)", "range(max_iters - 1)")), "one iteration too few"),
        (
            "spoils g",
            _changed(CG, ("g.copy()", "g"), ("x, r = x + alpha * p, r - alpha * Fp", "x = x + alpha * p; r -= alpha * Fp")),
            "another name",
        ),
    ],
    "04.5": [
        ("KLs add up", _ten(10, 10, 10), "too little"),
        ("noise forgotten", _ten(100, 100, 0), "too much"),
        ("to and fro counts", _ten(100, 10, 10), "0 up to rounding"),
        ("no dictionary", "answer = 100", "Keep the dictionary"),
    ],
}
