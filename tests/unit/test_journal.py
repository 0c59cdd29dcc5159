"""An attempt's journal: on every kind of store, after every death, and however long the attempt lives."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_stores import STORES, MemoryBucket

from outlast.checkpoint import journal as journal_module
from outlast.checkpoint.history import history_of
from outlast.checkpoint.journal import Journal
from outlast.checkpoint.journals import Journals, logged_numbers, read_journals
from outlast.checkpoint.places import TaskPlace
from outlast.checkpoint.shorten import MOST_LOGGED_STEPS, Needs, shorten_ended, shortened, thinned_lines, write_short
from outlast.errors import ObjectMissing, StoreUnreachable
from outlast.events import (
    AttemptStarted,
    Event,
    Finished,
    Logged,
    LoopStarted,
    Recorded,
    Restored,
    SaveCommitted,
    SavesSummed,
    SaveStalled,
    SaveStarted,
    SaveVerified,
    to_line,
)
from outlast.ports import OpenObject, Store
from outlast.settings import Surroundings, look_around
from outlast.stores.objects import BucketStore
from outlast.testing import FakeClock, MemoryStore

PLACE = TaskPlace("j", "run-1", 0)


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


def around(clock: FakeClock | None = None) -> Surroundings:
    found = look_around({}, platform="local")
    return Surroundings(
        found.facts, found.identity, found.grace_seconds, found.interrupted_exit_code, {}, clock or FakeClock()
    )


def events(store: Store, attempt: int = 0) -> list[Event]:
    return [one.event for one in read_journals(store, PLACE).get(attempt, ())]


def fill(journal: Journal, clock: FakeClock, saves: int, *, first: int = 0) -> None:
    """So many saves, each with the lines that a job writes about it."""
    for step in range(first, first + saves):
        clock.advance(1)
        journal.record_later(SaveStalled(step, 0.25))
        journal.record_soon(SaveStarted(step))
        journal.record(SaveCommitted(step, f"c{step}", 10, 0.5))
        journal.record(SaveVerified(step, f"c{step}", 0.1))


def test_what_is_recorded_comes_back_in_order_from_every_store(store: Store) -> None:
    journal = Journal(store, PLACE, 0, around())
    for step in range(5):
        journal.record(Finished(step))
    assert events(store) == [Finished(step) for step in range(5)]


def test_a_long_journal_is_shortened_and_says_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_SHORTEN_BYTES", 20_000)
    monkeypatch.setattr(journal_module, "_SHORTEN_APPENDS", 100)
    clock = FakeClock()
    journal = Journal(store, PLACE, 0, around(clock))
    journal.record(AttemptStarted(0, "local", 1, "here"))
    journal.record(LoopStarted(0, 5000))
    for batch in range(12):
        fill(journal, clock, 50, first=50 * batch)
        journal.shorten_if_long()
    names = [PLACE.journal_of(entry.name) for entry in store.list(PLACE.journals)]
    assert any(name is not None and name.shortened for name in names)
    assert sum(entry.bytes for entry in store.list(PLACE.journals)) < 200_000
    [attempt] = history_of(store, PLACE, now=lambda: 0.0).attempts
    assert (attempt.saves, attempt.buckets.save_stall) == (600, pytest.approx(150))
    assert attempt.buckets.billed == pytest.approx(600)
    assert events(store)[:2] == [AttemptStarted(0, "local", 1, "here"), LoopStarted(0, 5000)]


def test_on_a_bucket_a_long_life_takes_few_objects() -> None:
    bucket, clock = MemoryBucket(), FakeClock()
    journal = Journal(BucketStore("s3://b", "", bucket), PLACE, 0, around(clock))
    for batch in range(40):
        fill(journal, clock, 50, first=50 * batch)
        journal.shorten_if_long()
    assert bucket.puts > 4000
    assert len(bucket.objects) < 600
    [attempt] = history_of(BucketStore("s3://b", "", bucket), PLACE, now=lambda: 0.0).attempts
    assert attempt.saves == 2000


class _Died(BaseException):
    """The process is gone."""


class DyingStore:
    """A store whose process dies at the n-th change: before it is made, or when it was."""

    def __init__(self, store: Store, dies_at: int, *, after: bool) -> None:
        self._store, self._left, self._after = store, dies_at, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, name: str, data: bytes) -> None:
        self._change(lambda: self._store.create(name, data))

    def delete(self, name: str) -> None:
        self._change(lambda: self._store.delete(name))

    def _change(self, change: Any) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise _Died
        change()
        if self._left == 0:
            raise _Died


@pytest.mark.parametrize("kind", sorted(STORES))
@pytest.mark.parametrize("after", [False, True])
def test_a_death_while_shortening_loses_nothing_and_counts_nothing_twice(
    kind: str, after: bool, tmp_path: Path
) -> None:
    died = 0
    for dies_at in range(1, 6):
        store, clock = STORES[kind](tmp_path / str(dies_at)), FakeClock()
        journal = Journal(store, PLACE, 0, around(clock))
        journal.record(LoopStarted(0))
        fill(journal, clock, 150)
        write_short(store, PLACE, 0, 1)
        store.append(PLACE.journal(0, 1), to_line(SaveCommitted(150, "c150", 1, 0.5), clock))
        try:
            write_short(DyingStore(store, dies_at, after=after), PLACE, 0, 2)
        except _Died:
            died += 1
        for _ in range(2):  # as it was left, and after the next attempt's try
            [attempt] = history_of(store, PLACE, now=lambda: 0.0).attempts
            assert attempt.saves == 151
            write_short(store, PLACE, 0, 3)
    assert died >= 3


class _GivenUp(Exception):
    pass


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_hurry_gives_it_up_at_any_point_and_nothing_is_lost(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_SHORTEN_BYTES", 1000)
    store, clock, left = MemoryStore(), FakeClock(), [calls]
    journal = Journal(store, PLACE, 0, around(clock))
    fill(journal, clock, 150)

    def hurry(_bytes: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise _GivenUp

    with pytest.raises(_GivenUp):
        journal.shorten_if_long(hurry)
    fill(journal, clock, 50, first=150)
    assert history_of(store, PLACE, now=lambda: 0.0).attempts[0].saves == 200
    journal.shorten_if_long()
    assert history_of(store, PLACE, now=lambda: 0.0).attempts[0].saves == 200


def test_a_shortened_journal_that_is_cut_is_not_used(tmp_path: Path) -> None:
    store = MemoryStore()
    store.append(PLACE.journal(0), to_line(Finished(7), FakeClock()))
    store.create(PLACE.short_journal(0, 1), b'{"journal": "shortened", "digest": "0"}\n')
    journals = Journals(store, PLACE)
    assert [one.event for one in journals[0]] == [Finished(7)]
    assert journals.journal(0).problems == (f"{PLACE.short_journal(0, 1)} is not whole",)


def test_a_journal_with_lines_of_a_later_version_is_left_as_it_is() -> None:
    store = MemoryStore()
    line = b'{"event":"Teleported","at":"","wall":1,"monotonic":1}\n'
    store.append(PLACE.journal(0), line + to_line(Finished(7), FakeClock()))
    assert write_short(store, PLACE, 0, 1) == 0
    assert store.read(PLACE.journal(0)).startswith(line)


def test_others_go_on_recording_while_it_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_SHORTEN_BYTES", 1000)
    store = MemoryStore()
    journal = Journal(store, PLACE, 0, around())
    threads = [
        threading.Thread(target=lambda who=who: [journal.record(Finished(1000 * who + n)) for n in range(200)])
        for who in range(3)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        journal.shorten_if_long()
    seen = [event.step for event in events(store) if isinstance(event, Finished)]
    assert sorted(seen) == [1000 * who + n for who in range(3) for n in range(200)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_who_reads_while_it_is_shortened_looks_again(store: Store, when: str) -> None:
    class Shortening:
        """Shortens the journal when a reader that has listed its parts opens the first one, or has just opened it."""

        done = False

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        @contextmanager
        def open(self, name: str) -> Iterator[OpenObject]:
            if when == "before":
                self._shorten()
            with store.open(name) as opened:
                if when == "after":
                    self._shorten()
                yield opened

        def _shorten(self) -> None:
            if not self.done:
                self.done = True
                write_short(store, PLACE, 0, 1)

    for step in range(3):
        store.append(PLACE.journal(0), to_line(Finished(step), FakeClock()))
    journals = Journals(Shortening(), PLACE)
    assert [one.event for one in journals[0]] == [Finished(step) for step in range(3)]
    assert journals.journal(0).problems == ()
    with pytest.raises(ObjectMissing):
        store.read(PLACE.journal(0))


def test_a_storage_that_goes_away_between_the_listing_and_the_reading_stops_nobody() -> None:
    class Gone(MemoryStore):
        def open(self, name: str) -> Any:
            raise StoreUnreachable("gone")

    store = Gone()
    store.append(PLACE.journal(0), to_line(Finished(1), FakeClock()))
    journals = Journals(store, PLACE)
    assert (journals[0], journals.journal(0).problems) == ((), ("gone",))


# --- logged numbers ---------------------------------------------------------------------------------


def test_however_many_numbers_are_logged_few_stay_and_they_are_spread_evenly() -> None:
    clock = FakeClock()
    recorded = [Recorded(Logged(step, {"loss": 1.0 / (step + 1)}), 1.0, float(step)) for step in range(100_000)]
    kept = shortened([Recorded(LoopStarted(0), 1.0, 0.0), *recorded], Needs())
    steps = [one.event.step for one in kept if isinstance(one.event, Logged)]
    assert len(steps) <= MOST_LOGGED_STEPS
    assert {later - one for one, later in pairwise(steps)} == {8}
    lines = [to_line(one.event, clock) for one in recorded[:3000]]
    assert len(thinned_lines(lines, 1000)) <= 1000


def test_the_numbers_of_a_long_run_grow_with_the_logarithm_of_its_length() -> None:
    """Each attempt does 20,000 steps; what was logged is shortened once a later attempt stands on it."""
    kept, attempts = 0, 24
    for attempt in range(attempts):
        steps = range(20_000 * attempt, 20_000 * (attempt + 1), 7)
        recorded = [Recorded(Logged(step, {"x": 1.0}), 1.0, 1.0) for step in steps]
        kept += 7 * len(shortened(recorded, Needs(steps=steps[-1])))
    assert kept < 20_000 + 10_000 * 6


def test_rewound_steps_are_cut_from_the_journals_of_those_that_did_them() -> None:
    store, clock = MemoryStore(), FakeClock()
    for attempt, (first, end) in enumerate([(0, 9000), (4000, 7000), (6000, 6005)]):
        if first:
            store.append(PLACE.journal(attempt), to_line(Restored(first, "c", 0.1), clock))
        store.append(PLACE.journal(attempt), to_line(LoopStarted(first), clock))
        lines = [to_line(Logged(step, {"x": attempt}), clock) for step in range(first, end)]
        store.append(PLACE.journal(attempt), b"".join(lines))
    before = logged_numbers(read_journals(store, PLACE))
    shorten_ended(store, PLACE, 2, resumed_from=6000)
    assert logged_numbers(read_journals(store, PLACE)) == before
    assert max(event.step for event in events(store, 0) if isinstance(event, Logged)) == 5999
    shortened_ones = {
        name.attempt
        for entry in store.list(PLACE.journals)
        if (name := PLACE.journal_of(entry.name)) and name.shortened
    }
    assert shortened_ones == {0}, "a claim may still need every line of the last one"


def test_text_where_a_number_was_logged_is_passed_over() -> None:
    store = MemoryStore()
    store.append(PLACE.journal(0), to_line(LoopStarted(0), FakeClock()))
    store.append(PLACE.journal(0), to_line(Logged(0, {"loss": "\x1b[2J", "x": "nan", "y": 2}), FakeClock()))
    [(step, values)] = logged_numbers(read_journals(store, PLACE))
    assert (step, sorted(values)) == (0, ["x", "y"])


# --- shortening, by properties ----------------------------------------------------------------------

_STEPS = st.integers(0, 50)
_EVENTS = st.one_of(
    st.builds(SaveStarted, _STEPS),
    st.builds(SaveStalled, _STEPS, st.floats(0, 10)),
    st.builds(SaveCommitted, _STEPS, st.sampled_from("abcdef"), st.just(1), st.floats(0, 10)),
    st.builds(Logged, _STEPS, st.just({"x": 1.0})),
    st.builds(Restored, _STEPS, st.just("c"), st.floats(0, 10)),
    st.builds(Finished, _STEPS),
)


@pytest.fixture(scope="module", autouse=True)
def _few_frequent_lines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outlast.checkpoint.shorten._MOST_FREQUENT", 4)
        yield


def _sums(recorded: list[Recorded]) -> tuple[int, float]:
    saves = sum(isinstance(one.event, SaveCommitted) for one in recorded)
    stall = sum(one.event.seconds for one in recorded if isinstance(one.event, SaveStalled))
    for one in recorded:
        if isinstance(one.event, SavesSummed):
            saves, stall = saves + one.event.saves, stall + one.event.stall_seconds
    return saves, stall


@given(st.lists(_EVENTS, max_size=40), st.sets(st.sampled_from("abcdef")))
def test_shortening_keeps_sums_rare_events_and_commits_that_exist(happened: list[Event], commits: set[str]) -> None:
    recorded = [Recorded(event, 1.0, float(number)) for number, event in enumerate(happened)]
    needs = Needs(commits=commits)
    kept = shortened(recorded, needs)
    assert _sums(kept)[0] == _sums(recorded)[0]
    assert _sums(kept)[1] == pytest.approx(_sums(recorded)[1], abs=1e-4)
    rare = [one for one in recorded if isinstance(one.event, Restored | Finished | Logged)]
    assert [one for one in kept if one in rare] == rare
    there = [one.event for one in kept if isinstance(one.event, SaveCommitted)]
    assert all(
        one.event in there for one in recorded if isinstance(one.event, SaveCommitted) and one.event.commit in commits
    )
    assert _sums(shortened(kept, needs))[0] == _sums(recorded)[0], "again, and nothing is counted twice"
    assert [one.monotonic_seconds for one in kept] == sorted(one.monotonic_seconds for one in kept)
