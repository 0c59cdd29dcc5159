"""Arrays that are divided among processes, in a checkpoint's tree and back into a program that may divide them anew."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from outlast.errors import StateMismatch
from outlast.ports import ArraySpec, Framework
from outlast.sharding import Box, Sharding, same_way
from outlast.state.filling import Filling
from outlast.state.scalars import Node
from outlast.state.shape import Ground, Standing
from outlast.state.steps import all_done

ReadLeaf = Callable[[int], memoryview]
ReadBox = Callable[[Node, Box], memoryview]


def sharded_node(path: str, framework: str, sharding: Sharding, leaves: list[Node]) -> Node:
    """The node of an array of which this process holds a part: one leaf for each of its boxes.

    `name` is the same on all ranks, and nobody else's.
    """
    return {
        "$": "sharded",
        "framework": framework,
        "name": path,
        "dtype": sharding.dtype,
        "shape": list(sharding.shape),
        "boxes": [[list(box.at), list(box.shape)] for box in sharding.boxes],
        "layout": dict(sharding.layout),
        "v": leaves,
    }


@dataclass(frozen=True, slots=True)
class Saved:
    """An array as a node tells of it: of a whole one there is one box."""

    framework: str
    dtype: str
    shape: tuple[int, ...]
    boxes: tuple[Box, ...]
    leaves: tuple[int, ...]
    layout: Mapping[str, Any]

    @classmethod
    def of(cls, node: Node, specs: Callable[[int], ArraySpec]) -> "Saved":
        """Raises ValueError, KeyError or TypeError for a node that makes no sense."""
        if node["$"] == "array":
            spec = specs(node["leaf"])
            box = Box.of_all(spec.shape)
            return cls(spec.framework, spec.dtype, spec.shape, (box,), (node["leaf"],), {})
        shape = numbers(node["shape"])
        boxes = tuple(Box(numbers(at), numbers(size)) for at, size in node["boxes"])
        leaves = tuple(one["leaf"] for one in node["v"])
        if len(leaves) != len(boxes) or not all(box.lies_in(shape) for box in boxes):
            raise ValueError(f"{node['name']} has {len(leaves)} leaves for the boxes {node['boxes']} of {list(shape)}")
        for leaf, box in zip(leaves, boxes, strict=True):
            if (specs(leaf).shape, specs(leaf).dtype) != (box.shape, node["dtype"]):
                raise ValueError(f"leaf {leaf} of {node['name']} is another than its box")
        return cls(node["framework"], node["dtype"], shape, boxes, leaves, dict(node["layout"]))


def numbers(values: Any) -> tuple[int, ...]:
    """Whole numbers out of JSON; raises ValueError for anything else."""
    if type(values) is not list or not all(type(one) is int and one >= 0 for one in values):
        raise ValueError(f"{values!r} are no sizes")
    return tuple(values)


@dataclass(slots=True)
class _Part:
    """A box of a saved array, and its bytes once they were read."""

    node: Node
    box: Box
    data: memoryview | None = None

    def take(self) -> memoryview:
        """The bytes, which are let go of."""
        data, self.data = self.data, None
        assert data is not None
        return data


class Divided:
    """Restores arrays that were divided, or are. What each process shall hold, the program says: what stands there, or
    for an optimizer's moments its parameters, or else what is divided alike. Raises StateMismatch where none does."""

    def __init__(self, ground: Ground, filling: Filling, read: ReadLeaf, read_box: ReadBox) -> None:
        self._ground, self._filling, self._read, self._read_box = ground, filling, read, read_box
        self._expected: dict[str, Sharding] = {}
        self._parts: list[_Part] = []

    def fetch(self) -> None:
        """Reads what the planned steps need of boxes that this rank did not hold: before any of them is done, so that
        a bad part of any rank is found in time. Raises CheckpointCorrupt, StoreUnreachable."""
        for part in self._parts:
            part.data = self._read_box(part.node, part.box)
        self._parts.clear()

    def expect(self, path: str, framework: Framework | None, value: object) -> None:
        """An object stands at the path, which may make arrays when its state comes back."""
        if framework is not None and framework.sharder is not None:
            found = framework.sharder.expected(value)
            self._expected.update((f"{path}{name}", sharding) for name, sharding in found.items())

    def concerns(self, path: str, spec: ArraySpec) -> bool:
        """Whether the program divides what was saved as a whole."""
        expected = self._of_its_owner(path, spec.shape)
        return path in self._ground.sharded or (expected is not None and expected.held is not None)

    def step(
        self, path: str, node: Node, saved: Saved, framework: Framework, template: Any, *, device: str | None
    ) -> Callable[[], Any]:
        """The step that gives the array; `device` is where a whole one goes to where nothing stands."""
        whole = Sharding.whole(saved.shape, saved.dtype, {} if device is None else {"device": device})
        wanted = self._wanted(path, saved, framework, template, whole)
        reads: list[Callable[[], memoryview]]
        if node["$"] == "sharded" and wanted.boxes == saved.boxes:  # this rank holds what it held
            for leaf in saved.leaves:
                self._filling.need(leaf)
            if path in self._ground.standing:
                own = zip(own_arrays(framework, template), saved.leaves, strict=True)
                steps = [self._filling.step(framework, array, leaf) for array, leaf in own]
                return lambda: all_done(steps, template)
            reads = [partial(self._read, leaf) for leaf in saved.leaves]
        else:
            parts = [_Part(node, box) for box in wanted.boxes]
            self._parts += parts
            reads = [part.take for part in parts]
        if path in self._ground.standing:
            return partial(_fill, framework, template, reads)
        return partial(_make, framework, wanted, reads, template if framework.owns(template) else None)

    def _wanted(self, path: str, saved: Saved, framework: Framework, template: Any, whole: Sharding) -> Sharding:
        if path in self._ground.standing:
            return (framework.sharder.sharding(template) if framework.sharder else None) or whole
        known = self._ground.sharded.get(path)
        if known is not None:
            self._refuse_other(path, saved, known.shape)
            return known
        expected = self._of_its_owner(path, saved.shape)
        if expected is not None:
            return replace(expected, dtype=saved.dtype)
        if path in self._ground.inside or not self._ground.sharded:
            return whole
        alike = next((one for one in self._ground.sharded.values() if same_way(one.layout, saved.layout)), None)
        if alike is None or framework.sharder is None:
            raise StateMismatch(
                f"{path} is divided among ranks in the checkpoint ({saved.layout}), and nothing that stands in the "
                "program is divided so; put an array there that is, before Job is made"
            )
        return framework.sharder.like(alike, saved.shape, saved.dtype)

    def _of_its_owner(self, path: str, shape: tuple[int, ...]) -> Sharding | None:
        if not self._expected:
            return None
        expected = self._expected.get(path[: path.rfind("[")])
        return expected if expected is not None and expected.shape == shape else None

    def _refuse_other(self, path: str, saved: Saved, shape: tuple[int, ...]) -> None:
        if saved.shape != shape:
            here = Standing.array(ArraySpec(saved.framework, saved.dtype, shape))
            there = Standing.array(ArraySpec(saved.framework, saved.dtype, saved.shape))
            raise StateMismatch(f"{path} is a {here.what} in the program and a {there.what} in the checkpoint")


def own_arrays(framework: Framework, value: Any) -> list[Any]:
    """What of an array is this process's memory: all of it, or its shares."""
    sharder = framework.sharder
    divided = sharder is not None and sharder.sharding(value) is not None
    return sharder.arrays(value) if sharder is not None and divided else [value]


def identity(framework: Framework, value: Any) -> Hashable:
    """Equal for two values exactly when they are the same memory seen the same way."""
    return tuple(framework.alias_key(one) for one in own_arrays(framework, value))


def _fill(framework: Framework, target: Any, reads: Sequence[Callable[[], memoryview]]) -> Any:
    for array, read in zip(own_arrays(framework, target), reads, strict=True):
        framework.fill(array, read())
    return target


def _make(
    framework: Framework, wanted: Sharding, reads: Sequence[Callable[[], memoryview]], template: Any | None
) -> Any:
    specs = [ArraySpec(framework.name, wanted.dtype, box.shape, wanted.extra) for box in wanted.boxes]
    if wanted.held is None or framework.sharder is None:
        return framework.adopt(specs[0], reads[0](), template)
    arrays = [framework.adopt(spec, read(), None) for spec, read in zip(specs, reads, strict=True)]
    return framework.sharder.make(wanted, arrays)
