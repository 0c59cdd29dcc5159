"""What mounted buckets do to a store: deaths in mid-write, names that are taken by wrecks, mounts that go away."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.errors import CheckpointCorrupt, ObjectExists, ObjectMissing, SettingsError, StoreUnreachable
from outlast.mounts import file_system_of
from outlast.ports import Store
from outlast.registry import open_store
from outlast.stores.mount import MountStore
from service import servers

SRC = Path(__file__).parents[2] / "src"
MOUNTS: dict[str, Callable[[], Path]] = {"rclone": servers.rclone_mount, "s3fs": servers.s3fs_mount}


@pytest.fixture(params=sorted(MOUNTS))
def folder(request: pytest.FixtureRequest) -> str:
    """A new folder on a mounted bucket."""
    return servers.fresh_folder(MOUNTS[request.param]())


@pytest.fixture
def store(folder: str) -> Store:
    return open_store(folder)


def test_a_folder_on_a_mounted_bucket_is_known_for_one(folder: str, tmp_path: Path) -> None:
    assert isinstance(open_store(folder), MountStore)
    assert not isinstance(open_store(str(tmp_path / "new")), MountStore)


_WRITER = """
import sys, time
from outlast.registry import open_store
told = []
def pace(size):
    told.append(size)
    if len(told) == 3:
        print("two pieces", flush=True)
        time.sleep(60)
open_store(sys.argv[1]).write("data/large", [bytes(4 << 20)] * 4, pace=pace)
"""


def kill_a_writer(folder: str) -> None:
    """Half of a large object is written by a process that dies of SIGKILL."""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    with subprocess.Popen([sys.executable, "-c", _WRITER, folder], env=env, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"two pieces\n"
        writer.send_signal(signal.SIGKILL)


def test_what_a_killed_writer_leaves_has_its_real_size_and_never_reads_as_whole(folder: str) -> None:
    store = open_store(folder)
    kill_a_writer(folder)
    until = time.monotonic() + 10
    while not (found := store.list("data")) and time.monotonic() < until:
        time.sleep(0.1)  # the mount uploads what it has
    [entry] = found
    with store.open("data/large") as opened:
        assert opened.bytes == entry.bytes == 8 << 20
        with pytest.raises(CheckpointCorrupt):
            opened.read_into(0, memoryview(bytearray(16 << 20)))
    store.delete("data/large")
    assert store.list("") == []


class GivenUp(Exception):
    pass


def test_a_write_that_is_given_up_in_the_middle_leaves_nothing(store: Store) -> None:
    told: list[int] = []

    def pace(size: int) -> None:
        told.append(size)
        if len(told) == 3:
            raise GivenUp

    with pytest.raises(GivenUp):
        store.write("data/large", [bytes(4 << 20)] * 4, pace=pace)
    assert store.list("") == []
    with pytest.raises(ObjectMissing):
        store.read("data/large")


def test_a_name_taken_by_a_wreck_stays_taken_and_the_wreck_stays(folder: str) -> None:
    store = open_store(folder)
    store.create("claims/0", b"whole")
    Path(folder, "claims", "1").write_bytes(b"")  # as a death between making the name and the one write leaves it
    with pytest.raises(ObjectExists):
        store.create("claims/1", b"mine")
    assert store.read("claims/1") == b""


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    store = MountStore(str(tmp_path / "store"))
    store.create("a/b", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"2")
    (tmp_path / "store" / "led").symlink_to(tmp_path / "outside")
    (tmp_path / "store" / "file").symlink_to(tmp_path / "outside" / "secret")
    with pytest.raises(CheckpointCorrupt):
        store.read("led/secret")
    with pytest.raises(CheckpointCorrupt):
        store.read("file")
    with pytest.raises(CheckpointCorrupt):
        store.write("led/new", [b"1"])


def test_a_mount_that_is_gone_gets_nothing_written_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MountStore(str(tmp_path))
    store.create("a", b"1")
    monkeypatch.setattr(store, "_device", -1)  # as if the folder were now on the machine's own disk
    for use in (
        lambda: store.create("b", b"1"),
        lambda: store.write("b", [b"1"]),
        lambda: store.append("b", b"1"),
        lambda: store.create("deep/b", b"1"),
        lambda: store.write("deep/er/b", [b"1"]),
    ):
        with pytest.raises(StoreUnreachable, match="not mounted"):
            use()
    assert [entry.name for entry in store.list("")] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "a folder there would keep the bucket from coming back"


def test_an_error_at_close_is_a_write_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, close = MountStore(str(tmp_path)), os.close

    def failing(handle: int) -> None:
        close(handle)
        raise OSError(5, "upload failed")

    monkeypatch.setattr("outlast.stores.mount.os.close", failing)
    for use in (lambda: store.create("b", b"1"), lambda: store.write("b", [b"1"]), lambda: store.append("b", b"1")):
        with pytest.raises(StoreUnreachable, match="upload failed"):
            use()
    monkeypatch.undo()
    assert store.list("") == []


def test_a_mount_that_may_not_be_written_is_a_wrong_setting_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    store = MountStore(str(tmp_path))
    monkeypatch.setattr("outlast.stores.mount._create_file", refuse)
    with pytest.raises(SettingsError, match="Permission denied"):
        store.create("a", b"1")
    monkeypatch.undo()
    store.create("a", b"1")
    monkeypatch.setattr("outlast.stores.mount._create_file", refuse)
    with pytest.raises(StoreUnreachable):
        store.create("b", b"1")


_MOUNTINFO = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:40 / /mnt/bucket rw,nosuid shared:9 - fuse.gcsfuse bucket rw,user_id=0
41 22 0:41 / /mnt/with\\040blank rw - fuse mountpoint-s3 rw
42 22 0:42 / /mnt/remote rw - fuse.sshfs host:/data rw
43 40 8:1 /x /mnt/bucket/local rw - ext4 /dev/sda1 rw
44 22 0:44 / /mnt/covered rw - fuse.rclone r: rw
45 22 8:1 /y /mnt/covered rw - ext4 /dev/sda1 rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/mnt/bucket/run/new", "fuse.gcsfuse"),
        ("/mnt/bucketful", "ext4"),
        ("/mnt/with blank/x", "fuse"),
        ("/mnt/remote/x", "fuse.sshfs"),
        ("/mnt/bucket/local/x", "ext4"),
        ("/mnt/covered/x", "ext4"),
        ("/", "ext4"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_text(_MOUNTINFO)
    monkeypatch.setattr("outlast.mounts.os.path.exists", lambda _path: True)
    assert file_system_of(path, str(listed)) == kind


def test_a_system_without_a_table_of_mounts_has_plain_folders(tmp_path: Path) -> None:
    assert file_system_of(str(tmp_path), str(tmp_path / "missing")) is None
