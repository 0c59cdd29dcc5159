"""Jobs that outlast the machines they run on. The public names, each imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outlast.checkpoint.retain import Keep
    from outlast.errors import (
        CheckpointCorrupt,
        EveryItemFailed,
        ExitingError,
        Interrupted,
        ItemError,
        LoopMisused,
        NoGoodCheckpoint,
        OutlastError,
        QueueUnreachable,
        SaveFailed,
        SettingsError,
        SinkUnreachable,
        StateMismatch,
        StateUnsupported,
        StoreUnreachable,
    )
    from outlast.job import Job
    from outlast.notices import Notice
    from outlast.schedule import Epochs, Steps
    from outlast.worker.batch import batch
    from outlast.worker.front import Queue
    from outlast.worker.worker import Worker

__version__ = "0.1.0"

_HOMES = {
    "Job": "job",
    "Notice": "notices",
    "Epochs": "schedule",
    "Keep": "checkpoint.retain",
    "Queue": "worker.front",
    "Steps": "schedule",
    "Worker": "worker.worker",
    "batch": "worker.batch",
}

__all__ = [
    "CheckpointCorrupt",
    "Epochs",
    "EveryItemFailed",
    "ExitingError",
    "Interrupted",
    "ItemError",
    "Job",
    "Keep",
    "LoopMisused",
    "NoGoodCheckpoint",
    "Notice",
    "OutlastError",
    "Queue",
    "QueueUnreachable",
    "SaveFailed",
    "SettingsError",
    "SinkUnreachable",
    "StateMismatch",
    "StateUnsupported",
    "Steps",
    "StoreUnreachable",
    "Worker",
    "batch",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"outlast.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
