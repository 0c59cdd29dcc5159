"""What is remembered of a state's structure: learned from a full walk, verified by the next one (see revisit.py)."""

import dataclasses
import enum
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

from outlast.ports import Framework, Unsupported
from outlast.sharding import Sharder, Sharding
from outlast.state.capture import Capture, Stateful
from outlast.state.revisit import (
    INLINE_BYTES,
    Changed,
    Child,
    Children,
    Family,
    Found,
    Visit,
    VisitArray,
    VisitDict,
    VisitItems,
    VisitLone,
    VisitMemory,
    VisitSame,
    apart,
    first_meetings,
)
from outlast.state.scalars import TO_NODE, Node
from outlast.state.snapshot import LeafTable, Pile

_LIKE_JSON_KEYS = frozenset({str, int, bool, bytes, type(None)})  # equal ones of one type have the same bits


@dataclass(frozen=True, slots=True)
class Revisited:
    """The parts of a state, found built as they were: their nodes, and what they are made of.

    `things` are held, not their identities: those of what is freed go to something else.
    """

    nodes: dict[str, Node]
    piles: list[Pile]
    things: list[object]
    places: Mapping[str, list[int]]

    def meets(self, tail: Capture) -> bool:
        """Whether something walked since, in `tail`, is an object or an array of the parts, too."""
        if not tail.identities().isdisjoint(map(id, self.things)):
            return True
        return any(
            not set(self.places.get(pile.framework.name, ())).isdisjoint(pile.framework.places(pile.values))
            for pile in tail.piles()
            if pile.framework is not None
        )


class Structure:
    """The parts of a state as a full walk found them. `leaves`: how many they have; `table`: of the whole walk.

    Raises Changed when made, for a state that cannot be remembered.
    """

    def __init__(
        self, parts: Mapping[str, Any], nodes: Mapping[str, Node], frameworks: Sequence[Framework], table: LeafTable
    ) -> None:
        learner = _Learner(frameworks, table)
        # A state_dict is asked for once more; it may answer otherwise, and nothing is remembered then.
        try:
            self._visits = {name: Child(learner.visit(value, nodes[name])) for name, value in parts.items()}
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as why:
            raise Changed(f"the state is not as it was just now: {why!r}") from why
        self._frameworks = list(frameworks)
        self._families = learner.families
        self._lone, self._raw = learner.lone, learner.raw
        self.leaves = learner.leaves
        found = Found(require_finite=False, arrays={name: [] for name in self._families})
        if self._walk(parts, found) != nodes:
            raise Changed("the state is not as it was just now")
        self._again = first_meetings(found.things)
        self._things = len(found.things)
        for name, family in self._families.items():
            family.settle(found.arrays[name])
        self._apart = apart(self._spans(found))

    def again(self, parts: Mapping[str, Any], frameworks: Sequence[Framework], *, require_finite: bool) -> Revisited:
        """The parts as they are now. Raises Changed unless they are built as they were."""
        if len(frameworks) != len(self._frameworks) or any(
            one is not other for one, other in zip(frameworks, self._frameworks, strict=True)
        ):
            raise Changed("another framework came into use")
        found = Found(require_finite, arrays={name: [] for name in self._families})
        try:
            nodes = self._walk(parts, found)
            places = self._verify(found)
        except (Unsupported, RecursionError) as why:  # the full walk finds it, too, and says where
            raise Changed(str(why)) from why
        return Revisited(nodes, self._piles(found), found.things, places)

    def _walk(self, parts: Mapping[str, Any], found: Found) -> dict[str, Node]:
        if list(parts) != list(self._visits):
            raise Changed("the parts are others")
        return {name: self._visits[name].again(value, found) for name, value in parts.items()}

    def _verify(self, found: Found) -> dict[str, list[int]]:
        if len(found.things) != self._things or first_meetings(found.things) != self._again:
            raise Changed("objects came to be one, or ceased to")
        places: dict[str, list[int]] = {}
        moved = False
        for name, family in self._families.items():
            places[name], outside_moved = family.verify(found.arrays[name], require_finite=found.require_finite)
            moved |= outside_moved
        if moved and not (self._apart and apart(self._spans(found))):
            raise Changed("arrays have moved, and memory is shared")
        return places

    def _spans(self, found: Found) -> list[tuple[int, int]]:
        return [span for name, family in self._families.items() for span in family.spans(found.arrays[name])]

    def _piles(self, found: Found) -> list[Pile]:
        piles = [family.pile(found.arrays[name]) for name, family in self._families.items()]
        piles += starmap(_pile_of_one, zip(self._lone, found.lone, strict=True))
        piles.append(Pile(None, self._raw, found.raw))
        return [pile for pile in piles if pile.leaves]


