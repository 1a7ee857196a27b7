"""The command line: python -m rlcourse train | evaluate | watch | compare | export | sweep. See docs/command_line.md.

Results go to stdout, progress and complaints to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C.
"""

import contextlib
import dataclasses
import difflib
import inspect
import json
import math
import os
import re
import sys
import time
import tomllib
import warnings
from functools import cache
from pathlib import Path

import click
import gymnasium
import numpy as np

from rlcourse.agents.training import ALGORITHMS, evaluate
from rlcourse.experiments import distributed, event_files, storage
from rlcourse.experiments.film import film
from rlcourse.experiments.statistics import bootstrap_interval, first_reaching, interquartile_mean
from rlcourse.experiments.sweep import base, grid, parse_seeds, read_plan, sweep
from rlcourse.worlds.make_env import told

INTERRUPTED = 130
AFTER_FIRST = 30.0  # seconds: when process 0 has complained, torchrun ends the others, but if they are faster, it ends process 0


def main(arguments=None) -> int:
    """Run a command; its exit code."""
    warnings.showwarning = lambda message, *_, **__: click.echo(f"rlcourse: warning: {message}", err=True)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _mend_streams()
    if "" not in sys.path:
        sys.path.append("")  # modules of one's own in this folder: `rlcourse` finds them as `python -m rlcourse` does
    with contextlib.redirect_stderr(Patient(sys.stderr)):
        return _run(arguments)


def _run(arguments):
    try:
        return commands.main(arguments, prog_name="rlcourse", standalone_mode=False, obj=arguments) or 0
    except click.ClickException as error:
        if _follows(arguments):
            time.sleep(AFTER_FIRST)
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        stopped = error if isinstance(error, storage.Stopped) else error.__cause__ or error.__context__
        if isinstance(stopped, storage.Stopped):
            if not _follows(arguments):
                click.echo(f"rlcourse: {stopped}", err=True)
            return 128 + stopped.signum
        click.echo("rlcourse: interrupted.", err=True)
        return INTERRUPTED
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _failed(f"{error.strerror}{where}" if error.strerror else error)
    except MemoryError as error:
        return _failed(f"not enough memory. Take fewer seeds at a time, or smaller --num-envs, --num-steps, networks. ({error})")
    except (ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, distributed.SaidByFirst):
            time.sleep(AFTER_FIRST)
        return _failed(error)
    except Exception as error:
        return _failed(f"{told(error)}. No check of ours foresaw this: please report it, with the command.")


def _failed(what):
    click.echo(f"rlcourse: error: {what}", err=True)
    return 1


