"""One-line faults of run folders and checkpoints."""

MODULE = "rlcourse.experiments.storage"
TESTS = ["tests/experiments/test_storage.py", "tests/experiments/test_distributed.py"]
FAULTS = [
    ("written in place", 'temporary = path.with_name(f"{beside or path.name}.{uuid.uuid4().hex}.part")', "temporary = path",
     "A kill while a checkpoint is written leaves half of it, and nothing else."),
    ("the checksum is not looked at", 'header["sha256"] != _checksum(arrays)', "False", "A flipped bit becomes a policy."),
    ("any training's checkpoint will do", "if facts == plan.facts:", "if True:", "Another training goes on under this name."),
    ("a longer training is already finished", 'config["finished"] and config["total_steps"] >= plan.total_steps',
     'config["finished"]', "More steps are asked for, and nothing happens."),
    ("half-written files stay", "_forget(temporary)\n        raise _cannot_write", "pass\n        raise _cannot_write",
     "A full disk stays full."),
    ("the setting of the first run for all", "alone = dataclasses.replace(result.algorithm, **setting)",
     "alone = dataclasses.replace(result.algorithm, **result.runs[0].setting)", "A run tells another run's settings."),
    ("nobody is locked out", "        lock.acquire()", "        pass", "Two trainings write the same checkpoint in turn."),
    ("lock files stay", "_forget(path)  # before", "pass  # before", "A `.lock` lies beside every checkpoint for good."),
    ("another's runs are overwritten", "            _configs(self.plan)", "            pass",
     "Seeds 0-1 and 1-2, begun at the same time: the later one replaces seed 1."),
    ("a mixture after a kill", 'config | {"finished": False}', "config", "A run made longer has new histories and old weights."),
    ("all go on as process 0", "snapshots[group.rank] if snapshots", "snapshots[0] if snapshots",
     "After a resume all processes play the same episodes."),
    ("a signal stops one process", "due, self.stop = self.group.mean(np.array([due, bool(self.asked)], float)) > 0",
     "due, self.stop = due, bool(self.asked)", "The others wait for it until the timeout."),
    ("any number of processes", 'facts |= {"processes": self.processes} if self.processes > 1 else {}', "pass",
     "Three processes go on with the parts of two."),
    ("a signal is not noted", "asked.append(signum)", "pass", "Ctrl-C is swallowed, and the training goes on."),
]  # fmt: skip
