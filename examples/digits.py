"""Train a small network on scikit-learn's handwritten digits; the run survives being interrupted at any moment.

NumPy only: forward pass, backward pass, momentum, dropout and learning-rate decay are written out. The lines
marked with an arrow are all that outlast needs. Needs: pip install numpy scikit-learn
"""

import hashlib
import json
import os
from importlib.metadata import distribution
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: a second thread only costs time

import numpy as np

import outlast  # <-- 1

SEED = 7
EPOCHS = 160
BATCH = 32
HIDDEN = 1536
DROPOUT = 0.25
NOISE = 0.1
MOMENTUM = 0.9
FIRST_RATE = 0.05
RATE_DECAY = 0.985
MODEL = "digits-model.npz"
DIGITS = "sklearn/datasets/data/digits.csv.gz"


def load_split():
    """Images scaled to 0 … 1 as float32, and labels; 1437 to train on and 360 to test on, the same each time.

    Read from the file that scikit-learn ships: importing it would take each attempt a second before its first step.
    """
    digits = np.loadtxt(distribution("scikit-learn").locate_file(DIGITS), delimiter=",")
    images, labels = (digits[:, :-1] / 16.0).astype(np.float32), digits[:, -1].astype(int)
    order = np.random.default_rng(SEED).permutation(len(images))
    train, test = order[360:], order[:360]
    return images[train], labels[train], images[test], labels[test]


def new_weights(rng):
    """Weights and biases of both layers (He initialisation)."""
    return {
        "w1": (rng.standard_normal((64, HIDDEN)) * np.sqrt(2 / 64)).astype(np.float32),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": (rng.standard_normal((HIDDEN, 10)) * np.sqrt(2 / HIDDEN)).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }


def batches_of(epoch, count):
    """The batches of an epoch as arrays of row numbers, shuffled anew in each; the order depends on nothing else."""
    order = np.random.default_rng([SEED, epoch]).permutation(count)
    return [order[start : start + BATCH] for start in range(0, count, BATCH)]


def log_softmax(scores):
    """Logarithms of the probabilities of the ten digits, row by row."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def train_step(weights, velocity, images, labels, *, rate, rng):
    """One step of SGD with momentum, in place. Returns the mean loss of the batch."""
    images = images + NOISE * rng.standard_normal(images.shape, dtype=np.float32)
    hidden = np.maximum(images @ weights["w1"] + weights["b1"], 0)
    kept = (rng.random(hidden.shape, dtype=np.float32) >= DROPOUT).astype(np.float32) / np.float32(1 - DROPOUT)
    dropped = hidden * kept
    logs = log_softmax(dropped @ weights["w2"] + weights["b2"])
    rows = np.arange(len(labels))
    loss = -logs[rows, labels].mean()

    back = np.exp(logs)
    back[rows, labels] -= 1
    back /= len(labels)
    back_hidden = (back @ weights["w2"].T) * kept * (hidden > 0)
    gradients = {
        "w1": images.T @ back_hidden,
        "b1": back_hidden.sum(axis=0),
        "w2": dropped.T @ back,
        "b2": back.sum(axis=0),
    }
    for name, gradient in gradients.items():
        velocity[name] *= MOMENTUM
        velocity[name] -= np.float32(rate) * gradient
        weights[name] += velocity[name]
    return float(loss)


def measure(weights, images, labels):
    """Accuracy and mean loss, without dropout and noise."""
    hidden = np.maximum(images @ weights["w1"] + weights["b1"], 0)
    logs = log_softmax(hidden @ weights["w2"] + weights["b2"])
    accuracy = float((logs.argmax(axis=1) == labels).mean())
    return accuracy, float(-logs[np.arange(len(labels)), labels].mean())


def digest(weights):
    """A fingerprint of every bit of the weights."""
    return hashlib.sha256(b"".join(weights[name].tobytes() for name in sorted(weights))).hexdigest()


def main():
    """Train, measure, and write digits-model.npz and digits-result.json."""
    train_images, train_labels, test_images, test_labels = load_split()
    rng = np.random.default_rng(SEED)  # draws the weights, then noise and dropout
    weights = new_weights(rng)
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}

    job = outlast.Job(state={"weights": weights, "velocity": velocity, "rng": rng}, every="0.5s")  # <-- 2
    for epoch in job.epochs(EPOCHS):  # <-- 3
        rate = FIRST_RATE * RATE_DECAY**epoch
        for rows in job.batches(batches_of(epoch, len(train_images))):  # <-- 4
            loss = train_step(weights, velocity, train_images[rows], train_labels[rows], rate=rate, rng=rng)
            job.log(loss=loss)  # <-- 5

    np.savez(f"new-{MODEL}", **weights)
    Path(f"new-{MODEL}").replace(MODEL)  # who finds it finds all of it
    accuracy, loss = measure(weights, test_images, test_labels)
    result = {"accuracy": accuracy, "loss": loss, "weights_sha256": digest(weights)}
    Path("digits-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {accuracy:.2%}, loss {loss:.4f}")
    assert accuracy >= 0.97, f"the network should reach 97 % on the held-out digits, and reached {accuracy:.2%}"


if __name__ == "__main__":
    main()
