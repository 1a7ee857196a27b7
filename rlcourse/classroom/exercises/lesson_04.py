"""Exercises of lesson 04: the step by hand, a line search, Fisher products, conjugate gradient, and what KLs add up to."""

import tracemalloc

import numpy as np
import torch
from scipy import special
from torch.autograd.functional import hessian

from rlcourse.classroom.exercises import NotAttempted, Wrong, array, close, entries, exercise, explained, number, numbers, run
from rlcourse.classroom.lesson_04 import spd_matrix
from rlcourse.equations.trust_region import conjugate_gradient

# ------------------------------------------------------------------------------------------------------- 04.1 the step


def coin_kl(old, new):
    """KL between two coins with these probabilities of action 1."""
    return old * np.log(old / new) + (1 - old) * np.log((1 - old) / (1 - new))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@exercise("04.1", "One coin: the step by hand", kind="derive", level=1, minutes=15)
def coin_step(answer):
    h = 1e-4
    for p, gap, max_kl in ((0.5, 1.0, 0.01), (0.5, -1.0, 0.01), (0.2, 3.0, 0.01), (0.9, -0.01, 0.001), (0.03, 50.0, 0.02)):
        x = number("the step", run(answer, p, gap, max_kl))
        logit = np.log(p / (1 - p))
        fisher = (coin_kl(p, sigmoid(logit + h)) + coin_kl(p, sigmoid(logit - h))) / h**2  # the KL's second difference
        slope = gap * (sigmoid(logit + h) - sigmoid(logit - h)) / (2 * h)
        spent = fisher * x**2 / 2 / max_kl  # share of the limit
        where = f"For p = {p}, A(1) − A(0) = {gap:g} and a limit of {max_kl:g} your step is {x:.4g}"
        if slope * x <= 0:
            raise Wrong(f"{where}. The gradient p(1−p)·({gap:g}) has a sign, and x must have it, too.")
        if abs(spent - 0.5) < 1e-3:
            raise Wrong(f"{where}: ½Fx² is half of the limit. The factor 2 that public code loses.")
        if abs(x - gap) < 1e-6 * abs(gap):
            raise Wrong(f"{where}: that is F⁻¹g, the direction, not yet scaled to the limit.")
        if abs(spent - 1) > 1e-3 and abs(coin_kl(p, sigmoid(logit + x)) / max_kl - 1) < 1e-3:
            raise Wrong(f"{where}: there the *true* KL reaches the limit. Step 8 puts the parabola ½Fx² in its place.")
        if spent > 1 + 1e-3:
            raise Wrong(f"{where}: ½Fx² is {spent:.3g} times the limit. {_which(x, p, gap, max_kl)}")
        if spent < 1 - 1e-3:
            raise Wrong(f"{where}: ½Fx² is only {spent:.3g} of the limit, and g ≠ 0. {_which(x, p, gap, max_kl)}")
    return (
        "It reaches the limit of the parabola, in the right direction, for 5 coins. Notice what dropped out: the size of the "
        "advantage. And a warning: at p = 0.01 the step for 0.01 has a true KL of 0.017; that is what the line search is for."
    )


def _which(x, p, gap, max_kl):
    curvature = p * (1 - p)
    if abs(abs(x) - np.sqrt(2 * max_kl * curvature)) < 1e-6 * abs(x):
        return (
            "You multiplied by the curvature where one must divide: a flat KL allows a longer step. (Or is this the step in p? "
            "Asked for is that in θ.)"
        )
    if abs(abs(x) - np.sqrt(2 * max_kl / curvature) * abs(gap)) < 1e-6 * abs(x):
        return "Multiply all rewards by ten: your step becomes ten times as long. Does the limit allow that?"
    if abs(abs(x) - np.sqrt(2 * max_kl)) < 1e-6 * abs(x):
        return "Your step is the same for every p; but near 0 and 1 a shift of the logit hardly changes the policy."
    return "Insert your x into ½Fx² with F = the second derivative of the KL in the logit, and solve for |x|."


# ------------------------------------------------------------------------------------------------ 04.2 the line search


