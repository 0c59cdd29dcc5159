"""B05: a folder that looks like a checkpoint and was never committed is not offered."""

from pathlib import Path

from jobs_in_process import commit, data_of, resume, save_at


def test_data_without_its_record_are_never_offered_and_later_cleaned_up(tmp_path: Path) -> None:
    record = save_at(tmp_path, (1, 2, 3))[-1]
    data = data_of(record)
    record.unlink()
    assert resume(tmp_path) == (2, 2)
    assert data.exists()
    save_at(tmp_path, (3,))
    assert not data.exists()
    assert resume(tmp_path) == (3, 3)


def test_a_folder_of_weights_copied_into_the_store_is_never_offered(tmp_path: Path) -> None:
    record = save_at(tmp_path, (1,))[0]
    for name in ("j/run-1/task-0/data/step-9", "j/run-1/task-0/commits/step-9", "j/run-1/task-0/step-9", "step-9"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(data_of(record).read_bytes())
    assert resume(tmp_path) == (1, 1)
    assert commit(tmp_path, 1) == record
