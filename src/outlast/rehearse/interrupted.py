"""The interrupted run: attempt after attempt on one stage, as the platform's controller would start them."""

from collections.abc import Sequence
from dataclasses import replace

from outlast.rehearse.attempt import Attempt, Plan
from outlast.rehearse.display import Display
from outlast.rehearse.profile import Profile
from outlast.rehearse.scenario import Interruption, seconds_into_work
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage
from outlast.rehearse.watch import WriteWatch

_LOOP_PATIENCE_SECONDS = 10.0  # loading a checkpoint may make a start-up longer than the first one
_ACTIVITY_PATIENCE_SECONDS = 0.1


def run_interrupted(
    site: Site,
    stage: Stage,
    scenario: Sequence[Interruption],
    profile: Profile,
    *,
    retries: int,
    round_number: int,
    display: Display,
) -> list[Attempt]:
    """Attempts until one leaves with 0, hangs, or no retry is left. A non-zero exit uses up a retry.

    An interruption whose moment an attempt did not live to see is kept for the next one.
    """
    attempts: list[Attempt] = []
    hung_seconds = site.limits.hung_seconds(profile.seconds)
    with WriteWatch(stage.folder) as watch:
        while len(attempts) <= retries:
            plan = _next_plan(scenario, profile, attempts, round_number=round_number, grace_seconds=site.grace_seconds)
            what = f"attempt {len(attempts)}" + (f", to end by {plan.kind}" if plan else ", to run to its end")
            with display.working(what):
                attempt = site.run(stage, len(attempts), watch=watch, plan=plan, hung_seconds=hung_seconds)
            writes = watch.writes_since(attempt.started_at)
            seen = tuple(write.at for write in writes if profile.save_filter.accepts(write))
            attempts.append(replace(attempt, saves_seen=seen))
            if attempt.exit_code == 0 or attempt.ended_by == "hung":
                break
    return attempts


def _next_plan(
    scenario: Sequence[Interruption],
    profile: Profile,
    attempts: Sequence[Attempt],
    *,
    round_number: int,
    grace_seconds: float,
) -> Plan | None:
    landed = sum(attempt.kind is not None for attempt in attempts)
    if landed == len(scenario):
        return None
    work_left = _work_left(profile, attempts, parts=len(scenario) + 1)
    gap = seconds_into_work(scenario, landed, work_left=work_left, round_number=round_number)
    return Plan(
        kind=scenario[landed].kind,
        after_seconds=profile.wait_for_start + gap,
        sign=profile.sign,
        sign_timeout_seconds=_patience(profile),
        grace_seconds=grace_seconds,
        saves=profile.save_filter,
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
