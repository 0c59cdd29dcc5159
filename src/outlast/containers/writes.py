"""Decides about each write of a command before it is done: lets it pass, delays it, or fails it as a disk would.

By seccomp's user notifications (seccomp_unotify(2), Linux 5.5): each call that writes to an open file waits until
somebody here has answered. It works for any program and needs no privilege. Memory that is mapped to a file, and
io_uring, are written without such a call.
"""

import errno
import fcntl
import os
import platform
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from outlast.containers.launcher import CALLS

# From linux/seccomp.h: ioctls, the flag that lets a call go on, and struct seccomp_notif.
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON = 1
_NOTIFICATION = struct.Struct("QIIiIQ6Q")
_SYNCS = {"x86_64": (74, 75), "aarch64": (82, 83)}  # fsync, fdatasync
_POLL_MILLISECONDS = 200
_PASSED = {errno.EINTR, errno.ENOENT}  # whoever called was killed, or called again after a signal


@dataclass(frozen=True, slots=True)
class WriteCall:
    """A call that is about to write to the file at `path`, or to sync it."""

    path: str
    sync: bool


Decide = Callable[[WriteCall], int]
"""The error number that the call gives, 0 to let it pass. Runs in a thread of the door's, and may wait."""


def can_watch_writes() -> bool:
    """Whether this machine's calls are known here."""
    return platform.machine() in CALLS


class WriteDoor:
    """The door of one command, which a Container opens. `decide` may be replaced at any time."""

    def __init__(self, decide: Decide) -> None:
        self.decide = decide
        self._ours, self._theirs = socket.socketpair()
        self._listener: int | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def socket_for_command(self) -> socket.socket:
        """What the launcher sends its descriptor through; given away once."""
        return self._theirs

    def open(self) -> None:
        """Begins to answer, if the command has begun."""
        try:
            _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1)
        except OSError:
            return
        if descriptors:
            self._listener = descriptors[0]
            self._thread = threading.Thread(target=self._answer, name="outlast-writes", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Only once the command has ended: without anybody to answer, its writes would fail."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._listener is not None:
            os.close(self._listener)
            self._listener = None
        self._ours.close()

    def _answer(self) -> None:
        listener, syncs = self._listener, _SYNCS[platform.machine()]
        if listener is None:
            return
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while not self._over.is_set():
            ready = poll.poll(_POLL_MILLISECONDS)
            if any(state & select.POLLHUP for _, state in ready):  # nobody is left who could call
                return
            if not ready:
                continue
            asked = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(listener, _RECEIVE, asked)
                cookie, pid, _, call, _, _, descriptor, *_ = _NOTIFICATION.unpack(asked)
                error = self._decided(pid, descriptor, sync=call in syncs)
                said = struct.pack("QqiI", cookie, 0, -error, 0 if error else _GO_ON)
                fcntl.ioctl(listener, _SEND, bytearray(said))
            except OSError as failed:
                if failed.errno not in _PASSED:
                    raise

    def _decided(self, pid: int, descriptor: int, *, sync: bool) -> int:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115 - once per write of the command
        except OSError:
            return 0  # no such descriptor: the call fails by itself
        return self.decide(WriteCall(path, sync)) if path.startswith("/") else 0
