"""How soon a SIGTERM is heard inside a long C call, and how soon a job with some state has stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_STOPPED = 143
_VICTIM = """
import hashlib, sys, time
import outlast
job = outlast.Job(sys.argv[1], state={"blob": bytearray(int(sys.argv[2]))}, every="1h")
for step in job.steps(1_000_000):
    print(step, flush=True)
    if sys.argv[3] == "c-call":
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 6_000_000)
    else:
        time.sleep(0.05)
"""


def measure_signals(folder: Path) -> dict[str, float]:
    """Seconds until the notice is heard, and until a process with 50 MB of state has left with 143."""
    heard, _ = _signalled(folder / "c-call", megabytes=0, kind="c-call")
    _, stopped = _signalled(folder / "sleep", megabytes=50, kind="sleep")
    return {"heard": heard, "stopped": stopped}


def _signalled(folder: Path, *, megabytes: int, kind: str) -> tuple[float, float]:
    folder.mkdir()
    events = folder / "events.jsonl"
    command = [sys.executable, "-c", _VICTIM, str(folder / "store"), str(megabytes * 1_000_000), kind]
    environment = {**os.environ, "OUTLAST_EVENTS_FILE": str(events), "CLOUD_RUN_JOB": "bench"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.3)
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        ended = time.monotonic()
    if process.returncode != _STOPPED:
        raise RuntimeError(f"the stop left with {process.returncode}, not {_STOPPED}")
    lines = [json.loads(line) for line in events.read_bytes().splitlines()]
    heard = next(line["monotonic"] for line in lines if line["event"] == "NoticeHeard")
    return heard - sent, ended - sent
