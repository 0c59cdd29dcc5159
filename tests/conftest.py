"""A fast place for stores, for all tests."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def store() -> Iterator[Path]:
    """An empty folder in memory where there is one: thousands of synced saves are not what is tested."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="outlast-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)
