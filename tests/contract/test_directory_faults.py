"""A disk that takes little at a time, takes nothing, or does not give back: the directory store's answers."""

import errno
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from one_attempt import Life, QuickDisk, blob_of
from outlast.errors import NoGoodCheckpoint, StoreUnreachable
from outlast.stores.directory import DirectoryStore

SRC = Path(__file__).parents[2] / "src"


class SmallDisk(QuickDisk):
    """Moves at most so many bytes per call, as the kernel may."""

    def __init__(self, most: int) -> None:
        self._most = most

    def write(self, handle: int, data: memoryview) -> int:
        return super().write(handle, data[: self._most])

    def read_at(self, handle: int, target: memoryview, offset: int) -> int:
        return super().read_at(handle, target[: self._most], offset)


class UnreadableDisk(QuickDisk):
    """Fails to open what `bad` says."""

    def __init__(self, bad: Callable[[str], bool], error: int) -> None:
        self._bad, self._error = bad, error

    def open_read(self, path: str) -> int:
        if self._bad(path):
            raise OSError(self._error, os.strerror(self._error), path)
        return super().open_read(path)


class FullDisk(QuickDisk):
    """Takes a few bytes, then none."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, handle: int, data: memoryview) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        moved = super().write(handle, data[: self.room])
        self.room -= moved
        return moved


@pytest.mark.parametrize("most", [7, 1 << 20])
def test_short_writes_and_reads_lose_nothing(most: int, tmp_path: Path) -> None:
    size = 20_000 if most == 7 else 3 << 20
    Life(tmp_path / "store", SmallDisk(most), blob_bytes=size).save(5)
    later = Life(tmp_path / "store", SmallDisk(most), blob_bytes=size)
    assert later.resumed_from == 5
    assert later.blob == blob_of(5, size)


@pytest.mark.slow
def test_more_than_one_write_call_can_move_is_written_whole(tmp_path: Path) -> None:
    """Linux moves 0x7ffff000 bytes at most; zeros in memory that nothing has touched cost none."""
    size = 0x7FFFF000 + 5000
    folder = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    if shutil.disk_usage(folder).free < 3 * size:
        folder = tmp_path
    path = folder / f"outlast-large-{os.getpid()}"
    try:
        with mmap.mmap(-1, size) as zeros:
            zeros[-1:] = b"x"
            written = DirectoryStore(str(path), disk=QuickDisk()).write("data/large", [b"head", memoryview(zeros)])
        assert written == size + 4
        assert (path / "data" / "large").stat().st_size == size + 4
        with (path / "data" / "large").open("rb") as file:
            file.seek(-2, os.SEEK_END)
            assert file.read() == b"\0x"
    finally:
        shutil.rmtree(path, ignore_errors=True)


def test_a_disk_that_takes_no_byte_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path), disk=SmallDisk(0))
    with pytest.raises(StoreUnreachable, match="takes no more bytes"):
        store.write("data/new", [b"content"])
    with pytest.raises(StoreUnreachable, match="takes no more bytes"):
        store.create("record", b"content")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("room", [0, 1000, 8000, 13_500])
def test_a_full_disk_keeps_the_last_good_one_and_no_part_of_the_new(room: int, tmp_path: Path) -> None:
    disk = FullDisk(1 << 30)
    life = Life(tmp_path, disk)
    life.save(1)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    disk.room = room
    with pytest.raises(StoreUnreachable, match="No space left"):
        life.save(2)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    disk.room = 1 << 30
    life.save(3)
    assert Life(tmp_path).resumed_from == 3


# --- reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("kind", ["commits", "data"])
def test_the_newest_that_cannot_be_read_is_named_and_the_one_before_is_used(
    kind: str, error: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    life = Life(tmp_path)
    life.save(1)
    life.save(2)
    before = sorted(tmp_path.rglob("*"))
    later = Life(tmp_path, UnreadableDisk(lambda path: f"/{kind}/s000000000002-" in path, error))
    assert later.resumed_from == 1
    assert later.blob == blob_of(1)
    assert f"{kind}/s000000000002-" in capsys.readouterr().err
    assert set(before) <= set(tmp_path.rglob("*"))
    assert Life(tmp_path).resumed_from == 2  # readable again, it is the newest


@pytest.mark.parametrize("kind", ["commits", "data"])
def test_when_none_can_be_read_it_asks_for_a_retry_and_not_for_a_human(kind: str, tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.save(1)
    life.save(2)
    with pytest.raises(StoreUnreachable, match="none of the 2 checkpoints"):
        Life(tmp_path, UnreadableDisk(lambda path: f"/{kind}/" in path, errno.EIO))


def test_when_all_are_damaged_it_asks_for_a_human(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.save(1)
    life.save(2)
    for path in (tmp_path / life.place.data).iterdir():
        os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(NoGoodCheckpoint, match="none verifies"):
        Life(tmp_path)


def test_a_journal_that_cannot_be_read_is_no_reason_not_to_start(tmp_path: Path) -> None:
    Life(tmp_path).save(1)
    assert Life(tmp_path, UnreadableDisk(lambda path: "/journal/" in path, errno.EIO)).resumed_from == 1


def test_the_data_of_a_damaged_record_is_not_taken_for_debris(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.save(1)
    life.save(2)
    record = tmp_path / life.place.commit(life.last)
    good = record.read_bytes()
    record.write_bytes(good.replace(b'"step":2', b'"step":3'))
    later = Life(tmp_path)
    assert later.resumed_from == 1
    for step in (2, 3, 4):
        later.save(step)
    record.write_bytes(good)  # a human mends it
    assert Life(tmp_path).resumed_from == 4
    assert {entry.name for entry in life.store.list(life.place.data) if "s000000000002-a000000" in entry.name}


# --- debris -------------------------------------------------------------------------------------------


def test_old_debris_of_killed_saves_is_swept_and_that_of_a_live_writer_is_not(tmp_path: Path) -> None:
    """X02: debris of hours ago belongs to nobody; what is minutes old may be a record on its way."""
    life = Life(tmp_path)
    life.save(1)
    commits = tmp_path / life.place.commits
    names = {f".tmp-1-{age}": age for age in (0, 1800, 7200, 86_400)}
    now = time.time()
    for name, age in names.items():
        (commits / name).write_bytes(b"half a rec")
        os.utime(commits / name, (now - age, now - age))
    Life(tmp_path).save(2)
    assert {path.name for path in commits.glob(".tmp-*")} == {".tmp-1-0", ".tmp-1-1800"}


# --- a folder that takes nothing ------------------------------------------------------------------------

JOB = """
import sys, outlast
job = outlast.Job(sys.argv[1], state={"n": 0})
for step in job.steps(3):
    print("a step was done", flush=True)
