"""A machine of Compute Engine, seen from its metadata server: maintenance of the host, and the end of a Spot machine.

Facts as of 2026-11-30. "Query metadata server for maintenance event notices": `maintenance-event` is NONE until 60 s
before. "Monitor and plan for a host maintenance event": an hour before on machines with GPUs; `upcoming-maintenance`
says so much earlier, and is empty otherwise. "Handle GKE node disruption": 5 min on machines with TPUs. "Spot VMs",
"Preemptible VMs": `preempted` becomes TRUE as the machine gets its shut-down signal, and it is off some 30 s later, as
best effort; with a preemption notice (beta, 0 or 120 s), that much before the signal. "View and query VM metadata": 503
while the server itself is maintained. Under which name the metadata show a preemption notice is not documented: here
it has the name of the API.
"""

import math
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from outlast.clock import Clock
from outlast.emulate import rfc3339
from outlast.emulate.metadata import gce_protocol
from outlast.emulate.metadata.exchange import Answer, Hang, Question
from outlast.emulate.metadata.gce_protocol import Whole
from outlast.emulate.metadata.server import NUMBER, Ending, Verb, application, serving
from outlast.emulate.metadata.timeline import REAL_TIME, SYSTEM_CLOCK, Planned, Timeline
from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import LOOPBACK, Serving

_ORDINARY_SECONDS, _GPU_SECONDS, _TPU_SECONDS = 60.0, 3600.0, 300.0
_GPU_FAMILIES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")
_TPU_FAMILIES = ("ct3-", "ct3p-", "ct4p-", "ct5l-", "ct5lp-", "ct5p-", "ct6e-", "tpu7x-")
_OFF_SECONDS = 30.0
_PREEMPTION_NOTICES = (0, 120)
_WINDOW_SECONDS = 4 * 3600.0  # of the maintenance itself, which the machine spends elsewhere


