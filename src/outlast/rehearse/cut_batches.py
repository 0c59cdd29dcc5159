"""Attempts of a worker killed where batch work can go wrong: while it stores results, and just before the ack of these.

A clock seldom hits the moment between the two. The kernel holds each file operation (see cut_saves.py), and what the
worker has told by then says what the operation is for.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from outlast.containers.calls import Operation
from outlast.events import ChunkBegun, Event, ItemsStored, from_lines
from outlast.rehearse.batches import Batch
from outlast.rehearse.cut_saves import Job
from outlast.rehearse.display import Display
from outlast.rehearse.outputs import last_line
from outlast.rehearse.stage import Stage

When = Literal["while results were stored", "between a store and its ack"]
_STORING: When = "while results were stored"
_BETWEEN: When = "between a store and its ack"
# Twice each: in the first chunk of an attempt, and in its second, after which something stands.
_KILLS: tuple[tuple[When, int], ...] = (
    (_STORING, 2),
    (_BETWEEN, 1),
    (_STORING, 1),
    (_BETWEEN, 2),
)


@dataclass(slots=True)
class _Story:
    """What an attempt has told so far, read on as it grows."""

    file: Path
    read: int = 0
    chunks: int = 0
    last: Event | None = None

    def read_on(self) -> None:
        if not self.file.exists():
            return
        with self.file.open("rb") as stream:
            stream.seek(self.read)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.read += len(whole)
        for one in from_lines(whole):
            self.chunks += isinstance(one.event, ChunkBegun)
            self.last = one.event


@dataclass(slots=True)
class _Knife:
    """Kills at the first operation on one of the files that comes at such a moment of chunk number `chunk`, from 1."""

    story: _Story
    files: tuple[str, ...]
    when: When
    chunk: int
    begun: int = field(default_factory=lambda: os.eventfd(0))
    cut: str | None = None

    def passes(self, operation: Operation) -> bool:
        """Whether the operation may happen."""
        if self.cut is not None:
            return False
        if operation.kind == "open" or not operation.path.startswith(self.files):
            return True
        self.story.read_on()
        moment = ChunkBegun if self.when == _STORING else ItemsStored
        if self.story.chunks < self.chunk or not isinstance(self.story.last, moment):
            return True
        self.cut = f"{operation.kind} {Path(operation.path).name}"
        os.eventfd_write(self.begun, 1)
        return False


@dataclass(frozen=True, slots=True)
class BatchCuts:
    """`places`: where attempts were killed. `broken`: what was wrong in the end, as reasons."""

    places: tuple[str, ...]
    broken: tuple[str, ...]


def cut_batches(job: Job, batches: Sequence[Batch], display: Display) -> BatchCuts:
    """The job once more, its attempts killed at these moments, and its results compared."""
    stage = job.site.make_stage("cut-batches")
    places: list[str] = []
    number = 0
    with display.working("an attempt for each step of a store and its ack"), ExitStack() as stack:
        knives = _knives(stage, batches)
        for one in knives:
            stack.callback(os.close, one.begun)
        for knife in (*knives, None):
            cut, code = _run(job, stage, number, knife)
            if cut is not None and knife is not None:
                places.append(f"{cut}, {knife.when}")
                number += 1
                continue
            if code != 0:
                after = f"after a kill just before {places[-1]}, " if places else ""
                words = last_line(stage.stderr(number))
                said = f": {words}" if words else ""
                return BatchCuts(tuple(places), (f"{after}attempt {number} left with exit code {code}{said}",))
            break
    different = [one for one in job.compare(stage, number) if not one.same]
    where = "; ".join(places)
    broken = [f"after kills just before {where}: {one.path} is not right: {one.detail}" for one in different[:1]]
    return BatchCuts(tuple(places), tuple(broken))


def _knives(stage: Stage, batches: Sequence[Batch]) -> list[_Knife]:
    """One for each attempt. In one database a store and its ack are one commit, which is the only place."""
    sinks = {batch.sink.path for batch in batches if batch.sink is not None}
    queues = {batch.queue.path for batch in batches if batch.queue is not None}
    files: dict[When, set[str]] = {_STORING: sinks - queues, _BETWEEN: queues}
    made: list[_Knife] = []
    for when, chunk in _KILLS:
        if files[when]:
            named = tuple(str(stage.folder / path) for path in sorted(files[when]))
            made.append(_Knife(_Story(stage.events(len(made))), named, when, chunk))
    return made


def _run(job: Job, stage: Stage, number: int, knife: _Knife | None) -> tuple[str | None, int]:
    """Where the attempt was killed, None if it was not, and its exit code."""
    with job.site.held(stage, number, knife.passes if knife is not None else lambda _: True) as container:
        container.wait(job.hung_seconds, () if knife is None else (knife.begun,))
        container.kill()
        code = container.finish()
    return None if knife is None else knife.cut, code
