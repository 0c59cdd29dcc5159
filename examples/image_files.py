"""Label a folder of image files: threads read the files ahead of the model, so that it never waits for the disk.

The images are scikit-learn's digits, written as PGM files (a header and one byte for each pixel; any viewer shows
them), so that no imaging library is needed: with Pillow, `read_image` would be one call of Image.open. Kill it whenever
you like and start it again, or start several. The lines marked with an arrow are all that outlast needs.
Needs: pip install numpy scikit-learn

    python examples/image_files.py
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: a second thread only costs time

import numpy as np
from sklearn.datasets import load_digits

import outlast  # <-- 1

MODEL = Path("digits-model.npz")
FOLDER = Path("digit-images")
DATABASE = "image-files.db"
QUEUE = f"sqlite:///{DATABASE}"
SINK = f"sqlite:///{DATABASE}?table=labels"
HEADER = re.compile(rb"P5\s+(?P<width>\d+)\s+(?P<height>\d+)\s+(?P<white>\d+)\s", re.ASCII)


def write_images():
    """Writes the digits as files; the folder appears when all of them are there. The true digit is in the name."""
    digits = load_digits()
    with tempfile.TemporaryDirectory(dir=".") as unfinished:
        for number, (pixels, truth) in enumerate(zip(digits.data.astype(np.uint8), digits.target, strict=True)):
            path = Path(unfinished, "images", f"{number:04}-is-{truth}.pgm")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"P5\n8 8\n16\n" + pixels.tobytes())
        path.parent.rename(FOLDER)


def read_image(item):
    """The pixels of an item's file, 0 … 1. Called by threads, for the items of the chunks to come."""
    data = Path(item.payload["path"]).read_bytes()
    header = HEADER.match(data)
    if header is None:
        raise outlast.ItemError(item.id, "this is no PGM file")
    pixels = np.frombuffer(data, np.uint8, int(header["width"]) * int(header["height"]), header.end())
    return pixels.astype(np.float32) / int(header["white"])


def load_model():
    """The weights and biases that digits.py has saved. Called once by each worker."""
    with np.load(MODEL) as saved:
        return dict(saved)


@outlast.batch(  # <-- 2
    QUEUE, sink=SINK, chunk=32, version="digits-1", setup=load_model, load=read_image, prefetch=2
)
def classify(items, weights):
    """The most likely digit of each image."""
    hidden = np.maximum(np.stack([item.loaded for item in items]) @ weights["w1"] + weights["b1"], 0)
    return (hidden @ weights["w2"] + weights["b2"]).argmax(axis=1).tolist()


def train_if_needed():
    """`make demo` trains in a folder of its own, and leaves no model here."""
    if not MODEL.exists():
        print(f"{MODEL} is not in this folder: training it first, with digits.py", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).with_name("digits.py"))], check=True)


def report():
    """Compares the labels in the database with the names of the files."""
    with sqlite3.connect(DATABASE) as database:
        labels = {name: json.loads(value) for name, value in database.execute("SELECT id, value FROM labels")}
    right = sum(name.endswith(f"-is-{label}.pgm") for name, label in labels.items())
    print(f"{len(labels)} images labelled, {right} of them right")


def main():
    """Write the files, publish their names, work until nothing is left, report."""
    train_if_needed()
    if not FOLDER.exists():
        write_images()
    # The same as `outlast publish sqlite:///image-files.db digit-images/`.
    files = ((path.name, {"path": str(path)}) for path in sorted(FOLDER.iterdir()))
    published = outlast.Queue(QUEUE).publish(files)  # <-- 3
    print(f"{published.new} files published, {published.already} were there", flush=True)
    drained = classify.run()  # <-- 4
    print(f"{drained.computed} labelled by this worker, {drained.dead} dead letters")
    report()


if __name__ == "__main__":
    main()
