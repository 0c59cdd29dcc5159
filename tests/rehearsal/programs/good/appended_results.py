"""Results are appended all along; the state knows how long the file was, and a resume cuts it to that."""

import json
import os
import signal
import sys
import time

STEPS, EVERY = 36, 4
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
state = {"step": 0, "value": 1, "length": 0}
if os.path.exists("state.json"):
    with open("state.json") as file:
        state = json.load(file)
with open("results.jsonl", "ab") as results:
    results.truncate(state["length"])
    print("resumed", flush=True)
    while state["step"] < STEPS:
        time.sleep(0.01)
        state["value"] = (state["value"] * 17 + state["step"]) % 100003
        results.write(json.dumps({"step": state["step"], "value": state["value"]}).encode() + b"\n")
        state["step"] += 1
        if state["step"] % EVERY == 0 or stop:
            results.flush()
            state["length"] = results.tell()
            with open("state.json.tmp", "w") as file:
                json.dump(state, file)
            os.replace("state.json.tmp", "state.json")
        if stop:
            sys.exit(143)
