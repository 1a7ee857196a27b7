"""Data-parallel training: two processes take the step of one, drift and lost processes are noticed, nothing hangs, kills
change nothing.
"""

import dataclasses
import os
import pickle
import random
import runpy
import signal
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
from rlcourse.experiments import cli, distributed, storage
from rlcourse.experiments.distributed import SaidByFirst
from rlcourse.experiments.storage import find_runs, load_run, read_config, read_tree
from tests.browser.lab import free_port
from tests.experiments.processes import context, wait_for_checkpoint

HAS_GLOO = dist.is_available() and dist.is_gloo_available()
pytestmark = pytest.mark.skipif(not HAS_GLOO, reason="this PyTorch has no gloo, which connects the processes")

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("distributed_worker.py")
KEEPING = Path(__file__).with_name("keeping_worker.py")
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
KEPT = PPO(**SMALL, **SHARED, num_minibatches=4, update_epochs=2), "CartPole-v1"
SIZE = 2


def arguments(algorithm, env, updates, **more):
    steps = updates * algorithm.num_envs * algorithm.num_steps
    return {"algorithm": algorithm, "env": env, "total_steps": steps, "seed": 3, "dtype": torch.float64} | more


def environment(**more):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "USE_LIBUV": "0", "PYTHONUTF8": "1"} | more


def start(folder, jobs, timeout=300.0):
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
        ("whole", arguments(*KEPT, 4)),
        ("kept", arguments(*KEPT, 2, folder=folder / "kept")),
        ("again", arguments(*KEPT, 2, folder=folder / "kept")),
        ("not resumed", arguments(*KEPT, 4, folder=folder / "kept")),
        ("resumed", arguments(*KEPT, 4, folder=folder / "kept", resume=True)),
        ("uneven, kept", arguments(VPG(num_envs=7), "CartPole-v1", 1, folder=folder / "uneven")),
        ("no such environment", arguments(VPG(**SMALL), "CartPole-v7", 1, folder=folder / "unknown")),
    ]
    jobs = [[*common, ("arguments", arguments(VPG(**SMALL), "CartPole-v1", 1, seed=rank))] for rank in range(SIZE)]
    for code, error in finish(start(folder, jobs), 600):
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


# ---------------------------------------------------------------------------------------------------------- checkpoints


def test_process_0_keeps_the_run_and_all_go_on_where_they_stood(found):
    """Made longer, it equals the run in one go, bit for bit; the checkpoint holds what each process had for itself."""
    for name in ("kept", "again", "resumed"):
        assert [len(each[name]) for each in found] == [1, 0]
    (folder,) = found[0]["resumed"]
    run, whole = load_run(folder), found[0]["whole"]
    assert_same_bits([run, whole])
    assert read_config(folder)["trained_together"]["processes"] == SIZE and run.facts() == whole.facts()
    (file,) = folder.parent.glob("*.checkpoint")
    tree = read_tree(file, "checkpoint")
    parts = [tree["snapshot"], *tree["others"]]
    assert [len(part["obs"]) for part in parts] == [ENVS // SIZE] * SIZE and not np.array_equal(*(part["obs"] for part in parts))
    np.testing.assert_array_equal(*(part["agent"]["parameters"] for part in parts))
    assert not list(folder.parent.glob("*.lock"))


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("not resumed", FileExistsError, "can go on: resume it"),
        ("uneven, kept", ValueError, "num_envs = 7 cannot be shared"),
        ("no such environment", ValueError, "CartPole-v7"),
    ],
)
def test_process_0_alone_says_what_is_wrong_for_all(found, name, kind, words):
    assert type(found[0][name]) is kind and words in str(found[0][name])
    assert type(found[1][name]) is SaidByFirst and "process 1 of 2: process 0 has failed" in str(found[1][name])


TOGETHER = {"WORLD_SIZE": str(SIZE), "MASTER_ADDR": "127.0.0.1", "USE_LIBUV": "0"}


ENDLESS = 10**9


def keeping(folder, algorithm="PPO", batched=True, total_steps=ENDLESS):
    """The arguments of the training that is killed."""
    kind = KEPT[0] if algorithm == "PPO" else VPG(**SMALL)
    what = {"folder": folder, "algorithm": kind, "env": "CartPole-v1", "total_steps": total_steps, "seed": 3}
    return what | {"batched": batched, "every": 0, "resume": True, "progress": False}


