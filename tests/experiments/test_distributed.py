"""Data-parallel training: two processes take the step of one, drift and lost processes are noticed, nothing hangs."""

import dataclasses
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from rlcourse import A2C, PPO, TRPO, VPG, train
from rlcourse.agents.ppo import PenaltyPPO
from rlcourse.agents.rollout import Batch
from rlcourse.experiments import cli, distributed
from rlcourse.experiments.storage import load_run, read_config

HAS_GLOO = dist.is_available() and dist.is_gloo_available()
pytestmark = pytest.mark.skipif(not HAS_GLOO, reason="this PyTorch has no gloo, which connects the processes")

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("distributed_worker.py")
ENVS, STEPS = 6, 16
SMALL = {"num_envs": ENVS, "num_steps": STEPS, "hidden_sizes": (8, 8)}
SHARED = {"normalize_obs": True, "normalize_reward": True}
ONE = SMALL | {"num_minibatches": 1}
# a line search in many small steps; with more products conjugate gradient would amplify rounding
SEARCHING = ONE | {"cg_damping": 1e-3, "cg_iters": 3, "backtrack_coeff": 0.97, "max_backtracks": 60}
CASES = {  # name → (algorithm, environment, updates)
    "VPG": (VPG(**ONE, max_grad_norm=0.01), "CartPole-v1", 1),
    "VPG, two updates": (VPG(**ONE, **SHARED, entropy_coef=0.01), "CartPole-v1", 2),
    "A2C": (A2C(**SMALL), "CartPole-v1", 1),
    "A2C, normalised": (A2C(**SMALL, **SHARED, normalize=True), "CartPole-v1", 2),
    "PPO": (PPO(**ONE, update_epochs=3), "CartPole-v1", 1),
    "PPO, whole batch": (PPO(**ONE, **SHARED, update_epochs=3, normalize="batch", value_clip=0.2), "CartPole-v1", 2),
    "PPO, Gaussian": (PPO(**ONE, update_epochs=3, entropy_coef=0.01), "Pendulum-v1", 2),
    "PPO, early stop": (PPO(**ONE, update_epochs=30, learning_rate=1e-3, target_kl=1e-4), "CartPole-v1", 1),
    "PenaltyPPO": (PenaltyPPO(**ONE, update_epochs=3, penalty_kl=1e-5), "CartPole-v1", 2),
    "TRPO": (TRPO(**SEARCHING, max_kl=1.0), "CartPole-v1", 1),
    "TRPO, Gaussian": (TRPO(**ONE), "Pendulum-v1", 1),
}
SEVERAL = {
    "VPG, 3 minibatches": (VPG(**SMALL, num_minibatches=3), "CartPole-v1", 1),
    "PPO, 5 minibatches": (PPO(**SMALL, num_minibatches=5, update_epochs=2), "CartPole-v1", 1),
}
SIZE = 2


def arguments(algorithm, env, updates, **more):
    steps = updates * algorithm.num_envs * algorithm.num_steps
    return {"algorithm": algorithm, "env": env, "total_steps": steps, "seed": 3, "dtype": torch.float64} | more


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(**more):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "USE_LIBUV": "0", "PYTHONUTF8": "1"} | more


