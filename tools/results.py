"""Train every algorithm on every task, and write what came of it: docs/results.md and figures/results.png.

    python tools/results.py                              train what is missing in runs/results, then write
    python tools/results.py CartPole-v1 Acrobot-v1       train these tasks only; the page shows all that is there
    python tools/results.py --write                      only write, from the run folders that are there

LunarLander needs the extra box2d, HalfCheetah and Hopper the extra mujoco; these three take hours. The page is made from run
folders alone; whoever has them can make it again. Settings are the recommended ones, and the defaults of the algorithm where
there are none: what is compared is then also how well somebody has searched for settings.
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
TASKS = {  # task → steps of a run, number of seeds, threshold (Gymnasium's; Pendulum has none, so ours)
    "CartPole-v1": (150_000, 10, 475.0),
    "Acrobot-v1": (100_000, 10, -100.0),
    "Pendulum-v1": (150_000, 10, -200.0),
    "LunarLander-v3": (300_000, 5, 200.0),
    "HalfCheetah-v5": (1_000_000, 5, 4800.0),
    "Hopper-v5": (1_000_000, 5, 3800.0),
}
PUBLISHED = {  # task → (algorithm, return, steps, source)
    "CartPole-v1": [("A2C", "500", "500k", "zoo"), ("TRPO", "500", "100k", "zoo"), ("PPO", "500", "100k", "zoo"),
                    ("PPO", "488.75 ± 18.40", "500k", "cleanrl")],
    "Acrobot-v1": [("A2C", "−83.4", "500k", "zoo"), ("TRPO", "−83.1", "100k", "zoo"), ("PPO", "−73.5", "1M", "zoo"),
                   ("PPO", "−82.48 ± 5.93", "500k", "cleanrl")],
    "Pendulum-v1": [("A2C", "−163.0", "1M", "zoo"), ("TRPO", "−174.6", "100k", "zoo"), ("PPO", "−172.2", "100k", "zoo")],
    "LunarLander-v3": [("A2C", "155.8 (v2)", "200k", "zoo"), ("TRPO", "133.2 (v2)", "200k", "zoo"),
                       ("PPO", "242.1 (v2)", "1M", "zoo")],
    "HalfCheetah-v5": [
        ("VPG", "≈ 600 (v3)", "3M", "spinningup"), ("A2C", "1,830 ± 1,068 (v3)", "1M", "tianshou"),
        ("A2C", "3,041 (v3)", "1M", "zoo"), ("A2C", "≈ 1,000 (v1)", "1M", "paper"),
        ("TRPO", "4,471 ± 805 (v3)", "1M", "tianshou"), ("TRPO", "1,785 (v3)", "1M", "zoo"),
        ("TRPO", "≈ 850 (v3)", "1M", "spinningup"), ("TRPO", "≈ 0 (v1)", "1M", "paper"),
        ("PPO", "5,784 ± 1,244 (v3)", "1M", "tianshou"), ("PPO", "5,819 (v3)", "1M", "zoo"),
        ("PPO", "≈ 1,670 (v3)", "1M", "spinningup"), ("PPO", "≈ 1,800 (v1)", "1M", "paper"),
        ("PPO", "1,442.64 ± 46.03 (v4)", "1M", "cleanrl"),
    ],
    "Hopper-v5": [
        ("VPG", "≈ 800 (v3)", "3M", "spinningup"), ("A2C", "1,253 ± 458 (v3)", "1M", "tianshou"),
        ("A2C", "733 (v3)", "1M", "zoo"), ("A2C", "≈ 900 (v1)", "1M", "paper"),
        ("TRPO", "2,046 ± 1,038 (v3)", "1M", "tianshou"), ("TRPO", "3,618 (v3)", "1M", "zoo"),
        ("TRPO", "≈ 1,200 (v3)", "1M", "spinningup"), ("TRPO", "≈ 2,100 (v1)", "1M", "paper"),
        ("PPO", "2,609 ± 701 (v3)", "1M", "tianshou"), ("PPO", "2,410 (v3)", "1M", "zoo"),
        ("PPO", "≈ 1,850 (v3)", "1M", "spinningup"), ("PPO", "≈ 2,330 (v1)", "1M", "paper"),
        ("PPO", "2,382.86 ± 271.74 (v4)", "1M", "cleanrl"),
    ],
}  # fmt: skip
TIANSHOU = "https://github.com/thu-ml/tianshou/blob/1da9b86cbaca85959a396abe999593cb565d3670/examples/mujoco/README.md"
SOURCES = {
    "zoo": "[RL Zoo, table of trained agents](https://github.com/DLR-RM/rl-baselines3-zoo/blob/0088472b8cb622732bdbc4aa3d0d0abde86c67ed/benchmark.md):"
    " one run each, the *trained agent* acting without noise",
    "cleanrl": "[CleanRL, page on PPO](https://docs.cleanrl.dev/rl-algorithms/ppo/), tables of `ppo.py` and"
    " `ppo_continuous_action.py`: mean and spread of several runs; the steps are the default of the script",
    "tianshou": f"[Tianshou, MuJoCo benchmark]({TIANSHOU}), tables of its on-policy algorithms: the *best* mean test return"
    " within the steps, mean ± standard deviation of 10 seeds",
    "paper": "[PPO paper](https://arxiv.org/abs/1707.06347), figure 3 on page 7, which has curves and no numbers. These"
    f" were read off by the authors of the [Tianshou benchmark]({TIANSHOU})",
    "spinningup": "[Spinning Up, benchmarks](https://spinningup.openai.com/en/latest/spinningup/bench.html), which have curves"
    f" and no numbers. Read off by the authors of the [Tianshou benchmark]({TIANSHOU})",
}  # fmt: skip


INTRODUCTION = """\
Made by `python tools/results.py` on {today} from the run folders that it keeps in `runs/results`; torch {torch}, Gymnasium
{gymnasium}. Every number is over seeds 0, 1, 2, …; no run is left out.

