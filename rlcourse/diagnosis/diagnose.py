"""`diagnose`: a doctor for policy-gradient programs. It asks what has a known answer, and names suspects.

    print(diagnose(PPO()))                                     an algorithm of this package, or your subclass of one
    print(diagnose(train, gamma=0.9))                          any program: train(env_fn, seed, steps) → act
    print(diagnose(train, Hooks(gae=my_gae), gamma=0.9))       functions of it as well: what `Hooks` lists

docs/diagnose.md shows how to connect a program of your own.
"""

import textwrap
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from tqdm.auto import tqdm

from rlcourse.diagnosis import black_box, own_agents, rollouts, white_box
from rlcourse.diagnosis.examination import HINT, Ask, Examination, Refusal
from rlcourse.diagnosis.suspects import SUSPECTS
from rlcourse.diagnosis.white_box import Hooks

WIDTH, LEFT_OUT = 110, "left out by only="


@dataclass
class Accused:
    """One suspect. key: as in SUSPECTS. sentence: what may be wrong. evidence: list of what was found. confirm: what to look at
    or try, to be sure. weight: the sum of the evidence; larger is more suspect."""

    key: str
    sentence: str
    evidence: list
    confirm: str
    weight: float


@dataclass
class Report:
    """What was found. `str(report)` is one screen of text.

    Attributes:
        suspects: list of Accused, the most suspect first. passed: names of the examinations passed.
        failed: dict name → evidence. not_examined: dict name → why. errors: list of failures that point to nobody, such as an
            exception in one of your functions.
        ok: nothing failed. (With little examined that says little.)
    """

    suspects: list = field(default_factory=list)
    passed: list = field(default_factory=list)
    failed: dict = field(default_factory=dict)
    not_examined: dict = field(default_factory=dict)
    errors: list = field(default_factory=list)

    @property
    def ok(self):
        return not self.failed

    def rank(self, key):
        """1 for the first suspect, 2 for the second …; None if the key is not suspected."""
        keys = [accused.key for accused in self.suspects]
        return keys.index(key) + 1 if key in keys else None

    def __str__(self):
        counts = f"{len(self.passed)} examinations passed, {len(self.failed)} failed, {len(self.not_examined)} not done."
        lines = [counts if self.passed or self.failed else "Nothing was examined.", ""]
        if self.ok:
            lines += ["No suspects." if self.passed else "Give a train function, hooks, or an algorithm.", ""]
        for place, accused in enumerate(self.suspects[:3], 1):
            lines += _wrapped(f"{place}. {accused.key} ({accused.weight:g}): {accused.sentence}", "   ", "")
            for evidence in accused.evidence[:2]:
                lines += _wrapped(f"   found: {evidence}", "          ", "")
            lines += [*_wrapped(f"   to confirm: {accused.confirm}", "          ", ""), ""]
        for error in self.errors[:4]:
            lines += [*_wrapped(f"Stopped: {error}", "  ", ""), ""]
        if len(self.errors) > 4:
            lines += [f"… and {len(self.errors) - 4} more; see report.errors.", ""]
        if len(self.suspects) > 3:
            rest = ", ".join(f"{accused.key} ({accused.weight:g})" for accused in self.suspects[3:])
            lines += [*_wrapped(f"Less likely: {rest}.", "  ", ""), ""]
        for why in dict.fromkeys(self.not_examined.values()):
            names = [name for name, reason in self.not_examined.items() if reason == why]
            few = ", ".join(names) if why != LEFT_OUT else f"{len(names)} examinations"
            lines += _wrapped(f"Not examined ({why}): {few}.", "  ", "")
        return "\n".join(lines).rstrip()

    __repr__ = __str__


def _wrapped(text, later, first):
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later)


