"""B07: a checkpoint that does not verify is passed over, named and kept; only a truly empty place is a first run."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs_in_process import data_of, files, resume, save_at

import outlast


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(content)


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES = (empty, cut, extend, flip, become_a_folder, become_a_pipe, Path.unlink)
Damage = Callable[[Path], None]


def flip_a_leaf(record: Path) -> None:
    """The padding of a data file is nobody's content, so a byte of the state is flipped."""
    data = data_of(record)
    content = data.read_bytes()
    place = content.index(b'"parts"')
    data.write_bytes(content[:place] + b"'" + content[place + 1 :])


def of_data(damage: Damage) -> Damage:
    return lambda record: flip_a_leaf(record) if damage is flip else damage(data_of(record))


ALL = {f"{damage.__name__} record": damage for damage in DAMAGES} | {
    f"{damage.__name__} data": of_data(damage) for damage in DAMAGES
}


@pytest.mark.parametrize("kind", ALL)
def test_the_one_before_is_used_and_the_bad_one_named_and_kept(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = save_at(tmp_path, (1, 2, 3))
    ALL[kind](records[-1])
    before = files(tmp_path)
    assert resume(tmp_path) == (2, 2)
    told = kind not in ("unlink record", "become_a_folder record")  # nothing tells that there was a checkpoint
    if told:
        assert f"{records[-1].name} is not used: " in capsys.readouterr().err
    save_at(tmp_path, (3, 4))
    after = files(tmp_path)
    assert not told or {name: after.get(name) for name in before} == before
    assert resume(tmp_path) == (4, 4)


@pytest.mark.parametrize("kind", ALL)
def test_when_all_are_bad_nothing_starts_and_nothing_changes(kind: str, tmp_path: Path) -> None:
    for record in save_at(tmp_path, (1, 2, 3)):
        ALL[kind](record)
    before = files(tmp_path)
    with pytest.raises((outlast.NoGoodCheckpoint, outlast.StoreUnreachable)) as caught:
        resume(tmp_path)
    assert caught.value.code == 78
    assert files(tmp_path) == before
    with pytest.raises((outlast.NoGoodCheckpoint, outlast.StoreUnreachable)):  # and the next attempt says it again
        resume(tmp_path)
    assert resume(tmp_path, resume="none") == (None, -1)


def test_a_storage_that_refuses_each_time_asks_for_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.stores.disk import LocalDisk

    save_at(tmp_path, (1, 2))
    real = LocalDisk.open_read

    def refusing(self: LocalDisk, path: str) -> int:
        if "/commits/" in path or "/data/" in path:
            raise PermissionError(13, "Permission denied", path)
        return real(self, path)

    monkeypatch.setattr(LocalDisk, "open_read", refusing)
    with pytest.raises(outlast.StoreUnreachable) as caught:
        resume(tmp_path)
    assert caught.value.code == 75


def test_one_that_cannot_be_read_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from outlast.stores.disk import LocalDisk

    bad = data_of(save_at(tmp_path, (1, 2))[-1])
    real = LocalDisk.open_read

    def refusing(self: LocalDisk, path: str) -> int:
        if path == str(bad):
            raise OSError(5, "Input/output error", path)
        return real(self, path)

    monkeypatch.setattr(LocalDisk, "open_read", refusing)
    assert resume(tmp_path) == (1, 1)


def test_an_empty_folder_is_a_first_run(tmp_path: Path) -> None:
    assert resume(tmp_path / "new") == (None, -1)
    (tmp_path / "there").mkdir()
    assert resume(tmp_path / "there") == (None, -1)


def test_a_damaged_claim_does_not_hide_the_checkpoints(tmp_path: Path) -> None:
    save_at(tmp_path, (1, 2))
    empty(next((tmp_path / "j/run-1/task-0/attempts").glob("*.json")))
    assert resume(tmp_path) == (2, 2)
