"""The second walk over a state: a remembered structure is verified and the values are collected, in little time.

The full walk (capture.py) checks everything and takes tens of microseconds a leaf. Most states are built the same at
every save, so what the full walk's checks depended on is remembered: which containers of which types with which keys,
which objects were one, what each array was and where. A revisit compares that and collects scalars and arrays anew.
Whatever differs raises Changed, and the caller walks in full. Nothing of the program's is kept alive in between.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Protocol

from outlast.ports import Framework
from outlast.state.scalars import TO_NODE, Node
from outlast.state.snapshot import Pile

INLINE_BYTES = 1024  # longer bytes become leaves of their own


class Changed(Exception):
    """The state is not built as it was; the text says where the first difference is, for those who debug."""


@dataclass(slots=True)
class Found:
    """What one walk comes across, in its order.

    `arrays` by framework; `lone`: array scalars with their framework; `raw`: memory; `things`: everything else that
    has an identity. Holds them all, so that no identity is given away meanwhile.
    """

    require_finite: bool
    arrays: dict[str, list[Any]] = field(default_factory=dict)
    lone: list[Any] = field(default_factory=list)
    raw: list[memoryview] = field(default_factory=list)
    things: list[object] = field(default_factory=list)

    def scalar(self, value: Any) -> Node:
        """The node of an immutable value."""
        kind = type(value)
        to_node = TO_NODE.get(kind)
        if to_node is None or (kind is bytes and len(value) > INLINE_BYTES):
            raise Changed(f"a {kind.__name__} stands where a scalar stood")
        if self.require_finite and kind in (float, complex) and value - value != 0:
            raise Changed("a number is not finite")
        return to_node(value)


class Visit(Protocol):
    """How one place of a state is visited again."""

    def again(self, value: Any, found: Found) -> Node:
        """The node of what stands there now; raises Changed if it is not built as it was."""
        ...


@dataclass(slots=True)
class Family:
    """The arrays of one framework, by position in the walk's order.

    `leaves`: the leaf index, -1 for another name of an earlier array. `outside`: not inside an object, so that
    overlaps in memory matter.
    """

    framework: Framework
    leaves: list[int] = field(default_factory=list)
    outside: list[bool] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    facts: object = None
    aliases: dict[int, int] = field(default_factory=dict)
    kept: list[int] | None = None
    pile_leaves: tuple[int, ...] = ()

    def settle(self, values: Sequence[Any]) -> None:
        """Remembers what the values are, once all of them are known."""
        self.facts, self.places = self.framework.facts(values), self.framework.places(values)
        self.aliases = self._aliases(values, self.places)
        second = {position for position, leaf in enumerate(self.leaves) if leaf < 0}
        if second != set(self.aliases):
            raise Changed("the full walk saw other aliases")
        self.pile_leaves = tuple(leaf for leaf in self.leaves if leaf >= 0)
        self.kept = [position for position, leaf in enumerate(self.leaves) if leaf >= 0] if second else None

    def verify(self, values: Sequence[Any], *, require_finite: bool) -> tuple[list[int], bool]:
        """Where the values are now, and whether one that lies outside of objects has moved; raises Changed."""
        if len(values) != len(self.leaves) or self.framework.facts(values) != self.facts:
            raise Changed(f"an array of {self.framework.name} is another")
        if require_finite and not all(map(self.framework.is_finite, values)):
            raise Changed("an array is not finite")
        places = self.framework.places(values)
        if places == self.places:
            return places, False
        if self._aliases(values, places) != self.aliases:
            raise Changed("arrays came to be one, or ceased to")
        return places, any(
            outside and now != before for outside, now, before in zip(self.outside, places, self.places, strict=True)
        )

    def pile(self, values: list[Any]) -> Pile:
        """The arrays that are leaves."""
        kept = values if self.kept is None else [values[position] for position in self.kept]
        return Pile(self.framework, self.pile_leaves, kept)

    def spans(self, values: Sequence[Any]) -> list[tuple[int, int]]:
        """The memory of the arrays outside of objects, each once."""
        found = []
        for position, value in enumerate(values):
            if self.outside[position] and position not in self.aliases:
                span = self.framework.span(value)
                if span is not None:
                    found.append(span)
        return found

    def _aliases(self, values: Sequence[Any], places: list[int]) -> dict[int, int]:
        """Which positions show an array that an earlier one showed, and which."""
        if len(set(places)) == len(places):
            return {}  # no two at the same address, so no two are the same
        firsts: dict[Hashable, int] = {}
        aliases = {}
        crowded = _twice(places)
        for position, place in enumerate(places):
            if place in crowded:
                first = firsts.setdefault(self.framework.alias_key(values[position]), position)
                if first != position:
                    aliases[position] = first
        return aliases


def _twice(places: Sequence[int]) -> set[int]:
    seen: set[int] = set()
    return {place for place in places if place in seen or seen.add(place)}  # type: ignore[func-returns-value]  # the idiom


def first_meetings(things: Sequence[object]) -> dict[int, int]:
    """Which positions hold an object that an earlier one held, and which."""
    ids = list(map(id, things))
    if len(set(ids)) == len(ids):
        return {}
    firsts: dict[int, int] = {}
    return {position: firsts[key] for position, key in enumerate(ids) if firsts.setdefault(key, position) != position}


def apart(spans: list[tuple[int, int]]) -> bool:
    """Whether no two of these pieces of memory overlap."""
    spans.sort()
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


# --- values that are leaves -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VisitArray:
    """An array; the same node again, for its bytes are not looked at."""

    name: str
    kind: type[Any]
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("another kind of value stands where an array stood")
        found.arrays[self.name].append(value)
        return self.node


@dataclass(frozen=True, slots=True)
class VisitLone:
    """An array scalar, which is assigned anew at each step, and which nothing can share."""

    framework: Framework
    spec: Any
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if not self.framework.owns(value) or self.framework.spec(value) != self.spec:
            raise Changed("an array scalar is another")
        if found.require_finite and not self.framework.is_finite(value):
            raise Changed("an array scalar is not finite")
        found.lone.append(value)
        return self.node


@dataclass(frozen=True, slots=True)
class VisitMemory:
    """bytes (which have no identity), a bytearray, an array.array."""

    kind: type[Any]
    nbytes: int
    code: str | None
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind or getattr(value, "typecode", None) != self.code:
            raise Changed("another kind of value stands where memory stood")
        data = memoryview(value)
        if data.nbytes != self.nbytes:
            raise Changed("memory has another size")
        found.raw.append(data.cast("B") if data.nbytes else memoryview(b""))
        if self.kind is not bytes:
            found.things.append(value)
        return self.node


@dataclass(frozen=True, slots=True)
class VisitSame:
    """Another name of an object that was met before: which one, the order of things tells."""

    kind: type[Any]
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("another kind of value stands where a second name stood")
        found.things.append(value)
        return self.node


# --- containers -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Children:
    """The values inside one container. `visits` has None for scalars; `kinds` their types when they are arrays of
    one framework, the case that must be fast."""

    visits: list[Visit | None]
    nodes: list[Node]
    kinds: list[type] | None
    framework: str

    @classmethod
    def of(cls, values: Sequence[Any], visits: list[Visit | None], nodes: list[Node]) -> "Children":
        names = {visit.name if isinstance(visit, VisitArray) else "" for visit in visits}
        alike = len(names) == 1 and names != {""}
        return cls(visits, nodes, list(map(type, values)) if alike else None, names.pop() if alike else "")

    @property
    def only_scalars(self) -> bool:
        """Whether they may change in number, too."""
        return not any(self.visits)

    def again(self, values: Sequence[Any], found: Found) -> list[Node]:
        """Their nodes; the very same list for arrays, whose nodes do not change."""
        if len(values) != len(self.visits):
            raise Changed("a container has another length")
        if self.kinds is not None:
            if not all(map(is_, map(type, values), self.kinds)):
                raise Changed("another kind of value stands where an array stood")
            found.arrays[self.framework].extend(values)
            return self.nodes
        return [
            found.scalar(value) if visit is None else visit.again(value, found)
            for value, visit in zip(values, self.visits, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class VisitItems:
    """A list, tuple, set, frozenset, deque or named tuple; one of scalars may have become longer."""

    kind: type[Any]
    children: Children
    wrap: Callable[[Any, list[Node]], Node]
    identity: bool

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("another container")
        if self.identity:
            found.things.append(value)
        if self.children.only_scalars:
            return self.wrap(value, scalars(value, found))
        return self.wrap(value, self.children.again(list(value), found))


@dataclass(frozen=True, slots=True)
class VisitDict:
    """A dict of any kind. `exact`: its keys must be the very same objects, since equal ones may differ in bits.

    `plain`: its node is a JSON object; else one with `key_nodes` and what else belongs to it.
    """

    kind: type[Any]
    keys: list[Any]
    exact: bool
    plain: bool
    key_nodes: list[Node]
    children: Children
    node: Node
    factory: Any
    metadata: "Child | None"

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("another container")
        found.things.append(value)
        if self.plain and self.children.only_scalars:
            if not all(type(key) is str for key in value) or "$" in value:
                raise Changed("a dict has other keys")
            return dict(zip(value, scalars(value.values(), found), strict=True))
        self._verify_keys(list(value))
        nodes = self.children.again(list(value.values()), found)
        if self.plain:
            return self.node if nodes is self.children.nodes else dict(zip(self.keys, nodes, strict=True))
        return self._with_rest(value, nodes, found)

    def _verify_keys(self, keys: list[Any]) -> None:
        if len(keys) == len(self.keys) and all(map(is_, keys, self.keys)):
            return
        if self.exact or keys != self.keys or not all(map(is_, map(type, keys), map(type, self.keys))):
            raise Changed("a dict has other keys")

    def _with_rest(self, value: Any, nodes: list[Node], found: Found) -> Node:
        node = {**self.node, "items": [list(pair) for pair in zip(self.key_nodes, nodes, strict=True)]}
        if getattr(value, "default_factory", None) is not self.factory:
            raise Changed("a defaultdict has another factory")
        metadata = getattr(value, "_metadata", None)
        if (metadata is None) != (self.metadata is None):
            raise Changed("a dict has lost or got its metadata")
        if self.metadata is not None:
            node["metadata"] = self.metadata.again(metadata, found)
        return node


@dataclass(frozen=True, slots=True)
class Child:
    """One value inside another; a scalar if there is no visit."""

    visit: Visit | None

    def again(self, value: Any, found: Found) -> Node:
        """Its node now."""
        return found.scalar(value) if self.visit is None else self.visit.again(value, found)


def scalars(values: Any, found: Found) -> list[Node]:
    """The nodes of immutable values; those that JSON holds as they are cost little."""
    kinds = set(map(type, values))
    if kinds <= _EXACT_IN_JSON or (kinds == {float} and all(map(math.isfinite, values))):
        return list(values)
    return list(map(found.scalar, values))


_EXACT_IN_JSON = frozenset({bool, str, type(None)})
