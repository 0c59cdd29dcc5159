"""What an attempt needs of the other ranks, where several processes make one checkpoint together."""

from collections.abc import Callable, Mapping
from typing import Protocol

from outlast.checkpoint.places import CommitName
from outlast.checkpoint.record import CommitRecord, DataFile
from outlast.ports import Pace

# By digest and size: where the first rank has such pieces, or will have them, each place once.
Shared = Mapping[tuple[str, int], list[tuple[DataFile, int]]]


class OtherRanks(Protocol):
    """The other ranks of one attempt, as the first one sees them. One save at a time."""

    @property
    def size(self) -> int:
        """How many ranks there are, the first among them."""
        ...

    def try_checkpoint(self, path: str) -> None:
        """Has all of them open, compare and read a checkpoint; `tried` waits for how that went."""
        ...

    def tried(self, meanwhile: Callable[[], None]) -> None:
        """Raises CheckpointCorrupt where one of them refuses it, or the error that no older one would mend."""
        ...

    def write(self, name: CommitName, base: CommitName | None, shared: Shared) -> None:
        """Has all of them write their parts."""
        ...

    def joined(self, own: CommitRecord) -> CommitRecord:
        """Waits for their parts; the record of all. Raises StoreUnreachable for one that failed or is gone."""
        ...

    def committed(self) -> None:
        """The record is durable."""
        ...

    def abandon(self, why: str) -> None:
        """There will be none; returns when nobody writes any more. Nothing, where the save is over already."""
        ...

    # What follows is about a save by its name: where reading it back hangs, another one may have begun meanwhile, and
    # nothing is said of the old one any more.

    def read_back(self, name: CommitName, how: str) -> None:
        """Has all of them read back what they wrote ("whole"), or look at it ("glance")."""
        ...

    def all_read(self, name: CommitName, pace: Pace) -> None:
        """Waits for that. Raises CheckpointCorrupt, StoreUnreachable, and what `pace` raises, which is called."""
        ...

    def settle(self, name: CommitName, why: str = "") -> None:
        """The save is over; `why` it does not count (taken back, or unknown). Nothing, where it is over already."""
        ...
