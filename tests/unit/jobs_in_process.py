"""Small runs inside the test's own process: a job that saves at given steps, and what a later one finds."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import outlast


def save_at(folder: Path, steps: Iterable[int], **settings: Any) -> list[Path]:
    """Leaves an unfinished run with a checkpoint at each of these steps; those commit records that are kept."""
    state = {"n": 0}
    job = outlast.Job(folder, state=state, name="j", every="1h", **{"keep": 100, **settings})
    for step in steps:
        # The loop is not what is tested: a million steps would take too long.
        job._session.progress.completed = state["n"] = step
        job.save()
    return [found for step in steps for found in _commits(folder, step)[-1:]]


def commit(folder: Path, step: int) -> Path:
    """The newest commit record of a step."""
    return _commits(folder, step)[-1]


def _commits(folder: Path, step: int) -> list[Path]:
    return sorted(path for path in folder.glob(f"j/run-*/task-0/commits/s{step:012}-*.json") if "copy" not in path.name)


def data_of(record: Path) -> Path:
    """The data file of a commit record."""
    return next((record.parent.parent / "data").glob(f"{record.stem}-*"))


def resume(folder: Path, **settings: Any) -> tuple[int | None, int]:
    """The step that a new job resumes from, and the state it finds."""
    state = {"n": -1}
    job = outlast.Job(folder, state=state, name="j", **{"keep": 100, **settings})
    return job.resumed_from, state["n"]


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for what a start adds: claims, journals and empty folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and path.parent.name not in ("attempts", "journal")
    }
