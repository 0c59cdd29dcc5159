"""The doors to the outside world: what the engine needs of a store, a platform, an array framework."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from outlast.firmware import Firmware
from outlast.sharding import Sharder

Bytes = bytes | bytearray | memoryview

# --- stores ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A name in a store, relative to its root with '/' between parts, and its size in bytes."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreTraits:
    """What a store is like, for those who plan writes.

    `object_bytes`: data larger than this goes into several objects (None: one object of any size). `parallel`: how
    many of those are written, and ranges read, at a time. `local`: whether a small write takes about as long as
    handing it to another thread does. `whole_records`: whether what `create` makes appears whole or not at all, also
    when the process dies in it.
    """

    object_bytes: int | None = None
    parallel: int = 1
    local: bool = False
    whole_records: bool = True


Pace = Callable[[int], None]


def full_speed(_bytes: int) -> None:
    """The pace that waits for nothing."""


class OpenObject(Protocol):
    """An object of a store, open for reading."""

    @property
    def bytes(self) -> int:
        """Its size."""
        ...

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fills `target` from `offset` on; raises CheckpointCorrupt when the object ends before.

        Several threads may read at a time.
        """
        ...


@runtime_checkable
class ScatteringObject(OpenObject, Protocol):
    """An open object whose range can go to many places at about the cost of one."""

    def read_into_all(self, offset: int, targets: Sequence[memoryview]) -> None:
        """Fills the targets, one after the other, from `offset` on; as `read_into`."""
        ...


def read_whole(opened: OpenObject) -> bytes:
    """All that an open object holds."""
    data = bytearray(opened.bytes)
    opened.read_into(0, memoryview(data))
    return bytes(data)


class Store(Protocol):
    """A place that keeps named objects. Names are relative, with '/' between parts.

    Every method raises StoreUnreachable when the storage does not answer or refuses (full, read-only, no
    permission). Nothing here renames, and no object is ever changed, but for what `append` adds.
    """

    @property
    def url(self) -> str:
        """Where it is, in the user's words."""
        ...

    @property
    def traits(self) -> StoreTraits:
        """What it is like."""
        ...

    def create(self, name: str, data: bytes) -> None:
        """Makes a small object, whole and durable, only if the name is free; raises ObjectExists if not."""
        ...

    def write(self, name: str, buffers: Iterable[Bytes], *, pace: Pace = full_speed) -> int:
        """Writes a large new object from parts; durable when it returns. Returns the bytes written.

        `pace` is called before each piece with its size in bytes; it may wait, which limits the rate, and may raise,
        which gives the write up: nothing of the object is left then, and the exception goes through. Parts must not
        change before this returns. Several threads may write different objects at a time. A death on the way may
        leave a cut object under the name: it counts only once a record names it.
        """
        ...

    def append(self, name: str, data: bytes) -> None:
        """Adds lines to a journal, in one piece, without waiting for the disk."""
        ...

    def read(self, name: str) -> bytes:
        """A small object; raises ObjectMissing."""
        ...

    def open(self, name: str) -> AbstractContextManager[OpenObject]:
        """A large object, for ranged reads; raises ObjectMissing."""
        ...

    def list(self, prefix: str) -> list[StoredObject]:
        """All objects below the folder `prefix` ('' for all), in name order; empty if there is none.

        Unfinished objects of `create` are not among them; links that lead elsewhere are.
        """
        ...

    def delete(self, name: str) -> None:
        """Removes an object, durably; no error if it is gone already."""
        ...

    def settle(self, prefix: str) -> None:
        """Makes durable what is listed below a folder, whoever made it; one that died may have left that to chance."""
        ...

    def sweep(self, prefix: str) -> int:
        """Removes what deaths inside `create` left below a folder long ago. Returns how many."""
        ...


@runtime_checkable
class BulkStore(Store, Protocol):
    """A store whose place removes several objects at about the cost of one, or one at less than `delete` costs."""

    @property
    def delete_batch(self) -> int:
        """How many at a time."""
        ...

    def delete_all(self, names: Sequence[str]) -> None:
        """Removes objects that `create` or `write` made, and not what `append` did; no error for those that are gone.

        After an error some may be gone, and some not.
        """
        ...


# --- platforms ------------------------------------------------------------------------------------

# What a pod's manifest tells: the platforms that its node is one of, and its terminationGracePeriodSeconds.
NODE_CLASS, POD_GRACE = "OUTLAST_NODE_CLASS", "OUTLAST_POD_GRACE"


