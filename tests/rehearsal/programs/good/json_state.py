"""State in a JSON file: a temporary name, then a rename; hears SIGTERM by a flag, as the tutorial does."""

import json
import os
import signal
import sys
import time

STEPS = 36
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))


def save(step, total):
    with open("state.tmp", "w") as file:
        json.dump({"step": step, "total": total}, file)
    os.replace("state.tmp", "state.json")


def load():
    if os.path.exists("state.json"):
        with open("state.json") as file:
            state = json.load(file)
        return state["step"], state["total"]
    return 0, 0


step, total = load()
print("begin", flush=True)
while step < STEPS:
    time.sleep(0.01)
    total = (total * 31 + step) % (2**61 - 1)
    step += 1
    if step % 4 == 0:
        save(step, total)
    if stop:
        save(step, total)
        sys.exit(143)
with open("result.json", "w") as file:
    json.dump({"total": total}, file)
print("total", total)
