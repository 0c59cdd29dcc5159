"""A copy of the state that a save is written from while the training goes on: its layout, its memory, its image."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outlast.checkpoint.buffer import ImageBuffer, free_memory_bytes
from outlast.checkpoint.image import CopiedImage, ImageLayout, lay_out
from outlast.console import Console
from outlast.errors import CheckpointCorrupt
from outlast.lazy import LazyShare
from outlast.state.parts import UserState
from outlast.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StateCopy:
    """The state of one border, in memory of its own."""

    layout: ImageLayout
    memory: memoryview
    tree: Mapping[str, Any]


class Copies:
    """Makes copies of a state, one at a time in the same memory. `possible` becomes False when there is no memory."""

    def __init__(self, state: UserState, console: Console, *, wanted: bool, lazily: bool) -> None:
        self.possible = wanted
        self._console, self._buffer = console, ImageBuffer()
        self._lazy = LazyShare(state) if lazily and wanted else None
        self._layout: ImageLayout | None = None
        self.ready = False  # whether a copy was made or prepared
        self._hurry = False

    def laid_out(self, snapshot: Snapshot) -> ImageLayout:
        """The layout of a snapshot, kept as long as its table stays."""
        if self._layout is None or self._layout.table is not snapshot.table:
            self._layout = lay_out(snapshot.table)
        return self._layout

    def prepare(self, snapshot: Snapshot) -> None:
        """Works out the layout and gets the memory; `touch` follows."""
        self.ready = True
        layout = self.laid_out(snapshot)
        if self.possible and self._fits(layout):
            try:
                self._buffer.prepare(layout, snapshot)
            except (OSError, MemoryError) as error:
                self._give_up(layout, str(error))

    def touch(self) -> None:
        """Has the machine give the memory, in another thread: copying into fresh memory takes several times as long."""
        self._buffer.touch(lambda: not self._hurry)

    def hurry(self) -> None:
        """Nobody has the time to wait for `touch`, from now on."""
        self._hurry = True

    def take(self, snapshot: Snapshot) -> StateCopy | None:
        """Copies a snapshot; None, once it is said, where there is no memory for that."""
        self.ready = True
        layout = self.laid_out(snapshot)
        if not self._fits(layout):
            return None
        try:
            memory = self._buffer.take(layout, snapshot, self._lazy.copy if self._lazy is not None else None)
        except (OSError, MemoryError) as error:
            self._give_up(layout, str(error))
            return None
        return StateCopy(layout, memory, snapshot.tree)

    def image(self, copy: StateCopy) -> CopiedImage:
        """The image of a copy; waits for what is copied lazily.

        Raises CheckpointCorrupt when the state changed meanwhile; from then on everything is copied at once.
        """
        if self._lazy is not None and not self._lazy.is_of_the_border():
            self._lazy.close()
            self._lazy = None
            raise CheckpointCorrupt(
                "the state changed while it was copied lazily, by something else than an optimizer's step; it is "
                "copied at once from now on"
            )
        return CopiedImage(copy.layout, copy.memory, copy.tree)

    def _fits(self, layout: ImageLayout) -> bool:
        more = layout.tree_at - self._buffer.bytes
        free = free_memory_bytes() if more > 0 else None
        if free is None or free >= more:
            return True
        self._give_up(layout, f"{free / 1e6:.0f} MB of memory are free")
        return False

    def _give_up(self, layout: ImageLayout, why: str) -> None:
        self.possible = False
        self._console.warning(
            f"a copy of the state takes {layout.tree_at / 1e6:.0f} MB, and {why or 'there is no memory'}: saves are "
            "written at once from now on, while the training waits"
        )
