"""One notice of many: the earliest deadline counts, what is final stays, what is revoked is as if it had not been."""

from collections.abc import Sequence

import pytest

from outlast.clock import Deadline
from outlast.disruptions import Disruption, DisruptionKind
from outlast.events import Advised, NoticeHeard, NoticeRevoked
from outlast.notices.merge import Merge
from outlast.notices.notice import Notice
from outlast.testing import FakeClock

GRACE_SECONDS = 30.0


class Heard:
    """A merge, and what it wants told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.merge = Merge(lambda source: 120.0 if source == "slow" else GRACE_SECONDS, self.clock)

    def one(self, key: str, kind: DisruptionKind = "advance", seconds: float | None = None) -> Disruption:
        until = None if seconds is None else Deadline(self.clock.monotonic_seconds() + seconds)
        return Disruption(key, f"because of {key}", kind, until)

    def sees(self, source: str, *seen: Disruption) -> Sequence[object]:
        return self.merge.take(source, seen, whole=True)

    def signal(self, name: str = "SIGTERM", kind: DisruptionKind = "final") -> Sequence[object]:
        return self.merge.take(name, [Disruption(name, "asked", kind)], whole=False)

    @property
    def left(self) -> float | None:
        return self.merge.notice.remaining_seconds if self.merge.notice is not None else None

    @property
    def now(self) -> tuple[str, str, float]:
        assert self.merge.notice is not None
        return self.merge.notice.source, self.merge.notice.kind, self.merge.notice.remaining_seconds


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_deadline_that_nobody_knows_is_the_platforms_grace(heard: Heard) -> None:
    (told,) = heard.signal()
    assert isinstance(told, Notice)
    assert heard.now == ("SIGTERM", "final", GRACE_SECONDS)
    assert (told.grace_seconds, told.deadline.timestamp()) == (30, heard.clock.wall_seconds() + 30)


def test_a_source_may_leave_another_grace_than_the_rest(heard: Heard) -> None:
    heard.sees("slow", heard.one("a"))
    assert heard.now == ("slow", "advance", 120)
    heard.signal()
    assert heard.left == GRACE_SECONDS


def test_the_earliest_deadline_counts_whoever_came_first(heard: Heard) -> None:
    heard.sees("node", heard.one("a", seconds=3600))
    assert heard.now == ("node", "advance", 3600)
    heard.sees("metadata", heard.one("b", seconds=60))
    assert heard.now == ("metadata", "advance", 60)
    heard.sees("events", heard.one("c", seconds=600))
    assert heard.now == ("metadata", "advance", 60)


def test_a_final_word_shortens_a_long_notice_and_nothing_extends_it(heard: Heard) -> None:
    heard.sees("node", heard.one("a", seconds=3600))
    heard.signal()
    assert heard.now == ("SIGTERM", "final", 30)
    heard.clock.advance(10)
    heard.signal()
    heard.sees("metadata", heard.one("b", seconds=3600))
    heard.sees("node")
    assert heard.now == ("SIGTERM", "final", 20)


def test_a_final_word_with_more_time_than_an_announcement_keeps_the_shorter_deadline(heard: Heard) -> None:
    heard.sees("metadata", heard.one("a", seconds=20))
    told = heard.signal()
    assert heard.now == ("metadata", "final", 20)
    assert [type(one) for one in told] == [NoticeHeard, Notice], "nobody would know of the signal"


def test_a_source_that_takes_its_announcement_back_leaves_nothing(heard: Heard) -> None:
    heard.sees("metadata", heard.one("a", seconds=60))
    assert heard.sees("metadata") == [NoticeRevoked("metadata", "because of a")]
    assert heard.merge.notice is None
    heard.sees("metadata", heard.one("a", seconds=60))
    assert heard.left == 60


def test_what_else_stands_stays_when_one_is_revoked(heard: Heard) -> None:
    heard.sees("node", heard.one("a", seconds=3600))
    heard.sees("metadata", heard.one("b", seconds=60))
    revoked, now = heard.sees("metadata")
    assert isinstance(revoked, NoticeRevoked)
    assert now == heard.merge.notice
    assert heard.now == ("node", "advance", 3600)


def test_a_source_speaks_for_itself_only(heard: Heard) -> None:
    heard.sees("node", heard.one("a", seconds=3600))
    assert heard.sees("metadata") == []
    assert heard.left == 3600


def test_what_was_final_is_not_taken_back(heard: Heard) -> None:
    heard.sees("metadata", heard.one("a", "final", 30))
    assert heard.sees("metadata") == []
    assert heard.sees("metadata", heard.one("a", "advance", 3600)) == []
    assert heard.sees("metadata", heard.one("a", "final", 60)) == []
    assert heard.now == ("metadata", "final", 30)
    heard.sees("metadata", heard.one("a", "final", 10))
    assert heard.left == 10


def test_an_announcement_that_its_source_postpones_is_postponed(heard: Heard) -> None:
    heard.sees("events", heard.one("a", seconds=600))
    (told,) = heard.sees("events", heard.one("a", seconds=900))
    assert isinstance(told, Notice)
    assert heard.left == 900
    heard.sees("events", heard.one("a", "final"))
    assert heard.now == ("events", "final", GRACE_SECONDS)


def test_what_is_said_again_and_again_is_told_once(heard: Heard) -> None:
    assert len(heard.sees("metadata", heard.one("a", seconds=600), heard.one("b", "advisory"))) == 2
    for _ in range(5):
        heard.clock.advance(2)
        assert heard.sees("metadata", heard.one("a", seconds=heard.left), heard.one("b", "advisory")) == []
    heard.sees("metadata")
    assert [type(one) for one in heard.sees("metadata", heard.one("b", "advisory"))] == [Advised]


def test_an_unknown_deadline_said_again_does_not_begin_anew(heard: Heard) -> None:
    heard.sees("node", heard.one("a"))
    heard.clock.advance(20)
    assert heard.sees("node", heard.one("a")) == []
    assert heard.left == 10


def test_advice_is_told_and_stops_nothing(heard: Heard) -> None:
    assert heard.sees("metadata", heard.one("a", "advisory")) == [Advised("metadata", "because of a")]
    assert heard.merge.notice is None
    for _ in range(2):
        assert heard.signal("SIGTSTP", "advisory") == [Advised("SIGTSTP", "asked")]
        assert [heard.signal("SIGTSTP", "advisory") for _ in range(1000)] == [[]] * 1000, "a flood fills the journal"
        assert heard.signal("SIGCONT", "advisory") == [Advised("SIGCONT", "asked")]
        heard.clock.advance(10)


def test_a_plan_becomes_a_notice_and_may_become_a_plan_again(heard: Heard) -> None:
    heard.sees("events", heard.one("a", "advisory"))
    heard.sees("events", heard.one("a", seconds=600))
    assert heard.left == 600
    told = heard.sees("events", heard.one("a", "advisory"))
    assert [type(one) for one in told] == [NoticeRevoked, Advised]
    assert heard.merge.notice is None


def test_a_notice_that_is_acted_on_stands(heard: Heard) -> None:
    assert heard.merge.hold() is None
    heard.sees("metadata", heard.one("a", seconds=60))
    held = heard.merge.hold()
    assert held is not None
    heard.sees("metadata")
    assert heard.now == ("metadata", "final", 60)


@pytest.mark.parametrize("seconds", [-5.0, 1e30, float("inf")])
def test_no_deadline_breaks_the_calendar(seconds: float, heard: Heard) -> None:
    heard.sees("metadata", heard.one("a", seconds=seconds))
    assert heard.left is not None
    assert 0 <= heard.left <= 366 * 24 * 3600
