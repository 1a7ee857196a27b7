"""Trainings on disk: a folder for each run, and a checkpoint from which a killed training goes on bit for bit.

    runs/<exp_name>/<algorithm>-<env>-<setting>-s<seed>/    config.json  history.csv  weights.safetensors
    runs/<exp_name>/<algorithm>-<env>-<settings>-s<seeds>.checkpoint

Runs that were trained together are one computation, so they share one checkpoint, beside their folders.

Why not `TrainingResult.save`? That is one file for a population, made to be stored beside a lesson and read by this package. A
run folder is made for others: any table program reads history.csv, plain PyTorch reads weights.safetensors, and one run can be
given away alone. Both hold the same facts (`TrainingResult.facts`) and are made into a TrainingResult by the same function.

Every file is written beside its place and then moved there, so it is there whole or not at all. No file is a pickle: reading one
executes nothing. Arrays carry a checksum. While a training writes, a file `….lock` beside the checkpoint keeps others out.
"""

import contextlib
import csv
import dataclasses
import hashlib
import io
import json
import os
import platform
import re
import signal
import sys
import threading
import time
import uuid
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy
import torch
from filelock import FileLock, Timeout

from rlcourse.agents.recommended import RECOMMENDED
from rlcourse.agents.runs import Runs
from rlcourse.agents.training import TrainingResult, algorithm_class, rebuilt, train
from rlcourse.equations.processes import ALONE

FORMAT = 1  # of run folders and checkpoints
CONFIG, HISTORY, WEIGHTS, CHECKPOINT = "config.json", "history.csv", "weights.safetensors", ".checkpoint"
PATIENCE = 2.0  # seconds to wait for a lock: a process that has just been killed may hold it for another moment


class Stopped(KeyboardInterrupt):
    """A training that was interrupted, after it has saved itself. `signum`: the signal."""

    def __init__(self, message, signum=signal.SIGINT):
        super().__init__(message, signum)
        self.message, self.signum = message, signum

    def __str__(self):
        return self.message


# ------------------------------------------------------------------------------------------------------------------ training


def train_in_folder(
    folder, algorithm, env, *, total_steps, seeds, name=None, resume=False, every=30.0, progress=True, dtype=torch.float32,
    batched=True, command=None,
):  # fmt: skip
    """`train`, with a folder for each run and a checkpoint on the way. A kill at any moment loses at most `every` seconds.

    Ctrl-C, a request to terminate, or a terminal that is closed ends the training after the current update and saves it;
    another one, a second later, ends it at once.

    Args:
        folder: the experiment's folder, made if it is missing.
        algorithm, env, total_steps, seeds, progress, dtype, batched: as for `train`.
        name: of the setting, in the names of the run folders; default: the fields that differ from `recommended`.
        resume: go on from the checkpoint if there is one. The settings must be those of the checkpoint; total_steps may be more.
        every: seconds between checkpoints, ≥ 0; 0: after each update.
        command: stored in config.json, to know later how the numbers came about.

    Returns:
        The run folders, list of Path, in the order of `TrainingResult.runs`. Runs that are already finished are not run again.

    Raises:
        FileExistsError: there are unfinished runs and `resume` is False, or runs of the same name with other settings; or
            another process is training them right now.
        ValueError: a damaged checkpoint; and as for `train`. OSError: a file cannot be written. Stopped: interrupted, and saved.
    """
    seeds = list(seeds)
    plan = Plan(Path(folder), algorithm, env, total_steps, seeds, name, dtype, batched, command)
    how = {"total_steps": total_steps, "seeds": seeds, "progress": progress, "dtype": dtype, "batched": batched}
    return keep(plan, lambda **more: train(algorithm, env, **how, **more), resume, every)