@pytest.fixture(scope="module")
def group_of():
    """Start a group that keeps a checkpoint."""

    def started(what):
        port = str(free_port())
        processes = []
        for rank in range(SIZE):
            names = {"ENVIRONMENT": TOGETHER | {"RANK": str(rank), "MASTER_PORT": port}, "ARGUMENTS": what}
            processes.append(context().Process(target=runpy.run_path, args=(str(KEEPING), names)))
            processes[-1].start()
        return processes

    return started


def ended(processes):
    """Their exit codes; nothing is left running."""
    for process in processes:
        process.join(60)
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def killed(group_of, folder, kind, times, rng):
    """Start a training, kill all its processes at a random moment, start it again …"""
    last = 0
    for _ in range(times):
        processes = group_of(keeping(folder, *kind))
        last = wait_for_checkpoint(processes, folder, last)
        time.sleep(rng.uniform(0, 0.3))
        for process in rng.sample(processes, SIZE):
            process.kill()
        assert 0 not in ended(processes)


def assert_as_undisturbed(group_of, folder, kind):
    """Some updates more, and it is what a group gives that nobody has disturbed."""
    (file,) = folder.glob("*.checkpoint")
    steps = read_tree(file, "checkpoint")["snapshot"]["env_steps"] + 3 * ENVS * STEPS
    for each in (folder, folder / "undisturbed"):
        assert ended(group_of(keeping(each, *kind, total_steps=steps))) == [0] * SIZE
    disturbed, undisturbed = (load_run(path) for path in find_runs(folder))
    assert_same_bits([disturbed, undisturbed])
    assert disturbed.history["env_steps"][0, -1] == steps
    assert not [*folder.rglob("*.part"), *folder.rglob("*.lock")]


without_signals = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals for another process")


@without_signals
def test_two_kills_of_all_processes_change_nothing(group_of, tmp_path):
    killed(group_of, tmp_path, ("PPO", True), 2, random.Random(0))
    assert_as_undisturbed(group_of, tmp_path, ("PPO", True))


@pytest.mark.full
@without_signals
@pytest.mark.parametrize("kind", [("VPG", True), ("PPO", True), ("VPG", False), ("PPO", False)])
def test_twenty_kills_of_all_processes_change_nothing(group_of, kind, tmp_path, record_property):
    """Data-parallel training, all processes killed (SIGKILL) 20 times at random moments: bit for bit as undisturbed"""
    killed(group_of, tmp_path, kind, 5, random.Random(1))
    assert_as_undisturbed(group_of, tmp_path, kind)
    record_property("measured", f"{kind[0]}{'' if kind[1] else ', Gymnasium'}: 5 kills")


@without_signals
def test_a_signal_to_one_process_stops_all_saved(group_of, tmp_path, alone_in_a_group):
    """It goes on with as many processes, and with no other number."""
    processes = group_of(keeping(tmp_path))
    wait_for_checkpoint(processes, tmp_path)
    os.kill(processes[1].pid, signal.SIGTERM)
    assert ended(processes) == [1] * SIZE and not read_config(find_runs(tmp_path)[0])["finished"]
    with pytest.raises(FileExistsError, match="processes = 2 there, 1 here.*Train as there"):
        distributed.train_in_folder(**keeping(tmp_path))
    assert_as_undisturbed(group_of, tmp_path, ("PPO", True))


