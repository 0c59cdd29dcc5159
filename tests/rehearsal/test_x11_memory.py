"""X11: what saving a state takes of memory, in real processes: little at once, one copy beside the training."""

import subprocess
import sys
from pathlib import Path

import pytest
from lives import environment

STATE_MIB = 300
PROGRAM = """
import sys
import numpy as np
import outlast
def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
parts = [np.full(10 << 20, number, np.uint8) for number in range(int(sys.argv[3]) // 10)]
job = outlast.Job(sys.argv[2], state={"parts": parts}, name="memory", every=outlast.Steps(2), saving=sys.argv[1])
open("/proc/self/clear_refs", "w").write("5")
base = peak()
for step in job.steps(6):
    for part in parts:
        part += 1
print(peak() - base)
"""


def extra_mib(saving: str, folder: Path) -> float:
    """How much more memory the steps and saves took at their peak than the loaded job before them."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, saving, str(folder / "store"), str(STATE_MIB)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.serial
@pytest.mark.parametrize(("saving", "most_mib"), [("blocking", 64.0), ("background", 1.1 * STATE_MIB)])
def test_x11_a_save_takes_no_more_memory_than_is_promised(saving: str, most_mib: float, tmp_path: Path) -> None:
    assert extra_mib(saving, tmp_path) <= most_mib
