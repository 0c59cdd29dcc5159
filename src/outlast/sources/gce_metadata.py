"""Compute Engine's metadata server: host maintenance and the end of Spot machines, by hanging GETs.

Facts as of 2026-11-29. "View and query VM metadata": `Metadata-Flavor: Google` in question and answer,
wait_for_change, last_etag, timeout_sec; 503 while the server itself is maintained. "Monitor and plan for a host
maintenance event": the values of maintenance-event, set 60 s before, and an hour before on machines with GPUs; "Handle
GKE node disruption": 5 min for TPUs. "Preemptible VMs", "Spot VMs": preempted becomes TRUE some 30 s before the
machine is off, or 120 s with a preemption notice (beta; where the metadata show that is not documented).
From a GKE pod the server may answer only a part: 404 is "not available here".
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from outlast.clock import Clock, Deadline
from outlast.disruptions import Disruption, Look, NoticeSource, SourceUnavailable
from outlast.settings import Surroundings
from outlast.sources.metadata_server import Answer, MetadataServer, ask_for

_HOST = "metadata.google.internal"
_HEADERS = {"Metadata-Flavor": "Google"}
_ROOT = "/computeMetadata/v1/instance/"
_HANG_SECONDS = 20
_SLACK_SECONDS = 10.0  # a client waits longer than the server was told to
_QUICK_SECONDS = 3.0
_UNCHANGED_PAUSE_SECONDS = 5.0  # where the server does not hang although it should

_ORDINARY_SECONDS, _GPU_SECONDS, _TPU_SECONDS = 60.0, 3600.0, 300.0
_PREEMPTED_SECONDS, _PREEMPTION_NOTICE_SECONDS = 30.0, 120.0
# Families of machine types that always have accelerators ("Compute Engine machine families", 2026-11-29).
_GPU_FAMILIES = ("a2-", "a3-", "a4-", "a4x-", "g2-", "g4-")
_TPU_FAMILIES = ("ct3-", "ct3p-", "ct4p-", "ct5l-", "ct5lp-", "ct5p-", "ct6e-", "tpu7x-")
_GPU_DEVICES = (Path("/dev/nvidia0"), Path("/proc/driver/nvidia/version"))
_TPU_DEVICES = (Path("/dev/accel0"),)


class GceMetadata:
    """The server, as far as it is Google's own."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._server = MetadataServer(env.get("OUTLAST_METADATA_HOST") or env.get("GCE_METADATA_HOST") or _HOST)

    def ask(self, path: str, *, seconds: float = _QUICK_SECONDS) -> Answer:
        """What is below instance/; raises SourceUnavailable, also where the answer does not say that it is Google's."""
        answer = ask_for(self._server, f"{_ROOT}{path}", _HEADERS, seconds=seconds)
        if answer.headers.get("metadata-flavor") != "Google":
            raise SourceUnavailable("the metadata server is a stranger's: it does not say Metadata-Flavor: Google")
        return answer


class WatchedKey:
    """One key of the metadata, watched by hanging GETs."""

    def __init__(self, key: str, metadata: GceMetadata, clock: Clock) -> None:
        self.name = f"gce-metadata {key}"
        self.earliest_change: float | None = None
        self._key, self._metadata, self._clock = key, metadata, clock
        self._etag = "0"
        self._value: str | None = None
        self._answered_at: float | None = None

    def wait(self) -> tuple[str, float]:
        """The value once it has changed, or after a while; and for how long not to ask again.

        `earliest_change` is then the earliest moment (monotonic seconds) at which it can have changed, None if any.
        """
        began, etag = self._clock.monotonic_seconds(), self._etag
        self._etag = "0"  # after a failure the current value is asked for, since a change may have been missed
        query = f"{self._key}?wait_for_change=true&last_etag={quote(etag, safe='')}&timeout_sec={_HANG_SECONDS}"
        answer = self._metadata.ask(query, seconds=_HANG_SECONDS + _SLACK_SECONDS)
        now, value = self._clock.monotonic_seconds(), answer.text.strip()
        changed, hung = value != self._value, now - began >= 1.0
        self.earliest_change = now if hung and etag != "0" else self._answered_at
        self._etag, self._value, self._answered_at = answer.headers.get("etag") or "0", value, now
        # A server that answers at once and for ever must not keep this machine busy.
        return value, 0.0 if hung else 1.0 if changed else _UNCHANGED_PAUSE_SECONDS


