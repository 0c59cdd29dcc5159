"""X01: the order of a save on the disk: data, then the record, then its name, each durable before the next."""

from pathlib import Path

import pytest
from power import Call, RecordingDisk

from one_attempt import Life
from outlast.checkpoint.record import load_record
from outlast.checkpoint.retain import Keep
from outlast.stores.blocks import LargeFiles

LARGE = LargeFiles(from_bytes=1, block_bytes=4096, run_bytes=4096, threads=2, allocate_from_bytes=8192)


class Order:
    """What can be said of the calls of a life."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls

    def last(self, kind: str, before: int, **fields: object) -> int:
        """The last such call before another; -1 for none."""
        found = [
            number
            for number, call in enumerate(self.calls[:before])
            if call.kind == kind and all(getattr(call, name) == value for name, value in fields.items())
        ]
        return found[-1] if found else -1

    def durable_before(self, path: str, moment: int) -> bool:
        """Whether a file's content was synced after its last write, and its folder after its name was made."""
        made = max(self.last("create", moment, path=path), self.last("link", moment, path=path))
        file = self.calls[made].file
        synced = self.last("sync", moment, file=file)
        named = self.last("sync_folder", moment, path=str(Path(path).parent))
        return made >= 0 and self.last("write", moment, file=file) < synced and made < named

    def folders_durable_before(self, path: str, root: Path, moment: int) -> bool:
        """Whether each folder on the way to a file was made durable in its parent."""
        for folder in Path(path).relative_to(root).parents:
            whole = root / folder
            made = self.last("mkdir", moment, path=str(whole))
            if made >= 0 and self.last("sync_folder", moment, path=str(whole.parent)) < made:
                return False
        return True


@pytest.mark.parametrize("large", [None, LARGE], ids=["small", "large"])
def test_x01_a_record_is_named_when_all_it_refers_to_is_durable(large: LargeFiles | None, quick_folder: Path) -> None:
    root = quick_folder / "store"
    disk = RecordingDisk()
    keeper: dict[str, list[str]] = {}
    link = disk.link

    def noting(source: str, target: str) -> None:
        link(source, target)
        if "/commits/" in target:
            record = load_record(life.store, str(Path(target).relative_to(root)))
            keeper[target] = [str(root / file.name) for file in record.files]

    life = Life(root, disk, keep=Keep(last=1), large=large, frozen_bytes=20_000)
    disk.link = noting  # type: ignore[method-assign]  # the record is gone soon after
    for step in range(1, 6):
        life.save(step)
        disk.mark(f"saved {step}")
    order = Order(disk.calls)
    assert len(keeper) == 5
    assert max(len(files) for files in keeper.values()) > 1, "saves refer to earlier files"
    for number, (record, files) in enumerate(keeper.items(), 1):
        named = order.last("link", len(disk.calls), path=record)
        for file in files:
            assert order.durable_before(file, named), (record, file)
            assert order.folders_durable_before(file, root, named), (record, file)
        content = disk.calls[named].file
        assert order.last("write", named, file=content) < order.last("sync", named, file=content), record
        returned = order.last("mark", len(disk.calls), path=f"saved {number}")
        assert named < order.last("sync_folder", returned, path=str(Path(record).parent)), record
        assert order.folders_durable_before(record, root, returned), record


def test_x01_nothing_is_deleted_before_the_newer_record_is_durable_and_a_record_goes_before_its_data(
    quick_folder: Path,
) -> None:
    root = quick_folder / "store"
    disk = RecordingDisk()
    life = Life(root, disk, keep=Keep(last=1), frozen_bytes=20_000)
    for step in range(1, 6):
        life.save(step)
    order = Order(disk.calls)
    deleted = [
        (number, call.path)
        for number, call in enumerate(disk.calls)
        if call.kind == "unlink" and "/.tmp-" not in call.path
    ]
    records = [one for one in deleted if "/commits/" in one[1]]
    data = [one for one in deleted if "/data/" in one[1]]
    assert len(records) == 4
    assert data
    for number, path in records:
        newest = max(call.path for call in disk.calls[:number] if call.kind == "link" and "/commits/" in call.path)
        assert newest > path
        assert order.durable_before(newest, number), path
    for number, path in data:
        own = f"{Path(path).parent.parent}/commits/{Path(path).name.split('-r0000')[0]}.json"
        gone = order.last("unlink", number, path=own)
        assert 0 <= gone < order.last("sync_folder", number, path=str(Path(own).parent)), path
