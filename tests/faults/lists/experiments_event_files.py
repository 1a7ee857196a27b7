"""One-line faults of the export to TensorBoard."""

MODULE = "rlcourse.experiments.event_files"
TESTS = ["tests/experiments/test_event_files.py"]
FAULTS = [
    ("the update for the step", "write(second, step=step,", "write(second, step=row,", "Runs with other batches do not line up."),
    ("every point at the same time", "write(second, step", "write(0, step", "The axis of time is empty."),
    ("times after the end of the training", "start = written - seconds[-1]", "start = written", "It ends in the future."),
    ("older files stay", "if old.name != name:", "if False:", "TensorBoard shows each point twice."),
    ("everything else is deleted", 'EVENTS.format("*"), f', '"*", f', "Somebody's own files are gone."),
    ("the half-written file looks like a whole one", ", beside=HALF", "", "An open TensorBoard reads half a file."),
    ("one name for ever", "EVENTS.format(int(written))", "EVENTS.format(0)", "An open TensorBoard shows the old curve."),
    ("a second run takes the place of the first", "if place in found:", "if False:", "A run is silently missing."),
    ("written one by one", "found[place] = event_file(run)", "found[place] = event_file(run); _put(place, *found[place])",
     "A damaged run is met after others have been replaced."),
    ("settings left out", ', **config["settings"]}', "}", "Nobody sees which curve belongs to which setting."),
]  # fmt: skip
