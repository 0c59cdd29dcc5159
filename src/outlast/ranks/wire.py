"""A connection between two ranks: lines that only who knows the launch's secret can write, and nobody can replay."""

import hmac
import os
import secrets
import socket
import struct
import threading
import weakref
from contextlib import suppress
from hashlib import sha256

from outlast.ranks.messages import Message, NoMessage, from_json, to_json

_GREETING = b"outlast-ranks 1 "
_NONCE_BYTES, _SEAL_BYTES = 16, 16
_LONGEST_GREETING, _LONGEST_HELLO = 128, 64 << 10
_LONGEST_LINE = 256 << 20  # a part of a terabyte has a million pieces
# A machine that is gone answers nothing: it is given up after so long, by the kernel, however busy the process is.
SILENCE_SECONDS = 40
_PROBE_SECONDS = 10
_SEND_SECONDS = 60  # of a process that reads nothing
HANDSHAKE_SECONDS = 10.0


class Closed(Exception):
    """The other side is gone, or is not who it should be."""


def said_of_end(error: Exception) -> str:
    """Why nothing more is heard from somebody: the connection has ended, or what it said makes no sense."""
    return str(error) if isinstance(error, Closed) else f"its word cannot be taken: {type(error).__name__}: {error}"


class Connection:
    """One connection, open and proven on both sides. Several threads may send, one receives."""

    def __init__(self, sock: socket.socket, secret: str, *, leads: bool) -> None:
        """Greets and is greeted. Raises Closed."""
        self._sock, self._lock = sock, threading.Lock()
        self._mine, self._theirs = (b"L", b"M") if leads else (b"M", b"L")
        self._sent = self._received = 0
        try:
            sock.settimeout(HANDSHAKE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._reader = sock.makefile("rb")
            own = secrets.token_hex(_NONCE_BYTES).encode()
            sock.sendall(_GREETING + own + b"\n")
            line = self._reader.readline(_LONGEST_GREETING)
        except (OSError, ValueError) as error:
            sock.close()
            raise Closed(str(error)) from error
        other = line.removeprefix(_GREETING).strip()
        if not line.startswith(_GREETING) or len(other) != 2 * _NONCE_BYTES or other == own:
            sock.close()
            raise Closed("what answered is no rank of outlast")
        both = own + other if leads else other + own
        self._key = hmac.digest(secret.encode(), both, sha256)
        _of_this_process.add(self)

    def settle(self) -> None:
        """The other side has proven itself: from now on a silence is no failure, but a vanished machine is."""
        sock = self._sock
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", _PROBE_SECONDS),
            ("TCP_KEEPINTVL", _PROBE_SECONDS),
            ("TCP_KEEPCNT", SILENCE_SECONDS // _PROBE_SECONDS - 1),
            ("TCP_USER_TIMEOUT", SILENCE_SECONDS * 1000),
        ):
            if hasattr(socket, name):  # Linux
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))

    def send(self, message: Message) -> None:
        """Raises Closed."""
        self.send_body(to_json(message))

    def send_body(self, body: bytes) -> None:
        """The same by the JSON of a message, which is made once for many."""
        try:
            with self._lock:
                self._sock.sendall(self._seal(self._mine, self._sent, body) + b" " + body + b"\n")
                self._sent += 1
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error

    def receive(self, *, first: bool = False) -> Message:
        """The next message. Raises Closed at the end, and for what was not written by whom it should be."""
        try:
            line = self._reader.readline(_LONGEST_HELLO if first else _LONGEST_LINE)
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error
        if not line.endswith(b"\n"):
            raise Closed("the connection ended" if not line else "a line is cut, or far too long")
        seal, _, body = line[:-1].partition(b" ")
        if not hmac.compare_digest(seal, self._seal(self._theirs, self._received, body)):
            raise Closed("a line does not carry the launch's secret")
        self._received += 1
        try:
            return from_json(body)
        except NoMessage as error:
            raise Closed(f"no message of this version: {error}") from error

    def close(self) -> None:
        """Ends it; who waits to receive is woken."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._sock.close()

    def say_no_more(self) -> None:
        """Ends what is sent, and not what is received: to close while something is on its way would lose both."""
        with self._lock, suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def drop(self) -> None:
        """In a forked child: lets go of its copy, so that the parent's end is the connection's end."""
        with suppress(OSError, ValueError):
            os.close(self._sock.detach())

    def _seal(self, side: bytes, number: int, body: bytes) -> bytes:
        sealed = hmac.new(self._key, b"%s %d " % (side, number), sha256)
        sealed.update(body)
        return sealed.digest()[:_SEAL_BYTES].hex().encode()


_of_this_process: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def _drop_all() -> None:
    for one in list(_of_this_process):
        one.drop()


def close_in_children() -> None:
    """From now on a forked child (a data loader's worker, say) holds no connection of its parent open."""
    global _registered  # noqa: PLW0603 - hooks of a process stay for its life
    if not _registered:
        os.register_at_fork(after_in_child=_drop_all)
        _registered = True


_registered = False


def listener(*, only_here: bool) -> socket.socket:
    """A socket that members can connect to, of any family that the machine has; `only_here`: from this machine."""
    if only_here:
        return socket.create_server(("127.0.0.1", 0), backlog=128)
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=128)
    return socket.create_server(("", 0), backlog=128)
