"""From a user's state to a snapshot: a tree of nodes, and leaves of raw bytes that still share the state's memory."""

import array
import dataclasses
import enum
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from outlast.errors import StateUnsupported
from outlast.ports import ArrayFacts, ArraySpec, Framework, Unsupported
from outlast.sharding import Sharder, Sharding
from outlast.state.scalars import TO_NODE, Node
from outlast.state.shape import Ground, Standing, class_name, written_class
from outlast.state.sharded import sharded_node
from outlast.state.snapshot import LeafTable, Pile, Snapshot, raw_spec

_INLINE_BYTES = 1024  # longer bytes become leaves of their own
_PLAIN = frozenset({bool, int, float, str, type(None)})
FACTORIES = {kind.__name__: kind for kind in (int, float, str, list, dict, set)}


@runtime_checkable
class Stateful(Protocol):
    """Anything with state_dict and load_state_dict: modules, optimizers, schedulers, loaders."""

    def state_dict(self) -> Any:
        """Its state as a tree."""
        ...

    def load_state_dict(self, state_dict: Any) -> Any:
        """Puts a state back."""
        ...


def load(target: Stateful, state: Any) -> None:
    """Gives an object its state back.

    torchdata's loaders make their iterator, and draw random numbers, at the first call of state_dict after that; so
    that call is made here, before random state is set, and not by the first save.
    """
    target.load_state_dict(state)
    if isinstance(target, Iterable):
        target.state_dict()


