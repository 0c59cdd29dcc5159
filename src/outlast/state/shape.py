"""What stands in the program at the start, by key path: the ground on which a checkpoint is restored.

A value that is restored in place (an array, a generator, an object with load_state_dict) must still be there, and
of the same kind, whenever the state is saved; otherwise the save could never be put back, and is refused.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from outlast.ports import ArraySpec, Framework
from outlast.sharding import Sharding
from outlast.state.sharing import Sharing


@dataclass(frozen=True, slots=True)
class Standing:
    """One value that is restored in place. `what` tells it apart for people and for comparison."""

    what: str

    @classmethod
    def array(cls, spec: ArraySpec) -> "Standing":
        """An array or tensor; its framework, dtype and shape must stay."""
        return _array(spec.framework, spec.dtype, spec.shape)

    @classmethod
    def divided(cls, framework: str, sharding: Sharding) -> "Standing":
        """An array of which this process holds a part; how it is divided may be another thing at each start."""
        return _array(framework, sharding.dtype, sharding.shape)

    @classmethod
    def stateful(cls, kind: type) -> "Standing":
        """An object with load_state_dict; its class must stay."""
        return cls(f"object of class {class_name(kind)}")

    @classmethod
    def generator(cls, value: object) -> "Standing":
        """A random generator; its class must stay."""
        return cls(f"generator of class {class_name(type(value))}")


@lru_cache(maxsize=1024)
def _array(framework: str, dtype: str, shape: tuple[int, ...]) -> Standing:
    return Standing(f"{framework} array {dtype}{list(shape)}")


@dataclass(slots=True)
class Ground:
    """The in-place values by key path, the classes that stand in the state by name, and what is asked for apart:
    random generators (with their framework; None for the standard library's), objects with load_state_dict, the
    dtypes of the arrays inside those, the arrays that are assigned (JAX's, read-only ones), and how arrays are divided
    among processes, inside objects or not."""

    standing: dict[str, Standing] = field(default_factory=dict)
    classes: dict[str, type] = field(default_factory=dict)
    generators: dict[str, tuple[Framework | None, Any]] = field(default_factory=dict)
    objects: list[object] = field(default_factory=list)
    inside: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, Standing] = field(default_factory=dict)
    sharded: dict[str, Sharding] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)
    _in_order: list[str] = field(default_factory=list)

    def take(self, other: "Ground") -> None:
        """Becomes what another walk found."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def below(self, root: str) -> Iterator[str]:
        """The key paths at or below `root`."""
        if len(self._in_order) != len(self.standing):
            self._in_order = sorted(self.standing)
        first, inside = bisect_left(self._in_order, root), (f"{root}[", f"{root}.")
        for number in range(first, len(self._in_order)):
            path = self._in_order[number]
            if not path.startswith(root):
                return
            if path == root or path.startswith(inside):
                yield path


def class_name(kind: type) -> str:
    """A class by module and qualified name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def written_class(value: object, frameworks: Iterable[Framework]) -> type:
    """The class of an object as the program wrote it, whatever a framework has put in its place."""
    for framework in frameworks:
        if framework.sharder is not None:
            kind = framework.sharder.written_class(value)
            if kind is not type(value):
                return kind
    return type(value)
