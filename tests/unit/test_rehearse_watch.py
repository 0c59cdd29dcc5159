"""The watch over a copy: what its library complains of ends no watching."""

import warnings
from pathlib import Path

from outlast.rehearse.watch import WriteWatch


def test_a_folder_that_is_seen_twice_is_no_error(tmp_path: Path) -> None:
    with WriteWatch(tmp_path):
        warnings.warn("Callback with id '1' already exists for watch x.", RuntimeWarning, stacklevel=1)
