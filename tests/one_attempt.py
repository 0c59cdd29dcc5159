"""One attempt without a loop around it: what the tests of the store's promises start, save with, and look at."""

import random
from contextlib import ExitStack
from pathlib import Path

from outlast.checkpoint.attempt import Attempt, StartRequest
from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.image import LiveImage, lay_out
from outlast.checkpoint.read import OpenCheckpoint
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import RunRequest, find_or_start_run, mark_store
from outlast.settings import look_around
from outlast.state.parts import Progress, UserState
from outlast.stores.blocks import LargeFiles
from outlast.stores.directory import DirectoryStore
from outlast.stores.disk import LocalDisk

AROUND = look_around({}, platform="local")
RUN = RunRequest("job", tasks=1, execution=None)
BLOB_BYTES = 9000


def blob_of(step: int, size: int = BLOB_BYTES) -> bytes:
    """The right content of a step's checkpoint."""
    return random.Random(step).randbytes(size)


class QuickDisk(LocalDisk):
    """A local disk that waits for no medium: for states that no power cut will follow."""

    def sync(self, handle: int) -> None:
        pass

    def sync_data(self, handle: int) -> None:
        pass

    def sync_folder(self, path: str) -> None:
        pass


def restore(attempt: Attempt, state: UserState) -> int:
    """Brings back the newest good checkpoint; the step that it is of, 0 for none."""
    restores = []

    def accept(checkpoint: OpenCheckpoint) -> None:
        accepted = state.accept(checkpoint)
        checkpoint.load(accepted.leaves, accepted.targets)
        restores.append(accepted.restore)

    with ExitStack() as stack:
        if attempt.open_newest_good(stack, accept, lambda: None) is None:
            return 0
        return int(restores[-1]().progress.completed)


class Life:
    """One attempt on a disk, from the start; `resumed_from` is 0 for a first one."""

    def __init__(
        self,
        root: Path,
        disk: LocalDisk | None = None,
        *,
        keep: Keep | None = None,
        blob_bytes: int = BLOB_BYTES,
        large: LargeFiles | None = None,
        frozen_bytes: int = 0,
    ) -> None:
        store = DirectoryStore(str(root), disk=disk or QuickDisk(), large=large)
        mark_store(store)
        self.store, self.place = store, find_or_start_run(store, RUN, AROUND.clock).task(0)
        # A part that never changes, so that later saves refer to it.
        frozen = {"frozen": bytearray(frozen_bytes)} if frozen_bytes else {}
        self.state = UserState({"blob": bytearray(blob_bytes), **frozen})
        request = StartRequest(self.place, None, CrashPolicy(), keep or Keep(last=2), execution=None)
        self.attempt = Attempt.claim(store, request, AROUND)
        self.resumed_from = restore(self.attempt, self.state)
        if frozen_bytes and not self.resumed_from:
            self.state.parts["frozen"][:] = blob_of(0, frozen_bytes)

    @property
    def blob(self) -> bytearray:
        blob = self.state.parts["blob"]
        assert isinstance(blob, bytearray)
        return blob

    @property
    def is_right(self) -> bool:
        """Whether everything is as it was saved at the step resumed from."""
        frozen = self.state.parts.get("frozen", b"")
        return self.blob == blob_of(self.resumed_from, len(self.blob)) and frozen == blob_of(0, len(frozen))

    def save(self, step: int) -> None:
        """Saves the right content of a step."""
        self.blob[:] = blob_of(step, len(self.blob))
        snapshot = self.state.snapshot(Progress(completed=step))
        record = self.attempt.commit(LiveImage(lay_out(snapshot.table), snapshot), step)
        self.attempt.confirm(record)
        self.last = record.name