def _mend_streams():
    """A closed stream becomes one that swallows everything; a letter that an encoding lacks is written as an escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class Patient:
    """A stream that drops what cannot be written: a closed terminal, or a full disk, must not end a training."""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        with contextlib.suppress(OSError):
            self.stream.write(text)
        return len(text)

    def flush(self):
        with contextlib.suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name):
        return getattr(self.stream, name)


def answer_apart():
    """Inside, what others print, an environment say, goes to stderr: stdout is for the answer."""
    return contextlib.redirect_stdout(sys.stderr)


def _follows(arguments):
    """Whether this is one of the processes of a data-parallel training, but not process 0, which says what all would say."""
    return os.environ.get("RANK", "0") != "0" and any(word.replace("_", "-") == "--data-parallel" for word in arguments)


# ------------------------------------------------------------------------------------------- options made from an algorithm


@cache
def descriptions(kind) -> dict[str, str]:
    """What the docstrings of an algorithm say of its fields: field → text. A docstring lists them as "name, name: text"."""
    names = [field.name for field in dataclasses.fields(kind)]
    one = "|".join(sorted(names, key=len, reverse=True))
    found = {}
    for parent in reversed(kind.__mro__):
        text = inspect.cleandoc(parent.__doc__ or "").partition("Args:\n")[2] if parent is not object else ""
        flat = " ".join(text.split())
        heads = list(re.finditer(rf"(?:^|(?<=[.;?] ))((?:{one})(?:, (?:{one}))*): ", flat))
        for head, after in zip(heads, [*heads[1:], None], strict=False):
            said = flat[head.end() : after.start() if after else None].strip().rstrip(".;")
            found |= dict.fromkeys(head[1].split(", "), said)
    return found


def allowed(field) -> str:
    """The range of a field in words: "integer ≥ 1", "in [0, 1]" …"""
    limits = field.metadata
    if "low" not in limits:
        return "widths such as 64,64" if field.name == "hidden_sizes" else ""
    low, high = (None if limits[end] is None else f"{limits[end]:g}" for end in ("low", "high"))
    if high is None:
        words = f"{'integer ' if limits['whole'] else ''}{'>' if limits['open_low'] else '≥'} {low}"
    else:
        words = f"in {'(' if limits['open_low'] else '['}{low}, {high}]"
    return words + (" or none" if limits["none"] else "")


def shown(value) -> str:
    """A value as it is typed."""
    if isinstance(value, tuple):
        return ",".join(map(shown, value))
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


class Value(click.ParamType):
    """A number, none, or several of them with commas between; what is allowed is checked by the algorithm."""

    name = "value"

    def __init__(self, several=False):
        self.several = several

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        numbers = tuple(self._number(piece.strip(), value, param, ctx) for piece in value.split(","))
        return numbers if len(numbers) > 1 or self.several else numbers[0]

    def _number(self, text, value, param, ctx):
        if text.lower() == "none":
            return None
        try:
            number = float(text)
        except ValueError:
            self.fail(f"{value!r} is no number" + (", nor several with commas between." if "," in value else "."), param, ctx)
        return int(number) if number.is_integer() and re.fullmatch(r"[+-]?[\d_]+", text) else number


class Place(click.Path):
    """A path. An empty one, such as that of a shell variable that is not set, would be the current folder."""

    def __init__(self):
        super().__init__(path_type=Path)

    def convert(self, value, param, ctx):
        if not str(value):
            self.fail("an empty path; for the current folder write a dot: .", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A finite number in a range; `whole`: an integer, which may also be written 1e5 or 100_000."""

    def __init__(self, low=None, high=None, whole=False):
        super().__init__(low, high)
        self.whole, self.name = whole, "integer" if whole else "number"

    def _describe_range(self):  # for --help, too
        if self.min is None:
            return ""
        return f"≥ {self.min}" if self.max is None else f"from {self.min} to {self.max:,}"

    def convert(self, value, param, ctx):
        try:
            number = self._read(value)
        except (ValueError, OverflowError):
            number = math.nan
        low, high = (-math.inf if self.min is None else self.min), (math.inf if self.max is None else self.max)
        if not (math.isfinite(number) and low <= number <= high):
            kind = f"an {self.name}" if self.whole else f"a {self.name}"
            self.fail(f"{value!r}: expected {kind}{' ' * (self.min is not None)}{self._describe_range()}.", param, ctx)
        return number

    def _read(self, value):
        try:
            return int(value) if self.whole else float(value)
        except ValueError:
            number = float(value)
            return int(number) if number.is_integer() else math.nan


def option_for(field, value, text) -> click.Option:
    """The option of one field. value: what holds without it. text: what it is."""
    flag = "--" + field.name.replace("_", "-")
    limits, kind = allowed(field), Value(field.name == "hidden_sizes")
    metavar = "INTEGER" if field.metadata.get("whole") else "NUMBER[,…]" if field.metadata.get("per_run") else "NUMBER"
    if field.metadata.get("switch"):
        now = flag if value else f"--no-{flag[2:]}"
        return click.Option([f"{flag}/--no-{flag[2:]}"], default=None, help=f"{text}  [default: {now}]")
    if "options" in field.metadata:
        words = click.Choice(field.metadata["options"])
        return click.Option([flag], type=words, default=None, help=f"{text}  [default: {value}]")
    metavar = "WIDTHS" if field.name == "hidden_sizes" else metavar
    return click.Option([flag], type=kind, default=None, metavar=metavar, help=f"{text}  [{limits}; default: {shown(value)}]")