class _Search:
    """A line search at work: parameters that change in place, and everything that `evaluate` was asked."""

    def __init__(self, answer, judge, *, old=(0.1, -0.7, 0.3), step=(0.4, 0.2, -0.6), max_kl=0.05):
        self.old, self.step, self.parameters, self.seen = np.array(old), np.array(step), np.array(old), []

        def evaluate():
            self.seen.append(self.parameters.copy())
            if len(self.seen) > 100:
                raise Wrong("evaluate() was called more than 100 times; try ten candidates: 1, ½, … 1/512 of the step.")
            return judge(len(self.seen) - 1, float(np.abs(self.parameters - self.old).max() / np.abs(self.step).max()))

        try:
            self.accepted = run(lambda: answer(self.parameters, self.step.copy(), evaluate, max_kl))
        except NotAttempted:
            if self.seen:
                raise Wrong("Your function returned None: give the index of the accepted candidate, or −1.") from None
            raise
        self.accepted = int(number("the index", self.accepted))

    def places(self):
        """How far along the step evaluate was called, as fractions."""
        return [float((seen - self.old) @ self.step / (self.step @ self.step)) for seen in self.seen]


@exercise("04.2", "A line search that does no harm", kind="implement", level=2, minutes=25)
def line_search(answer):
    if not callable(answer):
        run(answer)
    _finds_the_first_good_one(answer)
    _keeps_the_old(answer)
    _refuses_what_is_not_finite(answer)
    edge = _Search(answer, lambda k, share: (1.0, 0.05), max_kl=0.05)
    if edge.accepted != 0:
        raise Wrong("A candidate with KL exactly at the limit is allowed (KL ≤ δ); yours refused it.")
    still = _Search(answer, lambda k, share: (0.0, 0.0))
    if still.accepted != -1:
        raise Wrong("Nothing improved (improvement 0, as for g = 0), but yours accepted it. The test is improvement > 0.")
    return "First good candidate, both tests, NaN refused, old parameters restored bit for bit."


def _finds_the_first_good_one(answer):
    full = _Search(answer, lambda k, share: (1.0, 0.0))
    places = full.places()
    if places and abs(places[0]) < 1e-12:
        raise Wrong(
            "The first time evaluate() was called, the parameters were still the old ones. Write into the array, "
            "`parameters[:] = …`; with `parameters = …` only your local name changes."
        )
    if not places or abs(places[0] - 1) > 1e-9:
        raise Wrong("The first candidate is the full step: set parameters to old + step, then call evaluate().")
    if full.accepted != 0 or not close(full.parameters, full.old + full.step):
        raise Wrong(
            f"The full step was good (KL 0, improvement 1), but you returned {full.accepted} with the parameters at "
            f"{numbers(full.parameters)}; expected index 0, and the parameters left at that candidate."
        )
    far = _Search(answer, lambda k, share: (1.0, share**2))  # KL 1, 0.25, 0.0625, 0.0156 of a limit 0.05
    places = far.places()
    if len(places) > 1 and abs(places[1] - 1.5) < 1e-9:
        worse = _Search(answer, lambda k, share: (-1.0, 0.0))
        why = (
            "You add to the previous candidate."
            if close(worse.parameters, worse.old)
            else "Is your `old` a copy, or just another name for the array `parameters`?"
        )
        raise Wrong(f"The second candidate was at old + 1.5·step: each fraction counts from the OLD parameters. {why}")
    if far.accepted == 0:
        raise Wrong("The full step had KL 1 with a limit of 0.05, and yours took it: it improved, but both tests must hold.")
    if not close(places[:3], [1, 0.5, 0.25]):
        raise Wrong(f"Candidates at {numbers(places)} of the step; expected 1, ½, ¼, …")
    if far.accepted != 3 or not close(far.parameters, far.old + far.step / 8):
        raise Wrong(
            f"KLs of 1, 0.25, 0.0625, 0.0156, limit 0.05: you returned {far.accepted}, with parameters at "
            f"{far.places()[-1]:.4g} of the step. Return the index of the first that passes, and leave it there."
        )


