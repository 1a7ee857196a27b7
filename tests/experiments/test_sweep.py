"""Sweeps: what the jobs are, that processes change no number, and that failures and deaths stay where they are."""

import concurrent.futures
import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from rlcourse import VPG, recommended, train
from rlcourse.experiments.storage import find_runs, load_run, read_config
from rlcourse.experiments.sweep import grid, parse_seeds, product, read_plan, sweep

QUICK = {"num_envs": 4, "num_steps": 16, "hidden_sizes": (8,)}
SMALL = {"low": QUICK | {"gae_lambda": 0.5}, "high": QUICK}

# environments for processes that know nothing of this file: a module of their own, found through PYTHONPATH
FAULTY = '''
import os, pathlib
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Deadly(CartPoleEnv):
    def reset(self, **options):
        os._exit(9)

class Broken(CartPoleEnv):
    def step(self, action):
        raise ZeroDivisionError("a fault of this environment")

class Hasty(CartPoleEnv):
    """Works from the second training on."""
    def step(self, action):
        mark = pathlib.Path(os.environ["HASTY"])
        if not mark.exists():
            mark.touch()
            raise ZeroDivisionError("too hasty")
        return super().step(action)

for kind in (Deadly, Broken, Hasty):
    gymnasium.register(f"{kind.__name__}-v0", kind, max_episode_steps=200)
'''


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    (tmp_path / "faulty_envs.py").write_text(FAULTY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HASTY", str(tmp_path / "tried"))
    monkeypatch.syspath_prepend(tmp_path)


def small(env="CartPole-v1", algorithms=("VPG",), seeds=(0, 1), settings=None, **options):
    return grid(algorithms, [env], seeds, 192, settings or {"mine": QUICK}, **options)


def weights(folder):
    return {path.name: (path / "weights.safetensors").read_bytes() for path in find_runs(folder)}


class AtOnce(concurrent.futures.Executor):
    """An executor that does everything in this process, and counts."""

    def __init__(self):
        self.calls = 0

    def submit(self, function, *arguments):
        self.calls += 1
        future = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future


# ---- what is to be done ----------------------------------------------------------------------------------------------------


def test_a_grid_crosses_everything():
    jobs = grid(["vpg", "A2C"], ["CartPole-v1", "Acrobot-v1"], range(5), {"CartPole-v1": 10, "Acrobot-v1": 20}, SMALL, 3)
    assert len(jobs) == 2 * 2 * 2 * 2 and {job.seeds for job in jobs} == {(0, 1, 2), (3, 4)}
    assert {(job.env, job.total_steps) for job in jobs} == {("CartPole-v1", 10), ("Acrobot-v1", 20)}
    first = jobs[0]
    assert type(first.algorithm) is VPG and first.name == "low" and first.algorithm.gae_lambda == 0.5
    assert first.algorithm.gamma == 0.98  # of the recommended settings, which were not to be changed
    assert "VPG on CartPole-v1, low, seeds 0, 1, 2" == str(first)


def test_a_product_names_its_settings():
    assert product(gamma=[0.9, 1], hidden_sizes=[[8, 8]]) == {
        "gamma=0.9,hidden_sizes=8x8": {"gamma": 0.9, "hidden_sizes": [8, 8]},
        "gamma=1,hidden_sizes=8x8": {"gamma": 1, "hidden_sizes": [8, 8]},
    }


@pytest.mark.parametrize("seeds, found", [("3", [3]), ("0-2,8", [0, 1, 2, 8]), (4, [4]), ([1, 2], [1, 2])])
def test_seeds(seeds, found):
    assert parse_seeds(seeds) == found


@pytest.mark.parametrize("seeds", ["", "a", "3-1", "1,,2", "1-", "-1", "1,1", "0-2,2"])
def test_wrong_seeds(seeds):
    with pytest.raises(ValueError, match="seeds = "):
        parse_seeds(seeds)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"algorithms": ["DQN"]}, "'DQN'.*VPG, TRPO"),
        ({"settings": {"x": {"lambda": 1}}}, "no setting 'lambda'; it has num_envs"),
        ({"settings": {"x": {"gamma": 2}}}, "gamma=2"),
        ({"total_steps": {"Other-v0": 5}}, "total_steps"),
        ({"total_steps": 1.5}, "total_steps"),
        ({"seeds_per_job": 0}, "seeds_per_job"),
        ({"seeds": []}, "at least one integer"),
        ({"seeds": [-1]}, "expected at least one integer ≥ 0"),
        ({"seeds": [1, 1]}, "each seed once"),
        ({"seeds": ["a"]}, "seeds = "),
        ({"seeds": {"a": 1}}, "seeds = "),
    ],
)
def test_wrong_grids(change, message):
    call = {"algorithms": ["VPG"], "envs": ["CartPole-v1"], "seeds": [0], "total_steps": 5} | change
    with pytest.raises(ValueError, match=message):
        grid(**call)


