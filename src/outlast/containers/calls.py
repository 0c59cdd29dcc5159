"""File operations of an attempt, seen before they happen: the kernel holds each one until it is answered.

Seccomp's user notification (seccomp(2), seccomp_unotify(2), read 2026-11-30): a filter in the command's processes
hands calls that change files to a listener, and the caller waits. So a process can be killed exactly between two of
its file operations, which no look from outside could time.
"""

import contextlib
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_AT_FDCWD = -100
_PATH_BYTES = 4096
# linux/fcntl.h (the same on both machines below): what makes an open a change, or the begin of one.
_O_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# linux/audit.h, linux/seccomp.h and linux/bpf_common.h.
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _IF_EQUAL, _IF_ABOVE, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_RECEIVE, _SEND, _STILL_THERE = 0xC0502100, 0xC0182101, 0x40082102
_SIGNAL_SECONDS = 0.3  # ample for a signal to take its process out of a call
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_NOTIFICATION = struct.Struct("QIIiIQ6Q")  # struct seccomp_notif: id, pid, flags, then struct seccomp_data
_RESPONSE = struct.Struct("QqiI")  # struct seccomp_notif_resp: id, val, error, flags


@dataclass(frozen=True, slots=True)
class _Call:
    """How to read a call: `name` of the operation, its number on x86_64 and aarch64, and which argument is what.

    `folder` and `path` are arguments of the (second, where there are two) name; -1: there is none. `descriptor`: the
    call names an open file instead. `flags`: the argument that says whether an open writes.
    """

    name: str
    x86_64: int
    aarch64: int
    path: int = -1
    folder: int = -1
    source: int = -1
    descriptor: int = -1
    flags: int = -1

    def number(self, machine: str) -> int:
        return self.x86_64 if machine == "x86_64" else self.aarch64


# Numbers from asm/unistd_64.h and asm-generic/unistd.h; -1: the machine has no such call.
_CALLS = (
    _Call("open", 2, -1, path=0, flags=1),
    _Call("open", 257, 56, path=1, folder=0, flags=2),
    _Call("open", 85, -1, path=0),  # creat
    _Call("rename", 82, -1, path=1, source=0),
    _Call("rename", 264, 38, path=3, folder=2, source=1),
    _Call("rename", 316, 276, path=3, folder=2, source=1),
    _Call("link", 86, -1, path=1, source=0),
    _Call("link", 265, 37, path=3, folder=2, source=1),
    _Call("link", 88, -1, path=1),  # symlink
    _Call("link", 266, 36, path=2, folder=1),
    _Call("unlink", 87, -1, path=0),
    _Call("unlink", 263, 35, path=1, folder=0),
    _Call("truncate", 76, 45, path=0),
    _Call("truncate", 77, 46, descriptor=0),
    _Call("write", 1, 64, descriptor=0),
    _Call("write", 18, 68, descriptor=0),  # pwrite64
    _Call("write", 20, 66, descriptor=0),  # writev
    _Call("write", 296, 70, descriptor=0),  # pwritev
    _Call("write", 326, 285, descriptor=2),  # copy_file_range
    _Call("write", 40, 71, descriptor=0),  # sendfile
    _Call("exit", 231, 94),  # exit_group
)
KINDS = frozenset(call.name for call in _CALLS)
_REPLACING = ("open", "rename", "unlink")


@dataclass(frozen=True, slots=True)
class Operation:
    """One change to a file that is about to happen: "open" (for writing), "write", "rename" (`source` to `path`), …

    "exit", without a path, is the end of a process that leaves with `code`. `replaces`: nothing of what the path held
    before can be read at it after.
    """

    kind: str
    path: str
    source: str | None
    pid: int  # of the thread
    at: float  # monotonic seconds
    code: int | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The error number that an operation gives instead of happening."""

    error: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal has been sent to whoever waits. `left` is told whether that took it out of the operation, which it may
    then begin anew; where the signal is blocked or comes to another thread, the operation happens."""

    left: Callable[[bool], None]


Answer = bool | Failure | Signalled


def can_watch() -> bool:
    """Whether this machine's calls are known here."""
    return platform.machine() in _MACHINES


def filter_program(kinds: frozenset[str] = KINDS) -> bytes:
    """The filter for this machine and such operations, as an array of struct sock_filter."""
    machine = platform.machine()
    program = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 1, 0, _MACHINES[machine]), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for call in _CALLS:
        if (number := call.number(machine)) < 0 or call.name not in kinds:
            continue
        block = _test(call)
        program += [(_IF_EQUAL, 0, len(block), number), *block]
    return b"".join(struct.pack("HBBI", *line) for line in [*program, (_RETURN, 0, 0, _ALLOW)])


def _test(call: _Call) -> list[tuple[int, int, int, int]]:
    """Opens that only read pass, and so does what goes to the standard streams."""
    if call.flags >= 0:
        test = [(_LOAD, 0, 0, _argument(call.flags)), (_IF_ANY_BIT, 0, 1, _O_CHANGES)]
    elif call.name == "write":
        test = [(_LOAD, 0, 0, _argument(call.descriptor)), (_IF_ABOVE, 0, 1, 2)]
    else:
        return [(_RETURN, 0, 0, _NOTIFY)]
    return [*test, (_RETURN, 0, 0, _NOTIFY), (_RETURN, 0, 0, _ALLOW)]