"""


NO_BYTES = ("sh", "-c", 'ulimit -f 0; exec "$0" "$@"')  # no file may have a byte


def run_job(folder: Path, *, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*prefix, sys.executable, "-c", JOB, str(folder)],
        env={**os.environ, "PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def can_mount_read_only(folder: Path) -> bool:
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", 'mount --bind -o ro "$0" "$0"', str(folder)],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def test_a_read_only_folder_ends_in_75_with_one_clear_line(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    if can_mount_read_only(folder):
        script = 'mount --bind -o ro "$0" "$0" && exec "$@"'
        done = run_job(folder, prefix=("unshare", "--mount", "sh", "-c", script, str(folder)))
        why = "Read-only file system"
    else:  # without the rights to mount: no file may grow
        done = run_job(folder, prefix=NO_BYTES)
        why = "File too large"
    assert done.returncode == 75, done.stderr
    assert "a step was done" not in done.stdout
    assert f"outlast: error: cannot write outlast-store.json in {folder}: {why}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("folder", ["", "run-1", "run-1/task-0", "run-1/task-0/attempts", "run-1/task-0/data"])
def test_a_folder_that_is_a_link_ends_in_78_with_one_clear_line(folder: str, tmp_path: Path) -> None:
    store, outside = tmp_path / "store", tmp_path / "outside"
    assert run_job(store).returncode == 0
    [job] = (path for path in store.iterdir() if path.is_dir())
    (job / folder).rename(outside)
    (job / folder).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    done = run_job(store)
    assert done.returncode == 78, done.stderr
    assert f"{job / folder} is a link" in done.stderr
    assert "Traceback" not in done.stderr
    assert "a step was done" not in done.stdout
    assert sorted(outside.rglob("*")) == before


def test_looking_at_a_store_whose_folder_is_a_link_tells_so_in_one_line(tmp_path: Path) -> None:
    life = Life(tmp_path / "store")
    life.save(1)
    (tmp_path / "store" / life.place.commits).rename(tmp_path / "outside")
    (tmp_path / "store" / life.place.commits).symlink_to(tmp_path / "outside")
    for command in ("list", "verify"):
        code = "from outlast.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "checkpoints", command, str(tmp_path / "store")],
            env={**os.environ, "PYTHONPATH": str(SRC)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "commits is a link" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_limit_on_file_size_ends_in_75_and_not_in_a_signal(tmp_path: Path) -> None:
    done = run_job(tmp_path, prefix=NO_BYTES)
    assert done.returncode == 75, done.stderr
    assert "File too large" in done.stderr
