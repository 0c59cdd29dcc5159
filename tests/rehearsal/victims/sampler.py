"""SAMPLER: shuffled epochs and a random draw per item; the list at the end shows a sample replayed or skipped.

`VICTIM_LOOP`: "plain" is without outlast, "batches" through job.epochs and job.batches, "steps" through job.steps.
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

EPOCHS, ITEMS = 3, 20
SLEEP_SECONDS = float(os.environ.get("VICTIM_SLEEP", "0.001"))
Seen = list[list[Any]]


def shuffled() -> list[int]:
    order = list(range(ITEMS))
    random.shuffle(order)
    return order


def take(seen: Seen, epoch: int, item: int) -> None:
    seen.append([epoch, len(seen) % ITEMS, item, random.random()])
    time.sleep(SLEEP_SECONDS)


def plain() -> Seen:
    seen: Seen = []
    for epoch in range(EPOCHS):
        for item in shuffled():
            take(seen, epoch, item)
    return seen


def make_job(state: dict[str, Any]) -> Any:
    import outlast

    every = outlast.Steps(int(os.environ.get("VICTIM_EVERY", "5")))
    keep = int(os.environ.get("VICTIM_KEEP", "3"))
    return outlast.Job(os.environ["VICTIM_URL"], state=state, name="sampler", every=every, keep=keep)


def through_batches(trace: int) -> Seen:
    seen: Seen = []
    job = make_job({"seen": seen})
    for epoch in job.epochs(EPOCHS):
        order = shuffled()
        for item in job.batches(order):
            take(seen, epoch, item)
            os.write(trace, b"%d\n" % len(seen))
    return seen


def through_steps(trace: int) -> Seen:
    seen: Seen = []
    order: list[int] = []
    job = make_job({"seen": seen, "order": order})
    for step in job.steps(EPOCHS * ITEMS):
        epoch, position = divmod(step, ITEMS)
        if position == 0:
            order[:] = shuffled()
        take(seen, epoch, order[position])
        os.write(trace, b"%d\n" % len(seen))
    return seen


def main() -> None:
    random.seed(12345)
    loop = os.environ["VICTIM_LOOP"]
    if loop == "plain":
        seen = plain()
    else:
        trace = os.open(os.environ["VICTIM_TRACE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        seen = through_batches(trace) if loop == "batches" else through_steps(trace)
        Path(os.environ["VICTIM_TRACE"] + ".result").write_text(json.dumps(seen))
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
