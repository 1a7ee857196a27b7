"""Judges of the exercises of lesson 02: the loss, the critic, the trap, episodes that straddle batches."""

from functools import cache

import numpy as np
import torch
from scipy.special import expit

from rlcourse.classroom.exercises import Wrong, array, close, entries, exercise, explained, number, numbers, recognise, run, word

# ---------------------------------------------------------------------------------------------------- the first play decides


@exercise("02.1", "Very large steps", kind="derive", level=2, minutes=15)
def very_large_steps(answer):
    cases = [(0.5, 0.2), (0.9, 0.3), (0.2, 0.5), (0.7, 0.9)]
    got = np.array([array("the two probabilities", run(answer, *case), shape=(2,)) for case in cases])
    if ((got < 0) | (got > 1)).any():
        raise Wrong(f"A probability lies between 0 and 1; yours are {numbers(got)}.")
    law = np.array([[_locked(*case, baseline) for baseline in (False, True)] for case in cases])
    p, win = np.array(cases).T
    if not close(got[:, 0], law[:, 0]):
        recognise(got[:, 0], {
            "Without baseline: a ticket that loses pays 0, and 0 times anything is no step at all. Then the coin is tossed "
            "again.":
                1 - p,
            "Without baseline: a ticket that loses pays 0. That does not punish it; it changes nothing.": 1 - p * win,
            "Without baseline: this is the probability to find the lottery, not to be locked in.": 1 - law[:, 0],
            "The order is: without baseline first, then with V.": law[:, 1],
        })  # fmt: skip
        raise Wrong(_in_words(cases, got[:, 0], law[:, 0], "Without baseline"))
    if not close(got[:, 1], law[:, 1]):
        recognise(got[:, 1], {
            "With V: the coin's 1 is *less* than V, for V is a mixture of 1 and of what the ticket pays on average, which is "
            "more. "
            "Which way does x go when the coin is tossed?": 1 - p,
            "With V: the coin's 1 is less than V, so the coin, too, is a disappointment. It sends x the other way.": 1 - p * win,
            "With V: nothing is 0 any more. A ticket that loses is worth 0 − V, and that is a step.": law[:, 0],
            "With V: this is the probability to find the lottery, not to be locked in.": 1 - law[:, 1],
        })  # fmt: skip
        raise Wrong(_in_words(cases, got[:, 1], law[:, 1], "With V"))
    return (
        "Equal to the chain itself, followed outcome by outcome, in four cases. With V the coin sends you to the lottery, and "
        "only a ticket that loses locks you in."
    )


def _locked(p, win, baseline, prize=10.0):
    """Follow the three outcomes of a play until the first one that moves x: probability that it moves x down."""
    value = p * win * prize + (1 - p) if baseline else 0.0
    outcomes = [(1 - p, -p * (1 - value)), (p * (1 - win), (1 - p) * (0 - value)), (p * win, (1 - p) * (prize - value))]
    undecided, down = 1.0, 0.0
    for _ in range(2000):
        down += undecided * sum(chance for chance, move in outcomes if move < 0)
        undecided *= sum(chance for chance, move in outcomes if move == 0)
    return down


def _in_words(cases, got, law, name):
    worst = int(np.abs(got - law).argmax())
    p, win = cases[worst]
    return (
        f"{name}: with p = {p} and a ticket that wins with probability {win}, the share of locked runs is "
        f"{'more' if got[worst] < law[worst] else 'less'} than your {got[worst]:.3g}. List the three things that can happen in a "
        "play, and for each the sign of the step."
    )


# --------------------------------------------------------------------------------------------------------- the shared loss


