"""A scratch file is cleaned up in `finally`, and the state is kept by an exception that unwinds the loop."""

import os
import signal
import sys
import time

STEPS = 36


class Stop(Exception):
    pass


stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))


def keep(step, value):
    with open("kept.tmp", "w") as file:
        file.write(f"{step} {value}")
    os.replace("kept.tmp", "kept.txt")


def run(step, value):
    scratch = open("scratch.bin", "wb")
    try:
        while step < STEPS:
            scratch.write(b"x" * 10)
            scratch.flush()
            time.sleep(0.01)
            value = (value * value + step) % 999983
            step += 1
            if step % 6 == 0:
                keep(step, value)
            if stop:
                raise Stop
        return value
    except Stop:
        keep(step, value)
        sys.exit(143)
    finally:
        scratch.close()
        os.unlink("scratch.bin")


step, value = 0, 7
if os.path.exists("kept.txt"):
    with open("kept.txt") as file:
        step, value = (int(word) for word in file.read().split())
print("go", flush=True)
value = run(step, value)
with open("value.txt", "w") as file:
    file.write(str(value))
