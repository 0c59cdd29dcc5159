"""Whether a worker's function works at all: one that fails for every item is stopped before it has buried them."""

from collections.abc import Sequence

from outlast.errors import EveryItemFailed
from outlast.items import Failure
from outlast.worker.chunk import Chunk

# Where nine of ten items are bad, so many fail in a row by chance once in 40,000 starts (0.9 ** 100).
_ITEMS = 100
_CHUNKS = 3


class Trial:
    """Counts the items that failed at their first try, until one has a result; so many, and the function is to blame.

    What failed before proves nothing: at the end of a job a new worker finds only such items. Nor does an ItemError
    with `retry=False`, by which the function itself says that the input is bad. Each worker counts for itself.
    """

    def __init__(self, chunk: int) -> None:
        """`chunk`: how many items the function is given at a time."""
        self._most = max(_ITEMS, _CHUNKS * chunk)
        self._failed: set[str] = set()
        self._reason = ""
        self._has_result = False

    @property
    def has_result(self) -> bool:
        """Whether the function has computed one here."""
        return self._has_result

    @property
    def is_lost(self) -> bool:
        """Whether so many have failed that nothing more is to be tried here."""
        return len(self._failed) >= self._most

    @property
    def reason(self) -> str:
        """The last line of the newest failure."""
        return self._reason

    def note_result(self) -> None:
        """An item has a result: the function works, whatever becomes of the others."""
        self._has_result = True
        self._failed.clear()

    def note(self, chunk: Chunk, failures: Sequence[Failure]) -> None:
        """What has failed in a chunk that is settled."""
        if self._has_result or chunk.lost:
            return
        for one in failures:
            if not chunk.item(one.id).errors and not chunk.is_hopeless(one.id):
                self._failed.add(one.id)
                self._reason = one.reason.rstrip().rpartition("\n")[2]

    def verdict(self, *, works_elsewhere: bool, then: str) -> EveryItemFailed:
        """The error that a lost trial ends with.

        `works_elsewhere`: a function of this version has computed results for the queue, now or before. Then what is
        wrong may be this machine, or this program, or a stretch of bad items that this worker began with: the next try
        may be a better one, since it does not count these items again. What was found in the sink is no such result.
        `then` is what to do once it is mended.
        """
        cause = (
            "Others of this queue have computed results of this version, so the cause is this machine, or what this "
            "program has that theirs has not (its version, its packages), or these items. A retry may find a better "
            "machine, and goes on with other items; if it ends like this, too, mend the function, or what it needs. "
            if works_elsewhere
            else "Mend the function, or what it needs. "
        )
        return EveryItemFailed(
            f"all of the first {len(self._failed)} items that this worker tried have failed, the last of them with: "
            f"{self._reason}. The worker stops, so that the others do not become dead letters, too. {cause}{then}",
            works_elsewhere=works_elsewhere,
        )
