"""Items as Pub/Sub messages, and a lease's renewal as one line that any process can read."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from outlast.items import Draft, Lease

ID_ATTRIBUTE = "id"
# cloud.google.com/pubsub/quotas#resource_limits, 2026-11-30: a message and a publish request have at most 10 MB, a
# publish request 1,000 messages, an attribute's value 1,024 bytes, an acknowledge or modifyAckDeadline request 512 KB;
# a deadline is at most 600 s (cloud.google.com/pubsub/docs/reference/rpc/google.pubsub.v1).
MOST_MESSAGES = 1000
MOST_SECONDS = 600
MOST_ID_BYTES = 1024
MOST_PAYLOAD_BYTES = 10_000_000 - 4096


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in hand. `attempt` counts its deliveries from 1 on, where the subscription counts; else None."""

    ack_id: str
    id: str
    data: bytes
    attempt: int | None

    def draft(self) -> Draft:
        """The message as an item."""
        return Draft(self.id, payload_of(self.data))


def delivery_of(message: Any) -> Delivery:
    """A received message, as the client library's protobuf, read; one without a usable id has its message's."""
    name = message.message.attributes.get(ID_ATTRIBUTE) or message.message.message_id
    return Delivery(message.ack_id, name, message.message.data, message.delivery_attempt or None)


def payload_of(data: bytes) -> str:
    """A message's data as JSON text: itself if it is JSON, else as a JSON string of its text, or of its base64."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return json.dumps(base64.b64encode(data).decode())
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def whole_seconds(seconds: float) -> int:
    """How long to hold a message, as a request takes it: up to the next second, from 1 to MOST_SECONDS."""
    return min(MOST_SECONDS, max(1, math.ceil(seconds)))


@dataclass(frozen=True, slots=True)
class Renewal:
    """What any process needs to extend or end a lease: the ledger's own renewal, "" without one, and the ack ids.

    An item has several ack ids if its message came several times at once, and none if no message came.
    """

    ledger: str
    ack_ids: Mapping[str, Sequence[str]]

    def line(self) -> str:
        """One word of ASCII, so that no reader of lines changes it."""
        return json.dumps(["pubsub", self.ledger, self.ack_ids], separators=(",", ":")).replace(" ", "\\u0020")

    def of(self, ids: Sequence[str] | frozenset[str]) -> list[str]:
        """The ack ids of some items."""
        return [ack_id for one in ids for ack_id in self.ack_ids.get(one, ())]


def read_renewal(line: str) -> Renewal | None:
    """The renewal in a line; None if the line is none of ours."""
    try:
        mark, ledger, ack_ids = json.loads(line)
    except (ValueError, TypeError):
        return None
    return Renewal(ledger, ack_ids) if mark == "pubsub" else None


def renewal_of(lease: Lease) -> Renewal:
    """The renewal of a lease that one of these queues has given."""
    return read_renewal(lease.renewal) or Renewal("", {})