@dataclass(frozen=True, slots=True)
class KnownGrace:
    """One thing that is known about the time from a notice to SIGKILL, and who says so. Of several the smallest counts.

    `gives_way`: an assumption, which counts only until the user says otherwise. `notice`: the one notice source that
    it is about; None for all of them.
    """

    seconds: float
    source: str
    gives_way: bool = False
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """What a platform does to a job, each fact with its source in `sources`.

    Seconds throughout. `grace_seconds` runs from the notice to SIGKILL, where nobody says otherwise;
    `longest_grace_seconds` is the most that the platform gives, whatever it is asked for (None: no limit is known).
    Retries are per task. `notice_share` is the share of interruptions that are expected to come with a notice, until
    they have been counted. `notice_sources` are names of signals, and of what else can be watched there.
    `migration_signals` come before and after a move to another host: no notice, but connections break, and time passes.
    `end_time_variable` names the variable, if there is one, with the moment at which an attempt is ended, in seconds
    since the epoch. `container_per_attempt`: an attempt begins with process 1, and its timeout counts from there.
    `procedure` names how the platform ends a job, where `rehearse` can do the same (`outlast.rehearse.procedures`).
    `provisional`: not yet proven by a kill matrix of its own.
    """

    name: str
    grace_seconds: float
    interrupted_exit_code: int
    default_retries: int
    max_retries: int | None
    mean_seconds_between_interruptions: float
    notice_sources: tuple[str, ...]
    logs: Literal["json", "plain"]
    sources: Mapping[str, str] = field(default_factory=dict)
    longest_grace_seconds: float | None = None
    notice_share: float = 0.5
    migration_signals: tuple[str, ...] = ()
    end_time_variable: str | None = None
    container_per_attempt: bool = False
    procedure: str | None = None
    provisional: bool = False

    def known_graces(self) -> tuple[KnownGrace, ...]:
        """The grace where nobody says otherwise, and the most that there is."""
        known = []
        if self.longest_grace_seconds is not None:
            known.append(KnownGrace(self.longest_grace_seconds, self.sources["longest_grace_seconds"]))
        if self.grace_seconds != self.longest_grace_seconds:
            known.append(KnownGrace(self.grace_seconds, self.sources["grace_seconds"], gives_way=True))
        return tuple(known)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is on its platform. `execution` is None where a platform has no such thing.

    `numbers` are what the tasks may be numbered by, None for 0 … tasks - 1. Where they are more than `tasks`, which of
    them have a task is not known.
    """

    job: str | None = None
    execution: str | None = None
    task: int = 0
    tasks: int = 1
    attempt: int | None = None
    numbers: range | None = None


class Platform(Protocol):
    """A place where jobs run. `env` is the process environment. Nothing here asks a network or changes anything."""

    @property
    def facts(self) -> PlatformFacts: ...

    def detect(self, env: Mapping[str, str], firmware: Firmware) -> bool:
        """Whether this process runs there; asked only when nobody before it in the registry has said yes."""
        ...

    def identity(self, env: Mapping[str, str]) -> Identity:
        """Who this process is; raises SettingsError when a variable of the platform makes no sense."""
        ...

    def environment(self, identity: Identity) -> dict[str, str]:
        """The variables that the platform would set for such a process (the inverse of `identity`)."""
        ...

    def graces(self, env: Mapping[str, str]) -> tuple[KnownGrace, ...]:
        """All that is known of the grace here, apart from the user's own word; never empty.

        Raises SettingsError when a variable of the platform makes no sense.
        """
        ...


# --- array frameworks -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """What an array is, apart from its bytes: enough to make it again.

    `dtype` is the framework's own word ("float32", "bfloat16", "<M8[ns]"); `extra` holds JSON values for what
    else matters (device, requires_grad, "scalar": true). A value can be filled from another's bytes when
    framework, dtype and shape are equal: `extra` is for making it anew, and may differ.
    """

    framework: str
    dtype: str
    shape: tuple[int, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)


class ArrayFacts(NamedTuple):
    """What one array is and where, as `Framework` says it in `spec`, `writable`, `nbytes` and `span`.

    `key` is equal for two arrays of one walk exactly when their `alias_key` is.
    """

    spec: ArraySpec
    writable: bool
    nbytes: int
    key: Hashable
    span: tuple[int, int] | None


class Unsupported(Exception):
    """A framework cannot restore this value faithfully; the text says why. The engine adds the key path."""


class LazyCopy(Protocol):
    """A copy of arrays that overlaps with training, and is known to be the state at the border or not to be."""

    def places(self) -> frozenset[int]:
        """Of the arrays that may be copied lazily now, by address."""
        ...

    def start(self, values: Sequence[Any], copies: Sequence[memoryview], copy: Callable[[], None]) -> None:
        """At a border: calls `copy`, which fills `copies` with `values`, in a thread; the next update waits for it.

        Raises what an earlier copy raised, if nobody has asked for its result.
        """
        ...

    def result(self) -> bool:
        """Waits for the copy; whether it is the state at the border. Raises, once, what the copy raised."""
        ...

    def close(self) -> None:
        """Waits, and lets go of what updates the arrays."""
        ...


class Framework(Protocol):
    """How one array framework's values become bytes and come back. Loaded once its package is imported.

    All bytes are in C order, little-endian unless the dtype says otherwise.
    """

    @property
    def name(self) -> str: ...

    @property
    def sharder(self) -> Sharder | None:
        """What knows arrays that are divided among processes; None where there can be none."""
        ...

    def owns(self, value: object) -> bool:
        """Whether this is an array, tensor or array scalar of the framework."""
        ...

    def spec(self, value: Any) -> ArraySpec:
        """Raises Unsupported for what cannot be restored (object arrays, sparse, quantized, meta)."""
        ...

    def looker(self) -> Callable[[Any], ArrayFacts]:
        """What tells all about one array after another; raises Unsupported as `spec` does.

        For one walk over a state: it remembers kinds of arrays, so that many alike take little time.
        """
        ...

    def buffer(self, value: Any) -> memoryview:
        """Its bytes, without a copy where the memory allows; valid until the value changes."""
        ...

    def nbytes(self, value: Any) -> int:
        """The length of `buffer`, without looking at the values."""
        ...

    def is_finite(self, value: Any) -> bool:
        """False when any element is NaN or infinite; True for what has no such elements."""
        ...

    def writable(self, value: Any) -> bool:
        """Whether it can be filled in place."""
        ...

    def fill(self, target: Any, data: memoryview) -> None:
        """Overwrites a writable value of the same spec with bytes, in place."""
        ...

    def make(self, spec: ArraySpec, data: memoryview, template: Any | None) -> Any:
        """A new, writable value; `template` is what stands in the program now, or None.

        Raises Unsupported when the spec cannot be met here exactly (never casts).
        """
        ...

    def adopt(self, spec: ArraySpec, data: memoryview, template: Any | None) -> Any:
        """As `make`, of writable memory that nobody else has or needs: the value may keep it as its own."""
        ...

    def state_arrays(self, value: object) -> Mapping[str, Any] | None:
        """An object's own arrays by the keys of its state_dict, where load_state_dict would only fill them.

        None for other objects, and where it might do more.
        """
        ...

    def kept_arrays(self, value: object) -> Mapping[str, Any]:
        """Arrays that an object holds by itself, by key path below its state_dict, as in "['state'][0]['step']".

        Only where its load_state_dict does no more than take over what it is given, so that it may be given these very
        arrays with other content; else none.
        """
        ...

    def target(self, value: Any) -> memoryview | None:
        """The memory of a writable value, where writing its bytes is the same as `fill`; None where it is not.

        Whoever writes there calls `filled` afterwards.
        """
        ...

    def filled(self, value: Any) -> None:
        """Notes that the memory of a value was written through its `target`."""
        ...

    def facts(self, values: Sequence[Any]) -> object:
        """All that `spec`, `writable` and `nbytes` look at, and `alias_key` and `span` apart from `places`.

        Equal for two lists exactly when all that is equal for each value; fast for thousands of values. Raises
        Unsupported where a value has no such facts.
        """
        ...

    def places(self, values: Sequence[Any]) -> list[int]:
        """The address of each value; for one whose `alias_key` goes by identity, a negative number made from that."""
        ...

    def views(self, buffer: memoryview, specs: Sequence[ArraySpec], offsets: Sequence[int]) -> Any:
        """What `copy_many` needs to fill a writable buffer with values of these specs, each at its offset."""
        ...

    def copy_many(self, views: Any, values: Sequence[Any]) -> None:
        """Copies the bytes of values into the buffer that `views` were made from: those that `buffer` gives.

        Values must have the specs that the views were made with. Holds the GIL for no longer than 10 ms at a time.
        """
        ...

    def lazy_copy(self, objects: Iterable[object]) -> LazyCopy | None:
        """For what those of the objects that are optimizers change; None if there is none. Must be closed."""
        ...

    def alias_key(self, value: Any) -> Hashable:
        """Equal for two values exactly when they are the same memory seen the same way."""
        ...

    def span(self, value: Any) -> tuple[int, int] | None:
        """The addresses of its first byte and one past its last, to see which arrays overlap.

        None for what is empty, cannot be changed by anybody, or lies where nobody can tell.
        """
        ...

    def owns_generator(self, value: object) -> bool:
        """Whether this is a random generator of the framework."""
        ...

    def generator_state(self, generator: Any) -> object:
        """Its state as a tree of plain values and arrays."""
        ...

    def set_generator_state(self, generator: Any, state: Any) -> None: ...

    def random_state(self) -> object:
        """The framework's global random state as a tree of plain values and arrays; None if it has none."""
        ...

    def set_random_state(self, state: Any) -> None: ...

    def owns_tree(self, value: object) -> bool:
        """Whether this is a container only the framework can take apart (a registered JAX pytree node)."""
        ...

    def tree_leaves(self, value: Any) -> list[tuple[str, Any]]:
        """(name, leaf) pairs of such a container, in a fixed order."""
        ...

    def tree_rebuild(self, template: Any, leaves: list[Any]) -> Any:
        """A container of the template's structure with these leaves."""
        ...

    def loader_generators(self, loader: Any) -> list[Any]:
        """Generators that a data loader of the framework draws its order from."""
        ...

    def skip_batches(self, loader: Any, iterator: Any, count: int) -> int:
        """Advances a fresh iterator of `loader` past `count` batches without loading them, where that leaves it
        exactly as if they had been drawn. Returns how many were skipped (0: the engine draws and drops them)."""
        ...