# ----------------------------------------------------------------------------------------------------------------- train

COMMON = [
    click.Option(["--env"], required=True, metavar="ID", help='Gymnasium id; "my_module:MyTask-v0" imports my_module first.'),
    click.Option(["--total-steps"], type=Number(1, whole=True), help="Environment steps of each run.  [default: 100000]"),
    click.Option(["--seeds", "--seed"], default="0", show_default=True, help="One run per seed: 3, or 0-9, or 0-4,7."),
    click.Option(["--exp-name"], default="default", show_default=True, help="Name of the experiment, a folder in --folder."),
    click.Option(["--folder"], default="runs", show_default=True, type=Place(),
                 help="Folder of all experiments."),
    click.Option(["--resume"], is_flag=True, help="Go on from the last checkpoint, or with a larger --total-steps."),
    click.Option(["--every"], type=Number(0), default=30.0, show_default=True, help="Seconds between checkpoints."),
    click.Option(["--processes", "--cpu"], type=Number(1, whole=True), default=1, show_default=True,
                 help="Spread the seeds over so many processes."),
    click.Option(["--data-parallel"], is_flag=True,
                 help="Under torchrun: its processes train one run together, --num-envs / processes each."),
    click.Option(["--timeout"], type=Number(1), default=distributed.TIMEOUT, show_default=True,
                 help="With --data-parallel: seconds to wait for another process."),
    click.Option(["--batched/--no-batched"], default=True, show_default=True,
                 help="Use the package's batched twin of the environment where there is one, or Gymnasium's own code."),
    click.Option(["--progress/--no-progress"], default=True, show_default=True, help="Show a progress bar on stderr."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."),
]  # fmt: skip
ALIASES = [
    click.Option(["--hid"], type=Number(1, whole=True), help="With --l: width of the hidden layers, as in Spinning Up."),
    click.Option(["--l"], type=Number(1, whole=True), help="With --hid: number of hidden layers.  [default: 2]"),
    click.Option(["--steps"], type=Number(1, whole=True), help="Steps of one update in all environments: sets --num-steps."),
    click.Option(["--epochs"], type=Number(1, whole=True), help="Number of updates: sets --total-steps."),
]


class AlgorithmCommand(click.Command):
    """`train PPO`: its options are the fields of PPO, with the defaults that hold for the --env that is given."""

    def __init__(self, name):
        self.kind = ALGORITHMS[name]
        summary = sys.modules[self.kind.__module__].__doc__.partition("\n")[0]
        super().__init__(name, callback=self.run, help=f"Train {name}.\n\n{summary}", short_help=f"Train {name}.",
                         params=[*COMMON, *ALIASES])  # fmt: skip
        self.fields = dataclasses.fields(self.kind)

    def parse_args(self, ctx, args):
        words = re.findall(r"(?:^|\n)--env[=\n](.*)", "\n".join(args))  # before the others are read: it decides their defaults
        ctx.meta["base"] = base(self.name, words[-1] if words else "")
        return super().parse_args(ctx, args)

    def get_params(self, ctx):
        now = ctx.meta.get("base") or self.kind()
        text = descriptions(self.kind)
        own = [option_for(field, getattr(now, field.name), text.get(field.name, "")) for field in self.fields]
        return [*self.params, *own, self.get_help_option(ctx)]

    def format_options(self, ctx, formatter):
        own = {field.name for field in self.fields}
        groups = {"Options": COMMON, "Other names, as in Spinning Up": ALIASES}
        parameters = self.get_params(ctx)
        groups[f"Settings of {self.name}"] = [one for one in parameters if one.name in own]
        for title, options in groups.items():
            with formatter.section(title):
                formatter.write_dl([record for one in options if (record := one.get_help_record(ctx))])

    def run(
        self, env, total_steps, seeds, exp_name, folder, resume, every, processes, data_parallel, timeout, batched, progress,
        as_json, **fields,
    ):  # fmt: skip
        algorithm = self.settings(click.get_current_context().meta["base"], fields)
        size = algorithm.num_envs * algorithm.num_steps
        if fields["epochs"] and total_steps:
            raise click.UsageError("--epochs and --total-steps say the same; give one of them.")
        total_steps = fields["epochs"] * size if fields["epochs"] else total_steps or 100_000
        seeds = usage(parse_seeds, seeds)
        command = ["rlcourse", *click.get_current_context().find_root().obj]
        what = {"every": every, "progress": progress, "command": command}
        where = folder / experiment_name(exp_name)
        with answer_apart():
            if data_parallel:
                if len(seeds) > 1 or processes > 1:
                    raise click.UsageError("--data-parallel trains one run: one --seed, no --processes.")
                how = {"seed": seeds[0], "resume": resume, "batched": batched, "timeout": timeout}
                folders = distributed.train_in_folder(where, algorithm, env, total_steps=total_steps, **how, **what)
            elif was_typed("timeout"):
                raise click.UsageError("--timeout goes with --data-parallel.")
            elif processes == 1:
                folders = storage.train_in_folder(
                    where, algorithm, env, total_steps=total_steps, seeds=seeds, resume=resume, batched=batched, **what
                )
            else:
                name = storage.label(algorithm, env)
                given = {name: {field.name: getattr(algorithm, field.name) for field in self.fields}}
                jobs = grid([self.name], [env], seeds, total_steps, given, -(-len(seeds) // processes), batched)
                report = sweep(jobs, where, processes=processes, **what)
                folders = checked(report).folders
        if folders:
            show_trained(folders, as_json)

    def settings(self, now, fields):
        """The base settings with what was typed put in."""
        names = [field.name for field in self.fields]
        typed = {name: fields[name] for name in names if fields[name] is not None or was_typed(name)}
        if fields["l"] and not fields["hid"]:
            raise click.UsageError("--l is the number of layers of width --hid; give --hid, too.")
        if fields["hid"]:
            if "hidden_sizes" in typed:
                raise click.UsageError("--hid and --hidden-sizes say the same; give one of them.")
            typed["hidden_sizes"] = (fields["hid"],) * (fields["l"] or 2)
        if fields["steps"]:
            num_envs = typed.get("num_envs", now.num_envs)
            if "num_steps" in typed:
                raise click.UsageError("--steps and --num-steps say the same; give one of them.")
            if fields["steps"] % num_envs:
                raise click.UsageError(f"--steps {fields['steps']} cannot be shared by {num_envs} environments (--num-envs).")
            typed["num_steps"] = fields["steps"] // num_envs
        return usage(lambda: dataclasses.replace(now, **typed))


def was_typed(name):
    """Whether somebody typed an option: "none" is not the same as leaving it out."""
    return click.get_current_context().get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def usage(function, *arguments):
    """Call a function; its complaints are about what was typed."""
    try:
        return function(*arguments)
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def experiment_name(name):
    if storage.safe_name(name) != name or name in (".", "..") or not name:
        raise click.UsageError(f"--exp-name {name!r}: at most 90 letters, digits, . _ = , + -; it becomes the name of a folder.")
    return name


class Suggesting(click.Group):
    """A group whose commands may be typed in any case."""

    def get_command(self, ctx, name):
        plain = lambda word: re.sub("[-_]", "", word).lower()  # noqa: E731
        return next((command for word, command in self.commands.items() if plain(word) == plain(name)), None)

    def resolve_command(self, ctx, args):
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0].lower(), {word.lower(): word for word in self.commands}, 1, 0.5)
            hint = f" Did you mean {next(word for word in self.commands if word.lower() == near[0])}?" if near else ""
            raise click.UsageError(f"there is no {args[0]!r} here.{hint} There are: {', '.join(self.commands)}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Suggesting, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110,
                                               "token_normalize_func": lambda word: word.replace("_", "-")})  # fmt: skip
