"""From a notice to the first new step of the next attempt, as on another machine: the file is out of the page cache.

Not counted are what no library can hasten: the platform's wait for a machine, the interpreter's start, the imports and
the making of the model, and the interpreter's end (torch alone takes 0.4 s for it). Counted are the rest of the step
under way, the final save, the claim and the restore.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.machine import drop_cache

_STOPPED = 143
_SETTLING_SECONDS = 3.0  # memory for saves is touched beside the first steps
_PROGRAM = """
import sys, time
import outlast
from benchmarks.states import make_state
state = make_state(sys.argv[2], float(sys.argv[3]))
state.spoil() if sys.argv[4] == "again" else state.fill()
made = time.monotonic()
job = outlast.Job(sys.argv[1], state=state.parts, every="1h", keep=1, name="bench", random_state=False)
for step in job.steps(1_000_000):
    if made is not None:
        print(step, made, time.monotonic(), flush=True)
        made = None
    time.sleep(0.02)
"""


def measure_going_on(kind: str, scale: float, folder: Path) -> dict[str, float]:
    """Seconds in all, of each half, the leaving and the coming back, and of the interpreter's end."""
    store, events = folder / "store", folder / "events"
    environment = {**os.environ, "OUTLAST_GRACE": "60", "OUTLAST_EVENTS_FILE": str(events)}
    with _started(store, kind, scale, "first", environment) as first:
        _first_step(first)
        time.sleep(_SETTLING_SECONDS)
        noticed = time.monotonic()
        first.send_signal(signal.SIGTERM)
        try:
            first.wait(120)
        finally:
            first.kill()
        ended = time.monotonic()
    if first.returncode != _STOPPED:
        raise RuntimeError(f"the stop left with {first.returncode}, not {_STOPPED}")
    recorded = map(json.loads, events.read_bytes().splitlines())
    stopped = next(line["monotonic"] for line in recorded if line["event"] == "Stopped")
    in_cache = drop_cache(store)
    with _started(store, kind, scale, "again", environment) as second:
        try:
            step, made, began = _first_step(second)
        finally:
            second.kill()
    if step == 0:
        raise RuntimeError("the second attempt began anew")
    left, came_back = stopped - noticed, began - made
    return {
        "went_on": left + came_back,
        "left": left,
        "came_back": came_back,
        "ended": ended - stopped,
        "cold_share_in_cache": in_cache,
    }


def _started(store: Path, kind: str, scale: float, which: str, env: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _PROGRAM, str(store), kind, str(scale), which]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True)


def _first_step(process: "subprocess.Popen[str]") -> tuple[int, float, float]:
    """Its number, when the state was made, and when it began."""
    assert process.stdout
    words = process.stdout.readline().split()
    if len(words) != 3:
        raise RuntimeError(f"the program left with {process.wait()} before its first step")
    step, made, began = words
    return int(step), float(made), float(began)
