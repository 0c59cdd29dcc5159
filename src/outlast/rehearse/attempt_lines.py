"""Attempts as the lines of a timeline, with what each one told or was seen to do."""

from collections.abc import Iterator, Sequence

from outlast.rehearse.attempt import Attempt
from outlast.timeline.moments import AttemptLine, End, NoticeGiven, Save, Span, Timeline
from outlast.timeline.told import Told, with_events

_BURST_SECONDS = 0.05  # writes that follow each other so closely are taken for one save
_LEFT = ("SIGTERM", "notice", "superseded")
_KILLED = ("SIGKILL", "SIGKILL at a save", "SIGKILL after the grace", "hung")


def timeline_of(attempts: Sequence[Attempt], *, grace_seconds: float | None) -> Timeline:
    """The attempts on one clock, which begins with the first one; without those that nobody saw the end of."""
    seen = [one for one in attempts if one.started_at > 0]
    if not seen:
        return Timeline(())
    zero = min(one.started_at for one in seen)
    told = [Told(_line(one, zero, grace_seconds), one.recorded, zero) for one in seen]
    return Timeline(tuple(with_events(told)))


def _line(attempt: Attempt, zero: float, grace_seconds: float | None) -> AttemptLine:
    began = attempt.started_at - zero
    span = Span(began, began + attempt.seconds)
    saves = tuple(_saves_seen(attempt, zero))
    work_from = span.end - attempt.worked_seconds if attempt.worked_seconds else None
    last_save = max((save.span.end for save in saves if save.durable), default=work_from)
    interrupted = attempt.kind is not None and attempt.exit_code != 0
    return AttemptLine(
        number=attempt.number,
        span=span,
        end=_end(attempt),
        ended_by=attempt.ended_by,
        met=attempt.happened,
        work_from=work_from,
        saves=saves,
        notices=tuple(_notices(attempt, span, grace_seconds)),
        unsaved=Span(last_save, span.end) if interrupted and last_save is not None else None,
    )


def _end(attempt: Attempt) -> End:
    if attempt.succeeded:
        return "finished"
    if attempt.ended_by in _KILLED:
        return "killed"
    return "left" if attempt.ended_by in _LEFT else "failed"


def _notices(attempt: Attempt, span: Span, grace_seconds: float | None) -> Iterator[NoticeGiven]:
    if attempt.notice is None or attempt.interrupted_at_seconds is None:
        return
    at = span.start + attempt.interrupted_at_seconds
    heard = attempt.heard_notice_after_seconds
    grace_seconds = grace_seconds if attempt.grace_seconds is None else attempt.grace_seconds
    yield NoticeGiven(
        at=at,
        heard_at=None if heard is None else at + heard,
        kill_at=None if grace_seconds is None else at + grace_seconds,
    )


def _saves_seen(attempt: Attempt, zero: float) -> Iterator[Save]:
    """Bursts of writes. The one in which the attempt was killed is no durable save."""
    bursts: list[Span] = []
    for at in (moment - zero for moment in attempt.saves_seen):
        if bursts and at - bursts[-1].end <= _BURST_SECONDS:
            bursts[-1] = Span(bursts[-1].start, at)
        else:
            bursts.append(Span(at, at))
    for number, burst in enumerate(bursts, start=1):
        cut = number == len(bursts) and attempt.ended_by == "SIGKILL at a save"
        yield Save(span=burst, durable=not cut)
