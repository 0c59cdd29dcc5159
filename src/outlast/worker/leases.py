"""What a worker holds and by when its item has to end, in memory that its keeper shares."""

import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence

_HEADER = struct.Struct("<IQd")  # a checksum of the rest, its length in bytes, and the limit (0: none)
_BYTES = 8 << 20  # of address space: only what is written takes memory


class LeaseTable:
    """Renewals, one line each. One process writes and another reads: what is half written is not taken for a table."""

    def __init__(self, handle: int | None = None) -> None:
        """`handle` None makes a new one."""
        if handle is None:
            with tempfile.TemporaryFile(prefix="outlast-leases-") as made:
                made.truncate(_BYTES)
                handle = os.dup(made.fileno())
        self.handle = handle
        self._memory = mmap.mmap(handle, _BYTES)

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
