"""Answers that a learner may well give in lesson 05: (what it is, source, part of the message that it must get)."""


def _changed(source, *changes):
    for old, new in changes:
        assert source.count(old) == 1, (old, source)
        source = source.replace(old, new)
    return source


EDGE = """
def kl_at_edge(p_old, advantage, epsilon):
    p = p_old * (1 + epsilon) if advantage > 0 else p_old * (1 - epsilon)
    if p >= 1:
        return np.inf
    return p_old * np.log(p_old / p) + (1 - p_old) * np.log((1 - p_old) / (1 - p))
"""
KL = "p_old * np.log(p_old / p) + (1 - p_old) * np.log((1 - p_old) / (1 - p))"

LOSS = """
def token_loss(log_prob, old_log_prob, advantage, mask, epsilon):
    log_prob, old_log_prob, advantage = (x[mask] for x in (log_prob, old_log_prob, advantage))
    ratio = (log_prob - old_log_prob).clamp(-60, 60).exp()
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
    return -torch.minimum(ratio * advantage, clipped * advantage).mean()
"""
MIN = "torch.minimum(ratio * advantage, clipped * advantage)"
# without leaving padding out first
WHOLE = """
def token_loss(log_prob, old_log_prob, advantage, mask, epsilon):
    ratio = (log_prob - old_log_prob).clamp(-60, 60).exp()
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon)
    each = -torch.minimum(ratio * advantage, clipped * advantage)
    return each.mean()
"""


def _whole(ending):
    return _changed(WHOLE, ("return each.mean()", f"return {ending}"))


def _others(expression):
    return f"""
def advantages(rewards):
    G = rewards.shape[1]
    return {expression}
"""


def _factor(expression):
    return f"""
def best_factor(p_old, p_new):
    log, change = np.log(p_new / p_old), p_new / p_old - 1
    return {expression}
"""


def _settings(*guesses):
    return f"answer = dict(zip(answer, {guesses}))"


