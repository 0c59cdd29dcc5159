"""What a bucket's client may answer, and what the store makes of it."""

from collections.abc import Iterator, Sequence

import pytest

from outlast.errors import StoreUnreachable
from outlast.ports import Bytes
from outlast.stores.objects import Absent, BucketStore, Parts


class ForgetfulBucket:
    """Answers 404 without saying what is missing: an upload that it dropped, a container on its way out."""

    delete_batch = 1

    def put_new(self, key: str, data: Bytes) -> None:
        raise Absent(key)

    def put_parts(self, key: str, parts: Parts) -> None:
        raise Absent(key)

    def size(self, key: str) -> int:
        raise Absent(key)

    def read_into(self, key: str, offset: int, target: memoryview) -> int:
        raise Absent(key)

    def entries(self, prefix: str) -> Iterator[tuple[str, int]]:
        raise Absent(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        raise Absent(keys[0])


def test_a_404_where_none_is_expected_is_a_storage_that_a_retry_may_find_mended() -> None:
    store = BucketStore("s3://b", "", ForgetfulBucket())
    with pytest.raises(StoreUnreachable, match="cannot write a/b"):
        store.create("a/b", b"x")
    with pytest.raises(StoreUnreachable, match="cannot write a/b"):
        store.write("a/b", [bytes(20 << 20)])
    with pytest.raises(StoreUnreachable, match="cannot list a"):
        store.list("a")
