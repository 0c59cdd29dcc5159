"""What is looked at once before Pub/Sub is used: the subscription's topic, and settings that work against leases."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outlast.errors import SettingsError
from outlast.items import Draft
from outlast.queues.pubsub_address import PubsubAddress
from outlast.queues.pubsub_messages import MOST_ID_BYTES

_ATTEMPTS_ADVISED = 100  # the most that a dead-letter policy takes (cloud.google.com/pubsub/docs/dead-letter-topics)
_DEADLINE_ADVISED_SECONDS = 60
_DELETED_TOPIC = "_deleted-topic_"


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """What a subscription is set to. `most_attempts` and `dead_letter_topic` are None without a dead-letter policy."""

    topic: str
    ack_deadline_seconds: int
    most_attempts: int | None
    dead_letter_topic: str | None
    pushes: bool


Look = Callable[[], SubscriptionFacts | None]  # None without the permission to look


class Checks:
    """Looks at a subscription, once per process, at the first publish or lease; `warn` is told what may do harm."""

    def __init__(self, address: PubsubAddress, look: Look, warn: Callable[[str], None]) -> None:
        self._address, self._look, self._warn = address, look, warn
        self._lock = threading.Lock()
        self._looked_by: int | None = None
        self._warned = False
        self._facts: SubscriptionFacts | None = None

    def facts(self) -> SubscriptionFacts | None:
        """What the subscription is set to; None without the permission to look."""
        with self._lock:
            if self._looked_by != os.getpid():
                self._facts = self._look()
                self._looked_by = os.getpid()
            return self._facts

    def topic(self) -> str:
        """Where to publish: the URL's topic, else the subscription's.

        Raises SettingsError for a topic that the subscription does not listen to: what is published there is lost.
        """
        facts, told = self.facts(), self._address.topic
        if facts is not None and facts.topic == _DELETED_TOPIC:
            raise SettingsError(f"{self._address.shown}: the subscription's topic was deleted; make both anew")
        if facts is not None and told not in (None, facts.topic):
            raise SettingsError(
                f"{self._address.shown}: the subscription listens to {facts.topic}, not to {told}: nothing was "
                "published"
            )
        found = told or (facts.topic if facts is not None else None)
        if found is None:
            raise SettingsError(
                f"{self._address.shown}: to publish, the URL needs ?topic=TOPIC (without the permission "
                "pubsub.subscriptions.get the subscription's own cannot be read)"
            )
        return found

    def before_leasing(self) -> None:
        """Raises SettingsError for a subscription that cannot be pulled; warns once of what spoils items."""
        facts = self.facts()
        if facts is None:
            return
        if facts.pushes:
            raise SettingsError(
                f"{self._address.shown}: the subscription pushes its messages, and cannot be pulled; "
                f"gcloud pubsub subscriptions update {self._address.subscription_id} "
                f"--project={self._address.project} --push-endpoint="
            )
        advice = [] if self._warned else _advice(facts)
        self._warned = True
        if advice:
            attempts = f" --max-delivery-attempts={_ATTEMPTS_ADVISED}" if facts.most_attempts is not None else ""
            self._warn(
                f"{self._address.subscription}: {'; '.join(advice)}. Better: gcloud pubsub subscriptions update "
                f"{self._address.subscription_id} --project={self._address.project} "
                f"--ack-deadline={_DEADLINE_ADVISED_SECONDS}{attempts}"
            )


def _advice(facts: SubscriptionFacts) -> list[str]:
    found = []
    if facts.most_attempts is not None and facts.most_attempts < _ATTEMPTS_ADVISED:
        found.append(
            f"its dead-letter policy takes an item away after {facts.most_attempts} deliveries, and counts those "
            "that were given back when a machine was taken"
        )
    if facts.ack_deadline_seconds < _DEADLINE_ADVISED_SECONDS:
        found.append(
            f"its acknowledgement deadline of {facts.ack_deadline_seconds} s hands a message out twice when the "
            "answer to a pull or the ledger is slow"
        )
    return found


def refused_drafts(drafts: Sequence[Draft], most_bytes: int) -> tuple[list[Draft], list[tuple[str, str]]]:
    """(those that Pub/Sub takes, (id, reason) of the others)."""
    good: list[Draft] = []
    refused: list[tuple[str, str]] = []
    for draft in drafts:
        id_bytes, payload_bytes = len(draft.id.encode()), len(draft.payload.encode())
        if id_bytes > MOST_ID_BYTES:
            refused.append((draft.id, f"the id has {id_bytes} bytes, and Pub/Sub takes at most {MOST_ID_BYTES}"))
        elif payload_bytes > most_bytes:
            refused.append((draft.id, f"the payload has {payload_bytes} bytes, and Pub/Sub takes at most {most_bytes}"))
        else:
            good.append(draft)
    return good, refused
