"""Isolated containers: what they write, and what is said of one that could not start, or ended at once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast.containers import container as module
from outlast.containers.container import Container, Mount, View

SCRIPT = """
import os, pathlib, pty
assert pty.openpty()
lost = (sys.argv[1] + "/lost", "/outlast-lost", "/dev/outlast-lost")
for place in (*lost, sys.argv[1] + "/mount/kept", "/no/such/place/kept"):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    pathlib.Path(place).write_text("written")
"""


def _run(command: list[str], folder: Path, view: View) -> tuple[int, str | None]:
    with (
        (folder / "log").open("wb") as log,
        Container(
            command, folder=folder, environment=dict(os.environ), stdout=log, stderr=log, isolated=True, view=view
        ) as container,
    ):
        assert container.wait(30)[0]
        return container.finish(), container.start_error


def _view(folder: Path) -> View:
    for name in ("root", "mount", "elsewhere"):
        (folder / name).mkdir()
    mounts = (Mount(folder / "mount", folder / "mount"), Mount(folder / "elsewhere", Path("/no/such/place")))
    return View(folder / "root", mounts, private=True)


def test_only_what_is_written_to_a_mount_outlives_a_private_container(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys" + SCRIPT, str(tmp_path)]
    assert _run(command, tmp_path, _view(tmp_path)) == (0, None), (tmp_path / "log").read_text()
    assert (tmp_path / "mount" / "kept").read_text() == "written"
    assert (tmp_path / "elsewhere" / "kept").read_text() == "written"
    assert not (tmp_path / "lost").exists()
    assert not Path("/outlast-lost").exists()
    assert not Path("/dev/outlast-lost").exists()
    assert not Path("/no").exists()


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder under two overlays, which no third one can cover."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    made = tmp_path / "deep"
    (tmp_path / "layers").mkdir()
    mounted = [tmp_path / "layers"]
    subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted[0])], check=True)
    for number in range(2):
        folders = [tmp_path / "layers" / f"{name}{number}" for name in ("upper", "work", "merged")]
        for folder in folders:
            folder.mkdir()
        lower = tmp_path / "mount" if number == 0 else mounted[-1]
        lower.mkdir(exist_ok=True)
        made = folders[2]
        options = f"lowerdir={lower},upperdir={folders[0]},workdir={folders[1]}"
        subprocess.run(["mount", "-t", "overlay", "none", "-o", options, str(made)], check=True)
        mounted.append(made)
    yield made
    for folder in reversed(mounted):
        subprocess.run(["umount", str(folder)], check=True)


def test_where_writes_cannot_be_kept_apart_there_are_none(tmp_path: Path, deep: Path) -> None:
    (tmp_path / "root").mkdir()
    (deep / "known").touch()
    command = ["sh", "-c", f"cat {deep}/known && touch {deep}/new && exit 7; exit 8"]
    assert _run(command, tmp_path, View(tmp_path / "root", (), private=True)) == (8, None)
    assert not (deep / "new").exists()
    assert "Read-only file system" in (tmp_path / "log").read_text()


@pytest.fixture
def dead_mounts(tmp_path: Path) -> Iterator[list[Path]]:
    """Two FUSE mounts whose server has ended, as a crashed sshfs or gcsfuse leaves them."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folders = [tmp_path / "dead", Path(f"/outlast-dead-{os.getpid()}")]
    for folder in folders:
        folder.mkdir()
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
        command = ["mount", "-i", "-t", "fuse", "-o", options, "none", str(folder)]
        subprocess.run(command, check=True, pass_fds=(device,))
        os.close(device)
    yield folders
    for folder in folders:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@pytest.mark.parametrize("private", [True, False])
def test_a_dead_mount_of_this_machine_keeps_no_container_from_starting(
    tmp_path: Path, dead_mounts: list[Path], private: bool
) -> None:
    with pytest.raises(OSError, match="not connected"):
        dead_mounts[0].stat()
    view = replace(_view(tmp_path), private=private)
    command = ["sh", "-c", f"echo there > {tmp_path}/mount/file && ls {tmp_path} {dead_mounts[1]}; exit 5"]
    assert _run(command, tmp_path, view) == (5, None), (tmp_path / "log").read_text()
    assert (tmp_path / "mount" / "file").read_text() == "there\n"


def test_a_mount_below_a_link_is_where_the_link_leads_inside_of_the_container(tmp_path: Path) -> None:
    view = _view(tmp_path)
    for name, target in (("absolute", str(tmp_path / "aim")), ("relative", "aim/deeper"), ("up", "aim/../aim")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "aim").mkdir()
    mounts = tuple(Mount(tmp_path / "mount", tmp_path / name / "at") for name in ("absolute", "relative", "up"))
    (tmp_path / "mount" / "file").touch()
    code, _ = _run(["ls", *(str(mount.target / "file") for mount in mounts)], tmp_path, View(view.root, mounts))
    assert code == 0, (tmp_path / "log").read_text()
    assert list((tmp_path / "aim").iterdir()) == []


def test_a_command_that_cannot_start_is_told_from_one_that_ends_with_the_same_code(tmp_path: Path) -> None:
    view = _view(tmp_path)
    assert _run(["sh", "-c", "exit 127"], tmp_path, view) == (127, None)
    code, why = _run(["no-such-command"], tmp_path, view)
    assert code == 127
    assert why == "no-such-command: command not found"


def test_one_that_has_ended_before_anybody_looked_keeps_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "open_pidfd", lambda pid: None)  # it is gone already; its launcher is about to go
    with (tmp_path / "log").open("wb") as log:
        ended = Container(
            ["sh", "-c", "sleep 0.2; exit 78"],
            folder=tmp_path,
            environment=dict(os.environ),
            stdout=log,
            stderr=log,
            isolated=True,
        )
    with ended:
        assert ended.wait(0) == (True, set())
        ended.kill()
        assert ended.finish() == 78
