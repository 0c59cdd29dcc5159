"""The Parquet sink: a compaction removes old parts with few requests, where the place can."""

from collections.abc import Sequence

from outlast.items import Result
from outlast.sinks.parquet import ParquetSink
from outlast.testing import MemoryStore


class BulkMemoryStore(MemoryStore):
    """Removes three objects with one request."""

    delete_batch = 3

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[str]] = []

    def delete_all(self, names: Sequence[str]) -> None:
        self.requests.append(list(names))
        for name in names:
            self.delete(name)


def test_a_compaction_removes_as_many_parts_at_a_time_as_the_place_can() -> None:
    store = BulkMemoryStore()
    sink = ParquetSink(store, url="parquet:memory")
    for number in range(8):
        sink.store([Result(f"{number}", "1", None, 1)])
    parts = {one.name for one in store.list("parts")}
    assert sink.compact() == len(parts) == 8
    assert not store.list("parts")
    asked = [set(names) for names in store.requests if names[0] in parts]
    assert sorted(map(len, asked)) == [2, 3, 3]
    assert set.union(*asked) == parts
