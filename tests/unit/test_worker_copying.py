"""Results that are copied from one sink to another: what a death and a later claim mean to them."""

from collections.abc import Iterator, Sequence

import pytest

from outlast.errors import SinkUnreachable
from outlast.items import Result
from outlast.testing import MemorySink
from outlast.worker import copying
from outlast.worker.copying import copy_results


def filled(count: int, *, claim: int, value: str = '"copied"') -> MemorySink:
    sink = MemorySink()
    sink.prepare()
    sink.store([Result(f"item-{number}", value, "1", claim) for number in range(count)])
    return sink


class FailingSink(MemorySink):
    """A sink that stores once and is unreachable then; it never makes itself ready if nothing is to be stored."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared = 0
        self.sizes: list[int] = []
        self.fails = True

    def prepare(self) -> None:
        super().prepare()
        self.prepared += 1

    def store(self, results: Sequence[Result], *, connection: object | None = None) -> None:
        if self.sizes and self.fails:
            raise SinkUnreachable("gone")
        self.sizes.append(len(results))
        super().store(results)


def test_a_copy_that_broke_off_in_the_middle_is_made_whole_by_another() -> None:
    source, target = filled(2500, claim=3), FailingSink()
    with pytest.raises(SinkUnreachable, match="gone"):
        copy_results(source, target)
    assert 0 < len(list(target.results())) < 2500
    target.fails = False
    assert copy_results(source, target) == 2500
    assert {one.id: one for one in target.results()} == {one.id: one for one in source.results()}


def test_a_result_under_a_later_claim_stays_and_one_under_an_earlier_goes() -> None:
    source, target = filled(3, claim=3), filled(0, claim=0)
    target.store([Result("item-0", '"later"', "2", 4), Result("item-1", '"earlier"', "2", 2)])
    copy_results(source, target)
    found = {one.id: (one.value, one.version, one.claim) for one in target.results()}
    assert found == {
        "item-0": ('"later"', "2", 4),
        "item-1": ('"copied"', "1", 3),
        "item-2": ('"copied"', "1", 3),
    }


def test_large_results_are_stored_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_MOST_CHARACTERS", 100)
    target = FailingSink()
    target.fails = False
    copy_results(filled(7, claim=1, value=f'"{"a" * 38}"'), target)
    assert target.sizes == [3, 3, 1]


def test_a_source_that_cannot_be_read_or_is_empty_leaves_the_target_unmade() -> None:
    class Unreadable(MemorySink):
        def results(self) -> Iterator[Result]:
            raise SinkUnreachable("no such server")

    target = FailingSink()
    assert copy_results(filled(0, claim=1), target) == 0
    with pytest.raises(SinkUnreachable, match="no such server"):
        copy_results(Unreadable(), target)
    assert target.prepared == 0
