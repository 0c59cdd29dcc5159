"""More notices than the scenario has: some in the middle of a save, others at any moment between two.

A handler that saves at once meets a state that is half changed only at some moments, so one notice proves little.
"""

import math
import random
import time
from contextlib import closing
from dataclasses import dataclass

from outlast.clock import format_duration
from outlast.containers.container import Container
from outlast.rehearse.cut_saves import Job, Knife, Place
from outlast.rehearse.display import Display
from outlast.rehearse.outputs import last_line
from outlast.rehearse.results import Result
from outlast.rehearse.site import Site
from outlast.rehearse.stage import Stage

_NOTICES = 9  # in one run of the job at most; six at any moment, which miss a half of all moments once in 64 times
_SET_A_FLAG = "a handler should set a flag, and the loop act on it between two steps, or block the signal within them"
_LATE = 0.2  # of the job's time, before what is added to an open file is a save
_FAILURES = 2  # in a row: it does not get over what it left


@dataclass(frozen=True, slots=True)
class Warned:
    """One attempt that got a notice, `before` a file operation or (None) between two; None for no notice at all."""

    number: int
    exit_code: int
    noticed: bool
    before: str | None = None
    killed: bool = False
    period: float = 0.0  # seconds from one save to the next
    saved_within: str | None = None
    last_words: str = ""

    @property
    def where(self) -> str:
        return f"at `{self.before}`" if self.before is not None else "between two saves"


@dataclass(frozen=True, slots=True)
class ManyNotices:
    """What came of it: `broken` as reasons; whether an attempt `stopped` on its notice, with work left; and where they
    came."""

    broken: tuple[str, ...]
    stopped: bool
    places: tuple[str, ...]


def warn_often(job: Job, display: Display) -> ManyNotices:
    """A run of the job whose attempts are ended by notices."""
    stage = job.site.make_stage("many-notices")
    chance = random.Random(f"{job.site.request.seed}/notices")  # noqa: S311 - a plan, not a secret
    attempts: list[Warned] = []
    places: set[Place] = set()
    period = 0.0
    with display.working("more notices, in the middle of saves too"):
        while True:
            number = len(attempts)
            delay = period * chance.random() if number % 3 else None
            attempt = _run(job, stage, number, delay, places)
            period = period or attempt.period
            attempts.append(attempt)
            failed = [not one.noticed and one.exit_code != 0 for one in attempts[-_FAILURES:]]
            if attempt.exit_code == 0 or attempt.killed or (all(failed) and len(failed) == _FAILURES):
                break
    reasons = _judge(job.site, attempts, job.compare(stage, attempts[-1].number))
    # A signal in the middle of an operation may make that fail, which ends a program that does not stop, too.
    stopped = (one for one in attempts if one.noticed and one.before is None and not one.killed)
    return ManyNotices(
        broken=tuple(reasons),
        stopped=any(one.exit_code != 0 for one in stopped),
        places=tuple(one.where for one in attempts if one.noticed),
    )


def _judge(site: Site, attempts: list[Warned], results: list[Result]) -> list[str]:
    last = attempts[-1]
    noticed = [one for one in attempts if one.noticed]
    if last.killed:
        grace = format_duration(site.grace_seconds)
        what = f"after a notice {last.where} it did not end within {grace}" if last.noticed else "it hung"
        return [f"attempt {last.number} of a run with many notices: {what}"]
    if last.exit_code != 0:
        words = f": {last.last_words}" if last.last_words else ""
        where = f"after a notice {noticed[-1].where}, " if noticed else ""
        return [f"{where}attempt {last.number} left with exit code {last.exit_code} and so did the one before{words}"]
    different = [one for one in results if not one.same]
    if not different:
        return [_saves_within(one) for one in attempts if one.saved_within is not None][:1]
    first = different[0]
    found = f"{first.path} is not what the uninterrupted run made: {first.detail}"
    if last.noticed and math.isinf(first.distance.relative):
        code = site.platform.facts.interrupted_exit_code
        return [f"on a notice {last.where} it left with 0 unfinished, which counts as success ({found}); use {code}"]
    where = ", ".join(dict.fromkeys(one.where for one in noticed))
    return [f"after {len(noticed)} notices ({where}) {found}", _SET_A_FLAG]


def _saves_within(one: Warned) -> str:
    return (
        f"attempt {one.number} of a run with many notices: its handler saved at once (`{one.saved_within}`), while "
        f"`{one.before}` was under way, so it may save a step that is half done; {_SET_A_FLAG}"
    )


def _run(job: Job, stage: Stage, number: int, delay_seconds: float | None, places: set[Place]) -> Warned:
    """One attempt. Its notice comes so long after its first file operation; None: at an operation, in its midst.

    The first attempt's comes in its second save, so that the time from one to the next is known.
    """
    at_once = delay_seconds is None

    def warn_now() -> bool:
        container.terminate_first()
        return True

    knife = Knife(
        stage,
        done=frozenset(places) if at_once else frozenset(),
        late_seconds=_LATE * job.seconds if number == 0 else None,
        blunt=number >= _NOTICES,
        warn=warn_now if at_once else _later,
    )
    with closing(knife), job.site.held(stage, number, knife.passes) as container:
        ended, began = container.wait(job.hung_seconds, (knife.begun,))
        if began and not ended:
            ended = _give_notice(container, job.site.grace_seconds, delay_seconds or 0.0)
        container.kill()
        code = container.finish()
    place, before = knife.cut if knife.cut is not None else (None, None)
    if place is not None and at_once:
        places.add(place)
    return Warned(
        number,
        code,
        noticed=knife.cut is not None,
        before=before if at_once else None,
        killed=not ended,
        period=knife.period,
        saved_within=knife.saved_within,
        last_words=last_line(stage.stderr(number)),
    )


def _later() -> bool:
    """The notice comes when so much time has passed; the operation is not held for it."""
    return False


def _give_notice(container: Container, grace_seconds: float, delay_seconds: float) -> bool:
    """Whether it ended by itself within the grace. Without a delay it has had the notice already."""
    if delay_seconds > 0:
        if container.wait(delay_seconds)[0]:
            return True
        container.terminate_first()
    until = time.monotonic() + grace_seconds
    while (left := until - time.monotonic()) > 0:
        if container.wait(left)[0]:
            return True
    return False
