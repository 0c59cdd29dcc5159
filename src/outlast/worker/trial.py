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
    with `retry=False`, by which the function itself says that the input is bad.
    """

    def __init__(self, chunk: int) -> None:
        """`chunk`: how many items the function is given at a time."""
        self.most = max(_ITEMS, _CHUNKS * chunk)
        self._failed: set[str] = set()
        self._reason = ""
        self._passed = False

    @property
    def failed(self) -> int:
        """How many there are; 0 once an item has a result."""
        return len(self._failed)

    @property
    def reason(self) -> str:
        """The last line of the newest failure."""
        return self._reason

    def passed(self) -> None:
        """An item has a result: the function works, whatever becomes of the others."""
        self._passed = True
        self._failed.clear()

    def note(self, chunk: Chunk, failures: Sequence[Failure]) -> None:
        """What has failed in a chunk that is settled."""
        if self._passed or chunk.lost:
            return
        for one in failures:
            if not chunk.item(one.id).errors and not chunk.is_hopeless(one.id):
                self._failed.add(one.id)
                self._reason = one.reason.rstrip().rpartition("\n")[2]

    def judge(self, done_elsewhere: int | None, *, then: str) -> None:
        """Raises EveryItemFailed if so many have failed.

        `done_elsewhere`: items of the queue that others have done, None where nobody can know. Where there are some,
        now or from before, the function may well work, and what is wrong be this machine, or a stretch of bad items
        that this worker began with: then the next try is a better one, since it does not count these items again.
        `then` is what to do once it is mended.
        """
        if len(self._failed) < self.most:
            return
        works_elsewhere = bool(done_elsewhere)
        cause = (
            "Others of this queue have results, so the cause may be this machine, or these items. A retry may find a "
            f"better one, and goes on with others; if it ends like this, too, mend the function, then: {then}"
            if works_elsewhere
            else f"Mend the function, or what it needs, then: {then}"
        )
        raise EveryItemFailed(
            f"all of the first {len(self._failed)} items that this worker tried have failed, the last of them with: "
            f"{self._reason}. The worker stops, so that the others do not become dead letters, too. {cause}",
            works_elsewhere=works_elsewhere,
        )
