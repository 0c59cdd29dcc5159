"""Looking at a store from outside: which tasks it holds, their checkpoints, and whether each verifies."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.places import CommitName, TaskPlace, run_number
from outlast.checkpoint.read import refusal
from outlast.checkpoint.record import CommitRecord, load_record
from outlast.errors import CheckpointCorrupt, ObjectMissing, StoreUnreachable
from outlast.ports import Store


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One checkpoint as it was found. `record` is None when it cannot be read; `verified` None when not checked.

    `standing` is "counted", "set aside" (by a rollback) or "superseded" (written by an attempt that had lost its
    claim); only counted ones are offered for a resume.
    """

    place: TaskPlace
    name: CommitName
    path: str
    standing: str
    record: CommitRecord | None
    verified: bool | None
    problem: str | None


def tasks_in(store: Store, *, all_runs: bool = False) -> list[TaskPlace]:
    """The tasks of a store in order; of each job only the newest run, unless `all_runs`."""
    found = {place for entry in store.list("") if (place := TaskPlace.parse(entry.name)) is not None}
    ordered = sorted(found, key=lambda place: (place.job, run_number(place.run) or -1, place.run, place.index))
    if all_runs:
        return ordered
    newest = {place.job: place.run for place in ordered}
    return [place for place in ordered if newest[place.job] == place.run]


def task_bytes(store: Store, place: TaskPlace) -> int:
    """What the data of a task take."""
    return sum(entry.bytes for entry in store.list(place.data))


def survey(store: Store, place: TaskPlace, *, verify: bool = True) -> Iterator[Surveyed]:
    """The checkpoints of a task in order of progress; reads all their data if `verify`."""
    lineage = read_lineage(store, place)
    counted, aside = set(lineage.counted), lineage.set_aside
    for name in lineage.commits:
        path = place.commit(name)
        standing = "counted" if name in counted else "set aside" if name in aside else "superseded"
        record, problem = _record_or_problem(store, path)
        verified: bool | None = None if problem is None else False
        if verify and record is not None:
            refused = refusal(store, path)
            verified, problem = refused is None, refused.reason if refused else None
        yield Surveyed(place, name, path, standing, record, verified, problem)


def _record_or_problem(store: Store, path: str) -> tuple[CommitRecord | None, str | None]:
    try:
        return load_record(store, path), None
    except (CheckpointCorrupt, ObjectMissing, StoreUnreachable) as error:
        return None, str(error)
