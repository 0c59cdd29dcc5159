"""A checkpoint goes straight into the memory of the program, and what comes out is what load_state_dict would make."""

import copy
import ctypes
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from outlast.errors import StateMismatch
from outlast.ports import ArraySpec
from outlast.sharding import Box
from outlast.state.filling import overlapping
from outlast.state.parts import Accepted, Progress, UserState
from outlast.state.snapshot import tree_bytes


class InMemory:
    """A checkpoint that is strict about the order: leaves are loaded before they are read, and only those asked for."""

    def __init__(self, parts: dict[str, Any], **settings: Any) -> None:
        snapshot = UserState(parts, **settings).snapshot(Progress(5))
        self.tree: dict[str, Any] = json.loads(tree_bytes(snapshot.tree))
        self.specs: list[ArraySpec] = list(snapshot.table.specs)
        self.names = snapshot.table.names
        self._data = [bytes(snapshot.data(index)) for index in range(len(self.specs))]
        self._memory: dict[int, memoryview] = {}
        self.given: dict[int, memoryview] = {}

    def load(self, leaves: Collection[int], targets: Mapping[int, memoryview]) -> None:
        assert not overlapping(targets)
        assert set(targets) <= set(leaves)
        for leaf in leaves:
            assert leaf not in self._memory
            self._memory[leaf] = targets[leaf] if leaf in targets else memoryview(bytearray(len(self._data[leaf])))
            assert (self._memory[leaf].format, len(self._memory[leaf])) == ("B", len(self._data[leaf]))
            self._memory[leaf][:] = self._data[leaf]

    def read_leaf(self, index: int) -> memoryview:
        self.given[index] = self._memory[index]
        return self._memory[index]

    def read_box(self, node: Any, box: Box) -> memoryview:
        raise AssertionError(f"nothing here is divided: {node} {box}")

    def restore(self, state: UserState) -> Accepted:
        accepted = state.accept(self)
        self.load(accepted.leaves, accepted.targets)
        assert accepted.restore().progress.completed == 5
        return accepted


