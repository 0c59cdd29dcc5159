"""Which machine and process this is, so that another process can tell whether it still lives.

Only Linux says so much; elsewhere the texts are empty, the numbers 0, and nobody can tell.
"""

import os
import time
from hashlib import sha256
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = "/proc/self/ns/pid"


def boot_name() -> str:
    """Names one boot of one machine, for all its containers; "" where it cannot be known.

    Two processes with one such name share the monotonic clock.
    """
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def machine_name() -> str:
    """A short name for one boot of one machine and one space of process ids; "" where it cannot be known.

    Two processes with one such name share the monotonic clock, and can look for each other by process id.
    """
    try:
        said = _BOOT.read_text().strip() + os.readlink(_PROCESSES)  # noqa: PTH115 - a link to no path
    except OSError:
        return ""
    return sha256(said.encode()).hexdigest()[:16]


def process_birth(pid: int) -> int:
    """When a process began, in clock ticks since the boot (proc(5), field 22 of stat); 0 where it cannot be known."""
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes()
        # The second field is the program's name in brackets, which may hold anything.
        rest = said[said.rindex(b")") + 2 :].split()
        return 0 if rest[0] in (b"Z", b"X") else int(rest[19])
    except (OSError, ValueError, IndexError):
        return 0


def lived_seconds(birth: int) -> float:
    """How long ago that was; 0 where it cannot be known. The clock ticks here stand still for no sleep."""
    if not birth:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - birth / os.sysconf("SC_CLK_TCK"))


def is_alive(*, machine: str, pid: int, birth: int) -> bool | None:
    """Whether a process still runs; None where it cannot be known from here."""
    if not machine or not birth or machine != machine_name():
        return None
    return process_birth(pid) == birth