@exercise("02.2", "Two gradients from one loss", kind="implement", level=2, minutes=20)
def two_gradients(answer):
    rng = np.random.default_rng(5)
    batches = [(rng.standard_normal((size, 3)), rng.integers(0, 3, size), rng.standard_normal((size, 1)),
                3 * rng.standard_normal(size)) for size in (1, 4, 6)]  # fmt: skip
    for batch in batches:
        by_logits, by_value, by_target = _gradients(answer, *batch)
        wanted = _differences(*batch)
        if not (close(by_logits, wanted[0], 1e-6) and close(by_value, wanted[1], 1e-6)):
            _name_the_fault(answer, batches[-1])
            part, got = ("logits", by_logits) if not close(by_logits, wanted[0], 1e-6) else ("values", by_value)
            raise Wrong(
                f"With a batch of {len(batch[1])} the gradient in the {part} is {numbers(got)}. It differs from finite "
                "differences of "
                + ("−mean(log π · A) with the advantages A held fixed." if part == "logits" else "0.7 · mean(V − target)² alone.")
            )
        if np.abs(by_target).max() > 0:
            raise Wrong("A gradient flows into the targets. They are data: what the critic is to learn must not give way to it.")
    return "Both gradients equal finite differences, for batches of 1, 4 and 6 steps. Advantage and target are data."


def _gradients(answer, logits, action, value, target, value_coef=0.7):
    """Gradients of the learner's loss in logits, value and target, by autograd; zeros where none arrives."""
    leaves = [torch.tensor(x, requires_grad=True) for x in (logits, value, target)]
    function = (lambda: answer(leaves[0], torch.tensor(action), leaves[1], leaves[2], value_coef)) if callable(answer) else answer
    loss = run(function)
    if not isinstance(loss, torch.Tensor) or loss.grad_fn is None:
        raise Wrong("Return a torch tensor that is connected with logits and values; here nothing is left to differentiate.")
    if loss.numel() != 1:
        raise Wrong(f"A loss is one number; yours has the shape {tuple(loss.shape)}. Take the mean over the batch.")
    grads = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
    return [np.zeros(x.shape) if g is None else g.numpy() for g, x in zip(grads, leaves, strict=True)]


def _differences(logits, action, value, target, h=1e-5):
    """The two gradients that are wanted, by central differences, each of its own part alone."""
    advantage = target - value[:, 0]
    rows = np.arange(len(action))

    def policy_part(x):
        return -np.mean((x - np.log(np.exp(x).sum(1, keepdims=True)))[rows, action] * advantage)

    def critic_part(x):
        return 0.7 * np.mean((x[:, 0] - target) ** 2)

    def differences(f, x):
        steps = h * np.eye(x.size).reshape(-1, *x.shape)
        return np.array([(f(x + step) - f(x - step)) / (2 * h) for step in steps]).reshape(x.shape)

    return differences(policy_part, logits), differences(critic_part, value)