def diagnose(
    agent=None, hooks=None, *, gamma=None, seeds=(0, 1, 2), steps=2560, actions=None, value=None, only=None, progress=False
) -> Report:
    """Examine a policy-gradient program, and rank what may be wrong with it.

    Args:
        agent: an algorithm of this package such as PPO(), of which everything is examined; or your own
            `train(env_fn, seed, steps) → act` with `act(obs)` → an action (any library), which is trained on probe environments
            with known answers; or None, to examine hooks only. `train` may take `gamma` as a keyword.
        hooks: Hooks, functions of your program to examine one by one.
        gamma: the discount your train uses; without it, what depends on it is left out. (Algorithms of this package: 0.8.)
        seeds: train with each of these; the median counts.
        steps: of the environment for each training. A probe that is not learned is tried once more with three times as many.
        actions: "discrete", "box" or "both": what your train can handle. Default: "discrete"; an algorithm of ours: "both".
        value: function (act, obs) → V(obs), the critic's value. Without it, or `act.value(obs)`, the critic is not examined.
        only: names of examinations or hooks to do, all others are left out (report.passed shows the names); "training" stands for
            all that train, "functions" for all that do not.
        progress: show a progress bar.

    Returns:
        Report. Errors inside your functions are findings of the report.

    Raises:
        TypeError, ValueError: wrong use of diagnose itself, naming the value and what is expected.
    """
    own = own_agents.OwnAgent(agent) if agent is not None and own_agents.package_of(agent) else None
    _check(agent, own, hooks, gamma, seeds, steps, actions, value, only)
    given = (hooks or Hooks()).given()
    if own is not None:
        given, gamma = own.hooks().given() | given, 0.8
    actions = actions or ("both" if own else "discrete")
    tasks, absent = _white_tasks(given, own, actions)
    if agent is not None:
        learner = black_box.Learner(own or agent, gamma, tuple(seeds), steps, value)
        more, without = _black_tasks(learner, actions, given.get("reload"))
        tasks, absent = tasks + more, absent | without
    else:
        absent["training on probe environments"] = "no train function was given"
    return _examined(_selected(tasks, absent, only), absent, progress)


def _check(agent, own, hooks, gamma, seeds, steps, actions, value, only):
    if agent is not None and own is None and not callable(agent):
        raise TypeError(f"agent = {agent!r}; expected an algorithm such as PPO(), or train(env_fn, seed, steps) → act.")
    if isinstance(agent, type):
        raise TypeError(f"agent = {agent.__name__}, a class; expected an instance: {agent.__name__}().")
    if hooks is not None and not isinstance(hooks, Hooks):
        raise TypeError(f"hooks = {hooks!r}; expected Hooks(gae=my_gae, …).")
    if gamma is not None and not (isinstance(gamma, int | float) and 0.5 <= gamma <= 0.95):
        raise ValueError(f"gamma = {gamma!r}; expected a number from 0.5 to 0.95, where probes tell faults apart, or None.")
    if not isinstance(steps, int | np.integer) or isinstance(steps, bool) or steps < 1:
        raise ValueError(f"steps = {steps!r}; expected an integer ≥ 1, environment steps of one training.")
    if isinstance(seeds, int | str) or not all(isinstance(s, int | np.integer) and s >= 0 for s in seeds) or not len(seeds):
        raise ValueError(f"seeds = {seeds!r}; expected at least one integer ≥ 0, such as (0, 1, 2).")
    if actions not in (None, "discrete", "box", "both"):
        raise ValueError(f'actions = {actions!r}; expected "discrete", "box" or "both".')
    if value is not None and not callable(value):
        raise TypeError(f"value = {value!r}; expected a function (act, obs) → V(obs).")
    if isinstance(only, str):
        raise TypeError(f"only = {only!r}; expected a list of names: only=[{only!r}].")


# A task is an Examination with what it asks, closed over: (name, suspects if it refuses, function () → findings).


def _white_tasks(given, own, actions):
    """Examinations of functions; and what is absent, name → why."""
    other = {"discrete": "Box", "box": "Discrete", "both": "neither"}[actions]
    functions, data = dict(given), [one for one in rollouts.EXAMINATIONS if not one.name.endswith(f"({other})")]
    examinations = [*white_box.EXAMINATIONS, *data]
    if own is not None:
        functions |= own.functions()
        examinations += own_agents.EXAMINATIONS
    ask, tasks, absent = Ask(functions), [], {}
    for one in examinations:
        if all(name in functions for name in one.needs):
            tasks.append((one, lambda one=one: one.run(ask)))
        elif own is None:
            absent |= {name: "no such hook was given" for name in one.needs if name not in functions}
    absent |= {} if "reload" in given or own is not None else {"reload": "no such hook was given"}
    return tasks, absent


