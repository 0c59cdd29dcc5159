"""From a checkpoint's tree back into the program: mutable values in place, every other value assigned.

Two passes: `plan` compares the tree with what stands in the program and raises StateMismatch before anything is
touched; the steps it returns then do the work.
"""

import array
import dataclasses
import enum
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outlast.errors import StateMismatch
from outlast.ports import ArraySpec, Framework
from outlast.state.capture import FACTORIES, Stateful, load
from outlast.state.filling import Filling
from outlast.state.scalars import FROM_NODE, Node
from outlast.state.shape import Ground, Standing, class_name, written_class
from outlast.state.sharded import Divided, ReadBox, ReadLeaf, Saved, identity
from outlast.state.steps import Make, all_done, faithful, refill_list

_DICTS: dict[str, type] = {"OrderedDict": OrderedDict, "Counter": Counter, "dict": dict}


class Absent:
    """Nothing stands at this place of the program."""


ABSENT = Absent()


class Restorer:
    """Restores named values of one checkpoint. `specs` gives what each leaf is; `read` its verified bytes, and
    `read_box` those of a part of an array.

    `filling` knows which leaves the planned steps need, and where some of them should be read to before; `divided`
    reads what they need of other ranks.
    """

    def __init__(
        self,
        specs: Sequence[ArraySpec],
        read: ReadLeaf,
        read_box: ReadBox,
        *,
        ground: Ground,
        framework: Callable[[str], Framework | None],
    ) -> None:
        self._specs, self._read = specs, read
        self._ground = ground
        self._framework_named = framework
        self._met: set[str] = set()
        self._named: set[int] = set()  # the leaves that nodes refer to
        self._nodes: dict[str, Node] = {}
        self._standing: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._inside: dict[str, Any] = {}  # arrays of objects that are filled without load_state_dict
        self._kept_arrays: dict[str, Any] = {}  # of objects, which load_state_dict may be given
        self.filling = Filling(read)
        self.divided = Divided(ground, self.filling, read, read_box)

    def plan(self, path: str, node: Node, template: Any = ABSENT) -> Make:
        """Checks a node against what stands in the program; the returned step restores it and gives the value.

        Raises StateMismatch naming the key path of what differs.
        """
        make = self._plan(path, node, template)
        if path in self._met:  # the one value there: nothing can stand below it
            return make
        for lost in self._ground.below(path):
            if lost not in self._met:
                raise StateMismatch(
                    f"{lost} is in the program (a {self._ground.standing[lost].what}) and not in the checkpoint"
                )
        return make

    def _plan(self, path: str, node: Node, template: Any) -> Make:
        if isinstance(node, list):
            return self._kept(path, node, template, self._list(path, node, template))
        if not isinstance(node, dict):
            return lambda: node
        kind = node.get("$")
        if kind is not None and "leaf" in node:
            self._name(path, node["leaf"])
            if kind == "array" and self.divided.concerns(path, self._specs[node["leaf"]]):
                kind = "sharded"
            else:
                self.filling.need(node["leaf"])
        if kind is None:
            return self._kept(path, node, template, self._dict(path, node.items(), dict, template))
        if kind in FROM_NODE and "leaf" not in node:
            value = FROM_NODE[kind](node)
            return lambda: value
        if kind == "same" or (kind == "array" and path in self._ground.standing):  # nothing is made, so nothing is kept
            return (self._same if kind == "same" else self._in_place)(path, node, template)
        builder = _BUILDERS.get(kind)
        if builder is None:
            raise StateMismatch(f"{path} is of kind {kind!r}, which this version of outlast does not know")
        return self._kept(path, node, template, builder(self, path, node, template))

    def _name(self, path: str, leaf: int) -> None:
        """A node refers to a leaf."""
        if not 0 <= leaf < len(self._specs):
            raise IndexError(f"{path} has leaf {leaf}, which the checkpoint lacks")
        if leaf in self._named:  # never written so, and a small checkpoint could fill all memory with it
            raise ValueError(f"{path} has leaf {leaf}, which another value has already")
        self._named.add(leaf)

    def _kept(self, path: str, node: Node, template: Any, make: Make) -> Make:
        """Remembers what came out, for later references to it."""
        self._note(path, node, template)

        def kept() -> Any:
            self._made[path] = make()
            return self._made[path]

        return kept

    def _note(self, path: str, node: Node, template: Any) -> None:
        shared = self._ground.sharing.aliases.get(path)
        if shared is not None and shared in self._nodes:
            raise StateMismatch(f"{path} and {shared} are one object in the program, and were two in the checkpoint")
        self._nodes[path], self._standing[path] = node, template

    def _same(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        first = node["as"]
        if first not in self._nodes:
            raise StateMismatch(f"{path} refers to {first}, which is not in this checkpoint")
        shared = self._standing[first]
        in_place = self._ground.standing.get(path)
        if in_place is None:
            return lambda: self._made_before(first)
        if shared is ABSENT:  # the other name is inside an object: fill this one with the same bytes
            return self._array(path, self._nodes[first], template)
        if not self._one_memory(shared, template):
            raise StateMismatch(f"{path} and {first} were one object in the checkpoint, and are two in the program")
        self._met.add(path)
        return lambda: template

    def _made_before(self, first: str) -> Any:
        if first not in self._made:  # it was filled in place inside an object, which has it for itself
            leaf = self._nodes[first]["leaf"]
            spec = self._specs[leaf]
            self._made[first] = self._framework(first, spec.framework).make(spec, self._read(leaf), None)
        return self._made[first]

    def _one_memory(self, first: Any, second: Any) -> bool:
        if first is second:
            return True
        for name in ("torch", "numpy"):
            framework = self._framework_named(name)
            if framework and framework.owns(first) and framework.owns(second):
                return identity(framework, first) == identity(framework, second)
        return False

    # --- containers ---------------------------------------------------------------------------------

    def _items(self, path: str, nodes: list[Node], standing: Sequence[Any]) -> list[Make]:
        known = len(standing)
        return [
            self._plan(f"{path}[{index}]", node, standing[index] if index < known else ABSENT)
            for index, node in enumerate(nodes)
        ]

    def _list(self, path: str, nodes: list[Node], template: Any) -> Make:
        if not any(isinstance(node, dict | list) for node in nodes):
            return lambda: refill_list(template, list(nodes))
        makes = self._items(path, nodes, template if type(template) is list else ())
        return lambda: refill_list(template, [make() for make in makes])

    def _tuple(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        makes = self._items(path, node["v"], template if type(template) is tuple else ())
        return lambda: tuple(make() for make in makes)

    def _set(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        makes = self._items(path, node["v"], ())

        def make() -> Any:
            values = [each() for each in makes]
            if node["$"] == "frozenset":
                return frozenset(values)
            target = template if type(template) is set else set()
            target.clear()
            target.update(values)
            return target

        return make

    def _deque(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        fits = type(template) is deque and template.maxlen == node["maxlen"]
        makes = self._items(path, node["v"], template if fits else ())

        def make() -> Any:
            values = [each() for each in makes]
            target = template if fits else deque(maxlen=node["maxlen"])
            target.clear()
            target.extend(values)
            return target

        return make

    def _keyed(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        name = node["$"]
        keys = [self._plan(f"{path} key", key, ABSENT)() for key, _ in node["items"]]
        items = zip(keys, [item for _, item in node["items"]], strict=True)
        if name != "defaultdict":
            make = self._dict(path, items, _DICTS[name], template)
        else:
            factory = node["factory"] and FACTORIES[node["factory"]]
            fits = type(template) is defaultdict and template.default_factory is factory
            make = self._dict(path, items, defaultdict, template if fits else defaultdict(factory))
        return self._with_metadata(path, node, make)

    def _with_metadata(self, path: str, node: Mapping[str, Any], make: Make) -> Make:
        if "metadata" not in node:
            return make
        metadata = self._plan(f"{path}._metadata", node["metadata"], ABSENT)

        def with_metadata() -> Any:
            value = make()
            value.__dict__["_metadata"] = metadata()
            return value

        return with_metadata

    def _dict(self, path: str, items: Any, kind: type, template: Any) -> Make:
        target: Any = template if type(template) is kind else kind()
        makes = {key: self._plan(f"{path}[{key!r}]", node, target.get(key, ABSENT)) for key, node in items}

        def make() -> Any:
            values = {key: each() for key, each in makes.items()}
            target.clear()
            target.update(values)
            return target

        return make

    # --- buffers ------------------------------------------------------------------------------------

    def _bytes(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        return lambda: bytes(self._read(node["leaf"]))

    def _bytearray(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        def make() -> Any:
            target = template if type(template) is bytearray else bytearray()
            target[:] = self._read(node["leaf"])
            return target

        return make

    def _array_array(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        def make() -> Any:
            fits = type(template) is array.array and template.typecode == node["code"]
            target = template if fits else array.array(node["code"])
            del target[:]
            target.frombytes(self._read(node["leaf"]))
            return target

        return make

    def _in_place(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        """An array where a value stands that is restored in place: this array, which nothing is made for."""
        spec = self._specs[node["leaf"]]
        framework = self._framework(path, spec.framework)
        self._expect(path, Standing.array(spec))
        self._note(path, node, template)
        self._made[path] = template
        return self.filling.step(framework, template, node["leaf"])

    def _array(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        spec = self._specs[node["leaf"]]
        framework = self._framework(path, spec.framework)
        saved = Standing.array(spec)
        if self._expect(path, saved):
            return self.filling.step(framework, template, node["leaf"])
        self._refuse_cast(path, spec.dtype)
        self._refuse_other(path, saved)
        standing = template if framework.owns(template) else None

        make = faithful(path, lambda: framework.adopt(spec, self._read(node["leaf"]), standing))
        kept = self._kept_arrays.get(path)
        if kept is not None and framework.owns(kept) and framework.spec(kept) == spec:
            return self.filling.offer(framework, kept, node["leaf"], make)
        return make

    def _sharded(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        """An array that was or is divided among processes."""
        saved = Saved.of(node, self._specs.__getitem__)
        if node["$"] == "sharded":
            for leaf in saved.leaves:
                self._name(path, leaf)
        whole = Standing.array(ArraySpec(saved.framework, saved.dtype, saved.shape))
        self._expect(path, whole)
        self._refuse_other(path, whole)
        self._refuse_cast(path, saved.dtype)
        device = self._specs[saved.leaves[0]].extra.get("device") if saved.leaves else None
        framework = self._framework(path, saved.framework)
        return faithful(path, self.divided.step(path, node, saved, framework, template, device=device))

    def _refuse_other(self, path: str, saved: Standing) -> None:
        assigned = self._ground.assigned.get(path)
        if assigned is not None and assigned != saved:
            raise StateMismatch(f"{path} is a {assigned.what} in the program and a {saved.what} in the checkpoint")

    def _refuse_cast(self, path: str, dtype: str) -> None:
        inside = self._ground.inside.get(path)
        if inside is not None and inside != dtype:  # load_state_dict would cast without a word
            raise StateMismatch(f"{path} is {inside} in the program, {dtype} in the checkpoint; nothing is cast")

    # --- objects ------------------------------------------------------------------------------------

    def _expect(self, path: str, saved: Standing) -> bool:
        """Whether an in-place value of this kind stands at the path; raises when another kind does."""
        standing = self._ground.standing.get(path)
        if standing is None:
            return False
        if standing is not saved and standing != saved:
            raise StateMismatch(f"{path} is a {standing.what} in the program and a {saved.what} in the checkpoint")
        self._met.add(path)
        return True

    def _generator(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        framework = self._framework(path, node["framework"])
        if path not in self._ground.standing or not framework.owns_generator(template):
            raise StateMismatch(f"{path} is a random generator in the checkpoint and not in the program")
        self._met.add(path)
        state = self._plan(f"{path}.state", node["v"], ABSENT)

        def make() -> Any:
            framework.set_generator_state(template, state())
            return template

        return faithful(path, make)

    def _python_random(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        fresh = random.Random()  # noqa: S311 - a training job draws from it, no secret does
        target = template if self._expect(path, Standing.generator(fresh)) else fresh

        state = self._plan(f"{path}.state", node["v"], ABSENT)

        def make() -> Any:
            target.setstate(state())
            return target

        return make

    def _stateful(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        if not isinstance(template, Stateful) or path not in self._ground.standing:
            raise StateMismatch(f"{path} is a {node['class']} in the checkpoint; the program has no such object there")
        framework = self._framework_named("torch")
        kind = class_name(written_class(template, [framework] if framework else []))
        if kind != node["class"]:
            raise StateMismatch(f"{path} is a {node['class']} in the checkpoint and a {kind} in the program")
        self._met.add(path)
        self.divided.expect(f"{path}.state_dict()", framework, template)
        kept = framework.kept_arrays(template) if framework else {}
        self._kept_arrays.update((f"{path}.state_dict(){name}", held) for name, held in kept.items())
        state = self._plan(f"{path}.state_dict()", node["v"], ABSENT)
        fills = self._fills(f"{path}.state_dict()", node["v"], template)
        if fills is not None:
            return lambda: all_done(fills, template)

        def make() -> Any:
            try:
                load(template, state())
            except (RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
                raise StateMismatch(f"{path}: load_state_dict refused the checkpoint's state: {error}") from error
            return template

        return make

    def _fills(self, path: str, node: Node, template: Any) -> list[Make] | None:
        """The steps that fill an object's arrays; None where only load_state_dict can restore it."""
        framework = self._framework_named("torch")
        arrays = framework.state_arrays(template) if framework is not None else None
        if framework is None or arrays is None or not isinstance(node, dict) or node.get("$") != "OrderedDict":
            return None
        saved = dict(node["items"]) if all(isinstance(key, str) for key, _ in node["items"]) else {}
        if saved.keys() != arrays.keys():
            return None  # load_state_dict says what is missing
        places = {f"{path}[{key!r}]": array for key, array in arrays.items()}
        if not all(self._fits(framework, saved[key], array, places) for key, array in arrays.items()):
            return None
        leaves = {key: one["leaf"] for key, one in saved.items() if one["$"] == "array"}
        self._inside.update(places)
        return [self.filling.step(framework, arrays[key], leaf) for key, leaf in leaves.items()]

    def _fits(self, framework: Framework, node: Node, array: Any, places: Mapping[str, Any]) -> bool:
        """Whether an object's array can be filled with what was saved, or is the other array that it was."""
        if not isinstance(node, dict) or node.get("$") not in ("array", "same") or not framework.writable(array):
            return False
        if framework.sharder is not None and framework.sharder.sharding(array) is not None:
            return False
        if node["$"] == "array":
            return Standing.array(framework.spec(array)) == Standing.array(self._specs[node["leaf"]])
        first = node["as"]
        known = places if first in places else self._inside if first in self._inside else self._standing
        return self._one_memory(known.get(first, ABSENT), array)

    def _enum(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        kind = self._class(path, node, lambda kind: issubclass(kind, enum.Enum))
        value = self._plan(f"{path}.value", node["v"], ABSENT)
        return lambda: kind(value())

    def _namedtuple(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        kind = self._class(path, node, lambda kind: issubclass(kind, tuple))
        if list(getattr(kind, "_fields", ())) != node["names"]:
            raise StateMismatch(f"{path}: the fields of {node['class']} are others than in the checkpoint")
        standing: Any = template if type(template) is kind else ()
        makes = [
            self._plan(f"{path}.{name}", item, standing[index] if standing else ABSENT)
            for index, (name, item) in enumerate(zip(node["names"], node["v"], strict=True))
        ]
        return lambda: tuple.__new__(kind, [make() for make in makes])

    def _dataclass(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        kind = self._class(path, node, dataclasses.is_dataclass)
        unknown = set(node["fields"]) - set(getattr(kind, "__dataclass_fields__", ()))
        if unknown:
            raise StateMismatch(f"{path}: {node['class']} has no field {', '.join(sorted(unknown))} in the program")
        standing = template if type(template) is kind else None
        makes = {
            name: self._plan(f"{path}.{name}", item, getattr(standing, name, ABSENT))
            for name, item in node["fields"].items()
        }

        def make() -> Any:
            value: Any = object.__new__(kind)
            for name, each in makes.items():
                object.__setattr__(value, name, each())
            return value

        return make

    def _tree(self, path: str, node: Mapping[str, Any], template: Any) -> Make:
        framework = self._framework(path, node["framework"])
        if not framework.owns_tree(template):
            raise StateMismatch(f"{path} is a {node['framework']} tree in the checkpoint and not in the program")
        standing = framework.tree_leaves(template)
        if [name for name, _ in standing] != node["names"]:
            raise StateMismatch(f"{path} has another structure in the program than in the checkpoint")
        makes = [
            self._plan(f"{path}{name}", item, leaf) for (name, leaf), item in zip(standing, node["v"], strict=True)
        ]
        return lambda: framework.tree_rebuild(template, [make() for make in makes])

    def _class(self, path: str, node: Mapping[str, Any], fits: Callable[[type], bool]) -> type:
        kind = self._ground.classes.get(node["class"])
        if kind is None or not fits(kind):
            raise StateMismatch(
                f"{path} is a {node['class']} in the checkpoint, and no such value stands in the program's state; "
                "outlast imports nothing on a checkpoint's word: pass classes=(...) to Job"
            )
        return kind

    def _framework(self, path: str, name: str) -> Framework:
        framework = self._framework_named(name)
        if framework is None:
            raise StateMismatch(f"{path} is made of {name} in the checkpoint, and the program has not imported {name}")
        return framework


_Builder = Callable[[Restorer, str, Any, Any], Make]
_BUILDERS: dict[str, _Builder] = {
    "bytes": Restorer._bytes,
    "tuple": Restorer._tuple,
    "frozenset": Restorer._set,
    "set": Restorer._set,
    "deque": Restorer._deque,
    "dict": Restorer._keyed,
    "OrderedDict": Restorer._keyed,
    "Counter": Restorer._keyed,
    "defaultdict": Restorer._keyed,
    "bytearray": Restorer._bytearray,
    "array.array": Restorer._array_array,
    "array": Restorer._array,
    "sharded": Restorer._sharded,
    "generator": Restorer._generator,
    "random.Random": Restorer._python_random,
    "stateful": Restorer._stateful,
    "enum": Restorer._enum,
    "namedtuple": Restorer._namedtuple,
    "dataclass": Restorer._dataclass,
    "tree": Restorer._tree,
}
