"""The state of one of several ranks: its share of every tensor of the transformer, as a DTensor and as plain memory."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from benchmarks.states import State, make_state, noise

_STRIDE = 100_000  # between the seeds of the ranks, so that no part is like another's


class HalfState(State):
    """`tensors` is this rank's memory; `parts` has the same memory as DTensors that are split in the first dimension.

    Needs the process group. Scalars, the steps of the optimizer, are left out.
    """

    def __init__(self, scale: float, rank: int, size: int) -> None:
        mesh, self._seed = init_device_mesh("cpu", (size,)), _STRIDE * rank
        whole = make_state("transformer", scale, device="meta").tensors
        rows = {name: one.shape[0] // size for name, one in whole.items() if one.dim()}
        tensors = {name: torch.ones((count, *whole[name].shape[1:])) for name, count in rows.items()}
        self.mesh = mesh
        divided = {name: DTensor.from_local(one, mesh, [Shard(0)], run_check=False) for name, one in tensors.items()}
        super().__init__({"tensors": divided}, tensors)

    def fill(self) -> None:
        for index, tensor in enumerate(self.tensors.values()):
            tensor.copy_(noise(self._seed + index, tensor))

    def wrong(self, changes: int) -> list[str]:
        return self.wrong_among(self.tensors, changes, self._seed)
