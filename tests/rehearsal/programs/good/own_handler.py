"""A handler of its own that saves and leaves at once; signals are held back while the state changes."""

import contextlib
import os
import signal
import struct
import sys
import time

STEPS = 40
state = {"step": 0, "sum": 0, "product": 1}


@contextlib.contextmanager
def undisturbed():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def save():
    with open("state.bin.tmp", "wb") as file:
        file.write(struct.pack("<3q", state["step"], state["sum"], state["product"]))
    os.rename("state.bin.tmp", "state.bin")


def leave(number, frame):
    save()
    sys.exit(143)


def load():
    with open("state.bin", "rb") as file:
        state["step"], state["sum"], state["product"] = struct.unpack("<3q", file.read())


if os.path.exists("state.bin"):
    load()
signal.signal(signal.SIGTERM, leave)
print("running", flush=True)
while state["step"] < STEPS:
    time.sleep(0.008)
    with undisturbed():
        state["sum"] += state["step"]
        state["product"] = state["product"] * 3 % 1000003
        state["step"] += 1
        if state["step"] % 5 == 0:
            save()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("numbers.txt", "w") as file:
    print(state["sum"], state["product"], file=file)