class MaintenanceEvent:
    """`instance/maintenance-event`: the host will be maintained; the machine is moved, or ends."""

    def __init__(self, metadata: GceMetadata, clock: Clock, speed: float = 1.0) -> None:
        self._key, self._metadata, self._clock = WatchedKey("maintenance-event", metadata, clock), metadata, clock
        self.name, self._speed = self._key.name, speed
        self._window: float | None = None
        self._announced: Disruption | None = None

    def look(self) -> Look:
        value, again = self._key.wait()
        if value == "NONE":
            self._announced = None
            if self._window is None:
                self._window = _maintenance_window_seconds(self._metadata)
            return Look((), again)
        if value == "MIGRATE_ON_HOST_MAINTENANCE":
            self._announced = None
            moved = Disruption("event", "the machine is about to be migrated, and goes on running", "advisory")
            return Look((moved,), again)
        if value not in ("TERMINATE_ON_HOST_MAINTENANCE", "SHUTDOWN_ON_HOST_MAINTENANCE"):
            raise SourceUnavailable(f"maintenance-event is {value[:60]!r}, which is no known value")
        if self._announced is None:
            window = (self._window or _ORDINARY_SECONDS) / self._speed
            deadline = _deadline(self._key, window, self._clock)
            self._announced = Disruption("event", f"maintenance of the host ({value})", "advance", deadline)
        return Look((self._announced,), again)


class Preempted:
    """`instance/preempted`: a Spot machine has begun to end."""

    def __init__(self, metadata: GceMetadata, clock: Clock, grace_seconds: float, speed: float = 1.0) -> None:
        self._key, self._metadata, self._clock = WatchedKey("preempted", metadata, clock), metadata, clock
        self.name = self._key.name
        self._ordinary = min(_PREEMPTED_SECONDS / speed, grace_seconds)
        self._noticed = _PREEMPTION_NOTICE_SECONDS / speed
        self._window: float | None = None
        self._announced: Disruption | None = None

    def look(self) -> Look:
        value, again = self._key.wait()
        if value == "FALSE":
            if self._window is None:
                noticed = _has_preemption_notice(self._metadata)
                self._window = self._noticed if noticed else self._ordinary
            return Look((), again)
        if value != "TRUE":
            raise SourceUnavailable(f"preempted is {value[:60]!r}, which is no known value")
        if self._announced is None:
            deadline = _deadline(self._key, self._window or self._ordinary, self._clock)
            self._announced = Disruption("event", "the Spot machine is preempted", "final", deadline)
        return Look((self._announced,), again)


def gce_metadata_sources(surroundings: Surroundings) -> list[NoticeSource]:
    """The two keys; raises SourceUnavailable for a host that is none."""
    metadata, clock, speed = GceMetadata(surroundings.env), surroundings.clock, surroundings.speed
    return [MaintenanceEvent(metadata, clock, speed), Preempted(metadata, clock, surroundings.grace_seconds, speed)]


def _deadline(key: WatchedKey, window_seconds: float, clock: Clock) -> Deadline | None:
    """A window after the earliest moment at which it can have begun; None if it may have begun long ago."""
    began = key.earliest_change
    if began is None or began + window_seconds <= clock.monotonic_seconds():
        return None
    return Deadline(began + window_seconds)


def _maintenance_window_seconds(metadata: GceMetadata) -> float:
    """By what the machine has; the shortest window where that does not show."""
    try:
        machine = metadata.ask("machine-type").text.strip().rpartition("/")[2]
    except SourceUnavailable:
        machine = ""
    if machine.startswith(_TPU_FAMILIES) or any(path.exists() for path in _TPU_DEVICES):
        return _TPU_SECONDS
    if machine.startswith(_GPU_FAMILIES) or any(path.exists() for path in _GPU_DEVICES):
        return _GPU_SECONDS
    return _ORDINARY_SECONDS


def _has_preemption_notice(metadata: GceMetadata) -> bool:
    """Whether the scheduling options, which have the names of the API, hold a preemptionNoticeDuration of 120 s."""
    try:
        scheduling = metadata.ask("scheduling/?recursive=true&alt=json").json()
    except SourceUnavailable:
        return False
    if not isinstance(scheduling, dict):
        return False
    return any(name.lower() == "preemptionnoticeduration" and "120" in str(value) for name, value in scheduling.items())
