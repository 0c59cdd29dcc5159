"""Journals that hold what outlast never wrote: lines without an end, holes, floods; little memory is spent on them."""

import tracemalloc
from pathlib import Path

import pytest
from written_lives import PLACE

from outlast.checkpoint import journals as journals_module
from outlast.checkpoint.journals import Journals
from outlast.events import Finished, to_line
from outlast.stores.directory import DirectoryStore
from outlast.testing import FakeClock, MemoryStore

LINE = to_line(Finished(3), FakeClock())
LONG = 5 << 20


@pytest.mark.parametrize("shift", [0, 1, len(LINE) - 1, len(LINE)])
@pytest.mark.parametrize(
    ("journal", "good", "damaged"),
    [
        (LINE * 3, 3, 0),
        (LINE + b"x" * LONG + b"\n" + LINE, 2, 1),
        (LINE + b"x" * LONG + b"\n" + b"y" * LONG + b"\n" + LINE * 2 + b'{"even', 3, 2),
        (LINE + b"\n\n" + b"x" * LONG, 1, 0),
        (b"", 0, 0),
    ],
)
def test_a_line_too_long_to_be_one_is_passed_over_wherever_the_pieces_are_cut(
    journal: bytes, good: int, damaged: int, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals_module, "_PIECE_BYTES", (1 << 20) + shift)
    store = MemoryStore()
    store.append(PLACE.journal(0), journal)
    read = Journals(store, PLACE).journal(0)
    assert [one.event for one in read.recorded] == [Finished(3)] * good
    assert (read.damaged, read.problems) == (damaged, ())


def test_a_journal_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))
    for name, size in (
        (PLACE.journal(0), 100 << 20),
        (PLACE.journal(1), 2 << 30),
        (PLACE.short_journal(2, 1), 2 << 30),
    ):
        store.append(name, LINE)
        with (tmp_path / name).open("ab") as journal:
            journal.truncate(size)
    tracemalloc.start()
    try:
        read = [Journals(store, PLACE).journal(attempt) for attempt in range(3)]
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert [one.event for one in read[0].recorded] == [Finished(3)]
    assert all("far more than any journal" in one.problems[0] for one in read[1:])
