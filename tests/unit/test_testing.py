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


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a"])
def test_the_memory_store_refuses_names_that_a_folder_could_not_keep(name: str) -> None:
    with pytest.raises(ValueError, match="not a name in a store"):
        MemoryStore().create(name, b"")
    with pytest.raises(ValueError, match="not a name in a store"):
        MemoryStore().append(name, b"")


def test_a_memory_store_does_not_share_the_callers_buffer() -> None:
    store, buffer = MemoryStore(), bytearray(b"before")
    store.write("data/1", [buffer])
    buffer[:] = b"after!"
    assert store.read("data/1") == b"before"
