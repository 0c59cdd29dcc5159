"""Train on handwritten digits with Lightning; the run survives being interrupted at any moment.

Shuffled data, dropout, a validation inside the training and a schedule that follows the mean loss of an epoch: all of
it goes on where it was. The lines marked with an arrow are all that outlast needs.
Needs: pip install 'outlast[lightning]' scikit-learn
"""

import hashlib
import json
import logging
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from outlast.callbacks.lightning import OutlastCallback  # <-- 1


class Digits(pl.LightningModule):
    """Two layers and Adam, whose rate falls when an epoch was no better than the ones before."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))

    def training_step(self, batch, _index):
        """The loss of a batch."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _index):
        """The loss of a batch of the test images."""
        images, labels = batch
        self.log("test_loss", nn.functional.cross_entropy(self.layers(images), labels))

    def configure_optimizers(self):
        """Adam, and its rate."""
        optimizer = torch.optim.Adam(self.parameters(), lr=3e-3)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "loss"}}


def main():
    """Train, measure, and write lightning-result.json."""
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")
    pl.seed_everything(7, verbose=False)
    model = Digits()
    trainer = pl.Trainer(
        max_epochs=40,
        accelerator="cpu",
        val_check_interval=0.5,
        logger=False,
        enable_checkpointing=False,  # the callback saves
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[OutlastCallback(every="1s")],  # <-- 2
    )
    train = DataLoader(TensorDataset(images[360:], labels[360:]), batch_size=32, shuffle=True)
    test = DataLoader(TensorDataset(images[:360], labels[:360]), batch_size=360)
    trainer.fit(model, train, test)

    model.eval()
    with torch.no_grad():
        right = model.layers(images[:360]).argmax(1) == labels[:360]
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    measured = {name: float(value) for name, value in trainer.callback_metrics.items()}
    digest = hashlib.sha256(weights).hexdigest()
    result = {"accuracy": right.float().mean().item(), "metrics": measured, "weights_sha256": digest}
    Path("lightning-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {result['accuracy']:.1%}")


if __name__ == "__main__":
    main()
