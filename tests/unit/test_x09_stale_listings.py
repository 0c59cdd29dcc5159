"""X09: a machine that sees another one's changes late: claims are never double, and no good checkpoint is lost."""

import numpy as np
import pytest
from array_attempts import ArrayAttempt
from stale_views import SharedBucket

from outlast.checkpoint.attempt import Superseded
from outlast.checkpoint.lineage import claimed_attempts
from outlast.errors import CheckpointCorrupt, StoreUnreachable

LATE_SECONDS = 60.0


def test_attempts_that_do_not_see_each_other_take_different_numbers() -> None:
    bucket = SharedBucket()
    attempts = [ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS)).attempt.number for _ in range(5)]
    assert attempts == [0, 1, 2, 3, 4]
    fresh = bucket.seen_by_a_machine(late_seconds=0.0)
    life = ArrayAttempt(fresh)
    assert claimed_attempts(fresh, life.place) == [0, 1, 2, 3, 4, 5]


def test_what_was_saved_before_the_view_s_age_is_never_lost() -> None:
    bucket = SharedBucket()
    first = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=0.0), keep=3)
    for _ in range(6):
        first.save()
        bucket.clock.advance(30)
    second = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS), keep=3)
    assert second.resumed_from >= 4, "steps 1 to 4 were saved more than a minute ago"
    assert second.wrong() == []
    second.saves(2)
    third = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=0.0), keep=3)
    assert third.resumed_from == second.step
    assert third.wrong() == []


def test_a_superseded_attempt_that_learns_of_it_late_adds_nothing_that_counts() -> None:
    bucket = SharedBucket()
    older = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS), keep=4)
    older.saves(2)
    bucket.clock.advance(120)
    younger = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS), keep=4)
    assert younger.resumed_from == 2
    older.saves(2)  # it does not know yet
    younger.save()
    bucket.clock.advance(120)
    with pytest.raises(Superseded):
        older.save()
    younger.save()
    third = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=0.0))
    assert third.resumed_from == 4
    assert third.wrong() == []
    assert third.good()[0] == 4


def test_a_superseded_attempt_that_learns_of_it_late_costs_the_younger_one_no_good_checkpoint() -> None:
    bucket = SharedBucket()
    older = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS), keep=1)
    older.saves(3)
    bucket.clock.advance(120)
    younger = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS), keep=1)
    younger.save()
    # The older one's state is another by now: it refers to nothing of before, and retires all that it knows.
    for array in older.arrays.values():
        np.bitwise_xor(array, 77, out=array)
    older.arrays["frozen"][:] = older.arrays["frozen"][::-1].copy()
    older.saves(2)
    bucket.clock.advance(120)
    for _ in range(3):
        try:
            younger.save()
        except CheckpointCorrupt:
            younger.step -= 1
    assert younger.good(), "its state is whole in memory, and none of its saves is"


def test_a_listing_of_what_has_been_retired_since_is_tried_again_and_needs_no_human() -> None:
    bucket = SharedBucket()
    first = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=0.0), keep=1)
    for _ in range(6):
        first.save()
        bucket.clock.advance(15)
    try:
        second = ArrayAttempt(bucket.seen_by_a_machine(late_seconds=LATE_SECONDS), keep=1)
    except StoreUnreachable:
        return  # 75: the platform starts it again, and by then the listing is another
    assert second.resumed_from == 6
