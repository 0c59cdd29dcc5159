"""What the contract tests share: a store to plant things in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from planting import Planter, outside


@pytest.fixture
def planter(tmp_path: Path) -> Iterator[Planter]:
    """A store with good checkpoints of steps 1, 2 and 3; nothing outside it may change."""
    planter = Planter(tmp_path)
    before = outside(planter)
    yield planter
    assert outside(planter) == before
