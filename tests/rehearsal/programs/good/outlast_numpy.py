"""A NumPy loop on an outlast Job: weights, momentum and a generator."""

import time

import numpy as np

import outlast

weights, momentum = np.zeros(4), np.zeros(4)
rng = np.random.default_rng(5)
state = {"weights": weights, "momentum": momentum, "rng": rng}
job = outlast.Job("store", state=state, every=outlast.Steps(4))
for step in job.steps(30):
    time.sleep(0.01)
    momentum *= 0.9
    momentum += rng.normal(size=4)
    weights += 0.1 * momentum + step
np.save("weights.npy", weights)
