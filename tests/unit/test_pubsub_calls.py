"""Pub/Sub without a server: URLs, requests of allowed size, and what the service's errors become."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from outlast.errors import QueueUnreachable, SettingsError
from outlast.items import Draft
from outlast.queues.pubsub import open_pubsub
from outlast.queues.pubsub_address import read_address
from outlast.queues.pubsub_checks import Checks
from outlast.queues.pubsub_service import PubsubService, _pieces, _requests
from outlast.registry import with_ledger

URL = "pubsub://project-1/images?topic=T-1"


class Failed(grpc.RpcError):
    """An error as the client library raises it."""

    def __init__(self, code: Any, **ack_ids: str) -> None:
        super().__init__()
        self._code, self._status = code, Status(code=code.value[0], message="why")
        if ack_ids:
            detail = AnyMessage()
            detail.Pack(ErrorInfo(reason="EXACTLY_ONCE_ACKID_FAILURE", metadata=ack_ids))
            self._status.details.append(detail)

    def code(self) -> Any:
        return self._code

    def details(self) -> str:
        return "why"

    def trailing_metadata(self) -> list[tuple[str, bytes]]:
        return [("grpc-status-details-bin", self._status.SerializeToString())]


class Answers:
    """A client whose transport gives these answers, in turn, to whatever is asked; it keeps the requests."""

    def __init__(self, *answers: Any) -> None:
        self.left, self.requests = list(answers), []

    def __getattr__(self, verb: str) -> Any:
        return self if verb == "transport" else self._ask

    def _ask(self, request: Any, *, timeout: float, metadata: Any) -> Any:
        assert 0 < timeout <= 30
        assert metadata[0][0] == "x-goog-request-params"
        self.requests.append(request)
        answer = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def service(*answers: Any, patience_seconds: float = 5.0) -> tuple[PubsubService, Answers]:
    made, client = PubsubService(read_address(URL), patience_seconds=patience_seconds), Answers(*answers)
    made._clients = {"subscriber": client, "publisher": client}
    return made, client


# --- URLs -------------------------------------------------------------------------------------------


def test_a_url_names_the_subscription_the_topic_and_the_ledger() -> None:
    found = read_address("pubsub://p-1/images?topic=raw&ledger=sqlite:////data/l.db?x=1")
    assert (found.subscription, found.topic) == ("projects/p-1/subscriptions/images", "projects/p-1/topics/raw")
    assert found.ledger == "sqlite:////data/l.db?x=1"
    elsewhere = read_address("pubsub://p-1/images?topic=projects/p-2/topics/raw")
    assert (elsewhere.topic, elsewhere.ledger) == ("projects/p-2/topics/raw", None)


@pytest.mark.parametrize(
    "url",
    [
        "pubsub://",
        "pubsub://project",
        "pubsub://project/",
        "pubsub:///subscription",
        "pubsub://project/ab",
        "pubsub://project/subscription/more",
        "pubsub://project/subscription?topic=",
        "pubsub://project/subscription?topic=projects/p/subscriptions/s",
        "pubsub://project/subscription?chunk=3",
    ],
)
def test_another_shape_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"pubsub://|not known"):
        read_address(url)


@pytest.mark.parametrize(
    ("url", "sink", "ledger"),
    [
        (URL, "sqlite:///r.db?table=labels", f"sqlite:///{Path.cwd()}/r.db"),
        ("pubsub://project-1/images", "sqlite:////a/b c.db", "sqlite:////a/b c.db"),
        (
            URL,
            "postgresql://u:p%40ss@h/d?sslmode=require&table=labels",
            "postgresql://u:p%40ss@h/d?sslmode=require&queue=project-1%2Fimages",
        ),
        (f"{URL}&ledger=sqlite:///own.db", "sqlite:///r.db", "sqlite:///own.db"),
        (URL, "jsonl:results.jsonl", None),
        (URL, "gs://bucket/results", None),
    ],
)
def test_the_ledger_is_in_the_sinks_database_unless_the_url_names_one(url: str, sink: str, ledger: str | None) -> None:
    assert read_address(with_ledger(open_pubsub(url), sink).url).ledger == ledger


# --- requests ---------------------------------------------------------------------------------------


def test_requests_stay_below_the_limits_and_lose_nothing() -> None:
    ack_ids = [f"{n:06d}" + "a" * (n % 300) for n in range(9000)]
    pieces = list(_pieces(ack_ids))
    assert [one for piece in pieces for one in piece] == ack_ids
    assert len(pieces) > 1
    assert max(sum(len(one) + 3 for one in piece) for piece in pieces) < 512_000
    drafts = [Draft(f"i{n}", '"' + "é" * (n * 4000) + '"') for n in range(100)] + [
        Draft(f"s{n}", "1") for n in range(2500)
    ]
    requests = list(_requests(drafts))
    assert [name for some in requests for name, _ in some] == [draft.id for draft in drafts]
    assert max(len(some) for some in requests) == 1000
    assert max(sum(len(data) + len(name) for name, data in some) for some in requests) < 10_000_000


# --- errors -----------------------------------------------------------------------------------------


def test_ack_ids_that_fail_for_the_moment_are_asked_for_again_and_void_ones_are_told() -> None:
    failure = Failed(
        grpc.StatusCode.INVALID_ARGUMENT,
        b="TRANSIENT_FAILURE_UNORDERED_ACK_ID",
        c="PERMANENT_FAILURE_INVALID_ACK_ID",
    )
    made, client = service(failure, None)
    assert made.acknowledge(["a", "b", "c"]) == {"c"}
    assert [list(request.ack_ids) for request in client.requests] == [["a", "b", "c"], ["b"]]
    made, client = service(Failed(grpc.StatusCode.INVALID_ARGUMENT, a="TRANSIENT_FAILURE_X"), patience_seconds=0.2)
    with pytest.raises(QueueUnreachable, match="1 messages"):
        made.hold(["a"], 10)
    assert len(client.requests) > 1


def test_what_passes_is_tried_again_for_some_seconds() -> None:
    made, client = service(*[Failed(grpc.StatusCode.UNAVAILABLE)] * 3, None)
    assert made.acknowledge(["a"]) == frozenset()
    assert len(client.requests) == 4
    began = time.monotonic()
    made, _ = service(Failed(grpc.StatusCode.DEADLINE_EXCEEDED), patience_seconds=0.3)
    with pytest.raises(QueueUnreachable, match=r"has not answered.*DEADLINE_EXCEEDED: why"):
        made.pull(1)
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (grpc.StatusCode.NOT_FOUND, "gcloud pubsub subscriptions create images --project=project-1 --topic=T-1"),
        (grpc.StatusCode.PERMISSION_DENIED, "gcloud pubsub subscriptions add-iam-policy-binding images"),
        (grpc.StatusCode.UNAUTHENTICATED, "gcloud auth application-default login"),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT: why"),
    ],
)
def test_what_no_repetition_mends_comes_with_the_command_that_does(
    code: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    made, client = service(Failed(code))
    with pytest.raises(SettingsError) as caught:
        made.pull(1)
    assert told in str(caught.value)
    assert len(client.requests) == 1
    made, _ = service(Failed(code))
    with pytest.raises(SettingsError) as caught:
        made.publish("projects/project-1/topics/T-1", [Draft("a", "1")])
    assert told.replace("subscriptions", "topics").replace("images", "T-1").partition(" --topic")[0] in str(
        caught.value
    )


def test_without_the_permission_to_look_nothing_is_told_and_all_goes_on() -> None:
    warned: list[str] = []
    made, client = service(Failed(grpc.StatusCode.PERMISSION_DENIED))
    checks = Checks(read_address(URL), made.facts, warned.append)
    checks.before_leasing()
    checks.before_leasing()
    assert warned == []
    assert len(client.requests) == 1
    assert checks.topic() == "projects/project-1/topics/T-1"


def test_missing_credentials_are_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(SettingsError, match="gcloud auth application-default login"):
        PubsubService(read_address(URL)).pull(1)


def test_a_queue_with_a_ledger_is_opened_extended_and_looked_at_without_the_client_library(tmp_path: Path) -> None:
    program = f"""
import sys
from outlast.registry import open_queue
queue = open_queue("pubsub://project-1/images?ledger=sqlite:///{tmp_path}/ledger.db")
assert queue.stats().dead == 0
assert not queue.extend('["pubsub","1",{{"a":["b"]}}]', 10)
queue.close()
assert "grpc" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_missing_extra_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_status", None)
    with pytest.raises(SettingsError, match=r"needs grpc_status: pip install 'outlast\[pubsub\]'"):
        open_pubsub(URL)
