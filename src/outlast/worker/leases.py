"""A table of the leases that a worker holds, in memory that its keeper shares."""

import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence

_HEADER = struct.Struct("<IQ")  # a checksum of the rest, and its length in bytes
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

    def write(self, renewals: Sequence[str]) -> None:
        body = "\n".join(renewals).encode()
        if len(body) > _BYTES - _HEADER.size:
            raise ValueError(f"{len(body)} bytes of leases are more than the table holds")
        self._memory[_HEADER.size : _HEADER.size + len(body)] = body
        self._memory[: _HEADER.size] = _HEADER.pack(zlib.crc32(body), len(body))

    def read(self) -> list[str] | None:
        """None while it is being written."""
        checksum, length = _HEADER.unpack(self._memory[: _HEADER.size])
        body = self._memory[_HEADER.size : _HEADER.size + min(length, _BYTES)]
        if zlib.crc32(body) != checksum:
            return None
        return body.decode().split("\n") if body else []

    def close(self) -> None:
        self._memory.close()
        os.close(self.handle)
