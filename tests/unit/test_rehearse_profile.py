"""What an uninterrupted run shows of a program, on a busy machine too."""

import pytest

from outlast.rehearse.attempt import Attempt
from outlast.rehearse.profile import profile_of
from outlast.rehearse.watch import Write

RUN = Attempt(number=0, seconds=1.0, ended_by="finished", exit_code=0, started_at=100.0)


def written(*names: str, at: float) -> list[Write]:
    """Each file is opened anew, written and closed; all seen about one moment of the run."""
    kinds = ("created", "modified", "closed")
    return [Write(name, kind, 100.0 + at + 0.001 * number) for number, name in enumerate(names) for kind in kinds]


@pytest.mark.parametrize("names", [("state.tmp",) * 9, tuple(f"step-{number}/state.bin" for number in range(9))])
@pytest.mark.parametrize("at", [0.01, 0.95])
def test_saves_that_are_seen_too_early_or_too_late_are_saves(names: tuple[str, ...], at: float) -> None:
    assert profile_of(RUN, [], written(*names, at=at), 100.0).saves


def test_settings_before_the_work_and_results_after_it_are_no_saves() -> None:
    files = [*written("settings.json", at=0.01), *written("result.json", "model.npz", "notes.txt", at=0.95)]
    assert not profile_of(RUN, [], files, 100.0).saves
