"""Saves cut at each of their places: an attempt is killed just before a file operation, at another one each time.

What an interruption in the middle of a save leaves depends on the place between two file operations, and a clock hits
few of them. Here the kernel holds every operation until it is answered, so each place is met exactly once.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise

from outlast.containers.calls import Answer, Operation, Signalled
from outlast.containers.container import SHARED_MEMORY, can_hold_calls
from outlast.rehearse.display import Display
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.outputs import last_line
from outlast.rehearse.results import Result
from outlast.rehearse.sandbox import PRIVATE_FOLDER
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import family, is_passing

CHAINS = 6  # how often the job is begun again for places that it has not been killed at
# In one chain at most: after nine deaths in a row without a step further an outlast.Job takes it for a crash loop.
_KILLS = 8
_FACTOR, _FLOOR_SECONDS = 2.0, 20.0  # no further chain after so many times the job's own time, and so much
_WHOLE_SAVES = (
    "make each save one step for whoever reads it: write it under a new name, close it, then os.replace(); "
    "what says that it is complete comes last, or is in the same file"
)
_WHOLE_STATE = (
    f"a part of the state may be neither saved nor restored; if it differs after this kill alone, {_WHOLE_SAVES}"
)
_KEEP_THE_LAST = (
    "the last good save must stand until the next one is complete: write that under a new name, os.replace() it, and "
    "only then remove what is older; what was cut short must not be taken for it"
)
_TEMPORARY, _SHARED_MEMORY = "$TMPDIR/", f"{SHARED_MEMORY}/"
_ADDED, _ADDED_SHARE = 6, 0.2  # so many additions to an open file, after so much of the job's time, are a save
# Half of its file operations come before the first kill. Of what one attempt did after that, this much of the whole
# job's operations and time says that it began again: without that it does two thirds at most.
_ALL, _AGAIN, _AGAIN_SECONDS = 0.97, 0.85, 0.6
_END = "exit"  # where the first process leaves by itself
_HUNG = 4.0  # times as long as the whole job
_STATE_LIKE = 3  # a file that one attempt writes anew so often is a state
_FAILURES = 2  # in a row: it does not get over what the kill left

# Of outlast's own store only these are cut: what else is in it is no part of a save.
_OF_A_SAVE = ("/data/", "/commits/")

# The operation, with # for what differs between saves; 0, or which of its like it is in a row. A record that is written
# in parts can be cut after each: so many are told apart.
Place = tuple[str, int]
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Cut:
    """One attempt of a chain: where it was killed (None: it was not), and how it ended. Seconds."""

    number: int
    seconds: float
    exit_code: int
    operations: int
    work_seconds: float = 0.0  # from its first file operation
    place: Place | None = None
    before: str | None = None
    hung: bool = False
    last_words: str = ""

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return self.place is None and (self.exit_code != 0 or self.hung)


@dataclass(frozen=True, slots=True)
class Chain:
    """The job from its first attempt to its last, each but the last killed at another place."""

    stage: Stage
    cuts: tuple[Cut, ...]
    left: frozenset[Place]
    elsewhere: Counter[str]  # files outside of the copy, and how often one attempt wrote each anew
    wrong: tuple[Result, ...] = ()  # what the last attempt had made otherwise when it was killed at its very end

    @property
    def finished(self) -> bool:
        return bool(self.cuts) and self.cuts[-1].exit_code == 0

    @property
    def places(self) -> list[Cut]:
        return [cut for cut in self.cuts if cut.place is not None]


def can_cut(site: Site) -> bool:
    """Whether attempts can be held at file operations here, each chain in a copy of its own."""
    return site.isolated and site.copies is not None and can_hold_calls()


@dataclass(slots=True)
class Knife:
    """Decides at each file operation whether the attempt is killed there. `wanted`: only at this place.

    With `late_seconds`, not within the first save of an attempt: each attempt gets ahead, and a save before stands. So
    much later, what is added to an open file is a save. With `not_before`, not before so many operations.
    """

    stage: Stage
    done: frozenset[Place]
    late_seconds: float | None
    wanted: Place | None = None
    not_before: int = 0
    blunt: bool = False  # only looks
    left: Elsewhere | None = None  # by the attempts of its chain
    warn: Callable[[], bool] | None = None  # called at the place instead of holding it; whether a signal was sent
    seen: Counter[Place] = field(default_factory=Counter)
    cut: tuple[Place, str] | None = None
    operations: int = 0
    begun: int = field(default_factory=lambda: os.eventfd(0))  # readable when the cut has come
    elsewhere: Counter[str] = field(default_factory=Counter)
    first_pid: int | None = None
    saved_within: str | None = None  # a save that a handler began in the middle of another operation
    _under_way: tuple[int, str, str] = (0, "", "")
    _left: bool = False
    period: float = 0.0  # about the time from one save to the next; seconds
    first_at: float = 0.0
    _before: dict[int, tuple[str, int]] = field(default_factory=dict)
    _opened: set[str] = field(default_factory=set)

    def close(self) -> None:
        os.close(self.begun)

    def passes(self, operation: Operation) -> Answer:
        """Whether the operation may happen."""
        if operation.code:  # the end of a process that has failed is none of a save
            return True
        if self.cut is not None and self.warn is None:
            return False
        name = "" if self._is_the_end(operation) else self._name_of(operation.path)
        if name is None:
            self._note_elsewhere(operation)
            return self.left is None or self.left.passes(operation)
        if self._left:
            self._see_what_follows(operation, name)
        source = self._name_of(operation.source) if operation.source else None
        here = f"{operation.kind} {family(name)}".strip()
        before, row = self._before.get(operation.pid, ("", 0))
        row = row + 1 if before == here else 0
        self._before[operation.pid] = (here, row)
        place = (here, row if row == 0 else 1 + (row - 1) % _PARTS)
        self.seen[place] += 1
        self.operations += 1
        self.first_at = self.first_at or operation.at
        if (
            self.blunt
            or self.cut is not None
            or place in self.done
            or self.wanted not in (None, place)
            or not self._is_late_enough(operation.at)
        ):
            return True
        self.cut = (place, f"{operation.kind} {f'{source} -> ' if source else ''}{name}".strip())
        self.period = (operation.at - self.first_at) / 2
        if self.warn is None:
            os.eventfd_write(self.begun, 1)
            return False
        signalled = self.warn()
        self._under_way = (operation.pid, operation.kind, operation.path)
        os.eventfd_write(self.begun, 1)
        return Signalled(self._note_left) if signalled else True

    def _note_left(self, left: bool) -> None:
        self._left = left

    def _see_what_follows(self, operation: Operation, name: str) -> None:
        """After a signal in the middle of an operation: is that begun anew, or is something saved before?"""
        pid, kind, path = self._under_way
        if operation.pid != pid:
            return
        self._left = False
        known = (f"open {family(name)}", 0) in self.seen
        if operation.kind == "open" and known and (operation.kind, operation.path) != (kind, path):
            self.saved_within = f"open {name}"

    def _is_late_enough(self, now: float) -> bool:
        """Whether a save has been made in this attempt, if one is asked for. A file that is kept open shows none."""
        if self.late_seconds is None:
            return True
        if self.operations < self.not_before:
            return False
        begun = max((count for place, count in self.seen.items() if not place[1]), default=0)
        added = sum(count for place, count in self.seen.items() if place[1])
        return begun >= 2 or (added >= _ADDED and now - self.first_at > self.late_seconds)

    def _is_the_end(self, operation: Operation) -> bool:
        """Of the first process, when all is done and nobody knows it yet. A notice there is no use."""
        return operation.kind == _END and operation.pid == self.first_pid and self.warn is None

    def _name_of(self, path: str) -> str | None:
        """Relative to the copy; None for what is no file of the job's."""
        folder = f"{self.stage.folder}/"
        if not path.startswith(folder) or is_passing(path):
            return None
        name = path.removeprefix(folder)
        if not name.startswith(f"{PRIVATE_FOLDER}/"):
            return name
        return name.removeprefix(f"{PRIVATE_FOLDER}/") if any(part in name for part in _OF_A_SAVE) else None

    def _note_elsewhere(self, operation: Operation) -> None:
        """Counts how often a file outside of the copy gets new contents: opened and written, or renamed to."""
        path = operation.path
        ours = (f"{self.stage.folder}/", f"{self.stage.logs}/", "/dev/", "/proc/", "/sys/")
        if (path.startswith(ours) and not path.startswith(_SHARED_MEMORY)) or is_passing(path):
            return
        if operation.kind == "open":
            self._opened.add(path)
        elif operation.kind == "rename" or (operation.kind == "write" and path in self._opened):
            self._opened.discard(path)
            own = re.match(rf"{re.escape(str(self.stage.temporary(0)).removesuffix('0'))}\d+/(.*)", path)
            self.elsewhere[_TEMPORARY + own[1] if own else path] += 1


