"""B05 where checkpoints share data files: what refers to a missing, short or garbled file is never offered."""

from collections.abc import Callable

import pytest
from array_attempts import ArrayAttempt

from outlast.checkpoint.record import CommitRecord
from outlast.errors import CheckpointCorrupt, NoGoodCheckpoint
from outlast.testing import MemoryStore

Harm = Callable[[MemoryStore, str], None]


def gone(store: MemoryStore, name: str) -> None:
    store.delete(name)


def short(store: MemoryStore, name: str) -> None:
    data = store.read(name)
    store.delete(name)
    store.create(name, data[:-1])


def empty(store: MemoryStore, name: str) -> None:
    store.delete(name)
    store.create(name, b"")


def garbled(store: MemoryStore, name: str) -> None:
    data = bytearray(store.read(name))
    data[len(data) // 2 : len(data) // 2 + 5000] = bytes(5000)
    store.delete(name)
    store.create(name, bytes(data))


HARMS = [gone, short, empty, garbled]


def snapshot(store: MemoryStore) -> dict[str, bytes]:
    return {entry.name: store.read(entry.name) for entry in store.list("")}


def files_of(record: CommitRecord) -> set[str]:
    return {file.name for file in record.files}


@pytest.mark.parametrize("harm", HARMS)
def test_each_file_that_a_checkpoint_refers_to_must_be_whole_for_it_to_be_offered(harm: Harm) -> None:
    offered = set()
    number = 0
    while True:
        store = MemoryStore()
        first = ArrayAttempt(store, keep=4)
        records = first.saves(4)
        names = sorted(first.data())
        assert len(names) == 4, "each save wrote a file of its own"
        assert len(files_of(records[-1])) > 1, "the last one refers to earlier files"
        if number == len(names):
            break
        harm(store, names[number])
        whole = [record.step for record in records if names[number] not in files_of(record)]
        before = snapshot(store)
        if whole:
            later = ArrayAttempt(store, keep=4)  # looks at every array, too
            assert later.resumed_from == max(whole)
        else:
            with pytest.raises(NoGoodCheckpoint):
                ArrayAttempt(store)
        assert {name: before[name] for name in names if name in before} == {
            name: store.read(name) for name in names if name in before
        }, "nothing is mended or deleted in silence"
        offered.add(max(whole, default=0))
        number += 1
    assert len(offered) > 2


@pytest.mark.parametrize("harm", HARMS)
def test_a_save_whose_own_file_is_not_as_it_was_written_is_taken_back(harm: Harm) -> None:
    store = MemoryStore()
    life = ArrayAttempt(store)
    life.saves(2)
    record = life.commit()
    [own] = [file.name for file in record.files if life.place.data_of(file.name) == record.name]
    harm(store, own)
    with pytest.raises(CheckpointCorrupt):
        life.attempt.confirm(record)
    assert life.good() == [2, 1]
    life.step -= 1
    life.save()
    assert life.good() == [3, 2]


@pytest.mark.parametrize("harm", HARMS)
def test_a_save_that_refers_to_a_harmed_file_of_an_earlier_one_never_costs_the_last_good_checkpoint(harm: Harm) -> None:
    """A bucket's rule that deletes objects of some age; a person; a disk that forgets."""
    store = MemoryStore()
    life = ArrayAttempt(store, keep=1)
    life.saves(3)
    [oldest, *_] = sorted(life.data())
    harm(store, oldest)
    for _ in range(10):  # what a save refers to is read again in eight parts
        try:
            life.save()
        except CheckpointCorrupt:
            life.step -= 1
    assert life.good(), "the state is whole in memory, and none of ten saves is"


@pytest.mark.parametrize("harm", HARMS)
def test_a_resume_from_an_older_one_refers_to_nothing_of_the_bad_newer_one(harm: Harm) -> None:
    store = MemoryStore()
    first = ArrayAttempt(store, keep=3)
    records = first.saves(3)
    [own] = [file.name for file in records[-1].files if first.place.data_of(file.name) == records[-1].name]
    harm(store, own)
    second = ArrayAttempt(store, keep=2)
    assert second.resumed_from == 2
    again = second.save()
    assert own not in files_of(again)
    second.saves(2)
    assert second.good() == [5, 4]
