"""What the shipped fakes promise beyond the ports' contracts."""

import pytest

from outlast.errors import ObjectExists
from outlast.testing import MemoryStore


def test_the_memory_store_refuses_to_write_a_data_object_twice() -> None:
    store = MemoryStore()
    store.write("data/1", [b"first"])
    with pytest.raises(ObjectExists):
        store.write("data/1", [b"second"])
    assert store.read("data/1") == b"first"


def test_a_memory_store_does_not_share_the_callers_buffer() -> None:
    store, buffer = MemoryStore(), bytearray(b"before")
    store.write("data/1", [buffer])
    buffer[:] = b"after!"
    assert store.read("data/1") == b"before"
