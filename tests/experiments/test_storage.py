"""Run folders and checkpoints: what is in them, that a killed training goes on bit for bit, and that bad files are refused."""

import errno
import json
import os
import pickle
import random
import signal
import time

import gymnasium
import numpy as np
import pytest
import torch

from rlcourse import A2C, PPO, TRPO, VPG, iterate, make_env, recommended, train
from rlcourse.agents.ppo import PenaltyPPO
from rlcourse.equations.processes import Alone
from rlcourse.experiments import storage
from rlcourse.experiments.storage import find_runs, load_run, read_config, read_history, train_in_folder
from tests.experiments.processes import context, wait_for_checkpoint

QUICK = {"num_envs": 4, "num_steps": 16, "hidden_sizes": (8,)}
EVERYTHING = PPO(**QUICK, num_minibatches=4, gamma=[0.9, 0.99], normalize_obs=True, normalize_reward=True, target_kl=0.003)


def quick(folder, algorithm=None, env="CartPole-v1", updates=4, seeds=(0, 3), **options):
    algorithm = algorithm or VPG(**QUICK)
    steps = updates * algorithm.num_envs * algorithm.num_steps
    options = {"progress": False, "every": 0} | options
    return train_in_folder(folder, algorithm, env, total_steps=steps, seeds=list(seeds), **options)


