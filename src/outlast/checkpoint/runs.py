"""Which run a process belongs to, and whether a run is finished."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.places import (
    EXECUTIONS,
    FORMAT,
    MEETINGS,
    READABLE_FORMATS,
    STORE_MARK,
    CommitName,
    RunPlace,
    TaskPlace,
    checked_name,
    run_number,
)
from outlast.checkpoint.sealed import load_sealed, seal
from outlast.clock import Clock, iso_utc
from outlast.errors import CheckpointCorrupt, ObjectExists, ObjectMissing, SettingsError
from outlast.ports import Store


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is known when a process asks for its run. `named` overrides; `fresh` asks for a new one.

    `numbers` are those that the tasks may have, None for 0 … tasks - 1.
    `back`: a rollback is asked for, which belongs to the newest run, finished or not.
    """

    job: str
    tasks: int
    execution: str | None
    named: str | None = None
    fresh: bool = False
    back: bool = False
    numbers: range | None = None


def mark_store(store: Store) -> None:
    """Marks the root as a store, so that tools know it for one. Raises SettingsError for one of another format."""
    _create_once(store, STORE_MARK, {"format": FORMAT})
    try:
        check_store(store)
    except CheckpointCorrupt:
        _create_again(store, STORE_MARK, {"format": FORMAT})
        check_store(store)


def check_store(store: Store) -> None:
    """Raises SettingsError unless this is a store of a format that this version reads."""
    try:
        found = load_sealed(store, STORE_MARK).get("format")
    except ObjectMissing:
        raise SettingsError(f"{store.url} is not a store of outlast: it has no {STORE_MARK}") from None
    if found not in READABLE_FORMATS:
        raise SettingsError(
            f"{store.url} is a store of format {found}; this version of outlast knows format {FORMAT} and older ones"
        )


def find_or_start_run(store: Store, request: RunRequest, clock: Clock) -> RunPlace:
    """The run of this process; starts one where the contract asks for it.

    A platform's execution is bound to one run by a create-only record: the first task to start decides, the others
    read. Without an execution identity, the newest numbered run is taken, finished or not.
    """
    if request.named:
        return _start(store, RunPlace(request.job, checked_name(request.named, setting="run")), request, clock)
    if request.execution is None:
        return _start(store, _newest_or_next(store, request, unfinished_only=False), request, clock)
    binding = f"{request.job}/{EXECUTIONS}/{checked_name(request.execution, setting='execution')}.json"
    try:
        bound, create = _bound_run(store, binding), _create_once
    except CheckpointCorrupt:
        bound, create = None, _create_again
    if bound is None:
        bound = _newest_or_next(store, request, unfinished_only=True).run
        create(store, binding, {"run": bound, "at": iso_utc(clock.wall_seconds())})
        bound = _bound_run(store, binding) or bound
    # Only now: a run started by the task that came second, and left, would be the newest one for ever.
    return _start(store, RunPlace(request.job, bound), request, clock)


def runs_of(store: Store, job: str) -> list[str]:
    """The runs of a job, named ones first, then the numbered in order."""
    names = {entry.name.split("/")[1] for entry in store.list(job) if entry.name.count("/") >= 2}
    return sorted(names - {EXECUTIONS, MEETINGS}, key=lambda run: (run_number(run) or -1, run))


def run_is_finished(store: Store, place: RunPlace) -> bool:
    """A run is finished when all its tasks are; where only their count is known, when so many are."""
    tasks, numbers = _tasks_of(store, place)
    if tasks == len(numbers):
        return all(finish_of(store, place.task(index)) is not None for index in numbers)
    begun = {task for entry in store.list(place.folder) if (task := TaskPlace.parse(entry.name)) is not None}
    return sum(finish_of(store, task) is not None for task in begun if task.index in numbers) >= tasks


@dataclass(frozen=True, slots=True)
class Finish:
    """A task is finished: by which commit, and of how many (in the loop's own unit; None outside a loop)."""

    commit: CommitName
    total: int | None

    @property
    def step(self) -> int:
        return self.commit.step


def finish_of(store: Store, place: TaskPlace) -> Finish | None:
    """How a task finished, or None while it has not: its newest commit that counts carries a finish mark or not."""
    counted = read_lineage(store, place).counted
    if not counted:
        return None
    try:
        total = load_sealed(store, place.mark(counted[0])).get("total")
    except ObjectMissing:
        return None
    except CheckpointCorrupt:
        return Finish(counted[0], 0)  # finished it is; of how many is lost, so the loop itself decides what is left
    return Finish(counted[0], total if isinstance(total, int) else None)


def mark_finished(store: Store, place: TaskPlace, name: CommitName, total: int | None, clock: Clock) -> None:
    """Marks a task as finished by one of its commits."""
    _create_once(store, place.mark(name), {"commit": name.text, "total": total, "at": iso_utc(clock.wall_seconds())})


def _newest_or_next(store: Store, request: RunRequest, *, unfinished_only: bool) -> RunPlace:
    numbers = [number for run in runs_of(store, request.job) if (number := run_number(run)) is not None]
    newest = max(numbers, default=0)
    place = RunPlace(request.job, f"run-{newest}")
    if newest and not request.fresh and (request.back or not (unfinished_only and run_is_finished(store, place))):
        return place
    return RunPlace(request.job, f"run-{newest + 1}")


def _start(store: Store, place: RunPlace, request: RunRequest, clock: Clock) -> RunPlace:
    numbers = request.numbers
    told = {} if numbers is None else {"task_numbers": [numbers.start, numbers.stop, numbers.step]}
    started = {"run": place.run, "job": place.job, "tasks": request.tasks, "started_at": iso_utc(clock.wall_seconds())}
    _create_once(store, place.record, {**started, **told})
    return place


def _tasks_of(store: Store, place: RunPlace) -> tuple[int, range]:
    """(how many tasks a run has, the numbers that they may have)."""
    try:
        record = load_sealed(store, place.record)
        tasks = max(1, int(record["tasks"]))
        numbers = range(*map(int, record["task_numbers"])) if "task_numbers" in record else range(tasks)
    except (ObjectMissing, CheckpointCorrupt, KeyError, ValueError, TypeError):
        return 1, range(1)  # a copied or damaged store: its one task decides
    return (tasks, numbers) if len(numbers) >= tasks else (1, range(1))


def _bound_run(store: Store, binding: str) -> str | None:
    try:
        return checked_name(str(load_sealed(store, binding)["run"]), setting="run")
    except ObjectMissing:
        return None


def _create_again(store: Store, name: str, record: Mapping[str, Any]) -> None:
    """For a record that nobody could read, so that nothing rests on it: a death on a mounted bucket cut it short."""
    store.delete(name)
    _create_once(store, name, record)


def _create_once(store: Store, name: str, record: Mapping[str, Any]) -> None:
    try:
        store.create(name, seal(record))
    except ObjectExists:
        return  # somebody was first, which is all that was wanted
