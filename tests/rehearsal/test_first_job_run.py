"""docs/first-job.md: the interrupted run of the resumable loop ends with the same weights as the plain loop."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

_CASES = Path(__file__).parents[1] / "docs_cases"
_KEPT = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
_ENVIRONMENT = {**_KEPT, "OMP_NUM_THREADS": "1"}


def _start(name: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, str(_CASES / name)], cwd=folder, env=_ENVIRONMENT)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    loaded: dict[str, torch.Tensor] = torch.load(folder / "model.pt", weights_only=True)
    return loaded


def _wait_for_attempt(process: "subprocess.Popen[bytes]", folder: Path, attempt: int) -> None:
    """Until the attempt has claimed the run; it is about to take its first step then."""
    until = time.monotonic() + 60
    while not list(folder.glob(f"outlast-checkpoints/*/*/task-0/attempts/a{attempt:06}.json")):
        assert process.poll() is None, "the job ended before it was interrupted"
        assert time.monotonic() < until, "the job claimed no run"
        time.sleep(0.01)


def test_the_interrupted_loop_ends_with_the_weights_of_the_plain_one(tmp_path: Path) -> None:
    plain, resumed = tmp_path / "plain", tmp_path / "resumed"
    plain.mkdir()
    resumed.mkdir()
    assert _start("plain_loop.py", plain).wait(120) == 0

    for attempt, blow in enumerate([signal.SIGTERM, signal.SIGKILL, signal.SIGTERM]):
        process = _start("resumable_loop.py", resumed)
        _wait_for_attempt(process, resumed, attempt)
        time.sleep(0.5)
        process.send_signal(blow)
        assert process.wait(60) == (143 if blow == signal.SIGTERM else -signal.SIGKILL)
        assert not (resumed / "model.pt").exists()
    assert _start("resumable_loop.py", resumed).wait(120) == 0

    expected, found = _weights(plain), _weights(resumed)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name