@click.version_option(storage.versions()["rlcourse"], package_name="rlcourse", prog_name="rlcourse")
def commands():
    """Train, evaluate, watch, compare and export policy-gradient agents. Options take - or _ in their names."""


@commands.group("train", cls=Suggesting)
def train_group():
    """Train an algorithm: rlcourse train PPO --env CartPole-v1 --seeds 0-4

    rlcourse train PPO --env CartPole-v1 --help shows all settings with their ranges and the defaults for that environment.
    """


for _name in ALGORITHMS:
    train_group.add_command(AlgorithmCommand(_name))


# ------------------------------------------------------------------------------------------------ what is done with runs


def runs_argument(function):
    return click.argument("runs", nargs=-1, required=True, type=Place(), metavar="RUN...")(function)


def expanded(paths):
    """The run folders at or below the given paths, each once, in whatever ways it was named."""
    return list({run.resolve(): run for path in paths for run in storage.find_runs(path)}.values())


def finished(paths):
    """The finished ones of these runs; the others are named.

    Raises:
        FileNotFoundError: there are none.
    """
    runs = {run: storage.read_config(run)["finished"] for run in expanded(paths)}
    for run in [run for run, done in runs.items() if not done]:
        click.echo(f"rlcourse: left out, not finished: {run}", err=True)
    if not any(runs.values()):
        raise FileNotFoundError("none of these runs is finished.")
    return [run for run, done in runs.items() if done]


