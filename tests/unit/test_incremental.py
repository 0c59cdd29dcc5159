"""Incremental saves: what is unchanged is not written again, and nothing that is referred to is ever deleted."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from one_attempt import AROUND, RUN, QuickDisk
from outlast.checkpoint.attempt import Attempt, StartRequest
from outlast.checkpoint.crashes import CrashPolicy
from outlast.checkpoint.export import export_file
from outlast.checkpoint.image import LiveImage, lay_out
from outlast.checkpoint.read import open_checkpoint, refusal
from outlast.checkpoint.record import CommitRecord, load_record
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import find_or_start_run, mark_store
from outlast.state.parts import Progress, UserState
from outlast.stores.directory import DirectoryStore

MIB = 1 << 20


class Saved:
    """An attempt with arrays as its state, saved as often as wanted."""

    def __init__(self, root: Path, state: dict[str, Any], *, keep: int = 2) -> None:
        self.store = DirectoryStore(str(root), disk=QuickDisk())
        mark_store(self.store)
        self.place = find_or_start_run(self.store, RUN, AROUND.clock).task(0)
        self.state = UserState(state, random_state=False)
        request = StartRequest(self.place, None, CrashPolicy(), Keep(last=keep), execution=None)
        self.attempt = Attempt.claim(self.store, request, AROUND)
        self.step = 0

    def save(self) -> CommitRecord:
        self.step += 1
        snapshot = self.state.snapshot(Progress(completed=self.step))
        record = self.attempt.commit(LiveImage(lay_out(snapshot.table), snapshot), self.step)
        self.attempt.confirm(record)
        return record

    def content(self, record: CommitRecord) -> dict[str, bytes]:
        with open_checkpoint(self.store, self.place.commit(record.name)) as opened:
            return {leaf.name: bytes(opened.stored_leaf(index)) for index, leaf in enumerate(opened.leaves)}


def arrays(count: int = 8, size: int = MIB) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {f"a{number}": rng.integers(0, 255, size, dtype=np.uint8) for number in range(count)}


def test_only_what_changed_is_written_and_all_of_it_is_restored(tmp_path: Path) -> None:
    state = arrays()
    saved = Saved(tmp_path, state)
    first = saved.save()
    assert first.written_bytes >= 8 * MIB
    state["a3"][:] += 1
    second = saved.save()
    assert MIB <= second.written_bytes <= 1.1 * MIB
    assert second.total_bytes == first.total_bytes
    expected = {f"state[{name!r}]": value.tobytes() for name, value in state.items()}
    assert saved.content(second) == expected


def test_of_a_large_array_only_the_changed_chunks_are_written(tmp_path: Path) -> None:
    state: dict[str, Any] = {"table": np.random.default_rng(1).integers(0, 255, 32 * MIB, dtype=np.uint8)}
    saved = Saved(tmp_path, state)
    saved.save()
    state["table"][5 * MIB + 17] ^= 1
    record = saved.save()
    assert MIB <= record.written_bytes <= 1.1 * MIB
    assert saved.content(record) == {"state['table']": state["table"].tobytes()}


@pytest.mark.parametrize("place", range(0, 400, 37))
def test_an_unchanged_tenth_is_found_wherever_it_lies(tmp_path: Path, place: int) -> None:
    """A sample of the pieces decides whether all are looked for."""
    state = arrays(count=400, size=8192)
    saved = Saved(tmp_path, state)
    first = saved.save()
    for number in range(400):
        if not place <= number < place + 40:
            state[f"a{number}"] += 1
    assert saved.save().written_bytes < 0.95 * first.written_bytes


class Counted(LiveImage):
    """Counts the bytes that are asked for."""

    asked = 0

    def views(self, start: int, end: int) -> Iterator[memoryview]:
        type(self).asked += end - start
        return super().views(start, end)


def test_where_nothing_is_unchanged_the_state_is_gone_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the sample: what is hashed on its way to the disk is not read twice."""
    monkeypatch.setattr("test_incremental.LiveImage", Counted)
    state = arrays(count=1000, size=8192)
    saved = Saved(tmp_path, state)
    total = saved.save().total_bytes
    assert Counted.asked == total
    for array in state.values():
        array[:] += 1
    Counted.asked = 0
    record = saved.save()
    assert record.written_bytes == total
    assert total < Counted.asked < 1.3 * total
    expected = {f"state[{name!r}]": value.tobytes() for name, value in state.items()}
    assert saved.content(record) == expected


