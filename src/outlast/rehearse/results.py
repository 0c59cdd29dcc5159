"""Which results a rehearsal compares, and how they came out."""

import math
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.rehearse.batches import Batch, compare_batches, without_batches
from outlast.rehearse.checkpoints import final_checkpoints, pair_tasks
from outlast.rehearse.compare import Distance, compare_bytes, compare_documents, compare_files
from outlast.rehearse.records import explain_records
from outlast.rehearse.request import CannotRehearse
from outlast.rehearse.sandbox import is_left_out
from outlast.rehearse.watch import is_passing

STDOUT = "<stdout, last line>"
CHECKPOINT = "checkpoint "

Listing = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished run leaves: its folder, the last line of its standard output, its store, its batch work."""

    folder: Path
    last_line: str
    store: Path | None
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One compared result. `detail` says what differs, or how much within the tolerance; "" for equal."""

    path: str
    same: bool
    detail: str
    distance: Distance


def list_files(folder: Path) -> Listing:
    """Every file of a program's work with its size and time of change: no stores, nothing that Python makes."""
    listing: Listing = {}
    for top, folders, files in os.walk(folder):
        here = Path(top)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if not is_left_out(here / name, is_folder=True)]
        for path in (here / name for name in (*files, *links)):
            if path.is_symlink() or (path.is_file() and not is_passing(path.name)):
                status = path.lstat()
                listing[path.relative_to(folder).as_posix()] = (status.st_size, status.st_mtime_ns)
    return listing


def set_aside(folder: Path, before: Listing, target: Path, also: Iterable[str] = ()) -> None:
    """Where runs share one folder: moves what a run has made to `target`, so that the next begins without it.

    What was there before stays where it is; changed files, and those named in `also`, are copied.
    """
    after = list_files(folder)
    for name in sorted({name for name, seen in after.items() if before.get(name) != seen} | set(also)):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if name in before:
            shutil.copy2(folder / name, target / name, follow_symlinks=False)
        else:
            shutil.move(folder / name, target / name)


def choose_results(folder: Path, before: Listing, patterns: Sequence[str]) -> list[str]:
    """The files to compare: those that the patterns name, else all that the baseline made or changed.

    Raises CannotRehearse when a pattern names nothing.
    """
    if not patterns:
        after = list_files(folder)
        return sorted(name for name, seen in after.items() if before.get(name) != seen)
    chosen: set[str] = set()
    for pattern in patterns:
        found = _matching(folder, pattern)
        if not found:
            raise CannotRehearse(f"--result {pattern}: the uninterrupted run made no such file")
        after = list_files(folder)
        if all(name in before and before[name] == after.get(name) for name in found):
            raise CannotRehearse(f"--result {pattern}: it lay in the folder before, and the run did not write it")
        chosen |= found
    return sorted(chosen)


def _matching(folder: Path, pattern: str) -> set[str]:
    literal = folder / pattern
    tops = [literal] if literal.exists() or literal.is_symlink() else sorted(folder.glob(pattern))
    files = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top])]
    return {file.relative_to(folder).as_posix() for file in files if file.is_symlink() or file.is_file()}


def compare_outcomes(
    paths: Sequence[str], expected: Outcome, actual: Outcome, *, tolerance: float, with_stdout: bool
) -> list[Result]:
    """Files, then queues and sinks, then the last line of standard output, then final checkpoints."""
    files = without_batches(paths, expected.batches)
    found = [(path, _compare_named(path, expected.folder, actual.folder)) for path in files]
    found += compare_batches(expected.batches, expected.folder, actual.folder)
    if with_stdout and expected.last_line:
        found.append((STDOUT, _compare_lines(expected.last_line, actual.last_line)))
    found += _compare_checkpoints(expected.store, actual.store)
    return [_judged(path, distance, tolerance) for path, distance in found]


def _compare_named(path: str, expected: Path, actual: Path) -> Distance:
    distance = compare_files(path, expected / path, actual / path)
    why = None if distance.equal else explain_records(expected / path, actual / path)
    return distance if why is None else replace(distance, detail=why)


def _judged(path: str, distance: Distance, tolerance: float) -> Result:
    return Result(path=path, same=distance.within(tolerance), detail=distance.detail, distance=distance)


def _compare_lines(expected: str, actual: str) -> Distance:
    if not actual:
        return Distance(math.inf, f"expected {expected!r}, found no output")
    distance = compare_bytes("line.txt", expected.encode(), actual.encode())
    return replace(distance, detail=distance.detail.removeprefix("line 1: "))


def _compare_checkpoints(expected: Path | None, actual: Path | None) -> list[tuple[str, Distance]]:
    if expected is None or actual is None or not expected.exists():
        return []
    ours = final_checkpoints(expected)
    theirs = final_checkpoints(actual) if actual.exists() else {}
    compared = []
    for task, leaves, others in pair_tasks(ours, theirs):
        missing = Distance(math.inf, "no checkpoint after the rehearsal")
        compared.append((f"{CHECKPOINT}{task}", missing if others is None else compare_documents(leaves, others)))
    return compared
