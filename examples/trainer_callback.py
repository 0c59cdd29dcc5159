"""Train on handwritten digits with the Hugging Face Trainer; the run survives being interrupted at any moment.

Shuffled data, dropout, accumulated gradients and an evaluation inside the training: all of it goes on where it was. The
lines marked with an arrow are all that outlast needs. Needs: pip install 'outlast[transformers]' scikit-learn
"""

import hashlib
import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from transformers import Trainer, TrainingArguments

from outlast.callbacks.transformers import OutlastCallback  # <-- 1


class Network(nn.Module):
    """Two layers; returns what the Trainer expects."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))

    def forward(self, images, labels=None):
        """The scores of the ten digits, and the loss."""
        scores = self.layers(images)
        loss = None if labels is None else nn.functional.cross_entropy(scores, labels)
        return {"loss": loss, "logits": scores}


def main():
    """Train, measure, and write trainer-result.json."""
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    rows = [{"images": image, "labels": label} for image, label in zip(images, labels, strict=True)]
    arguments = TrainingArguments(
        output_dir="trainer-output",
        num_train_epochs=40,
        per_device_train_batch_size=32,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        save_strategy="no",  # the callback saves
        eval_strategy="steps",
        eval_steps=100,
        logging_steps=50,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=7,
    )
    torch.manual_seed(7)
    model = Network()
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows[360:],
        eval_dataset=rows[:360],
        callbacks=[OutlastCallback(every="1s")],  # <-- 2
    )
    trainer.train()

    model.eval()
    with torch.no_grad():
        right = model(images[:360])["logits"].argmax(1) == labels[:360]
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    digest = hashlib.sha256(weights).hexdigest()
    result = {"accuracy": right.float().mean().item(), "losses": losses, "weights_sha256": digest}
    Path("trainer-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {result['accuracy']:.1%}")


if __name__ == "__main__":
    main()
