"""Runs in TensorBoard: its own reader finds what history.csv says, each point once, whatever was there before."""

import errno
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from rlcourse import VPG
from rlcourse.experiments import cli, storage
from rlcourse.experiments.event_files import export
from rlcourse.experiments.storage import HISTORY, read_config, read_history, train_in_folder

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    algorithm = VPG(num_envs=4, num_steps=60, hidden_sizes=(8,), max_grad_norm=None)
    folder = tmp_path_factory.mktemp("runs") / "first"
    return train_in_folder(folder, algorithm, "Pendulum-v1", total_steps=5 * 240, seeds=[0, 3], progress=False)


@pytest.fixture
def run(trained, tmp_path):
    """A copy of one run, in an empty folder, last written at a known time."""
    copy = shutil.copytree(trained[1], tmp_path / "runs" / "first" / trained[1].name)
    os.utime(copy / HISTORY, (1e9, 1e9))
    return copy


def read(folder):
    reader = accumulator.EventAccumulator(str(folder), purge_orphaned_data=False)
    reader.Reload()
    return reader


def check(folder, run):
    """TensorBoard reads in `folder` what history.csv of the run says: all of it, and nothing else."""
    reader, history = read(folder), read_history(run)
    seconds, steps = history["seconds"], history.pop("env_steps")
    assert reader.Tags()["scalars"] == [f"train/{name}" for name in history]
    for name, column in history.items():
        points = reader.Scalars(f"train/{name}")
        assert [point.step for point in points] == steps.tolist()
        np.testing.assert_array_equal([point.value for point in points], column.astype(np.float32))  # NaN equals NaN
        times = (run / HISTORY).stat().st_mtime - seconds[-1] + seconds
        np.testing.assert_allclose([point.wall_time for point in points], times, rtol=0, atol=1e-5)
    return reader


def test_tensorboard_reads_what_the_history_says(trained, tmp_path):
    files = export(trained, tmp_path / "curves")
    assert [file.parent for file in files] == [tmp_path / "curves" / "first" / run.name for run in trained]
    for file, run in zip(files, trained, strict=True):
        assert np.isnan(read_history(run)["mean_return"][:3]).all() and not np.isnan(read_history(run)["mean_return"][-1])
        check(file.parent, run)
        assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_settings_are_hyperparameters_and_seeds_are_taken_together(trained, tmp_path):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found = []
    for file in export(trained, tmp_path):
        content = read(file.parent).SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        found.append(HParamsPluginData.FromString(content).session_start_info)
    numbers = {name: value.number_value for name, value in found[0].hparams.items() if value.HasField("number_value")}
    words = {name: value.string_value for name, value in found[0].hparams.items() if value.HasField("string_value")}
    switches = {name: value.bool_value for name, value in found[0].hparams.items() if value.HasField("bool_value")}
    assert words["algorithm"] == "VPG" and words["env"] == "Pendulum-v1" and words["max_grad_norm"] == "None"
    assert words["hidden_sizes"] == "[8]" and numbers["num_steps"] == 60 and switches["normalize_obs"] is False
    assert numbers.keys() | words.keys() | switches.keys() == read_config(trained[0])["settings"].keys() | {"algorithm", "env"}
    assert found[0].group_name == found[1].group_name


def test_exported_again_it_is_the_same_file_byte_for_byte(run, tmp_path):
    (file,) = export([run], tmp_path / "curves")
    before = file.read_bytes()
    assert export([run], tmp_path / "curves") == [file] and file.read_bytes() == before
    (elsewhere,) = export([run], tmp_path / "other")
    assert elsewhere.name == file.name and elsewhere.read_bytes() == before
    check(file.parent, run)


def test_a_longer_history_replaces_the_old_one_under_a_new_name(run, tmp_path):
    """A TensorBoard that is open never reads a file of the same name again."""
    (old,) = export([run], tmp_path / "curves")
    (old.parent / "export.0123.part").write_bytes(b"half of a file, from an export that was killed")
    (old.parent / "mine.txt").write_text("not ours", encoding="utf-8")
    with open(run / HISTORY, "a", encoding="utf-8") as file:
        *_, last = read_history(run)["env_steps"]
        file.write(",".join(["6", str(last + 240), *["7.5"] * (len(read_history(run)) - 1)]) + "\n")
    os.utime(run / HISTORY, (1e9 + 60, 1e9 + 60))
    (new,) = export([run], tmp_path / "curves")
    assert new.name != old.name and {path.name for path in new.parent.iterdir()} == {new.name, "mine.txt"}
    assert len(check(new.parent, run).Scalars("train/entropy")) == 6


