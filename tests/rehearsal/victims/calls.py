"""Lives that meet their fate at one file-system call: COUNTER on a disk that counts its calls.

    calls.py SCENARIO FATE FOLDER

For each call n that changes the disk, on a fresh copy of the scenario's store, a child lives with the fate waiting at
call n, and a second one after it without. One JSON line per n. Each life is a fork of this process, which has
everything loaded and runs no job itself.

Scenarios: "first" starts on nothing; "large" does so, too, and writes every file as a large one; "second" starts on
what an attempt left that was killed while it wrote data; "back" goes back to step 0 on that. "beside" is "first", and
"beside-second" is "second", with saves in the background, each of which refers to what an earlier one wrote; "mount" is
"beside" for victims/mount_calls.py.
Fates: "before" and "after" kill around the call; "half" after half of a write; an errno's name makes this one call fail
with it, or with a "+" behind it, this call and all that follow.
"""

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from counter import Counter

from outlast import session  # with all else, loaded now and not in each child
from outlast.checkpoint.journals import read_journals
from outlast.checkpoint.lineage import read_lineage
from outlast.checkpoint.survey import survey, tasks_in
from outlast.errors import ExitingError
from outlast.ports import Store
from outlast.stores import directory
from outlast.stores.blocks import LargeFiles
from outlast.stores.directory import DirectoryStore
from outlast.stores.disk import LocalDisk

session._FINISH_PAUSES_SECONDS = (0.0, 0.0, 0.0)  # a disk that fails for good is not waited for
CHANGING = (
    *("make_folder", "create_file", "open_direct", "open_append", "allocate", "write", "write_at", "sync", "sync_data"),
    *("close", "link", "unlink", "sync_folder"),
)
WRITES = ("write", "write_at")
# One thread, so that each life makes its calls in the same order.
LARGE = LargeFiles(from_bytes=1, block_bytes=4096, run_bytes=4096, threads=1, allocate_from_bytes=4096)
STEPS, EVERY, KEEP = 12, 3, 2
StoreAt = Callable[[str], Store]


