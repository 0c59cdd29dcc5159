"""The peers: each saves the same bytes in its own way, in its best documented setting.

A peer is imported only in the process that measures it. All are followed by an fsync of every file that they left,
which costs nothing where the peer has done that itself.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import sync_tree
from benchmarks.savers import Stall, Waiting
from benchmarks.states import State


class Peer:
    """The part that is the same for all: names, moments and the removal of earlier files."""

    suffix = ""

    def make_ready(self, state: State) -> None:
        self._state = state
        self.import_it()
        self.refresh()

    def prepare(self, state: State, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._waiting: Waiting | None = None
        self._durable: float | None = None
        self._older: Path | None = None
        self.set_up()

    def import_it(self) -> None:
        """Imports the library."""

    def set_up(self) -> None:
        """What is kept from save to save."""

    def write(self, path: Path) -> Callable[[], object] | None:
        """Saves; returns what waits for the rest, or None if nothing is left to do."""
        raise NotImplementedError

    def read(self, path: Path, state: State) -> None:
        """Restores into `state`."""
        raise NotImplementedError

    def refresh(self) -> None:
        """The state has changed; for peers that save something other than its memory."""

    def bring_back(self, state: State) -> None:
        """Nothing: most restore into the state itself."""

    def save(self) -> Stall:
        self._older = self.checkpoint() if self._count else None
        self._count += 1
        self._durable = self._waiting = None
        path = self.checkpoint()
        begin = time.monotonic()
        wait = self.write(path)
        if wait is None:
            sync_tree(path)
            self._durable = time.monotonic()
            return Stall(begin, self._durable)
        end = time.monotonic()
        self._waiting = Waiting(wait, path)
        return Stall(begin, end)

    def durable_at(self) -> float | None:
        return self._waiting.moment() if self._waiting else self._durable

    def border(self) -> float:
        return 0.0

    def checkpoint(self) -> Path:
        return self._folder / f"checkpoint-{self._count}{self.suffix}"

    def tidy(self) -> None:
        self.refresh()
        if self._older is not None:
            shutil.rmtree(self._older) if self._older.is_dir() else self._older.unlink()
            self._older = None

    def restore(self, state: State, folder: Path) -> None:
        self.read(max(folder.glob(f"checkpoint-*{self.suffix}")), state)


class TorchSave(Peer):
    """torch.save of the state_dicts into one file, then fsync."""

    suffix = ".pt"

    def write(self, path: Path) -> None:
        import torch

        torch.save(self._state.tree(), path)

    def read(self, path: Path, state: State) -> None:
        import torch

        state.load_tree(torch.load(path, weights_only=True))


class Safetensors(Peer):
    """safetensors.torch.save_file of the flat state, then fsync."""

    suffix = ".safetensors"

    def import_it(self) -> None:
        import safetensors.torch

        self._library = safetensors.torch

    def write(self, path: Path) -> None:
        self._library.save_file(self._state.tensors, path)

    def read(self, path: Path, state: State) -> None:
        state.load_tensors(self._library.load_file(path))


class Dcp(Peer):
    """torch.distributed.checkpoint.save, one process."""

    def import_it(self) -> None:
        import torch.distributed.checkpoint as dcp

        self._dcp = dcp

    def write(self, path: Path) -> Callable[[], object] | None:
        self._dcp.save(self._state.tensors, checkpoint_id=path, no_dist=True)
        return None

    def read(self, path: Path, state: State) -> None:
        self._dcp.load(state.tensors, checkpoint_id=path, no_dist=True)


class DcpAsync(Dcp):
    """async_save with its thread, and the stager that it makes for each save."""

    _process = False
    _keeps_stager = False

    def set_up(self) -> None:
        import torch.distributed as dist
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

        store = dist.FileStore(str(self._folder / "rendezvous"), 1)
        dist.init_process_group("cpu:gloo", store=store, rank=0, world_size=1)
        kinds = AsyncCheckpointerType
        self._options: dict[str, Any] = {
            "async_checkpointer_type": kinds.PROCESS if self._process else kinds.THREAD,
        }
        if self._keeps_stager:
            # One that reuses its buffers; shared memory is what spares the process variant another copy.
            self._options["async_stager"] = DefaultStager(StagingOptions(False, self._process, False, False))

    def write(self, path: Path) -> Callable[[], object]:
        future = self._dcp.async_save(self._state.tensors, checkpoint_id=path, **self._options)
        return future.result


class DcpAsyncKept(DcpAsync):
    """async_save with its thread, and one stager for all saves."""

    _keeps_stager = True


class DcpProcess(DcpAsync):
    """async_save with its process, and one stager in shared memory for all saves."""

    _process = True
    _keeps_stager = True


class Orbax(Peer):
    """Orbax's AsyncCheckpointer with the state as a dict of jax arrays."""

    _as_jax = True

    def import_it(self) -> None:
        import jax
        import orbax.checkpoint as ocp

        self._jax, self._ocp = jax, ocp

    def set_up(self) -> None:
        self._checkpointer = self._ocp.AsyncCheckpointer(self._ocp.PyTreeCheckpointHandler())

    def refresh(self) -> None:
        self._tree = None  # freed before its successor is made
        arrays = {name: tensor.numpy() for name, tensor in self._state.tensors.items()}
        if self._as_jax:
            # Copied, since jax may take over NumPy's memory, which the next change would write to.
            copies = {name: self._jax.numpy.array(value, copy=True) for name, value in arrays.items()}
            arrays = self._jax.block_until_ready(copies)
        self._tree = arrays

    def write(self, path: Path) -> Callable[[], object]:
        self._checkpointer.save(path.absolute(), args=self._ocp.args.PyTreeSave(self._tree))
        return self._checkpointer.wait_until_finished

    def read(self, path: Path, state: State) -> None:
        wanted = {name: self._wanted(value) for name, value in self._tree.items()}
        args = self._ocp.args.PyTreeRestore(restore_args=wanted)
        self._tree = None
        reader = self._ocp.Checkpointer(self._ocp.PyTreeCheckpointHandler())
        self._restored = reader.restore(path.absolute(), args=args)
        if not self._as_jax:
            self.bring_back(state)

    def _wanted(self, like: Any) -> Any:
        if self._as_jax:
            return self._ocp.ArrayRestoreArgs(sharding=like.sharding)
        return self._ocp.RestoreArgs(restore_type=np.ndarray)

    def bring_back(self, state: State) -> None:
        for name, tensor in state.tensors.items():
            np.copyto(tensor.numpy(), np.asarray(self._restored[name]))


class OrbaxNumpy(Orbax):
    """The same with a dict of NumPy arrays, which are copied into the state at a restore."""

    _as_jax = False


class Torchsnapshot(Peer):
    """torchsnapshot's Snapshot.async_take."""

    def import_it(self) -> None:
        import torchsnapshot

        self._library = torchsnapshot

    def write(self, path: Path) -> Callable[[], object]:
        state = {"state": self._library.StateDict(self._state.tensors)}
        return self._library.Snapshot.async_take(path=str(path), app_state=state).wait

    def read(self, path: Path, state: State) -> None:
        self._library.Snapshot(str(path)).restore({"state": self._library.StateDict(state.tensors)})


PEERS: dict[str, type[Peer]] = {
    "torch.save": TorchSave,
    "safetensors": Safetensors,
    "dcp": Dcp,
    "dcp-async": DcpAsync,
    "dcp-async-kept": DcpAsyncKept,
    "dcp-process": DcpProcess,
    "orbax-jax": Orbax,
    "orbax-numpy": OrbaxNumpy,
    "torchsnapshot": Torchsnapshot,
}
