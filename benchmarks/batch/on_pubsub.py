"""Pub/Sub with Google's client on the emulator: streaming pull with a callback, and a loop of unary pulls by hand.

Results are upserted into an SQLite file, since Pub/Sub keeps none. A message counts as acknowledged once the server has
answered (unary), or once the client took the acknowledgement (streaming), which favours the peer.
"""

import json
import os
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.batch.contender import Place, Span, payload_of
from benchmarks.batch.results import TABLE, UPSERT, connect, right_ones, row_of, rows_in

PROJECT = "outlast-bench"
_ACK_DEADLINE_SECONDS = 60
_LONGEST_SECONDS = 240.0
_BUFFERED = 1000  # messages that the client holds: its default


def fresh_subscription(server: str) -> tuple[str, str, str]:
    """(project, topic, subscription), new on the emulator at HOST:PORT, which all clients of this process use then."""
    os.environ["PUBSUB_EMULATOR_HOST"] = server
    from google.cloud import pubsub_v1

    name = f"bench-{secrets.token_hex(6)}"
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    topic = publisher.topic_path(PROJECT, name)
    publisher.create_topic(name=topic)
    subscriber.create_subscription(
        name=subscriber.subscription_path(PROJECT, name), topic=topic, ack_deadline_seconds=_ACK_DEADLINE_SECONDS
    )
    return PROJECT, name, name


class _Messages:
    """A topic, a subscription to it, and the table of results."""

    def __init__(self, place: Place) -> None:
        project, topic, subscription = fresh_subscription(place.server)
        from google.cloud import pubsub_v1

        batches = pubsub_v1.types.BatchSettings(max_messages=1000, max_bytes=5_000_000, max_latency=0.05)
        self.publisher = pubsub_v1.PublisherClient(batch_settings=batches)
        self.subscriber = pubsub_v1.SubscriberClient()
        self.topic = self.publisher.topic_path(project, topic)
        self.subscription = self.subscriber.subscription_path(project, subscription)
        self.path = Path(place.folder) / "results.db"
        self.results = connect(self.path)
        self.results.execute(TABLE)
        self.all, self.acknowledged = 0, 0

    def publish(self, ids: Sequence[str]) -> None:
        """In the client's own bundles, as large as Pub/Sub takes them."""
        self.all = len(ids)
        rows = (json.dumps({"id": name, **payload_of(name)}).encode() for name in ids)
        for future in [self.publisher.publish(self.topic, data) for data in rows]:
            future.result(60)

    def stored(self) -> int:
        return right_ones(rows_in(self.path))

    def left(self) -> int:
        return self.all - self.acknowledged


class StreamingPull:
    """`subscribe` with a callback that stores and acknowledges; the client's own threads and flow control."""

    def __init__(self, place: Place) -> None:
        self._messages, self._lock, self._done = _Messages(place), threading.Lock(), threading.Event()
        self.publish, self.stored, self.left = self._messages.publish, self._messages.stored, self._messages.left

    def drain(self, span: Span) -> None:
        from google.cloud import pubsub_v1

        messages = self._messages

        def callback(message: "pubsub_v1.subscriber.message.Message") -> None:
            name = json.loads(message.data)["id"]
            with self._lock:
                span.item()
                messages.results.execute(UPSERT, row_of(name))
                message.ack()
                messages.acknowledged += 1
                if messages.acknowledged == messages.all:
                    span.end()
                    self._done.set()

        flow = pubsub_v1.types.FlowControl(max_messages=_BUFFERED)
        pull = messages.subscriber.subscribe(messages.subscription, callback, flow_control=flow)
        try:
            if not self._done.wait(_LONGEST_SECONDS):
                raise RuntimeError(f"{messages.left()} messages never came")
        finally:
            pull.cancel()
            pull.result(60)


class RawPubSub:
    """Unary pulls of a chunk, an upsert of them in one transaction, one acknowledgement for all of them."""

    def __init__(self, place: Place) -> None:
        self._messages, self._chunk = _Messages(place), place.chunk
        self.publish, self.stored, self.left = self._messages.publish, self._messages.stored, self._messages.left

    def drain(self, span: Span) -> None:
        messages = self._messages
        while messages.left():
            asked = {"subscription": messages.subscription, "max_messages": self._chunk}
            received = messages.subscriber.pull(request=asked, timeout=60.0).received_messages
            if not received:
                continue
            span.chunk(len(received))
            names = [json.loads(one.message.data)["id"] for one in received]
            messages.results.execute("BEGIN IMMEDIATE")
            messages.results.executemany(UPSERT, map(row_of, names))
            messages.results.execute("COMMIT")
            ack_ids = [one.ack_id for one in received]
            messages.subscriber.acknowledge(subscription=messages.subscription, ack_ids=ack_ids)
            messages.acknowledged += len(received)
