"""A random walk with momentum: position, velocity and random state in one pickle, synced and renamed."""

import os
import pickle
import random
import signal
import sys
import time

STEPS = 36


class Walk:
    def __init__(self):
        self.step = 0
        self.position = 0.0
        self.velocity = 0.0
        self.stopping = False
        random.seed(11)

    def hear(self, number, frame):
        self.stopping = True

    def save(self):
        parts = {
            "step": self.step,
            "position": self.position,
            "velocity": self.velocity,
            "random": random.getstate(),
        }
        with open("walk.pickle.new", "wb") as file:
            pickle.dump(parts, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace("walk.pickle.new", "walk.pickle")

    def restore(self):
        if not os.path.exists("walk.pickle"):
            return
        with open("walk.pickle", "rb") as file:
            parts = pickle.load(file)
        self.step = parts["step"]
        self.position = parts["position"]
        self.velocity = parts["velocity"]
        random.setstate(parts["random"])

    def advance(self):
        time.sleep(0.01)
        self.velocity = 0.9 * self.velocity + random.uniform(-1, 1)
        self.position += self.velocity
        self.step += 1


walk = Walk()
signal.signal(signal.SIGTERM, walk.hear)
walk.restore()
print("at", walk.step, flush=True)
while walk.step < STEPS:
    walk.advance()
    if walk.step % 3 == 0:
        walk.save()
    if walk.stopping:
        walk.save()
        sys.exit(143)
with open("position.txt", "w") as file:
    file.write(f"{walk.position!r}\n")
