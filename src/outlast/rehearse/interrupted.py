"""The interrupted run: attempt after attempt on one stage, as the platform's controller would start them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from outlast.rehearse.attempt import Attempt, Plan
from outlast.rehearse.course import Beside, Neighbours
from outlast.rehearse.display import Display
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.profile import Profile
from outlast.rehearse.request import CannotRehearse
from outlast.rehearse.scenario import (
    Happening,
    Interruption,
    Moment,
    missing_kinds,
    seconds_into_work,
    seconds_of,
)
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage, Start
from outlast.rehearse.watch import WriteWatch
from outlast.rehearse.words import Due, Procedure, goes_on

_LOOP_PATIENCE_SECONDS = 10.0  # loading a checkpoint may make a start-up longer than the first one
_ACTIVITY_PATIENCE_SECONDS = 0.1
_LOOK_SECONDS = 0.005
_LATE_SHARE = 0.5  # of what is left, for an interruption that was not foreseen


def run_interrupted(
    site: Site,
    stage: Stage,
    scenario: Sequence[Interruption],
    profile: Profile,
    *,
    retries: int,
    round_number: int,
    display: Display,
    elsewhere: Elsewhere | None = None,
    completes: bool = True,
) -> tuple[list[Attempt], tuple[Interruption, ...]]:
    """Attempts, in the order of their numbers, and what was planned for them.

    Attempts until one succeeds, hangs, or no retry is left. An attempt that does not succeed uses up a retry.

    One that was cancelled does not: the job is begun anew, as a new execution. An interruption whose moment an attempt
    did not live to see is kept for the next one. What a proof still needs when all has landed is added: a program may
    leave at a notice that was to be revoked, and so be gone before its end without notice. Not so unless it `completes`
    the proof.
    """
    attempts: list[Attempt] = []
    scenario = list(scenario)
    overlapping: list[_Overlapping] = []
    start, hung_seconds = Start(), site.limits.hung_seconds(profile.seconds)
    with WriteWatch(stage.folder) as watch:
        run = partial(site.run, stage, watch=watch, hung_seconds=hung_seconds)
        try:
            while start.attempt <= retries:
                number = len(attempts)
                if completes and sum(attempt.kind is not None for attempt in attempts) == len(scenario):
                    lacking = missing_kinds(attempts, saves=profile.saves)
                    scenario += [Interruption(kind, _LATE_SHARE) for kind in lacking[:1]]
                beside = Beside(
                    is_done=lambda: any(one.succeeded for one in overlapping),
                    neighbours=Neighbours(profile.sign, overlapping[-1].woken) if overlapping else None,
                )
                plan = _next_plan(site, scenario, profile, attempts, round_number=round_number)
                with display.working(f"attempt {number}" + (f", to meet {plan.name}" if plan else ", to its end")):
                    if plan is not None and plan.overlaps:
                        one = _Overlapping(partial(run, number, plan=plan, start=start, elsewhere=elsewhere), beside)
                        overlapping.append(one)
                        attempts.append(one.until_the_second(number))
                    else:
                        attempts.append(run(number, plan=plan, start=start, beside=beside, elsewhere=elsewhere))
                last = attempts[-1]
                if last.succeeded or last.ended_by == "hung":
                    break
                start = start.executed_again() if last.counts_as == "cancelled" else start.retried()
        finally:
            for one in overlapping:
                one.end()
    final = {one.attempt.number: one.attempt for one in overlapping if one.attempt is not None}
    attempts = [final.get(attempt.number, attempt) for attempt in attempts]
    return [_with_saves(attempt, watch, profile) for attempt in attempts], tuple(scenario)


def _with_saves(attempt: Attempt, watch: WriteWatch, profile: Profile) -> Attempt:
    """With the moments of its writes that are part of a save; of an attempt beside it, too, if one was."""
    writes = watch.writes_since(attempt.started_at)
    until = attempt.started_at + attempt.seconds
    return replace(
        attempt,
        saves_seen=tuple(one.at for one in writes if one.at <= until and profile.save_filter.accepts(one)),
    )


class _Overlapping:
    """An attempt that may live on while the next one runs, in a thread of its own. `attempt`: its report, once over."""

    def __init__(self, run: Callable[..., Attempt], beside: Beside) -> None:
        self.attempt: Attempt | None = None
        self.woken = threading.Event()
        self._second, self._called_off = threading.Event(), threading.Event()
        self._run = run
        self._beside = replace(beside, on_second=self._second.set, called_off=self._called_off, woken=self.woken)
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None

    def until_the_second(self, number: int) -> Attempt:
        """The attempt, if it is over before the next is to begin; else what stands for it until it is."""
        self._thread = threading.Thread(target=self._work, name=f"outlast-attempt-{number}", daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._second.wait(_LOOK_SECONDS):
            pass
        if self._failed is not None:
            raise self._failed
        if self.attempt is not None:
            return self.attempt
        return Attempt(
            number=number, seconds=0.0, ended_by="superseded", exit_code=1, started_at=0.0, kind="second attempt"
        )

    @property
    def succeeded(self) -> bool:
        """Whether it has finished the job."""
        return self.attempt is not None and self.attempt.succeeded

    def end(self) -> None:
        """Ends it if it still lives, and takes its report."""
        self.woken.set()
        self._called_off.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            self.attempt = self._run(beside=self._beside)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for it
            self._failed = error


def _next_plan(
    site: Site,
    scenario: Sequence[Interruption],
    profile: Profile,
    attempts: Sequence[Attempt],
    *,
    round_number: int,
) -> Plan | None:
    landed = sum(attempt.kind is not None for attempt in attempts)
    if landed >= len(scenario):
        return None
    work_left = _work_left(profile, attempts, parts=len(scenario) + 1)
    gap = seconds_into_work(scenario, landed, work_left=work_left, round_number=round_number)
    timing = _Timing(gap, work_left, site.scale.here(1.0), round_number)
    interruption = scenario[landed]
    happenings = interruption.happenings or (Happening(site.procedure.usual[interruption.kind]),)
    _check_members(site, happenings, profile.ranks)
    due = tuple(
        _due(site.procedure, one, timing.moment(one.moment, (place + 1) / len(happenings)))
        for place, one in enumerate(happenings)
    )
    waiting = profile.wait_for_start
    return Plan(
        kind=interruption.kind,
        due=tuple(replace(one, seconds=one.seconds + waiting) if one.since == "work" else one for one in due),
        sign=profile.sign,
        sign_timeout_seconds=_patience(profile),
        saves=profile.save_filter,
    )


def _check_members(site: Site, happenings: Sequence[Happening], ranks: int) -> None:
    """Raises CannotRehearse for what happens to a rank or node where there are none, or not that one."""
    for one in happenings:
        settings = site.procedure.words[one.word].settings
        asked = dict(one.settings)
        if ("rank" in settings or "apart" in settings) and ranks < 2:
            raise CannotRehearse(
                f"{one.word} needs several ranks, and the uninterrupted run had none: no process has RANK and "
                "WORLD_SIZE, or what other launchers say, in its environment"
            )
        if "node" in settings and site.request.nodes < 2:
            raise CannotRehearse(f"{one.word} needs several nodes: say --nodes 2")
        for name, count in (("rank", ranks), ("node", site.request.nodes)):
            if int(asked.get(name, 0)) >= max(count, 1):
                raise CannotRehearse(f"{one.word}: there is no {name} {asked[name]}; there are {count}, from 0")


@dataclass(frozen=True, slots=True)
class _Timing:
    """When things happen to one attempt, in seconds here. `second` is what one of the platform takes."""

    gap: float
    work_left: float
    second: float
    round_number: int

    def moment(self, named: Moment | None, part: float) -> Moment:
        """The moment in seconds here; where none is named, at that part of the time that is drawn for all."""
        if named is None:
            return Moment(seconds=self.gap * part)
        seconds = seconds_of(named, work_left=self.work_left, here=self.second, round_number=self.round_number)
        return Moment(seconds=seconds, since=named.since)


def _due(procedure: Procedure, happening: Happening, moment: Moment) -> Due:
    word, told = procedure.words[happening.word], dict(happening.settings)
    settings = word.all_settings(told)
    kind = word.kind_with(told)
    return Due(
        name=happening.word,
        kind=kind,
        seconds=moment.seconds,
        since=moment.since,
        begin=lambda scene: word.begin(scene, settings),
        counts_as=word.counts_as,
        goes_on=goes_on(kind, told),
        through_door=kind == "storage fault" or "write" in told,
        overlaps=kind == "second attempt" or told.get("replacement") == "at-once",
    )


def _work_left(profile: Profile, attempts: Sequence[Attempt], *, parts: int) -> float:
    """What is left if nothing was lost: too little rather than too much, so that interruptions come in time."""
    if not profile.saves:
        return profile.work_seconds
    done = sum(max(0.0, attempt.worked_seconds - profile.wait_for_start) for attempt in attempts)
    return max(profile.work_seconds - done, profile.work_seconds / (2 * parts))


def _patience(profile: Profile) -> float:
    if profile.sign == "loop":
        return 3 * profile.start_up_seconds + _LOOP_PATIENCE_SECONDS
    return 2 * profile.start_up_seconds + _ACTIVITY_PATIENCE_SECONDS
