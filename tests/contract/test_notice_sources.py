"""The metadata sources against servers that speak their protocols, and against what a stranger's server can do."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from notice_desk import Board
from notice_servers import FAULTS, MANNERS, Controls, Server, azure_event
from outlast.clock import SystemClock
from outlast.disruptions import NoticeSource
from outlast.events import Advised, NoticeRevoked, SourceTrouble
from outlast.notices.notice import Notice
from outlast.notices.watching import Watching
from outlast.registry import PLATFORMS, SOURCES, TIME_LIMIT, platform_named, sources_named
from outlast.settings import look_around
from outlast.sources import aws_imds, azure_events, gce_metadata
from outlast.testing import FakeClock

GRACE_SECONDS = 25.0
NOTICE_OF_120_S = {"preemptible": "TRUE", "preemptionNoticeDuration": "120s"}
CALM = {"instance/maintenance-event": "NONE", "instance/preempted": "FALSE"}


class Desk:
    """The sources of one name, looked through by hand."""

    def __init__(self, name: str, env: dict[str, str], clock: Any) -> None:
        around = replace(look_around({}), env=env, clock=clock, grace_seconds=GRACE_SECONDS)
        self.board = Board(clock, GRACE_SECONDS)
        self.sources: list[NoticeSource] = list(sources_named(name)(around))
        self.watching = [Watching(source, self.board, around) for source in self.sources]  # type: ignore[arg-type]  # a stand-in

    def look(self) -> list[float]:
        return [one.look_once() for one in self.watching]

    @property
    def notice(self) -> Notice | None:
        return self.board.notice

    def told(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.board.told if isinstance(one, kind)]


@contextmanager
def desk(name: str, controls: Controls, clock: Any = None) -> Iterator[Desk]:
    with Server(controls) as server:
        yield Desk(name, {"OUTLAST_METADATA_HOST": server.host}, clock or SystemClock())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real limits are tens of seconds."""
    monkeypatch.setattr(gce_metadata, "_HANG_SECONDS", 0.1)
    monkeypatch.setattr(gce_metadata, "_SLACK_SECONDS", 0.2)
    monkeypatch.setattr(aws_imds, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(azure_events, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(azure_events, "_FIRST_ANSWER_SECONDS", 0.3)


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


ANNOUNCEMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "gce-metadata": lambda: {"instance/preempted": "TRUE"},
    "aws-imds": lambda: {"spot/instance-action": {"action": "terminate", "time": in_seconds(120)}},
    "azure-scheduled-events": lambda: {"azure_events": [azure_event("Preempt")]},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ANNOUNCEMENTS)
def test_a_server_that_fails_in_any_way_gives_no_alarm_and_is_heard_when_it_is_back(
    name: str, fault: str, impatient: None
) -> None:
    controls = Controls(**CALM, fault=fault)
    with desk(name, controls) as here:
        began = time.monotonic()
        assert all(0.5 <= pause <= 60 for pause in here.look()), "it would be asked all the time"
        assert time.monotonic() - began < 3
        assert here.notice is None
        assert not here.told(Notice)
        assert not any(request.endswith("/elsewhere") for request in controls.requests)
        controls.set(fault=None, **ANNOUNCEMENTS[name]())
        here.look()
        assert here.notice is not None
        assert here.notice.kind == "final"
        assert 0 < here.notice.remaining_seconds <= 120


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("name", ANNOUNCEMENTS)
def test_an_answer_is_heard_in_every_form_that_http_allows(name: str, manner: str, impatient: None) -> None:
    with desk(name, Controls(**{**CALM, **ANNOUNCEMENTS[name]()}, manner=manner)) as here:
        here.look()
        assert here.notice is not None, here.board.told


@pytest.mark.parametrize("name", ANNOUNCEMENTS)
def test_what_was_announced_stands_while_the_server_fails(name: str, impatient: None) -> None:
    controls = Controls(**{**CALM, **ANNOUNCEMENTS[name]()})
    with desk(name, controls) as here:
        here.look()
        first = here.notice
        assert first is not None
        for fault in ("503", "404", "silent", "wrong types", "a page", None):
            controls.set(fault=fault)
            here.look()
            assert here.notice == first
    here.look()
    assert here.notice == first, "the server is gone altogether"


@pytest.mark.parametrize("name", ANNOUNCEMENTS)
def test_nobody_there_is_found_out_quickly_and_asked_ever_more_seldom(name: str) -> None:
    with Server(Controls()) as server:
        host = server.host
    here = Desk(name, {"OUTLAST_METADATA_HOST": host}, SystemClock())
    began = time.monotonic()
    pauses = [max(here.look()) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert time.monotonic() - began < 1
    assert here.board.told == []


def test_a_server_that_has_answered_is_asked_again_within_five_seconds(impatient: None) -> None:
    controls = Controls(**CALM)
    with desk("aws-imds", controls) as here:
        here.look()
        controls.set(fault="500")
        assert [here.look()[0] for _ in range(6)] == [1, 2, 4, 5, 5, 5]
        (trouble,) = here.told(SourceTrouble)
        assert trouble.source == "aws-imds"
        assert "HTTP 500" in trouble.error
        controls.set(fault=None)
        assert here.look() == [5]


def test_a_server_that_changes_its_mind_all_the_time_is_asked_ever_more_seldom(impatient: None) -> None:
    controls, event = Controls(), azure_event("Reboot")
    with desk("azure-scheduled-events", controls) as here:
        pauses = []
        for step in range(30):
            controls.set(azure_events=[event] if step % 2 else [])
            pauses += here.look()
        assert pauses[:20] == [2] * 20
        assert pauses[-1] == 60


def test_the_changes_of_a_long_job_are_forgotten(impatient: None) -> None:
    """Ten weeks with a pause for maintenance each day must not make the eleventh week's preemption late."""
    controls, clock = Controls(), FakeClock(wall_seconds=time.time())
    with desk("azure-scheduled-events", controls, clock) as here:
        for day in range(70):
            controls.set(azure_events=[azure_event("Freeze", EventId=str(day))])
            assert here.look() == [2]
            clock.advance(86400)


def test_a_flood_of_events_is_kept_small_and_hides_no_end(impatient: None) -> None:
    """As when a scale set of a thousand machines is reclaimed: each hears of all, in one document."""
    others = [azure_event("Preempt", EventId=f"other-{i}", Resources=[f"worker_{i}"]) for i in range(1, 1000)]
    freezes = [azure_event("Freeze", EventId=f"freeze-{i}") for i in range(1000)]
    with desk("azure-scheduled-events", Controls(azure_events=[*freezes, *others, azure_event("Reboot")])) as here:
        here.look()
        assert here.notice is not None
        assert len(here.told(Advised)) < 100
    began = time.monotonic()
    with desk("azure-scheduled-events", Controls(azure_events=others * 20 + [azure_event("Preempt")])) as here:
        assert here.look()[0] >= 1
        assert time.monotonic() - began < 5
        assert here.notice is None, "a document of 20,000 events was read"


def test_a_journal_or_a_terminal_that_is_out_of_order_ends_no_watching(impatient: None) -> None:
    controls = Controls(**CALM)
    with desk("aws-imds", controls) as here:
        here.look()
        controls.set(fault="500")

        def fail(_: object) -> None:
            raise OSError("the disk is full")

        here.board.say = fail  # type: ignore[method-assign]  # the fault
        here.look()
        controls.set(fault=None, **ANNOUNCEMENTS["aws-imds"]())
        here.look()
        assert here.notice is not None


def test_a_host_that_is_none_is_told_and_not_asked() -> None:
    for host in ("http://localhost", "a b/c", "x:port", "/", "[::1"):
        with pytest.raises(Exception, match="no host of a metadata server"):
            Desk("gce-metadata", {"GCE_METADATA_HOST": host}, SystemClock())


def test_every_source_of_every_platform_exists() -> None:
    named = {source for name in PLATFORMS for source in platform_named(name).facts.notice_sources}
    signals = {source for source in named if source.startswith("SIG")}
    assert named - signals == set(SOURCES) - {TIME_LIMIT}, "the time limit belongs to every platform"
    assert all(hasattr(signal, name) for name in signals)
    for name in SOURCES:
        assert callable(sources_named(name))


# --- Compute Engine ---------------------------------------------------------------------------------

WINDOWS = [("n2-standard-4", 60), ("a3-highgpu-8g", 3600), ("g2-standard-4", 3600), ("ct5lp-hightpu-4t", 300)]


@pytest.mark.parametrize(("machine", "seconds"), WINDOWS)
def test_maintenance_leaves_the_window_of_the_machine(
    machine: str, seconds: int, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gce_metadata, "_GPU_DEVICES", ())
    clock = FakeClock()
    controls = Controls(**CALM, **{"instance/machine-type": f"projects/1/machineTypes/{machine}"})
    with desk("gce-metadata", controls, clock) as here:
        here.look()
        assert here.notice is None
        controls.set(**{"instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
        here.look()
        notice = here.notice
        assert notice is not None
        assert (notice.kind, notice.remaining_seconds) == ("advance", seconds)
        assert notice.source == "gce-metadata maintenance-event"
        clock.advance(5)
        controls.set(**{"instance/maintenance-event": "NONE"})
        here.look()
        assert here.notice is None
        assert [type(one) for one in here.board.told] == [Notice, NoticeRevoked]


def test_maintenance_that_stood_when_we_came_may_be_nearly_over() -> None:
    clock = FakeClock()
    controls = Controls(**{**CALM, "instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
    with desk("gce-metadata", controls, clock) as here:
        here.look()
        assert here.notice is not None
        assert here.notice.remaining_seconds == GRACE_SECONDS


def test_a_window_that_began_while_the_server_was_away_is_counted_from_the_last_calm(impatient: None) -> None:
    clock = FakeClock()
    controls = Controls(**CALM)
    with desk("gce-metadata", controls, clock) as here:
        here.look()
        controls.set(fault="503")
        here.look()
        clock.advance(40)
        controls.set(fault=None, **{"instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
        here.look()
        assert here.notice is not None
        assert here.notice.remaining_seconds == 60 - 40


def test_a_migration_stops_nothing(impatient: None) -> None:
    controls = Controls(**{**CALM, "instance/maintenance-event": "MIGRATE_ON_HOST_MAINTENANCE"})
    with desk("gce-metadata", controls) as here:
        here.look()
        here.look()
        assert here.notice is None
        (advice,) = here.told(Advised)
        assert "migrated" in advice.reason


def test_a_strangers_server_is_not_believed() -> None:
    controls = Controls(stranger=True, **{"instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
    with desk("gce-metadata", controls) as here:
        here.look()
        assert here.notice is None


@pytest.mark.parametrize(("scheduling", "seconds"), [({"preemptible": "TRUE"}, 25), (NOTICE_OF_120_S, 120)])
def test_a_preemption_leaves_what_the_machine_was_made_with(
    scheduling: dict[str, str], seconds: int, impatient: None
) -> None:
    clock = FakeClock()
    controls = Controls(**CALM, **{f"instance/scheduling/{name}": value for name, value in scheduling.items()})
    with desk("gce-metadata", controls, clock) as here:
        here.look()
        controls.set(**{"instance/preempted": "TRUE"})
        here.look()
        assert here.notice is not None
        assert (here.notice.kind, here.notice.remaining_seconds) == ("final", seconds)
        controls.set(**{"instance/preempted": "FALSE"})
        here.look()
        assert here.notice is not None, "a preemption is not taken back"


@pytest.mark.parametrize("etag", ["a b&c=d", "x" * 2000, "\xe9", "", None])
def test_a_strange_etag_is_given_back_as_it_is(etag: str | None, impatient: None) -> None:
    controls = Controls(**CALM, etag=etag)
    with desk("gce-metadata", controls) as here:
        for _ in range(3):
            here.look()
        controls.set(**{"instance/preempted": "TRUE"})
        here.look()
        assert here.notice is not None
        assert here.told(SourceTrouble) == []


def test_a_change_is_heard_in_the_middle_of_a_hanging_question() -> None:
    controls = Controls(**CALM)
    with desk("gce-metadata", controls) as here:
        here.look()
        threading.Timer(
            0.2, lambda: controls.set(**{"instance/maintenance-event": "TERMINATE_ON_HOST_MAINTENANCE"})
        ).start()
        began = time.monotonic()
        here.watching[0].look_once()
        assert 0.1 < time.monotonic() - began < 2
        assert here.notice is not None


# --- Amazon -----------------------------------------------------------------------------------------


def test_a_token_that_has_run_out_is_renewed() -> None:
    controls = Controls()
    with desk("aws-imds", controls) as here:
        here.look()
        controls.set(token="AQAEAanother==", **ANNOUNCEMENTS["aws-imds"]())
        here.look()
        assert here.notice is not None
        assert 115 < here.notice.remaining_seconds <= 120
    assert controls.requests.count("PUT /latest/api/token") == 2


def test_a_rebalance_recommendation_is_recorded_once_and_stops_nothing() -> None:
    controls = Controls(**{"events/recommendations/rebalance": {"noticeTime": "2026-11-29T08:22:00Z"}})
    with desk("aws-imds", controls) as here:
        here.look()
        here.look()
        assert here.notice is None
        (advice,) = here.told(Advised)
        assert "2026-11-29T08:22:00" in advice.reason
        controls.set(**{**ANNOUNCEMENTS["aws-imds"](), "events/recommendations/rebalance": "?"})
        here.look()
        assert here.notice is not None, "bad advice must not hide an interruption"


# --- Azure ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (azure_event("Preempt"), "final"),
        (azure_event("Reboot"), "advance"),
        (azure_event("Redeploy", EventStatus="Started"), "final"),
        (azure_event("Terminate", Resources=["other", "WORKER_0"]), "advance"),
        (azure_event("Freeze"), None),
        (azure_event("Preempt", Resources=["worker_1"]), None),
        (azure_event("Preempt", Resources=[]), None),
        (azure_event("Hibernate"), None),
        (azure_event("Preempt", EventStatus="Completed"), None),
    ],
)
def test_an_event_of_this_machine_is_a_notice(event: dict[str, Any], kind: str | None) -> None:
    controls = Controls(azure_events=[azure_event("Freeze", EventId="other", Resources=["worker_7"]), event])
    with desk("azure-scheduled-events", controls) as here:
        here.look()
        assert (here.notice.kind if here.notice else None) == kind
        if kind == "advance":
            controls.set(azure_events=[])
            here.look()
            assert here.notice is None


def test_no_event_is_believed_before_the_machine_knows_its_name(impatient: None) -> None:
    controls = Controls(vm="<html>", azure_events=[azure_event("Preempt")])
    with desk("azure-scheduled-events", controls) as here:
        here.look()
        assert here.notice is None


def test_a_name_that_was_cut_off_hides_no_event(impatient: None) -> None:
    controls = Controls(azure_events=[azure_event("Preempt")], name_is_cut=True)
    with desk("azure-scheduled-events", controls) as here:
        here.look()
        controls.set(name_is_cut=False)
        here.look()
        assert here.notice is not None


def test_the_first_answer_may_take_long_and_later_ones_not(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_events, "_FIRST_ANSWER_SECONDS", 5)
    controls = Controls(azure_seconds=0.5)
    with desk("azure-scheduled-events", controls) as here:
        assert here.look() == [2], "the first question was given up"
        assert here.look() == [1], "the second one was waited for"


# --- moments ----------------------------------------------------------------------------------------

PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "aws-imds": lambda at: {"spot/instance-action": {"action": "stop", "time": at}},
    "azure-scheduled-events": lambda at: {"azure_events": [azure_event("Reboot", NotBefore=at)]},
}
MOMENTS: dict[str, tuple[Callable[[], str], float | None]] = {
    "soon": (lambda: in_seconds(200), 200),
    "just over": (lambda: in_seconds(-20), GRACE_SECONDS),
    "long over": (lambda: in_seconds(-7200), None),
    "tomorrow": (lambda: in_seconds(86400), None),
    "in the year 9999": (lambda: "9999-12-31T23:59:59Z", None),
    "in the year 1": (lambda: "0001-01-01T00:00:00Z", None),
    "in another notation": (lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=200), usegmt=True), 200),
    "no moment": (lambda: "soon", None),
    "no date": (lambda: "2026-13-45T99:00:00Z", None),
    "a flood": (lambda: "9" * 100, None),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", PLACES)
def test_a_moment_that_is_named_is_the_deadline_if_it_can_be_true(name: str, moment: str) -> None:
    at, left = MOMENTS[moment]
    with desk(name, Controls(**PLACES[name](at()))) as here:
        here.look()
        here.look()
        if left is None:
            assert here.notice is None
        else:
            assert here.notice is not None
            assert here.notice.remaining_seconds == pytest.approx(left, abs=15)
        assert len(here.told(Notice)) <= 1
        assert len(here.told(Advised)) <= 1


@pytest.mark.parametrize("hours", [-5, 3])
@pytest.mark.parametrize("name", PLACES)
def test_a_wall_clock_that_is_hours_wrong_changes_no_deadline(name: str, hours: int) -> None:
    clock = FakeClock(wall_seconds=time.time() + hours * 3600)
    with desk(name, Controls(**PLACES[name](in_seconds(120))), clock) as here:
        here.look()
        assert here.notice is not None, here.board.told
        assert here.notice.remaining_seconds == pytest.approx(120, abs=15)


def test_a_wall_clock_that_jumps_moves_no_deadline() -> None:
    clock = FakeClock(wall_seconds=time.time())
    with desk(
        "azure-scheduled-events", Controls(azure_events=[azure_event("Reboot", NotBefore=in_seconds(600))]), clock
    ) as here:
        here.look()
        first = here.notice
        assert first is not None
        clock.set_wall(clock.wall_seconds() + 500)
        here.look()
        assert here.notice == first
