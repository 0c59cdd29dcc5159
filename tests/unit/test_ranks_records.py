"""Commit records of several ranks: an image for each, shared pieces once, and nothing that a hostile record gains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joint_saves import Saved

from outlast.checkpoint.equal import image_for, refuse_other_ranks
from outlast.checkpoint.read import open_checkpoint, refusal, verify_data
from outlast.errors import CheckpointCorrupt, StateMismatch


@pytest.fixture
def saved(store: Path) -> Saved:
    return Saved(store)


def states(size: int, *, own: bool = False, fill: float = 1.0) -> list[dict[str, Any]]:
    return [{"w": np.full(50_000, fill + own * rank), "n": 7} for rank in range(size)]


def test_what_is_equal_on_all_ranks_is_written_by_the_first(saved: Saved) -> None:
    path = saved.save(1, states(3))
    first, *others = saved.written(path)
    assert first > 400_000
    assert all(one == 0 for one in others)
    assert refusal(saved.store, path) is None


def test_what_is_not_is_written_by_each(saved: Saved) -> None:
    path = saved.save(1, states(3, own=True))
    assert min(saved.written(path)) > 400_000
    for rank in range(3):
        with open_checkpoint(saved.store, path, rank=rank) as opened:
            [leaf] = [number for number, one in enumerate(opened.leaves) if one.name == "state['w']"]
            assert (np.frombuffer(opened.stored_leaf(leaf)) == 1.0 + rank).all()


def test_each_rank_refers_to_its_own_earlier_pieces(saved: Saved) -> None:
    before = states(2, own=True)
    first = saved.load(saved.save(1, before))
    for state in before:
        state["n"] = 8
    path = saved.save(2, before, first)
    assert max(saved.written(path)) < 10_000
    assert refusal(saved.store, path) is None


def test_equal_pieces_within_one_state_keep_the_record_readable(saved: Saved) -> None:
    """Zeros of a rank that has more of them than the first one: no place is counted twice."""
    path = saved.save(1, [{"w": np.zeros(10_000)}, {"w": np.zeros(4_000_000)}])
    assert refusal(saved.store, path) is None
    with open_checkpoint(saved.store, path, rank=1) as opened:
        opened.load((), {})


def test_a_bad_byte_of_any_rank_is_found(saved: Saved) -> None:
    path = saved.save(1, states(3, own=True))
    record = saved.load(path)
    [file] = [one.name for one in record.files if saved.place.rank_of(one.name) == 2]
    where = Path(saved.store.url) / file
    data = bytearray(where.read_bytes())
    data[5000] ^= 1
    where.write_bytes(data)
    found = refusal(saved.store, path)
    assert found is not None
    assert "-r0002-" in found.reason
    verify_data(saved.store, record, rank=0)
    with pytest.raises(CheckpointCorrupt):
        verify_data(saved.store, record, rank=2)


@pytest.mark.parametrize("ranks", [[0, 0], [1, 2], [0, 2]])
def test_a_record_whose_images_are_not_those_of_all_ranks_is_none(ranks: list[int], saved: Saved) -> None:
    path = saved.save(1, states(2))
    record = saved.load(path)
    images = tuple(replace(image, rank=rank) for image, rank in zip(record.images, ranks, strict=True))
    saved.store.delete(path)
    saved.store.create(path, replace(record, images=images).to_bytes())
    with pytest.raises(CheckpointCorrupt, match="images are not those of all ranks"):
        saved.load(path)


# --- another number of ranks ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_any_number_goes_on_from_what_is_equal_on_all(size: int, saved: Saved) -> None:
    record = saved.load(saved.save(1, states(3)))
    refuse_other_ranks(saved.store, record, size)
    assert [image_for(record, rank) for rank in range(size)] == [rank if rank < 3 else 0 for rank in range(size)]


@pytest.mark.parametrize(
    ("other", "path"),
    [
        ({"w": np.arange(9.0), "deep": {"x": [1, 2]}}, r"state\['deep'\]\['x'\]\[1\]"),
        ({"w": np.arange(9.0) + 1, "deep": {"x": [1, 3]}}, r"state\['w'\]"),
        ({"w": np.arange(8.0), "deep": {"x": [1, 3]}}, r"state\['w'\]"),
        ({"w": np.arange(9.0), "deep": {"y": [1, 3]}}, r"state\['deep'\]"),
        ({"w": np.arange(9.0), "deep": {"x": [True, 3]}}, r"state\['deep'\]\['x'\]\[0\]"),
    ],
)
def test_a_state_that_differs_is_refused_by_the_path_of_what_does(
    other: dict[str, Any], path: str, saved: Saved
) -> None:
    record = saved.load(saved.save(1, [{"w": np.arange(9.0), "deep": {"x": [1, 3]}}, other]))
    refuse_other_ranks(saved.store, record, 2)
    with pytest.raises(StateMismatch, match=rf"of 2 ranks, and this is a job of 1 process: {path} is not the same"):
        refuse_other_ranks(saved.store, record, 1)


def test_x06_the_middle_of_an_epoch_is_divided_among_as_many_as_before(saved: Saved) -> None:
    record = saved.load(saved.save(1, states(2), batch=3))
    refuse_other_ranks(saved.store, record, 2)
    with pytest.raises(StateMismatch, match="middle of an epoch"):
        refuse_other_ranks(saved.store, record, 4)