def _pile_of_one(lone: tuple[Framework, int], value: object) -> Pile:
    framework, leaf = lone
    return Pile(framework, (leaf,), [value])


@dataclass(slots=True)
class _Learner:
    """Makes the visits, in the order of the walk."""

    frameworks: Sequence[Framework]
    table: LeafTable
    families: dict[str, Family] = field(default_factory=dict)
    lone: list[tuple[Framework, int]] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    inside: bool = False

    @property
    def raw(self) -> tuple[int, ...]:
        """The leaves that are memory of no framework."""
        return tuple(self.memory)

    @property
    def leaves(self) -> int:
        """How many leaves were met."""
        arrays = sum(leaf >= 0 for family in self.families.values() for leaf in family.leaves)
        return arrays + len(self.lone) + len(self.memory)

    def visit(self, value: Any, node: Node) -> Visit | None:
        """How to visit this value again; None for a scalar."""
        kind = type(value)
        if kind in TO_NODE and not (kind is bytes and len(value) > INLINE_BYTES):
            return None
        for framework in self.frameworks:
            if framework.owns(value):
                sharding = framework.sharder and framework.sharder.sharding(value)
                if framework.sharder and sharding:
                    return self._sharded(framework, framework.sharder, value, sharding, node)
                return self._array(framework, value, node)
        tag = "list" if isinstance(node, list) else node.get("$", "plain")
        if tag == "same":
            return VisitSame(kind, node)
        return _LEARN[tag](self, value, node)

    def _array(self, framework: Framework, value: Any, node: Node) -> Visit:
        leaf = node["leaf"] if node["$"] == "array" else -1
        if leaf >= 0 and self.table.specs[leaf].extra.get("scalar"):
            self.lone.append((framework, leaf))
            return VisitLone(framework, self.table.specs[leaf], node)
        family = self.families.setdefault(framework.name, Family(framework))
        family.leaves.append(leaf)
        family.outside.append(not self.inside)
        return VisitArray(framework.name, type(value), node)

    def _sharded(self, framework: Framework, sharder: Sharder, value: Any, sharding: Sharding, node: Node) -> Visit:
        family = self.families.setdefault(framework.name, Family(framework))
        leaves = [one["leaf"] for one in node["v"]] if node["$"] == "sharded" else [-1] * len(sharding.boxes)
        family.leaves += leaves
        family.outside += [not self.inside] * len(leaves)
        return _VisitSharded(framework.name, sharder, sharding, node)

    def _memory(self, value: Any, node: Node) -> Visit:
        self.memory.append(node["leaf"])
        return VisitMemory(type(value), memoryview(value).nbytes, getattr(value, "typecode", None), node)

    def _children(self, values: Sequence[Any], nodes: list[Node]) -> Children:
        visits = [self.visit(value, node) for value, node in zip(values, nodes, strict=True)]
        return Children.of(values, visits, nodes)

    def _items(self, value: Any, node: Node) -> Visit:
        nodes = node if isinstance(node, list) else node["v"]
        kind = type(value)
        identity = kind not in (tuple, frozenset)
        return VisitItems(kind, self._children(list(value), nodes), _WRAP.get(kind, _wrapped), identity=identity)

    def _dict(self, value: Any, node: Node) -> Visit:
        keys, plain = list(value), "$" not in node
        if not all(map(_is_plain_key, keys)):
            raise Changed("a dict has keys that are more than plain values")
        nodes = list(node.values()) if plain else [item for _, item in node["items"]]
        children = self._children(list(value.values()), nodes)
        metadata = None
        if "metadata" in node and not plain:
            metadata = Child(self.visit(value._metadata, node["metadata"]))
        return VisitDict(
            kind=type(value),
            keys=keys,
            exact=not set(map(type, keys)) <= _LIKE_JSON_KEYS,
            plain=plain,
            key_nodes=[] if plain else [key for key, _ in node["items"]],
            children=children,
            node=node,
            factory=getattr(value, "default_factory", None),
            metadata=metadata,
        )

    def _tree(self, value: Any, node: Node) -> Visit:
        framework = next(one for one in self.frameworks if one.owns_tree(value))
        leaves = [leaf for _, leaf in framework.tree_leaves(value)]
        return _VisitTree(type(value), framework, self._children(leaves, node["v"]), node)

    def _object(self, value: Any, node: Node) -> Visit:
        was_inside, self.inside = self.inside, True
        whole = _whole_of(self.frameworks, value)
        visit = _VisitObject(type(value), whole, Child(self.visit(whole(value), node["v"])), node)
        self.inside = was_inside
        return visit

    def _named(self, value: Any, node: Node) -> Visit:
        """What has its parts under names: an enum's value, a named tuple's or a dataclass's fields."""
        kind = type(value)
        if isinstance(value, enum.Enum):
            return _VisitEnum(kind, Child(self.visit(value.value, node["v"])), node)
        if dataclasses.is_dataclass(value):
            names = tuple(node["fields"])
            fields = [getattr(value, name) for name in names]
            return _VisitDataclass(kind, names, self._children(fields, list(node["fields"].values())), node)
        children = self._children(list(value), node["v"])
        return VisitItems(kind, children, lambda _, nodes: {**node, "v": nodes}, identity=False)