class GceMetadata:
    """The metadata server of one machine.

    A `machine_type` with GPUs or TPUs has their windows. Seconds are the platform's, and pass as `scale` says.
    Raises ValueError for what Compute Engine does not have.
    """

    def __init__(
        self,
        *,
        scale: TimeScale = REAL_TIME,
        machine_type: str = "n2-standard-4",
        spot: bool = True,
        preemption_notice_seconds: int = 0,
        attributes: Mapping[str, str] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if preemption_notice_seconds not in _PREEMPTION_NOTICES:
            raise ValueError(f"a preemption notice is of 0 s or 120 s, not {preemption_notice_seconds}")
        if preemption_notice_seconds and not spot:
            raise ValueError("only a Spot machine has a preemption notice")
        self.timeline = Timeline(scale=scale, clock=clock)
        self._machine_type, self._spot, self._notice_seconds = machine_type, spot, preemption_notice_seconds
        self._tree = _new_machine(machine_type, spot, preemption_notice_seconds, attributes or {})
        self._planned: list[Planned] = []
        self._out_until = -math.inf
        self.application = application(self.respond, self.timeline, self._verbs())

    @property
    def window_seconds(self) -> float:
        """How long before the maintenance `maintenance-event` says so, by the machine's type."""
        if self._machine_type.startswith(_TPU_FAMILIES):
            return _TPU_SECONDS
        return _GPU_SECONDS if self._machine_type.startswith(_GPU_FAMILIES) else _ORDINARY_SECONDS

    def serve(self, *, port: int = 0, address: str = LOOPBACK) -> AbstractContextManager[Serving]:
        """Serves while used as a context manager."""
        return serving(self.application, self.timeline, port=port, address=address)

    @staticmethod
    def environment(url: str) -> dict[str, str]:
        """What leads outlast and Google's clients to this server at `url`."""
        names = ("OUTLAST_METADATA_HOST", "GCE_METADATA_HOST", "GCE_METADATA_IP")
        return dict.fromkeys(names, urlsplit(url).netloc)

    def respond(self, question: Question) -> Answer | Hang:
        """The answer to one question."""
        if self.timeline.now() < self._out_until:
            return Answer(503, "Service Unavailable\n", {"Content-Type": "text/html; charset=UTF-8"})
        return gce_protocol.respond(question, self._tree)

    def set(self, key: str, value: str | None) -> None:
        """Gives a key such as "instance/tags" or "instance/attributes/x" a value, or takes it away with None."""
        *folders, name = key.split("/")
        if not name or not all(folders):
            raise ValueError(f"{key!r} is no key of the metadata")
        with self.timeline.lock:
            self._tree = _changed(self._tree, folders, name, value)
        self.timeline.changed()

    def preempt(self) -> Ending:
        """Compute Engine wants the Spot machine back: `preempted` is TRUE from now on, which nothing takes back."""
        if not self._spot:
            raise ValueError("only a Spot machine is preempted")
        self.set("instance/preempted", "TRUE")
        here = self.timeline.scale.here
        return Ending(here(self._notice_seconds), here(self._notice_seconds + _OFF_SECONDS))

    def maintain(self, in_seconds: float | None = None, *, lasting_seconds: float = _WINDOW_SECONDS) -> Ending:
        """The host will be maintained `in_seconds` (the machine's window unless told), and the machine ends then.

        `upcoming-maintenance` says so at once, `maintenance-event` when the window begins.
        """
        return self._announce("TERMINATE_ON_HOST_MAINTENANCE", in_seconds, lasting_seconds)

    def migrate(self, in_seconds: float | None = None, *, lasting_seconds: float = 30.0) -> Ending:
        """As `maintain`, but the machine is moved to another host and goes on; not one with GPUs or TPUs, or Spot."""
        if self._spot or self.window_seconds != _ORDINARY_SECONDS:
            raise ValueError("a Spot machine, or one with GPUs or TPUs, is not migrated live")
        self.set("instance/scheduling/on-host-maintenance", "MIGRATE")
        return self._announce("MIGRATE_ON_HOST_MAINTENANCE", in_seconds, lasting_seconds)

    def revoke(self) -> None:
        """The maintenance that was announced does not come. Raises ValueError where none is: a preemption stands."""
        with self.timeline.lock:
            self.timeline.catch_up()
            if not self._planned:
                raise ValueError("no maintenance is announced, and a preemption is not taken back")
            self._end_of_maintenance()

    def restart(self) -> None:
        """Another machine of the kind in its place: nothing is announced."""
        with self.timeline.lock:
            self._end_of_maintenance()
            self.set("instance/preempted", "FALSE")

    def fail(self, seconds: float) -> None:
        """The metadata server is itself maintained, and answers 503 for so long."""
        self._out_until = self.timeline.now() + self.timeline.scale.here(seconds)
        self.timeline.after(seconds, lambda: None)

    def _announce(self, event: str, in_seconds: float | None, lasting_seconds: float) -> Ending:
        in_seconds = self.window_seconds if in_seconds is None else in_seconds
        with self.timeline.lock:
            self.timeline.catch_up()
            if self._planned:
                raise ValueError("maintenance is announced already")
            until_event = max(0.0, in_seconds - self.window_seconds)
            self._planned = [
                self.timeline.after(until_event, lambda: self.set("instance/maintenance-event", event)),
                self.timeline.after(in_seconds, lambda: self._say_upcoming("ONGOING", 0.0, lasting_seconds)),
                self.timeline.after(in_seconds + lasting_seconds, self._end_of_maintenance),
            ]
            self._say_upcoming("PENDING", in_seconds, lasting_seconds)
            self.timeline.catch_up()
        here = self.timeline.scale.here
        off = in_seconds + (_OFF_SECONDS if event.startswith("TERMINATE") else 0.0)
        return Ending(here(in_seconds), here(off))

    def _say_upcoming(self, status: str, in_seconds: float, lasting_seconds: float) -> None:
        begins = self.timeline.moment_in(in_seconds)
        ends = begins + timedelta(seconds=self.timeline.scale.here(lasting_seconds))
        said = Whole(
            can_reschedule="false",
            latest_window_start_time=rfc3339.in_seconds(begins),
            maintenance_reasons=["PLANNED_UPDATE"],
            maintenance_status=status,
            type="SCHEDULED",
            window_end_time=rfc3339.in_seconds(ends),
            window_start_time=rfc3339.in_seconds(begins),
        )
        self._set_whole(said)

    def _set_whole(self, said: Whole) -> None:
        with self.timeline.lock:
            self._tree = _changed(self._tree, ["instance"], "upcoming-maintenance", said)
        self.timeline.changed()

    def _end_of_maintenance(self) -> None:
        for planned in self._planned:
            planned.call_off()
        self._planned = []
        self.set("instance/maintenance-event", "NONE")
        self._set_whole(Whole())

    def _verbs(self) -> dict[str, Verb]:
        times = {"in_seconds": NUMBER, "lasting_seconds": NUMBER}
        return {
            "preemption": Verb(self.preempt, {}),
            "maintenance": Verb(self.maintain, times),
            "migration": Verb(self.migrate, times),
            "revocation": Verb(self.revoke, {}),
            "restart": Verb(self.restart, {}),
            "outage": Verb(self.fail, {"seconds": NUMBER}),
        }


def _new_machine(machine_type: str, spot: bool, notice_seconds: int, attributes: Mapping[str, str]) -> dict[str, Any]:
    project, number, zone, name = "demo", "123456789012", "us-central1-a", "worker-0"
    scheduling = {
        "automatic-restart": "FALSE" if spot else "TRUE",
        "on-host-maintenance": "TERMINATE" if spot else "MIGRATE",
        "preemptible": "TRUE" if spot else "FALSE",
    }
    if notice_seconds:
        scheduling["preemptionNoticeDuration"] = f"{notice_seconds}s"
    instance = {
        "attributes": dict(attributes),
        "hostname": f"{name}.{zone}.c.{project}.internal",
        "id": str(10**18 + secrets.randbelow(10**18)),
        "machine-type": f"projects/{number}/machineTypes/{machine_type}",
        "maintenance-event": "NONE",
        "name": name,
        "preempted": "FALSE",
        "scheduling": scheduling,
        "tags": (),
        "upcoming-maintenance": Whole(),
        "zone": f"projects/{number}/zones/{zone}",
    }
    return {
        "instance": instance,
        "project": {"attributes": {}, "numeric-project-id": number, "project-id": project},
    }


def _changed(tree: Mapping[str, Any], folders: list[str], name: str, value: Any) -> dict[str, Any]:
    """A new tree in which one entry is another, so that whoever reads sees either."""
    if not folders:
        rest = {key: old for key, old in tree.items() if key != name}
        return rest if value is None else {**rest, name: value}
    below = tree.get(folders[0], {})
    if not isinstance(below, Mapping) or isinstance(below, Whole):
        raise ValueError(f"{folders[0]!r} is a value, and no directory")
    return {**tree, folders[0]: _changed(below, folders[1:], name, value)}