def keep(plan, training, resume, every, group=ALONE):
    """Run a training with checkpoints, and keep what comes of it; for the rest see `train_in_folder`.

    Args:
        training: called with `callbacks` and `resume`, as `train` has them; gives a TrainingResult.
        group: the processes that train together, each of which calls this. Process 0 reads and writes all files.
    """
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 <= every < float("inf"):
        raise ValueError(f"every = {every!r}; expected seconds between checkpoints, a number ≥ 0.")
    with contextlib.ExitStack() as held:
        snapshots = group.from_first(lambda: _begin(plan, resume, held))
        if snapshots is None:
            return plan.folders
        keeper = _Keeper(plan, every, held.enter_context(_signals()), group)
        result = training(callbacks=[keeper], resume=snapshots[group.rank] if snapshots else None)
        keeper.save()
        if keeper.stop and keeper.state.env_steps < plan.total_steps:
            steps = f"{keeper.state.env_steps:,} of {plan.total_steps:,} steps per run"
            way_out = "To go on: the same once more, with resume (--resume)."
            raise Stopped(f"stopped after {steps}; saved in {plan.checkpoint}. {way_out}", *keeper.asked[:1])
        group.from_first(lambda: _end(plan, result))
    return plan.folders


@dataclasses.dataclass
class Plan:
    """What is to be trained, and the names of the files that it will be kept in."""

    folder: Path
    algorithm: object
    env: object
    total_steps: int
    seeds: list
    name: str | None = None
    dtype: torch.dtype = torch.float32
    batched: bool = True
    command: object = None
    processes: int = 1  # that train one run together

    @property
    def facts(self):
        """What must be equal for a training to be the same; `total_steps` apart."""
        settings = dataclasses.asdict(self.algorithm)
        facts = {"algorithm": type(self.algorithm).__name__, "settings": settings, "env": env_name(self.env)}
        facts |= {"seeds": list(self.seeds), "dtype": str(self.dtype).removeprefix("torch."), "batched": self.batched}
        facts |= {"processes": self.processes} if self.processes > 1 else {}
        return json.loads(json.dumps(facts))

    def _label(self, algorithm):
        if self.name is None:
            return label(algorithm, env_name(self.env))
        several = algorithm is not self.algorithm and self.algorithm.num_settings > 1
        return f"{self.name},{differences(algorithm, self.algorithm)}" if several else self.name

    @property
    def labels(self):
        """The name of the setting of each run."""
        alone = (dataclasses.replace(self.algorithm, **setting) for setting in self.algorithm.settings())
        return [self._label(one) for one in alone for _ in self.seeds]

    def _name(self, text, seeds):
        return safe_name(f"{type(self.algorithm).__name__}-{env_name(self.env)}-{text}", f"-s{seeds}")

    @property
    def folders(self):
        seeds = list(self.seeds) * self.algorithm.num_settings
        return [self.folder / self._name(text, seed) for text, seed in zip(self.labels, seeds, strict=True)]

    @property
    def checkpoint(self):
        return self.folder / (self._name(self._label(self.algorithm), seeds_text(self.seeds)) + CHECKPOINT)

    def config(self, result, run, finished):
        """The content of config.json for one run: the facts of the run alone, and where it came from."""
        setting, seed = result.runs[run]
        failed = {"0": result.failed[run]} if run in result.failed else {}
        alone = dataclasses.replace(result.algorithm, **setting)
        return {
            "format": FORMAT,
            **result.facts(),
            "settings": dataclasses.asdict(alone),
            "setting": self.labels[run],
            "seeds": [seed],
            "failed": failed,
            "total_steps": self.total_steps,
            "finished": finished,
            "trained_together": self.facts,
            "checkpoint": self.checkpoint.name,
            "versions": versions(),
            "command": self.command,
        }


class _Keeper:
    """A callback of `train` that writes the checkpoint, and after the first one config.json. It ends the training if asked to.

    asked: list of signals that this process was sent. What one process of the group wants, all do, after the same update.
    """

    def __init__(self, plan, every, asked, group):
        self.plan, self.every, self.asked, self.group = plan, every, asked, group
        self.state, self.last, self.stop = None, None, False

    def __call__(self, state):
        self.state = state
        due = self.last is None or time.monotonic() - self.last >= self.every
        due, self.stop = self.group.mean(np.array([due, bool(self.asked)], float)) > 0
        if due:
            self.save()
        return self.stop

    def save(self):
        parts = self.group.gather(self.state.snapshot())
        self.group.from_first(lambda: self._write(*parts))
        self.last = time.monotonic()

    def _write(self, snapshot, *others):
        first = self.last is None
        if first:
            _configs(self.plan)
        tree = {"plan": self.plan.facts, "versions": versions(), "snapshot": snapshot, "others": others}
        write_tree(self.plan.checkpoint, "checkpoint", tree)
        if first:
            result = self.state.result()
            for run, path in enumerate(self.plan.folders):
                path.mkdir(exist_ok=True)
                if not (path / CONFIG).exists():
                    write_json(path / CONFIG, self.plan.config(result, run, finished=False))


