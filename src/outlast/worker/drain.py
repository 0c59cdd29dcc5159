"""The end of a worker that is told to go: what fits is finished, what is finished is stored, the rest given back."""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from outlast.clock import format_duration
from outlast.errors import ExitingError
from outlast.notices import Notice
from outlast.notices.board import NoticeBoard
from outlast.settings import Surroundings
from outlast.worker.chunk import Chunk
from outlast.worker.item_times import ItemTimes
from outlast.worker.settling import Settling
from outlast.worker.supply import Ahead, Direct, Leasing

_SPARE_SECONDS = 1.2  # before the deadline the process is gone, with what it takes to store and to leave
_HEAD_START_SECONDS = 0.5  # before the guard of the notice leaves, whatever is being stored then
_ADVANCE_CHUNKS = 4.0  # an advance notice is worked through as long as it leaves time for so many chunks
_ADVANCE_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 1.0


class Drain:
    """Watches the notice of one worker, in a thread of its own, which no call of the user's holds up.

    It leaves with `os._exit`, as the deadline guard of training does, where the function is still running: no exception
    is raised inside the user's code.
    """

    def __init__(
        self,
        board: NoticeBoard,
        around: Surroundings,
        supply: Ahead | Direct,
        *,
        leasing: Leasing,
        settling: Settling,
        times: ItemTimes,
        items: int,
        last: Callable[[], None],
    ) -> None:
        self._board, self._around, self._supply, self._leasing = board, around, supply, leasing
        self._settling, self._times, self._items, self._last = settling, times, items, last
        self._changed = threading.Condition()
        self._chunk: Chunk | None = None
        self._chunk_began = 0.0
        self.begun = threading.Event()
        self.leaves = threading.Event()  # in this thread, which stores what it can before
        self._prepares = False
        self._closed = False
        threading.Thread(target=self._watch, name="outlast-drain", daemon=True).start()

    @property
    def given_back(self) -> int:
        """Items that this worker had and that others can have, so far."""
        return self._leasing.given_back + self._settling.given_back

    def on_notice(self, _notice: Notice) -> None:
        """A notice has come, or changed."""
        with self._changed:
            self._changed.notify_all()

    def works_on(self, chunk: Chunk | None) -> None:
        """The chunk in progress; None between two."""
        with self._changed:
            self._chunk = chunk
            self._chunk_began = self._around.clock.monotonic_seconds()
            if self.begun.is_set():  # else nobody waits for it: to wake the thread costs more than a chunk's lease
                if chunk is not None:
                    chunk.stops.set()
                self._changed.notify_all()

    def prepares(self, busy: bool) -> None:
        """Whether the program is busy with no item."""
        with self._changed:
            self._prepares = busy
            self._changed.notify_all()

    def close(self) -> None:
        """The worker ends by itself."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def leave(self, said: str) -> None:
        """Ends the process now, with the interrupted code."""
        self._around.console.notice(f"{said}; leaving with exit code {self._around.interrupted_exit_code}")
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # broken, closed, or none at all
                stream.flush()
        self._last()
        os._exit(self._around.interrupted_exit_code)

    # --- the thread ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        notice = self._wait_for_the_end()
        if notice is None:
            return
        self._board.hold()
        self.begun.set()
        with self._changed:
            chunk, began = self._chunk, self._chunk_began
        if chunk is not None:
            chunk.stops.set()
        with suppress(ExitingError):  # then what waits runs out; what is in progress is still to be settled
            self._supply.stop()
        if chunk is None:
            self._between_chunks(notice)
            return
        with suppress(ExitingError):  # then the lease runs out
            self._settling.give_back(chunk, chunk.untouched())
        fits = self._fits(notice, chunk, began)
        self._around.console.notice(self._plan(notice, chunk, fits=fits))
        if not fits or not self._ends_by(chunk, notice):
            self._cut(chunk, notice)

    def _between_chunks(self, notice: Notice) -> None:
        """The worker leaves by itself, unless it prepares what is for nobody now, or something holds it up."""
        with self._changed:
            while not (self._closed or self._prepares) and self._usable_seconds(notice) > 0:
                self._changed.wait(self._usable_seconds(notice))
            if self._closed:
                return
            chunk, prepares = self._chunk, self._prepares
        if chunk is not None:
            self._cut(chunk, notice)
        self.leaves.set()
        with suppress(ExitingError):  # then it runs out
            self._leasing.give_back_unseen()
        why = "nothing was begun" if prepares else "nothing was in progress"
        self.leave(f"{notice.source}: {why}")

    def _wait_for_the_end(self) -> Notice | None:
        """The notice after which nothing new is begun; None when the worker ends by itself."""
        with self._changed:
            while not self._closed:
                notice = self._board.notice
                if notice is not None and not self._goes_on(notice):
                    return notice
                self._changed.wait(None if notice is None else _LOOK_AGAIN_SECONDS)
        return None

    def _goes_on(self, notice: Notice) -> bool:
        if notice.kind == "final":
            return False
        chunk_seconds = self._times.p95_seconds(self._items) or 0.0
        return self._usable_seconds(notice) > max(_ADVANCE_SECONDS, _ADVANCE_CHUNKS * chunk_seconds)

    def _usable_seconds(self, notice: Notice) -> float:
        guard = self._board.margin_seconds(notice) + min(_HEAD_START_SECONDS, 0.1 * notice.grace_seconds)
        spare = max(guard, min(_SPARE_SECONDS, 0.5 * notice.grace_seconds))
        return notice.remaining_seconds - spare

    def _fits(self, notice: Notice, chunk: Chunk, began: float) -> bool:
        """Whether what is in progress ends in time, most probably; where nothing is known it is tried."""
        takes = self._times.p95_seconds(len(chunk.in_progress()))
        if takes is None:
            return True
        elapsed = self._around.clock.monotonic_seconds() - began
        return takes <= elapsed or takes - elapsed <= self._usable_seconds(notice)

    def _plan(self, notice: Notice, chunk: Chunk, *, fits: bool) -> str:
        count = len(chunk.in_progress())
        left = format_duration(max(0.0, notice.remaining_seconds))
        if not count:
            return f"{notice.source}: {left} left; what is finished is stored"
        what = "it is finished first" if fits else "that does not fit, so it is given back"
        return f"{notice.source}: {left} left, {count} in progress; {what}"

    def _ends_by(self, chunk: Chunk, notice: Notice) -> bool:
        """Waits until the worker is through with the chunk, as long as there is time."""
        with self._changed:
            while self._chunk is chunk and not self._closed:
                left = self._usable_seconds(notice)
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _cut(self, chunk: Chunk, notice: Notice) -> None:
        """Stores the finished part, gives back the rest, and leaves while the function still runs."""
        self.leaves.set()
        stored = self._settling.computed
        try:
            with suppress(ExitingError):  # nothing of it is acknowledged then, and all of it given back
                self._settling.settle(chunk)
            with suppress(ExitingError):  # what could not be stored is computed again
                self._settling.give_back(chunk, chunk.open_ids())
        finally:
            stored = self._settling.computed - stored
            self.leave(f"{notice.source}: {stored} items stored, {self.given_back} given back")
