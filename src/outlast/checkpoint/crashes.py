"""Crash loops: attempts that end by an exception at the same place, or without a word and no step further, again and
again. A preemption is no failure: it neither counts nor breaks the row."""

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


@dataclass(frozen=True, slots=True)
class CrashPolicy:
    """What to do after `limit` (≥ 1) attempts in a row that crashed without getting further.

    Attempts that ended without a word (no exception, no notice), and started from the same step each time, make a
    crash loop after three times as many. `then`: "stop" asks for a human (exit 78), "step-back" leaves out one more
    good checkpoint each time, "say" only says so. None: "stop" between the retries of one execution, "say" otherwise,
    since a person who starts the program again has probably mended it.
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
            return (
                f"{streak.crashes} attempts in a row crashed at step {streak.step} without getting further "
                f"({streak.error}){apart}"
            )
        if streak.crashes + streak.deaths >= _DEATHS_FOR_A_CRASH * self.limit:
            return (
                f"{streak.crashes + streak.deaths} attempts in a row started from step {streak.resumed_from} and ended "
                f"without getting further, {streak.deaths} of them without an exception or a notice{apart}"
            )
        return None


@dataclass(frozen=True, slots=True)
class CrashStreak:
    """Attempts in a row, up to the newest, none of which got further than those before it, by how they ended.

    `crashes` by an exception, at `step`; `deaths` without a word; `preemptions` after a notice. `resumed_from` is the
    step that the newest one started from.
    """

    crashes: int = 0
    deaths: int = 0
    preemptions: int = 0
    step: int = 0
    error: str = ""
    same_execution: bool = False
    resumed_from: int = 0

    @property
    def advice(self) -> str:
        """What a person can do."""
        if self.deaths > self.crashes:
            return (
                "Another start would probably end there too. Look whether the process runs out of memory or dies in "
                "compiled code; if the machine is only taken away so often, save more often (every=...), or let it try "
                'on with after_crashes="say"'
            )
        return (
            "Another start would crash there too. Mend the program or its data, or go back with "
            "resume=STEP to a checkpoint from before the fault"
        )


def crash_streak(
    journals: Mapping[int, Sequence[Recorded]], claims: Sequence[Claim], execution: str | None, policy: CrashPolicy
) -> CrashStreak:
    """How the newest attempts ended. With the default policy only those of this execution count, if it has a name.

    Reads journals from the newest on, and no further than the row goes.
    """
    executions = {claim.attempt: claim.details.get("execution") for claim in claims}
    streak = CrashStreak(same_execution=execution is not None)
    newest_start: int | None = None
    for attempt in sorted(journals, reverse=True):
        if policy.then is None and execution is not None and executions.get(attempt) != execution:
            break
        recorded = journals[attempt]
        start = first_step_of(recorded)
        if newest_start is None and start is not None:
            newest_start = start
            streak = replace(streak, resumed_from=start)
        longer = _longer(streak, recorded, further=start is not None and start < (newest_start or 0))
        if longer is None:
            break
        streak = longer
    return streak


def _longer(streak: CrashStreak, recorded: Sequence[Recorded], *, further: bool) -> CrashStreak | None:
    """The streak with one more attempt before it; None where that one is not of the row. `further`: whether a later
    one started from a later step, so that work was saved in between."""
    end = ending_of(recorded).end
    crash = next((one.event for one in recorded if isinstance(one.event, Crashed)), None)
    if crash is not None and end == "crashed":
        if streak.crashes and crash.step < streak.step:
            return None
        if not streak.crashes:
            if further:
                return None
            streak = replace(streak, step=crash.step, error=crash.error)
        return replace(streak, crashes=streak.crashes + 1)
    if further or not recorded:
        return None
    if end == "interrupted" or (end == "silent" and notice_in(recorded) is not None):
        return replace(streak, preemptions=streak.preemptions + 1)
    return replace(streak, deaths=streak.deaths + 1) if end == "silent" else None
