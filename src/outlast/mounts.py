"""What kind of file system a path is on; some promise less than a disk does.

Only Linux says so; elsewhere nobody can tell.
"""

import os
import re

_MOUNTS = "/proc/self/mountinfo"


def file_system_of(path: str, mounts: str = _MOUNTS) -> str | None:
    """The type of the file system that a path is or would be on; None where the system does not tell."""
    nearest = os.path.realpath(os.path.expanduser(path))
    while not os.path.exists(nearest) and not os.path.ismount(nearest):
        nearest = os.path.dirname(nearest)
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as listed:
            lines = listed.read().splitlines()
    except OSError:  # no Linux
        return None
    best, found = -1, None
    for line in lines:
        point, kind = _point_and_type(line)
        inside = nearest == point or nearest.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # of two at one point the later one covers the earlier
            best, found = len(point), kind
    return found


def _point_and_type(line: str) -> tuple[str, str]:
    """Of `36 35 98:0 /root /point rw,noatime shared:1 - type source options` (proc(5)); blanks are octal there."""
    before, _, after = line.partition(" - ")
    point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split(" ")[4])
    return point, after.split(" ")[0]