class Capture:
    """Turns named values into one snapshot. Use once.

    `ground` is None for the very first walk, which makes it (see `made`); later walks check against it.
    """

    def __init__(
        self,
        frameworks: Sequence[Framework],
        *,
        ground: Ground | None = None,
        classes: Sequence[type] = (),
        require_finite: bool = False,
        first_leaf: int = 0,
    ) -> None:
        self.made = Ground(classes={class_name(kind): kind for kind in classes})
        self._ground = ground
        self._frameworks = frameworks
        self._require_finite = require_finite
        self._first_leaf = first_leaf
        self._leaf_names: list[str] = []
        self._specs: list[ArraySpec] = []
        self._sizes: list[int] = []
        self._piles: dict[str, tuple[Framework | None, list[int], list[Any]]] = {}
        self._lookers: dict[type, tuple[Framework, Callable[[Any], ArrayFacts]]] = {}
        self._names: set[str] = set()
        self._seen: dict[Hashable, str] = {}
        self._open: set[int] = set()
        self._inside_object = False
        self._alive: list[object] = []  # what the keys in _seen were made from must not be freed meanwhile

    def snapshot(self, tree: Mapping[str, Node]) -> Snapshot:
        """The snapshot of all that was added."""
        return Snapshot(tree, self.table(), self.piles())

    def table(self) -> LeafTable:
        """What was added so far, from `first_leaf` on."""
        return LeafTable(tuple(self._leaf_names), tuple(self._specs), tuple(self._sizes))

    def piles(self) -> list[Pile]:
        """The arrays and the memory that were added so far."""
        return [Pile(framework, tuple(leaves), values) for framework, leaves, values in self._piles.values()]

    def identities(self) -> set[int]:
        """Of all objects that were met and have one that matters, but for arrays."""
        return {key for key in self._seen if isinstance(key, int)}

    def add(self, path: str, value: object) -> Node:
        """The node of a value. Raises StateUnsupported naming the key path of what cannot be restored faithfully."""
        try:
            node = self._node(path, value)
        except RecursionError:
            raise StateUnsupported(f"{path} is nested too deeply to be saved") from None
        self._check_nothing_vanished(path)
        return node

    def check_sharing(self) -> None:
        """Once all parts are added: raises StateUnsupported unless values share objects and memory as at the start."""
        if self._ground is None:
            self.made.sharing.check_at_the_start(self.made.standing)
        else:
            self.made.sharing.check_against(self._ground.sharing, self._ground.standing)

    def _check_nothing_vanished(self, path: str) -> None:
        if self._ground is None or (path in self.made.standing and path in self._ground.standing):
            return  # nor can anything have stood below an array or the like
        for lost in self._ground.below(path):
            if lost not in self.made.standing:
                raise StateUnsupported(
                    f"{lost} was a {self._ground.standing[lost].what} at the start and is gone now, so a resumed "
                    "program could not be given this state; start with None there, or keep the object"
                )

    def _node(self, path: str, value: Any) -> Node:
        kind = type(value)
        try:
            if kind in self._lookers:
                return self._array(path, value)
            if kind in TO_NODE and not (kind is bytes and len(value) > _INLINE_BYTES):
                self._refuse_nonfinite(path, value)
                return TO_NODE[kind](value)
            node = self._container(path, kind, value)
            return self._object(path, value) if node is None else node
        except Unsupported as error:
            raise StateUnsupported(f"{path} cannot be saved: {error}") from error

    # --- containers and buffers of the standard library ---------------------------------------------

    def _container(self, path: str, kind: type, value: Any) -> Node:
        if kind is bytes:
            return {"$": "bytes", "leaf": self.leaf(path, memoryview(value))}
        if kind is tuple or kind is frozenset:
            return {"$": kind.__name__, "v": self._items(path, list(value))}
        build = _CONTAINERS.get(kind)
        return None if build is None else self._once(path, id(value), value, partial(build, self))

    def _once(
        self, path: str, key: Hashable, value: Any, build: Callable[[str, Any], Node], *, changeable: bool = True
    ) -> Node:
        """The node of a value with an identity: built at the first meeting, referred to at later ones.

        `changeable`: it can be changed in place, so that it matters who else has it.
        """
        # What is inside an object is its own affair, but for arrays (tied weights).
        changeable = changeable and not self._inside_object
        if key in self._seen and id(value) in self._open:
            raise StateUnsupported(f"{path} contains itself (as {self._seen[key]}), which cannot be saved")
        again = self._met_again(path, key, value, changeable=changeable)
        if again is not None:
            return again
        self._open.add(id(value))
        node = build(path, value)
        self._open.discard(id(value))
        return node

    def _met_again(self, path: str, key: Hashable, value: Any, *, changeable: bool) -> Node:
        """A reference to where it was met before; None at the first meeting, which is noted."""
        first = self._seen.setdefault(key, path)
        if first is not path:
            if changeable:
                self.made.sharing.aliases[path] = first
            return {"$": "same", "as": first}
        if changeable:
            self.made.sharing.owners.add(path)
        self._alive.append(value)
        return None

    def _items(self, path: str, values: list[Any]) -> list[Node]:
        if set(map(type, values)) <= _PLAIN and all(map(_exact_in_json, values)):
            return list(values)  # long lists of plain values would otherwise cost a call each
        return [self._node(f"{path}[{index}]", value) for index, value in enumerate(values)]

    def _dict(self, path: str, value: dict[Any, Any]) -> Node:
        plain_keys = all(type(key) is str for key in value) and "$" not in value
        entries = [(key, self._node(f"{path}[{key!r}]", item)) for key, item in value.items()]
        if type(value) is dict and plain_keys:
            return dict(entries)
        keyed = [[self._node(f"{path} key {key!r}", key), node] for key, node in entries]
        node: dict[str, Node] = {"$": type(value).__name__, "items": keyed}
        if isinstance(value, defaultdict):
            node["factory"] = self._factory(path, value)
        metadata = getattr(value, "_metadata", None)  # torch keeps the versions of its modules there
        if metadata is not None:
            node["metadata"] = self._node(f"{path}._metadata", metadata)
        return node

    def _factory(self, path: str, value: defaultdict[Any, Any]) -> str | None:
        factory = value.default_factory
        if factory is None:
            return None
        name = getattr(factory, "__name__", "")
        if FACTORIES.get(name) is not factory:
            raise StateUnsupported(f"{path} has default_factory {factory!r}; only {', '.join(FACTORIES)} can be saved")
        return name

    def _set(self, path: str, value: set[Any]) -> Node:
        return {"$": "set", "v": self._items(path, list(value))}

    def _deque(self, path: str, value: deque[Any]) -> Node:
        return {"$": "deque", "v": self._items(path, list(value)), "maxlen": value.maxlen}

    def _bytearray(self, path: str, value: bytearray) -> Node:
        return {"$": "bytearray", "leaf": self.leaf(path, memoryview(value))}

    def _array_array(self, path: str, value: "array.array[Any]") -> Node:
        return {"$": "array.array", "code": value.typecode, "leaf": self.leaf(path, memoryview(value).cast("B"))}

    # --- objects ------------------------------------------------------------------------------------

    def _object(self, path: str, value: Any) -> Node:
        for framework in self._frameworks:
            if framework.owns(value):
                self._lookers[type(value)] = framework, framework.looker()
                return self._array(path, value)
            if framework.owns_generator(value):
                return self._generator(path, framework, value)
        if type(value) is random.Random:
            self._stand(path, Standing.generator(value))
            self.made.generators[path] = (None, value)
            return self._once(path, id(value), value, self._python_random)
        if isinstance(value, type):
            raise StateUnsupported(f"{path} is a class ({class_name(value)}), not a value")
        if isinstance(value, Stateful):
            self._stand(path, Standing.stateful(written_class(value, self._frameworks)), needed=True)
            self.made.objects.append(value)
            return self._once(path, id(value), value, self._stateful)
        return self._structured(path, value)

    def _array(self, path: str, value: Any) -> Node:
        framework, look = self._lookers[type(value)]
        sharding = framework.sharder and framework.sharder.sharding(value)
        if framework.sharder and sharding:
            return self._sharded(path, framework, framework.sharder, value, sharding)
        spec, writable, nbytes, key, span = look(value)
        if self._require_finite and not framework.is_finite(value):
            raise StateUnsupported(f"{path} has elements that are not finite, which require_finite=True refuses")
        if writable:
            self._stand(path, Standing.array(spec))
        elif not spec.extra.get("scalar") and not self._inside_object:
            self._assign(path, Standing.array(spec))
        if self._inside_object and 0 not in spec.shape:
            self.made.inside[path] = spec.dtype
        if spec.extra.get("scalar"):
            key = object()
        elif span is not None and not self._inside_object:
            self.made.sharing.spans.append((*span, path, key))
        again = self._met_again(path, (framework.name, key), value, changeable=writable)
        if again is not None:
            return again
        return {"$": "array", "leaf": self._add_leaf(path, framework, value, spec, nbytes)}

    def _sharded(self, path: str, framework: Framework, sharder: Sharder, value: Any, sharding: Sharding) -> Node:
        """An array of which this process holds a part: leaves of that part, and where it lies in the whole."""
        look, arrays = framework.looker(), sharder.arrays(value)
        facts = [look(array) for array in arrays]
        if self._require_finite and not all(map(framework.is_finite, arrays)):
            raise StateUnsupported(f"{path} has elements that are not finite, which require_finite=True refuses")
        self.made.sharded[path] = sharding
        if self._inside_object:
            self.made.inside[path] = sharding.dtype
        elif not facts[0].writable:
            self._assign(path, Standing.divided(framework.name, sharding))
        else:
            self._stand(path, Standing.divided(framework.name, sharding))
            self.made.sharing.spans += [(*one.span, path, one.key) for one in facts if one.span is not None]
        key = (framework.name, sharding.shape, sharding.boxes, *(one.key for one in facts))
        again = self._met_again(path, key, value, changeable=facts[0].writable)
        if again is not None:
            return again
        leaves = [
            {"$": "array", "leaf": self._add_leaf(path, framework, array, one.spec, one.nbytes)}
            for array, one in zip(arrays, facts, strict=True)
        ]
        return sharded_node(path, framework.name, sharding, leaves)

    def _generator(self, path: str, framework: Framework, value: Any) -> Node:
        self._stand(path, Standing.generator(value), needed=True)
        self.made.generators[path] = (framework, value)

        def build(path: str, value: Any) -> Node:
            state = self.detached(f"{path}.state", framework.generator_state(value))
            return {"$": "generator", "framework": framework.name, "v": state}

        return self._once(path, id(value), value, build)

    def _python_random(self, path: str, value: random.Random) -> Node:
        return {"$": "random.Random", "v": self.detached(f"{path}.state", value.getstate())}

    def _stateful(self, path: str, value: Stateful) -> Node:
        state = self.detached(f"{path}.state_dict()", value.state_dict())
        return {"$": "stateful", "class": class_name(written_class(value, self._frameworks)), "v": state}

    def detached(self, path: str, value: object) -> Node:
        """The node of a value that is handed over as a whole at the restore: nothing of it stands in the program."""
        inner = Capture(self._frameworks, require_finite=self._require_finite)
        inner._leaf_names, inner._specs, inner._sizes = self._leaf_names, self._specs, self._sizes
        inner._names, inner._seen, inner._lookers = self._names, self._seen, self._lookers
        inner._first_leaf, inner._piles = self._first_leaf, self._piles
        inner._open, inner._alive, inner.made.classes = self._open, self._alive, self.made.classes
        inner.made.inside, inner.made.sharing = self.made.inside, self.made.sharing
        inner.made.sharded = self.made.sharded
        inner._ground = self._ground and Ground(classes=self._ground.classes)
        inner._inside_object = True
        return inner._node(path, value)

    def _structured(self, path: str, value: Any) -> Node:
        kind = type(value)
        if isinstance(value, enum.Enum):
            return {"$": "enum", "class": self._class(path, kind), "v": self._node(f"{path}.value", value.value)}
        for framework in self._frameworks:
            if framework.owns_tree(value):
                named = framework.tree_leaves(value)
                nodes = [self._node(f"{path}{name}", leaf) for name, leaf in named]
                return {"$": "tree", "framework": framework.name, "names": [name for name, _ in named], "v": nodes}
        if isinstance(value, tuple) and hasattr(kind, "_fields") and kind.__base__ is tuple:
            nodes = [self._node(f"{path}.{name}", item) for name, item in zip(kind._fields, value, strict=True)]
            return {"$": "namedtuple", "class": self._class(path, kind), "names": list(kind._fields), "v": nodes}
        if dataclasses.is_dataclass(value):
            return self._once(path, id(value), value, self._dataclass)
        raise StateUnsupported(f"{path} is a {class_name(kind)}, which cannot be restored faithfully; {_advice(value)}")

    def _dataclass(self, path: str, value: Any) -> Node:
        names = [field.name for field in dataclasses.fields(value)]
        extra = set(getattr(value, "__dict__", ())) - set(names)
        if extra:
            raise StateUnsupported(f"{path} has attributes beyond its fields: {', '.join(sorted(extra))}")
        fields = {name: self._node(f"{path}.{name}", getattr(value, name)) for name in names if hasattr(value, name)}
        return {"$": "dataclass", "class": self._class(path, type(value)), "fields": fields}

    # --- bookkeeping --------------------------------------------------------------------------------

    def _class(self, path: str, kind: type) -> str:
        name = class_name(kind)
        if self._ground is not None and name not in self._ground.classes:
            raise StateUnsupported(
                f"{path} is a {name}, and no value of that class stood in the state at the start, so a resumed program "
                f"would not know it; pass classes=({kind.__name__},) to Job"
            )
        self.made.classes[name] = kind
        return name

    def _stand(self, path: str, standing: Standing, *, needed: bool = False) -> None:
        """Notes an in-place value. `needed`: it can only be restored into one that stands in the program."""
        before = self._ground and self._ground.standing.get(path)
        if needed and (self._inside_object or (self._ground and not before)):
            raise StateUnsupported(
                f"{path} is a {standing.what} that did not stand there when the job started, so a resumed program "
                "would have nothing to restore it into; put it into the state from the start"
            )
        if before and before is not standing and before != standing:
            raise StateUnsupported(
                f"{path} is a {standing.what} and was a {before.what} at the start, so a resumed program could not be "
                "given this state in place; start with None there to have it assigned"
            )
        self.made.standing[path] = standing

    def _assign(self, path: str, standing: Standing) -> None:
        """Notes an array that a restore assigns; its framework, dtype and shape must stay all the same."""
        before = self._ground and self._ground.assigned.get(path)
        if before and before != standing:
            raise StateUnsupported(
                f"{path} is a {standing.what} and was a {before.what} at the start, which a resumed program would "
                "refuse; start with None there"
            )
        self.made.assigned[path] = standing

    def leaf(self, path: str, data: memoryview) -> int:
        """Adds raw bytes under a name made from `path`; returns the index that nodes refer to."""
        data = data.cast("B") if data.nbytes else memoryview(b"")
        return self._add_leaf(path, None, data, raw_spec(data), len(data))

    def _add_leaf(self, path: str, framework: Framework | None, value: Any, spec: ArraySpec, nbytes: int) -> int:
        name, again = _leaf_name(path), 1
        while name in self._names:
            again += 1
            name = f"{_leaf_name(path)}#{again}"
        self._names.add(name)
        index = self._first_leaf + len(self._leaf_names)
        self._leaf_names.append(name)
        self._specs.append(spec)
        self._sizes.append(nbytes)
        pile = self._piles.get(framework.name if framework else "")
        if pile is None:
            pile = self._piles[framework.name if framework else ""] = (framework, [], [])
        pile[1].append(index)
        pile[2].append(value)
        return index

    def _refuse_nonfinite(self, path: str, value: Any) -> None:
        if self._require_finite and type(value) in (float, complex) and value - value != 0:
            raise StateUnsupported(f"{path} is {value}, which require_finite=True refuses")


def _advice(value: Any) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return "leave the function out, and make it anew at each start"
    if hasattr(value, "fileno") or hasattr(value, "acquire"):
        return "leave it out and open it anew at each start; keep a file's path and position instead"
    for missing in ("state_dict", "load_state_dict"):
        if hasattr(value, "state_dict") != hasattr(value, "load_state_dict") and not hasattr(value, missing):
            return f"its class lacks {missing}"
    return "give its class state_dict and load_state_dict, make it a dataclass, or leave it out of the state"


def _exact_in_json(value: Any) -> bool:
    if type(value) is int:
        return -(1 << 63) < value < (1 << 63)
    return type(value) is not float or value - value == 0


def _leaf_name(path: str) -> str:
    """A leaf's name in the data file: the key path, in characters that every JSON reader takes."""
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode()


_CONTAINERS: dict[type, Callable[[Capture, str, Any], Node]] = {
    list: Capture._items,
    dict: Capture._dict,
    OrderedDict: Capture._dict,
    defaultdict: Capture._dict,
    Counter: Capture._dict,
    set: Capture._set,
    deque: Capture._deque,
    bytearray: Capture._bytearray,
    array.array: Capture._array_array,
}
