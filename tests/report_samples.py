"""Reports of rehearsals for the tests of what is made from them: a usual one, one of nothing, a hostile one."""

import math
from dataclasses import replace

from outlast.events import (
    AttemptStarted,
    Event,
    LoopStarted,
    NoticeHeard,
    PlanMade,
    Recorded,
    Restored,
    SaveCommitted,
    SaveStalled,
    SaveStarted,
    Stopped,
)
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.compare import Distance
from outlast.rehearse.notice import NoticeView
from outlast.rehearse.report import Report
from outlast.rehearse.results import Result

START = 512.0  # and moments in eighths: floats are exact
HOSTILE = (
    "<script>document.title='owned'</script><img src=//x.invalid/y onerror=document.title='owned'>",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "line\nbreak\r\ttab\x00",
    "x" * 10_240,
    "\u202egnp.exe\u202c שלום مرحبا",
    "\udcff\udcfe.bin",
    "\" onload=\"document.title='owned'",
    "</title></style></pre></main><style>*{display:none}</style><meta http-equiv=refresh content=0;url=//x.invalid>",
    "{{ 7 * 7 }} ${7*7} %s &lt;b&gt;",
)
_NOTICE = NoticeView(first_command="python", first_hears=True, first_was_pid_1=True, hearing_child=None)


def _at(start: float, *moments: tuple[float, Event]) -> tuple[Recorded, ...]:
    return tuple(Recorded(event, 0.0, start + moment) for moment, event in moments)


def _save(at: float, step: int) -> tuple[tuple[float, Event], ...]:
    """A save that stalls the work for 1/8 s and is durable 1/4 s after that."""
    committed = SaveCommitted(step, f"commit-{step}", 8, 0.25)
    return (at, SaveStalled(step, 0.125)), (at, SaveStarted(step)), (at + 0.25, committed)


def _killed() -> Attempt:
    """Killed a second after the save of step 60."""
    return Attempt(
        number=0,
        seconds=8.0,
        ended_by="SIGKILL",
        exit_code=137,
        started_at=START,
        kind="SIGKILL",
        interrupted_at_seconds=8.0,
        worked_seconds=7.0,
        recorded=_at(
            START,
            (0.5, AttemptStarted(0, "cloud-run", 1, "host", lived_seconds=0.5)),
            (1.0, LoopStarted(0, 180)),
            *_save(3.0, 20),
            *_save(5.0, 40),
            *_save(7.0, 60),
        ),
    )


def _stopped() -> Attempt:
    """Stopped within the grace of its notice, at step 105."""
    return Attempt(
        number=1,
        seconds=7.0,
        ended_by="SIGTERM",
        exit_code=143,
        started_at=START + 8.0,
        kind="SIGTERM",
        interrupted_at_seconds=6.0,
        heard_notice_after_seconds=0.125,
        stopped_after_seconds=1.0,
        resumed_from_step=60,
        worked_seconds=5.0,
        notice=_NOTICE,
        recorded=_at(
            START + 8.0,
            (0.5, AttemptStarted(1, "cloud-run", 1, "host", lived_seconds=0.5)),
            (1.0, Restored(60, "commit-60", 0.25)),
            (1.5, LoopStarted(60, 180)),
            *_save(3.5, 80),
            *_save(5.5, 100),
            (6.125, NoticeHeard("signal", "SIGTERM", 10.0)),
            (6.25, PlanMade("a full save", "a full save, step 105: 0.5 s at most, 8.0 s left", 9.875)),
            (6.25, PlanMade("a full save", "a full save, step 105: 0.5 s at most, 8.0 s left", 9.875)),
            (6.75, Stopped(105, 143, "SIGTERM", 0, 0.5, fitted=True)),
        ),
    )


def _finished() -> Attempt:
    """Went on from there to the end."""
    return Attempt(
        number=2,
        seconds=9.0,
        ended_by="finished",
        exit_code=0,
        started_at=START + 15.0,
        resumed_from_step=105,
        recorded=_at(
            START + 15.0,
            (0.5, AttemptStarted(2, "cloud-run", 1, "host", lived_seconds=0.5)),
            (1.0, Restored(105, "commit-105", 0.25)),
            (1.5, LoopStarted(105, 180)),
            *_save(3.5, 125),
            *_save(5.5, 145),
        ),
    )


def usual() -> Report:
    """A job of 20 s that saves every 2 s: a kill 1 s after a save, a stop within its grace, and the end."""
    return Report(
        verdict="survived",
        platform="cloud-run",
        seed=7,
        command=("python", "train.py", "--name", "two words"),
        reasons=(),
        not_exercised=("the real bucket or disk",),
        retries=5,
        grace_seconds=10.0,
        baseline_seconds=20.0,
        baseline_exit_code=0,
        attempts=(_killed(), _stopped(), _finished()),
        results=(Result("model.npz", same=True, detail="", distance=Distance(0.0, "")),),
    )


def of_nothing() -> Report:
    """What could not even be begun."""
    return Report(
        verdict="could-not-rehearse",
        platform="cloud-run",
        seed=0,
        command=("false",),
        reasons=("the uninterrupted run failed in the copy with exit code 1",),
        retries=5,
    )


def hostile() -> Report:
    """A program without outlast whose every name and word is meant to harm: deaf, killed after its grace."""
    killed = Attempt(
        number=0,
        seconds=14.0,
        ended_by="SIGKILL after the grace",
        exit_code=137,
        started_at=START,
        kind="SIGTERM",
        interrupted_at_seconds=4.0,
        stopped_after_seconds=10.0,
        worked_seconds=13.0,
        notice=replace(_NOTICE, first_command=HOSTILE[0]),
        grace_seconds=10.0,
        happened=HOSTILE,
        saves_seen=(START + 2.0, START + 2.03125, START + 4.0, START + 6.0),
    )
    failed = Attempt(number=1, seconds=2.0, ended_by="exit", exit_code=1, started_at=START + 14.0, worked_seconds=1.0)
    told = Attempt(
        number=2,
        seconds=2.0,
        ended_by="exit",
        exit_code=1,
        started_at=START + 16.0,
        recorded=_at(
            START + 16.0,
            (0.5, LoopStarted(0, None)),
            *((1.0, PlanMade(text, text, 1.0)) for text in HOSTILE),
        ),
    )
    return Report(
        verdict="not-survived",
        platform=HOSTILE[0],
        seed=0,
        command=HOSTILE,
        reasons=HOSTILE,
        not_exercised=HOSTILE,
        retries=1,
        grace_seconds=10.0,
        baseline_seconds=10.0,
        baseline_exit_code=0,
        attempts=(killed, failed, told),
        results=tuple(
            Result(text, same=number % 2 == 0, detail=text, distance=Distance(math.inf, text))
            for number, text in enumerate(HOSTILE)
        ),
        output=HOSTILE,
        cut_saves=HOSTILE,
        speed=12.5,
    )
