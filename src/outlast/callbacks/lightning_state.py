"""What a Lightning Trainer is at a border, beside its module and optimizers, and making another one that.

Lightning's own checkpoints lack what was logged so far in an epoch, and its resume takes ways that depend on where in
the loop it was saved. So it is loaded in two parts: first as if saved at the end of a batch, which brings Lightning to
the next batch without a side effect; there, everything is set exactly.
"""

import copy
from typing import Any

import torch
from lightning.pytorch.loops.loop import _Loop
from lightning.pytorch.trainer import call
from lightning.pytorch.trainer.connectors.logger_connector.result import _Metadata, _ResultMetric, _Sync
from torchmetrics import Metric

Tree = dict[str, Any]

_ELSEWHERE = ("state_dict", "optimizer_states", "lr_schedulers")  # parts of their own
_HYPERPARAMETERS = ("hyper_parameters", "hparams_name", "hparams_type")
_FACTS = ("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph", "add_dataloader_idx",
          "dataloader_idx", "metric_attribute")  # fmt: skip


class TrainersOwn:
    """The part of the state that stands in the Trainer. What it is given back waits for its moments."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._loaded: Tree | None = None
        self.ended = False  # whether the loop has come to its end, at the last step or before it

    def state_dict(self) -> Tree:
        """Lightning's checkpoint without what has a part of its own, and what a checkpoint of Lightning's lacks."""
        if self._loaded is not None:  # what waits to be put back is the state
            return self._loaded
        trainer = self._trainer
        whole = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        kept = {name: value for name, value in whole.items() if not _is_elsewhere(name)}
        kept["loops"] = kept["loops"]["fit_loop"]
        logs = trainer._logger_connector
        return {
            "checkpoint": kept,
            "ended": self.ended,
            "should_stop": trainer.should_stop,
            "results": [_result(key, one) for key, one in trainer.fit_loop.epoch_loop._results.items()],
            "metrics": {name: _metric_state(one) for name, one in _metrics(trainer)},
            "callback_metrics": dict(logs._callback_metrics),
            "logged_metrics": dict(logs._logged_metrics),
            "first_batch": logs._first_loop_iter,
        }

    def load_state_dict(self, state: Tree) -> None:
        """Kept until it is put back."""
        self._loaded = state

    def put_back_before(self, *, finished: bool) -> None:
        """When `fit` begins: what decides how Lightning begins."""
        if self._loaded is None:
            return
        trainer, saved = self._trainer, self._loaded
        checkpoint = {**saved["checkpoint"], "state_dict": trainer.lightning_module.state_dict()}
        loops = checkpoint["loops"]
        connector = trainer._checkpoint_connector
        connector._loaded_checkpoint = {**checkpoint, "loops": {"fit_loop": loops}}
        call._call_lightning_module_hook(trainer, "on_load_checkpoint", connector._loaded_checkpoint)
        connector.restore_datamodule()
        connector.restore_callbacks()
        connector.restore_precision_plugin_state()
        connector._loaded_checkpoint = {}
        trainer.fit_loop.load_state_dict(loops if saved["ended"] else _as_at_a_batchs_end(loops))
        if saved["ended"]:
            trainer.should_stop = saved["should_stop"]

    def put_back_at_the_border(self) -> None:
        """At the first batch, or the end where there is none: everything is as it was when the checkpoint was made."""
        saved, self._loaded = self._loaded, None
        if saved is None:
            return
        trainer = self._trainer
        logs, results = trainer._logger_connector, trainer.fit_loop.epoch_loop._results
        logs._callback_metrics, logs._logged_metrics = saved["callback_metrics"], saved["logged_metrics"]
        if saved["ended"]:
            return
        _set_exactly(trainer.fit_loop, saved["checkpoint"]["loops"])
        logs._first_loop_iter = saved["first_batch"]
        metrics = dict(_metrics(trainer))
        for name, state in saved["metrics"].items():
            if name in metrics:
                _set_metric(metrics[name], state)
        for one in saved["results"]:
            results[one["key"]] = _made_again(one, metrics, trainer)


def _is_elsewhere(name: str) -> bool:
    return name in _ELSEWHERE or name.endswith(_HYPERPARAMETERS)


def _as_at_a_batchs_end(loops: Tree) -> Tree:
    """The same as Lightning's ModelCheckpoint would have found it in `on_train_batch_end`."""
    changed = copy.deepcopy(loops)
    progress = changed["epoch_loop.batch_progress"]
    for which in ("total", "current"):
        progress[which]["completed"] -= 1
    return changed


def _set_exactly(loop: Any, state: Tree, prefix: str = "") -> None:
    """The counters of a loop and of those below; and nothing is a restart any more."""
    loop._load_from_state_dict(dict(state), prefix)
    for name, below in list(vars(loop).items()):
        if isinstance(below, _Loop):
            _set_exactly(below, state, f"{prefix}{name}.")
    loop._restarting = loop._loaded_from_state_dict = loop._resuming_from_checkpoint = False
    loop.reset_restart_stage()


def _metrics(trainer: Any) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in trainer.lightning_module.named_modules() if isinstance(one, Metric)]


def _metric_state(metric: Any) -> Tree:
    return {"state": dict(metric.metric_state), "updates": metric._update_count}


def _set_metric(metric: Any, saved: Tree) -> None:
    for name, value in saved["state"].items():
        setattr(metric, name, value)
    metric._update_count, metric._computed = saved["updates"], None


def _result(key: str, result: Any) -> Tree:
    meta = result.meta
    return {
        "key": key,
        "is_tensor": result.is_tensor,
        "facts": {name: getattr(meta, name) for name in _FACTS},
        "reduce": meta.reduce_fx.__name__,
        "sync": [meta.sync._should, meta.sync.rank_zero_only, meta.sync._op],
        "has_reset": result.has_reset,
        **(_metric_state(result) if result.is_tensor else {}),
    }


def _made_again(saved: Tree, metrics: dict[str, Any], trainer: Any) -> Any:
    """What `self.log` would have made, with its sums so far."""
    meta = _Metadata(**saved["facts"], reduce_fx=getattr(torch, saved["reduce"]))
    should, rank_zero_only, op = saved["sync"]
    meta.sync = _Sync(fn=trainer.strategy.reduce, _should=should, rank_zero_only=rank_zero_only, _op=op)
    result = _ResultMetric(meta, saved["is_tensor"])
    result.to(trainer.strategy.root_device)
    result.has_reset = saved["has_reset"]
    if saved["is_tensor"]:
        _set_metric(result, saved)
    else:
        result.value = metrics[saved["facts"]["metric_attribute"]]
        result._update_count = 1
    return result
