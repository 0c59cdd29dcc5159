"""COUNTER: each step depends on all before it, so that one replayed or skipped step shows in the result."""

import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import outlast

MODULUS = 2**61 - 1


@dataclass(frozen=True)
class Counter:
    """What a life is given. `trace`: the file that gets each completed step, in one write."""

    url: str
    trace: str
    steps: int = 200
    every: int = 5
    keep: int = 3
    sleep_seconds: float = 0.01
    blob_bytes: int = 1000
    resume: str | int = "latest"
    saving: str = "auto"
    interval: str = "0s"  # where `every` is 0
    frozen_bytes: int = 0  # of a part that never changes, so that later saves refer to it
    settles: bool = False  # each step waits until no save is under way, so that all calls have one order

    def plain(self) -> int:
        """The right result, from a plain loop."""
        acc = 0
        for step in range(self.steps):
            acc = (acc * 31 + step) % MODULUS
        return acc

    def right_frozen(self) -> bytes:
        """What never changes."""
        return random.Random(5).randbytes(self.frozen_bytes)

    def run(self) -> tuple[int | None, int]:
        """One life: (the step it resumed from, acc at the end)."""
        blob, frozen = bytearray(self.blob_bytes), bytearray(self.frozen_bytes)
        job = outlast.Job(
            self.url,
            state={"step": 0, "acc": 0, "blob": blob, **({"frozen": frozen} if frozen else {})},
            name="counter",
            every=outlast.Steps(self.every) if self.every else self.interval,
            keep=self.keep,
            resume=self.resume,
            saving=self.saving,
        )
        if job.state["step"] and blob[:8] != job.state["step"].to_bytes(8, "big"):
            raise AssertionError("the blob is not of this step")
        if job.resumed_from is None:
            frozen[:] = self.right_frozen()
        if frozen != self.right_frozen():
            raise AssertionError("the part that never changes has changed")
        trace = os.open(self.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for step in job.steps(self.steps):
            job.state["acc"] = (job.state["acc"] * 31 + step) % MODULUS
            job.state["step"] = step + 1
            blob[:8] = (step + 1).to_bytes(8, "big")
            time.sleep(self.sleep_seconds)
            while self.settles and job._session.saves._saver.busy:
                time.sleep(0)
            os.write(trace, b"%d\n" % (step + 1))
        os.close(trace)
        return job.resumed_from, job.state["acc"]


def from_environment() -> Counter:
    """The settings that the test gave, over the defaults."""
    env = os.environ
    return Counter(
        env["VICTIM_URL"],
        env["VICTIM_TRACE"],
        steps=int(env.get("VICTIM_STEPS", "200")),
        every=int(env.get("VICTIM_EVERY", "5")),
        interval=env.get("VICTIM_INTERVAL", "0s"),
        keep=int(env.get("VICTIM_KEEP", "3")),
        sleep_seconds=float(env.get("VICTIM_SLEEP", "0.01")),
        blob_bytes=int(env.get("VICTIM_BLOB", "1000")),
        saving=env.get("VICTIM_SAVING", "auto"),
        frozen_bytes=int(env.get("VICTIM_FROZEN", "0")),
    )


if __name__ == "__main__":
    acc = from_environment().run()[1]
    sys.stdout.write(f"{acc}\n")
    Path(os.environ["VICTIM_TRACE"] + ".result").write_text(f"{acc}\n")
