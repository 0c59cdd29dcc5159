"""A virtual machine of Azure, seen from its metadata service: the life of scheduled events.

Facts as of 2026-11-30, from "Azure Metadata Service: Scheduled Events for Linux VMs": an event is Scheduled, with
NotBefore, then Started, with NotBefore empty, then gone; it starts once it is acknowledged, or at NotBefore; the least
notice by type is below; a start is over some 10 min later; a failure of the hardware is a Reboot that is Started at
once; an event may be taken back before it starts, and is then gone. The first call enables the service, and can take
2 min: give `first_answer_seconds` to see that.
"""

import math
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

from outlast.clock import Clock
from outlast.emulate.metadata import azure_protocol
from outlast.emulate.metadata.exchange import Answer, Hang, Question
from outlast.emulate.metadata.server import NUMBER, Settings, Verb, application, serving
from outlast.emulate.metadata.timeline import REAL_TIME, SYSTEM_CLOCK, Planned, Timeline
from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import LOOPBACK, Serving

# The least notice, and for how long a machine is away, where the page says so; -1 is "unknown" there.
_LEAST_NOTICE_SECONDS = {"Freeze": 900.0, "Reboot": 900.0, "Redeploy": 600.0, "Preempt": 30.0, "Terminate": 300.0}
_AWAY_SECONDS = {"Freeze": 5}
_DESCRIPTIONS = {
    "Freeze": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "Reboot": "Host server is undergoing maintenance.",
    "Redeploy": "Host server is undergoing an emergency repair.",
}
_SOURCES = ("Platform", "User")
_STARTED_SECONDS = 600.0


