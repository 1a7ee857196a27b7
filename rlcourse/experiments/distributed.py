"""One run, trained by several processes together (data parallel), on one machine or more. See docs/data_parallel.md.

    torchrun --nproc-per-node 2 -m rlcourse train PPO --env CartPole-v1 --num-envs 8 --data-parallel

All processes hold the same parameters. Each plays its part of the environments; gradients, moments and KLs are averaged over the
processes (`equations.processes`), so that every process takes the same step: the one that a single process would take on the
whole batch.
"""

import contextlib
import hashlib
import json
import os
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from tqdm.auto import tqdm

from rlcourse.agents.algorithm import Algorithm
from rlcourse.agents.training import TrainingResult, iterate
from rlcourse.equations.processes import Alone, together
from rlcourse.experiments import storage
from rlcourse.worlds.make_env import make_env

NEEDED = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"
TIMEOUT = 300.0  # seconds to wait for another process


class LostProcess(RuntimeError):
    """Another process of the group has ended, or does not answer."""


class SaidByFirst(RuntimeError):
    """Process 0 has failed in something that it does for all, and its own error says why."""


class Group(Alone):
    """The processes that `torch.distributed` knows, as `equations.processes` wants a group."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def __str__(self):
        return f"process {self.rank} of {self.size}"

    def mean(self, x):
        """Of floats in their own dtype, of anything else in float64; a tensor gives a tensor, anything else an array."""
        is_float = isinstance(x, torch.Tensor) and x.is_floating_point()
        total = x.detach().clone() if is_float else torch.from_numpy(np.array(x, dtype=np.float64))
        with self._answering():
            dist.all_reduce(total)
        total /= self.size
        return total if isinstance(x, torch.Tensor) else total.numpy()

    def first(self, x):
        x = x.clone()
        with self._answering():
            dist.broadcast(x, 0)
        return x

    def gather(self, tree):
        data = storage.packed_tree("part", tree)
        sizes = self._numbers(len(data))
        mine = torch.from_numpy(np.frombuffer(data.ljust(max(sizes), b"\0"), np.uint8).copy())
        parts = [torch.empty_like(mine) for _ in sizes] if self.rank == 0 else None
        with self._answering():
            dist.gather(mine, parts)
        return [
            storage.unpacked_tree(part.numpy()[:size].tobytes(), "part", f"part {rank}")
            for rank, (part, size) in enumerate(zip(parts or [], sizes, strict=False))
        ]

    def from_first(self, make):
        data = b""  # until there is an answer
        try:
            if self.rank == 0:
                answer = make()
                data = storage.packed_tree("answer", answer)
        finally:
            size = int(self.first(torch.tensor([len(data)])))
            mine = torch.from_numpy(np.frombuffer(data.ljust(size, b"\0"), np.uint8).copy())
            data = self.first(mine).numpy().tobytes()
        if self.rank == 0:
            return answer
        if not data:
            raise SaidByFirst(f"{self}: process 0 has failed; its error says why.")
        return storage.unpacked_tree(data, "answer", "the answer of process 0")

    def compare(self, data: bytes) -> list[int]:
        """The processes whose `data` differ from those of process 0, the same list everywhere."""
        numbers = self._numbers(int.from_bytes(hashlib.sha256(data).digest()[:7], "big"))
        return [rank for rank, other in enumerate(numbers) if other != numbers[0]]

    def _numbers(self, number: int) -> list[int]:
        """The integer that each process gives, the same list everywhere."""
        numbers = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with self._answering():
            dist.all_gather(numbers, torch.tensor([number]))
        return [int(one) for one in numbers]

    @contextlib.contextmanager
    def _answering(self):
        try:
            yield
        except RuntimeError as error:
            raise LostProcess(
                f"{self}: another process has ended, or gave no answer within the timeout. Look for the first error above; if "
                f"there is none, updates may take longer than that: raise timeout (--timeout). What was done since the last "
                f"checkpoint is lost; where there are checkpoints, resume (--resume). ({error})"
            ) from error


@contextlib.contextmanager
def connected(timeout):
    """The group of the processes that torchrun has started; one that exists already is used and left as it is.

    Args:
        timeout: seconds to wait for another process.
    """
    if dist.is_available() and dist.is_initialized():
        yield Group()
        return
    if not (dist.is_available() and dist.is_gloo_available()):
        raise RuntimeError("this PyTorch has no gloo, which connects processes on CPUs: install another build, or train in one.")
    missing = [name for name in NEEDED if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"{', '.join(missing)} not set: data-parallel training is started by torchrun, which sets {', '.join(NEEDED)}. "
            "torchrun --nproc-per-node 2 -m rlcourse train PPO --env CartPole-v1 --data-parallel; or leave --data-parallel out."
        )
    if os.name == "nt":
        os.environ.setdefault("USE_LIBUV", "0")  # PyTorch for Windows comes without
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    try:
        yield Group()
    finally:
        dist.destroy_process_group()


def train_data_parallel(
    algorithm, env, *, total_steps, seed=0, dtype=torch.float32, batched=True, progress=True, check_every=10, timeout=TIMEOUT,
    callbacks=(), resume=None,
) -> TrainingResult:
    """Train one run in all processes of a group together. Call it in each of them, with equal arguments.

        g = (1/K) Σ_k g_k            g_k: gradient of the loss over the samples of process k, before the clip

    Each of K processes plays num_envs / K environments: process k the k-th part of those of `train` with the same seed, with the
    same seeds and the same noise. With one minibatch an update therefore equals that of `train` up to rounding. With several,
    each is made of one minibatch of every process: drawn at random, but with equally many rows of each.

    Args:
        algorithm: settings of one run; num_envs is that of all processes together, a multiple of K.
        env, total_steps, dtype, batched, progress: as for `train`; process 0 shows the bar.
        seed: of the run.
        check_every: after so many updates, and after the last, all processes compare their parameters; ≥ 1.
        timeout: seconds > 0 to wait for another process before giving up; an update must not take longer.
        callbacks: called in each process with its TrainingState after each update; one that returns True ends the training, and
            must do so in all processes.
        resume: the snapshot of this process (`TrainingState.snapshot`), all of them taken after the same update.

    Returns:
        TrainingResult, the same in all processes (but `seconds`, which are their own). `mean_return` is that of the
        last (up to) 100 episodes of each process.

    Raises:
        RuntimeError: not started by torchrun; processes with different arguments, or whose parameters drifted apart.
        LostProcess: another process has ended, or hangs. ValueError, TypeError: num_envs cannot be shared; as for `train`.
    """
    _check_numbers(algorithm, check_every, timeout)
    with connected(timeout) as group:
        _check_shares(algorithm, group)
        facts = storage.Plan(".", algorithm, env, total_steps, [str(seed)], dtype=dtype, batched=batched).facts
        same = json.dumps([facts, str(total_steps)]).encode("utf-8")
        _check_equal(group, same, "were given different arguments; give all of them the same")
        how = {"dtype": dtype, "batched": batched, "resume": resume}
        updates = iterate(algorithm, env, total_steps=total_steps, seeds=[seed], **how)
        bar = tqdm(total=total_steps, unit=" steps", disable=not progress or group.rank > 0, desc=type(algorithm).__name__)
        with contextlib.closing(updates), contextlib.closing(bar):
            while state := _next(updates, group):
                if state.iteration % check_every == 0 or state.env_steps >= total_steps:
                    _check_equal(
                        group, _numbers(state.agent), f"hold different parameters after update {state.iteration}. Do they run "
                        "on different processors or versions of PyTorch? Take equal ones"
                    )  # fmt: skip
                bar.update(min(state.env_steps, total_steps) - bar.n)
                last = state
                if any([callback(state) for callback in callbacks]):
                    break
        return last.result()


def _next(updates, group):
    """The next state of a training, None at its end. Outside the update nothing is averaged."""
    with together(group):
        return next(updates, None)


def train_in_folder(
    folder, algorithm, env, *, total_steps, seed=0, name=None, resume=False, every=30.0, command=None, dtype=torch.float32,
    batched=True, timeout=TIMEOUT, **options,
):  # fmt: skip
    """`train_data_parallel` with the run folder and the checkpoint of `storage.train_in_folder`, which process 0 keeps.

    The checkpoint holds the snapshots of all processes, taken after the same update. A signal that asks one process to stop stops
    all of them after the update, saved. It goes on with as many processes as before: each has its part of the environments.

    Args:
        folder, name, resume, every, command: as for `storage.train_in_folder`. The others: as for `train_data_parallel`.

    Returns:
        The run folders, one, in process 0; none in the others.

    Raises:
        SaidByFirst: process 0 has failed in what it does for all: the arguments, the files. There: as `storage.train_in_folder`.
        And as train_data_parallel.
    """
    how = {"total_steps": total_steps, "seed": seed, "dtype": dtype, "batched": batched, "timeout": timeout, **options}
    with connected(timeout) as group:
        plan = storage.Plan(Path(folder), algorithm, env, total_steps, [seed], name, dtype, batched, command, group.size)
        group.from_first(lambda: _check_what_all_do(algorithm, env, batched, group))
        folders = storage.keep(plan, lambda **more: train_data_parallel(algorithm, env, **how, **more), resume, every, group)
        return folders if group.rank == 0 else []


# ------------------------------------------------------------------------------------------------------------------- checks


def _one_run(algorithm):
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm = {algorithm!r}; expected settings such as PPO(num_envs=8).")
    if algorithm.num_settings > 1:
        raise ValueError(
            f"{algorithm.num_settings} settings in a list: data-parallel training trains one run. Give single numbers, or let "
            "`train` have the list: there, runs are trained side by side in one process."
        )


def _check_what_all_do(algorithm, env, batched, group):
    """What would be wrong in every process, found before any begins."""
    _one_run(algorithm)
    _check_shares(algorithm, group)
    make_env(env, 1, batched=batched).close()


def _check_numbers(algorithm, check_every, timeout):
    _one_run(algorithm)
    if isinstance(check_every, bool) or not isinstance(check_every, int) or check_every < 1:
        raise ValueError(f"check_every = {check_every!r}; expected a number of updates, an integer ≥ 1.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise ValueError(f"timeout = {timeout!r}; expected seconds, a number > 0.")


def _check_shares(algorithm, group):
    """Every process must get equally many environments: else the mean of their means is not the mean of all samples."""
    envs, size = algorithm.num_envs, group.size
    if envs < size:
        raise ValueError(
            f"num_envs = {envs} is less than the {size} processes: each needs an environment of its own. Take num_envs ≥ {size}, "
            f"a multiple of {size}, or start at most {envs} processes (torchrun --nproc-per-node)."
        )
    if envs % size:
        lower = envs - envs % size
        raise ValueError(
            f"num_envs = {envs} cannot be shared equally by {size} processes. Take a multiple of {size}, such as "
            f"{lower} or {lower + size}, or start a number of processes that divides {envs} (torchrun --nproc-per-node)."
        )


def _check_equal(group, data, complaint):
    """RuntimeError in all processes where the data of any differ from those of process 0."""
    if others := group.compare(data):
        who = ", ".join(map(str, others))
        raise RuntimeError(f"{group}: processes 0 and {who} {complaint}.")


def _numbers(agent):
    """All numbers that must be equal in all processes, as bytes."""
    seen = [] if agent.normalizer is None else [agent.normalizer.statistics.mean, agent.normalizer.statistics.squares]
    return b"".join(x.tobytes() for x in [agent.parameters.detach().numpy(), *seen])