def finished(plan) -> bool:
    """Whether there are all runs of a plan, to their ends, with all their files.

    Raises:
        FileExistsError: there are runs of the same names with other settings.
    """
    done = [config["finished"] and config["total_steps"] >= plan.total_steps for config in _configs(plan)]
    kept = ((path / name).is_file() for path in plan.folders for name in (HISTORY, WEIGHTS))
    return len(done) == len(plan.folders) and all(done) and all(kept)


def _configs(plan):
    """config.json of those runs of a plan that are there. FileExistsError: they are of another training, say with more seeds."""
    found = {path: read_config(path) for path in plan.folders if (path / CONFIG).exists()}
    for path, config in found.items():
        _check_same(path, config["trained_together"], plan)
    return list(found.values())


@contextlib.contextmanager
def _locked(plan):
    """Inside, no other process trains the same. The system itself takes the lock from a process that ends, killed or not."""
    path = plan.checkpoint.with_suffix(".lock")
    lock = FileLock(path, timeout=PATIENCE)
    try:
        lock.acquire()
    except Timeout as error:
        raise FileExistsError(
            f"{plan.checkpoint} belongs to a training that is running right now. Let it end, or stop it (it saves itself) and "
            "resume it (--resume); or take another experiment name (--exp-name)."
        ) from error
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        yield
    finally:
        _forget(path)  # before the release: whoever has opened it already notices, and makes a new one
        lock.release()


def _begin(plan, resume, held):
    """None: all is done. An empty list: begin. Else the snapshots to go on from, one of each process. held: keeps the lock."""
    twice = next((path for i, path in enumerate(plan.folders) if path in plan.folders[:i]), None)
    if twice:
        raise ValueError(f"two runs would write {twice}: give each setting and each seed once.")
    make_folder(plan.folder)
    if finished(plan):
        return None
    held.enter_context(_locked(plan))
    left = plan.folder.glob(f"{glob_escape(plan.checkpoint.name)}.*.part")  # from a kill in the middle of writing
    for file in [*left, *(file for path in plan.folders for file in path.glob("*.part"))]:
        file.unlink(missing_ok=True)
    if not plan.checkpoint.exists():
        if any(config["finished"] for config in _configs(plan)):
            raise FileExistsError(
                f"{plan.checkpoint} is gone, but there are finished runs of it in {plan.folder}, which cannot be made longer "
                "without it. Take another experiment name (--exp-name), or delete them to train anew."
            )
        return []
    if not resume:
        raise FileExistsError(
            f"{plan.checkpoint} is the checkpoint of a training that can go on: resume it (--resume), take another experiment "
            "name (--exp-name), or delete it."
        )
    return _checked_snapshots(plan)


def _end(plan, result):
    """Write what came of a training, unless another one has taken its place."""
    _configs(plan)
    for run, path in enumerate(plan.folders):
        save_run(result, run, path, plan.config(result, run, finished=True))


def _checked_snapshots(plan):
    tree = read_tree(plan.checkpoint, "checkpoint")
    _check_same(plan.checkpoint, tree["plan"], plan)
    if tree["versions"] != versions():
        changed = ", ".join(f"{k} {v} → {versions().get(k)}" for k, v in tree["versions"].items() if versions().get(k) != v)
        warnings.warn(f"begun with other versions ({changed}): the numbers may differ in their last digits.", stacklevel=3)
    done = [read_config(path)["total_steps"] for path in plan.folders if (path / CONFIG).exists()]
    if getattr(plan.algorithm, "anneal", False) and any(total != plan.total_steps for total in done):
        raise FileExistsError(
            f"{plan.checkpoint}: anneal=True lets the step size fall to 0 at total_steps = {done[0]:,}, so a training for "
            f"{plan.total_steps:,} steps is another one from its first update. Take another experiment name (--exp-name)."
        )
    return [tree["snapshot"], *tree.get("others", [])]


