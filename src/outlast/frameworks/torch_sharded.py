"""DTensors (FSDP2, tensor parallel): which box of each lies on this rank, and making one of a rank's own tensor.

torch divides: its mesh and placements tell what a rank holds, by the function that the planners of
torch.distributed.checkpoint ask (2.13, read: planner_helpers.py). No collective runs here.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Placement
from torch.optim import Optimizer

from outlast.ports import Unsupported
from outlast.sharding import Box, Sharding

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class _Held:
    mesh: DeviceMesh
    placements: tuple[Placement, ...]


class TorchSharder:
    """Meets sharding.Sharder."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Sharding] = {}

    def sharding(self, value: Tensor) -> Sharding | None:
        """Of DTensors. Sums that are still partial are refused."""
        if not isinstance(value, DTensor):
            return None
        mesh, placements = value.device_mesh, tuple(value.placements)
        device = str(local_tensor(value).device)
        coordinate = mesh.get_coordinate()  # meshes are equal on all ranks
        key = (mesh, coordinate and tuple(coordinate), placements, value.shape, value.dtype, device)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _sharding(mesh, placements, value.shape, _word(value.dtype), {"device": device})
        return found

    def arrays(self, value: DTensor) -> list[Tensor]:
        """The local tensor."""
        return [local_tensor(value)]

    def make(self, sharding: Sharding, arrays: Sequence[Tensor]) -> DTensor:
        """On the mesh of the program."""
        [local], held = arrays, sharding.held
        stride, size = [], 1
        for length in reversed(sharding.shape):
            stride.append(size)
            size *= max(length, 1)
        made: DTensor = DTensor.from_local(
            local,
            held.mesh,
            held.placements,
            run_check=False,
            shape=torch.Size(sharding.shape),
            stride=tuple(reversed(stride)),
        )
        return made

    def like(self, known: Sharding, shape: Sequence[int], dtype: str) -> Sharding:
        """On the same mesh, by the same placements."""
        return _sharding(known.held.mesh, known.held.placements, torch.Size(shape), dtype, known.extra)

    def expected(self, value: object) -> Mapping[str, Sharding]:
        """An optimizer's moments lie as their parameters do; its state_dict numbers those over all groups."""
        if not isinstance(value, Optimizer):
            return {}
        parameters = [one for group in value.param_groups for one in group["params"]]
        found = ((number, self.sharding(one), one) for number, one in enumerate(parameters))
        return {
            f"['state'][{number}]": sharding or Sharding.whole(one.shape, _word(one.dtype), {"device": str(one.device)})
            for number, sharding, one in found
        }

    def written_class(self, value: object) -> type:
        """fully_shard makes a class of FSDPModule and the module's own, and puts it in its place."""
        kind = type(value)
        bases = kind.__bases__
        return bases[1] if isinstance(value, FSDPModule) and bases[0] is FSDPModule and len(bases) > 1 else kind


def local_tensor(value: Tensor) -> Tensor:
    """The tensor of this rank, which is the DTensor's memory; any other tensor itself."""
    if not isinstance(value, DTensor):
        return value
    local: Tensor = value.detach().to_local()  # type: ignore[attr-defined]  # detach is declared to give a Tensor
    return local


def _sharding(
    mesh: DeviceMesh, placements: tuple[Placement, ...], shape: torch.Size, dtype: str, extra: Mapping[str, Any]
) -> Sharding:
    if any(one.is_partial() for one in placements):
        raise Unsupported("it is a DTensor of partial sums; redistribute it (Replicate or Shard) before the border")
    if mesh.get_coordinate() is None:
        raise Unsupported("it is a DTensor on a mesh that this rank is no part of; leave it out of this rank's state")
    local, at = compute_local_shape_and_global_offset(shape, mesh, placements)
    box = Box(tuple(map(int, at)), tuple(map(int, local)))
    if not box.elements:  # an empty one may be said to begin anywhere
        box = Box((0,) * len(shape), box.shape)
    names = mesh.mesh_dim_names or (None,) * mesh.ndim
    layout = {
        "axes": [[name, size] for name, size in zip(names, mesh.shape, strict=True)],
        "placements": [str(one) for one in placements],
    }
    return Sharding(tuple(shape), dtype, (box,), layout, extra=dict(extra), held=_Held(mesh, placements))


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
