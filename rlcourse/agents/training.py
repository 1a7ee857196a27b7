"""Training as a generator (`iterate`), `train` on top of it, and what comes out: a TrainingResult that can be saved."""

import contextlib
import copy
import dataclasses
import json
import os
import time
import uuid
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from tqdm.auto import tqdm

from rlcourse.agents.a2c import A2C
from rlcourse.agents.algorithm import Algorithm
from rlcourse.agents.normalization import RewardNormalizer
from rlcourse.agents.policies import Policy
from rlcourse.agents.ppo import PPO, PenaltyPPO
from rlcourse.agents.rollout import Episodes, collect
from rlcourse.agents.runs import Runs
from rlcourse.agents.trpo import TRPO
from rlcourse.agents.vpg import VPG
from rlcourse.equations.processes import group, mean_over_processes
from rlcourse.worlds.make_env import VectorWorld, make_env
from rlcourse.worlds.snapshots import CannotStore

ALGORITHMS = {kind.__name__: kind for kind in (VPG, TRPO, A2C, PPO, PenaltyPPO)}
FORMAT = 2
MOST_NUMBERS = 2**31  # in one batch, or in the networks: 8 GB as float32


class Run(NamedTuple):
    """What distinguishes one row of a history: the fields that differ between settings, and the seed."""

    setting: dict
    seed: int


