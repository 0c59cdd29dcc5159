"""Azure's Scheduled Events: what will happen to this virtual machine, and not before when.

Facts as of 2026-11-29, from "Azure Metadata Service: Scheduled Events for Linux VMs": `Metadata: true`, api-version
2020-07-01; the document and its incarnation; the first call enables the service and can take 2 min; NotBefore is empty
once an event has started; events come for all machines of a set, so that Resources must name this one. Preempt leaves
30 s at least and is not taken back. Freeze is a pause of seconds. The machine's own name is in its instance metadata.
"""

from typing import Any

from outlast.disruptions import Disruption, Look, NoticeSource, SourceUnavailable
from outlast.settings import Surroundings
from outlast.sources.metadata_server import LINK_LOCAL, Answer, MetadataServer, ask_for
from outlast.sources.moments import Moments, parse_moment

_HEADERS = {"Metadata": "true"}
_EVENTS_PATH = "/metadata/scheduledevents?api-version=2020-07-01"
_NAME_PATH = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
_FIRST_ANSWER_SECONDS, _ANSWER_SECONDS = 130.0, 10.0
_POLL_SECONDS = 2.0  # of 30 s of notice
_LONGEST_NAME = 128
# A whole scale set of 1,000 machines may be reclaimed at once, and each of them hears of all.
_MOST_EVENTS, _MOST_BYTES = 5000, 2 * 1024 * 1024
_ENDING = {"Reboot", "Redeploy", "Preempt", "Terminate"}
_KNOWN = _ENDING | {"Freeze"}
_STATUSES = {"Scheduled", "Started"}


class ScheduledEvents:
    """The events of this machine, by polling."""

    name = "azure-scheduled-events"

    def __init__(self, server: MetadataServer, moments: Moments) -> None:
        self._server, self._moments = server, moments
        self._own_name: str | None = None
        self._answered = False
        self._events: list[dict[str, Any]] = []

    def look(self) -> Look:
        own_name, self._own_name = self._own_name, None  # after a failure it may have been a stranger who said it
        own_name = own_name or self._ask_for_name()
        seconds = _ANSWER_SECONDS if self._answered else _FIRST_ANSWER_SECONDS
        answer = ask_for(self._server, _EVENTS_PATH, _HEADERS, seconds=seconds, most_bytes=_MOST_BYTES)
        self._read(answer, own_name.casefold())
        self._own_name, self._answered = own_name, True
        return Look(tuple(self._judged(event) for event in self._events), _POLL_SECONDS)

    def _ask_for_name(self) -> str:
        answer = ask_for(self._server, _NAME_PATH, _HEADERS, seconds=_ANSWER_SECONDS)
        name = answer.text.strip()
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or not set(name).isdisjoint("<>{} \t"):
            raise SourceUnavailable("the name of this machine is not known, so that no event can be believed")
        return name

    def _read(self, answer: Answer, own_name: str) -> None:
        """Takes over a document; one that is not as it should be is not believed in any part."""
        said = answer.json()
        if not isinstance(said, dict) or not _is_count(said.get("DocumentIncarnation")):
            raise SourceUnavailable("the document of scheduled events has no incarnation")
        events = said.get("Events")
        if not isinstance(events, list) or len(events) > _MOST_EVENTS or not all(_is_event(event) for event in events):
            raise SourceUnavailable("the document of scheduled events holds what is no event")
        # A type or status that came after these lines were written says nothing that is understood here.
        events = [event for event in events if event["EventType"] in _KNOWN and event["EventStatus"] in _STATUSES]
        self._moments.hear_date(answer.headers.get("date"))
        self._events = [event for event in events if own_name in (name.casefold() for name in event["Resources"])]

    def _judged(self, event: dict[str, Any]) -> Disruption:
        kind, started = event["EventType"], event["EventStatus"] == "Started"
        reason = f"scheduled event {kind}" + (" (started)" if started else "")
        if kind not in _ENDING:
            return Disruption(event["EventId"], reason, "advisory")
        final = started or kind == "Preempt"
        announced = Disruption(event["EventId"], reason, "final" if final else "advance")
        at = parse_moment(event["NotBefore"])
        return announced if started or at is None else self._moments.judge(announced, at)


def _is_event(event: object) -> bool:
    """Whether it has all that is needed to judge it; NotBefore is a moment, or empty."""
    if not isinstance(event, dict) or not isinstance(event.get("Resources"), list):
        return False
    texts = [event.get(name) for name in ("EventId", "EventType", "EventStatus", "NotBefore")]
    if not all(isinstance(text, str) and len(text) <= _LONGEST_NAME for text in (*texts, *event["Resources"])):
        return False
    return not event["NotBefore"].strip() or parse_moment(event["NotBefore"]) is not None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def azure_events_sources(surroundings: Surroundings) -> list[NoticeSource]:
    """The one of this machine."""
    server = MetadataServer(surroundings.env.get("OUTLAST_METADATA_HOST") or LINK_LOCAL)
    return [ScheduledEvents(server, Moments(surroundings.clock))]
