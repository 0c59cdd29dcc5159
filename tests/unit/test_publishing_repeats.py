"""Repeated ids in what is published: each row is told by its own line, whatever is there already."""

from outlast.items import Draft
from outlast.testing import MemoryQueue
from outlast.worker.publishing import Row, publish_rows

ROWS = [Row("a", 1, 1), Row("a", 2, 2), Row("a", 1, 3), Row("a", 3, 4), Row("a", 2, 5), Row("b", 1, 6)]


def rejected_lines(there: str | None) -> tuple[int, int, list[int | None]]:
    queue = MemoryQueue()
    if there is not None:
        queue.publish([Draft("a", there)])
    done = publish_rows(queue, ROWS)
    return done.new, done.already, sorted(one.line or 0 for one in done.rejected)


def test_of_repeated_ids_the_first_counts_and_each_other_payload_is_told_by_its_own_line() -> None:
    assert rejected_lines(None) == (2, 1, [2, 4, 5])


def test_repeats_are_compared_with_what_was_there_before() -> None:
    assert rejected_lines("2") == (1, 2, [1, 3, 4])
    assert rejected_lines("9") == (1, 0, [1, 2, 3, 4, 5])
