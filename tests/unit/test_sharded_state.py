"""State that is divided among ranks: each saves its part, and any other division of it comes back from all parts."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_saves import Saved
from torch.distributed.checkpoint.default_planner import create_default_local_save_plan
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.testing._internal.distributed.fake_pg import FakeStore

from outlast.checkpoint.equal import image_for, refuse_other_ranks
from outlast.checkpoint.export import export_file
from outlast.checkpoint.read import open_image
from outlast.checkpoint.record import LeafPlace
from outlast.checkpoint.shards import Shards, Stored
from outlast.errors import CheckpointCorrupt, StateMismatch, StateUnsupported
from outlast.frameworks.torch_sharded import TorchSharder
from outlast.ports import ArraySpec
from outlast.sharding import Box, covers
from outlast.state.parts import Progress, UserState

SHAPES = [(8, 6), (5, 3), (3,), (1, 7), (2, 3, 4)]


@dataclass(frozen=True)
class Division:
    """Axes of a mesh, and what each does to a tensor; no axes: the tensors are plain."""

    axes: tuple[int, ...]
    placements: tuple[Any, ...]

    @property
    def ranks(self) -> int:
        return torch.Size(self.axes).numel()

    def fits(self, shape: tuple[int, ...]) -> bool:
        return all(not one.is_shard() or one.dim < len(shape) for one in self.placements)

    def of(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's part, as torch divides it; nobody is asked."""
        if not self.axes:
            return whole.clone()
        mesh = init_device_mesh("cpu", self.axes)
        local = whole
        for axis, placement in enumerate(self.placements):
            if placement.is_shard():
                parts = local.chunk(self.axes[axis], dim=placement.dim)
                coordinate = mesh.get_coordinate()[axis]
                empty = local.narrow(placement.dim, 0, 0)
                local = parts[coordinate] if coordinate < len(parts) else empty
        return DTensor.from_local(
            local.clone(), mesh, self.placements, run_check=False, shape=whole.shape, stride=whole.stride()
        )


PLAIN = Division((), ())
DIVISIONS = [
    PLAIN,
    Division((4,), (Shard(0),)),
    Division((2,), (Shard(0),)),
    Division((3,), (Shard(1),)),
    Division((2, 2), (Replicate(), Shard(0))),
    Division((2, 2), (Shard(0), Shard(1))),
    Division((1,), (Shard(0),)),
]


@contextmanager
def world(rank: int, size: int) -> Iterator[None]:
    """A process of so many, of which there are no others: collectives do nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()
        _clear_sharding_prop_cache()  # it keeps the mesh of the rank that asked first


def whole_tensors(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {f"{index}": torch.randn(shape, generator=generator).to(dtype) for index, shape in enumerate(SHAPES)}


class Holder:
    """An object with a state of its own, as a model is."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self.tensors = tensors

    def state_dict(self) -> dict[str, torch.Tensor]:
        return dict(self.tensors)

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        for name, value in state.items():
            assert type(value) is type(self.tensors[name])
            self.tensors[name] = value


@pytest.fixture
def saved(store: Path) -> Saved:
    return Saved(store)


