"""Where a lesson finds the small stored results in notebooks/data, whichever folder it was opened from."""

from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"


def data_path(name: str) -> Path:
    """The path of a file in notebooks/data.

    Lessons are read in notebooks/ and in the learner's own folder, so a relative path would hold in one of them only.

    Args:
        name: the file's name, such as "vpg_cartpole_seeds.npz"; a path relative to notebooks/data.

    Returns:
        The path of an existing file.

    Raises:
        ValueError: the name leads out of notebooks/data.
        FileNotFoundError: there is no such file; the message lists those that there are.
    """
    path = (DATA / name).resolve()
    if not path.is_relative_to(DATA):
        raise ValueError(f"data_path takes the name of a file in {DATA}; {name!r} leads out of it.")
    if path.is_file():
        return path
    if not DATA.is_dir():
        raise FileNotFoundError(
            f"There is no folder {DATA}. The data files lie beside the lessons, so rlcourse must be installed from "
            "the course's folder: python3 course.py setup, or there: pip install -e ."
        )
    there = sorted(file.relative_to(DATA).as_posix() for file in DATA.rglob("*") if file.is_file())
    raise FileNotFoundError(f"There is no file {name!r} in {DATA}. The files are: {', '.join(there) or 'none'}.")
