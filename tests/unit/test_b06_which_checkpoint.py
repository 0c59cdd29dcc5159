"""B06: the newest progress is resumed and the oldest retired, whatever file times and strays say."""

import os
import shutil
from pathlib import Path

import pytest
from jobs_in_process import commit, resume, save_at

STEPS = (9, 10, 100, 99_999, 1_000_000)
STRAYS = ("best", "step-abc", ".tmp-7", "step-20 (copy)", "s2000000.json", "s000002000000-a000000-q000001 (copy).json")


def scramble_times(folder: Path) -> None:
    for age, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, (10**9 - age, 10**9 - age))


def add_strays(folder: Path, source: Path) -> list[Path]:
    made = []
    for parent in (folder, folder / "j", folder / "j/run-1", folder / "j/run-1/task-0", source.parent):
        for name in STRAYS:
            stray = parent / name
            if name.endswith("json"):
                shutil.copy(source, stray)
            else:
                stray.mkdir()
                shutil.copy(source, stray / "model.json")
            made.append(stray)
    return made


def test_the_highest_whole_step_is_resumed(tmp_path: Path) -> None:
    save_at(tmp_path, STEPS)
    scramble_times(tmp_path)
    assert resume(tmp_path) == (1_000_000, 1_000_000)


@pytest.mark.parametrize("order", [STEPS, (10, 9, 1_000_000, 100, 99_999)])
def test_the_highest_step_wins_though_it_was_not_the_last_one_written(order: tuple[int, ...], tmp_path: Path) -> None:
    save_at(tmp_path, order)
    assert resume(tmp_path) == (1_000_000, 1_000_000)


def test_strays_are_never_chosen_and_never_deleted(tmp_path: Path) -> None:
    records = save_at(tmp_path, STEPS)
    strays = add_strays(tmp_path, records[0])
    scramble_times(tmp_path)
    assert resume(tmp_path) == (1_000_000, 1_000_000)
    save_at(tmp_path, (1_000_001, 1_000_002), keep=1)
    assert all(stray.exists() for stray in strays)
    assert resume(tmp_path) == (1_000_002, 1_000_002)


def test_retirement_goes_by_steps(tmp_path: Path) -> None:
    records = save_at(tmp_path, STEPS)
    scramble_times(tmp_path)
    save_at(tmp_path, (1_000_001,), keep=2)
    assert [record.exists() for record in records] == [False, False, False, False, True]
    assert commit(tmp_path, 1_000_001).exists()


def test_a_run_of_a_higher_number_is_newer_however_it_is_written(tmp_path: Path) -> None:
    for step in range(1, 12):
        save_at(tmp_path, (step,), resume="none")
    scramble_times(tmp_path)
    assert (tmp_path / "j/run-11").is_dir()
    assert resume(tmp_path) == (11, 11)


def test_steps_of_any_size_keep_their_order(tmp_path: Path) -> None:
    steps = (10**12 - 1, 10**12, 10**13)
    save_at(tmp_path, steps)
    assert resume(tmp_path) == (10**13, 10**13)
