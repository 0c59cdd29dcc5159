"""Label scikit-learn's handwritten digits with the network that digits.py trains: each image gets exactly one label.

Kill it whenever you like and start it again, or start several: what is labelled stays, and nothing is labelled twice.
The lines marked with an arrow are all that outlast needs. Needs: pip install numpy scikit-learn

    python examples/classify_digits.py            publish the images, label them, say how many labels are right
    python examples/classify_digits.py publish    publish them only: for workers elsewhere (docs/howto/batch-sqlite.md)
"""

import json
import os
import sqlite3
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: a second thread only costs time

import numpy as np
from sklearn.datasets import load_digits

import outlast  # <-- 1

SEED = 7  # of the split in digits.py
HELD_OUT = 360
MODEL = Path("digits-model.npz")
DATABASE = "digits.db"
QUEUE = f"sqlite:///{DATABASE}"
SINK = f"sqlite:///{DATABASE}?table=labels"


def load_model():
    """The weights and biases that digits.py has saved. Called once by each worker."""
    with np.load(MODEL) as saved:
        return dict(saved)


@outlast.batch(QUEUE, sink=SINK, chunk=32, version="digits-1", setup=load_model)  # <-- 2
def classify(items, weights):
    """The most likely digit of each image."""
    images = np.array([item.payload["pixels"] for item in items], dtype=np.float32) / 16
    hidden = np.maximum(images @ weights["w1"] + weights["b1"], 0)
    return (hidden @ weights["w2"] + weights["b2"]).argmax(axis=1).tolist()


def train_if_needed():
    """`make demo` trains in a folder of its own, and leaves no model here."""
    if not MODEL.exists():
        print(f"{MODEL} is not in this folder: training it first, with digits.py", flush=True)
        import digits  # noqa: PLC0415 - beside this file; in this process, since a child would not hear a notice

        digits.main()


def name_of(number):
    """The item's id: it stays the same in every run, so that an image is never published twice."""
    return f"digit-{number:04}"


def publish(digits):
    """One item for each image; those that were published before are left alone."""
    pixels = digits.data.astype(int).tolist()
    items = {name_of(number): {"pixels": row} for number, row in enumerate(pixels)}
    published = outlast.Queue(QUEUE).publish(items)  # <-- 3
    print(f"{published.new} images published, {published.already} were there", flush=True)


def report(digits):
    """Compares the labels in the database with the true ones."""
    with sqlite3.connect(DATABASE) as database:
        labels = {name: json.loads(value) for name, value in database.execute("SELECT id, value FROM labels")}
    right = np.array([labels.get(name_of(number)) == truth for number, truth in enumerate(digits.target)])
    unseen = right[np.random.default_rng(SEED).permutation(len(right))[:HELD_OUT]]
    print(f"{len(labels)} of {len(right)} images labelled")
    print(f"accuracy {unseen.mean():.2%} on {HELD_OUT} images that the training never saw, {right.mean():.2%} on all")


def main():
    """Publish, work until nothing is left, report."""
    train_if_needed()
    digits = load_digits()
    publish(digits)
    if sys.argv[1:] != ["publish"]:
        drained = classify.run()  # <-- 4
        print(f"{drained.computed} labelled by this worker, {drained.dead} dead letters")
        report(digits)


if __name__ == "__main__":
    main()
