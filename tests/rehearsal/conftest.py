"""What the rehearsals share: the programs beside them, and a folder in which a kill storm is quick."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: what a kill leaves behind does not depend on the disk below."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="outlast-", dir=memory))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
