"""What the tests of this folder share: the pieces beside them, and a fast place for stores."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.firmware import Firmware

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is detected must not depend on whose machine the tests run on."""
    monkeypatch.setattr("outlast.registry.read_firmware", Firmware)


@pytest.fixture
def store() -> Iterator[Path]:
    """An empty folder in memory where there is one: hundreds of synced saves are not what is tested."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="outlast-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)