def _name_the_fault(answer, batch):
    """Losses with the usual faults, differentiated by autograd, next to the learner's."""

    def gradients(policy_part, critic_part):
        def loss(logits, action, value, target, value_coef):
            log_prob = torch.log_softmax(logits, 1)
            taken, value = log_prob.gather(1, action[:, None])[:, 0], value[:, 0]
            return policy_part(taken, log_prob, action, target, value) + value_coef * critic_part(value, target)

        return of(loss)

    def of(loss):
        return np.concatenate([g.ravel() for g in _gradients(loss, *batch)[:2]])

    def raw(logits, action, value, target, value_coef):
        taken, value = logits.gather(1, action[:, None])[:, 0], value[:, 0]
        return right(taken, None, None, target, value) + value_coef * error(value, target)

    def normalised(advantage, correction):
        return ((advantage - advantage.mean()) / advantage.std(correction=correction)).detach()

    def right(taken, log_prob, action, target, value):
        return -(taken * (target - value).detach()).mean()

    def error(value, target):
        return ((value - target) ** 2).mean()

    faults = {
        "The advantage is not detached: the policy's part of the loss also moves the critic, to make itself smaller.":
            gradients(lambda taken, *rest: -(taken * (rest[-2] - rest[-1])).mean(), error),
        "value has the shape (B, 1) and target (B,): their difference is a matrix (B, B), and the mean over it runs without a "
        "word.":
            gradients(lambda taken, *rest: -(taken * (rest[-2] - rest[-1][:, None]).detach()).mean(),
                      lambda value, target: ((value[:, None] - target) ** 2).mean()),
        "value has the shape (B, 1) and target (B,): their difference is a matrix (B, B), without a word. And when that is "
        "mended: does a gradient flow through the advantage?":
            gradients(lambda taken, *rest: -(taken * (rest[-2] - rest[-1][:, None])).mean(),
                      lambda value, target: ((value[:, None] - target) ** 2).mean()),
        "log π of the action still has the shape (B, 1) after gather, and times an advantage (B,) that is a matrix (B, B).":
            gradients(lambda taken, *rest: -(taken[:, None] * (rest[-2] - rest[-1]).detach()).mean(), error),
        "value has the shape (B, 1) in the policy's part; squeeze it before you subtract it from target.":
            gradients(lambda taken, *rest: -(taken * (rest[-2] - rest[-1][:, None]).detach()).mean(), error),
        "value has the shape (B, 1) in the critic's part; squeeze it before you subtract target.":
            gradients(right, lambda value, target: ((value[:, None] - target) ** 2).mean()),
        "The sign of the policy's part is turned: a loss goes down, J must go up.":
            gradients(lambda *all: -right(*all), error),
        "The sum over the steps instead of the mean: with B steps the learning rate means something else.":
            gradients(lambda taken, *rest: len(taken) * right(taken, *rest), lambda v, t: len(t) * error(v, t)),
        "The advantage is normalised. That is usual, but here it is plainly target minus value.":
            gradients(lambda taken, *rest: -(taken * normalised(rest[-2] - rest[-1], 1)).mean(), error),
        "The advantage is normalised. That is usual; here it is plainly target minus value.":
            gradients(lambda taken, *rest: -(taken * normalised(rest[-2] - rest[-1], 0)).mean(), error),
        "You weight the logit of the action. Its log-probability also knows the other actions: log_softmax.": of(raw),
        "You weight the probability of the action, not its logarithm.":
            gradients(lambda taken, *rest: right(taken.exp(), *rest), error),
        "log_prob[:, action] takes for each step the actions of *all* steps: a matrix (B, B). One action per row is wanted.":
            gradients(lambda taken, log_prob, action, *rest: right(log_prob[:, action], log_prob, action, *rest), error),
        "No gradient reaches the critic: in its own part the value must not be detached.":
            gradients(right, lambda value, target: error(value.detach(), target)),
        "value_coef is not used.": gradients(right, lambda value, target: error(value, target) / 0.7),
        "The critic's part is only half of the mean squared error that is asked for.":
            gradients(right, lambda value, target: error(value, target) / 2),
        "The weight of log π is the target, not the advantage: the baseline is missing.":
            gradients(lambda taken, *rest: -(taken * rest[-2].detach()).mean(), error),
        "The advantage has the wrong sign: it is target minus value.":
            gradients(lambda taken, *rest: (taken * (rest[-2] - rest[-1]).detach()).mean(), error),
    }  # fmt: skip
    recognise(of(answer), faults)


# ------------------------------------------------------------------------------------------- episodes that straddle batches


@exercise("02.3", "Episodes do not care about batches", kind="implement", level=2, minutes=15)
def episode_returns(answer):
    rng = np.random.default_rng(6)
    batches = [(np.array([[1.0], [2.0]]), np.array([[False], [True]]), np.array([0.0])),
               (np.array([[1.0], [2.0]]), np.array([[False], [True]]), np.array([10.0])),
               (np.array([[1.0], [2.0]]), np.array([[True], [False]]), np.array([0.0]))]  # fmt: skip
    for steps in (1, 4, 9):
        batches.append((2.0 ** rng.integers(0, 9, (steps, 3)), rng.random((steps, 3)) < 0.25, 100.0 * np.arange(3)))
    batches.append((np.array([[1.0, 10.0], [2.0, 20.0]]), np.zeros((2, 2), bool), np.zeros(2)))
    given = []
    for batch in batches:
        mine = [x.copy() for x in batch]
        finished, running = _pair(run((lambda mine=mine: answer(*mine)) if callable(answer) else answer))
        if isinstance(finished, tuple | list) and any(getattr(each, "ndim", isinstance(each, tuple | list)) for each in finished):
            raise Wrong("The returns should be one flat list of numbers, one for each episode that ended; yours holds lists.")
        given.append((np.sort(array("the returns", finished).ravel()), array("the new running", running, batch[2].shape)))
        if not np.array_equal(mine[2], batch[2]):
            raise Wrong("You changed the array `running` that you were given. Called again, it gives something else: copy it.")
    for batch, (finished, running) in zip(batches, given, strict=True):
        wanted = _by_hand(*batch)
        if not (close(finished, wanted[0]) and close(running, wanted[1])):
            _name_the_leak(given, batches)
            report = f"you report {numbers(finished)} as finished and {numbers(running)} as running on. "
            report += "Follow one column: what has its episode earned when it ends?"
            raise Wrong(f"{_batch_in_words(*batch)} {report}")
    return "Right in seven batches, wherever they cut; so the pieces of a stream give what the whole gives."


