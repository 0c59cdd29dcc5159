"""What the events of one attempt come to as spans: the attempt, with its start, restore, saves and notice in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from outlast.events import (
    AttemptStarted,
    Crashed,
    Failed,
    Finished,
    Left,
    LoopStarted,
    NoticeHeard,
    NoticeRevoked,
    Recorded,
    Restored,
    SaveCommitted,
    SaveFailed,
    SaveStarted,
    SaveTakenBack,
    SaveVerified,
    Stopped,
)
from outlast.metering import Span, label

_LONGEST_TEXT = 500
_MOST_UNENDED = 8
Attributes = dict[str, str | int | float]
# After these nothing follows. An error may be caught, and code may follow a finish, so that the others wait for the end
# of the process.
_LAST = (Stopped, Crashed)
_ENDS = (*_LAST, Failed, Finished, Left)


def attempt_key(place: str, attempt: int) -> str:
    """What an attempt's span is known by."""
    return f"{place}#{attempt}"


@dataclass(slots=True)
class Spans:
    """The spans of one attempt at `place`. Not for several threads at once."""

    place: str
    attempt: int
    attributes: Attributes = field(default_factory=dict)
    _began: float | None = None
    _saves: dict[int, float] = field(default_factory=dict)
    _notice: Recorded | None = None
    _last: Recorded | None = None
    _whole_is_told: bool = False
    _count: int = 0

    @property
    def key(self) -> str:
        return attempt_key(self.place, self.attempt)

    def hear(self, recorded: Recorded) -> Iterator[Span]:
        """The spans that an event ends."""
        event, now = recorded.event, recorded.wall_seconds
        if isinstance(event, _ENDS):
            self._last = recorded
        if isinstance(event, AttemptStarted):
            self._began = now - max(0.0, event.lived_seconds)
        elif isinstance(event, LoopStarted):
            yield self._span("outlast.start", self._began or now, now, {"outlast.step": event.step})
        elif isinstance(event, Restored):
            details: Attributes = {"outlast.step": event.step, "outlast.bytes": event.bytes}
            yield self._span("outlast.restore", now - max(0.0, event.seconds), now, details)
        elif isinstance(event, NoticeHeard):
            self._notice = self._notice or recorded
        elif isinstance(event, NoticeRevoked):
            self._notice = None
        elif isinstance(event, SaveStarted):
            self._saves = {event.step: now, **dict(list(self._saves.items())[: _MOST_UNENDED - 1])}
        else:
            yield from self._of_a_save(event, now)
        if isinstance(event, Stopped) and self._notice is not None:
            yield self._notice_span(self._notice, now)
        if isinstance(event, _LAST):
            yield from self.whole()

    def _of_a_save(self, event: object, now: float) -> Iterator[Span]:
        if isinstance(event, SaveCommitted):
            details: Attributes = {
                "outlast.step": event.step,
                "outlast.bytes": event.bytes,
                "outlast.bytes_written": event.written,
            }
            yield self._span("outlast.save", self._saves.pop(event.step, now - max(0.0, event.seconds)), now, details)
        elif isinstance(event, SaveFailed):
            began = self._saves.pop(event.step, now)
            yield self._span("outlast.save", began, now, {"outlast.step": event.step}, error=event.error)
        elif isinstance(event, SaveVerified):
            yield self._span("outlast.verify", now - max(0.0, event.seconds), now, {"outlast.step": event.step})
        elif isinstance(event, SaveTakenBack):
            yield self._span("outlast.verify", now, now, {"outlast.step": event.step}, error=event.reason)

    def whole(self) -> Iterator[Span]:
        """The attempt's own span, once; nothing before its end is known."""
        if self._whole_is_told or self._last is None:
            return
        self._whole_is_told = True
        event, ended = self._last.event, self._last.wall_seconds
        error = None
        if isinstance(event, Crashed | Failed):
            error = event.error
        details: Attributes = {**self.attributes, "outlast.ended_by": type(event).__name__.lower()}
        if isinstance(event, Stopped):
            details["outlast.reason"] = event.reason[:_LONGEST_TEXT]
        code = getattr(event, "exit_code", None)
        if code is not None:
            details["outlast.exit_code"] = code
        before = (attempt_key(self.place, self.attempt - 1),) * 2 if self.attempt > 0 else None
        began = ended if self._began is None else min(self._began, ended)
        yield Span(
            name="outlast.attempt",
            trace=self.key,
            key=self.key,
            began=began,
            ended=ended,
            link=before,
            attributes=details,
            error=error and error[:_LONGEST_TEXT],
        )

    def _notice_span(self, notice: Recorded, now: float) -> Span:
        heard = notice.event
        assert isinstance(heard, NoticeHeard)
        details: Attributes = {
            "outlast.source": label(heard.source),
            "outlast.reason": heard.reason[:_LONGEST_TEXT],
            "outlast.grace_seconds": heard.grace_seconds,
        }
        return self._span("outlast.notice", notice.wall_seconds, now, details)

    def _span(self, name: str, began: float, ended: float, attributes: Attributes, *, error: str | None = None) -> Span:
        self._count += 1
        return Span(
            name=name,
            trace=self.key,
            key=f"{self.key}/{self._count}",
            parent=self.key,
            began=min(began, ended),
            ended=ended,
            attributes=attributes,
            error=error and error[:_LONGEST_TEXT],
        )