def _check_same(path, facts, plan):
    if facts == plan.facts:
        return
    flat = [{"processes": 1, **facts, **facts["settings"]} for facts in (facts, plan.facts)]
    names = sorted({name for one in flat for name in one if name != "settings" and flat[0].get(name) != flat[1].get(name)})
    found = "; ".join(f"{name} = {flat[0].get(name)} there, {flat[1].get(name)} here" for name in names)
    way_out = "Train as there, or take another experiment name (--exp-name), or delete it"
    raise FileExistsError(f"{path} holds another training ({found}). {way_out}.")


@contextlib.contextmanager
def _signals():
    """A list that gets the number of the first signal that asks to stop; another one, a second later or more, stops at once."""
    asked, times = [], []

    def note(signum, frame):
        asked.append(signum)
        times.append(time.monotonic())
        if times[-1] - times[0] > 1:
            raise KeyboardInterrupt("stopped at once; what was done since the last checkpoint is lost.")

    if threading.current_thread() is not threading.main_thread():  # only the main thread may; others are not interrupted
        yield asked
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if getattr(signal, "SIGHUP", None) and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored: under nohup
        numbers.append(signal.SIGHUP)  # the terminal has been closed
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -------------------------------------------------------------------------------------------------------------------- a run


def save_run(result: TrainingResult, run: int, path, config: dict) -> Path:
    """Write one run of a result into its folder: histories, weights, and last config.json, which says that it is finished.

    A shorter training that was finished there is marked as unfinished first: a kill between two files leaves no mixture of both.
    """
    path = Path(path)
    make_folder(path)
    if (path / CONFIG).exists():
        write_json(path / CONFIG, config | {"finished": False})
    names = list(result.history)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    rows = zip(*(result.history[name][run].tolist() for name in names), strict=True)
    table.writerow(["iteration", *names])
    table.writerows([i, *map(repr, row)] for i, row in enumerate(rows, 1))
    write_bytes(path / HISTORY, text.getvalue().encode("utf-8"))
    arrays = result.agent.weights(run)
    if result.agent.normalizer is not None:
        statistics = result.agent.normalizer.statistics.select(run)
        arrays |= {"obs.mean": statistics.mean[0], "obs.scale": result.agent.normalizer.scale[run, 0].numpy()}
        arrays |= {"obs.count": np.array(statistics.count), "obs.squares": statistics.squares[0]}
    write_bytes(path / WEIGHTS, packed("weights", arrays, algorithm=config["algorithm"], env=config["env"]))
    write_json(path / CONFIG, config)
    return path


CONTENT = {"algorithm": str, "settings": dict, "setting": str, "env": str, "seeds": list, "failed": dict, "network": dict,
           "finished": bool, "total_steps": int, "trained_together": dict}  # fmt: skip


def read_config(path) -> dict:
    """config.json of a run folder.

    Raises:
        FileNotFoundError: no run folder. ValueError: foreign, damaged, or of a newer format.
    """
    file = Path(path) / CONFIG
    if not file.is_file():
        raise FileNotFoundError(f"{str(path)!r} is no run folder: there is no {CONFIG} in it.")
    with _damage_named(file):
        config = json.loads(file.read_text(encoding="utf-8"))
        number = config["format"]
        for name, kind in CONTENT.items():
            if not isinstance(config[name], kind) or config[name] == []:
                raise TypeError(f"{name} = {config[name]!r}; expected {kind.__name__}")
    _check_format(file, number)
    return config


def read_history(path) -> dict[str, np.ndarray]:
    """history.csv of a run folder: name → (iterations,)."""
    file = Path(path) / HISTORY
    if not file.is_file():
        raise FileNotFoundError(f"{str(path)!r} has no {HISTORY}: it is lost, or {_unfinished(path)}")
    with _damage_named(file), open(file, encoding="utf-8", newline="") as text:
        names, *rows = csv.reader(text)
        columns = np.array(rows, dtype=float).reshape(-1, len(names)).T
        history = dict(zip(names[1:], columns[1:], strict=True))
        [history[name][-1] for name in ("env_steps", "mean_return", "seconds")]  # what others rely on
        if not np.isfinite(history["env_steps"]).all():
            raise ValueError("env_steps is not finite")
        return history