def _keeps_the_old(answer):
    old, step = np.array([0.1, -0.7, 1e-3]), np.array([0.3, 1e3, 7.0])
    worse = _Search(answer, lambda k, share: (-1.0, 0.0), old=old, step=step)
    if worse.accepted >= 0:
        raise Wrong("Every candidate made the surrogate worse (improvement −1) at KL 0, and yours accepted one: test both.")
    if not np.array_equal(worse.parameters, old):
        off = np.abs(worse.parameters - old).max()
        if off > 1e-6:
            raise Wrong(
                f"No candidate was good, but the parameters stay {off:.3g} away from the old ones: at the last candidate?"
            )
        raise Wrong(
            f"No candidate was good, and the parameters come back only up to {off:.1e}: adding a number and subtracting it "
            "again rounds twice. Keep a copy and put it back, bit for bit."
        )
    if worse.accepted != -1:
        raise Wrong(f"No candidate was good: return −1, not {worse.accepted}.")
    if len(worse.seen) != 10:
        raise Wrong(f"{len(worse.seen)} candidates were tried before giving up; the task says ten: 1, ½, … 1/512.")


def _refuses_what_is_not_finite(answer):
    for name, bad in (
        ("KL", (1.0, np.nan)),
        ("improvement", (np.nan, 0.0)),
        ("improvement", (np.inf, 0.0)),
        ("KL", (1.0, -np.inf)),
    ):
        search = _Search(answer, lambda k, share, bad=bad: bad if k == 0 else (1.0, 0.0))
        if search.accepted == 0:
            value = bad[name == "KL"]
            why = (
                f"{'inf > 0' if value > 0 else '-inf ≤ δ'} is True: ask np.isfinite as well."
                if np.isinf(value)
                else "Every comparison with NaN is False, so `if kl > max_kl: refuse` lets it pass. Accept on what must hold."
            )
            raise Wrong(f"A candidate with {name} = {value} was accepted. {why}")
        if search.accepted != 1:
            raise Wrong(
                f"The first candidate had {name} = {bad[name == 'KL']}, the second was good; you returned {search.accepted}."
            )


# --------------------------------------------------------------------------------------------- 04.3 products with Fisher


def _linear_softmax(rng, batch, inputs, actions):
    obs, weights, v = (rng.standard_normal(shape) for shape in ((batch, inputs), (inputs, actions), (inputs, actions)))
    return obs, weights, v


def _dense_fisher(obs, weights):
    """The Hessian of the mean KL at the old weights, by automatic differentiation: (n·A, n·A)."""
    obs, weights = torch.tensor(obs), torch.tensor(weights)
    old = torch.log_softmax(obs @ weights, -1)

    def kl(w):
        return (old.exp() * (old - torch.log_softmax(obs @ w.view_as(weights), -1))).sum(-1).mean()

    return hessian(kl, weights.flatten()).numpy()


@exercise("04.3", "Fisher times vector, by hand", kind="implement", level=2, minutes=20)
def fisher_product(answer):
    rng = np.random.default_rng(43)
    for batch, inputs, actions in ((1, 2, 2), (7, 3, 4), (5, 4, 3)):
        obs, weights, v = _linear_softmax(rng, batch, inputs, actions)
        got = array("F v", run(answer, obs, weights, v), (inputs, actions))
        constant = np.repeat(rng.standard_normal((inputs, 1)), actions, 1)  # the same for all actions: no policy changes
        idle = array("F v", run(answer, obs, weights, constant), (inputs, actions))
        wanted = (_dense_fisher(obs, weights) @ v.ravel()).reshape(v.shape)
        if not close(got, wanted, 1e-8):
            raise Wrong(_fisher_fault(got, wanted, idle, obs, weights, v))
    obs, weights, v = _linear_softmax(rng, 6, 3, 3)
    with np.errstate(all="ignore"):
        far = array("F v", run(answer, obs, 1000 * weights, v), finite=False)
    if not np.isfinite(far).all():
        raise Wrong("With logits around 1000 your product contains NaN: exp overflows. Subtract each row's largest logit first.")
    _no_large_array(answer, rng)
    return "Equal to the dense Hessian of the KL times v, for three policies, and without that matrix."


def _no_large_array(answer, rng, size=60):
    """With B = n = A = 60 everything that may be kept has 3,600 entries, a B × A × A array 216,000, F itself 12,960,000."""
    problem = _linear_softmax(rng, size, size, size)
    tracemalloc.start()
    try:
        run(answer, *problem)
        entries = tracemalloc.get_traced_memory()[1] / 8
    finally:
        tracemalloc.stop()
    if entries > 30 * size**2:
        raise Wrong(
            f"The numbers are right. But with B = n = A = {size} your function held about {entries:,.0f} numbers at once, where "
            f"n × A and B × A are {size**2:,}. Somewhere there is an array with a third axis, or F itself."
        )


