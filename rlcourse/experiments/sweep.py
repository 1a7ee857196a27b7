"""Many trainings over all cores, or over a cluster: algorithm × environment × setting, each with its seeds.

A job is one `train_in_folder`: its seeds are trained together, as one batched computation; different jobs go to different
processes. What a job computes depends on the job alone, so a sweep gives the same numbers on one process, on eight, and on a
cluster of equal machines. When a sweep is started again, finished jobs are skipped, others go on from their checkpoint.

The processes come from a `concurrent.futures.Executor`. Without one, Python's own is made; with `distributed` installed,
`sweep(jobs, folder, executor=client.get_executor())` runs the same jobs on a cluster whose machines see the same folder.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import multiprocessing
import os
import signal
import sys
import traceback
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tqdm.auto import tqdm

from rlcourse.agents.algorithm import Algorithm
from rlcourse.agents.recommended import RECOMMENDED
from rlcourse.agents.training import ALGORITHMS, checked_seeds
from rlcourse.experiments.storage import Plan, Stopped, finished, train_in_folder, write_bytes
from rlcourse.worlds.make_env import check_id

MOST_SEEDS = 100_000
TRIES = 2  # a job that failed is tried once more


@dataclass(frozen=True, eq=False)
class Job:
    """One training: what `train_in_folder` is called with."""

    algorithm: Algorithm
    env: str
    seeds: tuple
    total_steps: int
    name: str | None = None
    batched: bool = True

    def __str__(self):
        setting = f", {self.name}" if self.name else ""
        return f"{type(self.algorithm).__name__} on {self.env}{setting}, seeds {', '.join(map(str, self.seeds))}"


@dataclass
class Report:
    """What came of a sweep. folders: of all finished runs, in the order of the jobs. failed: job → the reason."""

    folders: list[Path] = field(default_factory=list)
    failed: dict[Job, str] = field(default_factory=dict)


def grid(algorithms, envs, seeds, total_steps, settings=None, seeds_per_job=None, batched=True) -> list[Job]:
    """The jobs of a sweep.

    Args:
        algorithms: names, such as ["VPG", "PPO"]. envs: Gymnasium ids. seeds: ints.
        total_steps: environment steps per run; an int, or a dict env → int.
        settings: name → dict of fields that replace those of the base settings, which are `recommended` where there are some,
            else the defaults. None: the base settings only. A field that an algorithm does not have is an error.
        seeds_per_job: so many seeds are trained together; None: all. Equal numbers need equal grouping.

    Raises:
        ValueError: an unknown algorithm, field or value.
    """
    seeds = checked_seeds(seeds)
    size = len(seeds) if seeds_per_job is None else seeds_per_job
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"seeds_per_job = {seeds_per_job!r}; expected an integer ≥ 1.")
    blocks = [tuple(seeds[i : i + size]) for i in range(0, len(seeds), size)]
    jobs = []
    for algorithm, env, (name, fields) in itertools.product(algorithms, envs, (settings or {None: {}}).items()):
        steps = total_steps.get(env) if isinstance(total_steps, dict) else total_steps
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ValueError(f"total_steps = {total_steps!r}: expected an integer ≥ 1 for {env}.")
        jobs += [Job(changed(base(algorithm, env), fields), env, block, steps, name, batched) for block in blocks]
    return jobs


def base(algorithm: str, env: str) -> Algorithm:
    """The recommended settings of an algorithm on an environment, or where there are none its defaults."""
    known = {name.lower(): name for name in ALGORITHMS}
    if algorithm.lower() not in known:
        raise ValueError(f"algorithm = {algorithm!r}; expected one of {', '.join(ALGORITHMS)}.")
    name = known[algorithm.lower()]
    return dataclasses.replace(RECOMMENDED.get((name, env)) or ALGORITHMS[name]())


def changed(algorithm: Algorithm, fields: dict) -> Algorithm:
    """A copy with other values in some fields; ValueError names a field that there is not."""
    names = [one.name for one in dataclasses.fields(algorithm)]
    for name in fields:
        if name not in names:
            raise ValueError(f"{type(algorithm).__name__} has no setting {name!r}; it has {', '.join(names)}.")
    fields = {name: None if value == "none" else value for name, value in fields.items()}  # TOML has no word for it
    return dataclasses.replace(algorithm, **fields)


def product(**values) -> dict[str, dict]:
    """Every combination of values as `settings` of a grid: product(gamma=[0.9, 1], gae_lambda=[0, 1]) → four of them."""
    settings = {}
    for combination in itertools.product(*values.values()):
        fields = dict(zip(values, combination, strict=True))
        settings[",".join(f"{name}={_word(value)}" for name, value in fields.items()) or None] = fields
    return settings


def _word(value):
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _words(value):
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)


def _table_of(kind):
    return lambda value: isinstance(value, dict) and all(isinstance(item, kind) and item != [] for item in value.values())


KINDS = {
    "exp_name": (lambda value: isinstance(value, str), "a name"),
    "algorithms": (_words, 'a list of names such as ["VPG", "PPO"]'),
    "envs": (_words, 'a list of ids such as ["CartPole-v1"]'),
    "settings": (_table_of(dict), "a table of named settings, each a table such as {gamma = 0.9}"),
    "grid": (_table_of(list), "a table of lists of values, none of them empty, such as {gamma = [0.9, 0.99]}"),
    "batched": (lambda value: isinstance(value, bool), "true or false"),
}


def read_plan(plan: dict) -> tuple[list[Job], str]:
    """The jobs and the experiment's name from the content of a sweep file (TOML or JSON); see docs/command_line.md.

    Raises:
        ValueError: a key that is not known, is missing, or holds something of another kind.
    """
    allowed = {"exp_name", "algorithms", "envs", "seeds", "total_steps", "seeds_per_job", "settings", "grid", "batched"}
    unknown, missing = sorted(set(plan) - allowed), sorted({"algorithms", "envs", "total_steps"} - set(plan))
    if unknown or missing:
        words = [f"unknown: {', '.join(unknown)}"] * bool(unknown) + [f"missing: {', '.join(missing)}"] * bool(missing)
        raise ValueError(f"a sweep has the keys {', '.join(sorted(allowed))}; {'; '.join(words)}.")
    for key, value in plan.items():
        fits, words = KINDS.get(key, (lambda value: True, ""))
        if not fits(value):
            raise ValueError(f"{key} = {value!r}; a sweep expects {words}.")
    plan = dict(plan)
    name, crossed = plan.pop("exp_name", "sweep"), plan.pop("grid", None)
    if crossed is not None and "settings" in plan:
        raise ValueError("settings (named ones) and grid (all combinations) exclude each other in a sweep; take one.")
    if crossed is not None:
        plan["settings"] = product(**crossed)
    plan["seeds"] = parse_seeds(plan.get("seeds", "0-4"))
    return grid(**plan), name


def parse_seeds(seeds) -> list[int]:
    """ "0-3,8" → [0, 1, 2, 3, 8]; an int becomes a list; anything else, such as a list of ints, stays what it is."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return [seeds]
    if not isinstance(seeds, str):
        return seeds
    found = []
    for piece in seeds.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ValueError(f"seeds = {seeds!r}; expected something like 3, or 0-9, or 0-4,7.")
        if int(last or first) - int(first) >= MOST_SEEDS:
            raise ValueError(f"seeds = {seeds!r}; expected at most {MOST_SEEDS:,} seeds at a time.")
        found += range(int(first), int(last or first) + 1)
    if len(set(found)) < len(found):
        raise ValueError(f"seeds = {seeds!r}; each seed once: equal seeds give equal runs, not more evidence.")
    return found


