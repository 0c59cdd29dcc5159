"""From what happened to what it proves: the verdict and its reasons."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from outlast.clock import format_duration
from outlast.ports import PlatformFacts
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.batches import QUEUE, SINK
from outlast.rehearse.cut_saves import CutSaves
from outlast.rehearse.findings import (
    find_in_notices,
    find_in_progress,
    find_in_restores,
    notices_that_count,
    restored_faithfully,
    useless_notice,
    was_met,
)
from outlast.rehearse.rank_ends import RankEnds
from outlast.rehearse.ranks import find_in_ranks
from outlast.rehearse.results import STDOUT, Result
from outlast.rehearse.scenario import Interruption, kinds_needed

Verdict = Literal["survived", "not-survived", "could-not-rehearse"]
_NAMED = 8
EXIT_CODES: dict[Verdict, int] = {"survived": 0, "not-survived": 1, "could-not-rehearse": 2}

_STATE = (
    "something was left out, done twice, or done with another state: save together whatever a step changes and a later "
    "one reads (counters, the optimizer, the random state, the position in the data)"
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a verdict rests on. Seconds.

    `between_baselines` compares the two uninterrupted runs; `nearest` the rehearsal with the nearer of the two.
    """

    facts: PlatformFacts
    grace_seconds: float
    retries: int
    tolerance: float
    saves: bool
    baseline_seconds: float
    scenario: tuple[Interruption, ...]
    attempts: tuple[Attempt, ...]
    results: tuple[Result, ...]
    between_baselines: tuple[Result, ...]
    nearest: tuple[Result, ...]
    last_words: str = ""
    elsewhere: tuple[str, ...] = ()  # files outside of the copy that one attempt left and a later one read
    cuts: CutSaves | None = None
    rank_ends: RankEnds | None = None
    baseline_writes: int = 0
    items: str | None = None  # what its workers did with their items
    outside: tuple[str, ...] = ()  # queues and sinks that were not compared
    results_named: bool = False  # by --result

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def landed(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.kind is not None]

    @property
    def finished(self) -> bool:
        """Whether the platform records success."""
        return self.last.succeeded

    @property
    def different(self) -> list[Result]:
        return [result for result in self.results if not result.same]

    @property
    def unstable(self) -> list[Result]:
        """Results in which the uninterrupted runs themselves differ."""
        return [result for result in self.between_baselines if not result.same]

    @property
    def killed_with_notice(self) -> bool:
        """Whether a notice was of no use: nobody could hear it, or the platform had to kill what it had warned."""
        return any(map(useless_notice, notices_that_count(self.attempts)))

    @property
    def never_stopped(self) -> bool:
        """Whether it got signals and worked on to its end after each: by results alone, nobody can tell whether a
        longer job would stop in time. What says that it heard its notice does so on purpose."""
        told = [one for one in notices_that_count(self.attempts) if one.notice is not None and one.notice.signalled]
        unheard = all(one.ended_by == "finished" and one.heard_notice_after_seconds is None for one in told)
        return bool(told) and unheard and not (self.cuts is not None and self.cuts.stopped)

    @property
    def missing_kinds(self) -> list[str]:
        had = {attempt.kind for attempt in self.landed if was_met(attempt) or self.killed_with_notice}
        return [kind for kind in kinds_needed(saves=self.saves) if kind not in had]

    @property
    def left_early(self) -> bool:
        """Whether it left with 0 on a notice although a result is not there or not right."""
        if not self.finished or self.last.notice is None or not self.last.notice.first_hears:
            return False
        queues = [one for one in self.nearest if one.path.startswith(QUEUE)]
        if queues and all(one.same for one in queues):  # nothing was left to do: what is wrong came before
            return False
        return any(not one.same for one in self.nearest) if not self.unstable else self._something_is_missing

    @property
    def _something_is_missing(self) -> bool:
        return any(math.isinf(one.distance.relative) for one in self.nearest if not self._differs_anyway(one.path))

    def _differs_anyway(self, path: str) -> bool:
        return any(one.path == path for one in self.unstable)

    @property
    def all_landed(self) -> bool:
        """Whether enough has landed: everything planned, or each kind, with the end within a notice's grace."""
        return not self.missing_kinds and (len(self.landed) == len(self.scenario) or self.last.kind == "SIGTERM")