def test_into_the_run_folders_themselves(run):
    """So that `tensorboard --logdir runs` shows them."""
    (file,) = export([run], run.parents[1])
    assert file.parent == run
    check(run, run)
    assert storage.find_runs(run.parents[1]) == [run] and storage.load_run(run).env == "Pendulum-v1"


def test_numbers_beyond_float32_become_infinite(run, tmp_path):
    names, *_, last = (run / HISTORY).read_text(encoding="utf-8").splitlines()
    numbers = dict(zip(names.split(","), last.split(","), strict=True)) | {"entropy": "1e300", "kl": "-inf"}
    (run / HISTORY).write_text(f"{names}\n{','.join(numbers.values())}\n", encoding="utf-8")
    reader = read(export([run], tmp_path)[0].parent)
    assert reader.Scalars("train/entropy")[0].value == np.inf and reader.Scalars("train/kl")[0].value == -np.inf


# ---- what goes wrong -------------------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_older_file_and_nothing_else(run, tmp_path, monkeypatch):
    (file,) = export([run], tmp_path / "curves")
    before, moved = file.read_bytes(), []

    def full(source, target):
        moved.append(Path(source).name)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"cannot write .*No space left.*unharmed\. When that is mended, give the command again"):
        export([run], tmp_path / "curves")
    assert list(file.parent.iterdir()) == [file] and file.read_bytes() == before
    assert len(moved) == 1 and "tfevents" not in moved[0], "TensorBoard would read it while it is written"


def test_nothing_is_written_unless_all_runs_can_be_read(trained, run, tmp_path):
    (run / HISTORY).write_text("iteration,env_steps\n1,x\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{HISTORY}.*was not written by rlcourse, or is damaged"):
        export([trained[0], run], tmp_path / "curves")
    assert not (tmp_path / "curves").exists()


def test_two_runs_in_one_place_are_refused(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "second" / "first" / run.name)
    with pytest.raises(ValueError, match=rf"two of the runs would be written to .*{re.escape(run.name)}.*different folders"):
        export([run, other], tmp_path / "curves")
    assert not (tmp_path / "curves").exists()


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Run a command in the folder of the test: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warnings.showwarning", None)  # which main replaces
    return lambda *words: (cli.main(words), *capsys.readouterr())


def test_the_command(run, command):
    code, out, err = command("export", str(run), "runs", "--tensorboard", "curves", "--json")
    (row,) = json.loads(out)
    assert code == 0 and err == "" and row["run"] == str(Path("runs", "first", run.name))
    check(Path(row["written"]).parent, run)


def test_the_command_leaves_out_what_is_not_finished(run, trained, command):
    half = shutil.copytree(trained[0], run.with_name("half"))
    (half / "config.json").write_text(json.dumps(read_config(half) | {"finished": False}), encoding="utf-8")
    code, out, err = command("export", "runs", "--tensorboard", "curves")
    assert code == 0 and run.name in out and "half" not in out
    assert err == f"rlcourse: left out, not finished: {Path('runs', 'first', 'half')}\n"
    code, out, err = command("export", str(half), "--tensorboard", "no")
    assert code == 1 and out == "" and "none of these runs is finished" in err and not Path("no").exists()


def test_the_command_complains(run, command, monkeypatch):
    code, _, err = command("export", "runs")
    assert code == 2 and "Missing option '--tensorboard'" in err
    Path("file").write_text("", encoding="utf-8")
    code, _, err = command("export", "runs", "--tensorboard", "file")
    assert code == 1 and "cannot make the folder file" in err and "Choose another place" in err
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)  # as if it were not installed
    code, out, err = command("export", "runs", "--tensorboard", "curves")
    assert code == 1 and out == "" and "pip install tensorboard" in err and not Path("curves").exists()


def test_the_callback_of_the_page_follows_a_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(re.findall(r"```python\n(.*?)```", PAGE, re.S)[1], "command_line.md", "exec"), names)
    points = read("curves/live").Scalars("train/mean_return")
    assert points[-1].step >= 10_000 and len(points) > 5 and not np.isnan(points[-1].value)
