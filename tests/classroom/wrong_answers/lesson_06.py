"""Answers that a learner may well give in lesson 06: (what it is, source, part of the message that it must get)."""


def _changed(source, *changes):
    for old, new in changes:
        assert source.count(old) == 1, (old, source)
        source = source.replace(old, new)
    return source


def _softplus(score, fisher):
    return f"""
def softplus_score(a, mean, x):
    std = np.logaddexp(0, x)
    slope = 1 / (1 + np.exp(-x))
    z = (a - mean) / std
    score = {score}
    return score, {fisher}
"""


RIGHT, SQUARED = "(z**2 - 1) * slope / std", "2 * (slope / std) ** 2"

SQUASHED = """
def squashed(mean, log_std, noise, low, high):
    u = mean + log_std.exp() * noise
    half = (high - low) / 2
    action = low + half * (torch.tanh(u) + 1)
    normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    slope = 2 * (np.log(2) - u - torch.nn.functional.softplus(-2 * u)) + half.log()
    return action, (normal - slope).sum(-1)
"""
STABLE = "2 * (np.log(2) - u - torch.nn.functional.softplus(-2 * u))"

LINES = """
def draw(mean, log_std, rng, low, high):
    noise = torch.tensor(rng.standard_normal(mean.shape))
    action = mean + log_std.exp() * noise
    return action, action.clamp(low, high)

def log_prob(mean, log_std, action):
    z = (action - mean) / log_std.exp()
    each = -0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)
    return each.sum(-1)
"""


def _half(*guesses):
    return f"answer = dict(zip(answer, {guesses}))"


