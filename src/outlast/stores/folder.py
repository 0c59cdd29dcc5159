"""A folder's store: the one for local disks, or the one for buckets that are mounted as folders."""

from outlast.mounts import file_system_of
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


def open_folder(path: str) -> Store:
    """The store for a folder, by the file system of the nearest folder that is there."""
    return MountStore(path) if path and file_system_of(path) in _BUCKETS else DirectoryStore(path)
