"""Least squares by gradient steps in NumPy: weights, momentum and generator state in one npz."""

import json
import os
import signal
import sys
import time

import numpy as np

STEPS = 30
SAVE_EVERY = 3
stop = {"asked": False}


def on_term(number, frame):
    stop["asked"] = True


def save(path, weights, momentum, rng, step):
    temporary = path + ".part"
    state = json.dumps(rng.bit_generator.state)
    with open(temporary, "wb") as file:
        np.savez(file, weights=weights, momentum=momentum, random=np.array(state), step=np.array(step))
    os.replace(temporary, path)


def load(path, weights, momentum, rng):
    try:
        with np.load(path) as saved:
            weights[:] = saved["weights"]
            momentum[:] = saved["momentum"]
            rng.bit_generator.state = json.loads(str(saved["random"]))
            return int(saved["step"])
    except FileNotFoundError:
        return 0


def main():
    signal.signal(signal.SIGTERM, on_term)
    rng = np.random.default_rng(3)
    data = np.random.default_rng(0).normal(size=(64, 4))
    target = data @ np.arange(4.0)
    weights, momentum = np.zeros(4), np.zeros(4)
    step = load("model.npz", weights, momentum, rng)
    print("from", step, flush=True)
    while step < STEPS:
        time.sleep(0.01)
        rows = rng.integers(0, 64, size=8)
        gradient = data[rows].T @ (data[rows] @ weights - target[rows])
        momentum *= 0.8
        momentum += gradient
        weights -= 0.01 * momentum
        step += 1
        if step % SAVE_EVERY == 0 or stop["asked"]:
            save("model.npz", weights, momentum, rng, step)
        if stop["asked"]:
            sys.exit(143)
    np.save("weights.npy", weights)


main()