WRONG = {
    "06.1": [
        ("score in log σ", _softplus("z**2 - 1", SQUARED), "x is not log σ"),
        ("score in σ", _softplus("(z**2 - 1) / std", SQUARED), "how does σ change with x"),
        ("without 1/σ", _softplus("(z**2 - 1) * slope", SQUARED), "dσ/dx is in it"),
        ("sign", _softplus("(1 - z**2) * slope / std", SQUARED), "sign is wrong"),
        ("square only", _softplus("z**2 * slope / std", SQUARED), "log σ depends on x"),
        ("Fisher of log σ", _softplus(RIGHT, "2"), "Fisher number of log σ"),
        ("Fisher of σ", _softplus(RIGHT, "2 / std**2"), "Fisher number of σ"),
        ("not squared", _softplus(RIGHT, "2 * slope / std"), "enters squared"),
        ("this action's", _softplus(RIGHT, "score**2"), "not its mean over actions"),
        ("underflow", _softplus(RIGHT, SQUARED).replace("np.logaddexp(0, x)", "np.log(1 + np.exp(x))"), "σ exactly 0"),
        ("mean of a square", _softplus(RIGHT, "(slope / std) ** 2"), "Not 1"),
        ("swapped", _softplus(SQUARED, RIGHT), "The score comes first"),
        (
            "score only",
            _softplus(RIGHT, SQUARED).replace("return score, 2 * (slope / std) ** 2", "return score"),
            "Score and Fisher number should have",
        ),
    ],
    "06.2": [
        ("no sum", _changed(SQUASHED, ("(normal - slope).sum(-1)", "normal - slope")), "add up"),
        ("mean", _changed(SQUASHED, (".sum(-1)", ".mean(-1)")), "mean over the dimensions"),
        ("Jacobian added", _changed(SQUASHED, ("normal - slope", "normal + slope")), "You ADD"),
        ("no Jacobian", _changed(SQUASHED, ("normal - slope", "normal")), "without the slope"),
        ("no half-width", _changed(SQUASHED, (" + half.log()", "")), "factor (high − low)/2"),
        ("whole width", _changed(SQUASHED, ("half.log()", "(2 * half).log()")), "or half of it"),
        ("no log σ", _changed(SQUASHED, ("- log_std - 0.5", "- 0.5")), "log σ is missing"),
        ("no constant", _changed(SQUASHED, (" - 0.5 * np.log(2 * np.pi)", "")), "½ log 2π"),
        ("naive", _changed(SQUASHED, (STABLE, "(1 - u.tanh() ** 2).log()")), "log 0"),
        ("plus 1e-6 indeed", _changed(SQUASHED, (STABLE, "(1 - u.tanh() ** 2 + 1e-6).log()")), "off by up to"),
        ("plus 1e-9", _changed(SQUASHED, (STABLE, "(1 - u.tanh() ** 2 + 1e-9).log()")), "A small constant"),
        (
            "symmetric bounds",
            _changed(SQUASHED, ("low + half * (torch.tanh(u) + 1)", "high * torch.tanh(u)")),
            "not from −c to c",
        ),
        ("log σ for σ", _changed(SQUASHED, ("mean + log_std.exp()", "mean + log_std")), "Is u = μ"),
        ("density at the mean", _changed(SQUASHED, ("-0.5 * noise**2", "-0.5 * u**2")), "Compare the two parts"),
        (
            "detached",
            _changed(SQUASHED, ("(normal - slope).sum(-1)", "(normal - slope).sum(-1).detach()")),
            "carries no gradient",
        ),
    ],
    "06.3": [
        ("σ = log σ", _changed(LINES, ("mean + log_std.exp()", "mean + log_std")), "That is one σ"),
        (
            "clipped is stored",
            _changed(LINES, ("return action, action.clamp(low, high)", "return (action.clamp(low, high),) * 2")),
            "no lumps",
        ),
        ("log σ missing", _changed(LINES, (" - log_std - 0.5", " - 0.5")), "σ would grow for ever"),
        ("mean over dimensions", _changed(LINES, ("each.sum(-1)", "each.mean(-1)")), "In one dimension it was right"),
        ("no sum", _changed(LINES, ("each.sum(-1)", "each")), "one number per dimension"),
        ("sum over the batch", _changed(LINES, ("each.sum(-1)", "each.sum(0)")), "should have shape (241,)"),
        ("sent as drawn", _changed(LINES, ("action.clamp(low, high)", "action")), "would get -10.3"),
        ("no 2π", _changed(LINES, (" - 0.5 * np.log(2 * np.pi)", "")), "√(2π)"),
        ("mean forgotten", _changed(LINES, ("(action - mean) /", "action /")), "its mean is"),
        (
            "wide enough",
            _changed(LINES, ("/ log_std.exp()", "/ 2 / log_std.exp()"), ("- log_std -", "- log_std - np.log(2) -")),
            "deviation",
        ),
        ("log σ twice", _changed(LINES, ("- log_std -", "- 2 * log_std -")), "how often does log σ"),
        (
            "one noise for all",
            _changed(LINES, ("standard_normal(mean.shape)", "standard_normal((len(mean), 1))")),
            "shape of mean",
        ),
        ("one number for all", _changed(LINES, ("standard_normal(mean.shape)", "standard_normal()")), "shape ()"),
        ("no square root of 2π", _changed(LINES, ("np.log(2 * np.pi)", "np.log(np.pi)")), "has the mass 1.414"),
        ("σ not squared", _changed(LINES, ("/ log_std.exp()", "/ (2 * log_std).exp()")), "by which power of σ"),
    ],
    "06.4": [
        ("always four", _half(4, 4, 4, 4), "“μ, b = E[r]”"),
        ("σ and not σ²", _half(2, 1, 2, 2), "“μ, no baseline”"),
        ("log σ is calm", _half(4, 1, 4, 1), "too few. At σ = 0.02 a relative error of 10 % takes"),
        ("noise is forgotten", _half(4, 1, 1, 16), "“μ, b = E[r], noise”"),
        ("noise to the fourth", _half(16, 1, 4, 16), "too many"),
    ],
    "06.5": [
        ("epochs and minibatches forgotten", _half(39, 1560, 0.32), "Those are updates"),
        ("minibatches forgotten", _half(156, 1560, 0.32), "many minibatches"),
        ("environment steps", _half(40_000, 1560, 0.32), "steps of the environment"),
        ("no horizon", _half(4992, 31.25, 0.32), "if every step brings"),
        ("one weight", _half(4992, 100_000, 0.32), "How many weights"),
        ("the value itself", _half(4992, 100, 0.32), "How far does a weight move"),
        ("scale the wrong way", _half(4992, 1560, 3.2), "not within half"),
        ("scale too small", _half(4992, 1560, 0.01), "% of the training"),
    ],
}

ALSO_RIGHT = {
    "06.3": [
        ("normal, by its size", _changed(LINES, ("standard_normal(mean.shape)", "normal(size=mean.shape)"))),
        (
            "normal, with mean and σ",
            _changed(
                LINES,
                ("rng.standard_normal(mean.shape)", "rng.normal(mean, log_std.exp())"),
                ("mean + log_std.exp() * noise", "noise"),
            ),
        ),
        ("float32", _changed(LINES, ("standard_normal(mean.shape)", "standard_normal(mean.shape, dtype=np.float32)"))),
    ],
}
