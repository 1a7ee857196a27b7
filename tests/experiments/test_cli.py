"""The command line as a user meets it: what is printed where, exit codes, messages; and docs/command_line.md, run."""

import ast
import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rlcourse.agents.training import ALGORITHMS, evaluate
from rlcourse.experiments import cli, film
from rlcourse.experiments.storage import find_runs, load_run, read_config
from rlcourse.experiments.sweep import Report

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
SMALL = "--num-envs 4 --num-steps 16 --hidden-sizes 8 --total-steps 128 --no-progress"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warnings.showwarning", None)  # which main replaces

    def running(line):
        code = cli.main(shlex.split(line))
        return code, *capsys.readouterr()

    return running


# ---- the page --------------------------------------------------------------------------------------------------------------


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


def test_the_page_tells_the_truth(run, tmp_path):
    """Every command of the page in order, then the policy in plain PyTorch: it must be that of load_run."""
    (tmp_path / "lambda.toml").write_text(blocks("toml")[0], encoding="utf-8")
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) == 12
    for line in lines:
        assert line.startswith("rlcourse ")
        code, out, err = run(line.removeprefix("rlcourse "))
        assert code == 0 and out and "warning" not in err, (line, err)
    with Image.open("first.gif") as gif:
        assert gif.n_frames > 10 and gif.width <= film.WIDTH
    snippet = blocks("python")[0]
    modules = {name for node in ast.walk(ast.parse(snippet)) for name in imported(node)}
    assert modules == {"json", "torch", "safetensors.torch"} and len([x for x in snippet.splitlines() if x]) <= 20
    names = {}
    exec(compile(snippet, "command_line.md", "exec"), names)
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    policy = load_run(names["folder"]).policy(0)
    torch.testing.assert_close(names["output"](obs).softmax(-1), policy.distribution(torch.from_numpy(obs)).logits.softmax(-1))
    assert names["action"] == policy.act(np.array([0.0, 0.1, 0.0, -0.1], np.float32), deterministic=True)
    config = read_config(names["folder"])
    assert config["total_steps"] == 30_000 and config["command"][:3] == ["rlcourse", "train", "PPO"]


def imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) else []


def test_the_snippet_also_reads_normalised_observations(run):
    assert run(f"train PPO --env Pendulum-v1 --normalize-obs --num-minibatches 4 {SMALL} --exp-name first")[0] == 0
    (folder,) = find_runs("runs")
    snippet = re.sub(r'folder = ".*"', f"folder = {str(folder)!r}", blocks("python")[0]).rpartition("action =")[0]
    names = {}
    exec(compile(snippet, "command_line.md", "exec"), names)
    obs = 3 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(names["output"](obs), load_run(folder).policy(0).distribution(obs).mean)


# ---- help and settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
def test_help_shows_every_field_of_this_algorithm_and_no_other(name, run):
    code, out, _ = run(f"train {name} --env CartPole-v1 --help")
    fields = {field.name for field in dataclasses.fields(ALGORITHMS[name])}
    others = {field.name for kind in ALGORITHMS.values() for field in dataclasses.fields(kind)} - fields
    flags = {flag.replace("-", "_") for flag in re.findall(r"^  --([a-z-]+)", out, re.M)}
    assert code == 0 and fields <= flags and not flags & others
    assert fields <= cli.descriptions(ALGORITHMS[name]).keys(), "a field that no docstring describes"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_two_fields_share_a_description(name):
    """Such as "passes over the batch, and steps in each" for both: alone beside an option it says neither."""
    said = list(cli.descriptions(ALGORITHMS[name]).values())
    assert len(set(said)) == len(said), sorted(said)


@pytest.mark.parametrize("command", ["evaluate", "watch", "compare", "sweep", "export", "train PPO --env CartPole-v1"])
def test_help_shows_the_range_of_every_number(command, run):
    code, out, _ = run(f"{command} --help")
    assert code == 0 and "None]" not in out and "x>=" not in out
    options = [" ".join(option.split()) for option in re.split(r"\n  (?=-)", out)[1:]]
    numbers = [option for option in options if re.search(r"^--\S+( --\S+)? (INTEGER|NUMBER)", option)]
    without = [option for option in numbers if not re.search(r"≥|in [\[(]|from \d|> 0", option)]
    assert [option.split()[0] for option in without] == ["--threshold"] * (command == "compare")


