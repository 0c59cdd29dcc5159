"""Checkpoints of several ranks, made in one process."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from one_attempt import AROUND, RUN
from outlast.checkpoint.image import LiveImage, lay_out
from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.record import CommitRecord, RankPart, load_record
from outlast.checkpoint.runs import find_or_start_run, mark_store
from outlast.checkpoint.write import FULL_EFFORT, SaveDetails, persist
from outlast.state.parts import Progress, UserState
from outlast.stores.directory import DirectoryStore


class Saved:
    """Checkpoints of several ranks, without processes. `states`: of each rank, each saved before the next is made."""

    def __init__(self, folder: Path) -> None:
        self.store = DirectoryStore(str(folder))
        mark_store(self.store)
        self.place: TaskPlace = find_or_start_run(self.store, RUN, AROUND.clock).task(0)

    def save(
        self, step: int, states: Iterable[dict[str, Any]], base: CommitRecord | None = None, *, batch: int = 0
    ) -> str:
        """The path of the commit."""
        name = CommitName(step, 0, step)
        told: list[Any] = []
        records = []
        for rank, state in enumerate(states):
            snapshot = UserState(state, random_state=False).snapshot(Progress(completed=step, batch=batch))
            records.append(
                persist(
                    self.store,
                    self.place,
                    LiveImage(lay_out(snapshot.table), snapshot),
                    SaveDetails(name, "token", False, {}),
                    base=base.of_rank(rank) if base else None,
                    effort=FULL_EFFORT,
                    clock=AROUND.clock,
                    rank=rank,
                    shared=told[0] if told else None,
                    tell=told.append if rank == 0 else None,
                )
            )
        parts = [RankPart(one.images[0], one.files, one.written_bytes) for one in records[1:]]
        record = records[0].joined_by(parts)
        self.store.create(self.place.commit(name), record.to_bytes())
        return self.place.commit(name)

    def load(self, path: str) -> CommitRecord:
        return load_record(self.store, path)

    def written(self, path: str) -> list[int]:
        """What each rank wrote of its own for this commit."""
        record = self.load(path)
        new = [file for file in record.files if self.place.data_of(file.name) == record.name]
        ranks = range(len(record.images))
        return [sum(file.bytes for file in new if self.place.rank_of(file.name) == rank) for rank in ranks]
