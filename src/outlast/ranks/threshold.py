"""Those who have connected to rank 0 and have not proven yet that they are ranks: never more than a few at a time."""

import socket
import threading
from collections import OrderedDict
from contextlib import suppress

_MOST = 128  # a rank is through in milliseconds, and comes again if it was sent away


class Threshold:
    """Whoever comes when it is full takes the place of the one that has stood there longest."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._lock = most, threading.Lock()
        self._there: OrderedDict[socket.socket, None] = OrderedDict()

    def enter(self, sock: socket.socket) -> None:
        """Has connected. Its own thread closes it, also where it has to give way."""
        with self._lock:
            self._there[sock] = None
            if len(self._there) > self._most:
                oldest, _ = self._there.popitem(last=False)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)

    def leave(self, sock: socket.socket) -> None:
        """Has proven itself, or is gone."""
        with self._lock:
            self._there.pop(sock, None)
