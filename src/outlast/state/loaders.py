"""What a data loader carries from one epoch into the next: the state of its generators, and its own.

A loader made before the loop carries it; one that the program makes anew in each epoch does not, and must not be
given what its predecessor left.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from outlast.ports import Framework
from outlast.state.capture import Capture, load
from outlast.state.snapshot import tree_bytes


@dataclass(slots=True)
class LoaderMemory:
    """The loader of this run. `beside`: it has state_dict and is not part of the user's state.

    `first` tells the generators' states when the run first met them; `remade` and `generators_remade`: another
    epoch had others. `saved` is the checkpoint's state_dict of a loader beside the state.
    """

    loader: Any = None
    beside: bool = False
    generators: list[Any] = field(default_factory=list)
    first: str = ""
    remade: bool = False
    generators_remade: bool = False
    carried: bool = False
    saved: Any = None

    def meet(self, loader: Any, *, beside: bool, frameworks: Sequence[Framework]) -> None:
        """The loader of an epoch."""
        found = [(framework, one) for framework in frameworks for one in framework.loader_generators(loader)]
        generators = [one for _, one in found]
        if self.loader is None:
            now = _fingerprint(frameworks, [framework.generator_state(one) for framework, one in found])
            self.first = self.first or now
            self.carried = not self.generators_remade and now == self.first
        else:
            self.remade |= self.loader is not loader
            same = len(generators) == len(self.generators) and all(map(_is, generators, self.generators))
            self.generators_remade |= not same
        self.loader, self.beside, self.generators = loader, beside, generators

    def state_now(self) -> Any:
        """The state_dict to save of a loader beside the state."""
        if self.loader is None:
            return self.saved
        return self.loader.state_dict() if self.beside else None

    def bring_back(self) -> None:
        """Gives a loader beside the state what the checkpoint has. Random numbers may be drawn."""
        if self.beside and self.saved is not None:
            load(self.loader, self.saved)

    def as_tree(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {
            "first": self.first,
            "remade": self.remade,
            "generators_remade": self.generators_remade,
            "state": self.state_now(),
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any] | None) -> "LoaderMemory":
        if tree is None or "first" not in tree:  # of an early version: the state_dict alone
            return cls(saved=tree)
        return cls(
            first=tree["first"],
            remade=tree["remade"],
            generators_remade=tree["generators_remade"],
            saved=tree["state"],
        )


def _is(first: object, second: object) -> bool:
    return first is second


def _fingerprint(frameworks: Sequence[Framework], states: list[Any]) -> str:
    capture = Capture(frameworks)
    node = capture.detached("@loader", states)
    snapshot = capture.snapshot({"states": node})
    running = hashlib.sha256(tree_bytes(snapshot.tree))
    for leaf in snapshot.leaves:
        running.update(leaf.data)
    return running.hexdigest()
