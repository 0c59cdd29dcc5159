"""A folder's store: the one for local disks, or the one for buckets that are mounted as folders."""

import os
import re

from outlast.ports import Store
from outlast.stores.directory import DirectoryStore
from outlast.stores.mount import MountStore

# Types in /proc/self/mountinfo behind which there is a bucket. Bare "fuse" is what mountpoint-s3, blobfuse2, goofys
# and gcsfuse in GKE and Cloud Run say; file systems with hard links and a working fsync name themselves (fuse.sshfs,
# fuse.juicefs, fuseblk), and for one that does not, the rules of mounts are only slower.
_BUCKETS = {
    "fuse",
    *(
        f"fuse.{program}"
        for program in (
            "gcsfuse", "rclone", "s3fs", "goofys", "mountpoint-s3", "mount-s3", "blobfuse", "blobfuse2", "geesefs",
            "ossfs", "ossfs2", "cosfs", "obsfs", "s3ql", "s3backer", "yas3fs", "riofs", "cunofs",
        )
    ),
}  # fmt: skip
_MOUNTS = "/proc/self/mountinfo"


def open_folder(path: str) -> Store:
    """The store for a folder, by the file system of the nearest folder that is there."""
    return MountStore(path) if path and file_system_of(path) in _BUCKETS else DirectoryStore(path)


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
