"""Programs for the tests of callbacks: a Trainer of each framework, whose state and losses have to come out the same.

`trial(framework, folder, **settings)` makes the process of the test a parent: each run is a fork, since importing such
a framework takes seconds. What a run has come to is the line that it prints.
"""

import hashlib
import json
import logging
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

_DRAWN = torch.Generator().manual_seed(1)
IMAGES = torch.randn(103, 8, generator=_DRAWN)
LABELS = (IMAGES[:, 0] > 0).long() + (IMAGES[:, 1] > 0).long()
TRAINED = 83  # 11 batches, of which the last is short


def noisy(images: torch.Tensor) -> torch.Tensor:
    """As augmentation does it, from both global generators."""
    return images + 0.1 * torch.randn(images.shape) + 0.01 * float(np.random.rand())


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def weights(model: nn.Module) -> str:
    return hashlib.sha256(b"".join(one.numpy().tobytes() for one in model.state_dict().values())).hexdigest()[:12]


def interrupt_at(settings: dict[str, Any], step: int) -> None:
    """In the middle of a step, if it is the one."""
    if step == settings.get("at"):
        os.kill(os.getpid(), signal.Signals[settings["signal"]])


def trainer_arguments(folder: str, settings: dict[str, Any]) -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=f"{folder}-output",
        num_train_epochs=settings.get("epochs", 3),
        max_steps=settings.get("max_steps", -1),
        per_device_train_batch_size=8,
        gradient_accumulation_steps=settings.get("window", 1),
        dataloader_num_workers=settings.get("workers", 0),
        accelerator_config={"use_seedable_sampler": settings.get("seedable", True)},
        logging_steps=3,
        save_strategy="no",
        eval_strategy="steps",
        eval_steps=4,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=7,
        learning_rate=1e-2,
        lr_scheduler_type="cosine",
        auto_find_batch_size=settings.get("auto_find_batch_size", False),
        ignore_data_skip=settings.get("ignore_data_skip", False),
    )


