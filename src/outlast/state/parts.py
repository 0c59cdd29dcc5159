"""The user's state: named parts, checked before the first step, captured at borders, restored at the start."""

import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from outlast.errors import CheckpointCorrupt, SettingsError, StateMismatch, StateUnsupported
from outlast.garbage import collector_at_rest
from outlast.ports import ArraySpec, Framework, LazyCopy
from outlast.registry import framework_named, frameworks_in_use
from outlast.sharding import Box
from outlast.state.capture import Capture
from outlast.state.loaders import LoaderMemory
from outlast.state.randomness import Randomness, RandomState
from outlast.state.restore import Restorer
from outlast.state.revisit import Changed
from outlast.state.scalars import Node
from outlast.state.shape import Ground
from outlast.state.snapshot import Images, LeafTable, Snapshot
from outlast.state.structure import Structure


@dataclass(slots=True)
class Progress:
    """Where the loop stands at a border. `completed` steps in all; `batch` of them in the current epoch.

    `at_epoch` and `at_iter` are the random states when the epoch was yielded and when its loader was asked for an
    iterator, None before; `loader` is what is known of the data loader.
    """

    completed: int = 0
    epoch: int = 0
    batch: int = 0
    at_epoch: RandomState | None = None
    at_iter: RandomState | None = None
    loader: LoaderMemory = field(default_factory=LoaderMemory)

    @property
    def mark(self) -> tuple[int, int, int]:
        """Equal at two borders between which nothing was done."""
        return self.completed, self.epoch, self.batch


@dataclass(slots=True)
class Resumed:
    """What a checkpoint says beside the parts."""

    progress: Progress
    random: RandomState


@dataclass(frozen=True, slots=True)
class Accepted:
    """A checkpoint that fits the program.

    `leaves`: the indices of those that are needed; `targets`: where some of them go straight to, in the program's own
    memory. Once they are loaded, and `fetch` has read what other ranks have, `restore` brings the values back.
    """

    leaves: frozenset[int]
    targets: Mapping[int, memoryview]
    fetch: Callable[[], None]
    restore: Callable[[], Resumed]


class Readable(Protocol):
    """What is needed of an open checkpoint."""

    @property
    def tree(self) -> dict[str, Any]:
        """The tree that a snapshot was made with."""
        ...

    @property
    def specs(self) -> list[ArraySpec]:
        """What each leaf is."""
        ...

    def load(self, leaves: Collection[int], targets: Mapping[int, memoryview]) -> None:
        """Reads leaves, verified, those in `targets` straight to there; raises CheckpointCorrupt, StoreUnreachable."""
        ...

    def read_leaf(self, index: int) -> memoryview:
        """The bytes of a leaf, writable memory that nobody else has; of a loaded one that went to a target, those.

        A leaf is asked for once, but for one that went to a target and has another name elsewhere, and for one of a
        part that is registered late and shares it.
        """
        ...

    def read_box(self, node: Node, box: Box) -> memoryview:
        """The bytes of a box of an array of the tree, as read_leaf gives them; raises as `load` does."""
        ...