def load_run(path, algorithm=None) -> TrainingResult:
    """The run in a folder as a TrainingResult of one run.

    Args:
        path: the run folder. algorithm: as for `load`, the class of an algorithm of your own.

    Returns:
        TrainingResult: `.policy(0)`, `.history` with arrays (1, iterations), `.algorithm`.

    Raises:
        FileNotFoundError: no finished run. ValueError: a foreign or damaged file.
    """
    path = Path(path)
    config = read_config(path)
    if not config["finished"]:
        raise FileNotFoundError(f"{str(path)!r} has no weights yet: {_unfinished(path)}")
    if not (path / WEIGHTS).is_file():
        raise FileNotFoundError(f"{str(path)!r} has no {WEIGHTS}: it is lost, or {_unfinished(path)}")
    kind = algorithm_class(config["algorithm"], algorithm, path)
    history = read_history(path)
    arrays = unpacked(_content(path / WEIGHTS), "weights", path / WEIGHTS)
    with _damage_named(path / WEIGHTS):
        # a plain `(1, n)` row for each history and for the statistics of observations: a population of one
        rows = {f"history/{name}": column[None] for name, column in history.items()}
        if config["network"]["normalize_obs"]:
            rows |= {f"obs/{name}": arrays[f"obs.{name}"][None] for name in ("mean", "squares")}
            rows["obs/count"] = arrays["obs.count"]
        named = {name: array for name, array in arrays.items() if not name.startswith("obs.")}
        return rebuilt(kind(**config["settings"]), config, Runs.joined(named), rows)


def find_runs(path) -> list[Path]:
    """The run folders at or below a path, sorted as a person would (s2 before s10)."""
    path = Path(path)
    if (path / CONFIG).is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path)!r}.")
    found = [file.parent for file in path.rglob(CONFIG)]
    if not found:
        raise FileNotFoundError(f"no runs in {str(path)!r}: a run is a folder with a {CONFIG}.")
    return sorted(found, key=lambda one: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(one))])


def _unfinished(path):
    return f"the run is not finished. Go on with the command in its {CONFIG} and --resume."


# -------------------------------------------------------------------------------------------------------------------- names


def env_name(env) -> str:
    """An id as it is; for a function its name."""
    return env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)


def label(algorithm, env) -> str:
    """What distinguishes these settings, in a few words: the fields that differ from the recommended (else the default) ones."""
    known = RECOMMENDED.get((type(algorithm).__name__, env))
    return differences(algorithm, known or type(algorithm)()) or ("recommended" if known else "default")


def differences(algorithm, base) -> str:
    """The fields in which two settings differ, as in "gamma=0.9,hidden_sizes=64x64"."""
    values = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    values = {name: value for name, value in values.items() if getattr(base, name, None) != value}
    words = {name: ("x" if name == "hidden_sizes" else "+").join(map(str, value)) if isinstance(value, tuple) else value
             for name, value in values.items()}  # fmt: skip
    return ",".join(f"{name}={word}" for name, word in words.items())


def seeds_text(seeds) -> str:
    """[0, 1, 2, 5] → "0-2,5"."""
    pieces, start = [], None
    for seed, after in zip(seeds, [*seeds[1:], None], strict=True):
        start = seed if start is None else start
        if after != seed + 1:
            pieces.append(str(seed) if start == seed else f"{start}-{seed}")
            start = None
    return ",".join(pieces)


def safe_name(text, ending="", longest=120) -> str:
    """A file name that every system takes; of a long one a short hash takes the place of the rest."""
    shorten = lambda text, most: text if len(text) <= most else f"{text[: most - 9]}-{_digest(text)}"  # noqa: E731
    return shorten(re.sub(r"[^A-Za-z0-9._=,+-]", "_", text), longest - 30) + shorten(ending, 30)


def _digest(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]


def glob_escape(name):
    return re.sub(r"([*?[])", r"[\1]", name)


def versions() -> dict[str, str]:
    """Of everything that a number may depend on."""
    packages = {name: version(name) for name in ("torch", "numpy", "gymnasium")}
    return {"rlcourse": _own_version(), **packages, "python": platform.python_version(), "machine": platform.machine()}


def _own_version():
    with contextlib.suppress(Exception):
        return version("rlcourse")
    return sys.modules["rlcourse"].__version__


# -------------------------------------------------------------------------------------------------------------------- files


