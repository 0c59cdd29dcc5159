"""A state walked again from memory is the state walked in full, whatever was done to it in between."""

import array
import collections
import copy
import dataclasses
import enum
import gc
import random
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast.errors import StateUnsupported
from outlast.registry import frameworks_in_use
from outlast.state.parts import Progress, UserState
from outlast.state.snapshot import Snapshot

State = dict[str, Any]
Mutation = Callable[[State], object]


class Mode(enum.Enum):
    FAST = 1
    SLOW = ("slow", 2)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Config:
    rate: Any
    weights: Any


class Counter:
    """Gives fresh containers and a fresh array each time, as many loaders do."""

    def __init__(self) -> None:
        self.count, self.extra = 0, {}

    def state_dict(self) -> Any:
        self.count += 1
        return {"many": [0, (1.5, "x")], "array": np.full(3, 7), "again": self.extra, "extra": [self.extra]}

    def load_state_dict(self, state: Any) -> None:
        self.count = 0


def make_state(*, views: bool = True) -> State:
    """`views`: arrays that overlap in memory, which are walked in full whenever an array has moved."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    shared = np.arange(4.0)
    return {
        "tensors": {f"t{index}": torch.full((2, index + 1), float(index)) for index in range(4)},
        "arrays": [np.arange(index + 2.0) for index in range(3)],
        "tied": {"a": shared, "b": shared, "view": shared[1:3] if views else None},
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3),
        "own": Counter(),
        "mixed": {"n": 1, "x": 2.5, "w": torch.zeros(2), "empty": torch.zeros(0), "none": None, "np": np.float32(3)},
        "history": [0.5, 0.25],
        "keyed": {1: "a", True + 1: torch.ones(1), (1, -0.0): [1]},
        "numbered": {0: {"m": torch.ones(2)}, 1000: {"m": torch.ones(2)}},
        "queue": collections.deque([1, (2, [3])], maxlen=4),
        "names": {"a", "b"},
        "raw": [bytearray(b"abc"), array.array("d", [1.0]), b"x" * 3000],
        "dataclass": Config(0.1, np.zeros(2)),
        "pair": Pair(1, torch.zeros(1)),
        "mode": Mode.FAST,
        "defaults": collections.defaultdict(list, {"k": [1]}),
        "jax": jnp.ones(2),
        "generators": [random.Random(1), np.random.default_rng(2), torch.Generator()],
        "pairs": {"a": [1], "b": [2], "c": (twice := [3]), "d": twice},
        "list of lists": [[1], [2, [torch.zeros(1)]]],
        "frozen": torch.zeros(3).requires_grad_(),
    }


def swap_memory(state: State) -> None:
    """New tensors of the same kind, made after the old ones were freed: ids and addresses come again."""
    for name in list(state["tensors"]):
        shape = state["tensors"].pop(name).shape
        state["tensors"][name] = torch.full(tuple(shape), 9.0)


def change_data(state: State, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensor = state["tensors"]["t2"]
    tensor.data = make(tensor.data)


def retie(state: State) -> None:
    model = state["model"]
    model[2].weight = torch.nn.Parameter(model[2].weight.detach().clone())


def poke(value: Any) -> None:
    value.flags.writeable = not value.flags.writeable


MUTATIONS: dict[str, Mutation] = {
    "nothing": lambda s: None,
    "values in place": lambda s: (s["tensors"]["t1"].add_(1), s["arrays"][0].__iadd__(1)),
    "a step": lambda s: (s["model"](torch.ones(4, 2)).sum().backward(), s["optimizer"].step(), s["scheduler"].step()),
    "another tensor": lambda s: s["tensors"].update(t1=torch.full((2, 2), 5.0)),
    "all other tensors": swap_memory,
    "another array": lambda s: s["arrays"].__setitem__(1, np.full(3, 4.0)),
    "all other arrays": lambda s: s.update(arrays=[one + 1 for one in s["arrays"]]),
    "arrays in place of a list": lambda s: s["arrays"].__setitem__(slice(None), [one + 1 for one in s["arrays"]]),
    "another dtype": lambda s: s["tensors"].update(t1=torch.zeros(2, 2, dtype=torch.float64)),
    "a dtype of another name": lambda s: s["arrays"].__setitem__(0, np.zeros(2, ">f8")),
    "long long": lambda s: s["mixed"].update(np=np.longlong(3)),
    "another shape": lambda s: s["tensors"].update(t1=torch.zeros(4)),
    "other strides": lambda s: s["tensors"].update(t1=torch.full((2, 2), 3.0).t()),
    "strided array": lambda s: s["arrays"].__setitem__(0, np.arange(4.0)[::2]),
    "alias of a tensor": lambda s: s["tensors"].update(t1=s["tensors"]["t1"].view(2, 2)),
    "two become one": lambda s: s["numbered"][0].update(m=s["numbered"][1000]["m"]),
    "one becomes two": lambda s: s["tied"].update(b=s["tied"]["a"].copy()),
    "a view": lambda s: s["arrays"].__setitem__(0, s["arrays"][2][:2]),
    "a view moves": lambda s: s["tied"].update(view=s["tied"]["a"][0:2]),
    "a view of a tensor in numpy": lambda s: s["arrays"].__setitem__(0, s["tensors"]["t0"].view(-1).double().numpy()),
    "lists become one": lambda s: s["list of lists"].__setitem__(0, s["list of lists"][1]),
    "lists of numbers become one": lambda s: s["pairs"].update(a=s["pairs"]["b"]),
    "one list of numbers becomes two": lambda s: s["pairs"].update(d=list(s["pairs"]["c"])),
    "tensors become one": lambda s: s["tensors"].update(t1=torch.zeros(2, 2), t0=s["tensors"]["t0"]),
    "generators become one": lambda s: s["generators"].append(s["generators"][0]),
    "data swapped": lambda s: change_data(s, torch.clone),
    "data of another shape": lambda s: change_data(s, lambda data: data[:, :1]),
    "data of another dtype": lambda s: change_data(s, torch.Tensor.double),
    "data shared": lambda s: change_data(s, lambda data: s["tensors"]["t3"].data.view(-1)[:6].view(2, 3)),
    "resized": lambda s: s["tensors"]["t1"].resize_(3, 3).fill_(0),
    "numpy resized": lambda s: s["arrays"][0].resize(5, refcheck=False),
    "requires grad": lambda s: s["tensors"]["t1"].requires_grad_(),
    "a graph": lambda s: s.update(frozen=s["frozen"] * 2),
    "a parameter": lambda s: s["tensors"].update(t1=torch.nn.Parameter(torch.zeros(2, 2))),
    "negative": lambda s: s["tensors"].update(t0=torch.zeros(2, 1, dtype=torch.complex64).conj().imag),
    "sparse": lambda s: s["tensors"].update(t1=torch.eye(2).to_sparse()),
    "meta": lambda s: s["tensors"].update(t1=torch.zeros(2, 2, device="meta")),
    "read-only": lambda s: poke(s["arrays"][2]),
    "a new key": lambda s: s["tensors"].update(new=torch.zeros(1)),
    "a key less": lambda s: s["tensors"].pop("t3", None),
    "keys in another order": lambda s: s["tensors"].update(t0=s["tensors"].pop("t0", torch.zeros(2, 1))),
    "1 for True": lambda s: s["keyed"].update({True: s["keyed"].pop(1, None)}),
    "minus zero": lambda s: s["keyed"].update({(1, 0.0): s["keyed"].pop((1, 0.0), None)}),
    "a number for an array": lambda s: s["mixed"].update(w=3),
    "an array for a number": lambda s: s["mixed"].update(n=torch.zeros(2)),
    "numpy for torch": lambda s: s["mixed"].update(w=np.zeros(2, "f4")),
    "a number changes": lambda s: s["mixed"].update(n=2**70, x=float("nan"), none="text"),
    "a scalar of numpy changes": lambda s: s["mixed"].update(np=np.float32(5)),
    "empty anew": lambda s: s["mixed"].update(empty=torch.zeros(0)),
    "history grows": lambda s: s["history"].extend([1, float("inf"), "a"]),
    "history grows arrays": lambda s: s["history"].append(np.zeros(1)),
    "history shrinks": lambda s: s["history"].clear(),
    "a dict of dollars": lambda s: s["mixed"].update({"$": 1}),
    "queue": lambda s: s["queue"].append((9, [8])),
    "names": lambda s: s["names"].add("c"),
    "raw grows": lambda s: s["raw"][0].extend(b"d"),
    "raw changes": lambda s: s["raw"][0].__setitem__(0, 3),
    "short bytes": lambda s: s["raw"].__setitem__(2, b"y"),
    "other bytes": lambda s: s["raw"].__setitem__(2, b"y" * 3000),
    "array.array": lambda s: s["raw"].__setitem__(1, array.array("f", [1.0, 2.0])),
    "dataclass value": lambda s: setattr(s["dataclass"], "rate", [1]),
    "dataclass attribute": lambda s: setattr(s["dataclass"], "more", 1),
    "dataclass loses": lambda s: s["dataclass"].__dict__.pop("rate", None),
    "another class": lambda s: s.update(pair=(1, torch.zeros(1))),
    "mode": lambda s: s.update(mode=Mode.SLOW),
    "default factory": lambda s: setattr(s["defaults"], "default_factory", dict),
    "jax": lambda s: s.update(jax=s["jax"] + 1),
    "jax shape": lambda s: s.update(jax=jnp.ones(3)),
    "model of another class": lambda s: setattr(s["model"], "__class__", torch.nn.ModuleList),
    "model in another dtype": lambda s: s["model"].double(),
    "a layer more": lambda s: s["model"].append(torch.nn.Linear(2, 2)),
    "tied weights": lambda s: setattr(s["model"][2], "weight", s["optimizer"].param_groups[0]["params"][0]),
    "another weight": retie,
    "optimizer state cleared": lambda s: s["optimizer"].state.clear(),
    "learning rate": lambda s: s["optimizer"].param_groups[0].update(lr=0.5, betas=(0.1, 0.2)),
    "object shares": lambda s: setattr(s["own"], "extra", s["numbered"]),
    "object differs": lambda s: setattr(s["own"], "extra", {"k": np.zeros(1)}),
    "another generator": lambda s: s["generators"].__setitem__(1, np.random.default_rng(3)),
    "draws": lambda s: (s["generators"][0].random(), s["generators"][1].random(), np.random.rand()),
    "contains itself": lambda s: s["list of lists"].append(s["list of lists"]),
    "a lock": lambda s: s["mixed"].update(n=lambda: 0),
    "a new part": lambda s: s.update(new=1),
    "a part less": lambda s: s.pop("mode", None),
    "not finite": lambda s: s["arrays"][1].__setitem__(0, np.nan),
}


# A change may not fit what an earlier one left; what it did until then counts.
MISFITS = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, BufferError)


def outcome(walk: Callable[[], Snapshot]) -> Any:
    try:
        snapshot = walk()
    except StateUnsupported as error:
        return str(error)
    table = snapshot.table
    data = [bytes(snapshot.data(index)) for index in range(len(table.names))]
    assert [len(one) for one in data] == list(table.sizes)
    return repr(snapshot.tree), table.names, table.specs, data


def in_full(state: UserState, progress: Progress) -> Snapshot:
    """As a UserState that remembers nothing walks."""
    twin = copy.copy(state)
    twin._structure = twin._table = None
    twin.refuse_new_parts()
    return twin._walk(frameworks_in_use(), progress, None)


def compare(state: UserState, progress: Progress) -> Any:
    expected = outcome(lambda: in_full(state, progress))
    assert outcome(lambda: state.snapshot(progress)) == expected
    assert outcome(lambda: state.snapshot(progress)) == expected
    return expected


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("require_finite", [False, True])
@pytest.mark.parametrize("views", [False, True])
def test_after_any_change_both_ways_say_the_same(name: str, require_finite: bool, views: bool) -> None:
    state = UserState(make_state(views=views), require_finite=require_finite, classes=(Mode, Pair, Config))
    compare(state, Progress())
    MUTATIONS[name](state.parts)
    compare(state, Progress(3))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    views=st.booleans(), rounds=st.lists(st.lists(st.sampled_from(list(MUTATIONS)), min_size=1, max_size=3), max_size=4)
)
def test_after_any_changes_both_ways_say_the_same(views: bool, rounds: list[list[str]]) -> None:
    state = UserState(make_state(views=views), classes=(Mode, Pair, Config))
    for names in [["nothing"], *rounds]:
        for name in names:
            with suppress(*MISFITS):
                MUTATIONS[name](state.parts)
        compare(state, Progress())


STEADY = [
    *("nothing", "values in place", "a step", "another tensor", "all other arrays", "a number changes"),
    *("history grows", "learning rate", "draws", "other bytes", "jax", "names", "mode", "all other tensors"),
]


@pytest.mark.parametrize("name", STEADY)
def test_what_happens_at_every_step_needs_no_full_walk(name: str) -> None:
    state = make_state(views=False)
    state["mode"] = Mode.FAST
    user = UserState(state, classes=(Mode, Pair, Config))
    table = user.snapshot(Progress()).table
    if name != "mode":
        MUTATIONS[name](state)
    assert user.snapshot(Progress(1)).table is table
    assert user.full_walks == 1


def test_a_full_walk_that_finds_the_same_leaves_keeps_their_table() -> None:
    state = UserState({"x": {"a": torch.zeros(2), "b": 1, "c": (1,)}})
    table = state.snapshot(Progress()).table
    state.parts["x"]["c"] = [[1]]
    assert state.snapshot(Progress()).table is table
    assert state.full_walks == 2
    state.parts["x"]["d"] = torch.zeros(2)
    assert state.snapshot(Progress()).table is not table


def test_nothing_of_the_program_is_kept_alive_between_saves() -> None:
    tensor, owner = torch.zeros(3), Counter()
    state = UserState({"t": {"a": tensor}, "n": [np.zeros(3)]})
    state.snapshot(Progress())
    snapshot = state.snapshot(Progress())
    buffer = memoryview(bytearray(snapshot.bytes))
    snapshot.copy_into(buffer, offsets_of(snapshot))
    gone = weakref.ref(tensor)
    del tensor, snapshot, owner
    state.parts["t"]["a"] = torch.ones(3)
    gc.collect()
    assert gone() is None


def offsets_of(snapshot: Snapshot, gap: int = 0) -> list[int]:
    offsets, position = [], 0
    for size in snapshot.table.sizes:
        offsets.append(position)
        position += size + gap
    return offsets


@pytest.mark.parametrize("gap", [0, 1, 64])
def test_the_buffer_has_the_bytes_of_each_leaf(gap: int) -> None:
    user = UserState(make_state(), classes=(Mode, Pair, Config))
    for _ in range(3):
        snapshot = user.snapshot(Progress())
        offsets = offsets_of(snapshot, gap)
        buffer = memoryview(bytearray(b"\xa5" * (offsets[-1] + snapshot.table.sizes[-1] + gap)))
        snapshot.prepare(buffer, offsets)
        for _ in range(2):
            snapshot.copy_into(buffer, offsets)
            for index, (offset, size) in enumerate(zip(offsets, snapshot.table.sizes, strict=True)):
                assert buffer[offset : offset + size] == snapshot.data(index), snapshot.table.names[index]
                assert set(buffer[offset + size : offset + size + gap]) <= {0xA5}
        MUTATIONS["values in place"](user.parts)


def test_a_buffer_is_let_go_with_its_last_user() -> None:
    snapshot = UserState({"t": torch.zeros(100), "n": np.zeros(3), "raw": bytearray(b"abc")}).snapshot(Progress())
    owner = bytearray(snapshot.bytes)
    buffer = memoryview(owner)
    snapshot.copy_into(buffer, offsets_of(snapshot))
    with pytest.raises(BufferError):
        owner.append(1)
    del buffer
    gc.collect()
    owner.append(1)


def test_the_dry_run_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the dry run looked at the values")

    for framework in frameworks_in_use():
        monkeypatch.setattr(type(framework), "buffer", refuse)
    state = make_state()
    assert UserState(state, classes=(Mode, Pair, Config)).bytes > 3000
