"""Which leaves of a checkpoint go straight into the memory of the program's arrays, and the steps for the others."""

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from outlast.ports import Framework


class Filling:
    """Plans how arrays are filled. `read` gives the bytes of a leaf.

    What was planned needs `leaves`, those in `targets` in that memory, before the steps are done. After `let_go` more
    may be planned.
    """

    def __init__(self, read: Callable[[int], memoryview]) -> None:
        self._read = read
        self.leaves: set[int] = set()
        self.targets: dict[int, memoryview] = {}
        self._done: set[int] = set()
        self._offered: set[int] = set()
        self._by_hand: list[tuple[Framework, Any]] = []

    def need(self, leaf: int) -> None:
        """A step will read this leaf."""
        if leaf not in self._done:
            self.leaves.add(leaf)

    def step(self, framework: Framework, array: Any, leaf: int) -> Callable[[], Any]:
        """The step that fills an array and returns it; nothing is left to do where the leaf went straight there."""
        view = None if leaf in self.targets or leaf in self._done else framework.target(array)
        if view is not None:
            self.targets[leaf] = view
        else:
            self._by_hand.append((framework, array))
        return partial(self._fill, framework, array, leaf, view)

    def _fill(self, framework: Framework, array: Any, leaf: int, view: memoryview | None) -> Any:
        if view is not None and self.targets.get(leaf) is view:
            framework.filled(array)
        else:
            framework.fill(array, self._read(leaf))
        return array

    def offer(self, framework: Framework, array: Any, leaf: int, otherwise: Callable[[], Any]) -> Callable[[], Any]:
        """The step that gives an array with the leaf in it, this one if nothing else lies in its memory."""
        view = None if leaf in self.targets or leaf in self._done else framework.target(array)
        if view is None:
            return otherwise
        self.targets[leaf] = view
        self._offered.add(leaf)

        def give() -> Any:
            if self.targets.get(leaf) is not view:
                return otherwise()
            framework.filled(array)
            return array

        return give

    def settle(self) -> None:
        """Once all is planned: no two leaves may go to one piece of memory, since they are read in any order and
        verified where they lie. Such arrays are filled in the order of the plan instead."""
        for leaf in overlapping(self.targets):
            del self.targets[leaf]
        offered = self._offered & self.targets.keys()
        spans = [framework.span(array) for framework, array in self._by_hand] if offered else []
        for start, end in filter(None, spans):
            for leaf in offered & self.targets.keys():
                at = _address(self.targets[leaf])
                if start < at + len(self.targets[leaf]) and at < end:
                    del self.targets[leaf]

    def let_go(self) -> None:
        """Once the steps are done: keeps no view of the program's memory, which would hinder its owner."""
        self.targets.clear()
        self._offered.clear()
        self._by_hand.clear()
        self._done |= self.leaves
        self.leaves.clear()


def overlapping(targets: Mapping[int, memoryview]) -> set[int]:
    """The leaves whose targets share memory."""
    found: set[int] = set()
    spans = [(start := _address(view), start + len(view), leaf) for leaf, view in targets.items()]
    spans.sort()
    if all(one[1] <= following[0] for one, following in pairwise(spans)):
        return found  # as nearly always
    end, longest = 0, -1
    for start, last, leaf in spans:
        if start < end:
            found |= {leaf, longest}
        if last > end:
            end, longest = last, leaf
    return found


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_ubyte.from_buffer(view))