@commands.command("evaluate")
@runs_argument
@click.option("--episodes", type=Number(1, 1_000_000, whole=True), default=100, show_default=True,
              help="Fresh ones, all played to their ends.")
@click.option("--seed", type=Number(0, whole=True), default=0, show_default=True, help="Of the episodes and the actions.")
@click.option("--deterministic", is_flag=True, help="Act with the most probable action instead of sampling.")
@click.option("--max-steps", type=Number(1, whole=True), default=100_000, show_default=True,
              help="Refuse to play an episode for longer.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with every return.")
def evaluate_command(runs, episodes, seed, deterministic, max_steps, as_json):
    """Play fresh episodes with trained policies. RUN: run folders, or folders of them."""
    rows = []
    for run in expanded(runs):
        result = storage.load_run(run)
        how = {"episodes": episodes, "seed": seed, "deterministic": deterministic, "max_steps": max_steps}
        with answer_apart():
            returns = evaluate(result.policy(0), result.env, **how)
        numbers = {"mean": returns.mean(), "sd": returns.std(), "lowest": returns.min(), "highest": returns.max()}
        rows.append({"run": str(run), "episodes": episodes, **{name: float(value) for name, value in numbers.items()}})
        if as_json:
            rows[-1]["returns"] = returns.tolist()
    show(rows, as_json)