# -------------------------------------------------------------------------------------------------------------------- running


def sweep(jobs, folder, *, executor=None, processes=None, progress=True, every=30.0, command=None) -> Report:
    """Run all jobs, each in a process of its own; those that are already finished in `folder` are not run again.

    Args:
        jobs: from `grid`. folder: of the experiment; every process must see it.
        executor: any concurrent.futures.Executor whose workers can import rlcourse; None: Python's processes on this machine.
        processes: how many; None: one per core, but no more than jobs. Only without an executor.
        every: seconds between checkpoints. command: see `train_in_folder`.

    Returns:
        Report. A job that fails, or whose process dies, is tried once more, and then reported; the others go on.

    Raises:
        ValueError: two jobs would write the same run folder; an unknown environment id.
        FileExistsError: a run folder holds a run with other settings.
    """
    jobs = list(jobs)
    if processes is not None and (isinstance(processes, bool) or not isinstance(processes, int) or processes < 1):
        raise ValueError(f"processes = {processes!r}; expected an integer ≥ 1.")
    if processes is not None and executor is not None:
        raise ValueError("processes and executor exclude each other: an executor knows how many workers it has.")
    folder = Path(folder)
    plans = {job: Plan(folder, job.algorithm, job.env, job.total_steps, job.seeds, job.name, batched=job.batched) for job in jobs}
    twice = [path for path, times in Counter(path for plan in plans.values() for path in plan.folders).items() if times > 1]
    if twice:
        raise ValueError(f"two jobs would write {twice[0]}: name their settings differently, or leave out what is there twice.")
    done, failed = {job: plan.folders for job, plan in plans.items() if finished(plan)}, {}
    left = [job for job in jobs if job not in done]
    for env in dict.fromkeys(job.env for job in left if isinstance(job.env, str)):
        check_id(env)  # a slip of the pen is known now, not when hours of other jobs are over
    runner = _Pool(min(processes or _cores(), len(left))) if executor is None else _Given(executor, len(left))
    bar = tqdm(total=len(jobs), initial=len(done), disable=not progress, desc="sweep", unit=" jobs")
    with _stopped_in_words(), bar, runner:
        for job, error in _completed(runner, left, (folder.absolute(), every, command)):
            details = plans[job].checkpoint.with_suffix(".error.txt")
            if error is None:
                done[job] = plans[job].folders
                details.unlink(missing_ok=True)  # of an earlier sweep
            else:
                with contextlib.suppress(OSError):  # such as that of a full disk, which the others may outlive
                    write_bytes(details, "".join(traceback.format_exception(error)).encode("utf-8"))
                failed[job] = f"{type(error).__name__}: {error} (see {details})"
            bar.update()
    return Report([path for job in jobs for path in done.get(job, [])], failed)


