"""The emulated metadata servers: what the clouds' pages say of their answers and of the life of what they announce."""

import http.client
import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.session import Session
from botocore.utils import IMDSRegionProvider
from google.auth.compute_engine import _metadata
from google.auth.transport.requests import Request

from outlast.emulate.metadata.aws import AwsImds
from outlast.emulate.metadata.azure import AzureEvents
from outlast.emulate.metadata.exchange import Answer, Question
from outlast.emulate.metadata.gce import GceMetadata
from outlast.emulate.scale import TimeScale
from outlast.testing import FakeClock

GOOGLE = {"Metadata-Flavor": "Google"}
AZURE = {"Metadata": "true"}
INSTANCE = "/computeMetadata/v1/instance/"
ACTION, EVENTS = "/latest/meta-data/spot/instance-action", "/metadata/scheduledevents"
AZURE_QUERY = "api-version=2020-07-01"


def ask(machine: Any, url: str, *, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
    """One question without a server, answered at once."""
    parts = urlsplit(url)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    machine.timeline.catch_up()
    answer = machine.respond(Question.read(method, parts.path, parts.query, named, body).at_last())
    assert isinstance(answer, Answer)
    return answer


def google_says(machine: GceMetadata, key: str) -> str:
    return ask(machine, f"{INSTANCE}{key}", Metadata_Flavor="Google").body


# --- Compute Engine ---------------------------------------------------------------------------------

GCE_ANSWERS = [
    ("/", 200, "computeMetadata/\n"),
    ("/computeMetadata/v1/", 200, "instance/\nproject/\n"),
    ("/computeMetadata/v1", 301, ""),
    (f"{INSTANCE}scheduling", 301, ""),
    (f"{INSTANCE}scheduling/", 200, "automatic-restart\non-host-maintenance\npreemptible\n"),
    (
        f"{INSTANCE}scheduling/?recursive=true",
        200,
        '{"automaticRestart": "FALSE", "onHostMaintenance": "TERMINATE", "preemptible": "TRUE"}',
    ),
    (
        f"{INSTANCE}scheduling/?recursive=true&alt=text",
        200,
        "automatic-restart FALSE\non-host-maintenance TERMINATE\npreemptible TRUE\n",
    ),
    (f"{INSTANCE}attributes/?recursive=True", 200, '{"my-key": "a value"}'),
    (f"{INSTANCE}preempted", 200, "FALSE"),
    (f"{INSTANCE}preempted?alt=json", 200, '"FALSE"'),
    (f"{INSTANCE}upcoming-maintenance?alt=json", 200, "{}"),
    (f"{INSTANCE}tags", 200, "[]"),
    (f"{INSTANCE}preempted/", 404, None),
    (f"{INSTANCE}nothing", 404, None),
    ("/computeMetadata/v2/", 404, None),
    (f"{INSTANCE}preempted?wait-for-change=true", 400, None),
    (f"{INSTANCE}preempted?wait_for_change=perhaps", 400, None),
    (f"{INSTANCE}preempted?timeout_sec=-1", 400, None),
    (f"{INSTANCE}?wait_for_change=true", 400, None),
]


@pytest.mark.parametrize(("url", "status", "body"), GCE_ANSWERS)
def test_compute_engine_answers_as_documented(url: str, status: int, body: str | None) -> None:
    answer = ask(GceMetadata(attributes={"my-key": "a value"}), url, Metadata_Flavor="Google")
    assert (answer.status, answer.headers["Metadata-Flavor"]) == (status, "Google")
    assert body is None or answer.body == body
    assert ("ETag" in answer.headers) == (status == 200 and url != "/")


def test_compute_engine_refuses_who_does_not_ask_as_its_clients_do() -> None:
    machine = GceMetadata()
    assert ask(machine, f"{INSTANCE}preempted").status == 403
    assert ask(machine, f"{INSTANCE}preempted", Metadata_Flavor="Google", X_Forwarded_For="10.0.0.1").status == 403
    assert ask(machine, f"{INSTANCE}preempted", method="PUT", Metadata_Flavor="Google").status == 405


@pytest.mark.parametrize(
    ("machine_type", "window"), [("n2-standard-4", 60), ("a3-highgpu-8g", 3600), ("ct5lp-hightpu-4t", 300)]
)
def test_maintenance_is_announced_early_and_set_when_its_window_begins(machine_type: str, window: int) -> None:
    clock = FakeClock()
    machine = GceMetadata(machine_type=machine_type, clock=clock, scale=TimeScale(10))

    def seen() -> tuple[str, str | None]:
        upcoming = json.loads(google_says(machine, "upcoming-maintenance?alt=json"))
        return google_says(machine, "maintenance-event"), upcoming.get("maintenance_status")

    ending = machine.maintain(7200, lasting_seconds=600)
    assert (ending.shutdown_in_seconds, ending.off_in_seconds) == (720, 723)
    assert seen() == ("NONE", "PENDING")
    clock.advance((7200 - window) / 10 - 0.1)
    assert seen() == ("NONE", "PENDING")
    clock.advance(0.2)
    assert seen() == ("TERMINATE_ON_HOST_MAINTENANCE", "PENDING")
    clock.advance(window / 10)
    assert seen() == ("TERMINATE_ON_HOST_MAINTENANCE", "ONGOING")
    clock.advance(60)
    assert seen() == ("NONE", None)
    machine.maintain()
    assert seen() == ("TERMINATE_ON_HOST_MAINTENANCE", "PENDING")
    machine.revoke()
    clock.advance(10_000)
    assert seen() == ("NONE", None)


def test_a_preemption_stands_until_another_machine_is_there() -> None:
    machine = GceMetadata(preemption_notice_seconds=120)
    assert machine.preempt().shutdown_in_seconds == 120
    assert google_says(machine, "preempted") == "TRUE"
    with pytest.raises(ValueError, match="not taken back"):
        machine.revoke()
    machine.restart()
    assert google_says(machine, "preempted") == "FALSE"


def test_what_compute_engine_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="0 s or 120 s"):
        GceMetadata(preemption_notice_seconds=60)
    with pytest.raises(ValueError, match="only a Spot machine"):
        GceMetadata(spot=False).preempt()
    with pytest.raises(ValueError, match="not migrated live"):
        GceMetadata(spot=False, machine_type="g2-standard-4").migrate()
    machine = GceMetadata(spot=False)
    machine.migrate()
    assert google_says(machine, "maintenance-event") == "MIGRATE_ON_HOST_MAINTENANCE"
    with pytest.raises(ValueError, match="already"):
        machine.maintain()


