"""Copying a share of the state while the next step computes: what only an optimizer's step changes waits for it."""

from outlast.checkpoint.image import ImageLayout
from outlast.state.parts import UserState
from outlast.state.snapshot import Snapshot


class LazyShare:
    """Copies snapshots lazily as far as they allow. One copy at a time; `close` takes the hooks away."""

    def __init__(self, state: UserState) -> None:
        found = state.lazy_copy()
        self._framework = found[0] if found is not None else ""
        self._copier = found[1] if found is not None else None

    def copy(self, snapshot: Snapshot, memory: memoryview, layout: ImageLayout) -> None:
        """Copies what must be copied at once; the rest follows beside the next step, whose optimizer waits for it."""
        if self._copier is None:
            snapshot.copy_into(memory, layout.offsets)
            return
        at_once, later = snapshot.split_lazily(self._framework, self._copier.places())
        at_once.copy_into(memory, layout.offsets)
        sizes, offsets = layout.table.sizes, layout.offsets
        leaves = [leaf for pile in later.piles for leaf in pile.leaves]
        values = [value for pile in later.piles for value in pile.values]
        copies = [memory[offsets[leaf] : offsets[leaf] + sizes[leaf]] for leaf in leaves]
        self._copier.start(values, copies, lambda: later.copy_into(memory, offsets))

    def is_of_the_border(self) -> bool:
        """Waits for the copy; False when something else than an optimizer's step changed the state meanwhile."""
        return self._copier is None or self._copier.result()

    def close(self) -> None:
        """Waits for the copy, and copies nothing any more."""
        if self._copier is not None:
            self._copier.close()
