"""What a worker holds and by when its item has to end, in memory that its keeper shares."""

import fcntl
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence

LOOKS_PER_LEASE = 3.0  # how often whoever keeps leases renews each
_HEADER = struct.Struct("<IQd")  # a checksum of the rest, its length in bytes, and the limit (0: none)
_BYTES = 8 << 20  # of address space: only what is written takes memory


class LeaseTable:
    """Renewals, one line each. One process writes and another reads: what is half written is not taken for a table."""

    def __init__(self, handle: int | None = None) -> None:
        """`handle` None makes a new one."""
        self.handle = _shared_memory() if handle is None else handle
        self._memory = mmap.mmap(self.handle, _BYTES)

    def write(self, renewals: Sequence[str], limit_monotonic_seconds: float | None = None) -> None:
        """The leases, and when the worker is to be killed, should it still be busy with what it is busy with now."""
        body = "\n".join(renewals).encode()
        if len(body) > _BYTES - _HEADER.size:
            raise ValueError(f"{len(body)} bytes of leases are more than the table holds")
        self._memory[_HEADER.size : _HEADER.size + len(body)] = body
        self._memory[: _HEADER.size] = _HEADER.pack(zlib.crc32(body), len(body), limit_monotonic_seconds or 0.0)

    def read(self) -> tuple[list[str], float | None] | None:
        """None while it is being written."""
        checksum, length, limit = _HEADER.unpack(self._memory[: _HEADER.size])
        body = self._memory[_HEADER.size : _HEADER.size + min(length, _BYTES)]
        if zlib.crc32(body) != checksum:
            return None
        return body.decode().split("\n") if body else [], limit or None

    def close(self) -> None:
        self._memory.close()
        os.close(self.handle)


def _shared_memory() -> int:
    """A descriptor of memory that a program started from here can share; raises OSError.

    Linux keeps it in no folder. Elsewhere it is a file, written in full: in a sparse one a disk that is full shows
    as a SIGBUS, later. No number below 3, which a program would take for its standard streams.
    """
    if hasattr(os, "memfd_create"):
        made = os.memfd_create("outlast-leases")
        try:
            os.ftruncate(made, _BYTES)
            return fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)
        finally:
            os.close(made)
    with tempfile.TemporaryFile(prefix="outlast-leases-", buffering=0) as file:
        for _ in range(_BYTES >> 20):
            file.write(bytes(1 << 20))
        return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