@contextlib.contextmanager
def _stopped_in_words():
    try:
        yield
    except KeyboardInterrupt as error:
        raise Stopped("the sweep was stopped; what was running has saved itself. To go on: the same once more.") from error


def _completed(runner, jobs, options):
    """Yield (job, None) or (job, why it failed) as jobs come to an end.

    When a process dies, Python's pool ends with all of its jobs, and nobody knows whose fault it was. So the jobs that were under
    way are tried again one at a time: the guilty one cannot take another one with it.
    """
    waiting, alone, running, tries = deque(jobs), deque(), {}, dict.fromkeys(jobs, 0)
    while waiting or alone or running:
        while waiting and len(running) < runner.width:
            _submit(runner, waiting.popleft(), options, running, tries)
        if not waiting and not running:
            _submit(runner, alone.popleft(), options, running, tries)
        for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
            job = running.pop(future)
            error = future.exception()
            if error is None:
                yield job, None
            elif isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            elif tries[job] >= TRIES:
                yield job, error
            else:
                alone.append(job)


def _submit(runner, job, options, running, tries):
    tries[job] += 1
    running[runner.submit(run_job, job, *options)] = job


def run_job(job: Job, folder, every, command) -> None:
    """One job in this process, on one thread. It goes on from its checkpoint if there is one."""
    torch.set_num_threads(1)
    train_in_folder(
        folder, job.algorithm, job.env, total_steps=job.total_steps, seeds=list(job.seeds), name=job.name, batched=job.batched,
        resume=True, every=every, progress=False, command=command,
    )  # fmt: skip


class _Pool:
    """Python's own processes; a pool that broke is replaced at the next submission."""

    def __init__(self, width):
        self.width, self.pool = width, None

    def submit(self, *call):
        for _ in range(2):
            if self.pool is None:
                context = multiprocessing.get_context("spawn")
                self.pool = concurrent.futures.ProcessPoolExecutor(self.width, context, initializer=_wait_quietly)
            try:
                with _one_thread_each():
                    return self.pool.submit(*call)
            except concurrent.futures.BrokenExecutor:
                self.pool.shutdown()
                self.pool = None
        raise RuntimeError("the processes of the sweep die as soon as they are made")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.pool is None:
            return
        if error[0] is not None:  # interrupted: let the jobs save themselves, and wait for that
            for process in list((getattr(self.pool, "_processes", None) or {}).values()):
                process.terminate()
        self.pool.shutdown(wait=True, cancel_futures=True)


def _wait_quietly():
    """Between jobs a process does not answer to Ctrl-C; its parent tells it when to end. What it prints is no result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr


class _Given:
    """The caller's executor: it gets everything at once, and stays open."""

    def __init__(self, executor, width):
        self.submit, self.width = executor.submit, width

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@contextlib.contextmanager
def _one_thread_each():
    """New processes inherit one thread for every numerical library: as many processes as cores leave no core for a second one."""
    names = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
