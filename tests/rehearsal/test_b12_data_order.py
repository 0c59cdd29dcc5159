"""B12: no item is replayed or skipped and no draw differs, wherever the run is interrupted and however it shuffles."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sampler_programs import PROGRAMS

SCRIPT = Path(__file__).with_name("interrupt_everywhere.py")
WORKERS = [name for name in PROGRAMS if "workers" in name]
TORCH = [name for name in PROGRAMS if "DataLoader" in name and name not in WORKERS]
PLAIN = [name for name in PROGRAMS if "DataLoader" not in name]


def what_is_wrong(store: Path, stride: int, mode: str, names: list[str]) -> list[str]:
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(store), str(stride), mode, *names]
    with (store / "found").open("w") as found_file, (store / "errors").open("w") as errors:
        ran = subprocess.run(command, stdout=found_file, stderr=errors, check=False, timeout=240)
    assert ran.returncode == 0, (store / "errors").read_text()
    found: list[str] = json.loads((store / "found").read_text())
    return found


@pytest.mark.slow
def test_a_run_interrupted_at_any_of_its_steps_gives_what_the_uninterrupted_one_does(quick_folder: Path) -> None:
    assert what_is_wrong(quick_folder, 1, "each", ["shuffled list"]) == []


@pytest.mark.parametrize("name", PLAIN)
def test_a_run_interrupted_again_and_again_draws_the_same_data_in_each_way_of_shuffling(
    name: str, quick_folder: Path
) -> None:
    assert what_is_wrong(quick_folder, 3, "chain", [name]) == []


# One process with torch in it forks the attempts of all its programs; with fewer places, the ends of epochs among them.


@pytest.mark.slow
def test_a_run_interrupted_again_and_again_draws_the_same_data_from_torch(quick_folder: Path) -> None:
    assert what_is_wrong(quick_folder, 30, "chain", TORCH) == []


@pytest.mark.slow
def test_a_run_interrupted_again_and_again_draws_the_same_data_from_workers(quick_folder: Path) -> None:
    assert what_is_wrong(quick_folder, 30, "notice", WORKERS) == []