def _pair(result):
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Wrong("Return two things: the returns of the episodes that ended, and the running sums, shape (N,).")
    return result


def _by_hand(reward, ended, running, *, forget=False, keep=False, early=False, all_rows=False):
    """Column by column, row by row. The keywords put in a fault."""
    finished, left = [], []
    for column, flags, total in zip(reward.T, ended.T, running, strict=True):
        total = 0.0 if forget else total
        for pay, end in zip(column, flags, strict=True):
            total += 0 if early and end else pay
            if end:
                finished.append(total)
                total = total if keep else pay if early else 0.0
        left.append(total)
    return np.sort(finished + (left if all_rows else [])), np.array(left)


def _name_the_leak(given, batches):
    """Raise Wrong if one of the usual faults explains all that the learner reported."""
    faults = {
        "What an episode earned in the batches before is lost: start from running.": dict(forget=True),
        "After an end the sum goes on into the next episode: set it to 0.": dict(keep=True),
        "The reward of the last step belongs to the episode that it ended, not to the next one.": dict(early=True),
        "Episodes that are cut by the batch are reported as finished. They are still going on.": dict(all_rows=True),
    }
    for message, fault in faults.items():
        faulty = [_by_hand(*batch, **fault) for batch in batches]
        if all(close(f, w[0]) and close(r, w[1]) for (f, r), w in zip(given, faulty, strict=True)):
            raise Wrong(f"{message} For example: {_batch_in_words(*batches[1])} you report {numbers(given[1][0])} as finished.")
    if all(close(f, np.sort((b[0].sum(0) + b[2])[b[1].any(0)])) for (f, _), b in zip(given, batches, strict=True)):
        raise Wrong("You add up the whole batch where an episode ended in it. Only the steps up to its end belong to it.")
    if all(len(f) == b[1].sum() and close(r, _by_hand(*b)[1]) for (f, r), b in zip(given, batches, strict=True)):
        raise Wrong("The running sums are right, and so is the number of finished episodes, but not what they earned.")
    if all(close(f, _by_hand(*b)[0]) for (f, _), b in zip(given, batches, strict=True)):
        raise Wrong("The finished returns are right. But the running sums that you hand on to the next batch are not.")


def _batch_in_words(reward, ended, running):
    return f"With rewards {numbers(reward)} (time down), ended {ended.tolist()} and running {numbers(running)}"


# -------------------------------------------------------------------------------------------------------- explained variance

CRITICS = {"V": (1, 0), "V + 50": (1, 50), "V / 2": (0.5, 0), "2 V": (2, 0), "-V": (-1, 0)}


