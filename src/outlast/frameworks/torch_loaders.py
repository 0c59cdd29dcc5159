"""Torch's DataLoader: which generators order it, and how to pass batches without loading them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import data
from torch.utils.data.distributed import DistributedSampler

# Samplers that draw from the global random state at their first index at the latest. One that draws later, as a
# sampler of the user's may, gets other numbers when nothing was loaded in between: those are drawn and dropped.
_STEADY_SAMPLERS = (
    data.SequentialSampler,
    data.RandomSampler,
    data.SubsetRandomSampler,
    data.WeightedRandomSampler,
    DistributedSampler,
)
# By name, since nothing here imports accelerate: its sampler draws from a generator of its own (1.15, read).
_STEADY_NAMES = frozenset({"accelerate.data_loader.SeedableRandomSampler"})
_STEADY_SEQUENCES = (list, tuple, range)


def generators_of(loader: object) -> list[torch.Generator]:
    """The generators that a DataLoader, its sampler and its batch sampler hold, each once."""
    if not isinstance(loader, data.DataLoader):
        return []
    batch_sampler = getattr(loader, "batch_sampler", None)
    samplers = (loader, loader.sampler, batch_sampler, getattr(batch_sampler, "sampler", None))
    found = [getattr(sampler, "generator", None) for sampler in samplers]
    return list({id(generator): generator for generator in found if isinstance(generator, torch.Generator)}.values())


def skip(loader: object, iterator: Any, count: int) -> int:
    """Passes up to `count` batches of a fresh iterator without loading; returns how many, 0 where that is not exact.

    Only without workers: then all that loading would have changed is global random state, drawn by `__getitem__` or
    the collate function, which the engine sets afterwards anyway. Workers have seeds and queues of their own. What an
    IterableDataset yields next is known to itself alone.
    """
    if not isinstance(loader, data.DataLoader) or not _is_exact(loader):
        return 0
    # These are torch's own attributes: where a version lacks one, or a subclass has its own iterator, nothing is
    # skipped.
    indices: Iterator[object] | None = getattr(iterator, "_sampler_iter", None)
    if type(iterator).__name__ != "_SingleProcessDataLoaderIter" or indices is None:
        return 0
    if getattr(iterator, "_num_yielded", None) != 0:
        return 0
    for skipped in range(count):
        if next(indices, None) is None:
            return skipped
        iterator._num_yielded = skipped + 1  # noqa: SLF001 - as if drawn
    return count


def _is_exact(loader: data.DataLoader[Any]) -> bool:
    dataset = loader.dataset
    if loader.num_workers != 0 or isinstance(dataset, data.IterableDataset | data.MapDataPipe):
        return False
    return _is_steady(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)


def _is_steady(sampler: object) -> bool:
    if type(sampler) is data.BatchSampler:
        return _is_steady(sampler.sampler)
    if type(sampler) in _STEADY_SEQUENCES:
        return True
    if f"{type(sampler).__module__}.{type(sampler).__qualname__}" in _STEADY_NAMES:
        return getattr(sampler, "generator", None) is not torch.default_generator
    # The default generator may be given by name, and RandomSampler draws from a given one again and again.
    return type(sampler) in _STEADY_SAMPLERS and getattr(sampler, "generator", None) is not torch.default_generator