def start(folder, jobs, timeout=20.0):
    """Two processes with a list of jobs each, as torchrun would start them."""
    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    group = {"WORLD_SIZE": str(SIZE), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TIMEOUT": str(timeout)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    command = [sys.executable, str(WORKER), str(folder / "jobs"), str(folder / "found")]
    return [subprocess.Popen(command, env=environment(RANK=str(rank), **group), **pipes) for rank in range(SIZE)]


def finish(processes, seconds):
    """(exit code, stderr) of each; nothing is left running."""
    try:
        errors = [process.communicate(timeout=seconds)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, error) for process, error in zip(processes, errors, strict=True)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both processes say to all jobs, a dict each."""
    folder = tmp_path_factory.mktemp("group")
    common = [(name, arguments(*case)) for name, case in (CASES | SEVERAL).items()]
    common += [
        ("uneven", arguments(VPG(num_envs=7), "CartPole-v1", 1)),
        ("few", arguments(VPG(num_envs=1), "CartPole-v1", 1)),
        ("drift", arguments(VPG(**SMALL), "CartPole-v1", 5, check_every=2)),
    ]
    jobs = [[*common, ("arguments", arguments(VPG(**SMALL), "CartPole-v1", 1, seed=rank))] for rank in range(SIZE)]
    for code, error in finish(start(folder, jobs), 120):
        assert code == 0, error
    return [pickle.loads((folder / f"found{rank}").read_bytes()) for rank in range(SIZE)]


def alone(algorithm, env, updates):
    """The same run in one process."""
    how = arguments(algorithm, env, updates)
    seed = how.pop("seed")
    return train(**how, seeds=[seed], progress=False)


def assert_same_run(one, many):
    np.testing.assert_allclose(many.agent.parameters, one.agent.parameters, rtol=0, atol=1e-9)
    assert many.history.keys() == one.history.keys()
    for name in one.history.keys() - {"seconds"}:
        np.testing.assert_allclose(many.history[name], one.history[name], rtol=1e-7, atol=1e-9, err_msg=name)


def assert_same_bits(results):
    first, second = results
    assert torch.equal(first.agent.parameters, second.agent.parameters)
    for name in first.history.keys() - {"seconds"}:
        np.testing.assert_array_equal(first.history[name], second.history[name], err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_an_update_equals_that_of_one_process(found, name):
    results = [each[name] for each in found]
    assert_same_bits(results)
    one = alone(*CASES[name])
    assert_same_run(one, results[0])
    assert results[0].facts() == one.facts()
    if one.agent.normalizer is not None:
        ours, theirs = (result.agent.normalizer.statistics for result in (results[0], one))
        assert ours.count == theirs.count == STEPS * ENVS * CASES[name][2]
        np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-12)
        np.testing.assert_allclose(ours.std, theirs.std, atol=1e-12)


def test_the_cases_are_not_trivial():
    """The early stop comes before the last epoch, the clip binds, and the line search shortens its step."""
    algorithm, env, updates = CASES["PPO, early stop"]
    free = dataclasses.replace(algorithm, target_kl=None)
    assert not torch.equal(alone(algorithm, env, updates).agent.parameters, alone(free, env, updates).agent.parameters)
    assert alone(*CASES["VPG"]).history["grad_norm"][0, 0] > CASES["VPG"][0].max_grad_norm
    assert alone(*CASES["TRPO"]).history["accepted"][0, 0] > 1
    assert alone(*CASES["A2C"]).history["episodes"][0, 0] > 0


def unions(self, num_minibatches, agent):
    """`Batch.minibatches` for one process: each the union of those that both processes draw of their own rows."""
    share = ENVS // SIZE
    step, env = np.divmod(agent.order_generators[0].permutation(len(self) // SIZE), share)
    rows = [step * ENVS + rank * share + env for rank in range(SIZE)]
    for pieces in zip(*(np.array_split(row, num_minibatches) for row in rows), strict=True):
        yield self.rows(torch.from_numpy(np.concatenate(pieces)[None]))


@pytest.mark.parametrize("name", SEVERAL)
def test_a_minibatch_is_the_union_of_one_from_each_process(found, name, monkeypatch):
    """Given these unions as its minibatches, one process takes the same steps."""
    results = [each[name] for each in found]
    assert_same_bits(results)
    monkeypatch.setattr(Batch, "minibatches", unions)
    assert_same_run(alone(*SEVERAL[name]), results[0])


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("uneven", ValueError, ["num_envs = 7", "2 processes", "such as 6 or 8"]),
        ("few", ValueError, ["num_envs = 1", "2 processes", "num_envs ≥ 2", "at most 1"]),
        ("drift", RuntimeError, ["processes 0 and 1", "different parameters after update 2"]),
        ("arguments", RuntimeError, ["processes 0 and 1", "different arguments"]),
    ],
)
def test_all_processes_refuse_what_cannot_be(found, name, kind, words):
    for each in found:
        assert type(each[name]) is kind
        assert not [word for word in words if word not in str(each[name])], each[name]


# ------------------------------------------------------------------------------------------------------- lost processes


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_lost_process_ends_the_others(tmp_path, how):
    """A killed one at once; one that only hangs, after the timeout."""
    if how == "stopped" and os.name == "nt":
        pytest.skip("Windows has no signal that halts a process")
    timeout = 30.0 if how == "killed" else 5.0
    jobs = [("short", arguments(VPG(**SMALL), "CartPole-v1", 1)), ("endless", arguments(VPG(**SMALL), "CartPole-v1", 10**6))]
    processes = start(tmp_path, [jobs, jobs], timeout)
    assert [process.stdout.readline() for process in processes for _ in jobs] == ["short\n", "endless\n"] * SIZE
    started = time.monotonic()
    processes[1].kill() if how == "killed" else os.kill(processes[1].pid, signal.SIGSTOP)
    try:
        error = processes[0].communicate(timeout=30)[1]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode == 1
    assert "LostProcess: process 0 of 2: another process has ended, or gave no answer" in error
    assert time.monotonic() - started < 30


# ----------------------------------------------------------------------------------------------------------------- command


def test_the_command_under_torchrun(tmp_path):
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    train_it = ["-m", "rlcourse", "train", "VPG", "--env", "CartPole-v1", "--num-envs", "4", "--data-parallel"]
    rest = ["--num-steps", "8", "--seed", "5", "--total-steps", "64", "--folder", str(tmp_path), "--no-progress"]
    command = [sys.executable, *torchrun, *train_it, *rest]
    done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "default").iterdir()
    assert done.stdout.count(folder.name) == 1, "process 0 alone reports"
    config, result = read_config(folder), load_run(folder)
    assert config["finished"] and config["settings"]["num_envs"] == 4 and "--data-parallel" in config["command"]
    assert result.history["env_steps"].tolist() == [[32, 64]]


@pytest.fixture
def no_torchrun(monkeypatch):
    for name in distributed.NEEDED:
        monkeypatch.delenv(name, raising=False)


def test_without_torchrun_it_says_how_to_start(no_torchrun):
    with pytest.raises(RuntimeError, match=r"RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set: .* torchrun --nproc-per-node 2"):
        distributed.train_data_parallel(VPG(), "CartPole-v1", total_steps=100)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"algorithm": PPO(gamma=[0.9, 0.99])}, ValueError, "2 settings in a list"),
        ({"algorithm": "PPO"}, TypeError, "algorithm = 'PPO'; expected settings"),
        ({"check_every": 0}, ValueError, "check_every = 0; expected .* ≥ 1"),
        ({"timeout": 0}, ValueError, "timeout = 0; expected seconds"),
    ],
)
def test_wrong_arguments_are_refused(no_torchrun, change, kind, words):
    given = {"algorithm": VPG(), "env": "CartPole-v1", "total_steps": 100} | change
    with pytest.raises(kind, match=words):
        distributed.train_data_parallel(**given)


@pytest.mark.parametrize("options", [["--seeds", "0-1"], ["--processes", "2"], ["--resume"]])
def test_the_command_refuses_what_belongs_to_several_runs(no_torchrun, options, tmp_path, capsys):
    where = ["--env", "CartPole-v1", "--folder", str(tmp_path), "--data-parallel"]
    assert cli.main(["train", "VPG", *where, *options]) == 2
    assert "one run" in capsys.readouterr().err


def test_a_run_folder_is_not_written_twice(no_torchrun, tmp_path, capsys):
    (tmp_path / "default" / "VPG-CartPole-v1-recommended-s0").mkdir(parents=True)
    assert cli.main(["train", "VPG", "--env", "CartPole-v1", "--folder", str(tmp_path), "--data-parallel"]) == 1
    assert "is there already" in capsys.readouterr().err