def test_a_plan_is_read():
    plan = {"algorithms": ["VPG"], "envs": ["CartPole-v1"], "seeds": "0-1", "total_steps": 50, "grid": {"gamma": [0.9, 1.0]}}
    jobs, name = read_plan(plan | {"exp_name": "x"})
    assert name == "x" and [job.name for job in jobs] == ["gamma=0.9", "gamma=1.0"]
    with pytest.raises(ValueError, match="unknown: steps; missing: total_steps"):
        read_plan({"algorithms": ["VPG"], "envs": [], "steps": 5})
    with pytest.raises(ValueError, match="exclude each other"):
        read_plan(plan | {"settings": {}})


@pytest.mark.parametrize(
    "change, message",
    [
        ({"exp_name": 3}, "exp_name = 3; a sweep expects a name"),
        ({"algorithms": 3}, "algorithms = 3; a sweep expects a list of names"),
        ({"algorithms": []}, r"algorithms = \[\]"),
        ({"algorithms": [["VPG"]]}, "algorithms = "),
        ({"algorithms": None}, "algorithms = None"),
        ({"envs": [1]}, r"envs = \[1\]; a sweep expects a list of ids"),
        ({"envs": [{"a": 1}]}, "envs = "),
        ({"settings": "x"}, "settings = 'x'; a sweep expects a table of named settings"),
        ({"settings": {"a": 3}}, "settings = "),
        ({"grid": [1]}, r"grid = \[1\]"),
        ({"grid": {"gamma": 0.9}}, "grid = .*a table of lists"),
        ({"grid": {"std": "free"}}, "grid = "),
        ({"grid": {"gamma": []}}, "grid = .*none of them empty"),
        ({"batched": "yes"}, "batched = 'yes'; a sweep expects true or false"),
        ({"settings": {"a": {"gamma": {"b": {"c": 1}}}}}, "expected a number in"),
    ],
)
def test_wrong_kinds_in_a_plan(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read_plan({"algorithms": ["VPG"], "envs": ["CartPole-v1"], "total_steps": 5} | change)


@pytest.mark.parametrize("seeds", [1.5, None, True, {"a": 1}, ["a"], [[1]], [-1], []])
def test_wrong_seeds_in_a_plan(seeds):
    with pytest.raises((ValueError, TypeError), match="seeds = "):
        read_plan({"algorithms": ["VPG"], "envs": ["CartPole-v1"], "total_steps": 5, "seeds": seeds})


def test_none_in_a_file_switches_a_limit_off():
    plan = {"algorithms": ["PPO"], "envs": ["CartPole-v1"], "total_steps": 5, "grid": {"max_grad_norm": ["none", 1.0]}}
    assert [job.algorithm.max_grad_norm for job in read_plan(plan)[0]] == [None, 1.0]


# ---- doing it --------------------------------------------------------------------------------------------------------------


def test_processes_change_no_number_and_finished_jobs_are_skipped(tmp_path):
    jobs = small(settings=SMALL, seeds=(0, 1, 2), seeds_per_job=2)
    report = sweep(jobs, tmp_path / "many", processes=2, progress=False)
    assert not report.failed and len(report.folders) == 6 and all(read_config(path)["finished"] for path in report.folders)
    here = AtOnce()
    assert not sweep(jobs, tmp_path / "one", executor=here, progress=False).failed and here.calls == 4
    assert weights(tmp_path / "many") == weights(tmp_path / "one")
    settings = replace(recommended("VPG", "CartPole-v1"), **QUICK, gae_lambda=0.5)
    alone = train(settings, "CartPole-v1", total_steps=192, seeds=[0, 1], progress=False)
    loaded = load_run(tmp_path / "many" / "VPG-CartPole-v1-low-s1")
    assert (loaded.agent.parameters[0] == alone.agent.parameters[1]).all()
    again = AtOnce()
    assert sweep(jobs, tmp_path / "many", executor=again, progress=False).folders == report.folders and again.calls == 0
    more = jobs + small(settings={"new": QUICK})
    assert len(sweep(more, tmp_path / "many", executor=again, progress=False).folders) == 8 and again.calls == 1


def test_a_failing_job_is_tried_once_more_and_reported(tmp_path, faulty):
    jobs = small("faulty_envs:Broken-v0") + small("faulty_envs:Hasty-v0") + small()
    here = AtOnce()
    report = sweep(jobs, tmp_path / "x", executor=here, progress=False)
    ((job, why),) = report.failed.items()
    assert job.env == "faulty_envs:Broken-v0" and "ZeroDivisionError: a fault of this environment (faulty_envs.py, line" in why
    assert here.calls == 5 and len(report.folders) == 4
    (details,) = (tmp_path / "x").glob("*.error.txt")
    assert "Traceback" in details.read_text(encoding="utf-8")


def test_the_details_of_a_failure_go_when_the_job_succeeds(tmp_path, faulty, monkeypatch):
    jobs, ends = small("faulty_envs:Hasty-v0"), []
    monkeypatch.setattr("rlcourse.experiments.sweep.TRIES", 1)
    for _ in range(2):
        report = sweep(jobs, tmp_path / "x", executor=AtOnce(), progress=False)
        ends.append([len(report.failed), len(list(tmp_path.rglob("*.txt")))])
    assert ends == [[1, 1], [0, 0]]


def test_a_disk_too_full_for_the_details_does_not_stop_the_others(tmp_path, faulty, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rlcourse.experiments.sweep.write_bytes", full)
    jobs = small("faulty_envs:Broken-v0") + small()
    report = sweep(jobs, tmp_path / "x", executor=AtOnce(), progress=False)
    assert len(report.failed) == 1 and len(report.folders) == 2


def test_jobs_of_one_name_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="two jobs would write .*VPG-CartPole-v1-mine-s0: name their settings differently"):
        sweep(small(algorithms=["VPG", "vpg"]), tmp_path / "x", executor=AtOnce(), progress=False)
    assert not (tmp_path / "x").exists()


def test_a_dying_process_takes_no_other_job_with_it(tmp_path, faulty):
    jobs = [job for env in ("CartPole-v1", "faulty_envs:Deadly-v0", "Pendulum-v1") for job in small(env, seeds=(0,))]
    report = sweep(jobs, tmp_path / "x", processes=2, progress=False)
    assert [job.env for job in report.failed] == ["faulty_envs:Deadly-v0"] and "BrokenProcessPool" in str(report.failed)
    assert [path.name for path in report.folders] == ["VPG-CartPole-v1-mine-s0", "VPG-Pendulum-v1-mine-s0"]


def test_other_settings_in_the_same_folder_are_refused_at_once(tmp_path):
    sweep(small(), tmp_path, executor=AtOnce(), progress=False)
    with pytest.raises(FileExistsError, match="gamma = 0.98 there, 0.5 here"):
        sweep(small(settings={"mine": QUICK | {"gamma": 0.5}}), tmp_path, executor=AtOnce(), progress=False)


def test_wrong_calls(tmp_path):
    with pytest.raises(ValueError, match="processes = 0"):
        sweep([], tmp_path, processes=0)
    with pytest.raises(ValueError, match="exclude each other"):
        sweep([], tmp_path, processes=2, executor=AtOnce())
    assert sweep([], tmp_path, progress=False).folders == []


# ---- a cluster -------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_cluster_gives_the_same_numbers_even_if_a_worker_is_killed(tmp_path, record_property):
    """The same sweep on a dask cluster of two processes, one of them killed: numbers equal to those of one process"""
    distributed = pytest.importorskip("distributed")
    settings = {f"gamma={gamma}": QUICK | {"gamma": gamma} for gamma in (0.9, 0.95, 0.99, 1.0)}
    jobs = grid(["VPG"], ["CartPole-v1"], [0, 1], 64 * 150, settings)
    assert not sweep(jobs, tmp_path / "one", executor=AtOnce(), progress=False).failed
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert not sweep(jobs, tmp_path / "calm", executor=client.get_executor(), progress=False).failed
            killed = []
            thread = threading.Thread(target=kill_one, args=(client, tmp_path / "stormy", killed))
            thread.start()
            report = sweep(jobs, tmp_path / "stormy", executor=client.get_executor(), progress=False, every=0)
            thread.join()
    assert not report.failed and len(report.folders) == 8 and len(killed) == 1
    assert weights(tmp_path / "one") == weights(tmp_path / "calm") == weights(tmp_path / "stormy")
    record_property("measured", f"{len(report.folders)} runs, {len(killed)} worker killed")


def kill_one(client, folder, killed):
    """Kill one worker as soon as there is a checkpoint of an unfinished job."""
    pids = [info["pid"] if "pid" in info else None for info in client.scheduler_info(n_workers=-1)["workers"].values()]
    pids = pids if all(pids) else list(client.run(os.getpid).values())
    while not list(folder.glob("*.checkpoint")):
        time.sleep(0.01)
    os.kill(pids[0], getattr(signal, "SIGKILL", signal.SIGTERM))
    killed.append(pids[0])