class AzureEvents:
    """The metadata service of the machine `vm`. Seconds are the platform's, and pass as `scale` says."""

    def __init__(
        self,
        *,
        scale: TimeScale = REAL_TIME,
        vm: str = "worker_0",
        spot: bool = True,
        first_answer_seconds: float = 0.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.timeline = Timeline(scale=scale, clock=clock)
        self._vm, self._spot, self._first_answer_seconds = vm, spot, first_answer_seconds
        self._enabled_at: float | None = None
        self._incarnation = 1
        self._events: list[dict[str, Any]] = []
        self._next: dict[str, Planned] = {}
        self._instance = _new_machine(vm, spot)
        self.application = application(self.respond, self.timeline, self._verbs())

    def serve(self, *, port: int = 0, address: str = LOOPBACK) -> AbstractContextManager[Serving]:
        """Serves while used as a context manager."""
        return serving(self.application, self.timeline, port=port, address=address)

    @staticmethod
    def environment(url: str) -> dict[str, str]:
        """What leads outlast to this server at `url`; Azure's clients have no such setting."""
        return {"OUTLAST_METADATA_HOST": urlsplit(url).netloc}

    def respond(self, question: Question) -> Answer | Hang:
        """The answer to one question."""
        answer = azure_protocol.respond(question, self._instance, self.document, self._acknowledge)
        asks_for_events = question.path == azure_protocol.EVENTS_PATH and question.method == "GET"
        if not asks_for_events or answer.status != 200:
            return answer
        if self._enabled_at is None:
            self._enabled_at = self.timeline.now() + self.timeline.scale.here(self._first_answer_seconds)
        left = self._enabled_at - self.timeline.now()
        return Hang(question, left) if left > 0 and question.may_hang else answer

    @property
    def document(self) -> dict[str, Any]:
        """What a client reads now."""
        with self.timeline.lock:
            events = [{**event, "Resources": list(event["Resources"])} for event in self._events]
            return {"DocumentIncarnation": self._incarnation, "Events": events}

    def preempt(self) -> str:
        """Azure wants the Spot machine back; the event's id. It is deleted 30 s later, and nothing takes that back."""
        if not self._spot:
            raise ValueError("only a Spot machine is preempted")
        return self.schedule("Preempt")

    def maintain(self, in_seconds: float | None = None) -> str:
        """The machine will be restarted, for the host's maintenance; the event's id."""
        return self.schedule("Reboot", in_seconds=in_seconds)

    def schedule(
        self,
        event_type: str,
        *,
        in_seconds: float | None = None,
        resources: Sequence[str] | None = None,
        source: str = "Platform",
        lasting_seconds: float = _STARTED_SECONDS,
    ) -> str:
        """Schedules an event of a type that Azure knows; its id.

        It starts `in_seconds`, the least notice of its type unless told, on the machines named in `resources` (this
        one), and is over `lasting_seconds` later. Raises ValueError for less than the least notice.
        """
        least = _LEAST_NOTICE_SECONDS.get(event_type)
        if least is None:
            raise ValueError(f"event_type={event_type!r}: Azure has {', '.join(_LEAST_NOTICE_SECONDS)}")
        in_seconds = least if in_seconds is None else in_seconds
        if not least <= in_seconds < math.inf:
            raise ValueError(f"{event_type} has a notice of {least:g} s at least, not {in_seconds:g} s")
        event = self._new_event(event_type, resources, source)
        event["NotBefore"] = format_datetime(self.timeline.moment_in(in_seconds), usegmt=True)
        with self.timeline.lock:
            self._planned_for(event, in_seconds, lasting_seconds)
            self._events.append(event)
            self._has_changed()
        return str(event["EventId"])

    def fail(self, *, lasting_seconds: float = _STARTED_SECONDS) -> str:
        """The hardware fails: a Reboot that is Started at once; the event's id."""
        event = self._new_event("Reboot", None, "Platform")
        event |= {"EventStatus": "Started", "Description": "Host server is undergoing an emergency repair."}
        with self.timeline.lock:
            self._next[event["EventId"]] = self.timeline.after(lasting_seconds, lambda: self._end(event))
            self._events.append(event)
            self._has_changed()
        return str(event["EventId"])

    def revoke(self, event_id: str | None = None) -> None:
        """An event (all that can be, unless told which) does not come.

        Raises ValueError where there is none that has not started; a Preempt is never taken back.
        """
        with self.timeline.lock:
            self.timeline.catch_up()
            revocable = [
                event
                for event in self._events
                if event_id in (None, event["EventId"])
                and event["EventStatus"] == "Scheduled"
                and event["EventType"] != "Preempt"
            ]
            if not revocable:
                raise ValueError("no event can be taken back: one that has started, or a Preempt, stands")
            for event in revocable:
                self._end(event)

    def restart(self) -> None:
        """Another machine of the kind in its place: nothing is scheduled."""
        with self.timeline.lock:
            for event in list(self._events):
                self._end(event)

    def _new_event(self, event_type: str, resources: Sequence[str] | None, source: str) -> dict[str, Any]:
        if source not in _SOURCES:
            raise ValueError(f"source={source!r}: an event is of {' or '.join(_SOURCES)}")
        named = [self._vm] if resources is None else list(resources)
        if not all(isinstance(name, str) for name in named):
            raise ValueError("resources are names of machines")
        return {
            "EventId": str(uuid.uuid4()).upper(),
            "EventStatus": "Scheduled",
            "EventType": event_type,
            "ResourceType": "VirtualMachine",
            "Resources": named,
            "NotBefore": "",
            "Description": _DESCRIPTIONS.get(event_type, ""),
            "EventSource": source,
            "DurationInSeconds": _AWAY_SECONDS.get(event_type, -1),
        }

    def _planned_for(self, event: dict[str, Any], in_seconds: float, lasting_seconds: float) -> None:
        def start() -> None:
            event.update(EventStatus="Started", NotBefore="")
            self._next[event["EventId"]] = self.timeline.after(lasting_seconds, lambda: self._end(event))
            self._has_changed()

        self._next[event["EventId"]] = self.timeline.after(in_seconds, start)

    def _acknowledge(self, ids: list[str]) -> bool:
        with self.timeline.lock:
            known = {event["EventId"]: event for event in self._events}
            if not set(ids) <= set(known):
                return False
            for event_id in ids:
                if known[event_id]["EventStatus"] == "Scheduled":
                    planned = self._next[event_id]
                    planned.call_off()
                    planned.action()
        return True

    def _end(self, event: dict[str, Any]) -> None:
        self._next.pop(event["EventId"]).call_off()
        self._events = [one for one in self._events if one is not event]
        self._has_changed()

    def _has_changed(self) -> None:
        self._incarnation += 1
        self.timeline.changed()

    def _verbs(self) -> dict[str, Verb]:
        lasting: Settings = {"lasting_seconds": NUMBER}
        named: Settings = {"event_type": str, "in_seconds": NUMBER, "resources": list, "source": str}
        return {
            "preemption": Verb(self.preempt, {}),
            "maintenance": Verb(self.maintain, {"in_seconds": NUMBER}),
            "event": Verb(self.schedule, {**named, **lasting}),
            "failure": Verb(self.fail, lasting),
            "revocation": Verb(self.revoke, {"event_id": str}),
            "restart": Verb(self.restart, {}),
        }


def _new_machine(vm: str, spot: bool) -> dict[str, Any]:
    compute = {
        "location": "westeurope",
        "name": vm,
        "priority": "Spot" if spot else "Regular",
        "evictionPolicy": "Delete" if spot else "",
        "vmId": str(uuid.uuid4()),
        "vmSize": "Standard_NC24ads_A100_v4",
    }
    return {"compute": compute}
