"""What is known of an attempt while it runs, and from that how it ended."""

from dataclasses import dataclass, field
from typing import Literal

from outlast.rehearse.attempt import EndedBy, Plan
from outlast.rehearse.scenario import Kind
from outlast.rehearse.watch import Write
from outlast.rehearse.words import Due

_SIGKILLED = 128 + 9


@dataclass(slots=True)
class Progress:
    """What the loop over one attempt knows so far. Moments are monotonic."""

    work_began_at: float | None = None
    noticed_at: float | None = None  # the first notice that was not revoked
    first_notice_at: float | None = None
    kill_due_at: float | None = None
    warned: bool = False
    revoked: bool = False
    second: bool = False
    killed_at: float | None = None
    killed_by: EndedBy | None = None
    hung: bool = False
    fired: Write | None = None
    armed: bool = False
    ranks: int = 0
    rank: int | None = None
    hit_what: Literal["rank", "node"] = "rank"
    node_killed: bool = False
    rank_hit: tuple[Kind, float] | None = None
    landed: list[tuple[Due, float]] = field(default_factory=list)
    begun: list[Due] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class End:
    """What ended an attempt; `kind` and `at` (monotonic) are of the interruption that landed, if one did."""

    ended_by: EndedBy
    kind: Kind | None = None
    at: float | None = None


def how_it_ended(progress: Progress, plan: Plan | None, exit_code: int, spoilt: tuple[Due, float] | None) -> End:
    """What ended an attempt that left with `exit_code`; `spoilt`: the storage fault that a write met, and when."""
    forced = _by_force(progress, plan, exit_code)
    if forced is not None:
        return forced
    left: EndedBy = "finished" if exit_code == 0 else "exit"
    if progress.rank_hit is not None:
        kind, at = progress.rank_hit
        ended: EndedBy = "notice" if kind == "one rank noticed" else "one rank killed"
        return End("finished" if exit_code == 0 else ended, kind, at)
    if progress.noticed_at is not None:
        on_notice: EndedBy = "SIGTERM" if progress.warned else "notice"
        return End("finished" if exit_code == 0 else on_notice, "SIGTERM", progress.noticed_at)
    if progress.second:
        return End("finished" if exit_code == 0 else "superseded", "second attempt", progress.landed[-1][1])
    if progress.revoked and exit_code != 0:  # it had begun to leave, which nothing takes back
        return End("notice", "revoked notice", progress.first_notice_at)
    return _undisturbed(progress, plan, left, spoilt)


def _by_force(progress: Progress, plan: Plan | None, exit_code: int) -> End | None:
    """None where it ended by itself."""
    if progress.hung:
        at = progress.first_notice_at or (progress.rank_hit[1] if progress.rank_hit else None)
        return End("hung", plan.kind if plan is not None and at is not None else None, at)
    if exit_code != _SIGKILLED:
        return None
    if progress.fired is not None:
        return End("SIGKILL at a save", "SIGKILL at a save", progress.fired.at)
    if progress.killed_by is None:
        return None
    told = progress.rank_hit or (None if progress.noticed_at is None else ("SIGTERM", progress.noticed_at))
    if told is not None:
        return End(progress.killed_by, *told)
    return End(progress.killed_by, "second attempt" if progress.second else "SIGKILL", progress.killed_at)


def _undisturbed(progress: Progress, plan: Plan | None, left: EndedBy, spoilt: tuple[Due, float] | None) -> End:
    """It ended by itself before what was to end it; what only disturbed it counts where nothing else was planned."""
    if plan is None or not progress.begun:
        return End(left)
    last = plan.due[-1]
    if spoilt is not None and (spoilt[0] is last or left == "exit"):
        return End(left, "storage fault", spoilt[1])
    landed = [at for due, at in progress.landed if due is last]
    return End(left, last.kind, landed[0]) if landed and last.goes_on else End(left)