@dataclass(repr=False, eq=False)
class TrainingState:
    """A training in progress; the same object is yielded after every update.

    `algorithm` may be changed between two yields (`state.algorithm.gae_lambda = 0.5`); the next update uses it.
    `result()` is what has been learned so far.
    """

    algorithm: Algorithm
    env_name: str
    env_is_batched: bool
    observation_space: spaces.Space
    agent: Runs
    runs: list[Run]
    total_steps: int
    iteration: int = 0
    env_steps: int = 0
    _columns: dict = dataclasses.field(default_factory=dict)
    _rest: "Rest" = None  # of what the next update depends on

    def __repr__(self):
        steps = f"{self.env_steps:,} of {self.total_steps:,} steps each"
        return f"<TrainingState: {type(self.algorithm).__name__} on {self.env_name}, {len(self.runs)} runs, {steps}>"

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Everything recorded so far, name → (R, iterations)."""
        return {name: np.stack(column, 1) for name, column in self._columns.items()}

    def latest(self, name: str) -> np.ndarray:
        """The last recorded value of every run, (R,)."""
        return self._columns[name][-1]

    def record(self, values: dict) -> None:
        """Append one number per run for every name; quarantined runs get NaN. Internal."""
        failed = list(self.agent.failed)
        for name, value in values.items():
            value = np.array(np.broadcast_to(np.asarray(value, dtype=float), len(self.runs)))
            if name not in ("env_steps", "seconds"):
                value[failed] = np.nan
            self._columns.setdefault(name, []).append(value)

    def snapshot(self) -> dict:
        """All that the rest of the training depends on, as plain data with NumPy arrays; `iterate(..., resume=…)` takes it.

        `world` in it is None where the environment cannot be stored, and `world_why` says why.
        """
        rest = self._rest
        return {
            "settings": dataclasses.asdict(self.algorithm),
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "history": self.history,
            "agent": self.agent.snapshot(),
            "obs": rest.obs.copy(),
            "episodes": rest.episodes.snapshot(),
            "rewards": {"running": rest.rewards.running, **rest.rewards.statistics.snapshot()},
            "seconds": rest.seconds,
            **rest.world_snapshot(),
        }

    def _restore(self, snapshot):
        """Become the state that gave this snapshot. The environments go on where they stood, or else begin new episodes."""
        self.algorithm = type(self.algorithm)(**snapshot["settings"])
        self.iteration, self.env_steps = snapshot["iteration"], snapshot["env_steps"]
        self._columns = {name: list(rows.T.copy()) for name, rows in snapshot["history"].items()}
        self.agent.restore(snapshot["agent"])
        self._rest.restore(snapshot)

    def result(self) -> "TrainingResult":
        """A copy of everything so far as a TrainingResult; training on does not change it."""
        return TrainingResult(
            algorithm=dataclasses.replace(self.algorithm),
            env=self.env_name,
            env_is_batched=self.env_is_batched,
            seeds=list(dict.fromkeys(run.seed for run in self.runs)),
            runs=self.runs,
            history=self.history,
            observation_space=self.observation_space,
            agent=copy.deepcopy(self.agent),
            failed=dict(self.agent.failed),
        )


@dataclass(eq=False)
class Rest:
    """What a training keeps from update to update beside the agent and the histories. Internal."""

    world: VectorWorld
    episodes: Episodes
    rewards: RewardNormalizer
    obs: np.ndarray | None = None
    seconds: float = 0.0

    def world_snapshot(self):
        try:
            return {"world": self.world.snapshot()}
        except CannotStore as why:
            return {"world": None, "world_why": str(why)}

    def restore(self, snapshot):
        self.episodes.restore(snapshot["episodes"])
        self.rewards.statistics.restore(snapshot["rewards"])
        self.rewards.running, self.seconds = snapshot["rewards"]["running"], snapshot["seconds"]
        if snapshot["world"] is not None:
            self.world.restore(snapshot["world"])
            self.obs = snapshot["obs"]
            return
        self.obs = self.world.reset()
        self.episodes.running[:], self.rewards.running = 0.0, np.zeros_like(self.rewards.running)
        warnings.warn(
            f"the state of {self.world.name} could not be stored ({snapshot['world_why']}). The training goes on with new "
            "episodes from a reset: equal in distribution to an undisturbed one, not in its numbers.",
            RuntimeWarning,
            stacklevel=2,
        )


@dataclass(repr=False, eq=False)
class TrainingResult:
    """A finished training.

    Attributes:
        algorithm: the settings. env: name of the environment. seeds: as given.
        runs: for each row of a history, its setting (dict of the fields that differ) and seed.
        history: name → array (R, iterations), one number per update. Row = setting · len(seeds) + seed index. In all algorithms:

            env_steps           environment steps of one run so far
            mean_return         of the last up to 100 finished training episodes, in the task's own reward; NaN before the first
            episodes            finished so far
            entropy             mean over the batch, of the policy that collected it, nats; with bounds="tanh" that of u
            kl                  mean over the batch of D_KL(π before ‖ π after the update), nats, exact for each state
            explained_variance  of V̂^targ by the values before the update, 1 at best; NaN for constant targets
            grad_norm           Euclidean, before clipping, mean over the policy's steps: of the policy's gradient (VPG, TRPO),
                                of policy and critic together (A2C, PPO)
            seconds             of the whole population so far

            policy_loss (VPG, A2C) at the start of the update; clip_fraction (PPO) share of |ρ − 1| > ε after it; penalty
            (PenaltyPPO) β; TRPO: accepted (index of the candidate that the line search took, −1: none), improvement of the
            surrogate and predicted_improvement of this candidate, cg_residual ‖b − Fx‖ / ‖b‖.
        failed: run → reason, for runs that were quarantined because a number was not finite.
    """

    algorithm: Algorithm
    env: str
    env_is_batched: bool
    seeds: list[int]
    runs: list[Run]
    history: dict[str, np.ndarray]
    observation_space: spaces.Space
    agent: Runs
    failed: dict[int, str]

    def __repr__(self):
        name, steps = type(self.algorithm).__name__, f"{int(self.history['env_steps'][0, -1]):,} steps each"
        quarantined = f", {len(self.failed)} quarantined" if self.failed else ""
        twin = " (batched twin)" if self.env_is_batched else ""
        return f"<TrainingResult: {name} on {self.env}{twin}, {len(self.runs)} runs, {steps}{quarantined}>"

    def policy(self, run: int = 0) -> Policy:
        """The trained policy of one run: `.act(obs, deterministic=False)` gives an action ready for `env.step`.

        Of a run that was quarantined, with a warning: the policy from before the update that failed.
        """
        if isinstance(run, bool) or not isinstance(run, int | np.integer) or not 0 <= run < len(self.runs):
            raise ValueError(f"run = {run!r}; expected an integer from 0 to {len(self.runs) - 1} (.runs lists them).")
        if run in self.failed:
            why = f"run {run} did not finish ({self.failed[run]}); this is its policy before that."
            warnings.warn(why, RuntimeWarning, stacklevel=2)
        return Policy(self.agent.select(run), self.observation_space, self.runs[run].seed)

    def facts(self) -> dict:
        """All but the numbers, as plain data: with the parameters and histories enough to make the result anew."""
        return {
            "algorithm": type(self.algorithm).__name__,
            "settings": dataclasses.asdict(self.algorithm),
            "env": self.env,
            "env_is_batched": self.env_is_batched,
            "seeds": self.seeds,
            "network": self.agent.network,
            "dtype": str(self.agent.dtype).removeprefix("torch."),
            "observation_space": _describe(self.observation_space),
            "action_space": _describe(self.agent.head.space),
            "failed": {str(run): why for run, why in self.failed.items()},
        }

    def save(self, path) -> Path:
        """Write settings, histories and parameters to one `.npz` file, all or nothing. Reading it executes no code.

        Returns:
            The path, which ends in .npz.

        Raises:
            FileNotFoundError: its folder does not exist.
        """
        path = Path(path)
        path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(path.parent)!r} to save {path.name!r} in; make it first.")
        facts = {"format": FORMAT, **self.facts()}
        arrays = {f"history/{name}": value for name, value in self.history.items()}
        if self.agent.normalizer is not None:
            statistics = self.agent.normalizer.statistics
            arrays |= {f"obs/{name}": getattr(statistics, name) for name in ("count", "mean", "squares")}
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
        try:
            with open(temporary, "xb") as file:
                np.savez_compressed(file, facts=np.array(json.dumps(facts)), parameters=self.agent.parameters.numpy(), **arrays)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return path


def load(path, algorithm=None) -> TrainingResult:
    """Read what `TrainingResult.save` wrote.

    Args:
        path: of the file. algorithm: the class of your own that trained it, a subclass of VPG, PPO …; not needed for those of the
            course.

    Returns:
        TrainingResult, as it was saved.

    Raises:
        FileNotFoundError: no such file. ValueError: not a file of this course, damaged, or of a newer format.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {str(path)!r}; a saved result ends in .npz (TrainingResult.save returns the path).")
    with _damage_named(path):
        # opened here, because np.load would leave a damaged file open
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        facts = json.loads(str(arrays.pop("facts")))
        parameters = torch.from_numpy(arrays.pop("parameters"))
        facts["format"], facts["algorithm"]
    if facts["format"] != FORMAT:
        way_out = "Update rlcourse." if facts["format"] > FORMAT else "Train again."
        raise ValueError(f"{str(path)!r} has format {facts['format']}; this rlcourse reads format {FORMAT}. {way_out}")
    kind = algorithm_class(facts["algorithm"], algorithm, path)
    with _damage_named(path):
        return rebuilt(kind(**facts["settings"]), facts, parameters, arrays)