def test_the_base_may_be_the_checkpoint_that_an_earlier_attempt_left(tmp_path: Path) -> None:
    state = arrays()
    first = Saved(tmp_path, state)
    first.save()
    second = Saved(tmp_path, state)
    from contextlib import ExitStack

    with ExitStack() as stack:
        assert second.attempt.open_newest_good(stack, lambda opened: None, lambda: None) is not None
    state["a0"][0] ^= 1
    second.step = 1
    assert second.save().written_bytes <= 1.1 * MIB


def test_what_a_retained_checkpoint_refers_to_is_never_deleted_and_the_rest_is(tmp_path: Path) -> None:
    chance = random.Random(4)
    state = arrays(12)
    saved = Saved(tmp_path, state, keep=2)
    for _ in range(40):
        for name in chance.sample(sorted(state), chance.randint(0, 4)):
            state[name][chance.randrange(MIB)] ^= 1
        record = saved.save()
        commits = [entry.name for entry in saved.store.list(saved.place.commits)]
        assert len(commits) <= 2
        needed = set()
        for name in commits:
            assert refusal(saved.store, name) is None
            needed |= {file.name for file in load_record(saved.store, name).files}
        assert {entry.name for entry in saved.store.list(saved.place.data)} == needed
        assert sum(file.bytes for file in record.files) <= 2.1 * record.total_bytes
    expected = {f"state[{name!r}]": value.tobytes() for name, value in state.items()}
    assert saved.content(record) == expected


def test_a_save_of_an_unchanged_state_writes_next_to_nothing(tmp_path: Path) -> None:
    saved = Saved(tmp_path, arrays())
    saved.save()
    saved.step = 0
    assert saved.save().written_bytes < 20_000


def test_equal_arrays_and_zeros_are_each_there(tmp_path: Path) -> None:
    state: dict[str, Any] = {f"z{number}": np.zeros(2 * MIB, np.uint8) for number in range(4)}
    saved = Saved(tmp_path, state)
    saved.save()
    state["z1"][0] = 1
    record = saved.save()
    assert saved.content(record) == {f"state[{name!r}]": value.tobytes() for name, value in state.items()}


def test_a_data_file_of_changes_is_readable_as_safetensors_and_its_data_begin_on_a_border(tmp_path: Path) -> None:
    state = arrays()
    saved = Saved(tmp_path, state)
    saved.save()
    state["a1"][:] += 1
    record = saved.save()
    path = tmp_path / record.files[0].name
    with safe_open(path, "np") as opened:
        assert all(name.startswith("image[") for name in opened.keys())  # noqa: SIM118 - it is no dict
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert (length + 8) % 4096 == 0


def test_damage_in_a_file_that_two_checkpoints_share_is_found_in_both(tmp_path: Path) -> None:
    state = arrays()
    saved = Saved(tmp_path, state)
    first = saved.save()
    state["a1"][:] += 1
    second = saved.save()
    path = tmp_path / first.files[0].name
    with path.open("r+b") as file:
        file.seek(5 * MIB)
        byte = file.read(1)
        file.seek(5 * MIB)
        file.write(bytes([byte[0] ^ 1]))
    for record in (first, second):
        refused = refusal(saved.store, saved.place.commit(record.name))
        assert refused is not None
        assert "do not fit their digest" in refused.reason


def test_an_export_of_an_incremental_checkpoint_is_one_plain_file(tmp_path: Path) -> None:
    state = arrays(3)
    saved = Saved(tmp_path / "store", state)
    saved.save()
    state["a1"][:] += 1
    record = saved.save()
    told: list[tuple[int, int]] = []
    target = tmp_path / "plain.safetensors"
    count = export_file(
        saved.store, saved.place.commit(record.name), target, progress=lambda done, of: told.append((done, of))
    )
    assert count == 3
    assert told[-1] == (3 * MIB, 3 * MIB)
    with safe_open(target, "np") as opened:
        for name, value in state.items():
            np.testing.assert_array_equal(opened.get_tensor(f"state[{name!r}]"), value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.safetensors", "store"]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_bytes_written_are_bytes_changed(tmp_path: Path, share: float) -> None:
    state = arrays(20)
    saved = Saved(tmp_path, state)
    saved.save()
    changed = sorted(state)[: round(20 * share)]
    for name in changed:
        state[name][:] += 1
    assert saved.save().written_bytes <= 1.1 * len(changed) * MIB
