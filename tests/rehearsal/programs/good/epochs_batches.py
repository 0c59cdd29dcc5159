"""Epochs over shuffled items in batches, the last one partial; the order is drawn anew for each epoch."""

import json
import os
import random
import signal
import time

ITEMS, BATCH, EPOCHS = 11, 4, 11


class Interrupted(Exception):
    pass


asked = False


def on_term(number, frame):
    global asked
    asked = True


def order_of(epoch):
    order = list(range(ITEMS))
    random.Random(epoch).shuffle(order)
    return order


def write(name, content):
    with open(name + "~", "w") as file:
        json.dump(content, file)
    os.rename(name + "~", name)


def read(name, default):
    if os.path.isfile(name):
        with open(name) as file:
            return json.load(file)
    return default


def train(state):
    while state["epoch"] < EPOCHS:
        order = order_of(state["epoch"])
        while state["seen"] < ITEMS:
            batch = order[state["seen"] : state["seen"] + BATCH]
            time.sleep(0.01)
            for item in batch:
                state["loss"] = (state["loss"] * 7 + item) % 1000003
            state["seen"] += len(batch)
            write("progress.json", state)
            if asked:
                raise Interrupted
        state["history"].append(state["loss"])
        state["epoch"] += 1
        state["seen"] = 0
    return state["history"]


signal.signal(signal.SIGTERM, on_term)
print("start", flush=True)
try:
    history = train(read("progress.json", {"epoch": 0, "seen": 0, "loss": 1, "history": []}))
except Interrupted:
    raise SystemExit(143) from None
write("history.json", history)