def run_chain(
    site: Site,
    stage: Stage,
    *,
    done: frozenset[Place],
    late_seconds: float | None,
    hung_seconds: float,
    wanted: Place | None = None,
    half: int = 0,
    compare: Callable[[Stage, int], list[Result]],
) -> Chain:
    """Attempts until one ends well, fails twice in a row, hangs, or so many were killed. `wanted`: one kill, there.

    One that is killed at its very end had done all: it is compared at once, for the next one may mend what is wrong.
    With `half` the first attempt does so many operations before it is killed, and the others are killed as soon as they
    come to a new place, so that nearly all that the first one did not do is left for one of them.
    """
    cuts: list[Cut] = []
    met: set[Place] = set()
    elsewhere: Counter[str] = Counter()
    left = Elsewhere()
    while True:
        killed = {cut.place for cut in cuts if cut.place is not None}
        enough = len(killed) >= _KILLS or (wanted is not None and bool(killed))
        late = late_seconds if not (half and cuts) else None
        knife = Knife(stage, done | killed, late, wanted, half, blunt=enough, left=left)
        with left.watching(stage):
            cut = _run(site, stage, len(cuts), knife, hung_seconds)
        cuts.append(cut)
        met |= set(knife.seen)
        elsewhere |= knife.elsewhere
        elsewhere |= dict.fromkeys(left.read, _STATE_LIKE)
        at_its_end = compare(stage, cut.number) if cut.before == _END else []
        wrong = tuple(one for one in at_its_end if not one.same)
        failed = len(cuts) >= _FAILURES and all(one.failed for one in cuts[-_FAILURES:])
        if wrong or cut.exit_code == 0 or cut.hung or failed:
            return Chain(stage, tuple(cuts), frozenset(met - killed - done), elsewhere, wrong)