def test_help_shows_the_defaults_for_the_environment(run):
    plain = " ".join(run("train PPO --env CartPole-v1 --help")[1].split())
    assert "[in [0, 1]; default: 0.98]" in plain and "[≥ 0; default: 0.003]" in plain and "[> 0 or none; default: 0.5]" in plain
    other = " ".join(run("train ppo --help --env=Pendulum-v1")[1].split())
    assert "default: 0.1]" in other and "integer ≥ 1; default: 200]" in other


def test_flags_set_the_fields(run):
    line = f"train ppo --env CartPole-v1 {SMALL} --learning_rate 0.01 --gae-lambda 0.5,1 --target_kl none --anneal"
    code, out, err = run(f"{line} --normalize batch --num-minibatches 2 --seeds 0,4 --json")
    rows = json.loads(out)
    assert code == 0 and err == "" and [row["seed"] for row in rows] == [0, 4, 0, 4]
    settings = read_config(rows[3]["run"])["settings"]
    expected = {"learning_rate": 0.01, "gae_lambda": 1, "target_kl": None, "anneal": True, "normalize": "batch"}
    assert expected.items() <= settings.items() and settings["gamma"] == 0.98 and settings["hidden_sizes"] == [8]


def test_whole_numbers_may_be_written_short(run):
    for text in ("1e3", "1_000"):
        out = run(f"train VPG --env CartPole-v1 {SMALL} --total-steps {text} --json --exp-name e{text}")[1]
        assert json.loads(out)[0]["env_steps"] == 1024


def test_names_of_spinning_up(run):
    aliases = "--hid 8 --l 3 --gamma 0.9 --seed 2 --steps 64 --epochs 2 --exp_name up"
    code, out, _ = run(f"train VPG --env CartPole-v1 --num-envs 4 {aliases} --json --no-progress")
    (row,) = json.loads(out)
    config = read_config(row["run"])
    assert code == 0 and row["seed"] == 2 and row["env_steps"] == config["total_steps"] == 128
    assert config["settings"]["hidden_sizes"] == [8, 8, 8] and config["settings"]["num_steps"] == 16 and "runs/up/" in row["run"]


def test_cpu_spreads_the_seeds_over_processes(run):
    code, out, err = run(f"train VPG --env CartPole-v1 {SMALL} --seeds 0-2 --cpu 2 --json")
    assert code == 0 and [row["seed"] for row in json.loads(out)] == [0, 1, 2], err
    together = [read_config(path)["trained_together"]["seeds"] for path in find_runs("runs")]
    assert together == [[0, 1], [0, 1], [2]]


