"""Runs for TensorBoard: one folder with one event file for each run.

    <folder>/<exp_name>/<name of the run folder>/events.out.tfevents.<time of history.csv>.rlcourse

Why not `torch.utils.tensorboard.SummaryWriter`? Each of them begins another file beside the older ones, so who exports twice sees
every point twice; and a kill leaves half a file. Here a file is put together in memory, from TensorBoard's own messages and
records, and gets its place whole or not at all. As long as history.csv is not written again, it is the same, byte for byte.
"""

import io
from pathlib import Path

from rlcourse.experiments.storage import HISTORY, make_folder, read_config, read_history, write_bytes

EVENTS = "events.out.tfevents.{}.rlcourse"  # an open TensorBoard reads a file only on, never again: a new history, a new name
HALF = "export"  # not EVENTS: TensorBoard reads every file that has "tfevents" in its name


def export(runs, folder) -> list[Path]:
    """Write runs as event files: the columns of history.csv as scalars over env_steps, the settings as hyperparameters.

    A scalar is a float32 there. Its wall time is that of the last change of history.csv, less the seconds of training that were
    still to come. The seed is no hyperparameter: so the page HPARAMS shows a row for each setting, with means over its seeds.

    Args:
        runs: folders of finished runs. folder: for `tensorboard --logdir`; made if it is missing. What was exported of these
            runs before is replaced.

    Returns:
        The event files, list of Path, in the order of the runs. Nothing is written unless all runs can be read.

    Raises:
        RuntimeError: the package tensorboard is missing. ValueError: two runs that would get the same folder; a damaged run.
        FileNotFoundError: no finished run. OSError: a file cannot be written.
    """
    found = {}
    for run in (Path(run).resolve() for run in runs):
        place = Path(folder, run.parent.name, run.name)
        if place in found:
            raise ValueError(f"two of the runs would be written to {place}: give them to two exports, with different folders.")
        found[place] = event_file(run)
    return [_put(place, *file) for place, file in found.items()]


def _put(place, name, data):
    make_folder(place)
    write_bytes(place / name, data, beside=HALF)
    for pattern in (EVENTS.format("*"), f"{HALF}.*.part"):  # of earlier exports, also of those that were killed
        for old in place.glob(pattern):
            if old.name != name:
                old.unlink()
    return place / name


def event_file(run: Path) -> tuple[str, bytes]:
    """The name of the event file of one run, and what is in it; see `export`."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise RuntimeError("files for TensorBoard are written with its own package: pip install tensorboard") from error
    config, history = read_config(run), read_history(run)
    steps, seconds = history.pop("env_steps").astype(int).tolist(), history["seconds"].tolist()
    settings = {"algorithm": config["algorithm"], "env": config["env"], **config["settings"]}
    settings = {name: value if isinstance(value, bool | int | float | str) else str(value) for name, value in settings.items()}
    written = (run / HISTORY).stat().st_mtime
    start = written - seconds[-1]
    file = io.BytesIO()
    records = RecordWriter(file)

    def write(second, **what):
        records.write(Event(wall_time=start + second, **what).SerializeToString(deterministic=True))

    write(0, file_version="brain.Event:2")
    write(0, summary=hparams_pb(settings, start_time_secs=start))
    for row, (step, second) in enumerate(zip(steps, seconds, strict=True)):
        # one prefix, so that TensorBoard shows the curves side by side and not each under a heading of its own
        values = [Summary.Value(tag=f"train/{name}", simple_value=column[row]) for name, column in history.items()]
        write(second, step=step, summary=Summary(value=values))
    return EVENTS.format(int(written)), file.getvalue()
