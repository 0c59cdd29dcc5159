"""A callback for Lightning's Trainer: its whole state is an outlast checkpoint, and it resumes where it was.

    from outlast.callbacks.lightning import OutlastCallback
    trainer = Trainer(..., callbacks=[OutlastCallback("gs://bucket/run-7")])

Lightning resumes its counters by itself, but it begins an epoch's data anew (unless the loader has a state), and knows
nothing of random state. So the batches go through the job, which stands where Lightning lets a strategy wrap the
loader; what Lightning keeps beside its checkpoints is in lightning_state.py. Read and tested with lightning 2.6.6
(2026-11-30).
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
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
    import lightning
    from lightning.pytorch import Callback
    from lightning.pytorch.utilities import CombinedLoader

    from outlast.callbacks.lightning_state import TrainersOwn
except ModuleNotFoundError as error:
    refuse_missing(error, "lightning")

_LEAST = (2, 5)
_PARTS = frozenset({"trainer", "model", "optimizers", "schedulers"})


class OutlastCallback(Callback):
    """Makes a Lightning Trainer survive interruptions: `Trainer(..., callbacks=[OutlastCallback(url)])`, then `fit`.

    A step is an optimizer's step (with manual optimization: a batch). The module, its optimizers and schedulers, the
    scaler, loops, callbacks' states, a data module's, running means of what was logged and torchmetrics, random state
    and the place in the data travel along. It stops at a step border at a notice; when `fit` ends, the run is marked
    finished, and a rerun goes through `fit` without a step.

    - `url`: as for Job; None is $OUTLAST_URL, else ./outlast-checkpoints.
    - `state`: further parts, as for Job.
    - `options`: those of Job (every=, keep=, run=, resume=, saving=, ...).

    `job` is the Job, from `on_fit_start` on. No ckpt_path is needed, nor Lightning's checkpoints.
    One process: with WORLD_SIZE > 1, or several devices, it refuses. Raises SettingsError (78) for what it
    cannot keep exact: several training loaders, one without a length, ckpt_path.
    """

    def __init__(
        self, url: str | os.PathLike[str] | None = None, *, state: dict[str, Any] | None = None, **options: Any
    ) -> None:
        refuse_several()
        refuse_older("lightning", lightning.__version__, _LEAST)
        self._url, self._own, self._options = url, checked_options(state, _PARTS), options
        self._kept: TrainersOwn | None = None
        self._loop: DrivenLoop | None = None
        self._handler: Any = None
        self._asked_for_training_data = False
        self.job: Any = None

    # --- before the loop ----------------------------------------------------------------------------

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Before anything expensive."""
        if stage != "fit":
            return
        if self.job is not None:
            raise second_run("fit()")
        if trainer.world_size != 1:
            refuse(f"{trainer.world_size} processes: this callback is for one, and outlast.Job for several")
        if trainer.ckpt_path is not None:
            refuse(f"ckpt_path={str(trainer.ckpt_path)!r}: outlast resumes by itself; leave it out")

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """All that belongs to the state exists by now."""
        self._kept = TrainersOwn(trainer)
        parts = {
            "trainer": self._kept,
            "model": pl_module,
            "optimizers": list(trainer.optimizers),
            "schedulers": [config.scheduler for config in trainer.lr_scheduler_configs],
            **self._own,
        }
        self.job = Job(self._url, state=parts, **self._options)
        in_steps = trainer.max_steps != -1
        total = trainer.max_steps if in_steps else trainer.max_epochs
        self._loop = self.job.driven(None if total == -1 else total, unit="steps" if in_steps else "epochs")
        self._kept.put_back_before(finished=self.job.finished)
        self._handler = signal.getsignal(signal.SIGTERM)
        self._stand_before_the_data(trainer)

    def _stand_before_the_data(self, trainer: Any) -> None:
        source, strategy = trainer.fit_loop._data_source, trainer.strategy
        ask, process = source.dataloader, strategy.process_dataloader

        def dataloader() -> Any:
            loaders = ask()
            if isinstance(loaders, Mapping | Sequence | CombinedLoader):
                refuse("several training loaders are not supported; give one, of a dataset that has them all")
            self._asked_for_training_data = True
            return loaders

        def process_dataloader(loader: Any) -> Any:
            loader = process(loader)
            if not self._asked_for_training_data:
                return loader
            self._asked_for_training_data = False
            return _Batches(loader, self, trainer)

        source.dataloader, strategy.process_dataloader = dataloader, process_dataloader

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Lightning's handler of SIGTERM would raise before the step's border is reached; the job hears by itself."""
        if signal.getsignal(signal.SIGTERM) != self._handler and callable(self._handler):
            signal.signal(signal.SIGTERM, self._handler)

    # --- called by Lightning's loop ------------------------------------------------------------------

    def batches(self, loader: Any, trainer: Any) -> Iterator[Any]:
        """What is left of an epoch of `loader`."""
        assert self._loop is not None
        assert self._kept is not None
        left = self._loop.batches(
            loader,
            epoch=lambda: trainer.current_epoch,
            begins_a_step=lambda number: number % trainer.accumulate_grad_batches == 0,
        )
        return _Left(left, self._kept)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """What was logged, into the journal, as often as Lightning tells its loggers."""
        if trainer._logger_connector.should_update_logs and trainer.logged_metrics:
            self.job.log(**{name: float(value) for name, value in trainer.logged_metrics.items()})

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        """A validation may take long."""
        if self._loop is not None:
            self.job.check()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The last state is made durable and the run marked finished."""
        assert self._loop is not None
        assert self._kept is not None
        self._kept.ended = True
        self._loop.finish()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """The same for a process that died between the two: its successor has no step to do."""
        assert self._kept is not None
        if self._loop is not None and not self.job.finished:
            self._loop.finish()
        self._kept.put_back_at_the_border()  # the metrics of a finished run, for the code after `fit`


class _Left(Iterator[Any]):
    """Batches; before the first, all of Lightning is as it was at the border."""

    def __init__(self, batches: Iterator[Any], kept: "TrainersOwn") -> None:
        self._batches, self._kept = batches, kept

    def __next__(self) -> Any:
        self._kept.put_back_at_the_border()
        return next(self._batches)


class _Batches:
    """The training loader as Lightning sees it. That it has a state keeps Lightning from warning that it has none."""

    def __init__(self, loader: Any, callback: OutlastCallback, trainer: Any) -> None:
        self._loader, self._callback, self._trainer = loader, callback, trainer
        try:
            len(loader)
        except (TypeError, NotImplementedError):
            refuse("the training data has no length, and Lightning then reads a batch ahead; give data with __len__")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return self._callback.batches(self._loader, self._trainer)

    def state_dict(self) -> dict[str, Any]:
        """Empty: the job has it."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to do."""
