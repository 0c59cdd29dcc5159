"""Train on handwritten digits with Lightning, so that the run survives being interrupted.

No outlast in it: Lightning saves and resumes by its own means. What it lacks for machines that go away is marked with
an arrow. Needs: pip install lightning scikit-learn
"""

import signal
import sys

# <-- 1: Lightning calls this handler beside its own, which alone would leave with 0: the platform would believe that
# the work is done. As PID 1, nothing else would hear while it imports.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

import hashlib
import json
import logging
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

OUTPUT = Path("lightning-output")


class Digits(pl.LightningModule):
    """Two layers and Adam."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))

    def training_step(self, batch, _index):
        """The loss of a batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.layers(images), labels)

    def configure_optimizers(self):
        """Adam with its usual settings."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class SeedEachStep(pl.Callback):  # <-- 2: Lightning's checkpoints do not hold the random state
    """With it, dropout depends on the step alone, whichever process does that step."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        """Seeds torch."""
        torch.manual_seed(trainer.global_step)


def main():
    """Train, measure, and write lightning-result.json."""
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    # The first thing that it writes is a checkpoint, so a rehearsal sees when the work begins.
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")
    pl.seed_everything(7, verbose=False)
    model = Digits()
    keep = ModelCheckpoint(OUTPUT, filename="last", every_n_epochs=1, enable_version_counter=False, save_top_k=1)
    trainer = pl.Trainer(
        max_epochs=120,
        accelerator="cpu",
        logger=False,
        callbacks=[keep, SeedEachStep()],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    rows = TensorDataset(images[360:], labels[360:])
    order = DistributedSampler(rows, num_replicas=1, rank=0, seed=7)  # <-- 3: shuffles by the epoch's number alone
    loader = DataLoader(rows, batch_size=64, sampler=order)
    newest = OUTPUT / "last.ckpt"
    trainer.fit(model, loader, ckpt_path=newest if newest.exists() else None)

    model.eval()
    with torch.no_grad():
        right = model.layers(images[:360]).argmax(1) == labels[:360]
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    result = {"accuracy": right.float().mean().item(), "weights_sha256": hashlib.sha256(weights).hexdigest()}
    Path("lightning-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {result['accuracy']:.1%}")


if __name__ == "__main__":
    main()