def write_bytes(path: Path, data: bytes, beside=None) -> None:
    """Write a file whole or not at all: into a neighbour, then on the disk, then in its place.

    Args:
        beside: how the name of the neighbour begins, default: with that of the file.

    Raises:
        OSError: with what to do; nothing is left behind, and an older file of the name stays as it was.
    """
    temporary = path.with_name(f"{beside or path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        _forget(temporary)
        raise _cannot_write(path, error) from error
    except BaseException:
        _forget(temporary)
        raise


def _cannot_write(path, error):
    kept = "the file from before is unharmed" if path.exists() else "nothing half-written is left"
    way_out = "When that is mended, give the command again (a training: with --resume)"
    why = f"cannot write {path}: {error.strerror or error}; {kept}. {way_out}"
    return type(error)(error.errno, why)


def _forget(path):
    with contextlib.suppress(OSError):
        path.unlink()


def _sync_folder(folder):
    """Put the new name on the disk too, where a system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def make_folder(path):
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(error.errno, f"cannot make the folder {path}: {error.strerror}. Choose another place") from error


def write_json(path, data):
    write_bytes(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def packed(kind: str, arrays: dict, **words) -> bytes:
    """The content of a safetensors file of named arrays, with its kind, format and checksum in the header."""
    arrays = {name: np.array(array, order="C") for name, array in arrays.items()}
    header = {"kind": kind, "format": FORMAT, "sha256": _checksum(arrays), **words}
    # one key only: the order of several is random, and equal runs should be equal files
    return safetensors.numpy.save(arrays, metadata={"rlcourse": json.dumps(header)})


def unpacked(data: bytes, kind: str, path) -> dict[str, np.ndarray]:
    """What was `packed`.

    Raises:
        ValueError: foreign, damaged, of another kind or of a newer format. It names the path.
    """
    with _damage_named(path):
        arrays = safetensors.numpy.load(data)
        facts = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # the head of every safetensors file
        header = json.loads(facts.get("__metadata__", {}).get("rlcourse", "{}"))
        if header.get("kind") != kind:
            raise ValueError(f"its header does not say that it holds the {kind} of a run")
        number = header["format"]
        if number == FORMAT and header["sha256"] != _checksum(arrays):
            raise ValueError("its numbers do not fit its checksum")
    _check_format(path, number)
    return arrays


def _checksum(arrays):
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def packed_tree(kind: str, tree) -> bytes:
    """Nested dicts, lists, plain values and arrays, packed: the arrays as such, the rest as JSON in one array of bytes."""
    arrays = {}

    def plain(value, where):
        if isinstance(value, np.ndarray):
            arrays[where] = value
            return {"→": where}
        if isinstance(value, dict):
            return {key: plain(item, f"{where}/{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item, f"{where}/{i}") for i, item in enumerate(value)]
        return value

    text = json.dumps(plain(tree, ""), default=lambda number: number.item())
    return packed(kind, arrays | {"facts": np.frombuffer(text.encode("utf-8"), np.uint8)})


def unpacked_tree(data: bytes, kind: str, path):
    """What was packed by `packed_tree`; tuples have become lists."""
    arrays = unpacked(data, kind, path)
    with _damage_named(path):
        hook = lambda found: arrays[found["→"]] if found.keys() == {"→"} else found  # noqa: E731
        return json.loads(arrays.pop("facts").tobytes().decode("utf-8"), object_hook=hook)


def write_tree(path: Path, kind: str, tree) -> None:
    write_bytes(path, packed_tree(kind, tree))


def read_tree(path: Path, kind: str):
    """What `write_tree` wrote.

    Raises:
        FileNotFoundError. ValueError: see `unpacked`.
    """
    return unpacked_tree(_content(path), kind, path)


def _content(path):
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    with _damage_named(path):
        return path.read_bytes()


def _check_format(path, number):
    if number != FORMAT:
        way_out = "Update rlcourse." if isinstance(number, int) and number > FORMAT else "Train again."
        raise ValueError(f"{str(path)!r} has format {number}; this rlcourse reads format {FORMAT}. {way_out}")


@contextlib.contextmanager
def _damage_named(path):
    """Whatever goes wrong inside becomes a ValueError that names the file."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OSError, RecursionError, safetensors.SafetensorError) as error:
        why = f"{type(error).__name__}: {error}"
        way_out = "If it was: delete it, and give the same training again, with resume (--resume)."
        raise ValueError(f"{str(path)!r} was not written by rlcourse, or is damaged ({why}). {way_out}") from error