def algorithm_class(name, own, path):
    """The class of this name: one of the course's, or `own`, the caller's. ValueError if there is none."""
    kind = ALGORITHMS.get(name) if own is None else own
    if kind is None or kind.__name__ != name:
        raise ValueError(
            f"{str(path)!r} was trained by {name!r}; known here: {', '.join(ALGORITHMS)}. If that is a class of "
            f"your own: load(path, algorithm={name})."
        )
    return kind


def rebuilt(algorithm, facts, parameters, arrays) -> TrainingResult:
    """A result from its facts, parameters (R, P), and arrays `history/…` (R, iterations), `obs/count`, `obs/mean` …"""
    observation_space, action_space = _space(facts["observation_space"]), _space(facts["action_space"])
    runs = _runs(algorithm, facts["seeds"])
    obs_size = spaces.flatdim(observation_space)
    dtype = getattr(torch, facts["dtype"])
    agent = Runs(obs_size, action_space, seeds=[run.seed for run in runs], dtype=dtype, **facts["network"])
    if parameters.shape != agent.parameters.shape:
        raise ValueError(f"parameters of shape {tuple(parameters.shape)}, expected {tuple(agent.parameters.shape)}")
    with torch.no_grad():
        agent.parameters.copy_(parameters)
    if agent.normalizer is not None:
        statistics = agent.normalizer.statistics
        statistics.count = int(arrays["obs/count"])
        statistics.mean, statistics.squares = arrays["obs/mean"], arrays["obs/squares"]
        agent.normalizer.refresh()
    history = {name.removeprefix("history/"): value for name, value in arrays.items() if name.startswith("history/")}
    failed = {int(run): why for run, why in facts["failed"].items()}
    return TrainingResult(
        algorithm, facts["env"], facts["env_is_batched"], facts["seeds"], runs, history, observation_space, agent, failed
    )


