"""Attempts on any store, with arrays as their state: for the tests of checkpoints that share data files."""

from typing import Any

import numpy as np

from one_attempt import AROUND, RUN, restore
from outlast.checkpoint.attempt import Attempt, StartRequest
from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.image import LiveImage, lay_out
from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.read import refusal
from outlast.checkpoint.record import CommitRecord
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import find_or_start_run, mark_store
from outlast.ports import Store
from outlast.state.parts import Progress, UserState

FROZEN_BYTES = 200_000


class ArrayAttempt:
    """One attempt: a frozen array, and one that is a function of the step. Resumes when it is made."""

    def __init__(self, store: Store, *, keep: int = 2) -> None:
        self.store = store
        mark_store(store)
        self.place = find_or_start_run(store, RUN, AROUND.clock).task(0)
        self.arrays: dict[str, Any] = {
            "frozen": np.zeros(FROZEN_BYTES, np.uint8),
            "moving": np.zeros(5000, np.int64),
            "slow": np.zeros(5000, np.int64),  # of every other step
        }
        self.state = UserState(self.arrays, random_state=False)
        request = StartRequest(self.place, None, CrashPolicy(), Keep(last=keep), execution=None)
        self.attempt = Attempt.claim(store, request, AROUND)
        self.resumed_from = self.step = restore(self.attempt, self.state)
        if not self.resumed_from:
            self.arrays["frozen"][:] = right_frozen()
        assert self.wrong() == []

    def wrong(self) -> list[str]:
        """The arrays that are not those of the step."""
        right = {"frozen": right_frozen(), "moving": self.step, "slow": self.step // 2}
        return [name for name, value in self.arrays.items() if not np.all(value == right[name])]

    def commit(self) -> CommitRecord:
        """The next step, committed and not yet read back."""
        self.step += 1
        self.arrays["moving"][:] = self.step
        self.arrays["slow"][:] = self.step // 2
        snapshot = self.state.snapshot(Progress(completed=self.step))
        return self.attempt.commit(LiveImage(lay_out(snapshot.table), snapshot), self.step)

    def save(self) -> CommitRecord:
        """The next step, committed, read back, and older ones retired."""
        record = self.commit()
        self.attempt.confirm(record)
        return record

    def saves(self, count: int) -> list[CommitRecord]:
        return [self.save() for _ in range(count)]

    def good(self) -> list[int]:
        """The steps of the checkpoints that count and verify, newest first."""
        counted = read_lineage(self.store, self.place).counted
        return [name.step for name in counted if refusal(self.store, self.place.commit(name)) is None]

    def data(self) -> set[str]:
        return {entry.name for entry in self.store.list(self.place.data)}


def right_frozen() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 255, FROZEN_BYTES, dtype=np.uint8)
