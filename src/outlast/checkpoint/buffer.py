"""Memory for an image, allocated and touched once, and the question whether there is enough of it."""

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from outlast.checkpoint.image import ImageLayout
from outlast.state.snapshot import Snapshot

_HUGE_PAGE = 2 << 20
_TOUCHED_AT_ONCE = 16 << 20  # some milliseconds; whoever waits for the end waits no longer
_MADV_POPULATE_WRITE = 23  # Linux 5.14; not in Python's mmap
_LEFT_FREE = 0.05  # of the machine's memory


Copy = Callable[[Snapshot, memoryview, ImageLayout], None]


class ImageBuffer:
    """A page-aligned buffer that is used again for each save; filling fresh memory is many times slower."""

    def __init__(self) -> None:
        self._memory: memoryview | None = None

    @property
    def bytes(self) -> int:
        """What it holds now; 0 before the first use."""
        return len(self._memory) if self._memory is not None else 0

    def reserve(self, size: int) -> None:
        """Makes room for an image of this size, untouched. Raises OSError or MemoryError when the machine refuses."""
        if size <= self.bytes:
            return
        self._memory = None  # the old one first, so that both are never there
        size += -size % _HUGE_PAGE
        # Private, and no business of a forked child: huge pages are to be had, and a fork need not copy the tables.
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
            with suppress(OSError, AttributeError):
                memory.madvise(getattr(mmap, advice))
        self._memory = memoryview(memory)

    def touch(self, wanted: Callable[[], bool]) -> None:
        """Has the machine give all of the memory now, as long as that is wanted; the program may go on meanwhile."""
        memory = self._memory
        for start in range(0, self.bytes, _TOUCHED_AT_ONCE):
            if not wanted():
                return
            assert memory is not None
            _touch(memory[start : start + _TOUCHED_AT_ONCE])

    def prepare(self, layout: ImageLayout, snapshot: Snapshot) -> None:
        """Makes room for such an image; once it is touched, the first copy takes no longer than the later ones."""
        self.reserve(layout.tree_at)
        assert self._memory is not None
        snapshot.prepare(self._memory, layout.offsets)

    def take(self, layout: ImageLayout, snapshot: Snapshot, copy: Copy | None = None) -> memoryview:
        """Copies a snapshot to its places, by `copy` if that is given; returns the image's memory up to the tree."""
        self.reserve(layout.tree_at)
        assert self._memory is not None
        if copy is None:
            snapshot.copy_into(self._memory, layout.offsets)
        else:
            copy(snapshot, self._memory, layout)
        return self._memory[: layout.tree_at]


def _touch(memory: memoryview) -> None:
    """Not by mmap.madvise, which holds the interpreter's lock meanwhile. What is there may be lost."""
    madvise = ctypes.CDLL(None).madvise
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if madvise(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), _MADV_POPULATE_WRITE) != 0:
        memory[:: mmap.PAGESIZE] = bytes(len(range(0, len(memory), mmap.PAGESIZE)))


# --- is there enough? -------------------------------------------------------------------------------

# Limit, usage and statistics, of cgroup v2 and of v1's memory controller.
_FILES = {
    "": ("memory.max", "memory.current", "memory.stat"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"),
}


def free_memory_bytes(root: Path = Path("/")) -> int | None:
    """What a large buffer may take, of the machine's memory and the container's; None where nobody can tell.

    Linux: MemAvailable of /proc/meminfo, and for the cgroup of this process and those above it the limit less the
    usage without file cache (Documentation/admin-guide/cgroup-v2.rst of the kernel); a twentieth stays free, and so
    does what this process once had and has not now: the next step will want it again.
    """
    figures = [left for left in (_machine_left(root), *_cgroups_left(root)) if left is not None]
    own = _figures(root / "proc/self/status")
    again = max(own.get("VmHWM", 0) - own.get("VmRSS", 0), 0) * 1024
    return min(figures) - again if figures else None


def _machine_left(root: Path) -> int | None:
    figures = _figures(root / "proc/meminfo")
    if "MemAvailable" not in figures:
        return None
    return int((figures["MemAvailable"] - _LEFT_FREE * figures.get("MemTotal", 0)) * 1024)


def _cgroups_left(root: Path) -> Iterator[int | None]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:  # "0::/path" of v2, "4:memory:/path" of v1
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in _FILES:
            continue
        mount = root / "sys/fs/cgroup" / kind
        folder = mount / path.lstrip("/")
        while folder.is_relative_to(mount):  # in a container the path may be the host's, and only the mount be there
            yield _cgroup_left(folder, *_FILES[kind])
            folder = folder.parent


def _cgroup_left(folder: Path, limit_file: str, usage_file: str, stat_file: str) -> int | None:
    try:
        limit = int((folder / limit_file).read_text())
        usage = int((folder / usage_file).read_text())
    except (OSError, ValueError):  # "max" means no limit
        return None
    stat = _figures(folder / stat_file)
    return int(limit * (1 - _LEFT_FREE)) - usage + stat.get("inactive_file", 0) + stat.get("active_file", 0)


def _figures(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", " ").split() for line in lines]
    return {row[0]: int(row[1]) for row in words if len(row) >= 2 and row[1].isdigit()}
