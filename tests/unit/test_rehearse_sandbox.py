"""A copy holds what the program works with, and nothing that leads back to the original."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.pages.document import whole_page
from outlast.rehearse.sandbox import make_copy, plan_copy


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def copied(source: Path, target: Path) -> set[str]:
    make_copy(plan_copy(source), target)
    return {path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def test_repositories_environments_stores_and_reports_stay_out(source: Path, tmp_path: Path) -> None:
    write(source, "job.py", "src/model.py", ".git/config", "env/pyvenv.cfg", "env/bin/python")
    write(source, "__pycache__/job.pyc", "runs/outlast-store.json", "runs/a/b", "outlast-checkpoints/x")
    write(source, "outlast-report.html", "outlast-report/index.html", "deep/venv/pyvenv.cfg", ".outlast-rehearsal/x")
    write(source, "page.html")
    (source / "proof.html").write_text(whole_page("rehearsal", "survived"))
    assert copied(source, tmp_path / "copy") == {"job.py", "src/model.py", "page.html"}


def test_ignore_files_decide_from_the_deepest_up(source: Path, tmp_path: Path) -> None:
    write(source, "a.log", "data/big.bin", "data/small.csv", "sub/a.log", "sub/keep.log", "other/data/x")
    (source / ".gitignore").write_text("*.log\n/data/*\n!/data/small.csv\n")
    (source / "sub" / ".gitignore").write_text("!keep.log\n")
    (source / ".outlastignore").write_text("other/\n")
    names = copied(source, tmp_path / "copy")
    assert names == {".gitignore", ".outlastignore", "data/small.csv", "sub/.gitignore", "sub/keep.log"}
    assert set(plan_copy(source).ignored) == {"a.log", "data/big.bin", "sub/a.log", "other/"}


def test_outlastignore_brings_back_what_git_leaves_out(source: Path, tmp_path: Path) -> None:
    write(source, "data/train.csv")
    (source / ".gitignore").write_text("data/\n")
    (source / ".outlastignore").write_text("!data/\n")
    assert "data/train.csv" in copied(source, tmp_path / "copy")


def test_a_copy_shares_no_file_with_the_original(source: Path, tmp_path: Path) -> None:
    write(source, "state.bin")
    (source / "state.bin").chmod(0o750)
    os.utime(source / "state.bin", (1, 2))
    copied(source, tmp_path / "copy")
    original, copy = (source / "state.bin").stat(), (tmp_path / "copy" / "state.bin").stat()
    assert (original.st_ino, original.st_dev) != (copy.st_ino, copy.st_dev)
    assert (copy.st_mode, copy.st_mtime) == (original.st_mode, 2)


def test_links_stay_links_inside_and_become_copies_outside(source: Path, tmp_path: Path) -> None:
    write(source, "real/file")
    write(tmp_path, "outside/shared", "outside/tree/leaf")
    (source / "inside").symlink_to("real/file")
    (source / "absolute").symlink_to(source / "real" / "file")
    (source / "file-outside").symlink_to(tmp_path / "outside" / "shared")
    (source / "tree-outside").symlink_to(tmp_path / "outside" / "tree")
    (source / "dangling").symlink_to("nowhere")
    (source / "real" / "loop").symlink_to(source)
    target = tmp_path / "copy"
    copied(source, target)
    assert (target / "inside").readlink() == Path("real/file")
    assert (target / "absolute").readlink() == Path("real/file")
    assert (target / "real" / "loop").resolve() == target
    assert (target / "dangling").is_symlink()
    assert not (target / "file-outside").is_symlink()
    (target / "tree-outside" / "leaf").write_text("changed")
    assert (tmp_path / "outside" / "tree" / "leaf").read_text() == "outside/tree/leaf"


def test_sockets_and_fifos_are_passed_over(source: Path, tmp_path: Path) -> None:
    write(source, "job.py")
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(source / "socket"))
        assert copied(source, tmp_path / "copy") == {"job.py"}


def test_links_that_lead_in_a_circle_or_nowhere_stay_what_they_are(source: Path, tmp_path: Path) -> None:
    write(source, "job.py")
    for name, target in (("a", "b"), ("b", "a"), ("gone", "../gone"), ("here", ".")):
        (source / name).symlink_to(target)
    assert copied(source, tmp_path / "copy") == {"job.py", "a", "b", "gone"}
    assert (tmp_path / "copy" / "a").readlink() == Path("b")


def test_the_size_counts_what_is_copied_only(source: Path) -> None:
    write(source, "four", ".git/more")
    assert plan_copy(source).bytes == 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
@pytest.mark.parametrize("place", ["first", "below-init"])
@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 7", 7), ("sleep 9 & kill -9 $!; wait $!; exit 3", 3), ("exit 143", 143), ("kill -9 $$; sleep 9", None)],
)
def test_the_launcher_passes_exit_codes_on(command: str, code: int | None, place: str) -> None:
    from outlast.containers import launcher
    from outlast.containers.container import can_isolate

    if not can_isolate():
        pytest.skip("no PID namespaces here")
    how = {"status": 2, "below_init": place == "below-init"}
    words = [sys.executable, "-I", "-S", launcher.__file__, json.dumps(how), "sh", "-c", command]
    if code is None:  # PID 1 of a namespace cannot be killed from within it
        code, words[-1] = (137, command) if place == "below-init" else (0, command.replace("9 $$; sleep 9", "9 $$"))
    assert subprocess.run(words, stderr=subprocess.PIPE, check=False).returncode == code
