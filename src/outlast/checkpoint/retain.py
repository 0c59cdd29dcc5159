"""Which checkpoints are kept, and retiring the others: the record first, then data that no record names."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from outlast.checkpoint.lineage import commit_names
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.record import CommitRecord, load_record
from outlast.console import Console
from outlast.errors import CheckpointCorrupt, ObjectMissing, SettingsError
from outlast.ports import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Which checkpoints of a run are kept; pinned ones always are.

    `last` (≥ 1): the newest so many. `every`: also each whose step is a multiple of this. `best`: also the
    `best_count` best by a number given to `job.log`, the lowest unless `highest`. Raises SettingsError.
    """

    last: int = 3
    every: int | None = None
    best: str | None = None
    highest: bool = False
    best_count: int = 1

    def __post_init__(self) -> None:
        every = 1 if self.every is None else self.every
        reasons = {"keep": "; the last good one is all that a restart has", "every": "", "best_count": ""}
        for setting, value in (("keep", self.last), ("every", every), ("best_count", self.best_count)):
            if type(value) is not int or value < 1:
                said = f"{setting}={value!r} is not a whole number of 1 or more{reasons[setting]}"
                error = SettingsError(said)
                Console().tell(error)
                raise error

    def retired(self, records: Sequence[CommitRecord]) -> list[CommitRecord]:
        """Those of verified checkpoints, in order of progress, that need not be kept."""
        newest = {record.step: record for record in records}  # of two of one step, the later one has all there is
        kept = {id(record) for record in list(newest.values())[-self.last :]}
        kept |= {id(record) for record in self._best(records)}
        return [
            record
            for record in records
            if id(record) not in kept and not record.pinned and not (self.every and record.step % self.every == 0)
        ]

    def unknown_metric(self, records: Sequence[CommitRecord]) -> str | None:
        """What to say when nothing is rated by the number that `best` names; nothing is retired then."""
        if self.best is None or not records or any(self.best in record.metrics for record in records):
            return None
        there = ", ".join(sorted({name for record in records for name in record.metrics})) or "none"
        return f"no checkpoint has the number {self.best!r} of job.log, by which the best is kept; there are: {there}"

    def _best(self, records: Sequence[CommitRecord]) -> Iterable[CommitRecord]:
        metric = self.best
        if metric is None:
            return ()
        rated = [record for record in records if metric in record.metrics]
        return sorted(rated, key=lambda record: record.metrics[metric], reverse=self.highest)[: self.best_count]


def keep_policy(keep: int | Keep) -> Keep:
    """The policy of the setting `keep`."""
    if not isinstance(keep, Keep | int):
        raise SettingsError(f"keep={keep!r} is not a whole number of 1 or more, nor an outlast.Keep")
    return keep if isinstance(keep, Keep) else Keep(last=keep)


class NamedFiles:
    """Which data files the commits of a task name. Records never change, so each is read once."""

    def __init__(self, store: Store, place: TaskPlace) -> None:
        self._store, self._place = store, place
        self._known: dict[CommitName, frozenset[str]] = {}

    def note(self, record: CommitRecord) -> None:
        """A record that need not be read."""
        self._known[record.name] = frozenset(file.name for file in record.files)

    def needed(self) -> Callable[[str], bool]:
        """Whether a commit which is there now needs a data file.

        One that cannot be read may be mended, and its data not made again: it may need any file as old as itself.
        """
        commits = commit_names(self._store, self._place)
        for name in commits:
            if name not in self._known:
                with suppress(ObjectMissing, CheckpointCorrupt):
                    self.note(load_record(self._store, self._place.commit(name)))
        self._known = {name: self._known[name] for name in commits if name in self._known}
        named = frozenset[str]().union(*self._known.values())
        unreadable = [name for name in commits if name not in self._known]

        def is_needed(file: str) -> bool:
            writer = self._place.data_of(file)
            return file in named or any(writer is not None and writer <= name for name in unreadable)

        return is_needed


def retire(
    store: Store, place: TaskPlace, record: CommitRecord, named: NamedFiles, may_delete: Callable[[], bool]
) -> bool:
    """Deletes a checkpoint, or what is left of it, but for data that another one refers to.

    Asks `may_delete` before each deletion; False once that says no.
    """
    if not may_delete():
        return False
    store.delete(place.commit(record.name))
    is_needed = named.needed()
    for file in record.files:
        if is_needed(file.name):
            continue
        if not may_delete():
            return False
        store.delete(file.name)
    return True


def remove_failed(store: Store, place: TaskPlace, name: CommitName, may_delete: Callable[[], bool]) -> bool:
    """Deletes what a failed save of this attempt left: its record, if the failure came after it, then its data."""
    if not may_delete():
        return False
    store.delete(place.commit(name))
    for entry in store.list(place.data):
        if place.data_of(entry.name) == name:
            if not may_delete():
                return False
            store.delete(entry.name)
    return True


def remove_orphans(
    store: Store, place: TaskPlace, attempt: int, named: NamedFiles, may_delete: Callable[[], bool]
) -> int:
    """Deletes data of attempts before `attempt` that no record names: saves that a death cut short.

    Only data files of our own naming; a commit of such an attempt that arrives now would not count anyway.
    """
    is_needed = named.needed()
    removed = 0
    for entry in store.list(place.data):
        writer = place.data_of(entry.name)
        if writer is None or writer.attempt >= attempt or is_needed(entry.name):
            continue
        if not may_delete():
            break
        store.delete(entry.name)
        removed += 1
    return removed