class FatefulDisk(LocalDisk):
    """A local disk that counts the calls that change it; `fate` meets call number `at`. It never waits."""

    def __init__(self, fate: str, at: int) -> None:
        self.calls, self._fate, self._at = 0, fate, at
        self.met = ""
        self._written_to: set[int] = set()
        for name in CHANGING:
            setattr(self, name, self._counted(name, getattr(self, name)))

    def install(self) -> None:
        """From now on every store of this process is on this disk."""
        directory.LocalDisk = lambda: self  # type: ignore[assignment,misc]  # instead of the machine's

    def create_file(self, path: str) -> int:
        handle = super().create_file(path)
        self._written_to.add(handle)
        return handle

    def open_direct(self, path: str) -> int:
        handle = super().open_direct(path)
        self._written_to.add(handle)
        return handle

    def open_append(self, path: str) -> int:
        handle = super().open_append(path)
        self._written_to.add(handle)
        return handle

    def sync(self, handle: int) -> None:
        """Kills do not touch what the kernel has taken over, so that waiting for it shows nothing here."""

    def sync_data(self, handle: int) -> None:
        """See `sync`."""

    def sync_folder(self, path: str) -> None:
        """See `sync`."""

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            if name == "close" and args[0] not in self._written_to:
                return call(*args)
            self._written_to -= {args[0]} if name == "close" else set()
            if self._fate == "half" and name not in WRITES:
                return call(*args)
            self.calls += 1
            if self.calls == self._at or (self.calls > self._at and self._fate.endswith("+")):
                self.met = self.met or f"{name} {Path(str(args[-1])).name if name not in WRITES else ''}".strip()
                return self._meet(name, call, args)
            return call(*args)

        return counted

    def _meet(self, name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._fate == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fate == "half":
            call(args[0], args[1][: len(args[1]) // 2], *args[2:])
            os.kill(os.getpid(), signal.SIGKILL)
        failing = getattr(errno, self._fate.rstrip("+"), None)
        if failing is not None:
            if name == "close":  # the kernel has let go of it all the same
                call(*args)
            raise OSError(failing, os.strerror(failing))
        result = call(*args)
        if self._fate == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class Door(Protocol):
    """What the calls of a store go through. `met`: the call that met its fate, once it has."""

    met: str

    def install(self) -> None: ...


def one_life(counter: Counter, door: Door) -> dict[str, Any]:
    """A life in this process: how it would leave, and with what."""
    door.install()
    try:
        resumed, acc = counter.run()
    except ExitingError as error:
        return {"code": error.code, "error": str(error)}
    return {"code": 0, "resumed": resumed, "acc": acc}


def forked(life: Callable[[], dict[str, Any]], errors: Path) -> dict[str, Any]:
    """Runs a life in a child; what it returned, with "killed" and what it wrote to standard error."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)
            os.write(writer, json.dumps(life()).encode())
            code = 0
        finally:
            sys.excepthook(*sys.exc_info()) if sys.exc_info()[0] else None  # type: ignore[arg-type]  # it is set
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    status = os.waitpid(child, 0)[1]
    told = json.loads(data) if data else {"code": os.waitstatus_to_exitcode(status)}
    return {**told, "killed": os.WIFSIGNALED(status), "said": errors.read_text()}


def look(counter: Counter, store_at: StoreAt = DirectoryStore) -> dict[str, Any]:
    """What stands in the store."""
    store = store_at(counter.url)
    found: dict[str, Any] = {"counted": [], "bad": [], "unnamed": [], "events": [], "attempts": 0, "shared": 0}
    for place in tasks_in(store):
        lineage = read_lineage(store, place)
        named: set[str] = set()
        for one in survey(store, place):
            named |= {file.name for file in one.record.files} if one.record else set()
            if not one.verified:
                found["bad"].append(f"{one.path}: {one.problem}")
            found["shared"] += bool(one.record) and any(
                place.data_of(file.name) != one.name for file in one.record.files
            )
        found["counted"] = [name.step for name in lineage.counted]
        found["attempts"] = lineage.newest + 1
        found["unnamed"] = sorted({entry.name for entry in store.list(place.data)} - named)
        journals = read_journals(store, place)
        found["events"] = [type(one.event).__name__ for number in sorted(journals) for one in journals[number]]
    found["files"] = sorted(path.name for path in Path(counter.url).rglob("*") if path.is_file())
    return found


def prepare(scenario: str, counter: Counter) -> Counter:
    """Makes the scenario's store; the counter as the lives on it get it."""
    if scenario in ("first", "large", "beside", "mount"):
        Path(counter.url).mkdir()
        return replace(counter, url=f"{counter.url}/deep/store")  # so that the root and its parent are made, too
    calls = 0
    while calls == 0 or Path(counter.url).exists():  # the first call that leaves a cut save behind two good ones
        calls += 1
        shutil.rmtree(counter.url, ignore_errors=True)
        Path(counter.trace).unlink(missing_ok=True)
        disk = FatefulDisk("half", calls)
        if forked(lambda disk=disk: one_life(counter, disk), Path(f"{counter.trace}.errors"))["killed"]:
            found = look(counter)
            if len(found["counted"]) == KEEP and found["unnamed"]:
                break
    return replace(counter, resume=0 if scenario == "back" else "latest")


def main(scenario: str, fate: str, folder: Path, new_door: Callable[[str, int], Door], store_at: StoreAt) -> None:
    if scenario == "large":
        directory.LargeFiles = lambda: LARGE  # type: ignore[assignment,misc]  # for every store of these lives
    origin = Counter(f"{folder}/origin", f"{folder}/origin-trace", STEPS, EVERY, KEEP, 0.0, 5000)
    if scenario.startswith(("beside", "mount")):
        origin = replace(origin, saving="background", frozen_bytes=50_000, settles=True)
    made = prepare(scenario, origin)
    number = 0
    while True:
        number += 1
        where = folder / f"n{number}"
        shutil.copytree(origin.url, where)
        if Path(origin.trace).exists():
            shutil.copy(origin.trace, f"{where}-trace")
        counter = replace(made, url=made.url.replace(origin.url, str(where), 1), trace=f"{where}-trace")
        door = new_door(fate, number)

        def fated(door: Door = door, counter: Counter = counter) -> dict[str, Any]:
            return {**one_life(counter, door), "met": door.met}

        first = forked(fated, Path(f"{where}-errors"))
        if not first["killed"] and not first.get("met"):
            break
        reported = (
            [int(line) for line in Path(counter.trace).read_bytes().split()] if Path(counter.trace).exists() else []
        )
        between = look(counter, store_at) if Path(counter.url).exists() else {}
        second = forked(lambda counter=counter: one_life(counter, new_door("none", 0)), Path(f"{where}-errors"))
        line = {"n": number, "first": first, "reported": reported, "between": between, "second": second}
        sys.stdout.write(json.dumps({**line, "end": look(counter, store_at), "right": counter.plain()}) + "\n")
        shutil.rmtree(where)
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), FatefulDisk, DirectoryStore)
