"""What becomes of rows that are published: of repeats, and of those that are no items."""

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


def test_a_row_without_an_id_is_told_as_one_without() -> None:
    done = publish_rows(MemoryQueue(), [Row("", 1, 1), Row(None, 1, 2), Row(7, 1, 3), Row("a", 1, 4)])
    assert (done.new, [(one.id, one.line) for one in done.rejected]) == (1, [(None, 1), (None, 2), (None, 3)])
