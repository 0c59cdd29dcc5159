"""Thousands of leaves take the short ways: each says what the long way says."""

import gc
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from one_attempt import QuickDisk
from outlast.errors import CheckpointCorrupt
from outlast.garbage import collector_at_rest
from outlast.ports import ArrayFacts, Framework, ScatteringObject
from outlast.registry import framework_named
from outlast.stores.directory import DirectoryStore


def test_the_collector_rests_and_is_as_before_afterwards_whatever_happens() -> None:
    before = gc.get_threshold()
    with suppress(KeyError), collector_at_rest():
        assert gc.isenabled()
        assert gc.get_threshold()[0] > 1_000_000
        with collector_at_rest():
            pass
        assert gc.get_threshold()[0] > 1_000_000
        raise KeyError
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(0)
        with collector_at_rest():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


class ShortDisk(QuickDisk):
    """Reads a few bytes at a time, as a kernel may."""

    def __init__(self, most: int) -> None:
        self._most = most

    def read_all_at(self, handle: int, targets: Sequence[memoryview], offset: int) -> int:
        taken, room = [], self._most
        for target in targets:
            taken.append(target[:room])
            room -= len(taken[-1])
            if not room:
                break
        return super().read_all_at(handle, taken, offset)


@pytest.mark.parametrize("most", [1, 3, 5, 7, 100])
def test_a_range_goes_to_many_places_however_little_the_kernel_reads(tmp_path: Path, most: int) -> None:
    store = DirectoryStore(str(tmp_path), disk=ShortDisk(most))
    data = bytes(range(100))
    store.write("data/a", [data])
    sizes = [5, 1, 10, 3, 1, 20]
    targets = [memoryview(bytearray(size)) for size in sizes]
    with store.open("data/a") as opened:
        assert isinstance(opened, ScatteringObject)
        opened.read_into_all(7, targets)
        assert b"".join(targets) == data[7:47]
        with pytest.raises(CheckpointCorrupt, match="ends at 100"):
            opened.read_into_all(90, targets)


def test_a_range_goes_to_more_places_than_one_call_takes(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path), disk=QuickDisk())
    data = np.random.default_rng(0).bytes(9000)
    store.write("data/a", [data])
    targets = [memoryview(bytearray(3)) for _ in range(3000)]
    with store.open("data/a") as opened:
        assert isinstance(opened, ScatteringObject)
        opened.read_into_all(0, targets)
    assert b"".join(targets) == data


def _facts(framework: Framework, value: object) -> ArrayFacts:
    alias = framework.alias_key(value)
    return ArrayFacts(
        framework.spec(value), framework.writable(value), framework.nbytes(value), alias, framework.span(value)
    )


def _arrays() -> dict[str, list[object]]:
    whole, plain = torch.arange(24.0), np.arange(24.0)
    parameter, readonly = torch.nn.Parameter(torch.ones(3)), np.arange(24.0)
    readonly.flags.writeable = False
    tensors = [
        whole, whole.view(4, 6), whole.view(4, 6).t(), whole[:12], whole[12:], whole[:1].expand(24), whole.view(24),
        whole.to(torch.complex64), torch.arange(24), parameter, parameter.detach(), parameter.data, torch.zeros(0),
        torch.zeros(0), torch.ones(2, dtype=torch.complex64).conj(), torch.ones(2, dtype=torch.complex64),
        torch.ones(2, dtype=torch.complex64).conj().imag, torch.ones(2).requires_grad_(), torch.ones(()),
    ]  # fmt: skip
    arrays = [
        plain, plain.reshape(4, 6), plain.reshape(4, 6).T, plain[::-1], plain[:12], plain[12:], readonly, readonly[:],
        np.broadcast_to(plain[:1], 24), plain.view(np.int64), plain.view("<f8"), plain.astype(">f8"), np.zeros(0),
        np.zeros(0), np.float32(3), np.float32(3), np.ones((), "f4"), np.zeros(2, [("a", "i4"), ("b", "f8")]),
        np.zeros(2, [("c", "i4"), ("b", "f8")]),
    ]  # fmt: skip
    return {"torch": tensors, "numpy": arrays}


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_many_arrays_looked_at_in_a_row_are_what_each_is_by_itself(name: str) -> None:
    framework, arrays = framework_named(name), _arrays()[name]
    look, twice = framework.looker(), [*arrays, *arrays]
    found, expected = [look(one) for one in twice], [_facts(framework, one) for one in twice]
    assert [one[:3] for one in found] == [one[:3] for one in expected]
    assert [one.span for one in found] == [one.span for one in expected]
    for one, known in zip(found, expected, strict=True):
        same = [one.key == other.key for other in found]
        assert same == [known.key == other.key for other in expected]