class Caller:
    """A client that keeps its connection."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __call__(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, str, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        said = body if body is None or isinstance(body, bytes) else json.dumps(body)
        self._connection.request(method, path, said, named)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers.get("ETag", "")


@pytest.fixture(scope="module")
def here() -> Iterator[tuple[GceMetadata, Caller]]:
    machine = GceMetadata(scale=TimeScale(100))
    with machine.serve() as serving, Caller(serving.url) as caller:
        yield machine, caller


def test_a_question_hangs_until_a_change_or_for_the_time_it_names(here: tuple[GceMetadata, Caller]) -> None:
    machine, call = here
    path = f"{INSTANCE}maintenance-event?wait_for_change=true"
    status, value, etag = call(f"{path}&last_etag=0", **GOOGLE)
    assert (status, value) == (200, "NONE")

    def hang(question: str) -> tuple[str, float]:
        began = time.monotonic()
        return call(question, **GOOGLE)[1], time.monotonic() - began

    value, seconds = hang(f"{path}&last_etag={etag}&timeout_sec=1")
    assert value == "NONE"
    assert 0.99 < seconds < 2
    machine.maintain(100)  # 60 s before, which is 0.4 s from now
    value, seconds = hang(f"{path}&last_etag={etag}&timeout_sec=10")
    assert value == "TERMINATE_ON_HOST_MAINTENANCE"
    assert 0.2 < seconds < 2
    threading.Timer(0.2, machine.revoke).start()
    value, seconds = hang(f"{path}&timeout_sec=10")
    assert value == "NONE"
    assert 0.1 < seconds < 2
    threading.Timer(0.2, lambda: machine.set("instance/attributes/x", "1")).start()
    value, seconds = hang(f"{INSTANCE}attributes/?recursive=true&wait_for_change=true&timeout_sec=10")
    assert (value, seconds < 2) == ('{"x": "1"}', True)


def test_it_can_be_told_over_http_and_refuses_what_it_does_not_know(here: tuple[GceMetadata, Caller]) -> None:
    _, call = here
    assert set(json.loads(call("/emulator")[1])) >= {"preemption", "maintenance", "revocation", "outage"}
    assert call("/emulator/preemption", "POST")[:2] == (200, '{"shutdown_in_seconds":0.0,"off_in_seconds":0.3}')
    assert call(f"{INSTANCE}preempted", **GOOGLE)[1] == "TRUE"
    assert call("/emulator/eviction", "POST")[0] == 404
    refused = ({"in_secs": 5}, {"in_seconds": "5"}, {"in_seconds": -5}, {"in_seconds": True}, {"in_seconds": math.nan})
    for body in (*refused, [5]):
        assert call("/emulator/maintenance", "POST", body)[0] == 400, body
    status, said, _ = call("/emulator/maintenance", "POST", b"no JSON")
    assert (status, "the settings of a verb are a JSON object: " in said) == (400, True)
    assert call("/emulator/outage", "POST", {"seconds": 30})[0] == 200
    assert call(f"{INSTANCE}preempted", **GOOGLE)[0] == 503
    time.sleep(0.31)
    assert call(f"{INSTANCE}preempted", **GOOGLE)[0] == 200
    assert call("/emulator/restart", "POST")[0] == 200


def test_googles_own_client_finds_it(here: tuple[GceMetadata, Caller], monkeypatch: pytest.MonkeyPatch) -> None:
    machine, call = here
    authority = machine.environment(call.url)["GCE_METADATA_HOST"]
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", authority)  # which it reads when it is imported
    request = Request()
    assert request(url=f"http://{authority}", method="GET", headers=GOOGLE).headers["metadata-flavor"] == "Google"
    root = f"http://{authority}/computeMetadata/v1/"
    assert _metadata.get(request, "project/project-id", root=root) == "demo"
    assert _metadata.get(request, "instance/", root=root, recursive=True)["maintenanceEvent"] == "NONE"


# --- Amazon -----------------------------------------------------------------------------------------


def token(machine: AwsImds, seconds: str = "21600") -> Answer:
    return ask(machine, "/latest/api/token", method="PUT", X_aws_ec2_metadata_token_ttl_seconds=seconds)


def amazon(machine: AwsImds, path: str) -> Answer:
    return ask(machine, path, X_aws_ec2_metadata_token=token(machine).body)


def test_ec2_answers_only_with_a_token_that_lives() -> None:
    clock = FakeClock()
    machine = AwsImds(clock=clock)
    path = "/latest/meta-data/instance-life-cycle"
    assert ask(machine, path).status == 401
    assert ask(machine, path, X_aws_ec2_metadata_token="made up").status == 401
    for seconds in ("0", "21601", "x", "-1", ""):
        assert token(machine, seconds).status == 400
    assert ask(machine, "/latest/api/token").status == 405
    forwarded = {"X_aws_ec2_metadata_token_ttl_seconds": "60", "X_Forwarded_For": "10.0.0.1"}
    assert ask(machine, "/latest/api/token", method="PUT", **forwarded).status == 403
    given = token(machine, "60")
    assert given.headers["X-Aws-Ec2-Metadata-Token-Ttl-Seconds"] == "60"
    assert ask(machine, path, X_aws_ec2_metadata_token=given.body).body == "spot"
    clock.advance(61)
    assert ask(machine, path, X_aws_ec2_metadata_token=given.body).status == 401


def test_a_spot_interruption_is_nothing_and_then_two_minutes() -> None:
    clock = FakeClock(wall_seconds=1_700_000_000)
    machine = AwsImds(clock=clock, scale=TimeScale(2))
    assert amazon(machine, ACTION).status == 404
    assert "spot/" not in amazon(machine, "/latest/meta-data/").body.split()
    machine.recommend_rebalance()
    assert json.loads(amazon(machine, "/latest/meta-data/events/recommendations/rebalance").body) == {
        "noticeTime": "2023-11-14T22:13:20Z"
    }
    assert machine.preempt().shutdown_in_seconds == 60
    assert json.loads(amazon(machine, ACTION).body) == {"action": "terminate", "time": "2023-11-14T22:14:20Z"}
    assert amazon(machine, "/latest/meta-data/spot").body.split() == ["instance-action", "termination-time"]
    with pytest.raises(ValueError, match="stands"):
        machine.revoke()
    with pytest.raises(ValueError, match="terminate, stop, hibernate"):
        machine.preempt("pause")
    machine.restart()
    assert machine.preempt("hibernate").shutdown_in_seconds == 0
    assert amazon(machine, "/latest/meta-data/spot").body == "instance-action"


def test_scheduled_maintenance_ends_in_the_history() -> None:
    clock = FakeClock()
    machine = AwsImds(clock=clock, spot=False)

    def listed(name: str) -> list[tuple[str, str, str]]:
        said = json.loads(amazon(machine, f"/latest/meta-data/events/maintenance/{name}").body)
        return [(one["Code"], one["State"], one["Description"]) for one in said]

    machine.maintain(3600, lasting_seconds=600)
    assert listed("scheduled") == [("system-reboot", "active", "scheduled reboot")]
    assert listed("history") == []
    clock.advance(4300)
    assert listed("scheduled") == []
    machine.maintain(code="instance-stop")
    machine.revoke()
    assert listed("history") == [
        ("system-reboot", "completed", "[Completed] scheduled reboot"),
        ("instance-stop", "canceled", "[Canceled] scheduled stop"),
    ]
    with pytest.raises(ValueError, match="only a Spot"):
        machine.preempt()


def test_amazons_own_client_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = AwsImds()
    with machine.serve() as serving:
        for name, value in machine.environment(serving.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_V1_DISABLED", "true")
        assert IMDSRegionProvider(Session()).provide() == "us-east-1"


# --- Azure ------------------------------------------------------------------------------------------


def microsoft(machine: AzureEvents, method: str = "GET", body: Any = None) -> Any:
    sent = b"" if body is None else json.dumps(body).encode()
    answer = ask(machine, f"{EVENTS}?{AZURE_QUERY}", method=method, body=sent, **AZURE)
    assert answer.status == 200, answer.body
    return json.loads(answer.body) if answer.body else None


def statuses(machine: AzureEvents) -> list[tuple[str, str, bool]]:
    events = microsoft(machine)["Events"]
    return [(event["EventType"], event["EventStatus"], bool(event["NotBefore"])) for event in events]


def test_an_event_is_scheduled_then_started_then_gone() -> None:
    clock = FakeClock()
    machine = AzureEvents(clock=clock, scale=TimeScale(10))
    incarnations = [microsoft(machine)["DocumentIncarnation"]]
    assert statuses(machine) == []
    machine.preempt()
    (event,) = microsoft(machine)["Events"]
    assert parsedate_to_datetime(event["NotBefore"]).timestamp() == int(clock.wall_seconds() + 3)
    assert (event["Resources"], event["EventSource"]) == (["worker_0"], "Platform")
    for seconds, expected in ((2.9, ("Preempt", "Scheduled", True)), (0.2, ("Preempt", "Started", False)), (61, None)):
        incarnations.append(microsoft(machine)["DocumentIncarnation"])
        clock.advance(seconds)
        assert statuses(machine) == ([expected] if expected else [])
    incarnations.append(microsoft(machine)["DocumentIncarnation"])
    assert incarnations == [1, 2, 2, 3, 4]


def test_an_event_that_is_acknowledged_starts_at_once() -> None:
    clock = FakeClock()
    machine = AzureEvents(clock=clock)
    first, other = machine.maintain(), machine.schedule("Freeze", resources=["worker_7"])
    for _ in range(2):
        assert microsoft(machine, "POST", {"StartRequests": [{"EventId": first}]}) is None
    assert statuses(machine) == [("Reboot", "Started", False), ("Freeze", "Scheduled", True)]
    for bad in ({}, {"StartRequests": []}, {"StartRequests": [{"EventId": "no"}]}, [1], {"StartRequests": [other]}):
        answer = ask(machine, f"{EVENTS}?{AZURE_QUERY}", method="POST", body=json.dumps(bad).encode(), **AZURE)
        assert answer.status == 400, bad
    clock.advance(601)
    assert statuses(machine) == [("Freeze", "Scheduled", True)]


def test_an_event_is_taken_back_before_it_starts_and_a_preempt_never() -> None:
    machine = AzureEvents()
    machine.preempt()
    machine.maintain()
    machine.fail()
    machine.revoke()
    assert statuses(machine) == [("Preempt", "Scheduled", True), ("Reboot", "Started", False)]
    with pytest.raises(ValueError, match="stands"):
        machine.revoke()
    with pytest.raises(ValueError, match="30 s at least"):
        machine.schedule("Preempt", in_seconds=10)
    with pytest.raises(ValueError, match="Freeze, Reboot"):
        machine.schedule("Hibernate")
    machine.restart()
    assert statuses(machine) == []


AZURE_REFUSALS = [
    (f"{EVENTS}?{AZURE_QUERY}", {}, 400),
    (EVENTS, AZURE, 400),
    (f"{EVENTS}?api-version=2019-08-01", AZURE, 400),
    (f"{EVENTS}?{AZURE_QUERY}&wait=1", AZURE, 400),
    (f"{EVENTS}?{AZURE_QUERY}", {**AZURE, "X_Forwarded_For": "10.0.0.1"}, 400),
    ("/metadata/instance/compute/name?api-version=2021-02-01", AZURE, 400),
    ("/metadata/instance/compute/nothing?api-version=2021-02-01&format=text", AZURE, 404),
    ("/metadata/elsewhere?api-version=2021-02-01", AZURE, 404),
]


@pytest.mark.parametrize(("url", "headers", "status"), AZURE_REFUSALS)
def test_azure_refuses_what_is_not_documented(url: str, headers: dict[str, str], status: int) -> None:
    answer = ask(AzureEvents(), url, **headers)
    assert answer.status == status
    assert "error" in json.loads(answer.body)


def test_azure_tells_a_machine_its_name_and_takes_its_time_at_first() -> None:
    machine = AzureEvents(vm="trainer_3", first_answer_seconds=40, scale=TimeScale(100))
    name = ask(machine, "/metadata/instance/compute/name?api-version=2021-02-01&format=text", **AZURE)
    assert name.body == "trainer_3"
    with machine.serve() as serving, Caller(serving.url) as call:
        began = time.monotonic()
        assert call(f"{EVENTS}?{AZURE_QUERY}", **AZURE)[0] == 200
        assert 0.35 < time.monotonic() - began < 5
        began = time.monotonic()
        assert call(f"{EVENTS}?{AZURE_QUERY}", **AZURE)[0] == 200
        assert time.monotonic() - began < 0.3


# --- the command ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "variable"),
    [("gce-metadata", "GCE_METADATA_HOST"), ("aws-imds", "AWS_EC2_METADATA_SERVICE_ENDPOINT"), ("azure-events", None)],
)
def test_the_command_serves_until_a_signal_and_says_how_to_be_led_there(name: str, variable: str | None) -> None:
    command = [sys.executable, "-c", "from outlast.cli.main import main; main()", "emulate", name, "--speed", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip()]
        while lines[-1] and "/emulator" not in lines[-1]:
            lines.append(process.stdout.readline().strip())
        url = lines[0].removeprefix("listening on ")
        assert f"export OUTLAST_METADATA_HOST={urlsplit(url).netloc}" in lines
        assert variable is None or any(line.startswith(f"export {variable}=") for line in lines)
        with Caller(url) as call:
            assert call("/emulator/preemption", "POST")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
