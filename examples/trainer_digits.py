"""Train on handwritten digits with the Hugging Face Trainer, so that the run survives being interrupted.

No outlast in it: the Trainer saves and resumes by its own means. What it lacks for machines that go away is marked
with an arrow. Needs: pip install transformers[torch] scikit-learn
"""

import signal
import sys

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # <-- 1: as PID 1, nothing else would hear while it imports

import hashlib
import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

OUTPUT = Path("trainer-output")


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


class StopAtSigterm(TrainerCallback):  # <-- 2: save at the end of the step under way, and stop
    """Without it, as PID 1 the program would train on until SIGKILL."""

    stopping = False

    def on_train_begin(self, args, state, control, **_):
        """From here on, SIGTERM ends the training at a step's end."""
        signal.signal(signal.SIGTERM, self.hear)

    def hear(self, *_):
        """Notes that the machine goes away."""
        self.stopping = True

    def on_step_end(self, args, state, control, **_):
        """Asks the Trainer for a checkpoint and for the end."""
        if self.stopping:
            control.should_save = control.should_training_stop = True


def newest_whole_checkpoint():
    """The newest checkpoint that was written to its end; None where there is none.  <-- 3

    A kill in the middle of a save leaves a folder with half of the files, and the Trainer's own choice is the newest
    folder. It writes trainer_state.json last.
    """
    found = sorted(OUTPUT.glob("checkpoint-*"), key=lambda folder: int(folder.name.split("-")[1]))
    for folder in reversed(found):
        try:
            json.loads((folder / "trainer_state.json").read_text())
        except (OSError, ValueError):
            continue
        return str(folder)
    return None


def main():
    """Train, measure, and write trainer-result.json."""
    torch.set_num_threads(1)
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    rows = [{"images": image, "labels": label} for image, label in zip(images, labels, strict=True)]
    arguments = TrainingArguments(
        output_dir=str(OUTPUT),
        num_train_epochs=30,
        per_device_train_batch_size=64,
        learning_rate=3e-3,
        save_steps=50,
        save_total_limit=3,
        logging_steps=50,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=7,
    )
    torch.manual_seed(7)
    model, stop = Network(), StopAtSigterm()
    trainer = Trainer(model=model, args=arguments, train_dataset=rows[360:], callbacks=[stop])
    trainer.train(resume_from_checkpoint=newest_whole_checkpoint())
    if stop.stopping:
        sys.exit(143)  # <-- 4: the Trainer returns as if it had finished; with 0, the platform would believe that

    model.eval()
    with torch.no_grad():
        right = model(images[:360])["logits"].argmax(1) == labels[:360]
    weights = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    result = {"accuracy": right.float().mean().item(), "weights_sha256": hashlib.sha256(weights).hexdigest()}
    Path("trainer-result.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"test accuracy {result['accuracy']:.1%}")


if __name__ == "__main__":
    main()
