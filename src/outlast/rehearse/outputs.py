"""What a run has printed: the ends of its outputs."""

import os
from pathlib import Path

_MOST_BYTES = 1 << 16
_SHOWN = 12


def tail(file: Path) -> list[str]:
    """The last lines of an output, to be shown."""
    return [line.decode(errors="replace") for line in _last_lines(file)[-_SHOWN:]]


def last_line(file: Path) -> str:
    """The last line of an output that is not empty; "" if there is none."""
    lines = [line for line in _last_lines(file) if line.strip()]
    return lines[-1].decode(errors="replace").strip() if lines else ""


def _last_lines(file: Path) -> list[bytes]:
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _MOST_BYTES))
        return stream.read().splitlines()