@contextlib.contextmanager
def _damage_named(path):
    """Whatever goes wrong inside becomes a ValueError that names the file: it is foreign or damaged."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"{str(path)!r} is not a training result saved by rlcourse, or is damaged ({why}).") from error


def iterate(algorithm, env, *, total_steps: int, seeds, dtype=torch.float32, batched: bool = True, resume=None):
    """Train step by step: a generator that yields the TrainingState after each update.

    Args, Raises: as for `train`.
        resume: what `TrainingState.snapshot()` gave in a training with the same arguments. Go on from there, bit for bit on the
            same machine with the same versions. The restored state is yielded first, before any update.
    """
    seeds = checked_seeds(seeds)
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm = {algorithm!r}; expected settings such as VPG(learning_rate=0.01).")
    if isinstance(total_steps, bool) or not isinstance(total_steps, int | np.integer) or total_steps < 1:
        raise ValueError(f"total_steps = {total_steps!r}; expected an integer ≥ 1 such as 100_000: steps per run.")
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype = {dtype}; expected torch.float32 (to train) or torch.float64 (to check).")
    if not isinstance(batched, bool):
        raise TypeError(f"batched = {batched!r}; expected True (our twin, where there is one) or False (Gymnasium's own code).")
    if resume is not None and not isinstance(resume, dict):
        raise TypeError(f"resume = {resume!r}; expected what TrainingState.snapshot() gave. Runs in a folder: train_in_folder.")
    return _iterate(dataclasses.replace(algorithm), env, int(total_steps), seeds, dtype, batched, resume)


def _iterate(algorithm, env, total_steps, seeds, dtype, batched, resume):
    runs = _runs(algorithm, seeds)
    with contextlib.closing(make_env(env, 1, batched=batched)) as probe, _one_thread():
        spaces_of = probe.obs_size, probe.action_space
        _check_size(algorithm, len(runs), probe.obs_size)
        agent = Runs(*spaces_of, seeds=[run.seed for run in runs], dtype=dtype, **algorithm.network())
    again = resume["iteration"] if resume is not None and resume["world"] is None else None
    envs = algorithm.num_envs // group().size  # of this process
    world = make_env(env, len(runs) * envs, seed=agent.env_seeds(algorithm.num_envs, again), batched=batched)
    state = TrainingState(algorithm, world.name, world.batched, world.observation_space, agent, runs, total_steps)
    fixed = lambda: (algorithm.num_envs, algorithm.network(), algorithm.normalize_reward, algorithm.num_settings)  # noqa: E731
    at_start, shape = fixed(), (agent.num_runs, envs)
    rest = state._rest = Rest(world, Episodes(*shape), RewardNormalizer(*shape))
    with contextlib.closing(world):
        if resume is None:
            rest.obs = world.reset()
        else:
            state._restore(resume)
            algorithm = state.algorithm
            yield state
        while state.env_steps < total_steps and len(agent.failed) < agent.num_runs:
            if fixed() != at_start:
                raise ValueError(
                    "num_envs, the networks, normalisation and the number of settings are fixed during training; start a new one."
                )
            started = time.perf_counter()
            with _one_thread():
                current = algorithm.for_runs(len(seeds), dtype)
                agent.begin_update()
                rollout, rest.obs = collect(agent, world, rest.obs, current.num_steps, rest.episodes, current.reward_scale)
                if current.normalize_reward:
                    rollout.reward = rest.rewards(rollout.reward, rollout.terminated | rollout.truncated, current.gamma)
                metrics = current.update(agent, rollout)
                agent.check_finite()
                agent.observe(rollout.rows(rollout.obs))
                agent.progress = (state.env_steps + algorithm.num_envs * algorithm.num_steps) / total_steps
            rest.seconds += time.perf_counter() - started
            state.iteration += 1
            state.env_steps += algorithm.num_envs * algorithm.num_steps
            finished = {"mean_return": rest.episodes.mean_return(), "episodes": rest.episodes.finished * group().size}
            measured = {name: mean_over_processes(value) for name, value in {**finished, **metrics}.items()}
            state.record({"env_steps": state.env_steps, **measured, "seconds": rest.seconds})
            yield state


def train(algorithm, env, *, total_steps, seeds, progress=True, dtype=torch.float32, callbacks=(), batched=True, resume=None):
    """Train every setting of `algorithm` with every seed, all runs at once, and return what happened.

    Args:
        algorithm: settings, such as VPG(gae_lambda=[0.9, 1.0]); lists are settings, crossed with the seeds.
        env: a Gymnasium id, or a function without arguments that makes an environment.
        total_steps: environment steps per run (rounded up to whole updates of num_envs · num_steps).
        seeds: ints ≥ 0. Run r depends on its own seed and setting only, not on its neighbours.
        progress: show a progress bar ("twin" there: our batched twin of the environment is used).
        callbacks: one function or several, called with the TrainingState after each update; one that returns True ends the
            training early.
        dtype: torch.float32 to train, torch.float64 to check.
        batched: use our batched twin of the environment where there is one (see worlds.make_env); False: Gymnasium's own.
        resume: see `iterate`; callbacks see the restored state first.

    Returns:
        TrainingResult. A run whose numbers become infinite or NaN is quarantined and a warning names it (also `.failed`); the
        others go on. The training ends early when none is left. If you interrupt it, nothing is returned: to keep what was
        learned, loop over `iterate` instead and call `.result()` of its state.

    Raises:
        ValueError, TypeError: for settings out of range, unknown or unsupported environments, or an environment that
            returns NaN; the message names the value and the way out.
    """
    callbacks = _checked_callbacks(callbacks)
    updates = iterate(algorithm, env, total_steps=total_steps, seeds=seeds, dtype=dtype, batched=batched, resume=resume)
    before = min((resume or {}).get("env_steps", 0), total_steps)  # they do not count for steps per second
    bar = tqdm(total=total_steps, initial=before, unit=" steps", disable=not progress, desc=type(algorithm).__name__)
    with contextlib.closing(updates), contextlib.closing(bar):
        for state in updates:
            if bar.n == before and progress:
                twin = " twin" if state.env_is_batched else ""  # the line must fit a notebook's page
                bar.set_description(f"{type(algorithm).__name__}, {state.env_name}{twin}, {len(state.runs)} runs")
            bar.update(min(state.env_steps, total_steps) - bar.n)
            returns = state.latest("mean_return")
            if np.isfinite(returns).any():
                bar.set_postfix_str(f"return {np.nanmedian(returns):.4g}", refresh=False)
            if any([_asks_to_end(callback(state)) for callback in callbacks]):
                break
    if state.agent.failed:
        reasons = "".join(f"\n  run {run} {tuple(state.runs[run])}: {why}" for run, why in sorted(state.agent.failed.items()))
        message = f"{len(state.agent.failed)} of {len(state.runs)} runs were quarantined; their histories end in NaN:{reasons}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return state.result()


def evaluate(
    policy, env, *, episodes: int = 10, seed: int = 0, deterministic: bool = False, batched: bool = True, max_steps: int = 100_000
) -> np.ndarray:
    """Undiscounted returns of `episodes` fresh episodes under a trained policy.

    Each episode has a sub-environment and a seed of its own, and all of them are played to their end: taking the first
    episodes to finish would favour short ones.

    Args:
        policy: from TrainingResult.policy. env: as for `train`. deterministic: act with the mode instead of sampling.
        max_steps: refuse to play an episode for longer than this.

    Returns:
        Array (episodes,).

    Raises:
        TypeError: policy is no policy. ValueError: the environment has other observations or actions than the one trained
            on, or an episode does not end.
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy = {policy!r}; expected the policy of one run, such as result.policy(0).")
    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
        raise ValueError(f"episodes = {episodes!r}; expected a positive integer.")
    world = make_env(env, episodes, seed=seed, batched=batched)
    if _kind(world) != _kind(policy):
        world.close()
        raise ValueError(
            f"the policy was trained for {policy.observation_space} → {policy.action_space}; "
            f"{world.name} has {world.observation_space} → {world.action_space}."
        )
    generator = np.random.default_rng(seed)
    returns, running = np.zeros(episodes), np.ones(episodes, dtype=bool)
    with contextlib.closing(world), _one_thread(), torch.inference_mode():
        obs = world.reset()
        for _ in range(max_steps):
            distribution = policy.distribution(torch.as_tensor(obs))
            action = distribution.mode() if deterministic else distribution.sample(generator)
            obs, reward, terminated, truncated, _ = world.step(policy.agent.head.squash(action.numpy()))
            returns += reward * running
            running &= ~(terminated | truncated)
            if not running.any():
                return returns
    raise ValueError(
        f"{running.sum()} of {episodes} episodes on {world.name} still going on after max_steps = {max_steps}. Raise it, or give "
        "the environment a time limit: lambda: gymnasium.wrappers.TimeLimit(make(), 1000)."
    )