def _fisher_fault(got, wanted, idle, obs, weights, v):
    B = len(obs)
    scale = (got * wanted).sum() / (wanted * wanted).sum()
    if close(got, scale * wanted, 1e-8):
        if abs(scale - B) < 1e-6:
            return f"Your product is {B} times the Hessian's, with {B} observations: F is a mean over observations, not a sum."
        return f"Your product has the right direction, but {scale:.4g} times the length of the Hessian's. Which factor is that?"
    if np.abs(idle).max() > 1e-8:
        return (
            "Take a v that adds the same number to all logits of a state: no probability changes, so F v must be 0. Yours is "
            f"{numbers(idle.ravel())}. Do p's rows sum to 1, and has the mean over actions, Σp·u, been taken off, per "
            "observation?"
        )
    symmetric = np.einsum("bi,ba->ia", obs, obs @ v)
    if close(got, got.flat[0] / symmetric.flat[0] * symmetric, 1e-8):
        return "The probabilities do not enter."
    p, u = special.softmax(obs @ weights, 1), obs @ v
    known = {
        "The mean that you take off u weighs all actions alike. It is the mean under p.": p * (u - u.mean(1, keepdims=True)),
        "Taking off the mean under p is only half of it: diag(p) also weighs what is left.": u - (p * u).sum(1, keepdims=True),
        "The mean must be taken off for each observation by itself.": p * (u - u.mean()),
    }
    for text, middle in known.items():
        if close(got, obs.T @ middle / B):
            return text
    first = f"With {B} observation{'s' * (B > 1)}, {len(weights)} inputs and {weights.shape[1]} actions"
    return (
        f"{first} the Hessian of the KL times v begins with another number than your {got.flat[0]:.4g}. The middle matrix is "
        "diag(p) − ppᵀ, one for each observation."
    )


# -------------------------------------------------------------------------------------- 04.4 preconditioned conjugate gradient


class _Counted:
    """v -> F v that counts its calls and refuses to be called too often."""

    def __init__(self, matrix, most=500):
        self.matrix, self.most, self.calls = matrix, most, 0

    def __call__(self, v):
        self.calls += 1
        if self.calls > self.most:
            raise Wrong(f"More than {self.most} products; max_iters is a limit.")
        return self.matrix @ np.asarray(v, float)


@exercise("04.4", "Conjugate gradient for badly scaled parameters", kind="implement", level=3, minutes=35)
def preconditioned(answer):
    if not callable(answer):
        run(answer)
    rng = np.random.default_rng(44)
    F, g, ones = spd_matrix(rng, np.array([1.0, 2.0, 5.0])), rng.standard_normal(3), np.ones(3)
    _first_iteration(answer, F, g, ones)
    _small_problems(answer, rng, F, g, ones)
    scale = 10 ** np.linspace(-3, 3, 30)  # millimetres beside kilometres
    core = spd_matrix(rng, np.linspace(1, 3, 30))
    bad, g = scale[:, None] * core * scale, scale * rng.standard_normal(30)
    _stops_by_the_residual(answer, bad, g)
    product = _Counted(bad)
    x = array("the solution", run(answer, product, g, np.diag(bad).copy(), 1e-8, 100), (30,))
    true = np.linalg.solve(bad, g)

    def error(x):  # F-norm, relative
        return np.sqrt((x - true) @ bad @ (x - true) / (true @ bad @ true))

    def times(v):
        return torch.tensor(bad) @ v

    if error(x) > 1e-3:
        raise Wrong(
            f"30 parameters in units between 0.001 and 1000: after {product.calls} products the error (F-norm) is still "
            f"{error(x):.2g} of the solution. Both α and β must use r·z with z = r / diagonal, and p starts as z."
        )
    if product.calls > 40:
        raise Wrong(f"Badly scaled parameters: {product.calls} products, where a preconditioned solver needs about 20.")
    away = error(conjugate_gradient(times, torch.tensor(g), max_iters=product.calls, rel_tol=0).x.numpy())
    return (
        f"30 parameters whose units differ by a million: solved with {product.calls} products; the plain method is still "
        f"{away:.0%} away after as many. Zero, tiny and not positive definite: all as they should be."
    )


