"""What tests need that start trainings in processes of their own, and kill them."""

import multiprocessing
import time


def context():
    """Where processes can fork, the packages are imported once for all."""
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    found = multiprocessing.get_context(method)
    if method == "forkserver":
        found.set_forkserver_preload(["rlcourse.experiments.distributed"])
    return found


def wait_for_checkpoint(processes, folder, newer_than=0):
    """Until there is a checkpoint that is newer, or a process has ended; the time of the newest one seen, in ns."""
    while all(process.is_alive() for process in processes):
        times = [file.stat().st_mtime_ns for file in folder.glob("*.checkpoint")]
        if times and max(times) > newer_than:
            return max(times)
        time.sleep(0.005)
    return newer_than
