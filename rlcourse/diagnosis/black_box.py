"""Examinations of a whole program by what it does: trained on probe environments, it must choose the actions known to be best.

Only `train(env_fn, seed, steps) → act` is asked. What faults do to the choice in each probe is worked out in worlds.probes.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import gymnasium
import numpy as np

from rlcourse.diagnosis.examination import EXACT, HINT, LIKELY, Refusal, as_array, guarded, show
from rlcourse.worlds import probes

RIGHT, WRONG = 0.65, 0.35  # share of right choices: above is right, below is wrong, between is undecided


class NotExamined(Exception):
    """An examination that cannot be done, or would tell nothing; the text says why."""


NO_CRITIC = "no value was given: act.value(obs), or value=(act, obs) → V"
EASIER = "an easier probe failed"


@dataclass
class Learner:
    """The program to be examined, with what was asked for.

    Args:
        train: function (env_fn, seed, steps) → act, where act(obs) is an action for one observation.
        gamma: the discount that it trains with, or None if unknown.
        seeds, steps: train each probe with these seeds for so many steps, and for three times as many if that does not do.
        value: function (act, obs) → V(obs) for one observation, or None.
    """

    train: Callable
    gamma: float | None
    seeds: tuple
    steps: int
    value: Callable | None = None
    valued: bool | None = None  # whether its policies show values; None before the first one was trained
    retries: int = 3  # how many more probes may be trained for longer without success
    blocked: set = field(default_factory=set)  # kinds of probes that would tell nothing more: (values_only, continuous)

    def policies(self, make, seeds, steps):
        """One trained act for each seed. `train.many(env_fn, seeds, steps)` is used where there is one."""
        if hasattr(self.train, "many"):
            return guarded("train", self.train.many, make, seeds, steps)
        extra = {"gamma": self.gamma} if self.takes_gamma else {}
        acts = [guarded("train", self.train, make, seed, steps, **extra) for seed in seeds]
        if not all(map(callable, acts)):
            raise Refusal(f"train returned {acts[0]!r}; expected a function act(obs) → action")
        return acts

    @property
    def takes_gamma(self):
        try:
            return "gamma" in inspect.signature(self.train).parameters
        except ValueError:
            return False

    def critic(self, act):
        """V as a function of one observation, or None."""
        if self.value is not None:
            return lambda obs: self.value(act, obs)
        return getattr(act, "value", None)

    def values(self, act, observations):
        """V of each of the observations (k, d), (k,)."""
        critic = self.critic(act)
        answers = [np.ravel(_plain(guarded("value", critic, obs.astype(np.float32)))) for obs in observations]
        return as_array("value", np.stack(answers), (len(observations), 1))[:, 0]

    def actions(self, act, obs, count=40):
        """`count` actions for one observation, as an array (count,): the first number of a Box action, clipped to −1 … 1."""
        obs = np.asarray(obs, np.float32)
        answers = [np.ravel(_plain(guarded("act", act, obs.copy()))) for _ in range(count)]
        return np.clip(as_array("act", [x[0] if len(x) else np.nan for x in answers], (count,)), -1, 1)


def _plain(x):
    return x.detach().cpu().numpy() if hasattr(x, "detach") else x


@dataclass(frozen=True)
class Probe:
    """A probe and what its outcome tells. `make(continuous)` makes the environment; `right` maps an observation to the better
    action (0 or 1; for Box: sign of the action); `wrong` and `undecided`: weights for choosing the worse one with every seed, or
    something else. easy: a program that fails it need not try harder ones of its kind."""

    name: str
    make: Callable
    wrong: dict
    undecided: dict
    values_only: bool = False
    needs_gamma: bool = False
    easy: bool = False

    def right(self, env):
        """[(observation, 0 or 1)]"""
        if isinstance(env, probes.Choice):
            return [([env.choice], env.best)]
        return [([-1.0], 0), ([1.0], 1)] if isinstance(env, probes.ObservedAction) else [([0.0], 1)]


NOTHING_LEARNED = {"no_gradient": LIKELY + HINT, "broadcast": LIKELY, "old_log_prob_gradient": LIKELY, "order": 2 * HINT}
NO_DIRECTION = {"order": 2 * LIKELY, "broadcast": LIKELY, "no_gradient": HINT}  # the policy moves, but not by the reward


def the_probes(gamma):
    """In the order in which to look at them: what a later one needs, an earlier one has tested."""
    patience = 0.75 if gamma is None else (1 + gamma**3) / 2
    undecided = {"critic": HINT, "discount": HINT, "leak": HINT, "order": HINT}
    return (
        Probe("constant reward", probes.ConstantReward, {}, {}, values_only=True, easy=True),
        Probe("observed reward", probes.ObservedReward, {}, {}, values_only=True),
        Probe("delayed reward", probes.DelayedReward, {}, {}, values_only=True, needs_gamma=True),
        Probe("time limit", lambda c: probes.TruncatedForever(c, horizon=3), {}, {}, values_only=True, needs_gamma=True),
        Probe("rewarded action", probes.RewardedAction, {"policy_sign": 2 * LIKELY, "ratio": LIKELY}, NOTHING_LEARNED,
              easy=True),
        Probe("observed action", probes.ObservedAction, {"policy_sign": LIKELY, "ratio": HINT}, NOTHING_LEARNED,
              easy=True),
        Probe("early reward", probes.EarlyReward, {"order": 2 * LIKELY, "leak": HINT}, undecided),
        Probe("end or go on", probes.EndOrGoOn, {"termination": 2 * LIKELY}, undecided | {"termination": 2 * HINT}),
        Probe("a time limit into a good state", probes.TruncatedInto, {"truncation": LIKELY + HINT, "reset_observation": LIKELY},
              undecided | {"truncation": 2 * HINT}),
        Probe("a time limit into a bad state", lambda c: probes.TruncatedInto(c, decoy=True), {"reset_observation": 2 * LIKELY},
              undecided | {"reset_observation": 2 * HINT}),
        Probe("patience", lambda c: probes.Patience(c, patience), {"discount": 2 * LIKELY, "leak": HINT}, undecided,
              needs_gamma=True),
    )  # fmt: skip


def examine_probe(learner, probe, continuous):
    """Findings of one probe; before they count, the program is trained afresh for three times as many steps.

    A program that fails an easy probe would fail the harder ones for the same reason: they are not examined.
    """
    kind = probe.values_only, continuous
    if kind in learner.blocked:
        raise NotExamined(EASIER)
    for longer in (1, 3):
        if probe.values_only and learner.valued is False:
            raise NotExamined(NO_CRITIC)
        acts = learner.policies(lambda: probe.make(continuous), learner.seeds, learner.steps * longer)
        env = probe.make(continuous)
        learner.valued = learner.critic(acts[0]) is not None
        if probe.values_only and not learner.valued:
            raise NotExamined(NO_CRITIC)
        findings = [*_values(learner, acts, probe, env), *_choices(learner, acts, probe, env)]
        if not findings:
            return []
        if learner.retries == 0:
            break
    learner.retries = max(0, learner.retries - 1)
    learner.blocked |= {kind} if probe.easy else set()
    return findings


def _choices(learner, acts, probe, env):
    if probe.values_only:
        return
    for obs, best in probe.right(env):
        shares = [_share(env, learner.actions(act, obs), best) for act in acts]
        better, worse = ("a > 0", "a < 0")[:: 1 if best else -1] if env.continuous else (f"action {best}", f"action {1 - best}")
        if np.median(shares) < RIGHT:
            weights, words = _verdict(probe, shares)
            yield weights, f"probe {type(env).__name__}: at observation {show(obs)} {better} is best, and it {words} {worse}"
            return


def _verdict(probe, shares):
    """Weights and words for shares of right choices, one for each seed, of which the median is not right."""
    if max(shares) <= WRONG:
        return probe.wrong, "chooses"
    if probe.easy and min(shares) <= WRONG and max(shares) >= RIGHT:
        return NO_DIRECTION, f"chooses with some seeds (share of right choices {show(shares)})"
    return probe.undecided, "does not learn to avoid"


def _share(env, actions, best):
    """How far the choices are the right ones, 0 … 1, 1/2 for none."""
    if not env.continuous:
        return (actions == best).mean()
    signed = actions if best else -actions
    return (signed > 0).mean() if isinstance(env, probes.Choice) else np.clip(0.5 + signed.mean(), 0, 1)


def _values(learner, acts, probe, env):
    """What the critic says, where there is one and the answer does not depend on the policy."""
    if not probe.values_only:
        return
    gamma = learner.gamma or 0.0  # without a γ only probes of one step are asked
    got = np.median([learner.values(act, env.observations) for act in acts], 0)
    expected = env.values(gamma)
    off = np.abs(got - expected) > 0.15 * np.maximum(1, np.abs(expected))
    if off.any():
        k = int(np.argmax(np.abs(got - expected)))
        text = f"V({show(env.observations[k])}) = {expected[k]:.4g} for γ = {gamma:g}, and the critic says {got[k]:.4g}"
        yield _blame(probe.name, got, expected, gamma), f"probe {type(env).__name__}: {text}"


def _blame(name, got, expected, gamma):
    """Who may have brought about these values."""
    if name in ("constant reward", "observed reward"):
        runaway = name == "constant reward" and got[0] > 1.15
        return {"termination": 2 * LIKELY, "critic": LIKELY} if runaway else {"critic": 2 * LIKELY, "broadcast": LIKELY}
    if name == "time limit":
        return {"truncation": 2 * LIKELY, "critic": HINT} if got[0] < expected[0] else {"discount": LIKELY, "leak": LIKELY}
    if got[1] > 1.15:
        return {"termination": LIKELY, "leak": LIKELY, "discount": HINT}
    undiscounted = abs(got[0] - 1) < abs(got[0] - gamma) and abs(got[1] - 1) < 0.15
    return {"discount": 2 * LIKELY} if undiscounted else {"order": LIKELY, "discount": LIKELY, "critic": HINT}


def examine_reload(learner, reload, continuous):
    """The policy that was saved and loaded chooses as the trained one did, on ObservedAction."""
    act = learner.policies(lambda: probes.ObservedAction(continuous), learner.seeds[:1], learner.steps)[0]
    loaded = guarded("reload", reload, act)
    if not callable(loaded):
        raise Refusal(f"reload returned {loaded!r}; expected a function act(obs) → action")
    for obs in ([-1.0], [1.0]):
        before, after = (learner.actions(one, obs, 100).mean() for one in (act, loaded))
        if abs(before - after) > 0.5:
            text = f"at observation {show(obs)} the mean of 100 actions is {before:.2g} before and {after:.2g} after loading"
            yield {"observation_statistics": EXACT}, text
            return


# --------------------------------------------------------------------------------------------------------------- seeding


class Diary(gymnasium.Wrapper):
    """Writes down the actions it is given and the observations at each reset."""

    def __init__(self, env, actions, starts):
        super().__init__(env)
        self.actions, self.starts = actions, starts
        starts.append([])

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        self.starts[self.index].append(float(self.env.unwrapped.np_random.random()))
        return obs, info

    def step(self, action):
        self.actions.append(np.ravel(np.asarray(action, float)).copy())
        return self.env.step(action)


def examine_seeding(learner, continuous, steps=600):
    """Same seed, same actions; another seed, others; and no two environments of a run alike."""
    first, again, other = (_diary(learner, seed, continuous, steps) for seed in (11, 11, 12))
    if not first[0]:
        raise Refusal("train never stepped the environment in this process")
    if not _equal(first[0], again[0]):
        t = next((t for t, pair in enumerate(zip(first[0], again[0], strict=False)) if not np.array_equal(*pair)), "the end")
        yield {"seeding": EXACT}, f"trained twice with seed 11: the actions differ from step {t} on"
    elif _equal(first[0], other[0]):
        yield {"seeding": EXACT}, "trained with seeds 11 and 12: all actions are the same"
    starts = [tuple(s[:5]) for s in first[1] if len(s) >= 5]
    if len(set(starts)) < len(starts):
        alike = len(starts) - len(set(starts)) + 1
        yield {"seeding": EXACT}, f"{alike} of the {len(starts)} environments of one run draw the same random numbers"


def _diary(learner, seed, continuous, steps):
    actions, starts = [], []

    def make():
        env = Diary(probes.ObservedAction(continuous), actions, starts)
        env.index = len(starts) - 1
        return env

    learner.policies(make, [seed], steps)
    return actions, starts


def _equal(a, b):
    return len(a) == len(b) and all(map(np.array_equal, a, b))