def _kind(one):
    """What a policy and an environment must agree on: kind, shape and number of observations and actions."""
    return [(type(space), space.shape, getattr(space, "n", None)) for space in (one.observation_space, one.action_space)]


def _runs(algorithm, seeds):
    return [Run(setting, seed) for setting in algorithm.settings() for seed in seeds]


def checked_seeds(seeds):
    if isinstance(seeds, int | np.integer):
        raise TypeError(f"seeds = {seeds!r}; expected a list of ints, one per run: seeds=[{seeds}] or seeds=range({seeds}).")
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds = {seeds!r}; expected a list of ints, one per run, such as [0, 1, 2].")
    seeds = list(seeds)
    if not seeds or not all(isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0 for seed in seeds):
        raise ValueError(f"seeds = {seeds!r}; expected at least one integer ≥ 0.")
    seeds = [int(seed) for seed in seeds]
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds = {seeds!r}; each seed once: equal seeds give equal runs, not more evidence.")
    return seeds


def _check_size(algorithm, runs, obs_size):
    """Refuse what no memory holds before it is asked for: Linux would grant it, and end the process later."""
    widths = [obs_size, *algorithm.hidden_sizes, 1]
    batch = runs * algorithm.num_envs * algorithm.num_steps * (obs_size + 1)
    weights = runs * sum(before * after for before, after in pairwise(widths))
    sizes = f"num_envs = {algorithm.num_envs}, num_steps = {algorithm.num_steps}, obs_size = {obs_size}"
    for what, count, why in (("batch", batch, sizes), ("network", weights, f"hidden_sizes = {algorithm.hidden_sizes}")):
        if count > MOST_NUMBERS:
            raise ValueError(f"{why}, {runs} runs: a {what} of more than {MOST_NUMBERS:,} numbers at a time. Take less of these.")