def alike(a, b):
    """Whether two snapshots are equal, measured times apart."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a if name != "seconds")
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return np.array_equal(a, b, equal_nan=isinstance(a, float) or (isinstance(a, np.ndarray) and a.dtype.kind == "f"))


# ---- going on where a training stood ---------------------------------------------------------------------------------------


ALGORITHMS = [EVERYTHING, VPG(**QUICK), TRPO(**QUICK), A2C(**QUICK), PenaltyPPO(**QUICK, num_minibatches=4)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: type(algorithm).__name__)
@pytest.mark.parametrize("env, batched", [("CartPole-v1", True), ("Pendulum-v1", False)])
def test_a_resumed_training_equals_an_undisturbed_one(algorithm, env, batched, tmp_path):
    """Through a file, at two places: parameters, moments, generators, environments, statistics, histories."""
    snapshots = {}
    options = {"total_steps": 4 * 64, "seeds": [0, 3], "batched": batched}
    for state in iterate(algorithm, env, **options):
        snapshots[state.iteration] = state.snapshot()
    for cut in (1, 3):
        storage.write_tree(tmp_path / "x", "checkpoint", snapshots[cut])
        again = storage.read_tree(tmp_path / "x", "checkpoint")
        for state in iterate(algorithm, env, **options, resume=again):  # noqa: B007
            pass
        assert alike(json_like(state.snapshot()), json_like(snapshots[4]))


def json_like(snapshot):
    return snapshot | {"settings": json.loads(json.dumps(snapshot["settings"]))}


def test_the_comparison_notices_a_difference():
    snapshot = next(iterate(VPG(**QUICK), "CartPole-v1", total_steps=64, seeds=[0])).snapshot()
    other = json.loads(json.dumps(snapshot["agent"]["noise"]))
    other[0]["state"]["state"] += 1
    assert alike(snapshot, snapshot) and not alike(snapshot, snapshot | {"agent": snapshot["agent"] | {"noise": other}})


class Sealed(gymnasium.Wrapper):
    """Keeps something that cannot be stored."""

    def __init__(self, env):
        super().__init__(env)
        self.engine = object()


def sealed():
    return Sealed(gymnasium.make("CartPole-v1"))


def test_an_environment_that_cannot_be_stored_begins_new_episodes_and_says_so(tmp_path):
    """New ones, not the first episodes once more; and the rest of the training goes on."""
    options = {"total_steps": 6 * 64, "seeds": [0, 3]}
    states = iterate(VPG(**QUICK), sealed, **options)
    next(states)
    snapshot = next(states).snapshot()
    assert snapshot["world"] is None
    states = iterate(VPG(**QUICK), sealed, **options, resume=snapshot)
    with pytest.warns(RuntimeWarning, match=r"Sealed.engine is a object.*new episodes from a reset.*in distribution"):
        state = next(states)
    start = state._rest.obs.copy()
    assert state.iteration == 2 and np.abs(start).max() <= 0.05
    beginning = make_env(sealed, 8, seed=state.agent.env_seeds(4)).reset()
    assert not np.isin(start, beginning).any()
    assert (state._rest.episodes.running == 0).all()
    assert [one.iteration for one in states] == [3, 4, 5, 6]


# ---- run folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_run_folder_holds_its_run(env, tmp_path):
    folders = quick(tmp_path / "mine", EVERYTHING, env)
    whole = train(EVERYTHING, env, total_steps=256, seeds=[0, 3], progress=False)
    obs = np.random.default_rng(0).normal(size=(6, whole.agent.obs_size)).astype(np.float32)
    assert len(folders) == 4 and find_runs(tmp_path) == sorted(folders, key=str)
    for run, folder in enumerate(folders):
        assert sorted(file.name for file in folder.iterdir()) == ["config.json", "history.csv", "weights.safetensors"]
        alone = load_run(folder)
        assert torch.equal(alone.agent.parameters[0], whole.agent.parameters[run])
        np.testing.assert_array_equal(alone.policy(0).act(obs, True), whole.policy(run).act(obs, True))
        assert alone.algorithm.gamma == whole.runs[run].setting["gamma"] and alone.runs[0].seed == whole.runs[run].seed
        for name, values in whole.history.items():
            if name != "seconds":
                np.testing.assert_array_equal(alone.history[name][0], values[run])
    config = read_config(folders[0])
    assert config["versions"]["torch"] == torch.__version__ and config["total_steps"] == 256 and config["env"] == env
    assert not list(tmp_path.rglob("*.part"))


def test_names_of_folders_say_what_differs(tmp_path):
    assert storage.label(PPO(), "NoSuch-v0") == "default" and storage.label(VPG(gamma=0.9), "NoSuch-v0") == "gamma=0.9"
    algorithm = recommended("PPO", "CartPole-v1")
    assert storage.label(algorithm, "CartPole-v1") == "recommended"
    algorithm.hidden_sizes, algorithm.gamma = (8, 8), [0.9, 1.0]
    assert storage.label(algorithm, "CartPole-v1") == "hidden_sizes=8x8,gamma=0.9+1.0"
    names = [path.name for path in quick(tmp_path, VPG(**QUICK, gamma=[0.9, 1.0]), name="mine", seeds=[0, 1, 2, 7])]
    assert names[0] == "VPG-CartPole-v1-mine,gamma=0.9-s0" and names[-1] == "VPG-CartPole-v1-mine,gamma=1.0-s7"
    assert (tmp_path / "VPG-CartPole-v1-mine-s0-2,7.checkpoint").exists()
    assert storage.safe_name("ALE/Pong: v5?") == "ALE_Pong__v5_" and len(storage.safe_name("x" * 999, "-s" + "1," * 99)) <= 120
    assert storage.safe_name("x" * 200 + "a") != storage.safe_name("x" * 200 + "b")


def test_finished_runs_are_not_run_again_and_may_be_made_longer(tmp_path, monkeypatch):
    folders = quick(tmp_path)
    before = (folders[0] / "weights.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "train", lambda *args, **options: pytest.fail("trained again"))
        assert quick(tmp_path) == folders
    assert quick(tmp_path, updates=8, resume=True) == folders
    longer = train(VPG(**QUICK), "CartPole-v1", total_steps=512, seeds=[0, 3], progress=False)
    assert torch.equal(load_run(folders[1]).agent.parameters[0], longer.agent.parameters[1])
    assert before != (folders[0] / "weights.safetensors").read_bytes() and read_config(folders[0])["total_steps"] == 512


def test_other_settings_under_the_same_name_are_refused(tmp_path):
    quick(tmp_path, name="mine")
    for change, found in [
        ({"algorithm": VPG(**QUICK, gamma=0.5)}, "gamma = 0.99 there, 0.5 here"),
        ({"batched": False}, "batched = True there, False here"),
        ({"seeds": [0, 4]}, r"seeds = \[0, 3\] there, \[0, 4\] here"),
    ]:
        with pytest.raises(FileExistsError, match=f"another training.*{found}.*--exp-name"):
            quick(tmp_path, **{"name": "mine", "resume": True} | change)
    with pytest.raises(FileExistsError, match="can go on: resume it"):
        quick(tmp_path, name="mine", updates=9)
    annealed = PPO(**QUICK, num_minibatches=4, anneal=True)
    quick(tmp_path / "b", annealed)
    with pytest.raises(FileExistsError, match="anneal=True"):
        quick(tmp_path / "b", annealed, updates=9, resume=True)


def test_a_resume_with_other_versions_warns(tmp_path, monkeypatch):
    quick(tmp_path)
    monkeypatch.setattr(storage, "versions", lambda: {"torch": "9.9"})
    with pytest.warns(UserWarning, match="torch .* → 9.9.*last digits"):
        quick(tmp_path, updates=5, resume=True)


@pytest.mark.parametrize("every", [-1, True, "5", float("inf"), float("nan")])
def test_a_wrong_interval_is_refused(every, tmp_path):
    with pytest.raises(ValueError, match="every = "):
        quick(tmp_path, every=every)


def test_an_unfinished_run_says_how_to_go_on(tmp_path):
    folder = quick(tmp_path)[0]
    (folder / "config.json").write_text(json.dumps(read_config(folder) | {"finished": False}), encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="not finished.*--resume"):
        load_run(folder)


# ---- files that are not ours -----------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return os.system, ("echo exploded > exploded.txt",)


def test_a_pickle_under_our_name_is_refused_and_not_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = quick(tmp_path / "mine")[0]
    checkpoint = next((tmp_path / "mine").glob("*.checkpoint"))
    for file in (folder / "weights.safetensors", checkpoint, folder / "history.csv", folder / "config.json"):
        file.write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ValueError, match=f"{file.name}.*was not written by rlcourse, or is damaged"):
            quick(tmp_path / "mine", updates=9, resume=True) if file == checkpoint else load_run(folder)
        if file == checkpoint:
            file.unlink()
    assert not (tmp_path / "exploded.txt").exists()


@pytest.mark.parametrize("name", ["weights.safetensors", "history.csv", "config.json"])
def test_a_damaged_file_is_named_and_never_another_error(name, tmp_path):
    folder = quick(tmp_path)[0]
    file, rng = folder / name, random.Random(0)
    good = file.read_bytes()
    for cut in rng.sample(range(len(good) - 2), 20):
        file.write_bytes(good[:cut])
        refused_or_fine(folder, name)
        file.write_bytes(good[:cut] + bytes([good[cut] ^ 0xFF]) + good[cut + 1 :])
        refused_or_fine(folder, name)


def refused_or_fine(folder, name):
    try:
        load_run(folder)
    except ValueError as error:
        assert "damaged" in str(error) or "format" in str(error) or "was trained by" in str(error)
    else:
        assert name != "weights.safetensors"  # which has a checksum


NAMES = "iteration,env_steps,mean_return,seconds\n"


@pytest.mark.parametrize("text", ["", NAMES, NAMES + "1,nan,2,3\n", "iteration,mean_return\n1,2.0\n"])
def test_a_history_without_what_is_always_there_is_damaged(text, tmp_path):
    (tmp_path / "history.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"history\.csv.*damaged"):
        read_history(tmp_path)


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, True, [[1]]])
@pytest.mark.parametrize("name", storage.CONTENT)
def test_a_fact_of_another_kind_is_damage(name, value, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    good = {name: {str: "a", dict: {"b": 1}, list: [0], bool: True, int: 7}[kind] for name, kind in storage.CONTENT.items()}
    storage.write_json(folder / "config.json", good | {"format": storage.FORMAT})
    assert storage.read_config(folder)[name] == good[name]
    if isinstance(value, storage.CONTENT[name]) and value != []:
        return
    storage.write_json(folder / "config.json", good | {"format": storage.FORMAT, name: value})
    with pytest.raises(ValueError, match=f"config.json.*damaged .*{name} = .*delete it, and give the same training again"):
        storage.read_config(folder)


def test_a_tower_of_brackets_is_damage(tmp_path):
    (tmp_path / "config.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ValueError, match="damaged .RecursionError"):
        storage.read_config(tmp_path)


@pytest.mark.parametrize("name", ["weights.safetensors", "history.csv", "config.json"])
def test_a_lost_file_is_named_and_written_again(name, tmp_path):
    folder = quick(tmp_path)[0]
    good = (folder / name).read_bytes()
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no {name}"):
        load_run(folder)
    with pytest.raises(FileExistsError, match="resume it"):
        quick(tmp_path)
    quick(tmp_path, resume=True)
    assert (folder / name).read_bytes() == good


def test_equal_settings_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two runs would write .*gamma=0.5.*-s0: give each setting"):
        storage.train_in_folder(tmp_path, VPG(gamma=[0.5, 0.9, 0.5]), "CartPole-v1", total_steps=8, seeds=[0])


def test_a_command_that_is_no_unicode_is_kept(tmp_path):
    storage.write_json(tmp_path / "a", ["runs/\udcff"])
    assert json.loads((tmp_path / "a").read_text(encoding="utf-8")) == ["runs/\udcff"]


def test_a_flipped_bit_in_a_checkpoint_is_noticed(tmp_path):
    quick(tmp_path)
    file = next(tmp_path.glob("*.checkpoint"))
    good = file.read_bytes()
    file.write_bytes(good[:-500] + bytes([good[-500] ^ 1]) + good[-499:])
    with pytest.raises(ValueError, match="checksum"):
        quick(tmp_path, updates=9, resume=True)


def test_kinds_and_formats_are_checked(tmp_path, monkeypatch):
    data = storage.packed("weights", {"x": np.arange(3)})
    with pytest.raises(ValueError, match="'a' was not written .*does not say that it holds the checkpoint"):
        storage.unpacked(data, "checkpoint", "a")
    monkeypatch.setattr(storage, "FORMAT", 99)
    data = storage.packed("weights", {"x": np.arange(3)})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="'new' has format 99.*Update rlcourse"):
        storage.unpacked(data, "weights", "new")
    with pytest.raises(FileNotFoundError, match="no run folder"):
        load_run(tmp_path)
    with pytest.raises(FileNotFoundError, match="no runs in"):
        find_runs(tmp_path)


def test_trees_come_back(tmp_path):
    inner = {"c": np.zeros((2, 0)), "d": np.array(3.0), "big": 2**127 + 1, "nan": float("nan")}
    tree = {"a": [1, 2.5, None, True, "x"], "b": inner}
    storage.write_tree(tmp_path / "t", "checkpoint", tree)
    again = storage.read_tree(tmp_path / "t", "checkpoint")
    assert alike(again, tree) and again["b"]["d"].shape == () and again["b"]["c"].shape == (2, 0)


# ---- what may go wrong on the way ------------------------------------------------------------------------------------------


def test_a_full_disk_is_named_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    real, writes = os.fsync, []

    def full(number):
        writes.append(number)
        if len(writes) > 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(number)

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", full)
        with pytest.raises(OSError, match="cannot write .*checkpoint: No space left.*unharmed.*give the command again"):
            quick(tmp_path, updates=9)
    assert not list(tmp_path.rglob("*.part"))
    folders = quick(tmp_path, updates=9, resume=True)
    whole = train(VPG(**QUICK), "CartPole-v1", total_steps=576, seeds=[0, 3], progress=False)
    assert torch.equal(load_run(folders[0]).agent.parameters[0], whole.agent.parameters[0])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="cannot make the folder .*Choose another place"):
            quick(tmp_path / "mine")
    finally:
        tmp_path.chmod(0o700)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    with pytest.raises(OSError, match="cannot make the folder .*mine"):
        quick(tmp_path / "mine")


def test_a_read_only_folder_that_is_there_is_named_too(tmp_path, monkeypatch):
    def refused(lock):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    monkeypatch.setattr(storage.FileLock, "acquire", refused)
    with pytest.raises(PermissionError, match=r"cannot write .*s0,3.lock: Permission denied; nothing half-written is left"):
        quick(tmp_path)


def test_a_run_made_longer_is_never_a_mixture(tmp_path, monkeypatch):
    """An end in the middle of the files of a run: it says that it is unfinished, and can be finished."""
    folder = quick(tmp_path)[0]
    (folder / "history.csv.0123.part").touch()  # of a kill in the middle of one
    with monkeypatch.context() as patch:
        real = os.replace
        patch.setattr(storage.os, "replace", lambda old, new: 1 / 0 if new.name == "weights.safetensors" else real(old, new))
        with pytest.raises(ZeroDivisionError):
            quick(tmp_path, updates=8, resume=True)
    with pytest.raises(FileNotFoundError, match="not finished.*--resume"):
        load_run(folder)
    quick(tmp_path, updates=8, resume=True)
    assert len(load_run(folder).history["env_steps"][0]) == 8 and not list(tmp_path.rglob("*.part"))


def test_finished_runs_without_their_checkpoint_are_not_overwritten(tmp_path):
    quick(tmp_path)
    next(tmp_path.glob("*.checkpoint")).unlink()
    assert len(quick(tmp_path)) == 2
    for resume in (True, False):
        with pytest.raises(FileExistsError, match=r"checkpoint is gone.*--exp-name.*or delete"):
            quick(tmp_path, updates=8, resume=resume)


# ---- one at a time ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def meanwhile(monkeypatch):
    """Call something after so many updates of the next training, 0: before the first one."""

    def patch(intrude, updates=2):
        real = storage.train

        def disturbed(*args, callbacks, **options):
            monkeypatch.setattr(storage, "train", real)
            if updates == 0:
                intrude()
            return real(*args, callbacks=[*callbacks, lambda state: intrude() if state.iteration == updates else None], **options)

        monkeypatch.setattr(storage, "train", disturbed)

    monkeypatch.setattr(storage, "PATIENCE", 0.1)
    return patch


def test_a_second_training_of_the_same_is_refused_and_the_first_one_undisturbed(tmp_path, meanwhile):
    def intrude():
        with pytest.raises(FileExistsError, match=r"s0,3.checkpoint belongs to a training .* right now.*--resume.*--exp-name"):
            quick(tmp_path, resume=True)
        assert len(list(tmp_path.glob("*.lock"))) == 1
        others.extend(quick(tmp_path, seeds=[1]))  # another one, in the same experiment

    others = []
    meanwhile(intrude)
    folders = quick(tmp_path)
    whole = train(VPG(**QUICK), "CartPole-v1", total_steps=256, seeds=[0, 3], progress=False)
    assert torch.equal(load_run(folders[1]).agent.parameters[0], whole.agent.parameters[1])
    assert len(others) == 1 and not list(tmp_path.glob("*.lock"))


def test_an_error_and_a_refusal_leave_no_lock(tmp_path, meanwhile):
    meanwhile(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        quick(tmp_path)
    with pytest.raises(FileExistsError, match="can go on"):
        quick(tmp_path)
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize("updates", [0, 2])
def test_a_run_that_another_training_took_meanwhile_is_not_overwritten(updates, tmp_path, meanwhile):
    """Seeds 0, 3 and seeds 3, 5 have checkpoints of their own, but one run folder in common."""

    def intrude():
        for path in tmp_path.glob("*-s3/config.json"):
            path.unlink()  # as if it had come at the same moment
        quick(tmp_path, seeds=[3, 5])
        taken.update(weights_of(tmp_path))

    taken = {}
    meanwhile(intrude, updates)
    with pytest.raises(FileExistsError, match=r"s3 holds another training \(seeds = \[3, 5\] there, \[0, 3\] here\)"):
        quick(tmp_path)
    assert len(taken) == 2 and weights_of(tmp_path) == taken
    assert len(list(tmp_path.glob("*-s0,3.checkpoint"))) == (updates > 0), "refused as soon as it could be known"


KILLED = {
    "VPG": VPG(**QUICK),
    "PPO": PPO(**QUICK, num_minibatches=4, normalize_obs=True),
}


def plan(folder, kind, batched, total_steps=10**9):
    """The arguments of the training that is killed; it does not end by itself, so it cannot end too early."""
    what = {"folder": folder, "algorithm": KILLED[kind], "env": "CartPole-v1", "total_steps": total_steps, "seeds": [0, 1]}
    return what | {"batched": batched, "every": 0, "progress": False, "resume": True}


@pytest.fixture(scope="module")
def start():
    """Start `train_in_folder` in a process of its own."""

    def started(folder, kind, batched, **more):
        process = context().Process(target=_train, kwargs=plan(folder, kind, batched) | more)
        process.start()
        return process

    return started


def _train(**how):
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also if the tests run under nohup, where it is ignored
    train_in_folder(**how)


def kill_and_resume(start, folder, kills, kind, batched, rng):
    """Start a training, kill it at a random moment, start it again …; the last one may end."""
    last = 0
    for _ in range(kills):
        process = start(folder, kind, batched)
        last = wait_for_checkpoint([process], folder, last)
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.join()
        assert process.exitcode != 0
    ends_as_undisturbed(start, folder, kind, batched)


def ends_as_undisturbed(start, folder, kind, batched):
    """Five updates later, what was interrupted has the weights of a training that never was."""
    (file,) = folder.glob("*.checkpoint")
    steps = storage.read_tree(file, "checkpoint")["snapshot"]["env_steps"] + 5 * 64
    process = start(folder, kind, batched, total_steps=steps)
    process.join()
    assert process.exitcode == 0 and not [*folder.rglob("*.part"), *folder.glob("*.lock")]
    never = folder.with_name(folder.name + "-undisturbed")
    train_in_folder(**plan(never, kind, batched, steps) | {"every": 60})
    assert len(weights_of(folder)) == 2 and weights_of(folder) == weights_of(never)


def weights_of(folder):
    return {path.parent.name: path.read_bytes() for path in folder.rglob("weights.safetensors")}


def test_a_lock_ends_with_its_process(start, tmp_path, monkeypatch):
    """In another process it is refused while the first one lives, and goes on when that has been killed."""
    process = start(tmp_path, "VPG", True)
    wait_for_checkpoint([process], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(storage, "PATIENCE", 0.0)
        with pytest.raises(FileExistsError, match="right now"):
            train_in_folder(**plan(tmp_path, "VPG", True))
    process.kill()
    process.join()
    assert len(list(tmp_path.glob("*.lock"))) == 1
    assert train_in_folder(**plan(tmp_path, "VPG", True, total_steps=64)) == find_runs(tmp_path)
    assert not list(tmp_path.glob("*.lock"))


def test_three_kills_change_nothing(start, tmp_path):
    kill_and_resume(start, tmp_path / "run", 3, "PPO", True, random.Random(0))


@pytest.mark.full
@pytest.mark.parametrize("kind, batched", [("VPG", True), ("PPO", True), ("VPG", False), ("PPO", False)])
def test_twenty_kills_change_nothing(start, kind, batched, tmp_path, record_property):
    """A training killed (SIGKILL) 20 times at random moments ends with the weights of an undisturbed one, bit for bit"""
    kill_and_resume(start, tmp_path / "run", 20, kind, batched, random.Random(1))
    record_property("measured", f"{kind}{'' if batched else ', Gymnasium'}: 20 kills")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None)])
def test_an_interrupted_training_saves_itself_and_can_go_on(start, number, tmp_path):
    process = start(tmp_path / "run", "VPG", True)
    wait_for_checkpoint([process], tmp_path / "run")
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode == 1 and not any(read_config(path)["finished"] for path in find_runs(tmp_path))
    ends_as_undisturbed(start, tmp_path / "run", "VPG", True)


def test_an_interrupt_ends_after_the_update_and_the_callers_handlers_come_back(tmp_path, monkeypatch):
    before, real = signal.getsignal(signal.SIGINT), storage.train

    def interrupted(*args, callbacks, **options):
        press = lambda state: signal.raise_signal(signal.SIGINT) if state.iteration == 2 else None  # noqa: E731
        return real(*args, callbacks=[press, *callbacks], **options)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "train", interrupted)
        with pytest.raises(storage.Stopped, match="stopped after 128 of 256 steps per run; saved in .*--resume"):
            quick(tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    whole = train(VPG(**QUICK), "CartPole-v1", total_steps=256, seeds=[0, 3], progress=False)
    assert torch.equal(load_run(quick(tmp_path, resume=True)[1]).agent.parameters[0], whole.agent.parameters[1])


class WithOneThatWantsEverything(Alone):
    def mean(self, x):
        return (x + 1) / 2


def test_what_one_process_of_a_group_wants_all_do(monkeypatch):
    """Save, because its clock says so; stop, because it was sent a signal."""
    keeper, saved = storage._Keeper(None, 1000.0, [], WithOneThatWantsEverything()), []
    keeper.last = time.monotonic()
    monkeypatch.setattr(keeper, "save", lambda: saved.append(keeper.state))
    assert keeper("state") and saved == ["state"]


def test_history_of_a_run_is_plain_numbers(tmp_path):
    folder = quick(tmp_path)[0]
    history = read_history(folder)
    assert history["env_steps"].tolist() == [64, 128, 192, 256]
    assert (folder / "history.csv").read_text(encoding="utf-8").startswith("iteration,env_steps,mean_return,")
