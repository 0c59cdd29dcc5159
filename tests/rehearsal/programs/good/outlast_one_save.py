"""outlast.Job that is done before its first save is due: the last state alone is saved, and takes many writes."""

import time

import numpy as np

import outlast

state = {"weights": np.zeros(1_200_000), "seen": np.zeros(3, np.int64)}
job = outlast.Job(state=state, every="1h")
for step in job.steps(30):
    state["weights"] += np.arange(len(state["weights"])) % (step + 2)
    state["seen"] += step
    time.sleep(0.02)
np.savetxt("result.txt", [state["weights"].sum(), *state["seen"]])