def _argument(index: int) -> int:
    return 16 + 8 * index  # its lower half, on a little-endian machine


class CallWatch:
    """Receives an attempt's file operations in a thread of its own, from `listen` to `close`.

    `answer` is asked about each operation before it happens; when it returns False the operation never happens: the
    process stays held, to be killed. Signalled: it has been sent a signal meanwhile, and goes on. A Failure is what it
    gives then, as a disk would. It may wait. Operations of other `kinds` happen unasked.
    """

    def __init__(self, answer: Callable[[Operation], Answer], *, kinds: frozenset[str] = KINDS) -> None:
        self._answer, self._kinds = answer, kinds
        self._ours, self._theirs = socket.socketpair()
        self._stop_reading, self._stop_writing = os.pipe()
        machine = platform.machine()
        self._calls = {call.number(machine): call for call in _CALLS if call.number(machine) >= 0}
        self._thread: threading.Thread | None = None
        self.listening = False  # whether the kernel has given a listener: else no operation is seen

    @property
    def descriptor(self) -> int:
        """What the launcher sends the listener through."""
        return self._theirs.fileno()

    @property
    def program(self) -> bytes:
        """The filter that the launcher installs."""
        return filter_program(self._kinds)

    def listen(self) -> None:
        """Takes the listener that the launcher has sent, and begins to answer. Without one nothing is seen."""
        self._theirs.close()
        _, received, _, _ = socket.recv_fds(self._ours, 1, 1)
        if received:
            self.listening = True
            self._thread = threading.Thread(target=self._serve, args=(received[0],), name="calls", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends the thread; what is held fails then, so the processes should be gone."""
        os.close(self._stop_writing)
        if self._thread is not None:
            self._thread.join()
        os.close(self._stop_reading)
        self._ours.close()
        self._theirs.close()

    def _serve(self, listener: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._stop_reading, select.POLLIN)
        try:
            while True:
                ready = dict(poll.poll())
                if self._stop_reading in ready or ready.get(listener, 0) & (select.POLLHUP | select.POLLERR):
                    return
                self._receive(listener)
        finally:
            os.close(listener)

    def _receive(self, listener: int) -> None:
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer)
            number, pid, _, call, _, _, *arguments = _NOTIFICATION.unpack(buffer)
            operation = self._read(pid, self._calls[call], arguments)
            answer = True if operation is None else self._answer(operation)
            if isinstance(answer, Signalled):
                left = _has_left(listener, number)
                answer.left(left)
                answer = not left
            if isinstance(answer, Failure):
                fcntl.ioctl(listener, _SEND, _RESPONSE.pack(number, 0, -answer.error, 0))
            elif answer:
                fcntl.ioctl(listener, _SEND, _RESPONSE.pack(number, 0, 0, _CONTINUE))
        except OSError as error:  # the process was killed, or a signal took it out of the call
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _read(self, pid: int, call: _Call, arguments: list[int]) -> Operation | None:
        """None for what is no file, or for a process that is gone."""
        now = time.monotonic()
        with contextlib.suppress(OSError):
            if call.name == "exit":
                return Operation("exit", "", None, pid, now, code=arguments[0] & 0xFF)
            if call.descriptor >= 0:
                path = str(Path(f"/proc/{pid}/fd/{_signed(arguments[call.descriptor])}").readlink())
                return Operation(call.name, path, None, pid, now) if path.startswith("/") else None
            folder = _signed(arguments[call.folder]) if call.folder >= 0 else _AT_FDCWD
            path = _named(pid, folder, arguments[call.path])
            source = _named(pid, _AT_FDCWD, arguments[call.source]) if call.source >= 0 else None
            afresh = call.flags < 0 or bool(arguments[call.flags] & os.O_TRUNC)
            return Operation(call.name, path, source, pid, now, replaces=afresh and call.name in _REPLACING)
        return None


def _has_left(listener: int, number: int) -> bool:
    """Whether the caller gives the operation up on a signal."""
    until = time.monotonic() + _SIGNAL_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.ioctl(listener, _STILL_THERE, struct.pack("Q", number))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return True
        time.sleep(0.002)
    return False


def _signed(value: int) -> int:
    return struct.unpack("i", struct.pack("I", value & 0xFFFFFFFF))[0]  # type: ignore[no-any-return]  # one int


def _named(pid: int, folder: int, address: int) -> str:
    """The absolute path of a name in a process's memory."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        text = memory.read(min(_PATH_BYTES, _PATH_BYTES - address % _PATH_BYTES))
        if b"\0" not in text:
            text += memory.read(_PATH_BYTES)
    name = os.fsdecode(text.partition(b"\0")[0])
    if name.startswith("/"):
        return os.path.normpath(name)
    base = Path(f"/proc/{pid}/cwd" if folder == _AT_FDCWD else f"/proc/{pid}/fd/{folder}").readlink()
    return os.path.normpath(base / name)