def judge(evidence: Evidence) -> tuple[Verdict, list[str]]:
    """The verdict and its reasons; what decides comes first, then what else was found."""
    verdict, reasons = _decide(evidence)
    if verdict == "survived" and evidence.outside:
        verdict, reasons = "could-not-rehearse", [_not_seen(evidence.outside)]
    if verdict == "survived" and evidence.never_stopped and not evidence.killed_with_notice:
        verdict, reasons = "could-not-rehearse", [_too_short_to_stop(evidence)]
    found = [*find_in_notices(notices_that_count(evidence.attempts), grace_seconds=evidence.grace_seconds)]
    found += find_in_restores(evidence.attempts)
    in_ranks = _broken_ranks(evidence)
    again: list[str] = []
    if evidence.items is None:  # a queue says what is done, whatever else a worker writes
        again = find_in_progress(
            evidence.attempts,
            saves=evidence.saves,
            baseline_seconds=evidence.baseline_seconds,
            baseline_writes=evidence.baseline_writes,
        )
    if verdict == "survived" and (evidence.killed_with_notice or find_in_restores(evidence.attempts)):
        verdict = "not-survived"
    if verdict == "survived" and evidence.saves and again:
        verdict = "not-survived"
    if verdict == "survived" and in_ranks:
        verdict = "not-survived"
    cost = [] if evidence.items is None else [evidence.items]
    return verdict, [*reasons, *found, *in_ranks, *again, *cost]


def _decide(evidence: Evidence) -> tuple[Verdict, list[str]]:
    if not evidence.finished:
        return "not-survived", [_hung(evidence) if evidence.last.ended_by == "hung" else _budget(evidence)]
    if evidence.left_early:
        code = evidence.facts.interrupted_exit_code
        said = "it left with 0, so the platform records success: unfinished work is lost; leave with"
        return "not-survived", [f"{said} {code}", *_name_different(evidence)]
    if evidence.unstable:
        return "could-not-rehearse", [*_not_deterministic(evidence)]
    if evidence.different:
        state = [_STATE] if evidence.saves and evidence.items is None else []
        return "not-survived", [*_name_different(evidence), *state]
    if evidence.missing_kinds:
        return "could-not-rehearse", [_too_short(evidence)]
    return _decide_by_operations(evidence) or ("survived", [*_own_failures(evidence)])


def _decide_by_operations(evidence: Evidence) -> tuple[Verdict, list[str]] | None:
    """What attempts showed that were held at their file operations; None if nothing was wrong."""
    if evidence.elsewhere:
        return "could-not-rehearse", [_elsewhere(evidence.elsewhere, evidence.facts)]
    cuts = evidence.cuts
    if cuts is None:
        return None
    if cuts.broken:
        return "not-survived", [*cuts.broken]
    if cuts.elsewhere:
        return "could-not-rehearse", [_elsewhere(cuts.elsewhere, evidence.facts)]
    if cuts.temporary and not evidence.saves:
        return "not-survived", [_temporary(cuts.temporary)]
    return None


def _broken_ranks(evidence: Evidence) -> list[str]:
    own = find_in_ranks(evidence.attempts, grace_seconds=evidence.grace_seconds)
    return [*(evidence.rank_ends.broken if evidence.rank_ends is not None else ()), *own]


def _hung(evidence: Evidence) -> str:
    last = evidence.last
    ran = format_duration(last.seconds)
    usual = format_duration(evidence.baseline_seconds)
    return (
        f"attempt {last.number} hung: it ran for {ran} without an end, and the whole job takes {usual}. The end of its "
        "output may say what it waited for; --keep keeps all of it"
    )