def _stops_by_the_residual(answer, F, g, rel_tol=1e-3):
    """Neither before the residual is small enough nor after: one iteration less must leave too much."""

    def left(product, max_iters):
        x = array("the solution", run(answer, product, g, np.diag(F).copy(), rel_tol, max_iters), g.shape)
        return np.linalg.norm(g - F @ x) / np.linalg.norm(g)

    product = _Counted(F)
    if (share := left(product, 30)) > 1.001 * rel_tol and product.calls < 30:
        raise Wrong(
            f"Badly scaled parameters, rel_tol = {rel_tol:g}: you stopped after {product.calls} products, with a residual r of "
            f"{share:.2g} of g. The test for stopping looks at r itself, not at z."
        )
    if product.calls > 1 and (share := left(_Counted(F), product.calls - 1)) < 0.999 * rel_tol:
        raise Wrong(
            f"Badly scaled parameters, rel_tol = {rel_tol:g}: you went on to {product.calls} products, though one before the "
            f"residual r was {share:.2g} of g. The test for stopping looks at r itself, not at z."
        )


def _first_iteration(answer, F, g, ones):
    given = g.copy()
    x = array("the solution", run(lambda: answer(_Counted(F), given, ones.copy(), 1e-10, 1)), (3,))
    if not np.array_equal(given, g):
        raise Wrong(
            "Your function has changed the g that it was given: `r = g` is another name for the same array, so `r -= …` "
            "writes into it. Start from a copy."
        )
    best = g @ g / (g @ F @ g)  # the best point along g
    if np.abs(x).max() == 0:
        raise Wrong("With max_iters = 1 you returned 0: is there one iteration too few?")
    along = (x @ g) / (g @ g)
    if not close(x, along * g, 1e-8):
        raise Wrong(
            f"After one iteration with diagonal 1 the solution must be a multiple of g = {numbers(g)}; yours is {numbers(x)}."
        )
    if abs(along - best) > 1e-8:
        raise Wrong(f"After one iteration x = {along:.4g}·g, but ½xᵀFx − gᵀx is lower at another multiple of g: look at α.")
    diagonal = np.diag(F)
    z = g / diagonal
    x = array("the solution", run(answer, _Counted(F), g, diagonal, 1e-10, 1), (3,))
    if close(x, (z @ z) / (z @ F @ z) * z, 1e-8) or close(x, (g @ g) / (z @ F @ z) * z, 1e-8):
        raise Wrong("The first direction z = g / diagonal is right, the length along it is not: α's numerator is r·z.")
    if close(x, x @ g / (g @ g) * g, 1e-8):
        raise Wrong(f"With the diagonal {numbers(diagonal)} the first direction must be g / diagonal; yours is still along g.")
    if close(x, x @ (g * diagonal) / ((g * diagonal) @ (g * diagonal)) * g * diagonal, 1e-8):
        raise Wrong("Your first direction is g · diagonal: divide. Where the curvature is large, steps must be short.")
    if not close(x, (g @ z) / (z @ F @ z) * z, 1e-8):
        raise Wrong(
            f"With the diagonal {numbers(diagonal)}, one iteration: ½xᵀFx − gᵀx along g / diagonal is not smallest at your x."
        )


def _small_problems(answer, rng, F, g, ones):
    for diagonal in (ones, np.diag(F).copy()):
        product = _Counted(F)
        x = array("the solution", run(answer, product, g, diagonal, 1e-10, 3), (3,))
        if product.calls > 3:
            raise Wrong(f"max_iters = 3, but {product.calls} products were computed: one per iteration is enough (keep Fp).")
        if not close(F @ x, g, 1e-6):
            raise Wrong(
                f"Three unknowns, three iterations: F x = {numbers(F @ x)}, but g = {numbers(g)}. The first iteration is "
                "right, so look at β, at what β·p is added to, and at the order of the updates."
            )
    try:
        with np.errstate(all="ignore"):
            zero = array("the solution", run(answer, _Counted(F), 0 * g, ones, 1e-10, 10), finite=False)
    except Wrong as error:
        raise Wrong(f"g = 0 must give 0. {error}") from None
    if not (zero == 0).all():
        raise Wrong(f"g = 0 must give 0; yours gives {numbers(zero)}. (0/0 in α? Test the residual before the first product.)")
    tiny = 1e-9 * g
    x = array("the solution", run(answer, _Counted(F), tiny, ones, 1e-10, 10), finite=False)
    true = np.linalg.solve(F, tiny)
    if not close(x / np.abs(true).max(), true / np.abs(true).max(), 1e-6):
        share = (x @ tiny) / (tiny @ tiny)
        along = x.any() and close(x / share / 1e-9, g, 1e-6)
        what = f"{share:.2g}·g, along the plain gradient" if along else "not F⁻¹g" if x.any() else "0"
        raise Wrong(
            f"g of size 1e-9: your answer is {what}. An absolute tolerance, or a + 1e-8 in a denominator? The stop must be "
            "relative to the length of g."
        )
    early = _Counted(F)
    run(answer, early, g, ones, 0.9, 50)
    if early.calls > 2:
        raise Wrong(f"rel_tol = 0.9 allows a residual of 90 % of g, and yours went on for {early.calls} products.")
    try:
        x = answer(_Counted(np.diag([1.0, -1.0, 2.0])), np.ones(3), np.ones(3), 1e-10, 10)
    except ValueError:
        return
    except Exception as error:
        raise Wrong(
            f"F = diag(1, −1, 2) is not positive definite: raise a ValueError; yours raised {type(error).__name__}."
        ) from None
    raise Wrong(
        f"F = diag(1, −1, 2) is not positive definite, and yours returned {numbers(x)} without a word. Where p·Fp ≤ 0, raise."
    )


