"""Merges what all sources say into one notice: the earliest deadline counts, and what is final stays."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from outlast.clock import Clock
from outlast.disruptions import Disruption
from outlast.events import Advised, Event, NoticeHeard, NoticeRevoked
from outlast.notices.notice import Notice, make_notice

# Two readings of the wall clock, a moment apart, make one moment of it two on the monotonic clock.
_SAME_SECONDS = 1.0
# A signal that stops nothing and is sent without end fills no journal.
_SAY_AGAIN_SECONDS = 10.0


class Merge:
    """What stands, by source and key. Not safe for several threads: the board's lock is around it.

    `grace_after` gives the seconds that a source leaves when it does not say.
    """

    def __init__(self, grace_after: Callable[[str], float], clock: Clock) -> None:
        self.notice: Notice | None = None
        self._grace_after, self._clock = grace_after, clock
        self._standing: dict[tuple[str, str], Notice] = {}
        self._advised: dict[str, set[tuple[str, str]]] = {}
        self._said_at: dict[Advised, float] = {}  # what came by itself

    def take(self, source: str, seen: Sequence[Disruption], *, whole: bool) -> list[Notice | Event]:
        """What `source` sees, and nothing else if `whole`. Returns what is to be told, in order.

        The merged notice is told when it is new or has changed; a disruption that it does not show, as NoticeHeard.
        """
        before = self.notice
        events: list[Event] = []
        if whole:
            stopping = {one.key for one in seen if one.kind != "advisory"}
            events += self._revoke(source, stopping)
        late = [new for one in seen if one.kind != "advisory" and (new := self._stand(source, one)) is not None]
        events += self._advise(source, [one for one in seen if one.kind == "advisory"], whole=whole)
        self.notice = self._merged()
        changed = self.notice if self.notice != before else None
        others = [new for new in late if changed is None or (new.source, new.until) != (changed.source, changed.until)]
        events += [NoticeHeard(new.source, new.reason, new.grace_seconds, kind=new.kind) for new in others]
        return [*events, changed] if changed is not None else list(events)

    def hold(self) -> Notice | None:
        """Makes the merged notice final: the job acts on it, and nothing takes that back."""
        if self.notice is not None:
            self.notice = replace(self.notice, kind="final")
            self._standing["", "held"] = self.notice
        return self.notice

    def _stand(self, source: str, one: Disruption) -> Notice | None:
        """Puts a disruption among what stands; None where that changes nothing."""
        kind: Literal["final", "advance"] = "final" if one.kind == "final" else "advance"
        now = self._clock.monotonic_seconds()
        grace = self._grace_after(source) if one.deadline is None else one.deadline.at_monotonic_seconds - now
        new = make_notice(source, one.reason, grace, self._clock, kind=kind)
        old = self._standing.get((source, one.key))
        if old is not None and old.kind == new.kind:
            later = new.until.at_monotonic_seconds - old.until.at_monotonic_seconds
            if one.deadline is None or abs(later) < _SAME_SECONDS or (later > 0 and old.kind == "final"):
                return None
        if old is not None and old.kind == "final" and new.kind == "advance":
            return None
        self._standing[source, one.key] = new
        return new

    def _revoke(self, source: str, seen: set[str]) -> list[NoticeRevoked]:
        gone = [
            (place, notice)
            for place, notice in self._standing.items()
            if place[0] == source and place[1] not in seen and notice.kind == "advance"
        ]
        for place, _ in gone:
            del self._standing[place]
        return [NoticeRevoked(notice.source, notice.reason) for _, notice in gone]

    def _advise(self, source: str, seen: Sequence[Disruption], *, whole: bool) -> list[Advised]:
        """Each once for as long as it is seen; what comes by itself, as a signal does, each time, but not in floods."""
        if not whole:
            return [said for one in seen if self._is_to_say_again(said := Advised(source, one.reason))]
        known = self._advised.get(source, set())
        self._advised[source] = {(one.key, one.reason) for one in seen}
        return [Advised(source, one.reason) for one in seen if (one.key, one.reason) not in known]

    def _is_to_say_again(self, said: Advised) -> bool:
        now = self._clock.monotonic_seconds()
        if now - self._said_at.get(said, -_SAY_AGAIN_SECONDS) < _SAY_AGAIN_SECONDS:
            return False
        self._said_at[said] = now
        return True

    def _merged(self) -> Notice | None:
        if not self._standing:
            return None
        # The first of equals: a notice that stands is not replaced by one that says the same.
        first = min(self._standing.values(), key=lambda notice: notice.until.at_monotonic_seconds)
        final = any(notice.kind == "final" for notice in self._standing.values())
        return replace(first, kind="final") if final else first