@pytest.mark.parametrize(
    "line, message",
    [
        ("", "Usage: rlcourse"),
        ("trian", "no 'trian' here. Did you mean train?"),
        ("train PPPO", "Did you mean PPO? There are: VPG, TRPO"),
        ("train DQN", "There are: VPG, TRPO"),
        ("train PPO", "Missing option '--env'"),
        ("train VPG --env CartPole-v1 --clip-epsilon 0.2", "No such option '--clip-epsilon'"),
        ("train PPO --env CartPole-v1 --learning-rte 1", "Did you mean '--learning-rate'?"),
        ("train PPO --env CartPole-v1 --gamma 1.5", r"PPO(gamma=1.5): expected a number in [0.0, 1.0]"),
        ("train PPO --env CartPole-v1 --gamma abc", "'abc' is no number"),
        ("train PPO --env CartPole-v1 --gamma none", "PPO(gamma=None): expected a number"),
        ("train PPO --env CartPole-v1 --num-envs 1,2", "one value for all runs"),
        ("train PPO --env CartPole-v1 --normalize often", "'often' is not one of 'minibatch', 'batch', 'never'"),
        ("train PPO --env CartPole-v1 --seeds 5-1", "seeds = '5-1'; expected something like"),
        ("train PPO --env CartPole-v1 --seeds 1,1", "each seed once"),
        ("train PPO --env CartPole-v1 --exp-name a/b", "becomes the name of a folder"),
        (f"train PPO --env CartPole-v1 --exp-name {'a' * 91}", "at most 90 letters"),
        ("train PPO --env CartPole-v1 --total-steps 0", "'0': expected an integer ≥ 1"),
        ("train PPO --env CartPole-v1 --total-steps 1.5", "'1.5': expected an integer ≥ 1"),
        ("train PPO --env CartPole-v1 --total-steps nan", "'nan': expected an integer ≥ 1"),
        ("train PPO --env CartPole-v1 --epochs inf", "'inf': expected an integer ≥ 1"),
        ("train PPO --env CartPole-v1 --every nan", "'nan': expected a number ≥ 0"),
        ("train PPO --env CartPole-v1 --every -1", "'-1': expected a number ≥ 0"),
        ("train PPO --env CartPole-v1 --seeds 0-1000000000", "at most 100,000 seeds"),
        ("evaluate x --episodes 1e9", "'1e9': expected an integer from 1 to 1,000,000"),
        ("compare x --threshold nan", "'nan': expected a number."),
        ("train PPO --env CartPole-v1 --steps 100 --num-envs 3", "cannot be shared by 3 environments"),
        ("train PPO --env CartPole-v1 --l 3", "give --hid, too"),
        ("train PPO --env CartPole-v1 --hid 8 --hidden-sizes 8", "say the same"),
        ("train PPO --env CartPole-v1 --steps 80 --num-steps 8", "say the same"),
        ("train PPO --env CartPole-v1 --epochs 8 --total-steps 8", "say the same"),
        ("evaluate", "Missing argument 'RUN...'"),
        ("watch x", "say where: --video film.gif, or --window"),
        ("watch x --window --video a.gif", "say where"),
        ("sweep missing.toml", "there is no file 'missing.toml'"),
        ("sweep --algorithms VPG", "missing: envs, total_steps"),
        ("sweep --algorithms VPG --envs CartPole-v1 --total-steps 5 --set gamma", "such as gamma=0.9,0.99"),
        ("sweep --algorithms VPG --envs CartPole-v1 --total-steps 5 --set gamma=0.9 --set gamma=1", "gamma is there twice"),
        ("sweep --algorithms VPG --envs CartPole-v1 --total-steps 5 --set lambda=1", "no setting 'lambda'"),
        ("evaluate ''", "an empty path; for the current folder write a dot"),
        ("watch '' --window", "an empty path"),
        ("train PPO --env CartPole-v1 --folder ''", "an empty path"),
    ],
)
def test_wrong_usage(line, message, run):
    code, out, err = run(line)
    assert code == 2 and out == "" and message in err and "Traceback" not in err and not Path("runs").exists()


@pytest.mark.parametrize(
    "line, message",
    [
        ("train PPO --env CartPole-v7 --no-progress", "Did you mean CartPole-v1"),
        ("train PPO --env no_module:X-v0 --no-progress", "Unknown environment id 'no_module:X-v0'"),
        ("train PPO --env Blackjack-v1 --no-progress", "not supported"),
        ("train PPO --env CartPole-v1 --num-envs 1e30", "num_envs = 1000000000000000019884624838656, num_steps = 128"),
        ("train PPO --env CartPole-v1 --num-steps 1_000_000_000", "num_steps = 1000000000, obs_size = 4, 1 runs: a batch"),
        ("train PPO --env CartPole-v1 --hidden-sizes 100000,100000", "hidden_sizes = (100000, 100000), 1 runs: a network"),
        ("train VPG --env CartPole-v7 --seeds 0-1 --processes 2 --no-progress", "Did you mean CartPole-v1"),
        ("sweep --algorithms VPG --envs CartPole-v1,CartPole-v7 --total-steps 64 --no-progress", "Did you mean CartPole-v1"),
        ("evaluate nowhere", "no folder 'nowhere'"),
        ("compare .", "no runs in '.'"),
        ("watch . --video a.gif", "no run folder"),
    ],
)
def test_what_fails(line, message, run):
    code, out, err = run(f"{line} --no-progress" if line.startswith("train") and "--no-progress" not in line else line)
    assert code == 1 and out == "" and message in err and err.startswith("rlcourse: error:") and "Traceback" not in err
    assert not list(Path().rglob("config.json")), "nothing was trained"


