"""The official Pub/Sub emulator for the tests: one per test run, or one of a test's own that can be restarted."""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from service.servers import free_port, listens, shared, start_kept, wait_for

PROJECT = "outlast-test"


def pubsub_server() -> str:
    """HOST:PORT of a Pub/Sub server; raises what pytest.skip raises where none is installed."""
    return shared("pubsub", start_pubsub)


def fresh_subscription(
    host: str, *, ack_deadline: int = 10, exactly_once: bool = False, most_attempts: int | None = None
) -> str:
    """A URL without a ledger, pubsub://PROJECT/SUBSCRIPTION?topic=TOPIC, of a new subscription to a new topic.

    With `most_attempts` it has a dead-letter policy, whose topic has a subscription dead-SUBSCRIPTION.
    """
    name = secrets.token_hex(6)
    make_subscription(
        host, f"jobs-{name}", f"t-{name}", ack_deadline=ack_deadline, exactly_once=exactly_once, attempts=most_attempts
    )
    return f"pubsub://{PROJECT}/jobs-{name}?topic=t-{name}"


def make_subscription(
    host: str, name: str, topic: str, *, ack_deadline: int = 10, exactly_once: bool = False, attempts: int | None = None
) -> None:
    """Makes a topic and a subscription to it."""
    from google.cloud import pubsub_v1

    with mock.patch.dict(os.environ, {"PUBSUB_EMULATOR_HOST": host}):
        publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    with closing(subscriber.transport), closing(publisher.transport):
        path = f"projects/{PROJECT}/topics/{topic}"
        publisher.create_topic(request={"name": path})
        wanted = {
            "name": f"projects/{PROJECT}/subscriptions/{name}",
            "topic": path,
            "ack_deadline_seconds": ack_deadline,
            "enable_exactly_once_delivery": exactly_once,
        }
        if attempts is not None:
            dead = f"projects/{PROJECT}/topics/dead-{name}"
            publisher.create_topic(request={"name": dead})
            dead_subscription = f"projects/{PROJECT}/subscriptions/dead-{name}"
            subscriber.create_subscription(request={"name": dead_subscription, "topic": dead})
            wanted["dead_letter_policy"] = {"dead_letter_topic": dead, "max_delivery_attempts": attempts}
        subscriber.create_subscription(request=wanted)


def start_pubsub(port: int) -> str:
    """Starts an emulator that ends with the test run; returns its HOST:PORT."""
    start_kept("pubsub", command(port))
    wait_for(lambda: listens(port), "the Pub/Sub emulator")
    return f"127.0.0.1:{port}"


class OwnServer:
    """An emulator of one test; it forgets everything when it ends."""

    def __init__(self) -> None:
        self._port = free_port()
        self.host = f"127.0.0.1:{self._port}"
        self._keeper: int | None = None

    def start(self) -> None:
        self._keeper = start_kept("pubsub-own", command(self._port))
        wait_for(lambda: listens(self._port), "the Pub/Sub emulator")

    def stop(self) -> None:
        """A crash: the server ends with its keeper."""
        if self._keeper is not None:
            os.kill(self._keeper, signal.SIGKILL)
            self._keeper = None
            wait_for(lambda: not listens(self._port), "the end of the Pub/Sub emulator")


@contextmanager
def own_server() -> Iterator[OwnServer]:
    """A running emulator that the test may stop and start."""
    command(0)  # or the test is skipped
    server = OwnServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def command(port: int) -> list[str]:
    java, archive = shutil.which("java"), _emulator()
    if java is None or archive is None:
        pytest.skip("the Pub/Sub emulator needs java and Google Cloud's SDK with pubsub-emulator")
    small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [java, *small, "-jar", str(archive), "--host=127.0.0.1", f"--port={port}"]


@cache
def _emulator() -> Path | None:
    """The emulator's archive in Google Cloud's SDK: that of CLOUDSDK_ROOT, else of the gcloud on PATH."""
    gcloud = shutil.which("gcloud")
    roots = [Path(root)] if (root := os.environ.get("CLOUDSDK_ROOT")) else []
    if gcloud is not None:
        roots += [Path(gcloud).resolve().parents[1]]
        found = _archives(roots)
        if not found:
            asked = [gcloud, "info", "--format=value(installation.sdk_root)"]
            told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
            roots += [Path(told.stdout.strip())] if told.stdout.strip() else []
    found = _archives(roots)
    return found[-1] if found else None


def _archives(roots: list[Path]) -> list[Path]:
    return [
        archive
        for root in roots
        for archive in sorted((root / "platform/pubsub-emulator/lib").glob("cloud-pubsub-emulator-*.jar"))
    ]