class Plain(torch.nn.Module):
    """Everything that a module can have which load_state_dict only fills."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.tied = torch.nn.Linear(4, 4, bias=False)
        self.tied.weight = self.first.weight
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(4), torch.nn.InstanceNorm1d(4, affine=True)])
        self.layer_norm, self.embedding = torch.nn.LayerNorm(4), torch.nn.Embedding(3, 4, padding_idx=0)
        self.attention = torch.nn.MultiheadAttention(4, 2)
        self.frozen = torch.nn.Parameter(torch.rand(2, 3), requires_grad=False)
        self.wide = torch.nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last)
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("window", torch.rand(3), persistent=False)
        self.register_buffer("strided", torch.rand(4, 4)[::2, 1:])
        self.register_buffer("nothing", None)
        self.half = torch.nn.Linear(2, 2).bfloat16()

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.tied(self.norms[0](self.first(given)) + self.embedding.weight[1])


def make(kind: Callable[[], torch.nn.Module], seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = kind()
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=0.1 * seed, foreach=seed == 1)}


def train(parts: dict[str, Any], steps: int) -> list[torch.Tensor]:
    torch.manual_seed(7)
    for _ in range(steps):
        parts["optimizer"].zero_grad()
        parts["model"](torch.rand(5, 4)).square().sum().backward()
        parts["optimizer"].step()
    return [one.detach().clone() for one in parts["model"].state_dict().values()]


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and first.stride() == second.stride() and torch.equal(first, second)
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


def test_a_module_and_its_optimizer_are_restored_as_load_state_dict_does(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = make(Plain, 1)
    train(saved, 3)
    checkpoint = InMemory(saved)
    expected, mine = make(Plain, 2), make(Plain, 2)
    for name, part in expected.items():
        part.load_state_dict(copy.deepcopy(saved[name].state_dict()))
    window, tensors = mine["model"].window.clone(), dict(mine["model"].state_dict(keep_vars=True))
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Module, "load_state_dict", None)
        accepted = checkpoint.restore(UserState(mine))
    assert all(same(mine[name].state_dict(), expected[name].state_dict()) for name in mine)
    assert torch.equal(mine["model"].window, window)
    assert all(one is tensors[key] for key, one in mine["model"].state_dict(keep_vars=True).items())
    assert mine["model"].tied.weight is mine["model"].first.weight
    assert same(train(mine, 3), train(expected, 3))
    straight = {checkpoint.names[leaf] for leaf in accepted.targets}
    assert "state['model'].state_dict()['first.weight']" in straight
    assert "state['model'].state_dict()['strided']" not in straight


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
@pytest.mark.parametrize("started", [False, True])
def test_an_optimizer_gets_the_memory_that_was_read(kind: Any, started: bool) -> None:
    def build() -> dict[str, Any]:
        torch.manual_seed(3)
        model = torch.nn.Linear(4, 4)
        settings = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        return {"model": model, "optimizer": kind(model.parameters(), lr=0.1, **settings)}

    saved, mine, expected = build(), build(), build()
    train(saved, 2)
    if started:
        train(mine, 1)
        train(expected, 1)
    checkpoint = InMemory(saved)
    before = [one for one in held(mine) if one is not None]
    checkpoint.restore(UserState(mine))
    if before:
        assert [id(one) for one in held(mine) if one is not None] == list(map(id, before))
    for name in ("model", "optimizer"):
        expected[name].load_state_dict(copy.deepcopy(saved[name].state_dict()))
        assert same(mine[name].state_dict(), expected[name].state_dict())
    memory = {ctypes.addressof(ctypes.c_ubyte.from_buffer(one)) for one in checkpoint.given.values()}
    assert before or {one.data_ptr() for one in held(mine) if one is not None} <= memory
    assert same(train(mine, 2), train(expected, 2))


def held(parts: dict[str, Any]) -> list[Any]:
    return list(parts["optimizer"].state[parts["model"].weight].values())


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "amsgrad": lambda values: torch.optim.AdamW(values, lr=0.1, amsgrad=True),
    "fused": lambda values: torch.optim.AdamW(values, lr=0.1, fused=True),
    "foreach": lambda values: torch.optim.Adam(values, lr=0.1, foreach=True),
    "tensor lr": lambda values: torch.optim.Adam(values, lr=torch.tensor(0.1)),
    "nesterov": lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda values: torch.optim.RMSprop(values, lr=0.1, momentum=0.9, centered=True),
    "radam": lambda values: torch.optim.RAdam(values, lr=0.1),
    "asgd": lambda values: torch.optim.ASGD(values, lr=0.1),
}


def build_with(make_optimizer: Callable[[Any], torch.optim.Optimizer], *, steps: int, lr: float) -> dict[str, Any]:
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 4)
    parts = {"model": model, "optimizer": make_optimizer(model.parameters())}
    train(parts, steps)
    parts["optimizer"].param_groups[0]["weight_decay"] = lr
    return parts


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_that_has_taken_steps_is_filled_in_place_as_load_state_dict_would(name: str) -> None:
    saved = build_with(OPTIMIZERS[name], steps=3, lr=0.5)
    mine, expected = (build_with(OPTIMIZERS[name], steps=1, lr=0.0) for _ in range(2))
    checkpoint, before = InMemory(saved), held(mine)
    accepted = checkpoint.restore(UserState(mine))
    for part in ("model", "optimizer"):
        expected[part].load_state_dict(copy.deepcopy(saved[part].state_dict()))
        assert same(mine[part].state_dict(), expected[part].state_dict())
    assert all(one is other for one, other in zip(held(mine), before, strict=True) if isinstance(one, torch.Tensor))
    assert any("optimizer" in checkpoint.names[leaf] for leaf in accepted.targets)
    for _ in range(3):
        assert same(train(mine, 1), train(expected, 1))
    assert same(mine["optimizer"].state_dict(), expected["optimizer"].state_dict())


class OwnOptimizer(torch.optim.SGD):
    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(copy.deepcopy(state_dict))


def _hooked(values: Any) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(values, lr=0.1, momentum=0.9)
    optimizer.register_load_state_dict_pre_hook(lambda _, state: None)
    return optimizer


@pytest.mark.parametrize("kind", [lambda values: OwnOptimizer(values, lr=0.1, momentum=0.9), _hooked])
def test_an_optimizer_that_may_do_more_gets_tensors_of_its_own(kind: Any) -> None:
    saved, mine = build_with(kind, steps=2, lr=0.5), build_with(kind, steps=1, lr=0.0)
    checkpoint, [before] = InMemory(saved), held(mine)
    as_before = before.clone()
    accepted = checkpoint.restore(UserState(mine))
    assert torch.equal(before, as_before)
    assert not any("optimizer" in checkpoint.names[leaf] for leaf in accepted.targets)
    assert same(mine["optimizer"].state_dict(), saved["optimizer"].state_dict())


@pytest.mark.parametrize("other", ["moment", "strided array"])
def test_moments_that_share_memory_come_back_apart(other: str) -> None:
    saved = build_with(lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9), steps=2, lr=0.5)
    mine = build_with(lambda values: torch.optim.SGD(values, lr=0.1, momentum=0.9), steps=1, lr=0.0)
    state = mine["optimizer"].state
    first, second = (state[one] for one in mine["model"].parameters())
    memory = torch.zeros(16)
    first["momentum_buffer"] = memory.view(4, 4)
    saved["x"] = torch.arange(8.0)
    if other == "moment":
        second["momentum_buffer"] = memory[:4]
        mine["x"] = torch.zeros(8)
    else:
        mine["x"] = memory[::2]
    InMemory(saved).restore(UserState(mine))
    assert same(mine["optimizer"].state_dict(), saved["optimizer"].state_dict())
    assert torch.equal(mine["x"], saved["x"])
    assert same(train(mine, 2), train(saved, 2))


class OwnLoad(torch.nn.Linear):
    loads = 0

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        OwnLoad.loads += 1
        return super().load_state_dict(*args, **kwargs)


class OwnInner(torch.nn.Linear):
    def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
        OwnLoad.loads += 1
        super()._load_from_state_dict(state, prefix, *rest)


class Extra(torch.nn.Linear):
    def get_extra_state(self) -> Any:
        return {"n": 1}

    def set_extra_state(self, state: Any) -> None:
        OwnLoad.loads += 1


def count(*_: Any) -> None:
    OwnLoad.loads += 1


def hooked(register: str) -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    getattr(model[0], register)(count)
    return model


def patched() -> torch.nn.Module:
    model = torch.nn.Linear(4, 4)
    original = model.load_state_dict

    def own(state: Any) -> None:
        count()
        original(state)

    model.load_state_dict = own
    return model


NOT_PLAIN: dict[str, Callable[[], torch.nn.Module]] = {
    "own load_state_dict": lambda: OwnLoad(4, 4),
    "own inner load": lambda: torch.nn.Sequential(OwnInner(4, 4)),
    "extra state": lambda: torch.nn.Sequential(Extra(4, 4)),
    "pre-hook": lambda: hooked("register_load_state_dict_pre_hook"),
    "post-hook": lambda: hooked("register_load_state_dict_post_hook"),
    "an instance's own": patched,
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_may_do_more_is_given_to_load_state_dict(name: str) -> None:
    saved, mine = NOT_PLAIN[name](), NOT_PLAIN[name]()
    checkpoint = InMemory({"model": saved})
    OwnLoad.loads = 0
    checkpoint.restore(UserState({"model": mine}))
    assert OwnLoad.loads > 0
    assert same(dict(mine.state_dict()), dict(saved.state_dict()))


def test_a_state_dict_hook_keeps_load_state_dict() -> None:
    def rename(_module: Any, state: Any, *_: Any) -> None:
        state["other"] = state.pop("weight")

    def back(_module: Any, state: Any, *_: Any) -> None:
        state["weight"] = state.pop("other")

    def build() -> torch.nn.Module:
        model = torch.nn.Linear(4, 4, bias=False)
        model.register_state_dict_post_hook(rename)
        model.register_load_state_dict_pre_hook(back)
        return model

    saved, mine = build(), build()
    InMemory({"model": saved}).restore(UserState({"model": mine}))
    assert torch.equal(saved.weight, mine.weight)


def test_arrays_are_read_into_the_programs_own_memory() -> None:
    def build(value: float) -> dict[str, Any]:
        whole = np.full(6, value)
        return {
            "t": [torch.full((2, 3), value), torch.full((3, 2), value).t()],
            "parameter": torch.nn.Parameter(torch.full((2,), value)),
            "n": {"a": np.full(3, value), "f": np.asfortranarray(np.full((2, 3), value)), "e": np.zeros(0)},
            "whole": whole,
            "half": whole[2:4],
            "same": [whole],
            "records": np.array([(1, value)], [("a", "i4"), ("b", "f8")]),
            "bool": torch.tensor([True, value > 1]),
        }

    checkpoint, mine = InMemory(build(3.0)), build(0.0)
    version = mine["parameter"]._version
    accepted = checkpoint.restore(UserState(mine))
    expected = build(3.0)
    assert all(torch.equal(one, other) for one, other in zip(mine["t"], expected["t"], strict=True))
    assert torch.equal(mine["bool"], expected["bool"])
    assert mine["parameter"].tolist() == [3, 3]
    assert mine["parameter"]._version > version
    assert mine["n"]["a"].tolist() == [3] * 3
    assert (mine["n"]["f"] == 3).all()
    assert mine["half"].base is mine["whole"]
    assert mine["same"][0] is mine["whole"]
    assert mine["whole"].tolist() == [3] * 6
    assert mine["records"] == expected["records"]
    straight = {checkpoint.names[leaf].removeprefix("state") for leaf in accepted.targets}
    assert straight == {"['t'][0]", "['parameter']", "['n']['a']", "['records']", "['bool']"}


def test_a_buffer_can_be_resized_once_all_is_restored() -> None:
    mine = {"raw": bytearray(b"xyz"), "n": np.zeros(3)}
    InMemory({"raw": bytearray(b"abcd"), "n": np.ones(3)}).restore(UserState(mine))
    mine["raw"].append(1)
    mine["n"].resize(5, refcheck=False)
    assert bytes(mine["raw"]) == b"abcd\x01"


def test_what_is_assigned_keeps_the_memory_that_was_read() -> None:
    saved = {
        "n": np.arange(100.0),
        "t": torch.arange(100.0),
        "j": jnp.arange(4.0),
        "s": np.float32(3),
        "e": np.zeros(0),
    }
    checkpoint = InMemory(saved)
    mine: dict[str, Any] = {"n": None, "t": None, "j": jnp.zeros(4), "s": np.float32(0), "e": None}
    accepted = checkpoint.restore(UserState(mine))
    assert not accepted.targets
    memory = {ctypes.addressof(ctypes.c_ubyte.from_buffer(one)) for one in checkpoint.given.values() if len(one)}
    assert mine["n"].__array_interface__["data"][0] in memory
    assert mine["t"].data_ptr() in memory
    mine["n"][0] = mine["t"][0] = 9
    assert (mine["n"].tolist(), mine["t"].tolist()) == ([9.0, *range(1, 100)],) * 2
    assert (mine["j"].tolist(), mine["s"], mine["e"].shape) == ([0, 1, 2, 3], 3, (0,))


def test_only_leaves_of_the_programs_parts_are_asked_for_and_late_ones_when_they_come() -> None:
    checkpoint = InMemory({"early": np.ones(3), "late": {"w": torch.ones(2), "n": None}, "never": np.ones(4)})
    state = UserState({"early": np.zeros(3)})
    accepted = checkpoint.restore(state)
    names = {checkpoint.names[leaf] for leaf in accepted.leaves}
    assert "state['early']" in names
    assert not names & {"state['late']['w']", "state['never']"}
    assert all(name.startswith(("state['early']", "@")) for name in names)
    late = {"w": torch.zeros(2), "n": 3}
    assert state.register("late", late) is late
    assert (late["w"].tolist(), late["n"]) == ([1, 1], None)


def test_a_late_part_that_shares_an_early_ones_memory_is_filled_once() -> None:
    model = torch.nn.Linear(2, 2)
    checkpoint = InMemory({"model": model, "weight": model.weight.detach()})
    mine = torch.nn.Linear(2, 2)
    state = UserState({"model": mine})
    checkpoint.restore(state)
    assert state.register("weight", mine.weight.detach()).data_ptr() == mine.weight.data_ptr()
    assert torch.equal(mine.weight, model.weight)


def test_a_module_inside_another_is_filled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> dict[str, Any]:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        return {"w": model[1].weight.detach(), "model": model, "inner": model[0]}

    saved, mine = build(), build()
    checkpoint = InMemory(saved)
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", None)
    checkpoint.restore(UserState(mine))
    assert same(dict(mine["model"].state_dict()), dict(saved["model"].state_dict()))


def test_weights_that_the_program_does_not_tie_come_back_apart() -> None:
    """What load_state_dict does with a checkpoint of tied weights, so does a restore without it."""

    def build(*, tied: bool) -> Any:
        model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
        if tied:
            model["b"].weight = model["a"].weight
        return model

    saved, mine = build(tied=True), build(tied=False)
    InMemory({"model": saved}).restore(UserState({"model": mine}))
    assert torch.equal(mine["b"].weight, saved["a"].weight)
    assert mine["b"].weight.data_ptr() != mine["a"].weight.data_ptr()


@pytest.mark.parametrize(
    ("saved", "mine"),
    [
        (np.ones(3), np.zeros(4)),
        (torch.ones(3), torch.zeros(3, dtype=torch.int64)),
        (torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).double()),
    ],
    ids=["shape", "dtype", "module"],
)
def test_nothing_is_read_when_something_does_not_fit(saved: Any, mine: Any) -> None:
    checkpoint = InMemory({"first": np.ones(2), "x": saved})
    first = np.zeros(2)
    with pytest.raises(StateMismatch, match=r"state\['x'\]"):
        UserState({"first": first, "x": mine}).accept(checkpoint)
    assert (first.tolist(), checkpoint.given) == ([0, 0], {})


def test_targets_that_share_memory_are_found() -> None:
    memory = memoryview(bytearray(100))
    targets = {1: memory[:50], 2: memory[10:20], 3: memory[40:60], 4: memory[60:70], 5: memory[80:], 6: memory[15:16]}
    assert overlapping(targets) == {1, 2, 3, 6}
    assert overlapping({4: memory[60:70], 5: memory[80:]}) == set()
