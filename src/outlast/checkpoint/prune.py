"""Clearing up a task from outside: checkpoints that need not be kept, and data that no checkpoint names."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.read import refusal
from outlast.checkpoint.record import CommitRecord, load_record
from outlast.checkpoint.retain import Keep, NamedFiles, remove_orphans, retire
from outlast.errors import CheckpointCorrupt, ObjectMissing, SettingsError, StoreUnreachable
from outlast.ports import Store

_WHY = {
    "counted": "newer ones are kept",
    "aside": "set aside by a rollback",
    "superseded": "of a superseded attempt",
}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What became of one checkpoint: "kept", "deleted", "would be deleted", "bad" or "set aside" is the `verdict`."""

    path: str
    step: int
    verdict: str
    reason: str


def prune(store: Store, place: TaskPlace, keep: Keep, *, set_aside: bool, apply: bool) -> Iterator[Pruned]:
    """Deletes the checkpoints of a task that `keep` does not keep; without `apply` it only says which.

    The newest ones that verify are kept, so many as asked for; pinned ones always; bad ones are named and left for
    people. Checkpoints that a rollback set aside go only with `set_aside`; those of superseded attempts always. A job
    that is running is not disturbed: its newest checkpoint is kept, and what it is writing is left alone.
    """
    lineage = read_lineage(store, place)
    leaving: list[tuple[CommitRecord, str]] = []
    for name in lineage.commits:
        standing = "counted" if name in lineage.counted else "aside" if name in lineage.set_aside else "superseded"
        if standing == "aside" and not set_aside:
            yield Pruned(place.commit(name), name.step, "set aside", "by a rollback")
        elif standing != "counted":
            with suppress(CheckpointCorrupt, ObjectMissing):  # what cannot be read is left for people
                leaving.append((load_record(store, place.commit(name)), _WHY[standing]))
    verified: list[CommitRecord] = []
    for name in sorted(lineage.counted):
        with suppress(ObjectMissing):  # a job that is running has retired it meanwhile
            record = _verified(store, place.commit(name))
            if isinstance(record, CommitRecord):
                verified.append(record)
            else:
                yield Pruned(place.commit(name), name.step, "bad", record)
    unknown = keep.unknown_metric(verified)
    if unknown is not None:
        raise SettingsError(f"{unknown}. Nothing was deleted")
    retired = keep.retired(verified)
    for record in verified:
        if record not in retired:
            yield Pruned(place.commit(record.name), record.step, "kept", "pinned" if record.pinned else "")
    leaving += [(record, _WHY["counted"]) for record in retired]
    named = NamedFiles(store, place)
    for record, reason in sorted(leaving, key=lambda one: one[0].name):
        if apply:
            retire(store, place, record, named, _always)
        verdict = "deleted" if apply else "would be deleted"
        yield Pruned(place.commit(record.name), record.step, verdict, reason)
    if apply:
        remove_orphans(store, place, lineage.newest, named, _always)
        store.sweep(place.folder)


def _verified(store: Store, path: str) -> CommitRecord | str:
    """The record of a checkpoint that verifies, else what is wrong with it; raises ObjectMissing once it is gone."""
    refused = refusal(store, path)
    if refused is not None and refused.unreachable:
        raise StoreUnreachable(refused.reason)
    try:
        record = load_record(store, path)
    except CheckpointCorrupt as error:
        return str(error)
    return record if refused is None else refused.reason


def _always() -> bool:
    return True
