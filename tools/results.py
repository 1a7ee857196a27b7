"""Train every algorithm on every task, and write what came of it: docs/results.md and figures/results.png.

    python tools/results.py                 train what is missing in runs/results, then write
    python tools/results.py --seeds 3       fewer seeds (10)
    python tools/results.py --robots        HalfCheetah and Hopper as well, a million steps each (hours; needs the mujoco extra)
    python tools/results.py --write         only write, from the run folders that are there

The page is made from run folders alone; whoever has them can make it again. Settings are the recommended ones, and the defaults
of the algorithm where there are none: what is compared is then also how well somebody has searched for settings.
"""

import argparse
import sys
from datetime import date
from pathlib import Path

import numpy as np

if __package__ in (None, ""):  # started as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rlcourse.classroom.figures import LINESTYLES, PALETTE, new_figure, show
from rlcourse.experiments.cli import compared, outcome
from rlcourse.experiments.storage import find_runs, read_config, read_history
from rlcourse.experiments.sweep import grid, sweep

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs" / "results"
ALGORITHMS = ("VPG", "A2C", "TRPO", "PPO")
TASKS = {"CartPole-v1": (150_000, 475.0), "Acrobot-v1": (100_000, -100.0), "Pendulum-v1": (150_000, -200.0)}  # steps, threshold
ROBOTS = {"HalfCheetah-v5": (1_000_000, None), "Hopper-v5": (1_000_000, None)}
PUBLISHED = {  # task → (algorithm, value, steps, source)
    "CartPole-v1": [("A2C", "500", "500k", "zoo"), ("TRPO", "500", "100k", "zoo"), ("PPO", "500", "100k", "zoo"),
                    ("PPO", "488.75 ± 18.40", "500k", "cleanrl")],
    "Acrobot-v1": [("A2C", "−83.4", "500k", "zoo"), ("TRPO", "−83.1", "100k", "zoo"), ("PPO", "−73.5", "1M", "zoo"),
                   ("PPO", "−82.48 ± 5.93", "500k", "cleanrl")],
    "Pendulum-v1": [("A2C", "−163.0", "1M", "zoo"), ("TRPO", "−174.6", "100k", "zoo"), ("PPO", "−172.2", "100k", "zoo")],
    "HalfCheetah-v5": [("A2C", "3041 (v3)", "1M", "zoo"), ("TRPO", "1785 (v3)", "1M", "zoo"), ("PPO", "5819 (v3)", "1M", "zoo")],
    "Hopper-v5": [("A2C", "733 (v3)", "1M", "zoo"), ("TRPO", "3618 (v3)", "1M", "zoo"), ("PPO", "2410 (v3)", "1M", "zoo")],
}  # fmt: skip
SOURCES = {
    "zoo": "[RL Zoo, table of trained agents](https://github.com/DLR-RM/rl-baselines3-zoo/blob/0088472b8cb622732bdbc4aa3d0d0abde86c67ed/benchmark.md):"
    " one run each, the *trained agent* acting without noise",
    "cleanrl": "[CleanRL, page on PPO, table of `ppo.py`](https://github.com/vwxyzjn/cleanrl/blob/04d2c4794d091bf23b2e38641aa80f9b776cbcfd/docs/rl-algorithms/ppo.md):"
    " mean and spread of several runs; the steps are the default of the script",
}  # fmt: skip


INTRODUCTION = """\
Made by `python tools/results.py` on {today} from the run folders that it keeps in `runs/results`; torch {torch}, Gymnasium
{gymnasium}. Every number is over seeds 0, 1, 2, …; no run is left out.

- **Return**: mean of the last 100 training episodes of a run, with its noise; interquartile mean over the runs, with a 95 %
  bootstrap interval.
- **Median steps**: environment steps until that mean first reaches the threshold, median over *all* runs. A run that never gets
  there counts as ∞; – if that is half of them or more.
- **Seconds**: of training all seeds of a row together, on one core of the machine that did it.
- **Settings**: *recommended* are those of the lessons. *default* was not tuned for its task.
"""


def collected(folder):
    """(algorithm, task) → (row as `rlcourse compare` makes it, steps (k,), returns (seeds, k), versions)."""
    groups = {}
    for run in find_runs(folder):
        config = read_config(run)
        if config["finished"]:
            groups.setdefault((config["algorithm"], config["env"]), []).append((run, config))
    found = {}
    for (algorithm, task), runs in groups.items():
        outcomes = [outcome(run, (TASKS | ROBOTS)[task][1]) for run, _ in runs]
        histories = [read_history(run) for run, _ in runs]
        summary = compared(task, algorithm, runs[0][1]["setting"], outcomes)
        returns = np.array([history["mean_return"] for history in histories])
        found[algorithm, task] = summary, histories[0]["env_steps"], returns, runs[0][1]["versions"]
    return found


