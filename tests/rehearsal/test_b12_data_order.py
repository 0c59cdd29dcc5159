"""B12: no item is replayed or skipped and no draw differs, wherever the run is interrupted and however it shuffles."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sampler_programs import PROGRAMS

HERE = Path(__file__).parent
# Workers cost 0.1 s an epoch, so fewer places are tried with them; the last place of an epoch is among them.
STRIDES = {name: 19 if "workers" in name else 1 if name == "shuffled list" else 3 for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_data_are_those_of_the_uninterrupted_run_wherever_it_was_interrupted(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "interrupt_everywhere.py"), name, str(tmp_path), str(STRIDES[name])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == []
