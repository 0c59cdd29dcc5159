"""A shard per unit of work, found by its name on a restart; no state but the results themselves."""

import os
import pathlib
import signal
import time

SHARDS, ROUNDS = 12, 3


class Stopped(SystemExit):
    pass


def stop(number, frame):
    raise Stopped(143)


signal.signal(signal.SIGTERM, stop)
out = pathlib.Path("shards")
out.mkdir(exist_ok=True)
print("looking", flush=True)
for shard in range(SHARDS):
    target = out / f"{shard:03}.txt"
    if target.exists():
        continue
    value = shard
    for step in range(ROUNDS):
        time.sleep(0.01)
        value = value * 131 + step
    draft = target.with_suffix(".draft")
    draft.write_text(f"{value}\n")
    os.replace(draft, target)
lines = [path.read_text() for path in sorted(out.glob("*.txt"))]
pathlib.Path("merged.txt").write_text("".join(lines))