class UserState:
    """The parts of a Job. `parts` is the dict that the user passed; it is the one that is updated."""

    def __init__(
        self,
        parts: dict[str, Any],
        *,
        classes: Sequence[type] = (),
        random_state: bool = True,
        require_finite: bool = False,
    ) -> None:
        self.parts = parts
        self._classes, self._require_finite = tuple(classes), require_finite
        self._ground = Ground()
        self.randomness = Randomness(self._ground, libraries=random_state)
        self._opened: Readable | None = None
        self._restorer: Restorer | None = None
        self._saved: dict[str, Node] = {}
        self.bytes = 0
        self.full_walks = 0
        self._structure: Structure | None = None
        self._table: LeafTable | None = None
        self._images = Images()
        self._kinds: dict[str, type] = {}
        self._check()

    def _check(self) -> None:
        """The dry run: refuses what could not be restored; notes what stands in the program, and who shares what."""
        with collector_at_rest():
            self._walk_dry()

    def _walk_dry(self) -> None:
        capture = Capture(frameworks_in_use(), classes=self._classes)
        for name, value in self.parts.items():
            if not isinstance(name, str):
                raise SettingsError(f"state has the key {name!r}; the names of parts are text")
            capture.add(_path(name), value)
            self._kinds[name] = type(value)
        capture.check_sharing()
        self._ground.take(capture.made)
        self._structure = None  # what it was allowed depends on the ground
        self.bytes = capture.snapshot({}).bytes

    def holds(self, value: object) -> bool:
        """Whether an object with state_dict is part of the state, at any depth."""
        return any(one is value for one in self._ground.objects)

    # --- saving -------------------------------------------------------------------------------------

    def snapshot(self, progress: Progress, held: RandomState | None = None) -> Snapshot:
        """The state now, with the random state now unless one is `held`.

        Raises StateUnsupported naming the key path of what could not be restored.
        """
        self.refuse_new_parts()
        frameworks = frameworks_in_use()
        with collector_at_rest():  # the shapes of all arrays, for a moment, would set it going
            return self._revisit(frameworks, progress, held) or self._walk(frameworks, progress, held)

    def _walk(self, frameworks: Sequence[Framework], progress: Progress, held: RandomState | None) -> Snapshot:
        """Every check, and a structure to remember."""
        self.full_walks += 1
        self._structure = None
        capture = Capture(frameworks, ground=self._ground, classes=self._classes, require_finite=self._require_finite)
        parts = {name: capture.add(_path(name), value) for name, value in self.parts.items()}
        capture.check_sharing()
        with suppress(Changed):  # then every save walks in full, as if there were no second way
            self._structure = Structure(self.parts, parts, frameworks, capture.table())
        found = capture.snapshot(self._tree(capture, parts, frameworks, progress, held))
        return replace(found, table=self._same_table(found.table), images=self._images)

    def _revisit(
        self, frameworks: Sequence[Framework], progress: Progress, held: RandomState | None
    ) -> Snapshot | None:
        """The same in less time, if the state is built as it was; None if not."""
        if self._structure is None or self._table is None:
            return None
        count, table = self._structure.leaves, self._table
        rest = Capture(
            frameworks,
            ground=self._ground,
            classes=self._classes,
            require_finite=self._require_finite,
            first_leaf=count,
        )
        try:
            found = self._structure.again(self.parts, frameworks, require_finite=self._require_finite)
        except Changed:
            return None
        tree = self._tree(rest, found.nodes, frameworks, progress, held)
        if found.meets(rest):
            return None
        table = self._same_table(table.with_rest(count, rest.table()))
        return Snapshot(tree, table, [*found.piles, *rest.piles()], self._images)

    def _tree(
        self,
        capture: Capture,
        parts: Mapping[str, Node],
        frameworks: Sequence[Framework],
        progress: Progress,
        held: RandomState | None,
    ) -> dict[str, Node]:
        """The whole tree; what stands beside the parts is walked in full each time, since it is little."""
        random = held or self.randomness.read(frameworks, progress.loader.loader)
        loop = {
            "completed": progress.completed,
            "epoch": progress.epoch,
            "batch": progress.batch,
            "at_epoch": _random_node(capture, "@at_epoch", progress.at_epoch),
            "at_iter": _random_node(capture, "@at_iter", progress.at_iter),
            "loader": capture.detached("@loader", progress.loader.as_tree()),
        }
        return {"parts": parts, "loop": loop, "random": _random_node(capture, "@random", random)}

    def _same_table(self, table: LeafTable) -> LeafTable:
        """The table of the snapshot before, if it says the same."""
        if self._table is None or not (self._table is table or self._table.says_the_same(table)):
            self._table = table
        return self._table

    def lazy_copy(self) -> tuple[str, LazyCopy] | None:
        """What can copy a share of a snapshot later (see Snapshot.split_lazily), with the name of its framework.

        None if no optimizer stands in the state. It must be closed.
        """
        for framework in frameworks_in_use():
            made = framework.lazy_copy(self._ground.objects)
            if made is not None:
                return framework.name, made
        return None

    def refuse_new_parts(self) -> None:
        """Raises StateUnsupported for parts that came, went or became another container since the dry run.

        A resumed program would not have them, or its own variables would not be what is restored.
        """
        for name in sorted(set(self.parts) ^ set(self._kinds)):
            verb = "has the new part" if name in self.parts else "has lost its part"
            raise StateUnsupported(
                f"state {verb} {name!r} since the job was made; name it in Job(state=...), or in job.register before "
                "the first step"
            )
        for name, kind in self._kinds.items():
            if kind in _CONTAINERS and type(self.parts[name]) is not kind:
                raise StateUnsupported(
                    f"{_path(name)} was a {kind.__name__} at the start and is a {type(self.parts[name]).__name__} now; "
                    "a container is restored in place, so change it in place (or start with None there)"
                )

    # --- restoring ----------------------------------------------------------------------------------

    def accept(self, opened: Readable) -> Accepted:
        """Compares a checkpoint with the program, before anything is touched.

        Raises StateMismatch naming what differs, CheckpointCorrupt for a tree that makes no sense.
        """
        with collector_at_rest():
            return self._accept(opened)

    def _accept(self, opened: Readable) -> Accepted:
        restorer = Restorer(opened.specs, opened.read_leaf, opened.read_box, ground=self._ground, framework=_framework)
        try:
            saved = dict(opened.tree["parts"])
            makes = {name: self._plan(restorer, name, node) for name, node in saved.items() if name in self.parts}
            loop, random = opened.tree["loop"], restorer.plan("@random", opened.tree["random"])
            kept = {name: restorer.plan(f"@{name}", loop[name]) for name in ("at_epoch", "at_iter", "loader")}
            progress = Progress(int(loop["completed"]), int(loop["epoch"]), int(loop["batch"]))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
            raise CheckpointCorrupt(f"the tree of the state makes no sense: {error!r}") from error

        @collector_at_rest()
        def restore() -> Resumed:
            for name, make in makes.items():
                self.parts[name] = make()
            progress.at_epoch, progress.at_iter = _random_state(kept["at_epoch"]()), _random_state(kept["at_iter"]())
            progress.loader = LoaderMemory.from_tree(kept["loader"]())
            state = _random_state(random())
            self._opened, self._restorer = opened, restorer
            self._saved = {name: node for name, node in saved.items() if name not in makes}
            restorer.filling.let_go()
            return Resumed(progress, state or RandomState({}, {}))

        restorer.filling.settle()
        return Accepted(
            frozenset(restorer.filling.leaves), dict(restorer.filling.targets), restorer.divided.fetch, restore
        )

    def _plan(self, restorer: Restorer, name: str, node: Node) -> Callable[[], Any]:
        make, kind = restorer.plan(_path(name), node, self.parts[name]), self._kinds[name]
        if kind not in _CONTAINERS:
            return make
        saved = "list" if isinstance(node, list) else node.get("$", "dict") if isinstance(node, dict) else "value"
        if saved not in ("same", kind.__name__):
            raise StateMismatch(f"{_path(name)} is a {kind.__name__} in the program and a {saved} in the checkpoint")
        return make

    def register(self, name: str, value: Any) -> Any:
        """Adds a part, restoring it if the checkpoint has it; returns what stands in the state now."""
        if name in self.parts:
            raise SettingsError(f"state already has a part {name!r}")
        self.parts[name] = value
        self._check()
        if self._opened is not None and self._restorer is not None and name in self._saved:
            self.parts[name] = self._restore_late(self._opened, self._restorer, name)
        return self.parts[name]

    def _restore_late(self, opened: Readable, restorer: Restorer, name: str) -> Any:
        make = self._plan(restorer, name, self._saved.pop(name))
        restorer.filling.settle()
        opened.load(frozenset(restorer.filling.leaves), dict(restorer.filling.targets))
        restorer.divided.fetch()
        value = make()
        restorer.filling.let_go()
        return value

    def judge(
        self, resumed_parts: Collection[str], *, allow_missing: Collection[str], allow_extra: Collection[str]
    ) -> None:
        """Raises StateMismatch unless program and checkpoint have the same parts, but for those allowed."""
        missing = sorted(set(self.parts) - set(resumed_parts) - set(allow_missing))
        extra = sorted(set(self._saved) - set(allow_extra))
        if missing or extra:
            said = [f"the checkpoint has no part {name!r}" for name in missing]
            said += [f"the program has no part {name!r}" for name in extra]
            allowed = [f"allow_missing={missing}"] * bool(missing) + [f"allow_extra={extra}"] * bool(extra)
            raise StateMismatch(
                "the state of the program and of the checkpoint differ: " + "; ".join(said) + ". No step was done. Put "
                f"the parts into the state before the first step, or pass {', '.join(allowed)} to Job"
            )

    def forget_checkpoint(self) -> None:
        """Nothing more is restored from it."""
        self._opened, self._restorer, self._saved = None, None, {}


_CONTAINERS = (list, dict, set, deque, bytearray)


def _path(name: str) -> str:
    return f"state[{name!r}]"


def _framework(name: str) -> Framework | None:
    return framework_named(name) if name in sys.modules else None


def _random_node(capture: Capture, path: str, state: RandomState | None) -> Node:
    return None if state is None else capture.detached(path, state.as_tree())


def _random_state(tree: Any) -> RandomState | None:
    return None if tree is None else RandomState.from_tree(tree)