def number(value, digits=1):
    return "–" if value is None else f"{value:,.{digits}f}".replace("-", "−")


def row(summary, steps):
    """One line of the table."""
    cells = [summary["algorithm"], summary["setting"], str(summary["runs"]), number(steps[-1], 0)]
    cells += [f"**{number(summary['return'])}**", f"{number(summary['low'])} to {number(summary['high'])}"]
    cells += [summary["reached"] or "", number(summary["steps"], 0) if summary["reached"] else "", number(summary["seconds"], 0)]
    return "| " + " | ".join(cells) + " |"


def page(found):
    """The page as text."""
    *_, versions = next(iter(found.values()))
    yield "# Results"
    yield ""
    yield INTRODUCTION.format(today=date.today(), torch=versions["torch"], gymnasium=versions["gymnasium"])
    yield "![Learning curves of the algorithms on the tasks below](../figures/results.png)"
    for task, (_, threshold) in (TASKS | ROBOTS).items():
        rows = [found[algorithm, task] for algorithm in ALGORITHMS if (algorithm, task) in found]
        if not rows:
            continue
        goal = "" if threshold is None else f" (threshold {number(threshold)})"
        yield from ("", f"## {task}{goal}", "")
        yield "| algorithm | settings | runs | steps | return | 95 % interval | reached | median steps | seconds |"
        yield "|---|---|---|---|---|---|---|---|---|"
        yield from (row(summary, steps) for summary, steps, *_ in rows)
        yield ""
        yield "Published elsewhere: " + "; ".join(
            f"{algorithm} {value} after {steps} steps ({source})" for algorithm, value, steps, source in PUBLISHED[task]
        ) + "."  # fmt: skip
    yield from ("", "## Beside published numbers", "")
    yield "They were measured in another way, so they say that ours are in the right region, and no more."
    yield ""
    yield from (f"- *{name}*: {text}." for name, text in SOURCES.items())
    missing = [task for task in ROBOTS if not any(key[1] == task for key in found)]
    if missing:
        yield from ("", f"Not in these run folders: {', '.join(missing)} (`--robots`). Lesson 06 has stored runs of HalfCheetah.")


def figure(found):
    tasks = [task for task in TASKS | ROBOTS if any(key[1] == task for key in found)]
    fig, axes = new_figure(1, len(tasks), size=(9, 3.4))
    looks = dict(zip(ALGORITHMS, zip(("green", "orange", "vermillion", "blue"), LINESTYLES, strict=False), strict=True))
    for ax, task in zip(np.atleast_1d(axes), tasks, strict=True):
        for algorithm, (colour, dashes) in looks.items():
            if (algorithm, task) in found:
                _, steps, returns, _ = found[algorithm, task]
                seen = np.isfinite(returns).all(0)
                low, middle, high = np.quantile(returns[:, seen], [0.25, 0.5, 0.75], axis=0)
                steps = steps[seen] / 1000
                ax.fill_between(steps, low, high, color=PALETTE[colour], alpha=0.2, linewidth=0)
                ax.plot(steps, middle, color=PALETTE[colour], linestyle=dashes, label=algorithm)
        ax.set(title=task, xlabel="thousand steps")
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("mean of the last 100 episodes")
    fig.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=len(ALGORITHMS))
    return show(fig, alt="Learning curves of four algorithms on each task: the median run and the middle half of the runs.")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train every algorithm on every task, and write docs/results.md.")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--robots", action="store_true", help="HalfCheetah and Hopper as well (hours)")
    parser.add_argument("--write", action="store_true", help="only write")
    args = parser.parse_args(arguments)
    if not args.write:
        tasks = TASKS | (ROBOTS if args.robots else {})
        steps = {task: number for task, (number, _) in tasks.items()}
        report = sweep(grid(ALGORITHMS, list(tasks), range(args.seeds), steps), RUNS)
        for job, reason in report.failed.items():
            print(f"failed: {job}: {reason}", file=sys.stderr)
    found = collected(RUNS)
    if not found:
        sys.exit(f"results: no finished run in {RUNS.relative_to(ROOT)}; start without --write.")
    (ROOT / "docs" / "results.md").write_text("\n".join(page(found)) + "\n", encoding="utf-8", newline="\n")
    (ROOT / "figures" / "results.png").write_bytes(figure(found).png)
    print("written: docs/results.md, figures/results.png")


if __name__ == "__main__":
    main()
