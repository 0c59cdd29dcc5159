"""Results that are copied from one sink to another: what a death and a later claim mean to them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from outlast.errors import SinkUnreachable
from outlast.items import Result
from outlast.registry import open_sink
from outlast.testing import MemorySink
from outlast.worker import copying
from outlast.worker.copying import copy_results, same_place


def filled(count: int, *, claim: int, value: str = '"copied"') -> MemorySink:
    sink = MemorySink()
    sink.prepare()
    sink.store([Result(f"item-{number}", value, "1", claim) for number in range(count)])
    return sink


def copied(source: MemorySink, target: MemorySink) -> Counter[str | None]:
    def warn(said: str) -> None:
        raise AssertionError(said)

    return copy_results(source, target, warn=warn)


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
        copied(source, target)
    assert 0 < len(list(target.results())) < 2500
    target.fails = False
    assert copied(source, target).total() == 2500
    assert {one.id: one for one in target.results()} == {one.id: one for one in source.results()}


def test_a_result_under_a_later_claim_stays_and_one_under_an_earlier_goes() -> None:
    source, target = filled(3, claim=3), filled(0, claim=0)
    target.store([Result("item-0", '"later"', "2", 4), Result("item-1", '"earlier"', "2", 2)])
    copied(source, target)
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
    copied(filled(7, claim=1, value=f'"{"a" * 38}"'), target)
    assert target.sizes == [3, 3, 1]


def test_a_source_that_cannot_be_read_leaves_the_target_unmade_and_an_empty_one_does_not() -> None:
    class Unreadable(MemorySink):
        def results(self) -> Iterator[Result]:
            raise SinkUnreachable("no such server")

    target = FailingSink()
    with pytest.raises(SinkUnreachable, match="no such server"):
        copied(Unreadable(), target)
    assert target.prepared == 0
    assert copied(filled(0, claim=1), target).total() == 0
    assert target.prepared == 1


def test_a_sink_for_few_results_that_gets_many_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(copying, "FEW_ITEMS", 10)
    monkeypatch.setattr(copying, "_MOST_RESULTS", 5)
    target, told = open_sink(str(tmp_path / "results")), []
    for count in (10, 30):
        copy_results(filled(count, claim=1), target, warn=told.append)
    assert len(told) == 1
    assert "parquet:FOLDER is for so many" in told[0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("jsonl:a", "jsonl:./a", True),
        ("jsonl:a", "jsonl:link", True),
        ("jsonl:a", "jsonl:b", False),
        ("results", "./results/", True),
        ("parquet:results", "results", False),
        ("parquet:gs://bucket/a/", "parquet:gs://bucket/a", True),
        ("gs://bucket/a", "gs://bucket/b", False),
        ("sqlite:///a.db", "sqlite:///./a.db?table=results", True),
        ("sqlite:///a.db?table=one", "sqlite:///a.db?table=two", False),
    ],
)
def test_two_urls_of_one_place_are_known_as_such(
    one: str, other: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("a")
    assert same_place(one, other) is same