# ---- with runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.toml", b"", "missing: algorithms, envs, total_steps"),
        ("a.toml", b"][", "a.toml: Invalid statement"),
        ("a.toml", b"# \xfc", "a.toml: 'utf-8' codec"),
        ("a.toml", b"x = " + b"[" * 5000 + b"]" * 5000, "a.toml: "),
        ("a.json", b"[" * 100000, "a.json: "),
        ("a.json", b"[]", "a.json: a sweep is a table of keys and values, not []"),
        ("a.json", b"null", "not None"),
        ("a.json", b"", "a.json: Expecting value"),
        ("a.json", b'{"algorithms": "VPG", "envs": "CartPole-v1", "total_steps": NaN}', "total_steps = nan"),
        ("a.yaml", b"", "ends in .toml or .json"),
    ],
)
def test_a_sweep_file_that_is_none(name, content, message, run):
    Path(name).write_bytes(content)
    code, out, err = run(f"sweep {name}")
    assert code == 2 and out == "" and message in err and "Traceback" not in err and not Path("runs").exists()


def test_a_sweep_file_with_a_byte_order_mark(run, monkeypatch):
    seen = []
    monkeypatch.setattr(cli, "sweep", lambda jobs, *_, **__: seen.extend(jobs) or Report())
    plan = {"algorithms": "VPG", "envs": "CartPole-v1, Acrobot-v1", "total_steps": 5}
    Path("a.json").write_text(json.dumps(plan), encoding="utf-8-sig")
    assert run("sweep a.json --set hidden_sizes=8,8x8")[:2] == (0, "")
    assert {job.env for job in seen} == {"CartPole-v1", "Acrobot-v1"}
    assert {job.algorithm.hidden_sizes for job in seen} == {(8,), (8, 8)}


def test_evaluate_is_that_of_the_package_and_compare_counts(run):
    run(f"train VPG --env CartPole-v1 {SMALL} --seeds 0-3 --gamma 0.9,0.99")
    code, out, _ = run("evaluate runs --episodes 5 --seed 7 --json")
    rows = json.loads(out)
    assert code == 0 and len(rows) == 8
    assert rows[5]["returns"] == evaluate(load_run(rows[5]["run"]).policy(0), "CartPole-v1", episodes=5, seed=7).tolist()
    code, out, _ = run("compare runs --threshold 5 --json")
    rows = json.loads(out)
    loaded = [load_run(path) for path in find_runs("runs")]
    finals = sorted(one.history["mean_return"][0, -1] for one in loaded if one.algorithm.gamma == 0.9)
    first = rows[0]
    assert [row["runs"] for row in rows] == [4, 4] and len(finals) == 4
    assert first["return"] == pytest.approx(np.mean(finals[1:3])) and first["low"] <= first["return"] <= first["high"]
    assert first["reached"] == "4 of 4" and first["steps"] in (64, 96, 128)
    assert json.loads(run(f"compare runs ./runs {Path.cwd() / 'runs'} --threshold 5 --json")[1]) == rows, "each run counts once"
    code, out, err = run("compare runs --threshold 400")
    assert code == 0 and "0 of 4" in out and err == "" and out.splitlines()[0].split()[:3] == ["env", "algorithm", "setting"]


def test_a_run_that_never_arrives_counts_in_the_median():
    def steps(*arrivals):
        rows = [{"return": 1.0, "threshold": 9.0, "seconds": 1.0, "steps_to_threshold": one} for one in arrivals]
        row = cli.compared("env", "PPO", "default", rows)
        return row["reached"], row["steps"]

    assert steps(100, None, 300) == ("2 of 3", 300.0)
    assert steps(100, None, None) == ("1 of 3", None)


def test_unfinished_runs_are_left_out(run):
    run(f"train VPG --env CartPole-v1 {SMALL} --seeds 0-1")
    first, second = find_runs("runs")
    (second / "config.json").write_text(json.dumps(read_config(second) | {"finished": False}), encoding="utf-8")
    code, out, err = run("compare runs --json")
    assert code == 0 and json.loads(out)[0]["runs"] == 1 and json.loads(out)[0]["low"] is None and "left out" in err
    code, _, err = run(f"evaluate {second}")
    assert code == 1 and "not finished. Go on with the command in its config.json and --resume" in err


