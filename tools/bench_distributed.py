#!/usr/bin/env python3
"""Steps per second of one run in one process and in two (data parallel), on equal work.

    python tools/bench_distributed.py [--rounds 5] [--processes 2]

Every row is one PPO with the same batch, whatever the number of processes; one thread in each process. Rounds alternate: some
updates of one process, then the same number by the group. Printed are medians over rounds of the ratios within a round:

- measured: by the clock, with its range. On a busy machine a group waits for whichever process gets its turn last.
- bound: by the processor time of one process and of process 0. What a group could reach if nobody ever had to wait.
"""

import argparse
import os
import socket
import subprocess
import sys
import time

import gymnasium
import numpy as np

from rlcourse import PPO, iterate

WORK = {  # name → (algorithm, environment, batched, updates in a round)
    "CartPole twin, 64 x 64, 8 envs x 128, minibatch 64": (
        PPO(num_envs=8, num_steps=128, num_minibatches=16, update_epochs=10), "CartPole-v1", True, 3),
    "CartPole twin, 64 x 64, 64 envs x 128, minibatch 1024": (
        PPO(num_envs=64, num_steps=128, num_minibatches=8, update_epochs=10), "CartPole-v1", True, 2),
    "CartPole twin, 512 x 512, 64 envs x 128, minibatch 2048": (
        PPO(num_envs=64, num_steps=128, num_minibatches=4, update_epochs=4, hidden_sizes=(512, 512)), "CartPole-v1", True, 1),
    "slow environment (1 ms a step), 64 x 64, 16 envs x 64, minibatch 256": (
        PPO(num_envs=16, num_steps=64, num_minibatches=4, update_epochs=4), "slow", False, 1),
}  # fmt: skip


class Slow(gymnasium.Wrapper):
    """An environment that computes for a millisecond in each step, as a simulator of a robot might."""

    def step(self, action):
        end = time.thread_time() + 1e-3
        while time.thread_time() < end:
            pass
        return self.env.step(action)


def slow():
    return Slow(gymnasium.make("CartPole-v1"))


def updates_of(name):
    algorithm, env, batched, _ = WORK[name]
    return iterate(algorithm, slow if env == "slow" else env, total_steps=10**9, seeds=[0], batched=batched)


def measured(updates, count):
    """Seconds of `count` updates, by the clock and of this processor."""
    now = lambda: np.array([time.perf_counter(), time.process_time()])  # noqa: E731
    started = now()
    for _ in range(count):
        next(updates)
    return now() - started


def worker():
    """A process of a group: for each line on stdin, so many updates; process 0 answers with the seconds."""
    from rlcourse.equations.processes import together
    from rlcourse.experiments.distributed import connected

    with connected(timeout=300) as group, together(group):
        trainings = {}
        for line in sys.stdin:
            name, count = line.strip().rsplit("|", 1)
            if name not in trainings:
                trainings = {name: updates_of(name)}
            seconds = measured(trainings[name], int(count))
            if group.rank == 0:
                print(*seconds, flush=True)


class Processes:
    """A group of waiting workers."""

    def __init__(self, size):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        group = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        self.members = [
            subprocess.Popen(
                [sys.executable, __file__, "--worker"], env=os.environ | group | {"RANK": str(rank)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
            )
            for rank in range(size)
        ]  # fmt: skip

    def measure(self, name, count):
        for process in self.members:
            process.stdin.write(f"{name}|{count}\n")
            process.stdin.flush()
        return np.array(self.members[0].stdout.readline().split(), dtype=float)

    def close(self):
        for process in self.members:
            process.stdin.close()
        for process in self.members:
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker()
    group = Processes(options.processes)
    print(f"| work | measured, {options.processes} processes to 1 (range of {options.rounds}) | bound |")
    print("|---|---|---|")
    for name, (*_, count) in WORK.items():
        alone = updates_of(name)
        measured(alone, 1), group.measure(name, 1)  # to warm up
        ratios = np.array([measured(alone, count) / group.measure(name, count) for _ in range(options.rounds)])
        (clock, bound), low, high = np.median(ratios, 0), ratios[:, 0].min(), ratios[:, 0].max()
        print(f"| {name} | {clock:.2f} ({low:.2f} to {high:.2f}) | {bound:.2f} |", flush=True)
    group.close()


if __name__ == "__main__":
    main()