@pytest.fixture
def alone_in_a_group(monkeypatch):
    """This process is what torchrun --nproc-per-node 1 starts."""
    for name, value in (TOGETHER | {"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(free_port())}).items():
        monkeypatch.setenv(name, value)


def test_a_checkpoint_is_written_as_often_as_told_and_taken_up(alone_in_a_group, tmp_path, monkeypatch):
    def noting(path, kind, tree):
        writes.append(tree["snapshot"]["iteration"])
        real(path, kind, tree)

    writes, real = [], storage.write_tree
    monkeypatch.setattr(storage, "write_tree", noting)
    for every, updates in ((0, 3), (1000.0, 3), (0, 5)):
        distributed.train_in_folder(**keeping(tmp_path / str(every), total_steps=updates * ENVS * STEPS) | {"every": every})
    assert writes == [1, 2, 3, 3] + [1, 3] + [3, 4, 5, 5], "after each update; at the ends; and from the third update on"


# ------------------------------------------------------------------------------------------------------- lost processes


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_lost_process_ends_the_others(tmp_path, how):
    """A killed one at once; one that only hangs, after the timeout."""
    if how == "stopped" and os.name == "nt":
        pytest.skip("Windows has no signal that halts a process")
    timeout = 1200.0 if how == "killed" else 20.0
    jobs = [("short", arguments(VPG(**SMALL), "CartPole-v1", 1)), ("endless", arguments(VPG(**SMALL), "CartPole-v1", 10**6))]
    processes = start(tmp_path, [jobs, jobs], timeout)
    assert [process.stdout.readline() for process in processes for _ in jobs] == ["short\n", "endless\n"] * SIZE
    processes[1].kill() if how == "killed" else os.kill(processes[1].pid, signal.SIGSTOP)
    try:
        error = processes[0].communicate(timeout=300)[1]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert processes[0].returncode == 1
    assert "LostProcess: process 0 of 2: another process has ended, or gave no answer" in error


# ----------------------------------------------------------------------------------------------------------------- command


def torchrun(folder, *options):
    """The command in two processes."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    train_it = ["-m", "rlcourse", "train", "VPG", "--env", "CartPole-v1", "--num-envs", "4", "--data-parallel"]
    rest = ["--num-steps", "8", "--seed", "5", "--folder", str(folder), "--no-progress", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    return subprocess.Popen([sys.executable, *launcher, *train_it, *rest], env=environment(), cwd=ROOT, **pipes)


def test_the_command_under_torchrun(tmp_path):
    with torchrun(tmp_path, "--total-steps", "64", "--timeout", "300") as process:
        out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    (folder,) = find_runs(tmp_path)
    assert out.count(folder.name) == 1, "process 0 alone reports"
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


@pytest.mark.parametrize("options", [["--seeds", "0-1"], ["--processes", "2"]])
def test_the_command_refuses_what_belongs_to_several_runs(no_torchrun, options, tmp_path, capsys):
    where = ["--env", "CartPole-v1", "--folder", str(tmp_path), "--data-parallel"]
    assert cli.main(["train", "VPG", *where, *options]) == 2
    assert "one run" in capsys.readouterr().err


def test_the_timeout_belongs_to_data_parallel_training(no_torchrun, tmp_path, capsys):
    assert cli.main(["train", "VPG", "--env", "CartPole-v1", "--folder", str(tmp_path), "--timeout", "5"]) == 2
    assert "--timeout goes with --data-parallel" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--data-parallel", "--data_parallel"])
def test_of_wrong_usage_process_0_alone_speaks(no_torchrun, monkeypatch, capsys, option):
    """The others wait for torchrun to end them, so that they do not end process 0; if it does not, they speak, too."""
    line = ["train", "VPG", "--env", "CartPole-v1", option, "--gamma", "3"]
    monkeypatch.setattr(cli.time, "sleep", lambda seconds: capsys.readouterr().err or waits.append(seconds))
    waits = []
    for rank, others in (("0", []), ("1", [cli.AFTER_FIRST])):
        monkeypatch.setenv("RANK", rank)
        assert cli.main(line) == 2 and "gamma=3" in capsys.readouterr().err and waits == others
    assert cli.main(["train", "VPG"]) == 2 and len(waits) == 1, "RANK means nothing without --data-parallel"


@pytest.mark.full
@without_signals
def test_ctrl_c_under_torchrun_saves_and_resume_goes_on(tmp_path):
    """Ctrl-C under torchrun: both processes stop after the same update, saved, with one message; --resume goes on"""
    with torchrun(tmp_path, "--total-steps", "100000000", "--every", "0") as process:
        while process.poll() is None and not list(tmp_path.glob("default/*.checkpoint")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=600)[1]
    assert error.count("rlcourse: stopped after") == 1 and "--resume" in error
    (file,) = tmp_path.glob("default/*.checkpoint")
    stood = read_tree(file, "checkpoint")["snapshot"]["env_steps"]
    with torchrun(tmp_path, "--total-steps", str(stood + 64), "--resume") as process:
        assert process.communicate(timeout=600)[1] == "" and process.returncode == 0
    assert load_run(find_runs(tmp_path)[0]).history["env_steps"][0, -1] == stood + 64
