"""What is asked of the machine: peak memory, files on disk, and whether the page cache holds them."""

import ctypes
import mmap
import os
from pathlib import Path

_PAGE = mmap.PAGESIZE
_RESET_PEAK = "5"  # proc(5): /proc/PID/clear_refs, since Linux 4.0


class PeakMemory:
    """The memory that a process and its children came to need beyond what was in use when this was made."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        self._before = _status("self")["VmRSS"]

    def extra_bytes(self) -> int:
        """Children count with their own pages only: what they share with this process is in its figure."""
        own = _status("self")["VmHWM"] - self._before
        return own + sum(_own_peak(child) for child in _children())


def _own_peak(process: str) -> int:
    try:
        status = _status(process)
    except (FileNotFoundError, ProcessLookupError, KeyError):  # it ended
        return 0
    return max(status["VmHWM"] - status["RssShmem"] - status["RssFile"], 0)


def _status(process: str) -> dict[str, int]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in sizes}


def _children() -> list[str]:
    return [child for thread in Path("/proc/self/task").iterdir() for child in _read_words(thread / "children")]


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except FileNotFoundError:  # the thread ended, or the kernel lists no children
        return []


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]


def disk_bytes(folder: Path) -> int:
    """Bytes that the files take up on the disk."""
    return sum(path.stat().st_blocks * 512 for path in files_in(folder))


def sync_tree(folder: Path) -> None:
    """Makes files durable whose writer did not."""
    for path in [*files_in(folder), *([folder] if folder.is_dir() else [])]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def drop_cache(folder: Path) -> float:
    """Takes the files out of the page cache; returns the share of them that stayed there."""
    kept = total = 0
    for path in files_in(folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # only clean pages can be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(handle).st_size
            kept, total = kept + _resident_pages(handle, size), total + -(-size // _PAGE)
        finally:
            os.close(handle)
    return kept / total if total else 0.0


def warm_cache(folder: Path) -> None:
    """Reads the files, so that the page cache holds them."""
    buffer = bytearray(8 << 20)
    for path in files_in(folder):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _resident_pages(handle: int, size: int) -> int:
    if size == 0:
        return 0
    pages = -(-size // _PAGE)
    flags = (ctypes.c_ubyte * pages)()
    # Writable and private only because ctypes takes an address of nothing less; nothing is written.
    with mmap.mmap(handle, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        first = ctypes.c_ubyte.from_buffer(mapped)
        status = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), flags)
        del first
    return sum(flag & 1 for flag in flags) if status == 0 else 0