MY_TASK = """
import gymnasium
from gymnasium.spaces import Box, Discrete

class Task(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (1,)), Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        print("a step of its own")
        return self.observation_space.sample(), 1.0, SAYS, False, {}

gymnasium.register("MyTask-v0", Task)
"""


CONSOLE_SCRIPT = "import sys; from rlcourse.experiments.cli import main; sys.exit(main())"


@pytest.mark.parametrize("program", [["-m", "rlcourse"], ["-c", CONSOLE_SCRIPT]])
def test_a_module_of_ones_own_is_found_and_does_not_print_into_the_answer(program, tmp_path):
    """As from a shell, by either name of the program (the second is what a console script is)."""
    (tmp_path / "my_module.py").write_text(MY_TASK.replace("SAYS", "True"), encoding="utf-8")
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", PYTHONSAFEPATH="" if "-m" in program else "1")
    line = f"train VPG --env my_module:MyTask-v0 {SMALL} --json --seeds 0-1 --processes {1 + ('-m' in program)}"
    command = [sys.executable, *program, *line.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0 and len(json.loads(done.stdout)) == 2 and b"a step of its own" in done.stderr, done.stderr


def test_an_episode_without_end_is_given_up(run, tmp_path, monkeypatch):
    (tmp_path / "endless.py").write_text(MY_TASK.replace("SAYS", "False").replace("MyTask", "Endless"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert run(f"train VPG --env endless:Endless-v0 {SMALL}")[0] == 0
    code, out, err = run("evaluate runs --episodes 2 --max-steps 30")
    assert code == 1 and out == "" and "2 of 2 episodes on endless:Endless-v0 still going on after max_steps = 30" in err


def test_a_training_without_survivors_has_failed(run):
    code, out, err = run(f"train PPO --env CartPole-v1 {SMALL} --num-minibatches 2 --learning-rate 1e38 --json")
    assert code == 1 and "not finite" in json.loads(out)[0]["failed"] and "no run is left" in err


def test_the_same_seed_of_two_experiments_is_not_two_seeds(run):
    for name in ("a", "b"):
        run(f"train VPG --env CartPole-v1 {SMALL} --seeds 0-1 --exp-name {name}")
    rows = json.loads(run("compare runs --json")[1])
    assert [(row["experiment"], row["runs"]) for row in rows] == [(str(Path("runs/a")), 2), (str(Path("runs/b")), 2)]
    assert "experiment" in run("compare runs")[1] and "experiment" not in run("compare runs/a")[1]


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_closed_stream_is_no_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warnings.showwarning", None)
    with monkeypatch.context() as patch:
        patch.setattr(sys, name, None)  # what Python makes of `>&-`
        assert cli.main(["train", "VPG", "--env", "CartPole-v1", *SMALL.replace("--no-progress", "").split()]) == 0
        getattr(sys, name).close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_complaints_that_cannot_be_written_end_nothing(tmp_path):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "rlcourse", *f"train VPG --env CartPole-v1 {SMALL} --progress --json".split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=full)
    assert done.returncode == 0 and json.loads(done.stdout)[0]["finished"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")
def test_a_terminal_that_is_closed_stops_and_saves(tmp_path):
    import pty

    ours, theirs = pty.openpty()
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "rlcourse", *"train VPG --env CartPole-v1 --total-steps 100000000 --every 0".split()]
    heed = lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)  # noqa: E731  also if the tests run under nohup
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **streams, preexec_fn=heed) as process:
        os.close(theirs)
        while process.poll() is None and not list(tmp_path.glob("runs/default/*.checkpoint")):
            time.sleep(0.02)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
    assert process.returncode == 128 + signal.SIGHUP and not list(tmp_path.rglob("*.part"))


