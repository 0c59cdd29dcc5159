"""What a platform can do to a job, in its own words, and the steps that each word stands for."""

import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from outlast.containers.container import Mount
from outlast.emulate.scale import TimeScale
from outlast.rehearse.scenario import Kind, Value

# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announce:
    """The platform has said, by a door of its own, that the attempt will end."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """The platform takes that back, by `call`."""

    call: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Warn:
    """A signal that says that the attempt ends, to the first process, or to `everyone` as a service manager does.

    `before` is called just before it is sent.
    """

    number: signal.Signals = signal.SIGTERM
    everyone: bool = False
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class SignalRank:
    """A signal to one of several processes that train together: to `rank`, or to another one in each attempt.

    Or to one of several nodes: its first process, and all that it has for SIGKILL. With `apart_seconds`, to all ranks
    in an order by chance, within so many seconds here.
    """

    number: signal.Signals
    rank: int | None = None
    apart_seconds: float | None = None
    what: Literal["rank", "node"] = "rank"


@dataclass(frozen=True, slots=True)
class EndNode:
    """SIGKILL to what is left of the node that got SIGTERM; the others live on."""


@dataclass(frozen=True, slots=True)
class Tell:
    """A signal to the first process that ends nothing."""

    number: signal.Signals


@dataclass(frozen=True, slots=True)
class Pause:
    """All processes stand still for so many seconds here, and the first gets SIGCONT."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to everything."""


@dataclass(frozen=True, slots=True)
class KillAtSave:
    """SIGKILL to everything at the next save: at its first write, or before its write number `write`, from 1."""

    write: int | None = None


@dataclass(frozen=True, slots=True)
class SpoilStorage:
    """From now on the storage fails with an error, or each write takes `delay_seconds` longer."""

    error: int = 0
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MendStorage:
    """The storage works again."""


@dataclass(frozen=True, slots=True)
class StartSecond:
    """The next attempt begins now, although this one lives on.

    With `overlap_seconds` this one stands still, as what nobody can reach may do, until the next one works; so much
    later it is killed.
    """

    overlap_seconds: float | None = None


_ToAll = Announce | Revoke | Warn | Tell | Pause | Kill
Step = _ToAll | SignalRank | EndNode | KillAtSave | SpoilStorage | MendStorage | StartSecond


@dataclass(frozen=True, slots=True)
class Timed:
    """A step, and in how many seconds here it comes."""

    seconds: float
    step: Step


# --- words ------------------------------------------------------------------------------------------------------------


class Machine(Protocol):
    """What one attempt runs on, as far as it can ask: `environment` leads it there, `mounts` are files of its own."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def mounts(self) -> tuple[Mount, ...]: ...


@dataclass(frozen=True, slots=True)
class Scene:
    """Where something happens. `grace_seconds` are the platform's, of which one passes as `scale` says."""

    machine: Machine
    grace_seconds: float
    scale: TimeScale

    def at(self, seconds: float, step: Step) -> Timed:
        """A step after documented seconds."""
        return Timed(self.scale.here(seconds), step)


Settings = Mapping[str, Value]
CountsAs = Literal["its exit code", "failure", "cancelled"]
Begin = Callable[[Scene, Settings], list[Timed]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a word. Durations are in seconds of the platform; a whole number is `least` or more.

    `default` None leaves it to the word. A text is one of `choices`.
    """

    about: str
    reads: Literal["duration", "count", "choice"]
    default: Value | None = None
    choices: tuple[str, ...] = ()
    most: float = float("inf")
    least: int = 1


@dataclass(frozen=True, slots=True)
class Word:
    """Something that can happen. `otherwise` names settings that make it another kind of thing.

    `counts_as`: "failure" is one whatever the exit code, "cancelled" is not retried, and the job is begun anew.
    """

    about: str
    kind: Kind
    begin: Begin
    settings: Mapping[str, Setting] = field(default_factory=dict)
    otherwise: Mapping[str, Kind] = field(default_factory=dict)
    counts_as: CountsAs = "its exit code"

    def kind_with(self, settings: Settings) -> Kind:
        return next((kind for name, kind in self.otherwise.items() if name in settings), self.kind)

    def all_settings(self, told: Settings) -> dict[str, Value]:
        """What is told, and the defaults of the rest."""
        defaults = {name: one.default for name, one in self.settings.items() if one.default is not None}
        return {**defaults, **told}


@dataclass(frozen=True, slots=True)
class Due:
    """Something that happens to an attempt, in seconds here after `since`.

    `name` is the platform's word; `begin` makes it happen, and says what follows.
    """

    name: str
    kind: Kind
    seconds: float
    since: Literal["work", "start", "previous"]
    begin: Callable[[Scene], list[Timed]]
    counts_as: CountsAs = "its exit code"
    goes_on: bool = False
    through_door: bool = False  # whether each write has to wait until it is decided about
    overlaps: bool = False  # whether the next attempt may begin while this one lives


def goes_on(kind: Kind, settings: Settings) -> bool:
    """Whether an attempt lives on after it. A storage that fails until the end of the attempt is such an end."""
    return kind in ("revoked notice", "advice", "live migration") or (kind == "storage fault" and "lasts" in settings)


OpenMachine = Callable[[Settings, TimeScale], AbstractContextManager[Machine]]


@dataclass(frozen=True, slots=True)
class Nodes:
    """How a platform runs one job on several nodes. `environment` gives what node `node` of `count` finds beside the
    rest, where "{port}" is a port that is free on the first; `not_exercised`: what a rehearsal of that leaves out."""

    environment: Callable[[int, int], dict[str, str]]
    own_tasks: bool  # each node is a task of the platform's
    not_exercised: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Procedure:
    """How a platform ends jobs. `usual` is its word for each kind that is drawn.

    `given` are settings of the platform itself, for a whole scenario; `tell` gives what a job is told of them, in
    variables. `first_is_pid_1`: the command is the first process of a container, else one below a service manager.
    `needs_namespaces` is what is not exercised where there are none. `no_nodes`: why one job has no several nodes.
    """

    words: Mapping[str, Word]
    usual: Mapping[Kind, str]
    open_machine: OpenMachine
    given: Mapping[str, Setting] = field(default_factory=dict)
    tell: Callable[[Settings], dict[str, str]] = lambda _: {}
    first_is_pid_1: bool = True
    not_exercised: tuple[str, ...] = ()
    needs_namespaces: tuple[str, ...] = ()
    nodes: Nodes | None = None
    no_nodes: str = "nobody there starts one command on several machines"


def seconds_in(settings: Settings, name: str) -> float:
    """A duration that has a value."""
    return float(settings[name])
