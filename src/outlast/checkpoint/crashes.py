"""Crash loops: attempts that end by an exception at the same place, again and again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outlast.checkpoint.lineage import Claim
from outlast.checkpoint.places import CommitName
from outlast.console import Console
from outlast.errors import NoGoodCheckpoint, SettingsError
from outlast.events import Crashed, Recorded, Restored

AfterCrashes = Literal["stop", "step-back", "say"]


@dataclass(frozen=True, slots=True)
class CrashPolicy:
    """What to do after `limit` (≥ 1) attempts in a row that crashed without getting further.

    `then`: "stop" asks for a human (exit 78), "step-back" leaves out one more good checkpoint each time, "say" only
    says so. None: "stop" between the retries of one execution, "say" otherwise, since a person who starts the
    program again has probably mended it.
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
        if streak.length < self.limit:
            return counted
        then = self.then or ("stop" if streak.same_execution else "say")
        said = (
            f"{streak.length} attempts in a row crashed at step {streak.step} without getting further ({streak.error})"
        )
        if then == "say":
            console.warning(said)
            return counted
        earlier = [name.step for name in counted if name.step < streak.resumed_from]
        if then == "stop" or not earlier:
            raise NoGoodCheckpoint(
                f"{said}. Another start would crash there too. Mend the program or its data, or go back with "
                "resume=STEP to a checkpoint from before the fault"
            )
        console.warning(f"{said}; going back to step {max(earlier)}")
        return [name for name in counted if name.step <= max(earlier)]


@dataclass(frozen=True, slots=True)
class CrashStreak:
    """Attempts in a row, up to the newest, that each crashed, the newest no further on than those before it.

    `resumed_from` is the step that the newest one started from.
    """

    length: int = 0
    step: int = 0
    error: str = ""
    same_execution: bool = False
    resumed_from: int = 0


def crash_streak(
    journals: Mapping[int, Sequence[Recorded]], claims: Sequence[Claim], execution: str | None, policy: CrashPolicy
) -> CrashStreak:
    """How the newest attempts ended. With the default policy only those of this execution count, if it has a name."""
    executions = {claim.attempt: claim.details.get("execution") for claim in claims}
    ends = [(attempt, _crash(journals[attempt])) for attempt in sorted(journals, reverse=True)]
    streak = CrashStreak()
    for attempt, crash in ends:
        if crash is None or (streak.length and crash.step < streak.step):
            break
        if policy.then is None and execution is not None and executions.get(attempt) != execution:
            break
        if not streak.length:
            resumed = [one.event.step for one in journals[attempt] if isinstance(one.event, Restored)]
            streak = CrashStreak(0, crash.step, crash.error, execution is not None, max(resumed, default=0))
        streak = replace(streak, length=streak.length + 1)
    return streak


def _crash(events: Sequence[Recorded]) -> Crashed | None:
    return next((recorded.event for recorded in events if isinstance(recorded.event, Crashed)), None)
