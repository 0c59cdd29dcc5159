"""What deployments have made, as an append-only file: written before and after each thing, so that a kill loses none.

A line is one JSON object. "intends" stands before the command that makes a thing, and only if the thing was not there;
"made" after it, "removed" after its removal. What is intended and not removed belongs to the deployment, whether
or not the process lived to write "made". A torn line can only be the last of a process that was killed in the middle
of it, before it did what the line tells; it counts for nothing.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from outlast.clock import SystemClock, iso_utc
from outlast.deploy.plan import NAME, Command, Listing, Made, Probe
from outlast.errors import DeploymentStopped, SettingsError

FOLDER = ".outlast-deploy"


_Which = tuple[str, str, str, tuple[str, ...]]
"""A step, a kind, a name, and how it is asked for, which tells one project or cluster from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A thing that deployments made and nobody has removed.

    `sure` once a deployment saw that it was made; `past` once that deployment came to its end.
    """

    step: str
    made: Made
    before: tuple[str, ...] = ()
    sure: bool = False
    past: bool = False


@dataclass(slots=True)
class Record:
    """The record of one target and job. Open it with `opened`, so that two deployments do not write at once."""

    path: Path
    _descriptor: int
    _owned: dict[_Which, Owned] = field(default_factory=dict, repr=False)

    def owned(self) -> tuple[Owned, ...]:
        """What was made and is not removed, in the order in which it was."""
        return tuple(self._owned.values())

    def owns(self, made: Made) -> Owned | None:
        """The entry of a thing of this kind and name, in the same place."""
        found = [one for key, one in self._owned.items() if key[1:] == _which("", made)[1:]]
        return found[-1] if found else None

    def started(self, step: str) -> tuple[Owned, ...]:
        """What a deployment that did not come to its end made, or was about to make, of things found by a listing."""
        return tuple(one for one in self._owned.values() if one.step == step and one.made.listing and not one.past)

    def intends(self, step: str, made: Made, *, before: Sequence[str] = ()) -> None:
        """Says that the thing will now be made; `before` is what its listing had."""
        self._write({"event": "intends", "step": step, "thing": _plain(made), "before": list(before)})

    def made(self, step: str, made: Made) -> None:
        """Says that the thing is there."""
        self._write({"event": "made", "step": step, "thing": _plain(made)})

    def removed(self, step: str, made: Made) -> None:
        """Says that the thing is gone, or was never there."""
        self._write({"event": "removed", "step": step, "thing": _plain(made)})

    def ends(self) -> None:
        """Says that a deployment came to its end: the next one starts anew what is started each time."""
        self._write({"event": "ends"})

    def _write(self, entry: Mapping[str, object]) -> None:
        line = json.dumps({"at": iso_utc(SystemClock().wall_seconds()), **entry}, ensure_ascii=False)
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        rest = f"{line}\n".encode(errors="surrogateescape")
        try:
            while rest:  # a disk that fills up takes a part, and says so only at the next
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, end)  # half a line would spoil the next one
            raise DeploymentStopped(f"{self.path} cannot be written: {error.strerror or error}") from error
        self._take(entry)

    def _take(self, entry: Mapping[str, object]) -> None:
        if entry["event"] == "ends":
            self._owned = {key: replace(one, past=True) for key, one in self._owned.items()}
            return
        made, step = _made(cast(dict[str, Any], entry["thing"])), str(entry["step"])
        key = _which(step, made)
        if entry["event"] == "removed":
            self._owned.pop(key, None)
        elif entry["event"] == "made":
            earlier = self._owned.get(key)
            self._owned[key] = Owned(step=step, made=made, before=earlier.before if earlier else (), sure=True)
        else:
            before = tuple(str(name) for name in cast(list[object], entry.get("before", [])))
            self._owned[key] = Owned(step=step, made=made, before=before)

    def read_back(self) -> None:
        """Takes in what the file has. Raises SettingsError for a whole line that outlast cannot have written."""
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue  # empty, or torn: see the head of the file
            try:
                self._take(entry)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise SettingsError(
                    f"{self.path}:{number}: outlast has not written this line, and what was made cannot be told "
                    "without it: mend it, or take it away if it tells of nothing that is there"
                ) from error
        if lines[-1]:
            os.write(self._descriptor, b"\n")  # a torn line stays alone


@contextmanager
def opened(folder: Path, target: str, name: str) -> Iterator[Record]:
    """The record, held against others for as long as the block lasts. Raises SettingsError if another holds it."""
    path = record_path(folder, target, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise SettingsError(f"{path}, the record of what is made, cannot be opened: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SettingsError(f"{path}, the record of what is made, is no file")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingsError(f"another deployment or teardown of {name} is under way; wait for its end") from error
        record = Record(path, descriptor)
        record.read_back()
        yield record
    finally:
        os.close(descriptor)


def record_path(folder: Path, target: str, name: str) -> Path:
    """Where the record of a job on a target is, below the folder of its description."""
    return folder / FOLDER / f"{target}-{name}.jsonl"


def named(made: Made, name: str) -> Made:
    """The thing that a listing shows under `name`, with NAME in its undoing filled in."""
    undo = tuple(Command(tuple(name if word == NAME else word for word in one.argv)) for one in made.undo)
    return Made(kind=made.kind, name=name, listing=made.listing, undo=undo, holds=made.holds, why_kept=made.why_kept)


def _which(step: str, made: Made) -> _Which:
    asked = made.probe or made.listing
    return step, made.kind, made.name, () if asked is None else asked.argv


def _plain(made: Made) -> dict[str, object]:
    return {
        "kind": made.kind,
        "name": made.name,
        "probe": None if made.probe is None else {"argv": made.probe.argv, "line": made.probe.line},
        "listing": None if made.listing is None else made.listing.argv,
        "undo": [{"argv": one.argv, "may_fail": one.may_fail} for one in made.undo],
        "holds": made.holds,
        "why_kept": made.why_kept,
    }


def _made(plain: dict[str, Any]) -> Made:
    """Raises KeyError or TypeError for what `_plain` cannot have made."""
    probe, listing = plain["probe"], plain["listing"]
    words = [one["argv"] for one in (probe, *plain["undo"]) if one is not None] + ([] if listing is None else [listing])
    if not all(isinstance(one, list | tuple) and one and all(isinstance(word, str) for word in one) for one in words):
        raise TypeError("a command is a list of words")
    if not isinstance(plain["kind"], str) or not isinstance(plain["name"], str):
        raise TypeError("a thing has a kind and a name")
    return Made(
        kind=plain["kind"],
        name=plain["name"],
        probe=None if probe is None else Probe(tuple(probe["argv"]), probe["line"]),
        listing=None if listing is None else Listing(tuple(listing)),
        undo=tuple(Command(tuple(one["argv"]), may_fail=one["may_fail"]) for one in plain["undo"]),
        holds=plain["holds"],
        why_kept=plain["why_kept"],
    )
