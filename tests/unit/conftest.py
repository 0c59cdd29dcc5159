"""What the tests of this folder share: the pieces beside them, and a fast place for stores."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def store() -> Iterator[Path]:
    """An empty folder in memory where there is one: hundreds of synced saves are not what is tested."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="outlast-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)
