"""What happens at the file operation that an attempt is warned at, and which files tell that it began again."""

import os
import select
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.containers.calls import Operation, Signalled
from outlast.registry import platform_named
from outlast.rehearse.cut_saves import Knife
from outlast.rehearse.stage import Stage


def knife_for(folder: Path, *, warn: Callable[[], bool] | None = None) -> Knife:
    stage = Stage("stage", folder, folder.parent / "private", platform_named("cloud-run"), "rehearsal", "store")
    return Knife(stage, frozenset(), None, blunt=warn is None, warn=warn)


@pytest.mark.parametrize("at_once", [True, False])
def test_an_operation_is_held_for_a_notice_only_if_the_notice_comes_there(tmp_path: Path, *, at_once: bool) -> None:
    knife = knife_for(tmp_path, warn=lambda: at_once)
    try:
        answer = knife.passes(Operation("open", str(tmp_path / "state"), None, 1, 0.0))
        assert isinstance(answer, Signalled) if at_once else answer is True
        assert select.select([knife.begun], [], [], 0)[0] == [knife.begun]
    finally:
        os.close(knife.begun)
