"""What /proc tells about a process: its children, its command, the signals it handles, the files it writes."""

import os
from dataclasses import dataclass
from pathlib import Path

_SIGKILL_BIT, _SIGTERM_BIT = 1 << 8, 1 << 14  # signal n is bit n-1 of the masks in /proc/PID/status
# Helpers of Python's multiprocessing, which end when their pipe closes: nothing of the program is lost with them.
_HARMLESS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "multiprocessing.forkserver")


@dataclass(frozen=True, slots=True)
class Process:
    """One process as it is now. `hears_sigterm`: it catches the signal, or blocks it to wait for it.

    `leaving`: it has given its memory back, or a signal that ends it is on the way to it, so it does no more work.
    """

    pid: int
    command: str
    hears_sigterm: bool
    ended: bool
    leaving: bool

    @property
    def harmless(self) -> bool:
        return any(name in self.command for name in _HARMLESS)


def children(pid: int) -> list[int]:
    """The children of all threads of a process; empty when it is gone."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found.extend(int(child) for child in (thread / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return found  # it ended while we looked
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, without `pid` itself."""
    found, todo = [], children(pid)
    while todo:
        one = todo.pop()
        found.append(one)
        todo.extend(children(one))
    return found


def has_thread(pid: int, thread: int) -> bool:
    """Whether it is one of the process's; not so when that is gone."""
    return Path(f"/proc/{pid}/task/{thread}").exists()


def look_at(pid: int) -> Process | None:
    """A process, or None when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    caught = int(fields.get("SigCgt", "0"), 16) | int(fields.get("SigBlk", "0"), 16)
    ends_it = _SIGKILL_BIT | _SIGTERM_BIT & ~(caught | int(fields.get("SigIgn", "0"), 16))
    pending = int(fields.get("SigPnd", "0"), 16) | int(fields.get("ShdPnd", "0"), 16)
    command = " ".join(part.decode(errors="replace") for part in raw.split(b"\0") if part)
    return Process(
        pid=pid,
        command=command or fields.get("Name", "?").strip(),
        hears_sigterm=bool(caught & _SIGTERM_BIT),
        ended=fields.get("State", "").strip()[:1] in ("Z", "X"),
        leaving="VmSize" not in fields or bool(pending & ends_it),
    )


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; empty when it is gone."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # PermissionError among them: of a process that has just begun
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def files_written_by(pid: int, *, below: Path) -> list[str]:
    """Files below a folder that a process holds open for writing, relative to the folder."""
    found = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = Path(entry.readlink())
            if target.is_relative_to(below) and _open_for_writing(pid, entry.name):
                found.add(target.relative_to(below).as_posix())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it ended, or closed the file, while we looked
    return sorted(found)


def _open_for_writing(pid: int, descriptor: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("flags:"):
            return bool(int(line.split()[1], 8) & (os.O_WRONLY | os.O_RDWR))
    return False


def short(command: str, limit: int = 60) -> str:
    """A command in one short line."""
    line = " ".join(command.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