def _black_tasks(learner, actions, reload):
    kinds = {"discrete": [False], "box": [True], "both": [False, True]}[actions]
    tasks, absent = [], {}
    for continuous in kinds:
        label = "Box" if continuous else "Discrete"
        suspects = "no_gradient", "broadcast"
        if continuous == kinds[0]:
            seeding = lambda c=continuous: black_box.examine_seeding(learner, c)  # noqa: E731
            tasks.append((Examination("seeds", (), ("seeding",), None), seeding))
            if reload is not None:
                loading = lambda c=continuous: black_box.examine_reload(learner, reload, c)  # noqa: E731
                tasks.append((Examination("save and load", ("reload",), ("observation_statistics",), None), loading))
        for probe in black_box.the_probes(learner.gamma):
            name = f"probe: {probe.name} ({label})"
            if continuous != kinds[0] and (probe.values_only or probe.name not in ("rewarded action", "observed action")):
                continue  # one kind of action is enough for what has nothing to do with actions
            if probe.needs_gamma and learner.gamma is None:
                absent[name] = "gamma was not given"
                continue
            run = lambda p=probe, c=continuous: black_box.examine_probe(learner, p, c)  # noqa: E731
            tasks.append((Examination(name, ("value",) if probe.values_only else (), suspects, None), run))
    return tasks, absent


def _selected(tasks, absent, only):
    if only is None:
        return tasks
    only = list(only)
    names = {"training", "functions"} | {one.name for one, _ in tasks} | {need for one, _ in tasks for need in one.needs}
    if unknown := [name for name in only if name not in names]:
        raise ValueError(f"only = {only!r}: {unknown[0]!r} is no examination that can be done; these can: {sorted(names)}.")
    group = lambda one: "training" if one.run is None else "functions"  # noqa: E731
    chosen = [task for task in tasks if {task[0].name, group(task[0]), *task[0].needs} & set(only)]
    absent |= {one.name: LEFT_OUT for one, _ in tasks if one not in [c for c, _ in chosen]}
    return chosen


def _examined(tasks, absent, progress):
    report, charges = Report(not_examined=absent), defaultdict(list)
    for one, run in tqdm(tasks, desc="diagnose", disable=not progress):
        try:
            findings = _findings(one, run)
        except black_box.NotExamined as reason:
            report.not_examined[one.name] = str(reason)
            continue
        if findings:
            report.failed[one.name] = "; ".join(evidence for _, evidence in findings)
        else:
            report.passed.append(one.name)
        for weights, evidence in findings:
            if not weights:
                report.errors.append(f"{one.name}: {evidence}")
            for key, weight in weights.items():
                charges[key].append((weight, f"{one.name}: {evidence}"))
    order = list(SUSPECTS)
    for key, charge in charges.items():
        evidence = [text for _, text in sorted(charge, key=lambda pair: -pair[0])]
        total = sum(weight for weight, _ in charge)
        report.suspects.append(Accused(key, SUSPECTS[key].sentence, evidence, SUSPECTS[key].look, total))
    report.suspects.sort(key=lambda accused: (-accused.weight, order.index(accused.key)))
    return report


def _findings(one, run):
    """The findings of an examination; a refusal of the learner's function becomes one."""
    findings = []
    try:
        for finding in run() or []:
            findings.append(finding)
    except black_box.NotExamined:
        raise
    except Refusal as refusal:
        weights = {key: HINT for key in one.suspects} if refusal.weights is None else refusal.weights
        findings.append((weights, str(refusal)))
    except Exception as error:  # noqa: BLE001, an answer that is no answer at all
        text = f"an answer could not be read ({type(error).__name__}: {error})"
        findings.append(({key: HINT for key in one.suspects}, text))
    return findings
