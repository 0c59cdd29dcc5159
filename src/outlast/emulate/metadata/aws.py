"""An EC2 instance, seen from its metadata service: the end of a Spot instance, and scheduled maintenance.

Facts as of 2026-11-30, from the EC2 guide. "Spot Instance interruption notices": `spot/instance-action` and, for an
instance that is terminated, `spot/termination-time` come 2 min before; hibernation begins at once. "EC2 instance
rebalance recommendations": `events/recommendations/rebalance` may come earlier, or not before the interruption.
"Scheduled events for Amazon EC2 instances": `events/maintenance/scheduled` lists active events, and
`events/maintenance/history` those that are completed or canceled.
"""

import secrets
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from outlast.clock import Clock
from outlast.emulate import rfc3339
from outlast.emulate.metadata.exchange import Answer, Question
from outlast.emulate.metadata.imds_protocol import Imds
from outlast.emulate.metadata.server import NUMBER, Ending, Verb, application, serving
from outlast.emulate.metadata.timeline import REAL_TIME, SYSTEM_CLOCK, Planned, Timeline
from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import LOOPBACK, Serving

_NOTICE_SECONDS = 120.0
_ACTIONS = ("terminate", "stop", "hibernate")
# "Scheduled events for Amazon EC2 instances", types of events (2026-11-30).
_EVENT_CODES = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
_LASTING_SECONDS = 7200.0


class AwsImds:
    """The metadata service of one instance. Seconds are the platform's, and pass as `scale` says."""

    def __init__(
        self,
        *,
        scale: TimeScale = REAL_TIME,
        instance_type: str = "g5.xlarge",
        spot: bool = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.timeline = Timeline(scale=scale, clock=clock)
        self._spot = spot
        self._protocol = Imds(lambda: self.timeline.now() * scale.factor)
        self._events: list[dict[str, str]] = []
        self._history: list[dict[str, str]] = []
        self._planned: list[Planned] = []
        self._entries = _new_instance(instance_type, spot)
        self.application = application(self.respond, self.timeline, self._verbs())

    def serve(self, *, port: int = 0, address: str = LOOPBACK) -> AbstractContextManager[Serving]:
        """Serves while used as a context manager."""
        return serving(self.application, self.timeline, port=port, address=address)

    @staticmethod
    def environment(url: str) -> dict[str, str]:
        """What leads outlast and Amazon's clients to this server at `url`."""
        return {"OUTLAST_METADATA_HOST": urlsplit(url).netloc, "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{url}/"}

    def respond(self, question: Question) -> Answer:
        """The answer to one question."""
        return self._protocol.respond(question, self._entries)

    def set(self, path: str, value: Any) -> None:
        """Gives what is below meta-data/ a value, a text or something for JSON, or takes it away with None."""
        with self.timeline.lock:
            rest = {name: old for name, old in self._entries.items() if name != path}
            self._entries = rest if value is None else {**rest, path: value}

    def preempt(self, action: str = "terminate") -> Ending:
        """EC2 wants the Spot instance back, which nothing takes back: it is told, and gets 2 min."""
        if not self._spot:
            raise ValueError("only a Spot instance is interrupted")
        if action not in _ACTIONS:
            raise ValueError(f"action={action!r}: a Spot instance can {', '.join(_ACTIONS)}")
        # "With hibernation, the process begins immediately."
        seconds = 0.0 if action == "hibernate" else _NOTICE_SECONDS
        at = rfc3339.in_seconds(self.timeline.moment_in(seconds))
        self.set("spot/instance-action", {"action": action, "time": at})
        if action == "terminate":
            self.set("spot/termination-time", at)
        here = self.timeline.scale.here(seconds)
        return Ending(here, here)

    def recommend_rebalance(self) -> None:
        """The instance is at an elevated risk of interruption."""
        if not self._spot:
            raise ValueError("only a Spot instance is told to rebalance")
        self.set("events/recommendations/rebalance", {"noticeTime": rfc3339.in_seconds(self.timeline.moment_in(0))})

    def maintain(
        self, in_seconds: float = 3600.0, *, code: str = "system-reboot", lasting_seconds: float = _LASTING_SECONDS
    ) -> Ending:
        """Schedules maintenance of a kind that EC2 knows, which begins `in_seconds`, and is in the history after it."""
        if code not in _EVENT_CODES:
            raise ValueError(f"code={code!r}: EC2 has {', '.join(_EVENT_CODES)}")
        event = {
            "NotBefore": _written(self.timeline.moment_in(in_seconds)),
            "Code": code,
            "Description": f"scheduled {code.partition('-')[2]}",
            "EventId": f"instance-event-{secrets.token_hex(9)[:17]}",
            "NotAfter": _written(self.timeline.moment_in(in_seconds + lasting_seconds)),
            "State": "active",
        }
        with self.timeline.lock:
            ends = self.timeline.after(in_seconds + lasting_seconds, lambda: self._end(event, "completed"))
            self._planned.append(ends)
            self._events.append(event)
            self._show_events()
        here = self.timeline.scale.here(in_seconds)
        return Ending(here, here)

    def revoke(self) -> None:
        """Scheduled maintenance is canceled. Raises ValueError where none is: an interruption is not taken back."""
        with self.timeline.lock:
            self.timeline.catch_up()
            if not self._events:
                raise ValueError("no maintenance is scheduled, and the interruption of a Spot instance stands")
            for event in list(self._events):
                self._end(event, "canceled")

    def restart(self) -> None:
        """Another instance of the kind in its place: nothing is announced, and tokens of the old one are unknown."""
        with self.timeline.lock:
            for planned in self._planned:
                planned.call_off()
            self._planned, self._events, self._history = [], [], []
            for path in ("spot/instance-action", "spot/termination-time", "events/recommendations/rebalance"):
                self.set(path, None)
            self._show_events()
            self._protocol.forget_tokens()

    def _end(self, event: dict[str, str], state: str) -> None:
        if event in self._events:
            self._events.remove(event)
            past = {**event, "State": state, "Description": f"[{state.capitalize()}] {event['Description']}"}
            self._history.append(past)
            self._show_events()

    def _show_events(self) -> None:
        self.set("events/maintenance/scheduled", list(self._events))
        self.set("events/maintenance/history", list(self._history))

    def _verbs(self) -> dict[str, Verb]:
        times = {"in_seconds": NUMBER, "lasting_seconds": NUMBER}
        return {
            "preemption": Verb(self.preempt, {"action": str}),
            "rebalance": Verb(self.recommend_rebalance, {}),
            "maintenance": Verb(self.maintain, {**times, "code": str}),
            "revocation": Verb(self.revoke, {}),
            "restart": Verb(self.restart, {}),
        }


def _new_instance(instance_type: str, spot: bool) -> dict[str, Any]:
    region = "us-east-1"
    return {
        "events/maintenance/history": [],
        "events/maintenance/scheduled": [],
        "hostname": f"ip-10-0-0-7.{region}.compute.internal",
        "instance-id": f"i-{secrets.token_hex(9)[:17]}",
        "instance-life-cycle": "spot" if spot else "on-demand",
        "instance-type": instance_type,
        "local-ipv4": "10.0.0.7",
        "placement/availability-zone": f"{region}a",
        "placement/region": region,
    }


def _written(moment: datetime) -> str:
    """As in the guide's example: 21 Jan 2019 09:00:43 GMT."""
    return f"{moment.day} {moment:%b %Y %H:%M:%S} GMT"
