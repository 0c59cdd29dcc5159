"""Crash loops: attempts that end by an exception, at the same place or with nothing saved in between, or without a
word and nothing saved, again and again. A preemption is no failure: it neither counts nor breaks the row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outlast.checkpoint.endings import ending_of, first_step_of, notice_in
from outlast.checkpoint.lineage import Claim
from outlast.checkpoint.places import CommitName
from outlast.console import Console
from outlast.errors import NoGoodCheckpoint, SettingsError
from outlast.events import Crashed, Recorded

AfterCrashes = Literal["stop", "step-back", "say"]
# A process that is killed without notice may have been preempted, or be one that always runs out of memory. After so
# many times the limit without a step further, a person should look, whatever it is.
_DEATHS_FOR_A_CRASH = 3
_LONGEST_ROW = 100  # journals that a start reads at most: on a bucket each takes some 50 ms


@dataclass(frozen=True, slots=True)
class CrashPolicy:
    """What to do after `limit` (≥ 1) attempts in a row that crashed without getting further: at one step, or at any
    while the next one had to start from the same step again.

    Attempts that ended without a word (no exception, no notice), and started from the same step each time, make a
    crash loop after three times as many; so do retries of one execution that left by themselves (`sys.exit`).
    `then`: "stop" asks for a human (exit 78), "step-back" leaves out one more good checkpoint each time, "say" only
    says so. None: "stop" between the retries of one execution, "say" otherwise, since a person who starts the program
    again has probably mended it.
    """

    limit: int = 3
    then: AfterCrashes | None = None

    def __post_init__(self) -> None:
        if type(self.limit) is not int or self.limit < 1:
            raise SettingsError(f"crash_limit={self.limit!r} is not a whole number of 1 or more")
        if self.then not in (None, "stop", "step-back", "say"):
            raise SettingsError(f"after_crashes={self.then!r} is none of 'stop', 'step-back', 'say'")

    def leave(self, counted: list[CommitName], streak: "CrashStreak", console: Console) -> list[CommitName]:
        """The commits to start from, newest first. Raises NoGoodCheckpoint where the policy is to stop."""
        said = self._said(streak)
        if said is None:
            return counted
        then = self.then or ("stop" if streak.same_execution else "say")
        if then == "say":
            console.warning(said)
            return counted
        earlier = [name.step for name in counted if name.step < streak.resumed_from]
        if then == "stop" or not earlier or not streak.crashes:
            raise NoGoodCheckpoint(f"{said}. {streak.advice}")
        console.warning(f"{said}; going back to step {max(earlier)}")
        return [name for name in counted if name.step <= max(earlier)]

    def _said(self, streak: "CrashStreak") -> str | None:
        """What the streak is called; None where it is no crash loop."""
        apart = f"; {streak.preemptions} preemptions in between are not counted" if streak.preemptions else ""
        if streak.crashes >= self.limit:
            where = f"at step {streak.step}"
            if streak.furthest > streak.step:
                where = f"between the steps {streak.step} and {streak.furthest}"
            return f"{streak.crashes} attempts in a row crashed {where} without getting further ({streak.error}){apart}"
        if streak.crashes + streak.deaths >= _DEATHS_FOR_A_CRASH * self.limit:
            return (
                f"{streak.crashes + streak.deaths} attempts in a row started from step {streak.resumed_from} and ended "
                f"without getting further, {streak.deaths} of them without an exception or a notice{apart}"
            )
        return None


@dataclass(frozen=True, slots=True)
class CrashStreak:
    """Attempts in a row, up to the newest, none of which got further than those before it, by how they ended.

    `crashes` by an exception, at `step` or after it, up to `furthest`; `error` is the newest. `deaths` without a word;
    `preemptions` after a notice. `resumed_from` is the step that the newest one started from.
    """

    crashes: int = 0
    deaths: int = 0
    preemptions: int = 0
    step: int = 0
    furthest: int = 0
    error: str = ""
    same_execution: bool = False
    resumed_from: int = 0

    @property
    def advice(self) -> str:
        """What a person can do."""
        if self.deaths > self.crashes:
            return (
                "Another start would probably end there too. Look whether the process runs out of memory, dies in "
                "compiled code, or calls sys.exit; if the machine is only taken away so often, save more often "
                '(every=...), or let it try on with after_crashes="say"'
            )
        return (
            "Another start would crash there too. Mend the program or its data, or go back with "
            "resume=STEP to a checkpoint from before the fault"
        )


def crash_streak(
    journals: Mapping[int, Sequence[Recorded]],
    claims: Sequence[Claim],
    execution: str | None,
    policy: CrashPolicy,
    *,
    starts_from: int | None = None,
) -> CrashStreak:
    """How the newest attempts ended. With the default policy only those of this execution count, if it has a name.

    `starts_from`: the step that the next attempt would start from; None for the one that the newest started from. Reads
    journals from the newest on, no further than the row goes, and 100 at most.
    """
    executions = {claim.attempt: claim.details.get("execution") for claim in claims}
    streak = CrashStreak(same_execution=execution is not None)
    newest_start: int | None = None
    for attempt in sorted(journals, reverse=True)[:_LONGEST_ROW]:
        if policy.then is None and execution is not None and executions.get(attempt) != execution:
            break
        recorded = journals[attempt]
        start = first_step_of(recorded)
        if newest_start is None and start is not None:
            newest_start = start
            streak = replace(streak, resumed_from=start)
        then = newest_start if starts_from is None else starts_from
        place = _Place(start is not None and start < (then or 0), start is not None and start < (newest_start or 0))
        longer = _longer(streak, recorded, place)
        if longer is None:
            break
        streak = longer
    return streak


@dataclass(frozen=True, slots=True)
class _Place:
    """Of an attempt: whether work was saved since it started, and whether a later attempt went on from that."""

    progress: bool
    used: bool


def _longer(streak: CrashStreak, recorded: Sequence[Recorded], place: _Place) -> CrashStreak | None:
    """The streak with one more attempt before it; None where that one is not of the row."""
    end = ending_of(recorded).end
    crash = next((one.event for one in recorded if isinstance(one.event, Crashed)), None)
    if crash is not None and end == "crashed":
        return _crashed(streak, crash, place)
    if place.progress:
        return None
    if end == "interrupted" or (end == "silent" and notice_in(recorded) is not None):
        return replace(streak, preemptions=streak.preemptions + 1)
    # A person ends a program as they like; what a platform starts again within one execution had failed.
    if (end == "silent" and recorded) or (end == "left" and streak.same_execution):
        return replace(streak, deaths=streak.deaths + 1)
    # Of a journal that cannot be read nothing is known; a storage that was away is no fault of the program's.
    return None if end in ("finished", "left") else streak


def _crashed(streak: CrashStreak, crash: Crashed, place: _Place) -> CrashStreak | None:
    if not streak.crashes:
        only = replace(streak, crashes=1, step=crash.step, furthest=crash.step, error=crash.error)
        return None if place.used else only
    if place.progress and crash.step < streak.furthest:
        return None
    at, furthest = min(streak.step, crash.step), max(streak.furthest, crash.step)
    return replace(streak, crashes=streak.crashes + 1, step=at, furthest=furthest)
