"""From an attempt's own events to its line: saves, notices, and which of its work was lost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from outlast.checkpoint.goodput import Timeline as Moments
from outlast.checkpoint.goodput import buckets
from outlast.checkpoint.goodput import timeline as moments_of
from outlast.events import (
    LoopStarted,
    NoticeHeard,
    Recorded,
    Restored,
    SaveCommitted,
    SaveFailed,
    SaveStalled,
    SaveStarted,
    SaveTakenBack,
    Stopped,
)
from outlast.timeline.moments import AttemptLine, NoticeGiven, Save, Span


@dataclass(frozen=True, slots=True)
class Told:
    """An attempt's bare line, its events, and the monotonic moment that is zero on the timeline."""

    line: AttemptLine
    recorded: Sequence[Recorded]
    zero: float


def with_events(attempts: Iterable[Told]) -> list[AttemptLine]:
    """The lines of attempts, in order, with what their events tell; those without events stay as they are.

    Work past the step that any later attempt went on from is lost; so is, after the last attempt that began its
    steps, nothing: whether a run goes on from its newest checkpoint is not known yet.
    """
    done: list[AttemptLine] = []
    resumed: int | None = None
    for one in reversed(list(attempts)):
        line, first = _with_own_events(one, went_on_from=resumed)
        done.append(line)
        if first is not None:
            resumed = first if resumed is None else min(resumed, first)
    return done[::-1]


def _with_own_events(told: Told, *, went_on_from: int | None) -> tuple[AttemptLine, int | None]:
    line, recorded = told.line, told.recorded
    if not recorded:
        return line, None
    last = max(one.monotonic_seconds for one in recorded) - told.zero
    stopped = [one.event.step for one in recorded if isinstance(one.event, Stopped)]
    # After a stop the process only leaves: that is no work, and so none that is lost.
    moments = moments_of(recorded, more_seconds=0.0 if stopped else max(0.0, line.span.end - last))
    loop = next((one for one in reversed(recorded) if isinstance(one.event, LoopStarted)), None)
    restored = [one.event.step for one in recorded if isinstance(one.event, Restored)]
    line = replace(
        line,
        saves=tuple(saves_in(recorded, zero=told.zero, until=line.span.end)),
        notices=line.notices or tuple(_heard(recorded, zero=told.zero)),
        buckets=buckets(moments, cut=went_on_from),
    )
    if loop is None or moments.loop_at is None:
        return replace(line, from_step=restored[-1] if restored else None), None
    work_from = loop.monotonic_seconds - told.zero
    line = replace(line, work_from=work_from, from_step=moments.first, reached_step=moments.reached, unsaved=None)
    if went_on_from is not None and not any(step <= went_on_from for step in stopped):
        lost = _lost(moments, went_on_from, process_began=work_from - moments.loop_at, until=line.span.end)
        line = replace(line, lost=lost)
    return line, moments.first


def _lost(moments: Moments, went_on_from: int, *, process_began: float, until: float) -> Span | None:
    """From the moment of that step on; steps that nobody told of may have followed the last one that is known."""
    cut = max(went_on_from, moments.first or 0)
    at = max(moments.loop_at or 0.0, moments.moment_of(cut)) if cut > (moments.first or 0) else moments.loop_at or 0.0
    span = Span(process_began + at, until)
    return span if span.seconds > 0 else None


def saves_in(recorded: Sequence[Recorded], *, zero: float, until: float) -> Iterable[Save]:
    """Each save that events tell of, in the order of their ends; one without an end was cut off at `until`."""
    taken_back = {one.event.commit for one in recorded if isinstance(one.event, SaveTakenBack)}
    stalled: dict[int, float] = {}  # a save beside the training has stalled it before it is written
    began: dict[int, float] = {}
    for one in recorded:
        event, at = one.event, one.monotonic_seconds - zero
        if isinstance(event, SaveStalled):
            stalled[event.step] = at - max(0.0, event.seconds)
        elif isinstance(event, SaveStarted):
            began[event.step] = stalled.pop(event.step, at)
        elif isinstance(event, SaveCommitted):
            start = began.pop(event.step, at - max(0.0, event.seconds))
            yield Save(span=Span(min(start, at), at), durable=event.commit not in taken_back, step=event.step)
        elif isinstance(event, SaveFailed):
            yield Save(span=Span(began.pop(event.step, at), at), durable=False, step=event.step)
    for step, start in began.items():
        yield Save(span=Span(start, max(start, until)), durable=False, step=step)


def _heard(recorded: Sequence[Recorded], *, zero: float) -> Iterable[NoticeGiven]:
    for one in recorded:
        if isinstance(one.event, NoticeHeard) and one.event.kind == "final":
            at = one.monotonic_seconds - zero
            yield NoticeGiven(at=at, heard_at=at, kill_at=at + max(0.0, one.event.grace_seconds))
