"""A plain training loop that does not survive being interrupted, though it saves and loads: see what a rehearsal says.

It keeps its weights, and begins from them when there are some. The number of epochs done and the momentum are not
kept, so that after an interruption it trains for longer, and from a standstill; a kill in the middle of a save leaves
half a file, which it cannot load; and it does not hear SIGTERM.
examples/digits.py is the same training made to last. Needs: pip install numpy scikit-learn
"""

import json
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: a second thread only costs time

import numpy as np
from sklearn.datasets import load_digits

EPOCHS = 40
BATCH = 32
RATE = 0.02
MOMENTUM = 0.9
WEIGHTS = Path("plain-weights.npz")


def scores(weights, images):
    """Two layers: the scores of the ten digits, and what the hidden layer gave."""
    hidden = np.maximum(images @ weights["w1"], 0)
    return hidden @ weights["w2"], hidden


def gradients(weights, images, labels):
    """Those of the mean cross-entropy of a batch."""
    out, hidden = scores(weights, images)
    back = np.exp(out - out.max(axis=1, keepdims=True))
    back /= back.sum(axis=1, keepdims=True)
    back[np.arange(len(labels)), labels] -= 1
    back /= len(labels)
    return {"w1": images.T @ ((back @ weights["w2"].T) * (hidden > 0)), "w2": hidden.T @ back}


def main():
    """Train, measure, and write plain-result.json."""
    digits = load_digits()
    images, labels = digits.data / 16.0, digits.target
    rng = np.random.default_rng(7)
    weights = {"w1": rng.normal(0, 0.1, (64, 512)), "w2": rng.normal(0, 0.1, (512, 10))}
    if WEIGHTS.exists():
        weights = dict(np.load(WEIGHTS))  # but which epoch was it?
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    for epoch in range(EPOCHS):
        order = 360 + np.random.default_rng([7, epoch]).permutation(len(images) - 360)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            for name, gradient in gradients(weights, images[rows], labels[rows]).items():
                velocity[name] = MOMENTUM * velocity[name] - RATE * gradient
                weights[name] += velocity[name]
        np.savez(WEIGHTS, **weights)

    accuracy = float((scores(weights, images[:360])[0].argmax(axis=1) == labels[:360]).mean())
    total = float(np.abs(weights["w1"]).sum())
    Path("plain-result.json").write_text(json.dumps({"accuracy": accuracy, "sum_of_weights": total}) + "\n")
    print(f"test accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