def _checked_callbacks(callbacks):
    callbacks = [callbacks] if callable(callbacks) else callbacks
    if not isinstance(callbacks, Iterable) or not all(map(callable, callbacks := list(callbacks))):
        raise TypeError(f"callbacks = {callbacks!r}; expected functions of the TrainingState, such as [print].")
    return callbacks


def _asks_to_end(answer):
    """Whether a callback's answer is True, Python's or NumPy's; an array would be ambiguous."""
    if isinstance(answer, np.ndarray | torch.Tensor):
        raise TypeError(f"a callback returned {answer!r}, one answer per run; return a single True or False, such as (…).all().")
    return isinstance(answer, bool | np.bool_) and bool(answer)


@contextlib.contextmanager
def _one_thread():
    """One torch thread inside, the caller's number afterwards: on several busy cores small networks are many times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _describe(space):
    """A Discrete or Box space as plain numbers and strings (repr keeps every digit, and infinities)."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    low, high = ([repr(float(x)) for x in bound.ravel()] for bound in (space.low, space.high))
    return {"kind": "Box", "shape": space.shape, "dtype": str(space.dtype), "low": low, "high": high}


def _space(facts):
    if facts["kind"] == "Discrete":
        return spaces.Discrete(facts["n"], start=facts["start"])
    dtype = np.dtype(facts["dtype"])
    low, high = (np.array([float(x) for x in facts[key]], dtype).reshape(facts["shape"]) for key in ("low", "high"))
    return spaces.Box(low, high, dtype=dtype.type)
