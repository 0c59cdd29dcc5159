"""Weights and optimizer in files of their own per generation; a manifest with digests is written last."""

import hashlib
import json
import os
import signal
import sys
import time

STEPS = 32
stop = []


def put(name, data):
    with open(name, "wb") as file:
        file.write(data)


def save(step, weights, moments):
    files = {}
    for part, values in (("weights", weights), ("moments", moments)):
        name = f"{part}-{step}.json"
        data = json.dumps(values).encode()
        put(name, data)
        files[part] = {"name": name, "digest": hashlib.sha256(data).hexdigest()}
    put("manifest.new", json.dumps({"step": step, "files": files}).encode())
    os.replace("manifest.new", "manifest.json")
    for name in os.listdir("."):
        part, _, rest = name.partition("-")
        if part in ("weights", "moments") and rest != f"{step}.json":
            os.unlink(name)


def load():
    if not os.path.exists("manifest.json"):
        return 0, [1.0, 2.0], [0.0, 0.0]
    with open("manifest.json") as file:
        manifest = json.load(file)
    parts = {}
    for part, entry in manifest["files"].items():
        with open(entry["name"], "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != entry["digest"]:
            raise SystemExit(f"{entry['name']} is not what was saved")
        parts[part] = json.loads(data)
    return manifest["step"], parts["weights"], parts["moments"]


signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
step, weights, moments = load()
print("generation", step, flush=True)
while step < STEPS:
    time.sleep(0.01)
    for index, weight in enumerate(weights):
        moments[index] = 0.5 * moments[index] + weight * 0.25 + step
        weights[index] = weight - 0.125 * moments[index]
    step += 1
    if step % 4 == 0 or stop:
        save(step, weights, moments)
    if stop:
        sys.exit(143)
with open("weights.json", "w") as file:
    json.dump(weights, file)
