"""X02: what killed saves leave is removed by the next attempt; a live sibling's work never is."""

import pytest
from array_attempts import ArrayAttempt

from outlast.checkpoint.attempt import Superseded
from outlast.checkpoint.places import CommitName
from outlast.checkpoint.prune import prune
from outlast.checkpoint.retain import Keep
from outlast.testing import MemoryStore


def debris_of(life: ArrayAttempt, step: int, attempt: int, sequence: int = 9) -> str:
    """A data file as a death before the record leaves it."""
    name = life.place.data_file(CommitName(step, attempt, sequence), rank=0, token="0123456789ab")
    life.store.write(name, [b"half a file"])
    return name


def test_data_of_a_save_that_a_death_cut_short_goes_with_the_first_save_of_the_next_attempt() -> None:
    store = MemoryStore()
    first = ArrayAttempt(store)
    first.saves(2)
    left = {debris_of(first, 3, 0), debris_of(first, 2, 0, 7), debris_of(first, 1, 0, 8)}
    second = ArrayAttempt(store)
    assert left <= second.data()
    second.save()
    assert not left & second.data()
    assert second.good() == [3, 2]


def test_what_another_attempt_is_writing_stays() -> None:
    store = MemoryStore()
    older = ArrayAttempt(store)
    older.saves(2)
    younger = ArrayAttempt(store)
    mine = debris_of(younger, 3, younger.attempt.number)
    later = debris_of(younger, 3, younger.attempt.number + 1)
    younger.save()
    assert {mine, later} <= younger.data(), "only what came before this attempt is debris"
    with pytest.raises(Superseded):
        older.save()
    assert {mine, later} <= younger.data()
    assert younger.good() == [3, 2]


def test_strays_and_files_of_other_tasks_stay() -> None:
    store = MemoryStore()
    first = ArrayAttempt(store)
    first.save()
    strays = [f"{first.place.data}/notes.txt", f"{first.place.folder}/other/x", "counter/run-1/task-1/data/y"]
    for name in strays:
        store.create(name, b"1")
    ArrayAttempt(store).saves(3)
    assert all(store.read(name) == b"1" for name in strays)


def test_a_killed_retirement_is_completed_by_the_next_attempt() -> None:
    """The record goes first; a death then leaves its data."""
    store = MemoryStore()
    first = ArrayAttempt(store, keep=1)
    records = first.saves(1)
    second_record = first.commit()
    store.delete(first.place.commit(records[0].name))
    shared = {file.name for file in second_record.files}
    second = ArrayAttempt(store, keep=1)
    assert second.resumed_from == 2
    third = second.save()
    assert second.data() == {file.name for file in third.files}
    assert shared & second.data(), "what is still referred to is no debris"


def test_lives_that_each_end_before_their_first_read_back_leave_no_more_than_one_checkpoint_too_many() -> None:
    """A store that is slow to read, machines that go soon: without a bound the place would fill up."""
    store = MemoryStore()
    for _ in range(12):
        life = ArrayAttempt(store, keep=2)
        debris_of(life, life.step + 1, life.attempt.number)
        life.commit()  # and dies
        assert len(store.list(life.place.commits)) <= 4
    assert len(life.data()) <= 8


class VanishingStore(MemoryStore):
    """A running job retires a checkpoint just after somebody has read its record."""

    vanishing = ""

    def read(self, name: str) -> bytes:
        data = super().read(name)
        if name == self.vanishing:
            self.delete(name)
        return data


def test_a_prune_passes_over_what_a_running_job_retires_meanwhile() -> None:
    store = VanishingStore()
    life = ArrayAttempt(store, keep=4)
    records = life.saves(4)
    store.vanishing = life.place.commit(records[1].name)
    found = list(prune(store, life.place, Keep(last=1), set_aside=False, apply=True))
    assert [one.step for one in found if one.verdict == "kept"] == [4]
    assert not [one for one in found if one.verdict == "bad"]
    assert life.good() == [4]


def test_a_prune_while_the_newest_checkpoint_is_not_read_back_costs_no_later_save() -> None:
    store = MemoryStore()
    life = ArrayAttempt(store, keep=2)
    life.saves(2)
    life.commit()  # its read-back is given up
    list(prune(store, life.place, Keep(last=1), set_aside=False, apply=True))
    life.step = 1
    record = life.commit()  # as step 2 was: an array that comes and goes
    assert {file.name for file in record.files} <= life.data()
