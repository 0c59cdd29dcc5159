"""A callback for the Hugging Face Trainer: its whole state is an outlast checkpoint, and it resumes where it was.

    from outlast.callbacks.transformers import OutlastCallback
    trainer = Trainer(..., callbacks=[OutlastCallback("gs://bucket/run-7")])

The Trainer hands no callback to itself and decides how far it is before any callback is asked. So the callback finds
the Trainer that it was given to (it is the caller of `on_init_end`), and stands before three of its methods: `train`,
which is told of the checkpoint in the Trainer's own way, by a trainer_state.json; `get_train_dataloader`, whose batches
go through the job, since borders, order and random state are decided there; `_load_from_checkpoint`, which would look
for weights in that folder. Read and tested with transformers 5.24 and accelerate 1.15 (2026-11-30).
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from types import FrameType
from typing import Any

from outlast.callbacks.refusing import (
    checked_options,
    refuse,
    refuse_missing,
    refuse_older,
    refuse_several,
    second_run,
)
from outlast.driven import DrivenLoop
from outlast.job import Job

try:
    import torch
    import transformers
    from accelerate.utils import send_to_device
    from torch.utils.data import DataLoader, IterableDataset
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_callback import ExportableState
except ModuleNotFoundError as error:
    refuse_missing(error, "transformers")

_LEAST = (5, 0)  # before, the sum of the losses was a local variable of the loop
_STATE_FILE = "trainer_state.json"
_PARTS = frozenset({"trainer", "model", "optimizer", "scheduler", "scaler"})
# What the Trainer keeps beside its TrainerState: the losses since the last log, and what a run is measured from.
_COUNTERS = ("_total_loss_scalar", "_globalstep_last_logged", "current_flos", "_initial_num_input_tokens_seen")
_TIMES = ("_runtime", "_per_second")
_NO_EPOCH_LEFT = 1 << 62


class OutlastCallback(TrainerCallback):
    """Makes a Trainer survive interruptions: `Trainer(..., callbacks=[OutlastCallback(url)])`, then `trainer.train()`.

    A step is an optimizer's step. Model, optimizer, scheduler, scaler, the Trainer's counters, losses and logs, what
    its callbacks know (those that are ExportableState), random state and the place in the data travel along. It
    stops at a step border at a notice; at the end of `train` the run is marked finished, and a rerun goes through
    `train` without a step. What the Trainer logs is in `job.history()`.

    - `url`: as for Job; None is $OUTLAST_URL, else ./outlast-checkpoints.
    - `state`: further parts, as for Job.
    - `options`: those of Job (every=, keep=, run=, resume=, saving=, ...).

    `job` is the Job, from `train` on. The Trainer's own checkpoints are not needed: save_strategy="no".
    One process: with WORLD_SIZE > 1 it refuses. Raises SettingsError (78) for what it cannot keep exact: data
    without a length, auto_find_batch_size, ignore_data_skip, resume_from_checkpoint, a hyperparameter search.
    """

    def __init__(
        self, url: str | os.PathLike[str] | None = None, *, state: dict[str, Any] | None = None, **options: Any
    ) -> None:
        refuse_several()
        refuse_older("transformers", transformers.__version__, _LEAST)
        self._url, self._own, self._options = url, checked_options(state, _PARTS), options
        self._trainer: Any = None
        self._kept: _TrainersOwn | None = None
        self._stream: _Stream | None = None
        self._loop: DrivenLoop | None = None
        self._next_epoch = 0
        self.job: Any = None

    # --- before the loop ----------------------------------------------------------------------------

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Finds the Trainer, and stands before its methods."""
        trainer: Any = _caller(self)
        if trainer is None:
            return  # told by on_train_begin
        self._trainer, self._kept = trainer, _TrainersOwn(trainer)
        self._train, self._get_loader, self._num_examples = (
            trainer.train,
            trainer.get_train_dataloader,
            trainer.num_examples,
        )
        trainer.train, trainer.get_train_dataloader = self.train, self.train_dataloader
        trainer.num_examples = self.num_examples

    def train(self, resume_from_checkpoint: Any = None, trial: Any = None, *args: Any, **named: Any) -> Any:
        """Trainer.train, from where the last checkpoint left it."""
        if self.job is not None:
            raise second_run("train()")
        trainer, kept = self._trainer, self._kept
        assert kept is not None
        _refuse_settings(trainer.args, resume_from_checkpoint, trial)
        parts = {"trainer": kept, **({} if trainer.model_init else {"model": trainer.model}), **self._own}
        self.job = Job(self._url, state=parts, **self._options)
        if kept.loaded is None:
            return self._train(None, trial, *args, **named)
        _refuse_lost_best_model(trainer.args, kept.loaded)
        # Loading the weights is what Job has done.
        trainer._load_from_checkpoint = lambda *_, **__: None
        with tempfile.TemporaryDirectory(prefix="outlast-trainer-") as folder:
            Path(folder, _STATE_FILE).write_text(kept.state_to_start_from())
            return self._train(folder, trial, *args, **named)

    def train_dataloader(self) -> Any:
        """Trainer.get_train_dataloader, with batches that go through the job."""
        loader = self._get_loader()
        if not _has_length(loader):
            refuse(
                "the training data has no length, so the Trainer does not know in which epoch it is; give a dataset "
                "with __len__, or write the loop with outlast.Job"
            )
        self._stream = _Stream(loader, self)
        own = torch.Generator()  # so that nothing is drawn from the program's
        return DataLoader(self._stream, batch_size=None, collate_fn=_unchanged, generator=own)

    def num_examples(self, dataloader: Any) -> Any:
        """Trainer.num_examples, of the loader behind the stream."""
        inner = getattr(dataloader, "dataset", None)
        return self._num_examples(inner.loader if isinstance(inner, _Stream) else dataloader)

    # --- called by the Trainer's loop ----------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All parts exist by now."""
        if self._trainer is None:
            refuse("give the callback to the Trainer when it is made: Trainer(..., callbacks=[OutlastCallback(...)])")
        trainer, kept = self._trainer, self._kept
        assert kept is not None
        if self._trainer.model_init:
            self.job.register("model", trainer.model)
        self.job.register("optimizer", getattr(trainer.optimizer, "optimizer", trainer.optimizer))
        self.job.register("scheduler", trainer.lr_scheduler)
        if getattr(trainer.accelerator, "scaler", None) is not None:
            self.job.register("scaler", trainer.accelerator.scaler)
        if kept.loaded is not None:
            kept.put_back()
            trainer.__dict__.pop("_load_from_checkpoint", None)
        self._loop = self.job.driven(state.max_steps)
        assert self._stream is not None
        steps_in_epoch = -(-len(self._stream) // args.gradient_accumulation_steps)
        self._next_epoch = state.global_step // steps_in_epoch
        if self._loop.resuming is not None and self._loop.epoch > self._next_epoch:
            refuse("a callback has ended an epoch early (should_epoch_stop): the Trainer cannot resume after that")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The next iteration of the data is of this epoch."""
        assert self._stream is not None
        self._stream.epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1

    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation may take long."""
        if self._loop is not None:
            self.job.check()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """What the Trainer logs, into the journal."""
        if self._loop is not None and not self.job.finished:
            self.job.log(**{name: value for name, value in (logs or {}).items() if isinstance(value, int | float)})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The last state is made durable and the run marked finished."""
        assert self._loop is not None
        assert self._kept is not None
        self._kept.ended = True
        self._loop.finish()

    def batches(self, loader: Any, epoch: int) -> Iterator[Any]:
        """For the stream: what is left of an epoch of `loader`."""
        assert self._loop is not None
        window = self._trainer.args.gradient_accumulation_steps
        return self._loop.batches(loader, epoch=lambda: epoch, begins_a_step=lambda number: number % window == 0)

    @property
    def passed(self) -> int:
        """How many batches the Trainer is about to pass, since it resumes inside an epoch."""
        loop = self._loop
        return loop.batches_done if loop is not None and loop.resuming is not None else 0


class _Stream(IterableDataset[Any]):
    """The batches of the Trainer's loader, one after the other, as a dataset of batches.

    The Trainer passes the batches that a resume has behind it, whatever the loader; here those are None.
    """

    def __init__(self, loader: Any, callback: OutlastCallback) -> None:
        self.loader, self._callback, self.epoch = loader, callback, 0

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        # Accelerate's loader reads one batch ahead, across the border: the one that it wraps does not.
        plain = getattr(self.loader, "base_dataloader", self.loader)
        device = getattr(self.loader, "device", None)
        if hasattr(self.loader, "set_epoch"):
            self.loader.set_epoch(self.epoch)
        yield from repeat(None, self._callback.passed)
        for batch in self._callback.batches(plain, self.epoch):
            yield batch if device is None else send_to_device(batch, device, non_blocking=False)


class _TrainersOwn:
    """The part of the state that stands in the Trainer itself. What it is given back waits for the loop to begin."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.loaded: dict[str, Any] | None = None
        self.ended = False  # whether the loop has come to its end, at the last step or before it
        self._goes_on = False  # although it had: more steps are asked for

    def state_dict(self) -> dict[str, Any]:
        """Texts and numbers."""
        trainer = self._trainer
        losses = getattr(trainer, "_tr_loss", None)
        return {
            "state": json.dumps(_without_times(asdict(trainer.state))),
            "callbacks": json.dumps([[_name(one), one.state()] for one in self._exportable()]),
            "counters": {name: getattr(trainer, name, 0) for name in _COUNTERS},
            "loss": 0.0 if losses is None else losses.item(),
            "ended": self.ended,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Kept until `put_back`."""
        self.loaded = state

    def state_to_start_from(self) -> str:
        """For the Trainer's own resume; after the end of a run it finds no epoch left, unless more are asked for."""
        assert self.loaded is not None
        text: str = self.loaded["state"]
        if not self.loaded["ended"]:
            return text
        state, args = json.loads(text), self._trainer.args
        more = args.max_steps > state["max_steps"]
        if args.max_steps <= 0:
            more = math.ceil(args.num_train_epochs) > state["num_train_epochs"]
        if more:
            self._goes_on = True
            return text
        logs = state["log_history"]
        if logs and "train_loss" in logs[-1]:  # the summary, which the Trainer logs again
            logs.pop()
        return json.dumps({**state, "global_step": _NO_EPOCH_LEFT})

    def put_back(self) -> None:
        """What the Trainer has set to begin with is replaced."""
        trainer, saved = self._trainer, self.loaded
        assert saved is not None
        trainer.state.global_step = json.loads(saved["state"])["global_step"]
        for name, value in saved["counters"].items():
            setattr(trainer, name, value)
        trainer._initial_global_step = 0  # the final loss is a mean over all steps, since their sum is kept
        loss = saved["loss"]  # of the steps since the last log, which the Trainer adds to the sum at its end
        if saved["ended"] and self._goes_on:
            trainer._total_loss_scalar -= loss
        elif saved["ended"]:
            loss = 0.0
        trainer._tr_loss.fill_(loss)
        states = json.loads(saved["callbacks"])
        for one, (name, state) in zip(self._exportable(), states, strict=False):
            if name == _name(one):
                for attribute, value in state.get("attributes", {}).items():
                    setattr(one, attribute, value)

    def _exportable(self) -> list[Any]:
        trainer = self._trainer
        return [
            one for one in (*trainer.callback_handler.callbacks, trainer.control) if isinstance(one, ExportableState)
        ]


def _without_times(state: dict[str, Any]) -> dict[str, Any]:
    """The logs without what a process measured of itself: a checkpoint holds what another run would have come to."""
    logs = [
        {name: value for name, value in entry.items() if not name.endswith(_TIMES)} for entry in state["log_history"]
    ]
    return {**state, "log_history": logs}


def _name(value: object) -> str:
    return type(value).__name__


def _caller(callback: OutlastCallback) -> Any:
    """The Trainer in whose __init__ this is called; None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        one = frame.f_locals.get("self")
        if isinstance(one, Trainer) and callback in one.callback_handler.callbacks:
            return one
        frame = frame.f_back
    return None


def _unchanged(batch: Any) -> Any:
    return batch


def _has_length(loader: Any) -> bool:
    try:
        return len(loader) > 0
    except (TypeError, NotImplementedError):
        return False


def _refuse_settings(args: Any, resume_from_checkpoint: Any, trial: Any) -> None:
    if resume_from_checkpoint:
        refuse(f"resume_from_checkpoint={resume_from_checkpoint!r}: outlast resumes by itself; leave it out")
    if trial is not None:
        refuse("a hyperparameter search makes many runs of one Trainer; use the callback without one")
    for name in ("auto_find_batch_size", "ignore_data_skip"):
        if getattr(args, name):
            refuse(f"{name}=True cannot be resumed exactly; leave it out")


def _refuse_lost_best_model(args: Any, saved: dict[str, Any]) -> None:
    best = json.loads(saved["state"]).get("best_model_checkpoint")
    if args.load_best_model_at_end and best is not None and not Path(best).is_dir():
        refuse(
            f"load_best_model_at_end=True, and the best model's folder {best} is not on this machine; let output_dir "
            "be a folder that stays (a mounted bucket), or leave it out"
        )