def test_letters_that_an_encoding_lacks_are_escaped(tmp_path):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    command = [sys.executable, "-m", "rlcourse", "train", "PPO", "--env", "CartPole-v1", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0 and b"integer \\u2265 1" in done.stdout and done.stderr == b""


def test_an_error_that_nobody_foresaw_is_one_line(run, monkeypatch):
    monkeypatch.setattr(cli, "expanded", lambda paths: {}["boom"])
    code, out, err = run("evaluate x")
    assert code == 1 and out == "" and re.fullmatch(r"rlcourse: error: KeyError: 'boom' \(test_cli.py, line \d+\). No.*\n", err)


def test_json_has_no_nan(run):
    out = run(f"train VPG --env Pendulum-v1 {SMALL} --json")[1]
    assert "NaN" not in out and json.loads(out)[0]["return"] is None


def test_films(run):
    run(f"train VPG --env CartPole-v1 {SMALL}")
    (folder,) = find_runs("runs")
    code, out, _ = run(f"watch {folder} --video a.gif --max-steps 8 --json")
    assert code == 0 and json.loads(out)[0]["ending"] == "stopped after 8 steps"
    with Image.open("a.gif") as gif:
        assert 2 <= gif.n_frames <= 5  # of nine pictures every second; equal ones are one
    for video, message in (("a.avi", "ends in .gif or .mp4"), ("no/a.gif", "no folder 'no'")):
        code, _, err = run(f"watch {folder} --video {video}")
        assert code == 1 and message in err
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        code, _, err = run(f"watch {folder} --video a.mp4")
        assert code == 1 and "pip install imageio-ffmpeg. A GIF needs nothing" in err
    else:
        assert run(f"watch {folder} --video a.mp4 --max-steps 3")[0] == 0 and Path("a.mp4").read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    "render, message",
    [
        ("return None", "render() gave None; expected an array (height, width, 3)"),
        ("return [1, 2, 3]", "render() gave [1, 2, 3]; expected an array"),
        ("raise RuntimeError('no paint')", "render() of the environment raised RuntimeError: no paint (film"),
    ],
)
def test_an_environment_that_draws_badly(render, message, run, tmp_path, monkeypatch):
    name = f"film{abs(hash(render))}"
    draws = f"""metadata = {{"render_modes": ["rgb_array"]}}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        {render}

    def reset"""
    text = MY_TASK.replace("SAYS", "True").replace("MyTask", name).replace("def reset", draws)
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert run(f"train VPG --env {name}:{name}-v0 {SMALL}")[0] == 0
    code, _, err = run(f"watch {find_runs('runs')[0]} --video a.gif")
    assert code == 1 and message in err and not Path("a.gif").exists()


def test_a_window_needs_a_display(run, monkeypatch):
    run(f"train VPG --env CartPole-v1 {SMALL}")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    code, _, err = run(f"watch {find_runs('runs')[0]} --window --max-steps 3")
    assert code == 1 and "no display to open a window on. Write a file" in err


def test_a_sweep_that_partly_fails_says_so_and_keeps_the_rest(run, monkeypatch):
    monkeypatch.setattr(cli, "sweep", lambda jobs, where, **options: real(jobs, where, executor=AtOnce(), progress=False))
    line = "sweep --algorithms VPG --envs CartPole-v1,Blackjack-v1 --seeds 0-1 --total-steps 64"
    code, out, err = run(f"{line} --set num_steps=16 --set hidden-sizes=8x8 --json")
    assert code == 1 and len(json.loads(out)) == 2 and "failed twice: VPG on Blackjack-v1" in err and "1 jobs failed" in err
    assert read_config(json.loads(out)[0]["run"])["settings"]["hidden_sizes"] == [8, 8]


real = cli.sweep


class AtOnce:
    def submit(self, function, *arguments):
        future = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_ctrl_c_saves_and_the_same_command_with_resume_goes_on(tmp_path):
    """In a process of its own, as from a shell: exit code 130, nothing on stdout, no traceback."""
    line = "train VPG --env CartPole-v1 --total-steps 100000000 --seeds 0-1 --every 0"
    environment = dict(os.environ, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "rlcourse", *shlex.split(line)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while process.poll() is None and not list(tmp_path.glob("runs/default/*.checkpoint")):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = (text.decode() for text in process.communicate())
    assert process.returncode == 130 and out == "" and "Traceback" not in err
    assert "rlcourse: stopped after" in err and "To go on: the same once more, with resume (--resume)" in err
    assert not list(tmp_path.rglob("*.part"))