- **Return**: mean of the last 100 training episodes of a run, with its noise; interquartile mean over the runs, with a 95 %
  bootstrap interval.
- **Median steps**: environment steps until that mean first reaches the threshold, median over *all* runs. A run that never gets
  there counts as ∞; – if that is half of them or more.
- **Seconds**: of training all seeds of a row together in one process, by the clock, with whatever else the machine was doing: an
  upper bound, and no measurement of speed.
- **Settings**: *recommended* are those of [recommended](../rlcourse/agents/recommended.py), which says how they were found: by a
  search for the lessons, in a handful of trials for the others. *default* was not tuned for its task at all.
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
        outcomes = [outcome(run, TASKS[task][2]) for run, _ in runs]
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
    for task, (*_, threshold) in TASKS.items():
        rows = [found[algorithm, task] for algorithm in ALGORITHMS if (algorithm, task) in found]
        if not rows:
            continue
        yield from ("", f"## {task} (threshold {number(threshold)})", "")
        yield "| algorithm | settings | runs | steps | return | 95 % interval | reached | median steps | seconds |"
        yield "|---|---|---|---|---|---|---|---|---|"
        yield from (row(summary, steps) for summary, steps, *_ in rows)
        yield from ("", "Published elsewhere:", "", "| algorithm | return | steps | source |", "|---|---|---|---|")
        yield from (f"| {algorithm} | {value} | {steps} | *{source}* |" for algorithm, value, steps, source in PUBLISHED[task])
    yield from ("", "## Beside published numbers", "")
    yield "They were measured in another way, so they say that ours are in the right region, and no more."
    yield ""
    yield from (f"- *{name}*: {text}." for name, text in SOURCES.items())
    missing = [f"{name} on {task}" for task in TASKS for name in ALGORITHMS if (name, task) not in found]
    if missing:
        yield from ("", f"Not in these run folders: {', '.join(missing)}.")


def figure(found):
    tasks = [task for task in TASKS if any(key[1] == task for key in found)]
    columns = min(len(tasks), 3)
    lines = -(-len(tasks) // columns)
    fig, axes = new_figure(lines, columns, size=(9, 0.6 + 2.8 * lines))
    axes = np.atleast_1d(axes).ravel()
    for ax in axes[len(tasks) :]:
        ax.set_axis_off()
    looks = dict(zip(ALGORITHMS, zip(("green", "orange", "vermillion", "blue"), LINESTYLES, strict=False), strict=True))
    for ax, task in zip(axes, tasks, strict=False):
        for algorithm, (colour, dashes) in looks.items():
            if (algorithm, task) in found:
                _, steps, returns, _ = found[algorithm, task]
                seen = np.isfinite(returns).all(0)
                low, middle, high = np.quantile(returns[:, seen], [0.25, 0.5, 0.75], axis=0)
                steps = steps[seen] / 1000
                ax.fill_between(steps, low, high, color=PALETTE[colour], alpha=0.2, linewidth=0)
                ax.plot(steps, middle, color=PALETTE[colour], linestyle=dashes, label=algorithm)
        ax.set(title=task, xlabel="thousand steps")
    for ax in axes[::columns]:
        ax.set_ylabel("mean of the last 100 episodes")
    drawn = {line.get_label(): line for ax in axes for line in ax.get_lines()}
    names = [name for name in ALGORITHMS if name in drawn]
    fig.legend([drawn[name] for name in names], names, loc="outside upper center", ncols=len(ALGORITHMS))
    return show(fig, alt="Learning curves of four algorithms on each task: the median run and the middle half of the runs.")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train every algorithm on every task, and write docs/results.md.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"to be trained, of {', '.join(TASKS)} (all)")
    parser.add_argument("--write", action="store_true", help="train nothing")
    args = parser.parse_args(arguments)
    if unknown := set(args.tasks) - set(TASKS):
        parser.error(f"no such task: {', '.join(sorted(unknown))}. There are: {', '.join(TASKS)}.")
    if not args.write:
        jobs = []
        for task in args.tasks or TASKS:
            steps, seeds, _ = TASKS[task]
            jobs += grid(ALGORITHMS, [task], range(seeds), steps)
        report = sweep(jobs, RUNS)
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