def _budget(evidence: Evidence) -> str:
    landed = len(evidence.landed)
    own = len(evidence.attempts) - landed
    used = f"{landed} interruption{'s' * (landed != 1)}"
    if own:
        used += f" and {own} failure{'s' * (own != 1)} of its own"
    text = (
        f"the retries are used up: {used} ended all {len(evidence.attempts)} attempts "
        f"(1 + {evidence.retries} retries), and the work is not finished"
    )
    if not own:
        text += ": set more retries for the job, and here with --retries"
    cut = next((one for one in reversed(evidence.attempts) if one.cut_write is not None), None)
    if own and cut is not None:
        text += f"; attempt {cut.number} was killed while it wrote {cut.cut_write}"
    failed = last_failure(evidence.attempts)
    if failed is not None:
        text += f"; attempt {failed.number} left with exit code {failed.exit_code}"
        text += f": {evidence.last_words}" if evidence.last_words else ""
    return text


def last_failure(attempts: Sequence[Attempt]) -> Attempt | None:
    """The last attempt that ended by itself, and not well."""
    return next((one for one in reversed(attempts) if one.ended_by == "exit"), None)


def _name_different(evidence: Evidence) -> Iterator[str]:
    for result in evidence.different[:_NAMED]:
        yield f"{result.path} is not what the uninterrupted run made: {result.detail}"
    if more := evidence.different[_NAMED:]:
        yield f"{len(more)} more results are not either: {more[0].path} and so on"
    if evidence.results_named:
        return
    if any(result.path != STDOUT and not result.path.startswith((QUEUE, SINK)) for result in evidence.different):
        yield "if such a file is no result (a log, say), name those that are with --result PATH"


def _not_deterministic(evidence: Evidence) -> Iterator[str]:
    names = ", ".join(result.path for result in evidence.unstable)
    how = f"by more than --tolerance {evidence.tolerance:g}" if evidence.tolerance else "(no --tolerance was given)"
    yield f"not deterministic: two uninterrupted runs differ {how} in {names}; {evidence.unstable[0].detail}"
    yield f"what can be shown: it survived {len(evidence.landed)} interruptions to the end"
    faithful = restored_faithfully(evidence.attempts)
    if faithful:
        yield f"what can be shown: {faithful}"
    spread = {result.path: result.distance for result in evidence.between_baselines}
    for result in evidence.nearest:
        own = spread.get(result.path)
        if own is None or result.same:
            continue
        if math.isinf(own.relative):
            yield f"{result.path}: the uninterrupted runs themselves differ in more than numbers, so they bound nothing"
        else:
            inside = result.distance.relative <= own.relative
            yield f"{result.path} lies {'within' if inside else 'outside'} the uninterrupted runs' own spread"
    yield (
        "for a verdict: fix the seeds of what it draws at random, allow a difference of numbers with --tolerance, or "
        "name the files that have to be equal with --result"
    )


def _elsewhere(paths: Sequence[str], facts: PlatformFacts) -> str:
    names = ", ".join(paths[:3])
    return (
        f"it saves to {names}, outside of the copy: here that outlives every attempt and every run, and on "
        f"{facts.name} nobody can tell. Keep its files below the folder"
    )


def _not_seen(urls: Sequence[str]) -> str:
    return (
        f"{', '.join(urls)} lies outside of the copy, and was shared by all runs: nobody can say whether it is "
        "complete and without doubles. Rehearse with a queue and a sink in the folder, say sqlite:///work.db"
    )


def _temporary(paths: Sequence[str]) -> str:
    names = ", ".join(paths[:3])
    return f"it saves to {names}, which goes with the attempt: keep its files in a folder that outlives it"


def _too_short(evidence: Evidence) -> str:
    kinds = ", ".join(evidence.missing_kinds)
    seconds = format_duration(evidence.baseline_seconds)
    return (
        f"too short to interrupt: it takes {seconds}, and finished before these had landed: {kinds}. Give it more work "
        "for a rehearsal, say more steps"
    )


def _too_short_to_stop(evidence: Evidence) -> str:
    grace = format_duration(evidence.grace_seconds)
    return (
        f"too short to see whether it stops on a notice: it caught the signal and worked on until it was done, within "
        f"the grace of {grace}. Let it work for longer, or the platform's times pass faster with --speed"
    )


def _own_failures(evidence: Evidence) -> Iterator[str]:
    for attempt in evidence.attempts:
        if attempt.ended_by == "exit":
            met = f", having met {' and '.join(attempt.happened)}," if attempt.happened else " by itself"
            yield f"attempt {attempt.number} failed{met} with exit code {attempt.exit_code}; a retry mended it"