@commands.command("watch")
@click.argument("run", type=Place())
@click.option("--video", type=Place(), help="Write a film: x.gif, or x.mp4 with imageio-ffmpeg.")
@click.option("--window", is_flag=True, help="Open a window.")
@click.option("--seed", type=Number(0, whole=True), default=0, show_default=True, help="Of the episode and the actions.")
@click.option("--deterministic", is_flag=True, help="Act with the most probable action instead of sampling.")
@click.option("--max-steps", type=Number(1, whole=True), default=2000, show_default=True, help="Stop there.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def watch_command(run, video, window, seed, deterministic, max_steps, as_json):
    """Watch one episode of a trained policy."""
    if window == (video is not None):
        raise click.UsageError("say where: --video film.gif, or --window.")
    result = storage.load_run(run)
    with answer_apart():
        total, length, ending = film(
            result.policy(0), result.env, video, seed=seed, deterministic=deterministic, max_steps=max_steps
        )
    row = {"run": str(run), "return": total, "steps": length, "ending": ending}
    show([row | ({"video": str(video)} if video else {})], as_json)


@commands.command("compare")
@runs_argument
@click.option("--threshold", type=Number(), help="A return to be reached.  [default: the environment's own, if it has one]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def compare_command(runs, threshold, as_json):
    """Compare settings over their seeds, those of each experiment apart. RUN: run folders, or folders of them.

    return: mean return at the end of training, interquartile mean over the seeds with a 95 % bootstrap interval.
    steps: environment steps until the threshold is first reached, median over all runs; none if half of them or more never do.
    seconds: of training, for all seeds that were trained together.
    """
    groups, runs = {}, finished(runs)
    several = len({run.parent.resolve() for run in runs}) > 1
    for run in runs:
        row = outcome(run, threshold)
        experiment = str(run.parent) if several else ""  # the same seed of two experiments is not two seeds
        groups.setdefault((row["env"], row["algorithm"], row["setting"], experiment), []).append(row)
    show([compared(*key[:3], rows) | {"experiment": key[3] or None} for key, rows in sorted(groups.items())], as_json)


def compared(env, algorithm, setting, rows):
    """One row of the table: several runs of one setting."""
    scores = np.array([row["return"] for row in rows])
    failed = int(np.isnan(scores).sum())
    scores = scores[~np.isnan(scores)]
    low = high = None
    if len(scores) > 1:
        low, high = bootstrap_interval(interquartile_mean, scores, rng=np.random.default_rng(0))
    arrival = np.array([np.inf if row["steps_to_threshold"] is None else row["steps_to_threshold"] for row in rows])
    middle = np.median(arrival)  # a run that never gets there counts, or failing would be rewarded
    return {
        "env": env,
        "algorithm": algorithm,
        "setting": setting,
        "runs": len(rows),
        "failed": failed,
        "return": float(interquartile_mean(scores)) if len(scores) else None,
        "low": low,
        "high": high,
        "threshold": rows[0]["threshold"],
        "reached": f"{np.isfinite(arrival).sum()} of {len(rows)}" if rows[0]["threshold"] is not None else None,
        "steps": float(middle) if np.isfinite(middle) else None,
        "seconds": float(np.mean([row["seconds"] for row in rows])),
    }


def outcome(path, threshold=None):
    """What came of one run, from its folder."""
    config = storage.read_config(path)
    facts = {"run": str(path), "env": config["env"], "algorithm": config["algorithm"], "setting": config["setting"]}
    facts |= {"seed": config["seeds"][0], "finished": config["finished"]}
    if not config["finished"]:
        return facts
    history = storage.read_history(path)
    threshold = own_threshold(config["env"]) if threshold is None else threshold
    arrival = np.inf if threshold is None else first_reaching(history["env_steps"], history["mean_return"], threshold)
    return facts | {
        "return": float(history["mean_return"][-1]),
        "env_steps": int(history["env_steps"][-1]),
        "seconds": float(history["seconds"][-1]),
        "threshold": threshold,
        "steps_to_threshold": int(arrival) if np.isfinite(arrival) else None,
        "failed": next(iter(config["failed"].values()), None),
    }


def own_threshold(env):
    spec = gymnasium.registry.get(env.rpartition(":")[2])
    return spec.reward_threshold if spec else None


@commands.command("export")
@runs_argument
@click.option("--tensorboard", "folder", required=True, type=Place(), metavar="FOLDER",
              help="Write event files; tensorboard --logdir FOLDER shows them.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def export_command(runs, folder, as_json):
    """Write finished runs for TensorBoard. RUN: run folders, or folders of them. What was exported of them before is replaced."""
    runs = finished(runs)
    files = event_files.export(runs, folder)
    show([{"run": str(run), "written": str(file)} for run, file in zip(runs, files, strict=True)], as_json)


# ----------------------------------------------------------------------------------------------------------------- sweep


@commands.command("sweep")
@click.argument("file", required=False, type=Place())
@click.option("--algorithms", metavar="NAMES", help="Such as VPG,PPO.")
@click.option("--envs", metavar="IDS", help="Such as CartPole-v1,Pendulum-v1.")
@click.option("--seeds", metavar="SEEDS", help="Such as 0-9.  [default: 0-4]")
@click.option("--total-steps", type=Number(1, whole=True), help="Environment steps of each run.")
@click.option("--set", "sets", multiple=True, metavar="FIELD=VALUES", help="Such as gamma=0.9,0.99; several are crossed.")
@click.option("--seeds-per-job", type=Number(1, whole=True), help="So many seeds are trained together.  [default: all]")
@click.option("--processes", "--cpu", type=Number(1, whole=True), help="How many.  [default: one per core]")
@click.option("--every", type=Number(0), default=30.0, show_default=True, help="Seconds between checkpoints.")
@click.option("--exp-name", help="Name of the experiment, a folder in --folder.  [default: that in the file, or sweep]")
@click.option("--folder", default="runs", show_default=True, type=Place(), help="Folder of all experiments.")
@click.option("--progress/--no-progress", default=True, show_default=True, help="Show a progress bar on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_context
def sweep_command(ctx, file, sets, processes, every, exp_name, folder, progress, as_json, **flags):
    """Train every algorithm on every environment with every setting, over all cores.

    From FILE (TOML or JSON), from flags, or from both: flags win. Keys of FILE: exp_name, algorithms, envs, seeds, total_steps,
    settings or grid, seeds_per_job, batched; docs/command_line.md shows one. Started again, it skips what is finished.
    """
    plan = usage(read_file, file) if file else {}
    plan |= {name: value for name, value in flags.items() if value is not None}
    for name in ("algorithms", "envs"):
        if isinstance(plan.get(name), str):
            plan[name] = [word.strip() for word in plan[name].split(",")]
    if sets:
        plan.pop("settings", None)
        plan["grid"] = usage(read_sets, sets)
    jobs, name = usage(read_plan, plan)
    where = folder / experiment_name(exp_name or name)
    command = ["rlcourse", *ctx.find_root().obj]
    with answer_apart():
        report = sweep(jobs, where, processes=processes, every=every, progress=progress, command=command)
    show_trained(report.folders, as_json)
    checked(report)


def read_file(path):
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}.")
    if path.suffix not in (".toml", ".json"):
        raise ValueError(f"{str(path)!r}: a sweep file ends in .toml or .json.")
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark in front
        plan = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(plan, dict):
        raise ValueError(f"{path}: a sweep is a table of keys and values, not {plan!r}.")
    return plan


def read_sets(sets):
    """("gamma=0.9,0.99",) → {"gamma": [0.9, 0.99]}; words, true and false stay what they are."""
    crossed = {}
    for text in sets:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"--set {text}: expected a field and its values, such as gamma=0.9,0.99.")
        name, found = name.strip().replace("-", "_"), [plain(value.strip()) for value in values.split(",")]
        if name in crossed:
            raise ValueError(f"--set {name} is there twice; give all its values at once, such as --set gamma=0.9,0.99.")
        crossed[name] = [[value] if name == "hidden_sizes" and isinstance(value, int) else value for value in found]
    return crossed


def plain(word):
    words = {"true": True, "false": False, "none": None}
    if word.lower() in words:
        return words[word.lower()]
    if "x" in word and word.replace("x", "").isdigit():  # 64x64: widths of hidden layers
        return [int(width) for width in word.split("x")]
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


def show_trained(folders, as_json):
    """What came of some runs; a failure where none of them is left."""
    rows = [outcome(path) for path in folders]
    show(rows, as_json)
    if rows and all(row["failed"] for row in rows):
        raise RuntimeError("no run is left: in each a number became infinite or NaN (failed says where). Try smaller steps.")


def checked(report):
    """A report without failures; else they are shown, and the command fails."""
    for job, why in report.failed.items():
        click.echo(f"rlcourse: failed twice: {job}: {why}", err=True)
    if report.failed:
        raise RuntimeError(f"{len(report.failed)} jobs failed; the others are kept. The same command tries these again.")
    return report


# ---------------------------------------------------------------------------------------------------------------- showing


def show(rows, as_json):
    """Rows (dicts of the same keys) on stdout: as JSON, or as a table without columns that are empty."""
    if as_json:
        click.echo(json.dumps(strict(rows), indent=1, ensure_ascii=False))
        return
    if not rows:
        return
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    names = [name for name in names if name not in ("finished",)]
    table = [names, *[[cell(row[name]) for name in names] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    numeric = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    for line in table:
        columns = zip(line, widths, numeric, strict=True)
        click.echo("  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in columns).rstrip())


def cell(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def strict(value):
    """The same for JSON, which knows no NaN: None there."""
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    if isinstance(value, list):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
