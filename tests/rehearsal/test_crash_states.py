"""Power cuts: in every legal state of the disk, a fresh attempt finds the last checkpoint whose commit had returned."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from power import Call, Killed, RecordingDisk, fingerprint, lay_out, states

from one_attempt import AROUND, RUN, Life, QuickDisk
from outlast.checkpoint.lineage import commit_names
from outlast.checkpoint.record import load_record
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.runs import find_or_start_run, finish_of
from outlast.checkpoint.survey import survey
from outlast.stores.blocks import LargeFiles
from outlast.stores.directory import DirectoryStore

# Everything counts as large, and one thread keeps the calls in one order.
FROZEN_BYTES = 20_000
LARGE = LargeFiles(from_bytes=1, block_bytes=4096, run_bytes=4096, threads=1, allocate_from_bytes=8192)


def live(root: Path, disk: RecordingDisk, *, steps: int, **how: Any) -> None:
    """An attempt that goes on for so many steps, saves after each, and finishes; each return leaves a mark."""
    life = Life(root, disk, **how)
    for step in range(life.resumed_from + 1, life.resumed_from + steps + 1):
        disk.mark(f"saving {step}")
        life.save(step)
        disk.mark(f"saved {step}")
    life.attempt.finish(life.last, total=None)
    disk.mark("finished")


def marked(calls: list[Call], at: int, word: str) -> int:
    """The last step that was marked with the word before a call; 0 for none."""
    return max((int(call.path.split()[1]) for call in calls[:at] if call.path.startswith(f"{word} ")), default=0)


class Judge:
    """Looks at states, each once."""

    def __init__(self, root: Path, scratch: Path, *, frozen_bytes: int = 0) -> None:
        self.root, self.scratch, self.frozen_bytes = root, scratch, frozen_bytes
        self.seen: set[object] = set()

    def look(self, calls: list[Call], at: int, found: Iterator[dict[str, bytes | None]]) -> None:
        least, most = marked(calls, at, "saved"), marked(calls, at, "saving")
        finished = any(call.path == "finished" for call in calls[:at])
        for state in found:
            known = (fingerprint(state), least, most, finished)
            if known in self.seen:
                continue
            self.seen.add(known)
            lay_out(state, str(self.root), self.scratch)
            if finished:
                store = DirectoryStore(str(self.scratch), disk=QuickDisk())
                assert finish_of(store, find_or_start_run(store, RUN, AROUND.clock).task(0)) is not None
            life = Life(self.scratch, QuickDisk(), frozen_bytes=self.frozen_bytes)  # never NoGoodCheckpoint
            assert least <= life.resumed_from <= most, (at, calls[at - 1], sorted(state))
            if life.resumed_from:
                assert life.is_right, (at, sorted(state))
            bad = [one.problem for one in survey(life.store, life.place) if not one.verified]
            assert bad == [], (at, bad)  # a record goes before its data, also on the disk
            shutil.rmtree(self.scratch)


@pytest.mark.parametrize("large", [None, LARGE], ids=["small", "large"])
def test_a_power_cut_at_any_call_leaves_the_last_committed_checkpoint(
    large: LargeFiles | None, quick_folder: Path
) -> None:
    disk = RecordingDisk()
    root = quick_folder / "store"
    live(root, disk, steps=5, large=large)
    judge = Judge(root, quick_folder / "cut")
    for at in range(len(disk.calls) + 1):
        judge.look(disk.calls, at, states(disk.calls, at, seed=1))
    assert len(judge.seen) > 400


@pytest.mark.parametrize("keep", [1, 2])
def test_a_power_cut_while_checkpoints_share_data_files_leaves_the_last_committed_one(
    keep: int, quick_folder: Path
) -> None:
    disk = RecordingDisk()
    root = quick_folder / "store"
    live(root, disk, steps=5, keep=Keep(last=keep), frozen_bytes=FROZEN_BYTES)
    life = Life(root, QuickDisk(), frozen_bytes=FROZEN_BYTES)
    newest = load_record(life.store, life.place.commit(max(commit_names(life.store, life.place))))
    assert len(newest.files) > 1, "it refers to an earlier one's file"
    judge = Judge(root, quick_folder / "cut", frozen_bytes=FROZEN_BYTES)
    for at in range(len(disk.calls) + 1):
        judge.look(disk.calls, at, states(disk.calls, at, seed=1, few=at % 2 == 0))
    assert len(judge.seen) > 250


@pytest.mark.parametrize("part", range(4))
def test_a_power_cut_after_a_kill_at_any_call_leaves_the_last_committed_checkpoint(
    part: int, quick_folder: Path
) -> None:
    """What a killed attempt left in the page cache, the next one builds on."""
    seen = 0
    killed_at = part
    while True:
        root = quick_folder / f"store-{killed_at}"
        disk = RecordingDisk(killed_at=killed_at)
        try:
            live(root, disk, steps=3)
        except Killed:
            pass
        else:
            break
        first = len(disk.calls)
        after = RecordingDisk(disk.calls)
        live(root, after, steps=2)
        judge = Judge(root, quick_folder / "cut")
        for at in _cuts(after.calls, first, random.Random(killed_at)):
            judge.look(after.calls, at, states(after.calls, at, seed=killed_at, few=True))
        seen += len(judge.seen)
        shutil.rmtree(root)
        killed_at += 4
    assert killed_at > 80
    assert seen > 500


def _cuts(calls: list[Call], first: int, chance: random.Random) -> list[int]:
    """Where the power goes: after each return to the caller, and in a few places between."""
    returns = [number + 1 for number, call in enumerate(calls) if number >= first and call.kind == "mark"]
    return sorted({*returns, *chance.sample(range(first, len(calls)), 8)})