def run_trainer(folder: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The Hugging Face Trainer."""
    from transformers import EarlyStoppingCallback, Trainer, TrainerCallback

    from outlast.callbacks.transformers import OutlastCallback

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers()

        def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
            scores = self.layers(x)
            return {"loss": None if labels is None else nn.functional.cross_entropy(scores, labels), "logits": scores}

    class Interrupt(TrainerCallback):  # type: ignore[misc]  # of a framework without types
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            interrupt_at(settings, state.global_step)

    def collate(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {
            "x": noisy(torch.stack([row["x"] for row in rows])),
            "labels": torch.stack([row["labels"] for row in rows]),
        }

    rows = [{"x": image, "labels": label} for image, label in zip(IMAGES, LABELS, strict=True)]
    arguments = trainer_arguments(folder, settings)
    torch.manual_seed(7)
    model = Network()
    callbacks = [Interrupt(), OutlastCallback(folder, every=settings.get("every", "0s"))]
    callbacks += [EarlyStoppingCallback(1)] if settings.get("early") else []
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows[:TRAINED],
        eval_dataset=rows[TRAINED:],
        data_collator=collate,
        callbacks=callbacks,
    )
    ended = trainer.train()
    times = ("_runtime", "_per_second")
    logs = [{name: one for name, one in log.items() if not name.endswith(times)} for log in trainer.state.log_history]
    return {
        "weights": weights(model),
        "loss": ended.training_loss,
        "step": ended.global_step,
        "epoch": trainer.state.epoch,
        "logs": digest(logs),
        "drawn": torch.rand(1).item(),
    }


def lightning_module(settings: dict[str, Any]) -> Any:
    import lightning.pytorch as pl
    import torchmetrics

    class Network(pl.LightningModule):  # type: ignore[misc]  # of a framework without types
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers()
            self.right = torchmetrics.Accuracy("multiclass", num_classes=3)

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            scores = self.layers(batch[0])
            loss = nn.functional.cross_entropy(scores, batch[1])
            self.right(scores, batch[1])
            self.log("loss", loss, on_step=True, on_epoch=True)
            self.log("right", self.right, on_step=False, on_epoch=True)
            self.log("worst", loss, on_step=False, on_epoch=True, reduce_fx="max")
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("test", nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

        def configure_optimizers(self) -> dict[str, Any]:
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.7)
            often = {"interval": "step", "frequency": 4} if settings.get("by_step") else {}
            monitor = "test" if settings.get("by_step") else "loss_epoch"
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": monitor, **often}}

    return Network()


def lightning_history(settings: dict[str, Any]) -> Any:
    import lightning.pytorch as pl

    class History(pl.Callback):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def state_dict(self) -> dict[str, Any]:
            return {"seen": self.seen}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.seen = state["seen"]

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            metrics = {name: float(one) for name, one in sorted(trainer.callback_metrics.items())}
            rate = trainer.optimizers[0].param_groups[0]["lr"]
            self.seen.append([trainer.current_epoch, trainer.global_step, metrics, rate])

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if not trainer.sanity_checking:
                self.seen.append([trainer.global_step, float(trainer.callback_metrics["test"])])

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int) -> None:
            self.seen.append([trainer.global_step, number, float(outputs["loss"])])
            interrupt_at(settings, trainer.fit_loop.total_batch_idx + 1)

    return History()


def run_lightning(folder: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Lightning's Trainer."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping

    from outlast.callbacks.lightning import OutlastCallback

    def collate(rows: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        return noisy(torch.stack([row[0] for row in rows])), torch.stack([row[1] for row in rows])

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")
    workers = settings.get("workers", 0)
    pl.seed_everything(7, verbose=False, workers=workers > 0)
    module, history = lightning_module(settings), lightning_history(settings)
    callbacks = [history, OutlastCallback(folder, every=settings.get("every", "0s"))]
    callbacks += (
        [EarlyStopping("loss_epoch", patience=1, check_on_train_epoch_end=True)] if settings.get("early") else []
    )
    trainer = pl.Trainer(
        callbacks=callbacks,
        max_epochs=settings.get("epochs", 3),
        max_steps=settings.get("max_steps", -1),
        accumulate_grad_batches=settings.get("window", 1),
        val_check_interval=settings.get("validate", 1.0),
        log_every_n_steps=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    train, test = TensorDataset(IMAGES[:TRAINED], LABELS[:TRAINED]), TensorDataset(IMAGES[TRAINED:], LABELS[TRAINED:])
    trainer.fit(
        module,
        DataLoader(train, batch_size=8, shuffle=True, collate_fn=collate, num_workers=workers),
        DataLoader(test, batch_size=8),
    )
    return {
        "weights": weights(module.layers),
        "step": trainer.global_step,
        "epoch": trainer.current_epoch,
        "seen": digest(history.seen),
        "metrics": {name: float(one) for name, one in sorted(trainer.callback_metrics.items())},
        "drawn": torch.rand(1).item(),
    }


RUNS: dict[str, Callable[[str, dict[str, Any]], dict[str, Any]]] = {
    "transformers": run_trainer,
    "lightning": run_lightning,
}


class Trial:
    """Runs of one program, each in a fork of this process; `ended` has (exit code, what it has come to)."""

    def __init__(self, framework: str) -> None:
        self._framework = framework

    def run(self, folder: Path, settings: dict[str, Any], *, stop: tuple[float, str] | None = None) -> tuple[int, Any]:
        """One run to its end; `stop`: a signal after so many seconds."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            raise InChild(self._framework, str(folder), settings, writer)
        os.close(writer)
        if stop is not None:
            time.sleep(stop[0])
            os.kill(child, signal.Signals[stop[1]])  # not waited for yet, so it is still this one
        with os.fdopen(reader) as said:
            line = said.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code, json.loads(line) if line else None


class InChild(Exception):
    """In the forked child: leave everything that belongs to the parent, and run. Arguments: of `begin`."""


def begin(framework: str, folder: str, settings: dict[str, Any], writer: int) -> None:
    """What a child does; it ends as any program does."""
    os.dup2(os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    result = RUNS[framework](folder, settings)
    with os.fdopen(writer, "w") as said:
        said.write(json.dumps(result))


def at_steps(trial: Trial, folder: Path, settings: dict[str, Any], steps: list[int]) -> list[str]:
    """What went wrong when a run is interrupted in these steps, by a kill and by a notice."""
    code, whole = trial.run(folder / "whole", settings)
    wrong = [] if code == 0 and whole else [f"uninterrupted: {code}"]
    for step in steps:
        for name, expected in (("SIGKILL", -9), ("SIGTERM", 143)):
            place = folder / f"{step}-{name}"
            first, _ = trial.run(place, {**settings, "at": step, "signal": name})
            second, again = trial.run(place, settings)
            third, rerun = trial.run(place, settings)
            if (first, second, third) != (expected, 0, 0) or not again == rerun == whole:
                wrong.append(f"{name} in step {step}: {first}, {second}, {third}: {whole}, {again}, {rerun}")
    return wrong


def storm(trial: Trial, folder: Path, settings: dict[str, Any], times: int, seed: int) -> list[str]:
    """What went wrong when runs are killed or told to stop at random moments, until there were `times` of those."""
    began = time.monotonic()
    code, whole = trial.run(folder / "whole", settings)
    took, drawn = time.monotonic() - began, random.Random(seed)
    wrong, done, number = [] if code == 0 and whole else [f"uninterrupted: {code}"], 0, 0
    while done < times and not wrong:
        number += 1
        for _ in range(4):
            name = drawn.choice(["SIGKILL", "SIGTERM"])
            code, result = trial.run(folder / str(number), settings, stop=(drawn.uniform(0.1, took), name))
            done += code in (-9, 143, -15)  # -15: before there was a job
            if code not in (-9, 143, -15, 0) or result not in (None, whole):
                wrong.append(f"{name}: {code}, {result}")
        code, result = trial.run(folder / str(number), settings)
        if code != 0 or result != whole:
            wrong.append(f"run {number}: {code}: {whole}, {result}")
    print(f"{done} interruptions in {number} runs of {took:.1f} s", file=sys.stderr)
    return wrong


def main(framework: str, folder: Path, settings: dict[str, Any]) -> None:
    """Prints what went wrong, as JSON. The framework is imported before the first fork."""
    __import__(f"outlast.callbacks.{framework}")
    __import__("outlast.job")
    how, trial = settings.pop("how"), Trial(framework)
    tried = storm if "times" in how else at_steps
    print(json.dumps(tried(trial, folder, settings, **how)))


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
        arguments: tuple[Any, ...] = ()
    except InChild as child:
        arguments = child.args
    if arguments:
        begin(*arguments)