# ----------------------------------------------------------------------------------------------------- 04.5 ten updates

WAYS = ("the same direction", "independent directions", "to and fro")


def kl_after(way, updates, max_kl=0.001, states=4000, seed=45):
    """Mean KL from the first to the last policy of a softmax table with two actions, in units of max_kl.

    Every update moves the logits of all states along a direction, scaled so that its own true KL is max_kl.
    """
    rng, theta = np.random.default_rng(seed), np.zeros(states)
    first = rng.standard_normal(states)
    for k in range(updates):
        direction = {
            "the same direction": first,
            "independent directions": rng.standard_normal(states),
            "to and fro": (-1) ** k * first,
        }[way]
        p = sigmoid(theta)
        length = np.sqrt(2 * max_kl / np.mean(p * (1 - p) * direction**2))
        for _ in range(3):  # the parabola's length, corrected to the true KL
            length *= np.sqrt(max_kl / coin_kl(p, sigmoid(theta + length * direction)).mean())
        theta = theta + length * direction
    return float(coin_kl(0.5, sigmoid(theta)).mean() / max_kl)


@exercise("04.5", "Ten updates later", kind="predict", level=2, minutes=10)
def ten_updates(answer):
    for way, guess in entries(answer, WAYS, number).items():
        found = kl_after(way, 10)
        if abs(guess - found) > max(0.25 * found, 0.5):
            two = kl_after(way, 2)
            two = "is 0 up to rounding" if two < 0.01 else f"is {two:.1f} times the limit"
            raise Wrong(
                f"{way[0].upper()}{way[1:]}: I ran it, and {guess:g} is too {'much' if guess > found else 'little'}. After two "
                f"updates the KL from the first policy to the last {two}. How must it go on? Think of lengths, not of KLs."
            )
    return (
        f"I ran it: {', '.join(f'{kl_after(way, 10):.0f} ({way})' for way in WAYS)}. KL behaves like a squared length. So the "
        "KL over ten updates is a diagnostic: near 10 limits, your updates are mostly noise; near 100, they agree."
    )


# ------------------------------------------------------------------------------------------------------ 04.6 explain


@exercise("04.6", "“The KL is always zero”", kind="explain", level=1, minutes=15)
def always_zero(answer):
    return explained(
        answer,
        [
            "The two numbers are right: the old policy is the minimum of θ ↦ KL(old ‖ θ), and there value and gradient are 0.",
            "The Fisher product uses the second derivative, and a minimum says nothing about that: a parabola has value 0 and "
            "slope 0 at its bottom and is curved all the same.",
            "So the line must not be skipped. But it must be differentiable: the old distribution is detached, the new one is "
            "not. If neither is detached, KL(θ ‖ θ) is 0 for every θ, and then F v really is 0.",
            "A test that tells the two apart: F v for a random v must not be 0, and vᵀFv must match 2·KL/h² for a small step "
            "h·v.",
            "Measuring the KL after a random step is no replacement: that gives one number, not the direction F⁻¹g. The KL "
            "after the step belongs into the line search.",
        ],
        words=60,
    )