def divided_states(division: Division, make: Callable[[Division], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for rank in range(division.ranks):
        with world(rank, division.ranks):
            yield make(division)


def parts_of(division: Division, *, blank: bool = False) -> dict[str, Any]:
    """In place, inside an object, and where nothing stands at the restore (`blank`)."""
    tensors = {
        name: division.of(torch.zeros_like(one) if blank else one)
        for name, one in whole_tensors().items()
        if division.fits(one.shape)
    }
    held = {name: one.clone() for name, one in tensors.items()}
    return {"plain": torch.zeros(3) if blank else torch.arange(3.0), "here": tensors, "object": Holder(held)}


def local(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def restored(saved: Saved, path: str, rank: int, state: dict[str, Any]) -> UserState:
    record = saved.load(path)
    user = UserState(state, random_state=False)
    with open_image(saved.store, record, image_for(record, rank)) as opened:
        accepted = user.accept(opened)
        opened.load(accepted.leaves, accepted.targets)
        accepted.fetch()
        accepted.restore()
    return user


@pytest.mark.parametrize("before", DIVISIONS)
def test_each_rank_gets_its_part_however_the_state_was_divided(before: Division, saved: Saved) -> None:
    path = saved.save(1, divided_states(before, parts_of))
    record = saved.load(path)
    for after in DIVISIONS:
        refuse_other_ranks(saved.store, record, after.ranks)
        for rank in range(after.ranks):
            with world(rank, after.ranks):
                state, wanted = parts_of(after, blank=True), parts_of(after)
                names = {name for name, one in whole_tensors().items() if before.fits(one.shape)}
                if set(state["here"]) != names:
                    continue  # other tensors than were saved
                standing = {name: local(one).data_ptr() for name, one in state["here"].items()}
                restored(saved, path, rank, state)
                assert torch.equal(state["plain"], wanted["plain"])
                for name, one in wanted["here"].items():
                    for got in (state["here"][name], state["object"].tensors[name]):
                        assert type(got) is type(one)
                        assert torch.equal(local(got), local(one))
                    assert local(state["here"][name]).data_ptr() == standing[name]


def model_and_optimizer(division: Division, *, steps: int) -> dict[str, Any]:
    """AdamW with its moments, made without a collective: each rank has the gradients of its own part."""
    tensors = [division.of(one) for one in whole_tensors().values() if division.fits(one.shape)]
    parameters = [torch.nn.Parameter(one) for one in tensors]
    optimizer = torch.optim.AdamW(parameters, lr=0.1)
    for step in range(steps):
        for parameter, whole in zip(parameters, whole_tensors().values(), strict=False):
            parameter.grad = division.of(torch.sin(whole * (step + 1)))
        optimizer.step()
    return {"parameters": [one.detach() for one in parameters], "optimizer": optimizer}


@pytest.mark.parametrize("before", DIVISIONS[:3])
@pytest.mark.parametrize("after", DIVISIONS[:3])
def test_moments_lie_as_their_parameters_do_though_none_stood_there(
    before: Division, after: Division, saved: Saved
) -> None:
    path = saved.save(1, divided_states(before, lambda one: model_and_optimizer(one, steps=2)))
    for rank in range(after.ranks):
        with world(rank, after.ranks):
            expected, state = model_and_optimizer(after, steps=2), model_and_optimizer(after, steps=0)
            restored(saved, path, rank, state)
            assert all(
                torch.equal(local(one), local(two))
                for one, two in zip(state["parameters"], expected["parameters"], strict=True)
            )
            moments, wanted = state["optimizer"].state_dict()["state"], expected["optimizer"].state_dict()["state"]
            assert moments.keys() == wanted.keys()
            for number, name in itertools.product(wanted, ("exp_avg", "exp_avg_sq", "step")):
                assert type(moments[number][name]) is type(wanted[number][name])
                assert torch.equal(local(moments[number][name]), local(wanted[number][name]))


def test_what_is_divided_costs_each_rank_its_part_only(saved: Saved) -> None:
    def large(division: Division) -> dict[str, Any]:
        return {"w": division.of(torch.arange(400_000.0))}

    written = saved.written(saved.save(1, divided_states(DIVISIONS[1], large)))
    assert all(400_000 <= one < 420_000 for one in written)


def test_export_writes_the_whole_of_what_is_divided(saved: Saved, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    path = saved.save(1, divided_states(DIVISIONS[5], parts_of))
    export_file(saved.store, path, tmp_path / "all.safetensors", progress=lambda done, total: None)
    found = load_file(tmp_path / "all.safetensors")
    for name, one in whole_tensors().items():
        if DIVISIONS[5].fits(one.shape):
            assert torch.equal(found[f"state['here']['{name}']"], one)
            assert torch.equal(found[f"state['object'].state_dict()['{name}']"], one)


@pytest.mark.parametrize("division", [one for one in DIVISIONS if one.axes])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_box_is_the_one_that_torchs_own_planner_writes(division: Division, shape: tuple[int, ...]) -> None:
    if not division.fits(shape):
        return
    for rank in range(division.ranks):
        with world(rank, division.ranks):
            value = division.of(torch.zeros(shape))
            sharding = TorchSharder().sharding(value)
            assert sharding is not None
            [box] = sharding.boxes
            [item] = create_default_local_save_plan({"w": value}, is_coordinator=False).items
            chunk = item.tensor_data.chunk
            assert box.shape == tuple(chunk.sizes)
            assert not box.elements or box.at == tuple(chunk.offsets)


# --- boxes --------------------------------------------------------------------------------------------


def grids(shape: tuple[int, ...], draw: Any) -> list[Box]:
    """The whole, cut along each dimension."""
    cuts = []
    for size in shape:
        inner = draw(st.lists(st.integers(1, size - 1), unique=True, max_size=3)) if size > 1 else []
        ends = [0, *sorted(inner), size]
        cuts.append(list(itertools.pairwise(ends)))
    return [
        Box(tuple(first for first, _ in one), tuple(end - first for first, end in one))
        for one in itertools.product(*cuts)
    ]


def stored_in(whole: torch.Tensor, boxes: list[Box]) -> Stored:
    """An image that holds these boxes of an array."""
    parts = [whole[tuple(slice(at, at + size) for at, size in zip(*box, strict=True))].contiguous() for box in boxes]
    data = [bytes(one.view(torch.uint8).flatten().tolist()) for one in parts]
    leaves = [
        LeafPlace(f"w#{number}", ArraySpec("torch", "float32", box.shape), 0, len(data[number]))
        for number, box in enumerate(boxes)
    ]
    node = {
        "$": "sharded", "framework": "torch", "name": "w", "dtype": "float32", "shape": list(whole.shape),
        "boxes": [[list(box.at), list(box.shape)] for box in boxes], "layout": {},
        "v": [{"$": "array", "leaf": number} for number in range(len(boxes))],
    }  # fmt: skip
    tree = json.loads(json.dumps({"parts": {"w": node}}))
    return Stored(tree, leaves, lambda leaf, start, size: memoryview(bytearray(data[leaf][start : start + size])))


def read_box(images: list[Stored], wanted: Box) -> memoryview:
    own = images[0]
    return Shards(lambda: images, threads=2).read(own.tree["parts"]["w"], own, wanted)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_box_is_put_together_from_the_boxes_that_are_stored(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    whole = torch.arange(float(torch.Size(shape).numel())).view(shape)
    boxes = grids(shape, data.draw)
    assert covers(shape, boxes)
    assert not covers(shape, boxes[1:])
    firsts = [data.draw(st.integers(0, size - 1)) for size in shape]
    sizes = tuple(data.draw(st.integers(1, size - first)) for size, first in zip(shape, firsts, strict=True))
    wanted = Box(tuple(firsts), sizes)
    mine = data.draw(st.integers(0, len(boxes)))
    images = [stored_in(whole, boxes[:mine]), stored_in(whole, boxes[mine:])]
    expected = whole[tuple(slice(at, at + size) for at, size in zip(*wanted, strict=True))]
    assert torch.equal(torch.frombuffer(read_box(images, wanted), dtype=torch.float32).view(sizes), expected)
    reads = create_read_items_for_chunk_list(
        "w",
        TensorStorageMetadata(TensorProperties(), torch.Size(shape), [_chunk(box) for box in boxes]),
        [_chunk(wanted)],
    )
    assert sorted(tuple(one.lengths) for one in reads) == sorted(
        common.shape for box in boxes if (common := box.overlap(wanted)) is not None
    )


def _chunk(box: Box) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size(box.at), torch.Size(box.shape))


def test_a_large_box_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.checkpoint.shards._BLOCK_BYTES", 64)
    whole = torch.arange(600.0).view(20, 30)
    image = stored_in(whole, [Box((0, 0), (20, 30))])
    asked = []
    read = replace(image, read=lambda leaf, start, size: (asked.append(size), image.read(leaf, start, size))[1])
    data = read_box([read], Box((3, 0), (11, 30)))
    assert torch.equal(torch.frombuffer(data, dtype=torch.float32).view(11, 30), whole[3:14])
    assert max(asked) <= 64
    data = read_box([read], Box((3, 4), (11, 5)))
    assert torch.equal(torch.frombuffer(data, dtype=torch.float32).view(11, 5), whole[3:14, 4:9])
    assert max(asked) <= 64


@pytest.mark.parametrize(
    "boxes",
    [
        [Box((0, 0), (2, 4))],  # half of it
        [Box((0, 0), (3, 4)), Box((2, 0), (2, 4))],  # a row twice
        [Box((0, 0), (2, 4)), Box((2, 0), (2, 3)), Box((2, 2), (2, 1))],  # as many elements, not the same
    ],
)
def test_parts_that_do_not_make_up_the_whole_are_no_checkpoint(boxes: list[Box]) -> None:
    whole = torch.zeros(4, 4)
    assert not covers((4, 4), boxes)
    with pytest.raises(CheckpointCorrupt, match="do not hold all"):
        read_box([stored_in(whole, boxes)], Box((0, 0), (4, 4)))


def test_parts_of_another_array_of_that_name_are_refused() -> None:
    one = stored_in(torch.zeros(4, 4), [Box((0, 0), (2, 4))])
    other = stored_in(torch.zeros(5, 4), [Box((2, 0), (3, 4))])
    with pytest.raises(CheckpointCorrupt, match="on one rank and not on another"):
        read_box([one, other], Box((0, 0), (4, 4)))


@pytest.mark.parametrize(
    "spoil",
    [
        {"boxes": [[[0, 0], [9, 4]]]},
        {"boxes": [[[0], [2]]]},
        {"boxes": [[[0, 0], [-2, 4]]]},
        {"boxes": []},
        {"shape": [True, 4]},
        {"shape": "44"},
        {"v": [{"$": "array", "leaf": 7}]},
        {"v": [{"$": "array", "leaf": "0"}]},
    ],
)
def test_a_node_that_makes_no_sense_ends_no_restore_in_a_traceback(spoil: dict[str, Any], saved: Saved) -> None:
    other = stored_in(torch.zeros(4, 4), [Box((2, 0), (2, 4))])
    other.tree["parts"]["w"].update(spoil)
    with pytest.raises(CheckpointCorrupt):
        read_box([stored_in(torch.zeros(4, 4), [Box((0, 0), (2, 4))]), other], Box((0, 0), (4, 4)))


# --- what is refused ----------------------------------------------------------------------------------


def test_a_missing_rank_s_part_is_told_before_anything_is_touched(saved: Saved) -> None:
    """The second half twice: nobody has the first one."""

    def states() -> Iterator[dict[str, Any]]:
        for rank in (1, 1):
            with world(rank, 2):
                yield {"w": DIVISIONS[2].of(torch.arange(8.0))}

    record = saved.load(saved.save(1, states()))
    with pytest.raises(CheckpointCorrupt, match=r"state\['w'\].*do not make up \[8\]"):
        refuse_other_ranks(saved.store, record, 1)


@pytest.mark.parametrize("other", [torch.zeros(9, 6), torch.zeros(8, 6, dtype=torch.float64)])
@pytest.mark.parametrize(("inside", "after"), [(False, PLAIN), *itertools.product([True, False], DIVISIONS[1:3])])
def test_another_shape_or_dtype_is_refused_by_its_path(
    other: torch.Tensor, inside: bool, after: Division, saved: Saved
) -> None:
    def of(division: Division, whole: torch.Tensor) -> dict[str, Any]:
        return {"w": Holder({"x": division.of(whole)}) if inside else division.of(whole)}

    path = saved.save(1, divided_states(DIVISIONS[1], lambda one: of(one, torch.ones(8, 6))))
    with world(0, after.ranks):
        state = of(after, other)
        with pytest.raises(StateMismatch, match=r"state\['w'\].*float"):
            restored(saved, path, 0, state)


def test_partial_sums_are_refused_by_their_path() -> None:
    with world(0, 2):
        mesh = init_device_mesh("cpu", (2,))
        state = {"w": DTensor.from_local(torch.ones(2), mesh, (Partial(),), run_check=False)}
        with pytest.raises(StateUnsupported, match=r"state\['w'\] cannot be saved: .* partial sums"):
            UserState(state)


def test_one_tensor_under_two_names_stays_one(saved: Saved) -> None:
    def tied(division: Division) -> dict[str, Any]:
        value = division.of(torch.arange(8.0))
        return {"model": Holder({"a": value, "b": value})}

    path = saved.save(1, divided_states(DIVISIONS[1], tied))
    for after in DIVISIONS[:3]:
        with world(0, after.ranks):
            state = {"model": Holder({name: after.of(torch.zeros(8)) for name in "ab"})}
            restored(saved, path, 0, state)
            for value in state["model"].tensors.values():
                assert torch.equal(local(value), local(after.of(torch.arange(8.0))))


def test_a_second_walk_sees_that_an_array_is_divided_anew() -> None:
    with world(0, 4):
        state = {"w": DIVISIONS[1].of(torch.arange(8.0))}
        user = UserState(state, random_state=False)
        first = user.snapshot(Progress(1))
        walks = user.full_walks
        second = user.snapshot(Progress(2))
        assert user.full_walks == walks
        assert first.tree["parts"] == second.tree["parts"]
        state["w"] = Division((2, 2), (Replicate(), Shard(0))).of(torch.arange(8.0))
        third = user.snapshot(Progress(3))
        assert third.tree["parts"]["w"]["boxes"] == [[[0], [4]]]


def test_a_bad_part_of_another_rank_is_found_before_anything_is_restored(saved: Saved) -> None:
    """So that the start falls back to an older checkpoint, as for a bad part of its own."""
    path = saved.save(1, divided_states(DIVISIONS[1], lambda one: {"w": one.of(torch.arange(4000.0))}))
    record = saved.load(path)
    [file] = [one.name for one in record.files if saved.place.rank_of(one.name) == 3]
    where = Path(saved.store.url) / file
    data = bytearray(where.read_bytes())
    data[9000] ^= 1
    where.write_bytes(data)
    with world(1, 2):
        state = {"w": DIVISIONS[2].of(torch.zeros(4000))}
        user = UserState(state, random_state=False)
        with open_image(saved.store, record, 1) as opened:
            accepted = user.accept(opened)
            opened.load(accepted.leaves, accepted.targets)
            with pytest.raises(CheckpointCorrupt, match="-r0003-"):
                accepted.fetch()
        assert not local(state["w"]).any()


def test_parts_under_one_name_that_are_not_of_one_array_are_refused(saved: Saved) -> None:
    """As stages of a pipeline whose layers have the same names: what looks like a copy holds something else."""

    def states() -> Iterator[dict[str, Any]]:
        for rank, fill in ((0, 0.0), (1, 0.0), (0, 1.0), (1, 1.0)):
            with world(rank, 2):
                yield {"w": DIVISIONS[2].of(torch.arange(8.0) + fill)}

    record = saved.load(saved.save(1, states()))
    with pytest.raises(StateMismatch, match=r"state\['w'\] is not the same on rank 0 and on rank 2"):
        refuse_other_ranks(saved.store, record, 2)


def test_a_plain_checkpoint_goes_into_a_module_whose_parameters_are_divided(saved: Saved) -> None:
    """Without hooks, as distribute_module leaves it."""

    def module(division: Division, fill: float) -> torch.nn.Module:
        made = torch.nn.Linear(4, 8, bias=False)
        made.weight = torch.nn.Parameter(division.of(torch.arange(32.0).view(8, 4) * fill))
        return made

    path = saved.save(1, iter([{"model": module(PLAIN, 1.0)}]))
    with world(1, 2):
        state = {"model": module(DIVISIONS[2], 0.0)}
        restored(saved, path, 1, state)
        assert torch.equal(local(state["model"].weight.detach()), torch.arange(32.0).view(8, 4)[4:])
