"""One process of a group, started by test_distributed.py: python distributed_worker.py JOBS OUTPUT

JOBS is a pickle with one list per process, of jobs (name, arguments of train_data_parallel, or of train_in_folder if there is a
folder). What comes out is written to OUTPUT plus the rank: name → result, or the error that was raised. As each job begins, its
name is printed.
"""

import contextlib
import os
import pickle
import sys
from pathlib import Path

if os.environ.get("RLCOURSE_FAULT"):
    import fault_plugin  # noqa: F401, puts the fault of tests/faults in place before anything else is imported

import torch

from rlcourse.agents.runs import Runs
from rlcourse.experiments.distributed import LostProcess, connected, train_data_parallel, train_in_folder


@contextlib.contextmanager
def drifting(rank):
    """Parameters of process 1 move a little by themselves, as they might on another kind of processor."""
    healthy = Runs.begin_update

    def begin_update(self):
        with torch.no_grad():
            self.parameters += 1e-12 * rank
        healthy(self)

    Runs.begin_update = begin_update
    yield
    Runs.begin_update = healthy


def main(jobs, output):
    rank, found = int(os.environ["RANK"]), {}
    with connected(float(os.environ["TIMEOUT"])):
        for name, arguments in pickle.loads(Path(jobs).read_bytes())[rank]:
            print(name, flush=True)
            with drifting(rank) if name == "drift" else contextlib.nullcontext():
                train = train_in_folder if "folder" in arguments else train_data_parallel
                try:
                    found[name] = train(**arguments, progress=False)
                except LostProcess:
                    raise
                except (ValueError, RuntimeError, OSError) as error:
                    found[name] = error
    Path(f"{output}{rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
