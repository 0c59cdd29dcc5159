"""What ranks say to each other: one frozen record for each message, one JSON object on the wire."""

import json
from dataclasses import dataclass, fields
from typing import Any, get_type_hints


@dataclass(frozen=True, slots=True)
class Hello:
    """A member's first word. `agreed_on`: what every rank must have been given alike, by name."""

    rank: int
    size: int
    agreed_on: dict[str, str]


@dataclass(frozen=True, slots=True)
class Welcome:
    """The leader has taken it in."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The leader has not. `final`: nor will any other one of this launch."""

    why: str
    final: bool


@dataclass(frozen=True, slots=True)
class Claimed:
    """The attempt that all of them make together."""

    job: str
    run: str
    task: int
    attempt: int
    token: str


@dataclass(frozen=True, slots=True)
class TryCheckpoint:
    """Open this one, compare it with the program, and read it."""

    path: str


@dataclass(frozen=True, slots=True)
class Tried:
    """How that went. `code`: of an error that no older checkpoint would mend."""

    path: str
    why: str
    code: int


@dataclass(frozen=True, slots=True)
class Started:
    """From where all go on; "" is the beginning. `finished`: this checkpoint finished the run, `total` of its loop."""

    path: str
    finished: bool
    total: int


@dataclass(frozen=True, slots=True)
class Hold:
    """How many borders have you passed? Pass no other one before we have agreed."""

    round: int


@dataclass(frozen=True, slots=True)
class Passed:
    """The answer: so many."""

    round: int
    borders: int


@dataclass(frozen=True, slots=True)
class Agreed:
    """All meet at this border, and pass those before it."""

    round: int
    border: int


@dataclass(frozen=True, slots=True)
class Here:
    """A member stands at a border at which all meet, with this progress; `at`: "border", "save" or "finish"."""

    border: int
    mark: list[int]
    at: str


@dataclass(frozen=True, slots=True)
class Wish:
    """The program of a member asks for a save at its coming border, which is this one."""

    border: int
    pinned: bool


@dataclass(frozen=True, slots=True)
class WishHeard:
    """It is asked for: what follows from that was said before."""


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing more is done at this border."""

    border: int


@dataclass(frozen=True, slots=True)
class Save:
    """Save the state of this border, beside the training or at once."""

    number: int
    beside: bool


@dataclass(frozen=True, slots=True)
class Write:
    """Write what is not there yet. `base`: the commit that may be referred to, "" for none; `shared`: what the leader
    writes or refers to itself, as [digest, bytes, file, bytes of the file, offset]."""

    number: int
    name: str
    base: str
    shared: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """A member's part is durable: its image, as in the commit record."""

    number: int
    files: list[list[Any]]
    image: dict[str, Any]
    written: int


@dataclass(frozen=True, slots=True)
class PartFailed:
    """It is not."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The record of all parts is durable."""

    number: int


@dataclass(frozen=True, slots=True)
class Abandoned:
    """There will be none."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read your part back: "whole", or "glance" at it."""

    number: int
    how: str


@dataclass(frozen=True, slots=True)
class WasRead:
    """It is as it was written; else why not, in which file, and whether only the storage did not answer."""

    number: int
    why: str
    file: str
    unreachable: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """The save is over, with all that is said about it; `why` it does not count, "" if it does."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Standing:
    """All that somebody hears of its end, as [key, reason, kind, seconds left]; what it said before is over."""

    notices: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Leave:
    """All leave, with this code. Nothing more is saved."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is marked finished."""

    step: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A rank leaves: "finished", "stopped" as all agreed, by an "error" of outlast's, "crashed", "left" by itself, or
    was "lost"."""

    rank: int
    how: str
    code: int
    reason: str


Message = (
    Hello | Welcome | Refused | Claimed | TryCheckpoint | Tried | Started | Hold | Passed | Agreed | Here | Wish
    | WishHeard | Go | Save | Write | Part | PartFailed | Committed | Abandoned | ReadBack | WasRead | Settled
    | Standing | Leave | Finished | Gone
)  # fmt: skip
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in Message.__args__}
_HINTS = {name: get_type_hints(kind) for name, kind in _KINDS.items()}


class NoMessage(ValueError):
    """Bytes that are no message, or not one of this version."""


def to_json(message: Message) -> bytes:
    """The message as one line without its end."""
    said = {one.name: getattr(message, one.name) for one in fields(message)}  # asdict would copy a million rows
    return json.dumps([type(message).__name__, said], separators=(",", ":")).encode()


def from_json(data: bytes) -> Message:
    """The message; raises NoMessage."""
    try:
        name, said = json.loads(data)
        kind, hints = _KINDS[name], _HINTS[name]
        if set(said) != {one.name for one in fields(kind)}:
            raise NoMessage(f"{name} has the fields {sorted(said)}")
        for field, value in said.items():
            origin = getattr(hints[field], "__origin__", hints[field])
            if type(value) is not origin:
                raise NoMessage(f"{field} of {name} is {value!r:.80}")
        message: Message = kind(**said)
    except NoMessage:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NoMessage(f"{data[:80]!r}") from error
    return message
