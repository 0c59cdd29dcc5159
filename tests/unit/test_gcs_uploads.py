"""Resumable uploads to Cloud Storage, against a session that follows the published protocol, which emulators do not."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from outlast.stores import gcs, objects
from outlast.stores.objects import Unanswered


@dataclass
class Session:
    """One upload's session. `script` names what goes wrong, request by request."""

    script: list[str] = field(default_factory=list)
    kept: bytes = b""
    total: int | None = None

    def once(self, method: str, url: str, *, data: Iterable[memoryview], headers: dict[str, str]) -> requests.Response:
        sent = b"".join(data)
        fault = self.script.pop(0) if self.script else ""
        if fault == "refused":
            raise Unanswered("connection refused")
        if fault == "busy":
            return answer(503)
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\*|\d+)", headers["Content-Range"])
        assert found is not None
        start, end = int(found[1]), int(found[2]) + 1
        assert end - start == len(sent)
        assert start <= len(self.kept), "a gap"
        took = sent[: 256 << 10] if fault in ("cut", "short") else sent
        if start + len(took) > len(self.kept):
            self.kept += took[len(self.kept) - start :]
        if found[3] != "*" and len(self.kept) == int(found[3]):
            self.total = int(found[3])
        if fault in ("cut", "lost"):
            raise Unanswered("the connection broke")
        if fault == "gone":
            return answer(404)
        if self.total is not None:
            return answer(200)
        return answer(308, f"bytes=0-{len(self.kept) - 1}")


def answer(status: int, kept: str | None = None) -> requests.Response:
    made = requests.Response()
    made.status_code = status
    if kept:
        made.headers["Range"] = kept
    return made


def send(session: Any, parts: list[bytes]) -> None:
    upload = gcs._Upload(session, "session")
    for index, part in enumerate(parts):
        upload.send(memoryview(part), last=index == len(parts) - 1)


PARTS = [bytes([number]) * (1 << 20) for number in (1, 2, 3)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects.time, "sleep", lambda _seconds: None)


@pytest.mark.parametrize(
    "script",
    [
        [],
        ["", "lost"],
        ["", "cut", "busy", "refused"],
        ["short", "short", "short"],
        ["", "", "lost"],
        ["", "", "cut", "lost", "busy"],
    ],
    ids=lambda script: "-".join(script) or "peace",
)
def test_every_byte_arrives_once_whatever_breaks(script: list[str]) -> None:
    session = Session(list(script))
    send(session, PARTS)
    assert session.kept == b"".join(PARTS)
    assert session.total == len(session.kept)


def test_a_session_that_the_service_has_forgotten_is_given_up() -> None:
    with pytest.raises(Unanswered, match="forgotten"):
        send(Session(["", "gone"]), PARTS)


def test_an_end_before_the_last_part_is_no_success() -> None:
    class Early(Session):
        def once(self, method: str, url: str, **request: Any) -> requests.Response:
            return answer(200)

    with pytest.raises(Unanswered, match="lost track"):
        send(Early(), PARTS)


def test_a_service_that_takes_nothing_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.0)
    with pytest.raises(Unanswered, match="refused"):
        send(Session(["refused"] * 50), PARTS)
