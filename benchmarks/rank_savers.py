"""Who saves the state of several ranks: outlast, DCP with its collectives, and Orbax with as many processes of JAX."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import ours, peers
from benchmarks.savers import Stall
from benchmarks.states import State


class RankOutlast(ours.Outlast):
    """The job of one rank; all of them read in rank 0's events what is committed, on the clock of one machine."""

    def __init__(self, mode: str, rank: int) -> None:
        super().__init__(mode)
        self._rank = rank

    def make_ready(self, state: State) -> None:
        super().make_ready(state)
        _barrier()

    def prepare(self, state: State, folder: Path) -> None:
        super().prepare(state, folder)
        self._events = folder / "events.jsonl"

    def events_file(self, folder: Path) -> Path:
        return folder / ("events.jsonl" if self._rank == 0 else f"events-{self._rank}.jsonl")


class _RankPeer(peers.Peer):
    """Saves together with the other ranks; one of them removes what is older."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def make_ready(self, state: State) -> None:
        super().make_ready(state)
        _barrier()

    def save(self) -> Stall:
        _barrier()
        return super().save()

    def tidy(self) -> None:
        _barrier()
        self.refresh()
        if self._rank == 0 and self._older is not None:
            shutil.rmtree(self._older)
        self._older = None
        _barrier()


class RankDcp(_RankPeer, peers.Dcp):
    """torch.distributed.checkpoint.save of DTensors."""

    def write(self, path: Path) -> Callable[[], object] | None:
        self._dcp.save(self._state.parts["tensors"], checkpoint_id=path)
        return None

    def read(self, path: Path, state: State) -> None:
        self._dcp.load(state.parts["tensors"], checkpoint_id=path)


class RankDcpAsync(RankDcp):
    """async_save with its thread; `keeps_stager`: with one stager for all saves."""

    def __init__(self, rank: int, *, keeps_stager: bool = False) -> None:
        super().__init__(rank)
        self._keeps_stager = keeps_stager

    def set_up(self) -> None:
        import torch.distributed as dist
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        # A group of its own: the training's collectives run beside those of the save.
        self._options: dict[str, Any] = {"process_group": dist.new_group(backend="gloo")}
        if self._keeps_stager:
            self._options["async_stager"] = DefaultStager(StagingOptions(False, False, False, False))

    def write(self, path: Path) -> Callable[[], object]:
        return self._dcp.async_save(self._state.parts["tensors"], checkpoint_id=path, **self._options).result


class RankOrbax(_RankPeer, peers.Orbax):
    """Orbax's AsyncCheckpointer with arrays of JAX that span the processes."""

    def import_it(self) -> None:
        super().import_it()
        self._jax.config.update("jax_cpu_collectives_implementation", "gloo")
        size = int(os.environ["WORLD_SIZE"])
        self._jax.distributed.initialize(_address(self._rank), size, self._rank)

    def refresh(self) -> None:
        sharding = self._jax.sharding
        self._tree = None
        devices = self._jax.devices()
        rows = sharding.NamedSharding(sharding.Mesh(devices, ("ranks",)), sharding.PartitionSpec("ranks"))
        # Copied, since jax may take over NumPy's memory, which the next change would write to.
        copies = {name: one.numpy().copy() for name, one in self._state.tensors.items()}
        self._tree = {name: self._jax.make_array_from_process_local_data(rows, value) for name, value in copies.items()}
        self._jax.block_until_ready(self._tree)

    def bring_back(self, state: State) -> None:
        import numpy as np

        for name, tensor in state.tensors.items():
            [shard] = self._restored[name].addressable_shards
            np.copyto(tensor.numpy(), np.asarray(shard.data))


def _barrier() -> None:
    import torch.distributed as dist

    dist.barrier()


def _address(rank: int) -> str:
    """A free port of the loopback, which rank 0 finds and tells."""
    import socket

    import torch.distributed as dist

    found: list[Any] = [None]
    if rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = [f"127.0.0.1:{server.getsockname()[1]}"]
    dist.broadcast_object_list(found, src=0)
    return str(found[0])


RANK_SAVERS: dict[str, Callable[[int], Any]] = {
    "outlast": lambda rank: RankOutlast("auto", rank),
    "outlast background": lambda rank: RankOutlast("background", rank),
    "outlast blocking": lambda rank: RankOutlast("blocking", rank),
    "dcp": RankDcp,
    "dcp-async": RankDcpAsync,
    "dcp-async-kept": lambda rank: RankDcpAsync(rank, keeps_stager=True),
    "orbax-jax": RankOrbax,
}
