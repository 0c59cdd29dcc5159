"""Which checkpoint is taken and which are kept: by step and by content, never by file time, text order or luck."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from one_attempt import Life, blob_of
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import finish_of
from outlast.errors import NoGoodCheckpoint

STRAYS = ("best", "step-abc", ".tmp-7", "step-20 (copy)", "s000000000009-a000000-q000001.json.bak")


def test_b06_the_highest_step_wins_and_retention_goes_by_step(tmp_path: Path) -> None:
    life = Life(tmp_path, keep=Keep(last=5))
    steps = [9, 10, 100, 99_999, 1_000_000]
    for step in steps:
        life.save(step)
    for age, path in enumerate(sorted(tmp_path.rglob("s0*"))):
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    for folder in (life.place.commits, life.place.data):
        for name in STRAYS:
            (tmp_path / folder / name).mkdir()
            (tmp_path / folder / name / "file").write_bytes(b"")
    later = Life(tmp_path, keep=Keep(last=3))
    assert later.resumed_from == 1_000_000
    later.save(1_000_001)
    left = sorted(path.name[:13] for path in (tmp_path / life.place.commits).iterdir() if path.is_file())
    assert left == ["s000000099999", "s000001000000", "s000001000001"]
    for folder in (life.place.commits, life.place.data):
        for name in STRAYS:
            assert (tmp_path / folder / name / "file").is_file()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 2)  # a record ends in a line feed that says nothing


DAMAGES: dict[str, Callable[[Path], None]] = {
    "emptied": lambda path: os.truncate(path, 0),
    "cut": _cut,
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "flipped": _flip,
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "gone": Path.unlink,
}


def damage(root: Path, kind: str, step: int, how: str) -> Path:
    [path] = (root / "job" / "run-1" / "task-0" / kind).glob(f"s{step:012}-*")
    DAMAGES[how](path)
    return path


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", ["commits", "data"])
def test_b07_a_damaged_newest_is_named_kept_and_passed_over(
    kind: str, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    life = Life(tmp_path)
    for step in (1, 2, 3):
        life.save(step)
    path = damage(tmp_path, kind, 3, how)
    if (kind, how) == ("commits", "longer"):
        path.write_bytes(path.read_bytes() + b"x")  # white space behind it would do no harm
    later = Life(tmp_path)
    assert later.resumed_from == 2
    assert later.blob == blob_of(2)
    if (kind, how) != ("commits", "gone"):  # what is gone without a trace has no name
        assert f"{later.place.commits}/s000000000003-" in capsys.readouterr().err
    before = {path.name for path in tmp_path.rglob("s000000000003-a000000-*")}
    for step in (3, 4, 5):
        later.save(step)
    if (kind, how) != ("commits", "gone"):  # data that no record names is the debris of a save
        assert before == {path.name for path in tmp_path.rglob("s000000000003-a000000-*")}
    assert Life(tmp_path).resumed_from == 5


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", ["commits", "data"])
def test_b07_when_all_are_damaged_nothing_starts_and_nothing_changes(kind: str, how: str, tmp_path: Path) -> None:
    life = Life(tmp_path)
    for step in (1, 2, 3):
        life.save(step)
    for step in (2, 3):
        path = damage(tmp_path, kind, step, how)
        if (kind, how) == ("commits", "longer"):
            path.write_bytes(path.read_bytes() + b"x")
    folders = (tmp_path / life.place.commits, tmp_path / life.place.data)
    before = {path: path.read_bytes() for folder in folders for path in folder.iterdir()}
    for _ in range(3):  # a retry finds the same, and does not begin at zero
        with pytest.raises(NoGoodCheckpoint):
            Life(tmp_path)
    assert {path: path.read_bytes() for folder in folders for path in folder.iterdir()} == before


@pytest.mark.parametrize("how", ["emptied", "cut", "flipped", "zeroed"])
def test_a_damaged_finish_mark_is_still_a_finish_and_the_loop_decides_what_is_left(how: str, tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.save(3)
    life.attempt.finish(life.last, total=3)
    DAMAGES[how](tmp_path / life.place.mark(life.last))
    found = finish_of(life.store, life.place)
    assert found is not None
    assert found.commit == life.last
    assert found.total == 0
