"""Train a small PyTorch network on handwritten digits; the run survives being interrupted at any moment.

Momentum SGD, a learning-rate schedule, dropout and a shuffled DataLoader: all of it goes on where it was. The lines
marked with an arrow are all that outlast needs. Needs: pip install 'outlast[torch]' scikit-learn
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import outlast  # <-- 1

SEED = 7
EPOCHS = 150
BATCH = 32


def load_split():
    """Training and test images (0 … 1, float32) with their labels; the same split each time."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = np.random.default_rng(SEED).permutation(len(images))
    train, test = order[360:], order[:360]
    return TensorDataset(images[train], labels[train]), images[test], labels[test]


def new_model():
    """Two layers with dropout between them."""
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Dropout(0.25), nn.Linear(512, 10))


def train_step(model, optimizer, images, labels):
    """One step of the optimizer. Returns the mean loss of the batch."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def digest(model):
    """A fingerprint of every bit of the weights."""
    parts = [value.numpy().tobytes() for _, value in sorted(model.state_dict().items())]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def main():
    """Train, measure, and write torch-result.json."""
    torch.set_num_threads(1)  # these matrices are small: a second thread only costs time
    torch.manual_seed(SEED)  # for the first weights and for dropout; outlast keeps this generator by itself
    train, test_images, test_labels = load_split()
    shuffle = torch.Generator().manual_seed(SEED)
    loader = DataLoader(train, batch_size=BATCH, shuffle=True, generator=shuffle)
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)

    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "shuffle": shuffle}
    job = outlast.Job(state=state, every="1s")  # <-- 2
    for _epoch in job.epochs(EPOCHS):  # <-- 3
        model.train()
        for images, labels in job.batches(loader):  # <-- 4
            loss = train_step(model, optimizer, images, labels)
            job.log(loss=loss)  # <-- 5
        scheduler.step()

    model.eval()
    with torch.no_grad():
        scores = model(test_images)
    accuracy = (scores.argmax(dim=1) == test_labels).double().mean().item()
    loss = nn.functional.cross_entropy(scores, test_labels).item()
    result = {"accuracy": accuracy, "loss": loss, "weights_sha256": digest(model)}
    Path("torch-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {accuracy:.2%}, loss {loss:.4f}")
    assert accuracy >= 0.97, f"the network should reach 97 % on the held-out digits, and reached {accuracy:.2%}"


if __name__ == "__main__":
    main()
