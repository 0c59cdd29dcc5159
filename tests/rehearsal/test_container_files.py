"""Isolated containers: what they write, and what is said of one that could not start, or ended at once."""

import os
import sys
from pathlib import Path

import pytest

from outlast.containers import container as module
from outlast.containers.container import Container, Mount, View

SCRIPT = """
import os, pathlib
for place in (sys.argv[1] + "/mount/kept", sys.argv[1] + "/lost", "/outlast-lost", "/no/such/place/kept"):
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
    assert not Path("/no").exists()


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