WRONG = {
    "05.1": [
        (
            "reverse KL",
            _changed(EDGE, (KL, "p * np.log(p / p_old) + (1 - p) * np.log((1 - p) / (1 - p_old))")),
            "wrong way round",
        ),
        ("one action only", _changed(EDGE, (KL, "p_old * np.log(p_old / p)")), "sampled action only"),
        ("rule of thumb", "kl_at_edge = lambda p_old, advantage, epsilon: epsilon**2 / 2", "rule of thumb"),
        ("other end", _changed(EDGE, ("advantage > 0", "advantage < 0")), "other end"),
        ("probability moved by ε", _changed(EDGE, ("p_old * (1 + epsilon)", "p_old + epsilon")), "on the ratio"),
        (
            "never inf",
            _changed(EDGE, ("p >= 1:\n        return np.inf", "p >= 1:\n        p = 0.999")),
            "can a probability do that",
        ),
        ("same for bad actions", _changed(EDGE, (" if advantage > 0 else p_old * (1 - epsilon)", "")), "p_old = 0.8, A = -3"),
    ],
    "05.2": [
        ("sign", _changed(LOSS, ("-torch", "torch")), "objective itself"),
        ("no min", _changed(LOSS, (MIN, "(clipped * advantage)")), "clip without the min"),
        ("no clip", _changed(LOSS, (MIN, "(ratio * advantage)")), "no clip to be seen"),
        ("max", _changed(LOSS, ("minimum", "maximum")), "pessimistic"),
        ("advantage outside", _changed(LOSS, (MIN, "(torch.minimum(ratio, clipped) * advantage)")), "wrong side"),
        ("sign of the clip", _changed(LOSS, ("1 - epsilon, 1 + epsilon", "-epsilon, epsilon")), "another number"),
        (
            "clipped branch detached",
            _changed(LOSS, (MIN, "torch.minimum(ratio.detach() * advantage, clipped * advantage)")),
            "slope cannot",
        ),
        ("ratio detached", _changed(LOSS, (".exp()", ".exp().detach()")), "carries no gradient"),
        ("fixed ε", _changed(LOSS, ("1 - epsilon, 1 + epsilon", "0.8, 1.2")), "you clip at 0.2"),
        ("places, not tokens", _whole("torch.where(mask, each, 0).mean()"), "number of places"),
        ("padding counted", _whole("each.mean()"), "also the padded ones"),
        ("sum", _whole("torch.where(mask, each, 0).sum()"), "grow with the length"),
        (
            "mean of means",
            _whole("(torch.where(mask, each, 0).sum(1) / mask.sum(1)).mean()"),
            "within each answer first",
        ),
        ("sum per answer", _whole("torch.where(mask, each, 0).sum(1).mean()"), "mean over answers"),
        ("mask turned round", _changed(LOSS, ("x[mask]", "x[~mask] if not mask.all() else x[mask]")), "True is a real token"),
        ("multiplied away", _whole("(each * mask).sum() / mask.sum()"), "Do not multiply"),
        ("left out too late", _whole("each[mask].mean()").replace(".clamp(-60, 60)", ""), "goes through the padded place"),
        ("advantage not masked", _whole("torch.where(mask, each, 0).sum() / mask.sum()"), "place of advantage the loss is fine"),
        ("no bound", _changed(LOSS, (".clamp(-60, 60)", "")), "gradient is NaN"),
        ("tight bound", _changed(LOSS, ("(-60, 60)", "(-5, 5)")), "too tight"),
        ("no scalar", _changed(LOSS, (").mean()", ")")), "must be one number"),
        ("number", _changed(LOSS, (").mean()", ").mean().item()")), "torch tensor"),
    ],
    "05.3": [
        ("own reward in the baseline", _others("rewards - rewards.mean(1, keepdims=True)"), "own baseline"),
        (
            "divided by the std",
            _others("(rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, keepdims=True) + 1e-8)"),
            "division by the std",
        ),
        ("0/0", _others("(rewards - rewards.mean(1, keepdims=True)) / rewards.std(1, keepdims=True)"), "gives NaN"),
        ("divided by G", _others("rewards - (rewards.sum(1, keepdims=True) - rewards) / G"), "how many others"),
        ("the baseline", _others("(rewards.sum(1, keepdims=True) - rewards) / (G - 1)"), "the baseline itself"),
        ("no baseline", _others("rewards"), "baseline come off at all"),
        ("mean over questions", _others("rewards - rewards.mean(0, keepdims=True)"), "different questions"),
        (
            "mean over everything",
            _others("(rewards - rewards.mean()) * (rewards.std(1, keepdims=True) > 0)"),
            "alone in the batch",
        ),
        ("sum of the others", _others("(G - 1) * rewards - (rewards.sum(1, keepdims=True) - rewards)"), "Sum of the others"),
        ("sign", _others("(rewards.mean(1, keepdims=True) - rewards) * G / (G - 1)"), "The sign"),
        ("wrong factor", _others("(rewards - rewards.mean(1, keepdims=True)) * (G - 1) / G"), "wrong way round"),
    ],
    "05.4": [
        ("sign", _factor("-(p_old * log * change).sum() / (p_old * change**2).sum()"), "The sign"),
        ("k3", _factor("1"), "k3 itself"),
        (
            "weights of the new policy",
            _factor("np.cov(log, change, aweights=p_new, bias=True)[0, 1] / np.cov(change, aweights=p_new, bias=True)"),
            "new one's",
        ),
        ("no weights", _factor("np.cov(log, change)[0, 1] / np.var(change, ddof=1)"), "list of actions"),
        (
            "divided by Var(log ρ)",
            _factor("np.cov(log, change, aweights=p_old)[0, 1] / np.cov(log, aweights=p_old)"),
            "regression of what on what",
        ),
        ("k1", _factor("0"), "a larger c"),
        ("half", _factor("(p_old * log * change).sum() / (p_old * change**2).sum() / 2"), "equal to 0"),
        ("one divergence", _factor("(p_new * log).sum() / (p_old * change**2).sum()"), "two terms"),
    ],
    "05.5": [
        (
            "clip matters",
            _settings("different", "same", "different", "same", "different", "same"),
            "clip_epsilon=0.01. How large",
        ),
        ("value clip matters", _settings("same", "different", "different", "same", "different", "same"), "value_clip"),
        ("minibatches do not", _settings("same", "same", "same", "same", "different", "same"), "num_minibatches=2"),
        ("stop matters", _settings("same", "same", "different", "different", "different", "different"), "2 of your guesses"),
        ("epochs do not", _settings("same", "same", "different", "same", "same", "same"), "in the second epoch"),
        ("all different", _settings(*["different"] * 6), "4 of your guesses"),
        ("another word", _settings("yes", "same", "different", "same", "different", "same"), "Choose one of"),
    ],
}

ALSO_RIGHT = {
    "05.2": [
        (
            "token by token",
            """
def token_loss(log_prob, old_log_prob, advantage, mask, epsilon):
    total = 0.0
    for b, t in mask.nonzero().tolist():
        A, ratio = advantage[b, t], (log_prob[b, t] - old_log_prob[b, t]).clamp(max=60).exp()
        plain, ceiling = ratio * A, A + epsilon * A.abs()
        total = total - (plain if plain < ceiling else ceiling)
    return total / mask.sum()
""",
        ),
        (
            "junk replaced",
            """
def token_loss(log_prob, old_log_prob, advantage, mask, epsilon):
    log_prob, old_log_prob, advantage = (torch.where(mask, x, 0.0) for x in (log_prob, old_log_prob, advantage))
    ratio = (log_prob - old_log_prob).clamp(-60, 60).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - epsilon, 1 + epsilon) * advantage).sum() / mask.sum()
""",
        ),
    ],
}
