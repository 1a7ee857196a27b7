"""What three engines for many machines cost: disk, and seconds to the first result (docs/command_line.md quotes it).

    python tools/bench_engines.py          needs a network and 500 MB of disk for the time of the run

Each is installed into a fresh environment of its own; the seconds are those of a new process with two workers, twice.
"""

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PROGRAMS = {
    "joblib": """
        from joblib import Parallel, delayed
        print(Parallel(n_jobs=2)(delayed(pow)(2, 5) for _ in range(2))[0])
    """,
    "distributed": """
        from distributed import Client, LocalCluster
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            print(client.submit(pow, 2, 5).result())
    """,
    "ray": """
        import ray
        ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
        print(ray.get(ray.remote(lambda: 2**5).remote()))
    """,
}


def megabytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def measured(engine, program, folder):
    """(MB added, [seconds to the first result])."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    before, seconds = megabytes(folder / "env"), []
    subprocess.run([python, "-m", "pip", "install", "--quiet", engine], check=True)
    added = megabytes(folder / "env") - before
    lines = [line[4:] for line in program.splitlines()]  # two levels less, and one more for the guard below
    (folder / "first.py").write_text("if __name__ == '__main__':\n" + "\n".join(lines), encoding="utf-8")
    for _ in range(2):
        started = time.perf_counter()
        answer = subprocess.run([python, folder / "first.py"], check=True, capture_output=True, text=True).stdout
        seconds.append(time.perf_counter() - started)
        assert answer.strip().endswith("32"), answer
    return added, seconds


def main():
    for engine, program in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            added, seconds = measured(engine, program, Path(folder))
        print(f"{engine:12} {added:5.0f} MB   first result after {' and '.join(f'{s:.1f}' for s in seconds)} s", flush=True)


if __name__ == "__main__":
    main()
