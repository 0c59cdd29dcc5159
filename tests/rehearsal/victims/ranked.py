"""RANKED: several processes that train together, each with state of its own, and the lives of all of them at once.

Each line of standard input asks for a life: {"size", "env": the victim's settings, "kills": [[rank, seconds, signal]],
"from_first_step": bool, "fate": [rank, fate, call] or null, "errors": folder}. Every rank is a fork of this process,
which has everything loaded, the modules named as arguments too. The answer is one line: {"codes", "seconds": from the
last kill to the end of all}.

With "PROGRAM", a file, that is run in place of the victim's own life. With "RING" the ranks pass a byte around in every
step, as a collective does: who waits for a rank that is dead waits for ever. With a fate, that rank's process meets it
at that call of its disk (see calls.py), or is killed before it says, after it has said ("unsaid", "said") or when it
has heard ("heard") so many messages.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from calls import FatefulDisk

import outlast
from outlast import registry, session  # noqa: F401  loaded now and not in each life
from outlast.ranks import bond
from outlast.ranks.messages import Message
from outlast.ranks.wire import Connection
from outlast.stores import directory

PATIENCE_SECONDS = 0.4
LONGEST_LIFE_SECONDS = 30.0
FROZEN_BYTES, MOVING_NUMBERS = 300_000, 6000
MODULUS = 2**61 - 1


class RankState:
    """What one rank holds after each step. Some of it is the same on all of them."""

    def __init__(self, rank: int, frozen_bytes: int = FROZEN_BYTES, moving: int = MOVING_NUMBERS) -> None:
        self.rank = rank
        self.state: dict[str, Any] = {
            "step": 0,
            "acc": 0,
            "frozen": np.zeros(frozen_bytes, np.uint8),
            "same": np.zeros(moving),
            "own": np.zeros(moving),
            "draws": [],
        }
        self._numbers = np.arange(moving, dtype=np.float64)

    def begin(self) -> None:
        """Step 0."""
        self.state["frozen"][:] = np.random.default_rng(7).integers(0, 255, len(self.state["frozen"]), np.uint8)
        self._move(0)

    def advance(self, step: int) -> None:
        """Does the step that completes number `step`."""
        self.state["acc"] = next_acc(self.state["acc"], self.rank, step)
        self.state["step"] = step
        self._move(step)

    def _move(self, step: int) -> None:
        np.add(self._numbers, step, out=self.state["same"])
        np.add(self._numbers, step * 7 + self.rank, out=self.state["own"])

    def wrong(self, step: int) -> list[str]:
        """What does not fit the step."""
        right = RankState(self.rank, len(self.state["frozen"]), len(self.state["own"]))
        right.begin()
        for number in range(1, step + 1):
            right.state["acc"] = next_acc(right.state["acc"], self.rank, number)
        right.state["step"] = step
        right._move(step)
        return [name for name, value in right.state.items() if not np.array_equal(value, self.state[name])]


def next_acc(acc: int, rank: int, step: int) -> int:
    return (acc * 31 + step * (rank + 3)) % MODULUS


def live(rank: int, env: Mapping[str, str], ring: tuple[int, int] | None) -> None:
    """One life of one rank."""
    mine, steps = RankState(rank), int(env["STEPS"])
    every = env["EVERY"]
    job = outlast.Job(
        env["URL"],
        state=mine.state,
        name="ranked",
        every=outlast.Steps(int(every)) if every.isdigit() else every,
        keep=int(env["KEEP"]),
        saving=env["SAVING"],
        random_state=False,
    )
    if job.resumed_from is None:
        mine.begin()
    start = job.resumed_from or 0
    _append(f"{env['TRACE']}-starts", f"{rank} {job.attempt} {start}")
    if wrong := mine.wrong(start):
        raise AssertionError(f"rank {rank} resumed from step {start}, and these are not of it: {wrong}")
    for step in job.steps(steps):
        if ring is not None:
            os.write(ring[1], b"x")
            os.read(ring[0], 1)
        mine.advance(step + 1)
        if env.get("ASK") == str(step + 1) and rank == int(env["ASKER"]):
            job.save()
        time.sleep(float(env["SLEEP"]))
        _append(f"{env['TRACE']}-{rank}", str(step + 1))
    if wrong := mine.wrong(steps):
        raise AssertionError(f"rank {rank} at the end: {wrong}")
    _append(f"{env['TRACE']}-results", f"{rank} {mine.state['acc']}")


def meet_at_message(kind: str, at: int) -> None:
    """This process is killed at its message of that number."""
    counts = {"said": 0, "heard": 0}

    def count(which: str, fate: str) -> None:
        counts[which] += fate in ("unsaid", "heard")
        if fate == kind and counts[which] == at:
            os.kill(os.getpid(), signal.SIGKILL)

    send, receive = Connection.send_body, Connection.receive

    def fated_send(self: Connection, body: bytes) -> None:
        count("said", "unsaid")
        send(self, body)
        count("said", "said")

    def fated_receive(self: Connection, *, first: bool = False) -> Message:
        message = receive(self, first=first)
        count("heard", "heard")
        return message

    Connection.send_body, Connection.receive = fated_send, fated_receive  # type: ignore[method-assign]  # of this process


def _append(path: str, line: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def _size(path: str) -> int:
    return os.stat(path).st_size if os.path.exists(path) else 0  # noqa: PTH110, PTH116  asked each millisecond


def _watch(children: list[int], asked: dict[str, Any], before: int) -> dict[str, Any]:
    """Ends ranks at their moments; how it went."""
    codes: list[int | None] = [None] * len(children)
    until, kills = time.monotonic() + LONGEST_LIFE_SECONDS, sorted(asked["kills"], key=lambda kill: kill[1])
    begun_at = None if asked["from_first_step"] and kills else time.monotonic()
    last = time.monotonic()
    while None in codes:
        now = time.monotonic()
        for rank, pid in enumerate(children):
            if codes[rank] is None:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    codes[rank] = os.waitstatus_to_exitcode(status)
                    last = max(last, now) if codes[rank] == -signal.SIGKILL else last
        if begun_at is None and _size(f"{asked['env']['TRACE']}-0") > before:
            begun_at = now
        while begun_at is not None and kills and now >= begun_at + kills[0][1]:
            rank, _, number = kills.pop(0)
            if codes[rank] is None:
                os.kill(children[rank], number)
                last = now
        if now > until:
            hung = [rank for rank, code in enumerate(codes) if code is None]
            for rank in hung:
                os.kill(children[rank], signal.SIGKILL)
                os.waitpid(children[rank], 0)
            return {"codes": codes, "hung": hung, "seconds": now - last}
        time.sleep(0.001)
    return {"codes": codes, "hung": [], "seconds": time.monotonic() - last}


def serve() -> tuple[int, dict[str, Any], tuple[int, int] | None] | None:
    """Forks the ranks of a life for each line; returns what a child needs in it, None at the end of the input."""
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        size, before = asked["size"], _size(f"{asked['env']['TRACE']}-0")
        pipes = [os.pipe() for _ in range(size)]  # held open here as well: nobody in the ring sees an end
        children = []
        for rank in range(size):
            errors = os.open(f"{asked['errors']}-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            child = os.fork()
            if child == 0:
                os.dup2(errors, 2)
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                os.dup2(os.open(os.devnull, os.O_RDWR), 0)
                names = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
                os.environ.update({name: str(value) for name, value in names.items()})
                os.environ["TORCHELASTIC_RUN_ID"] = asked["env"].get("LAUNCH", str(number))
                os.environ.update(asked["env"])
                ring = (pipes[rank][0], pipes[(rank + 1) % size][1]) if asked["env"].get("RING") else None
                return rank, asked, ring
            os.close(errors)
            children.append(child)
        answer = _watch(children, asked, before)
        for pair in pipes:
            os.close(pair[0])
            os.close(pair[1])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    bond.PATIENCE_SECONDS = PATIENCE_SECONDS
    for module in sys.argv[1:]:
        importlib.import_module(module)
    found = serve()
    if found is not None:
        own, order, around = found
        fate = order["fate"]
        if fate is not None and fate[0] == own and fate[1] in ("unsaid", "said", "heard"):
            meet_at_message(fate[1], fate[2])
        elif fate is not None and fate[0] == own:
            FatefulDisk(fate[1], fate[2]).install()
        elif fate is not None:
            directory.LocalDisk = lambda: FatefulDisk("none", 0)  # type: ignore[assignment,misc]  # which never waits
        if "PROGRAM" in order["env"]:
            runpy.run_path(order["env"]["PROGRAM"], {"rank": own, "ring": around}, "__main__")
        else:
            live(own, order["env"], around)
    sys.stdout.flush()
