"""Epochs and batches on an outlast Job; the order of items comes from the random module."""

import json
import random
import time

import outlast

ITEMS = list(range(10))


class Shuffled:
    def __iter__(self):
        order = random.sample(ITEMS, len(ITEMS))
        for at in range(0, len(order), 4):
            yield order[at : at + 4]

    def __len__(self):
        return 3


random.seed(2)
totals = {"seen": 0, "loss": 1}
history = []
job = outlast.Job("store", state={"totals": totals, "history": history}, every=outlast.Steps(2))
for _epoch in job.epochs(8):
    for batch in job.batches(Shuffled()):
        time.sleep(0.012)
        for item in batch:
            totals["loss"] = (totals["loss"] * 5 + item) % 1000003
            totals["seen"] += 1
        job.log(loss=totals["loss"])
    history.append(totals["loss"])
with open("history.json", "w") as file:
    json.dump(history, file)
