"""Files of items that lie in a bucket: read by ranges, chosen by patterns, missing ones told."""

import io
import os
from collections.abc import Iterator
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outlast.errors import SettingsError, StoreUnreachable
from outlast.item_files.sources import find_sources
from outlast.registry import open_store
from service import servers

SCHEMES = ["gs", "s3", "az"]
_ROWS = 20_000  # about 20 MB, more than one range


@pytest.fixture(params=SCHEMES)
def folder(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a folder in a bucket, in an environment where the bucket is found."""
    with mock.patch.dict(os.environ, servers.environment_of(request.param)):
        yield servers.fresh_url(request.param)


def test_a_manifest_in_a_bucket_is_read_row_by_row(folder: str) -> None:
    store = open_store(folder)
    store.write("part-1.csv", [b"id,x\n", *(b"%d,%s\n" % (n, b"x" * 1000) for n in range(_ROWS))])
    store.write("part-2.csv", [b"id,x\nlast,y\n"])
    store.write("other.txt", [b"z\n"])
    store.write("deeper/part-3.csv", [b"id\nno\n"])
    [whole] = find_sources([f"{folder}/part-1.csv"])
    ids = [row.id for row in whole.rows()]
    assert ids == [str(n) for n in range(_ROWS)]
    assert whole.meter.done_bytes == whole.meter.bytes > 20_000_000
    several = find_sources([f"{folder}/part-*.csv", f"{folder}/other.txt"])
    assert [one.name.rpartition("/")[2] for one in several] == ["part-1.csv", "part-2.csv", "other.txt"]
    assert [row.id for one in several[1:] for row in one.rows()] == ["last", "z"]
    table = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(_ROWS))}), table)
    store.write("rows.parquet", [table.getvalue()])
    [columns] = find_sources([f"{folder}/rows.parquet"])
    assert [row.id for row in columns.rows()] == ids
    for missing in ("gone.csv", "gone-*.csv"):
        with pytest.raises(SettingsError, match="gone"):
            next(find_sources([f"{folder}/{missing}"])[0].rows())


def test_a_bucket_that_does_not_answer_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.stores.objects.RETRY_SECONDS", 0.5)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"127.0.0.1:{servers.free_port()}")
    with pytest.raises(StoreUnreachable):
        next(find_sources(["gs://bucket/folder/rows.csv"])[0].rows())
