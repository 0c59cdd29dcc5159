"""The states that are saved: one like a transformer under AdamW, and one of 20,000 small tensors.

Tensors are filled with reproducible noise, which compresses as little as weights do: a restore can be checked without
keeping a second copy of the state.
"""

from typing import Any

import torch
from torch import nn

KINDS = ("transformer", "small")
_WIDTH, _LAYERS, _WORDS = 768, 12, 6464  # 147 parameters, 588 tensors with AdamW's, 1.006 GiB
_SMALL_TENSORS, _SMALL_BYTES = 20_000, 34 * 1024
# The share of a small tensor in _SMALL_BYTES, in turn: biases, norms and matrices of a model with many parts.
_SHARES = (0.02, 0.1, 0.5, 1.0, 1.38, 3.0)
_SEED = 20_000
_STEP = 1 / 1024


class Block(nn.Module):
    """One layer: two norms, attention's projections, and the perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)


class Transformer(nn.Module):
    """The parameters of a decoder with tied embeddings; it is saved here, never run."""

    def __init__(self, width: int, layers: int, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)


class State:
    """A state in memory: `parts` as outlast takes it, `tensors` flat by name, which share memory with the parts."""

    def __init__(self, parts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        self.parts, self.tensors = parts, tensors

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        return self.parts.get("optimizer")

    def fill(self) -> None:
        """The noise that `wrong` expects."""
        for index, tensor in enumerate(self.tensors.values()):
            tensor.copy_(noise(index, tensor))

    def change(self) -> None:
        """Moves every tensor, as a step of training would, so that nothing can be saved by reference."""
        for tensor in self.tensors.values():
            tensor.add_(_STEP)

    def spoil(self) -> None:
        """Allocated and touched memory with other values: what a restore finds."""
        for tensor in self.tensors.values():
            tensor.fill_(0.125)

    def tree(self) -> dict[str, Any]:
        """The state as torch programs save it."""
        return {name: part if isinstance(part, dict) else part.state_dict() for name, part in self.parts.items()}

    def load_tree(self, tree: dict[str, Any]) -> None:
        for name, part in self.parts.items():
            if isinstance(part, dict):
                for key, tensor in part.items():
                    tensor.copy_(tree[name][key])
            else:
                part.load_state_dict(tree[name])
        self.tensors = _flat(self.parts)

    def load_tensors(self, tensors: dict[str, torch.Tensor]) -> None:
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])

    def wrong(self, changes: int) -> list[str]:
        """Names of tensors that are not as filled and then changed that often; a sample of them is looked at."""
        self.tensors = _flat(self.parts)
        return self.wrong_among(self.tensors, changes)

    @staticmethod
    def wrong_among(tensors: dict[str, torch.Tensor], changes: int, seed: int = 0) -> list[str]:
        """The same of given tensors, which were filled from that seed on."""
        names = list(tensors)
        found = []
        for index in range(0, len(names), max(len(names) // 16, 1)):
            expected = noise(seed + index, tensors[names[index]])
            for _ in range(changes):
                expected.add_(_STEP)
            if not torch.equal(expected, tensors[names[index]]):
                found.append(names[index])
        return found


def make_state(kind: str, scale: float, *, with_moments: bool = True, device: str = "cpu") -> State:
    """A state of its kind, about `scale` times its full size; without moments the optimizer is a fresh one.

    Values are whatever the memory holds until `fill` or `spoil`.
    """
    transformer = kind == "transformer"
    parts = _transformer(scale, with_moments, device) if transformer else {"tensors": _small(scale, device)}
    return State(parts, _flat(parts))


def full_bytes(kind: str, scale: float) -> int:
    """The size of such a state, without making it."""
    return make_state(kind, scale, device="meta").bytes


def _transformer(scale: float, with_moments: bool, device: str) -> dict[str, Any]:
    root = scale**0.5
    width = max(round(_WIDTH * root / 16), 1) * 16
    with torch.device("meta"):  # no time for an initialization that `fill` overwrites
        model = Transformer(width, _LAYERS, max(round(_WORDS * root), 16))
    model = model.to_empty(device=device)
    optimizer = torch.optim.AdamW(model.parameters())
    if with_moments:
        for parameter in model.parameters():
            optimizer.state[parameter] = {
                "step": torch.ones((), device=device),
                "exp_avg": torch.ones_like(parameter, requires_grad=False),
                "exp_avg_sq": torch.ones_like(parameter, requires_grad=False),
            }
    return {"model": model, "optimizer": optimizer}


def _small(scale: float, device: str) -> dict[str, torch.Tensor]:
    count = max(round(_SMALL_TENSORS * scale), len(_SHARES))
    shares = [_SHARES[index % len(_SHARES)] for index in range(count)]
    return {f"part.{index:05}": _small_one(share, device) for index, share in enumerate(shares)}


def _small_one(share: float, device: str) -> torch.Tensor:
    return torch.ones(int(_SMALL_BYTES * share) // 4, device=device)


def _flat(parts: dict[str, Any]) -> dict[str, torch.Tensor]:
    if "tensors" in parts:
        return dict(parts["tensors"])
    model, optimizer = parts["model"], parts["optimizer"]
    named = {f"model.{name}": parameter.detach() for name, parameter in model.named_parameters()}
    moments = {
        f"optimizer.{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    return named | moments


def noise(index: int, like: torch.Tensor) -> torch.Tensor:
    """Values in [0, 1) with 24 random bits each."""
    return torch.rand(like.shape, generator=torch.Generator().manual_seed(_SEED + index))