def _is_plain_key(key: object) -> bool:
    if type(key) is tuple:
        return all(map(_is_plain_key, key))
    return type(key) in _LIKE_JSON_KEYS or type(key) is float


def _whole_of(frameworks: Sequence[Framework], value: Any) -> Callable[[Any], Any]:
    """What gives all the state of an object."""
    for framework in frameworks:
        if framework.owns_generator(value):
            return framework.generator_state
    return random.Random.getstate if type(value) is random.Random else _state_dict


def _state_dict(value: Any) -> Any:
    if not isinstance(value, Stateful):
        raise Changed("an object has lost its state_dict")
    return value.state_dict()


@dataclass(frozen=True, slots=True)
class _VisitSharded:
    """An array that is divided among processes: its part of this one, and divided as it was."""

    name: str
    sharder: Sharder
    sharding: Sharding
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if self.sharder.sharding(value) != self.sharding:
            raise Changed("an array is divided in another way")
        found.arrays[self.name] += self.sharder.arrays(value)
        return self.node


@dataclass(frozen=True, slots=True)
class _VisitObject:
    """An object whose state is handed over as a whole: with state_dict, or a random generator."""

    kind: type[Any]
    whole: Callable[[Any], Any]
    state: Child
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("another object")
        found.things.append(value)
        return {**self.node, "v": self.state.again(self.whole(value), found)}


@dataclass(frozen=True, slots=True)
class _VisitEnum:
    """A member of an enum; perhaps another one."""

    kind: type[Any]
    inner: Child
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("a member of another enum")
        return {**self.node, "v": self.inner.again(value.value, found)}


@dataclass(frozen=True, slots=True)
class _VisitDataclass:
    """A dataclass; the same of its fields must be set."""

    kind: type[Any]
    names: tuple[str, ...]
    children: Children
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind:
            raise Changed("another dataclass")
        every = [one.name for one in dataclasses.fields(value)]
        if tuple(name for name in every if hasattr(value, name)) != self.names:
            raise Changed("other fields are set")
        if not set(getattr(value, "__dict__", ())) <= set(every):
            raise Changed("an attribute came that is no field")
        found.things.append(value)
        nodes = self.children.again([getattr(value, name) for name in self.names], found)
        return {**self.node, "fields": dict(zip(self.names, nodes, strict=True))}


@dataclass(frozen=True, slots=True)
class _VisitTree:
    """A container that only its framework takes apart."""

    kind: type[Any]
    framework: Framework
    children: Children
    node: Node

    def again(self, value: Any, found: Found) -> Node:
        if type(value) is not self.kind or not self.framework.owns_tree(value):
            raise Changed("another tree")
        named = self.framework.tree_leaves(value)
        if [name for name, _ in named] != self.node["names"]:
            raise Changed("a tree has another structure")
        return {**self.node, "v": self.children.again([leaf for _, leaf in named], found)}


def _wrapped(value: Any, nodes: list[Node]) -> Node:
    return {"$": type(value).__name__, "v": nodes}


_WRAP: dict[type, Callable[[Any, list[Node]], Node]] = {
    list: lambda _, nodes: nodes,
    deque: lambda value, nodes: {"$": "deque", "v": nodes, "maxlen": value.maxlen},
}

_LEARN: dict[str, Callable[[_Learner, Any, Node], Visit]] = {
    **dict.fromkeys(("list", "tuple", "frozenset", "set", "deque"), _Learner._items),
    **dict.fromkeys(("plain", "dict", "OrderedDict", "Counter", "defaultdict"), _Learner._dict),
    **dict.fromkeys(("bytes", "bytearray", "array.array"), _Learner._memory),
    **dict.fromkeys(("generator", "random.Random", "stateful"), _Learner._object),
    **dict.fromkeys(("enum", "namedtuple", "dataclass"), _Learner._named),
    "tree": _Learner._tree,
}