def _run(site: Site, stage: Stage, number: int, knife: Knife, hung_seconds: float) -> Cut:
    with closing(knife), site.held(stage, number, knife.passes) as container:
        knife.first_pid = container.first_pid
        ended, cut = container.wait(hung_seconds, (knife.begun,))
        container.kill()
        code = container.finish()
        now = time.monotonic()
    place, before = knife.cut if knife.cut is not None else (None, None)
    return Cut(
        number=number,
        seconds=now - container.started_at,
        work_seconds=now - (knife.first_at or now),
        exit_code=code,
        operations=knife.operations,
        place=place,
        before=before,
        hung=not (ended or cut),
        last_words=last_line(stage.stderr(number)),
    )


@dataclass(frozen=True, slots=True)
class CutSaves:
    """What came of it: `places` where attempts were killed, `broken` as reasons, `left` places that no time was for.

    `elsewhere` are files outside of the copy that were saved again and again, as a state is; `temporary` are those on
    an attempt's own disk. `notices`: where those of a run with many came; `stopped`: an attempt of it left on one, with
    work left.
    """

    places: tuple[str, ...]
    broken: tuple[str, ...]
    left: int
    elsewhere: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()
    stopped: bool = False
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of the job: `compare` judges a stage after its last attempt against the uninterrupted run, which
    took `seconds`. `to_resume`: it saves, and nothing has shown yet that it goes on from that."""

    site: Site
    compare: Callable[[Stage, int], list[Result]]
    seconds: float
    hung_seconds: float
    to_resume: bool


@dataclass(frozen=True, slots=True)
class _When:
    """When attempts are killed: see run_chain."""

    late_seconds: float | None
    half: int = 0

    def chain(self, job: Job, stage: Stage, done: frozenset[Place], wanted: Place | None = None) -> Chain:
        return run_chain(
            job.site,
            stage,
            done=done,
            late_seconds=self.late_seconds,
            hung_seconds=job.hung_seconds,
            wanted=wanted,
            half=self.half,
            compare=job.compare,
        )


def cut_everywhere(job: Job, display: Display) -> CutSaves:
    """Chains until every place was met, something broke, or as much time was spent as the job takes twice.

    Where it is not known that the job goes on from what it saved, the first one is cut when half of the work is done.
    While chains meet new places, each attempt is killed where a save before stands; then also where none does.
    """
    done: frozenset[Place] = frozenset()
    places: list[str] = []
    elsewhere: Counter[str] = Counter()
    started = time.monotonic()
    late = _ADDED_SHARE * job.seconds
    order = [_When(late), _When(None)]
    whole = _count_operations(job, display) if job.to_resume else None
    if whole is not None:
        order.insert(0, _When(late, whole.operations // 2))
        # Held at each operation, a job is slower than it was by itself.
        job = replace(job, hung_seconds=max(job.hung_seconds, _HUNG * whole.seconds))
    for number in range(CHAINS):
        stage = job.site.make_stage(f"cut-saves-{number + 1}")
        with display.working(f"an attempt for each place in a save, {number + 1}"):
            chain = order[0].chain(job, stage, done)
            broken = _find_broken(job, chain, order[0])
            if not broken and whole is not None and order[0].half:
                broken = _find_begun_again(job, chain, order[0], whole)
        places += [str(cut.before) for cut in chain.places]
        done |= {cut.place for cut in chain.places if cut.place is not None}
        elsewhere |= chain.elsewhere
        if order[0].half or not chain.places:
            order = order[1:] or order
        if broken or not chain.left or time.monotonic() - started > _FACTOR * job.seconds + _FLOOR_SECONDS:
            break
    again, own = sorted(path for path, count in elsewhere.items() if count >= _STATE_LIKE), (_TEMPORARY, _SHARED_MEMORY)
    return CutSaves(
        places=tuple(places),
        broken=tuple(broken),
        left=len(chain.left),
        elsewhere=tuple(path for path in again if not path.startswith(own)),
        temporary=tuple(path for path in again if path.startswith(own)),
    )


def _find_broken(job: Job, chain: Chain, when: _When) -> list[str]:
    last = chain.cuts[-1]
    if not chain.finished and not chain.wrong:
        after = chain.places[-1] if chain.places else None
        ran = "hung" if last.hung else f"left with exit code {last.exit_code}"
        words = f": {last.last_words}" if last.last_words and not last.hung else ""
        where = f"after a kill just before `{after.before}` (attempt {after.number}), " if after else ""
        return [f"{where}attempt {last.number} {ran} and so did every one from there on{words}", _WHOLE_SAVES]
    different = chain.wrong or tuple(one for one in job.compare(chain.stage, last.number) if not one.same)
    if not different:
        return []
    for cut in chain.places:
        stage = job.site.make_stage(f"{chain.stage.name}-alone-{cut.number}")
        alone = when.chain(job, stage, frozenset(), cut.place)
        if not alone.places:
            continue
        found = alone.wrong or tuple(one for one in job.compare(stage, alone.cuts[-1].number) if not one.same)
        if found or not alone.finished:
            return [_differs((found or different)[0], f"a kill just before `{alone.places[-1].before}`"), _WHOLE_STATE]
    together = ", ".join(f"`{cut.before}`" for cut in chain.places)
    return [_differs(different[0], f"kills just before {together}, together,"), _WHOLE_STATE]


def _count_operations(job: Job, display: Display) -> Cut | None:
    """One run of the whole job; None if that went wrong."""
    stage = job.site.make_stage("whole")
    with display.working("a run to count the file operations"):
        whole = _run(job.site, stage, 0, Knife(stage, frozenset(), None, blunt=True), job.hung_seconds)
    return whole if whole.exit_code == 0 else None


def _find_begun_again(job: Job, chain: Chain, when: _When, whole: Cut) -> list[str]:
    """Whether an attempt did again what the first one had done and saved, and after which kill that is so."""
    if _began_again(chain, whole) is None:
        return []
    for cut in chain.places:
        stage = job.site.make_stage(f"{chain.stage.name}-again-{cut.number}")
        alone = when.chain(job, stage, frozenset(), cut.place)
        again = _began_again(alone, whole)
        if again is not None:
            first = alone.cuts[0]
            seen = f"it saves, but after a kill just before `{first.before}` attempt {again.number} began again"
            counted = f"{again.operations} file operations of {whole.operations}, though {first.operations} were done"
            return [f"{seen} ({counted} before). Load what was saved before the work begins", _KEEP_THE_LAST]
    return []


def _began_again(chain: Chain, whole: Cut) -> Cut | None:
    """The attempt that did all of it again, or nearly all, as the time says too: a start may write many small things.

    None that came after a kill at the very end: all was done, and a job may remove its saves then.
    """
    resumed = (cut for before, cut in pairwise(chain.cuts) if before.before != _END)
    most = max(resumed, key=lambda cut: cut.operations, default=None)
    if most is None or most.operations < _AGAIN * whole.operations:
        return None
    is_all = most.operations >= _ALL * whole.operations
    return most if is_all or most.work_seconds >= _AGAIN_SECONDS * whole.work_seconds else None


def _differs(result: Result, after: str) -> str:
    return f"after {after} {result.path} is not what the uninterrupted run made: {result.detail}"
