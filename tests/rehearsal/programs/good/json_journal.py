"""An append-only journal of finished steps; a torn last line is cut off before more is added."""

import json
import os
import signal
import sys
import time

STEPS = 36
stop = []


def replay(path):
    step, total, good = 0, 0, 0
    if os.path.exists(path):
        with open(path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                entry = json.loads(line)
                step, total = entry["step"], entry["total"]
                good += len(line)
        os.truncate(path, good)
    return step, total


signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
step, total = replay("journal.jsonl")
print("replayed", step, flush=True)
with open("journal.jsonl", "ab", buffering=0) as journal:
    while step < STEPS:
        time.sleep(0.01)
        total = total * 3 % 1000003 + step
        step += 1
        journal.write(json.dumps({"step": step, "total": total}).encode() + b"\n")
        if stop:
            sys.exit(143)
with open("summary.json", "w") as file:
    json.dump({"steps": step, "total": total}, file)
