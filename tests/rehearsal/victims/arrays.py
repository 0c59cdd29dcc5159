"""ARRAYS: a counter beside arrays of all sorts, each a function of the step, saved beside the steps; and its lives.

The frozen array is one of the seed and never changes; a few large ones change with every step; of many small ones some
do. So a save refers to much of what an earlier one wrote, and a piece of another step, or of nothing, shows.

    arrays.py            one life, by the environment
    arrays.py serve      lives as forks of this process, which has everything loaded and runs no job itself

Each line of standard input asks the server for a life: {"life": the environment, "delay": seconds or null (not killed),
"from_first_step": bool, "signal": number, "errors": the file for standard error}. The answer is one line: {"code",
"killed"}.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import outlast
from outlast import registry, session  # noqa: F401  loaded now and not in each life
from outlast.stores import directory, mount  # noqa: F401  as above

MODULUS = 2**61 - 1
LONGEST_LIFE_SECONDS = 60.0


@dataclass
class Arrays:
    """The state of a job, and what each array of it must be after a step."""

    frozen_bytes: int = 3 << 20
    moving_numbers: int = 32768
    small_count: int = 150
    state: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.state = {
            "step": 0,
            "acc": 0,
            "frozen": np.zeros(self.frozen_bytes, np.uint8),
            "moving": [np.zeros(self.moving_numbers) for _ in range(3)],
            "small": {f"s{number}": np.zeros(16, np.int64) for number in range(self.small_count)},
        }
        self._numbers = np.arange(self.moving_numbers, dtype=np.float64)

    def right_frozen(self) -> np.ndarray:
        return np.random.default_rng(7).integers(0, 255, self.frozen_bytes, dtype=np.uint8)

    def begin(self) -> None:
        """Step 0."""
        self.state["frozen"][:] = self.right_frozen()
        self._move(0)

    def advance(self, step: int) -> None:
        """Does the step that completes number `step`."""
        self.state["acc"] = (self.state["acc"] * 31 + step - 1) % MODULUS
        self.state["step"] = step
        self._move(step)

    def _move(self, step: int) -> None:
        for number, array in enumerate(self.state["moving"]):
            np.add(self._numbers, step * (number + 1), out=array)
        for number, array in enumerate(self.state["small"].values()):
            if step % (1 + number % 7) == 0:
                array[:] = self._small(number, step)

    @staticmethod
    def _small(number: int, step: int) -> int:
        return number * 1000 + step // (1 + number % 7)

    def wrong(self, step: int) -> list[str]:
        """What does not fit the step."""
        found = []
        if self.state["step"] != step:
            found.append(f"step {self.state['step']}")
        if self.state["acc"] != plain(step):
            found.append("acc")
        if not np.array_equal(self.state["frozen"], self.right_frozen()):
            found.append("frozen")
        for number, array in enumerate(self.state["moving"]):
            if not np.array_equal(array, self._numbers + step * (number + 1)):
                found.append(f"moving {number} is of step {(array - self._numbers)[:3] / (number + 1)}")
        for number, array in enumerate(self.state["small"].values()):
            if not (array == self._small(number, step)).all():
                found.append(f"small {number}")
        return found


def plain(steps: int) -> int:
    """The right result, from a plain loop."""
    acc = 0
    for step in range(steps):
        acc = (acc * 31 + step) % MODULUS
    return acc


def live(env: Mapping[str, str]) -> None:
    """One life. The trace gets a line for each completed step: it, what is durable, what is being saved."""
    arrays = Arrays(frozen_bytes=int(env.get("VICTIM_FROZEN", str(3 << 20))))
    every = int(env["VICTIM_EVERY"])
    steps = int(env["VICTIM_STEPS"])
    job = outlast.Job(
        env["VICTIM_URL"],
        state=arrays.state,
        name="arrays",
        every=outlast.Steps(every) if every else env["VICTIM_INTERVAL"],
        keep=int(env["VICTIM_KEEP"]),
        saving=env.get("VICTIM_SAVING", "background"),
    )
    if job.resumed_from is None:
        arrays.begin()
    wrong = arrays.wrong(job.resumed_from or 0)
    if wrong:
        raise AssertionError(f"resumed from step {job.resumed_from}, and these are not of it: {wrong}")
    trace = os.open(env["VICTIM_TRACE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    saves = job._session.saves
    for step in job.steps(steps):
        arrays.advance(step + 1)
        time.sleep(float(env["VICTIM_SLEEP"]))
        durable, flight = saves.saved_mark[0], saves._flight
        os.write(trace, b"%d %d %d\n" % (step + 1, durable, flight.step if flight else -1))
    os.close(trace)
    wrong = arrays.wrong(steps)
    if wrong:
        raise AssertionError(f"at the end these are wrong: {wrong}")
    Path(env["VICTIM_TRACE"] + ".result").write_text(f"{arrays.state['acc']}\n")


def _size(path: str) -> int:
    return os.stat(path).st_size if os.path.exists(path) else 0  # noqa: PTH110, PTH116  asked each millisecond


def _watch(child: int, asked: dict[str, Any], before: int) -> dict[str, Any]:
    """Ends a life at its moment; how it went."""
    until = time.monotonic() + LONGEST_LIFE_SECONDS
    status: int | None = None

    def over() -> bool:
        nonlocal status
        pid, code = os.waitpid(child, os.WNOHANG)
        status = code if pid else status
        return status is not None

    delay = asked["delay"]
    begun = not asked["from_first_step"]
    kill_at = time.monotonic() + delay if delay is not None and begun else None
    while not over():
        now = time.monotonic()
        if delay is not None and not begun and _size(asked["life"]["VICTIM_TRACE"]) > before:
            begun, kill_at = True, now + delay
        if kill_at is not None and now >= kill_at:
            os.kill(child, asked["signal"])
            kill_at = None
            until = now + LONGEST_LIFE_SECONDS
        if now > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return {"code": None, "killed": True}
        time.sleep(0.001)
    assert status is not None
    return {"code": os.waitstatus_to_exitcode(status), "killed": os.WIFSIGNALED(status)}


def serve() -> dict[str, str] | None:
    """Forks a life for each line; returns its environment in the child, None at the end of the input."""
    for line in sys.stdin:
        asked = json.loads(line)
        before = _size(asked["life"]["VICTIM_TRACE"])
        errors = os.open(asked["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        child = os.fork()
        if child == 0:
            os.dup2(errors, 2)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.environ.update(asked["life"])
            return asked["life"]
        os.close(errors)
        sys.stdout.write(json.dumps(_watch(child, asked, before)) + "\n")
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    given: Mapping[str, str] | None = serve() if sys.argv[1:] == ["serve"] else os.environ
    if given is not None:
        live(given)  # at the top, so that a life ends as that of any program does