@exercise("02.4", "Marks for five critics", kind="predict", level=2, minutes=10)
def marks(answer):
    guess = entries(answer, CRITICS, lambda name, value: number(f"the mark of {name}", value))
    V, noise = np.array([1.0, 1.0, -1.0, -1.0]), np.array([2.0, -2.0, 2.0, -2.0])  # all that can happen, equally likely
    for name, (factor, offset) in CRITICS.items():
        mark = 1 - np.var(V + noise - factor * V - offset) / np.var(V + noise)
        if abs(guess[name] - mark) <= 0.02:
            continue
        if name == "V" and guess[name] > 0.9:
            raise Wrong("“V”: lower. The critic is perfect, but no function of the state can know how the noise will fall.")
        if name == "V + 50" and abs(guess[name] - guess["V"]) > 0.02:
            raise Wrong("“V + 50”: the marks of V and of V + 50 are the same. A variance does not see a constant.")
        if name == "2 V" and guess[name] > 0.02:
            raise Wrong("“2 V”: lower. Right in direction, but it goes twice too far, and errs as much as one that is silent.")
        if name == "-V" and guess[name] >= 0:
            raise Wrong("“-V”: lower. A critic can be worse than a constant, and then the mark is below 0.")
        raise Wrong(
            f"“{name}”: {'higher' if guess[name] < mark else 'lower'}. Write the target minus what this critic says as (a "
            "number) · V + noise, and add up two variances."
        )
    return "As computed over the four equally likely cases. With c·V the mark is a parabola in c; its top, at c = 1, is 0.2."


# ------------------------------------------------------------------------------------------------- a constant added to rewards

QUESTIONS = {"-5": (-5.0, False), "+5": (5.0, False), "+5, with V": (5.0, True)}


@cache
def _share_locked(constant, baseline, step_size=0.3, runs=1000, updates=500):
    """Share of runs that end with p < 0.05 in the trap of Step 10 with a constant added to every payment."""
    rng, x = np.random.default_rng(7), np.zeros(runs)
    for _ in range(updates):
        p = expit(x)
        lottery = rng.random(runs) < p
        pay = np.where(lottery, 10.0 * (rng.random(runs) < 0.2), 1.0) + constant
        value = 2 * p + (1 - p) + constant if baseline else 0.0
        x = x + step_size * (lottery - p) * (pay - value)
    return float((expit(x) < 0.05).mean())


@exercise("02.5", "Add a constant to every reward", kind="predict", level=2, minutes=15)
def add_a_constant(answer):
    guess = entries(answer, (*QUESTIONS, "+1000, share"), lambda name, value: value)
    for name, (constant, baseline) in QUESTIONS.items():
        before, after = (round(_share_locked(c, baseline), 3) for c in (0.0, constant))
        truth = "the same" if abs(after - before) < 0.005 else "more" if after > before else "fewer"
        if word(guess[name], {"more": "more", "fewer": "fewer", "the same": "the same"}) != truth:
            raise Wrong(f"“{name}”: of 1000 runs {before:.1%} lock in without the constant, and {after:.1%} with it.")
    share = number("the share at +1000", guess["+1000, share"])
    if not 0 <= share <= 1:
        raise Wrong(f"“+1000, share”: a share lies between 0 and 1; yours is {share:g}.")
    if abs(share - (measured := _share_locked(1000.0, False))) > 0.1:
        raise Wrong(
            f"“+1000, share”: {'fewer' if share > measured else 'more'} than {share:.0%} of 1000 runs. Every payment is now "
            "about 1000, whatever was played. What decides where such a run ends, and when?"
        )
    return "As in 1000 runs of each kind. A constant says nothing about the arms, and yet, without a baseline, it decides much."


# ------------------------------------------------------------------------------------------------------------ my loss rises


@exercise("02.6", "“My loss rises”", kind="explain", level=1, minutes=10)
def my_loss_rises(answer):
    return explained(
        answer,
        [
            "The value of the policy's loss means nothing: it can be shifted at will by adding a constant to the advantages. "
            "Only its gradient at the present parameters counts.",
            "It is a different function at each update: other data, other advantages. Two values cannot be compared, and it need "
            "not go to 0 (with normalised advantages it is near 0 always).",
            "The critic's loss is a real error. But it, too, may rise while all is well: returns grow, and their spread with "
            "them.",
            "So look at the return first, then at entropy, KL and explained variance; and say what would be a bad sign (for "
            "instance an entropy near 0 at a low return).",
        ],
    )
