"""The calls to Pub/Sub: unary, each bounded in time, repeated while the service does not answer."""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import grpc
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud import pubsub_v1
from google.pubsub_v1 import types
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from outlast.errors import QueueUnreachable, SettingsError
from outlast.items import Draft
from outlast.queues.pubsub_address import PubsubAddress
from outlast.queues.pubsub_checks import SubscriptionFacts
from outlast.queues.pubsub_messages import ID_ATTRIBUTE, MOST_MESSAGES, MOST_SECONDS, Delivery, delivery_of

# The limits of requests (pubsub_messages.py), a little below, for what wraps the ids.
_PUBLISH_BYTES = 10_000_000 - 2048
_AROUND_MESSAGE_BYTES = 64
_ACK_BYTES = 480_000
_AROUND_ACK_ID_BYTES = 4

_CALL_SECONDS = 10.0
_BULK_SECONDS = 30.0  # a pull or a publish may move megabytes
_FILL_SECONDS = 0.5
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_PASSING = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
}
_TRANSIENT, _PERMANENT = "TRANSIENT_FAILURE_", "PERMANENT_FAILURE_"


class PubsubService:
    """One subscription and its topic, by the official client, which heeds PUBSUB_EMULATOR_HOST.

    Each process has clients of its own, made at its first call. Calls raise QueueUnreachable when the service has not
    answered for `patience_seconds`, and SettingsError, with the command that helps, for what no repetition mends.
    """

    def __init__(self, address: PubsubAddress, *, patience_seconds: float = 8.0) -> None:
        self._address, self._patience_seconds = address, patience_seconds
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._clients: dict[str, Any] = {}
        self._left: list[dict[str, Any]] = []  # a parent's, which are not this process's to close

    def pull(self, most: int) -> list[Delivery]:
        """What the service has at hand, up to `most`; it may have none at hand although there are some.

        It often gives fewer than it is asked for, so it is asked for the rest, for a short time. The answer is asked
        for at once: to wait for one for a short time only, and then to hang up, can lose every answer on its way until
        its deadline (googleapis/python-pubsub#1414).
        """
        found: list[Delivery] = []
        until = time.monotonic() + _FILL_SECONDS
        while len(found) < most and (some := self._pull(min(most - len(found), MOST_MESSAGES))):
            found += some
            if time.monotonic() > until:
                break
        return found

    def _pull(self, most: int) -> list[Delivery]:
        name = self._address.subscription
        request = types.PullRequest(subscription=name, max_messages=most, return_immediately=True)
        answer = self._ask("subscriber", "pull", request, subscription=name, seconds=_BULK_SECONDS)
        return [delivery_of(message) for message in types.PullResponse.pb(answer).received_messages]

    def acknowledge(self, ack_ids: Sequence[str], *, within_seconds: float | None = None) -> frozenset[str]:
        """The messages are done with. Returns the ack ids that the service says are void.

        Only a subscription with exactly-once delivery says so; another one takes a void ack id in silence.
        `within_seconds` is the patience, by default the object's.
        """
        name, patience = self._address.subscription, self._patience(within_seconds)

        def ask(some: Sequence[str]) -> None:
            request = types.AcknowledgeRequest(subscription=name, ack_ids=some)
            self._ask("subscriber", "acknowledge", request, subscription=name, patience=patience)

        return self._for_all(ack_ids, ask, patience)

    def hold(self, ack_ids: Sequence[str], seconds: int, *, within_seconds: float | None = None) -> frozenset[str]:
        """If not acknowledged, messages come again in so many seconds, at most 600; 0 is at once. Returns likewise."""
        name, patience = self._address.subscription, self._patience(within_seconds)

        def ask(some: Sequence[str]) -> None:
            request = types.ModifyAckDeadlineRequest(
                subscription=name, ack_ids=some, ack_deadline_seconds=max(0, min(seconds, MOST_SECONDS))
            )
            self._ask("subscriber", "modify_ack_deadline", request, subscription=name, patience=patience)

        return self._for_all(ack_ids, ask, patience)

    def publish(self, topic: str, drafts: Sequence[Draft], more: Mapping[str, str] | None = None) -> None:
        """Hands the items to the topic, each with `more` attributes; when it returns, the service has them all."""
        for some in _requests(drafts):
            raw = types.PublishRequest.pb(types.PublishRequest(topic=topic))
            for name, data in some:
                raw.messages.add(data=data, attributes={**(more or {}), ID_ATTRIBUTE: name})
            request = types.PublishRequest.wrap(raw)
            self._ask("publisher", "publish", request, topic=topic, seconds=_BULK_SECONDS)

    def facts(self) -> SubscriptionFacts | None:
        """What the subscription is set to; None without the permission to look."""
        name = self._address.subscription
        try:
            found = self._ask(
                "subscriber", "get_subscription", types.GetSubscriptionRequest(subscription=name), subscription=name
            )
        except _Denied:
            return None
        policy = found.dead_letter_policy
        return SubscriptionFacts(
            topic=found.topic,
            ack_deadline_seconds=found.ack_deadline_seconds,
            most_attempts=policy.max_delivery_attempts or 5 if policy.dead_letter_topic else None,
            dead_letter_topic=policy.dead_letter_topic or None,
            pushes=bool(found.push_config.push_endpoint),
        )

    def close(self) -> None:
        with self._lock:
            clients, self._clients = self._clients, {}
            if self._owner == os.getpid():
                for client in clients.values():
                    client.transport.close()

    # --- one call -----------------------------------------------------------------------------------

    def _patience(self, within_seconds: float | None) -> float:
        return min(self._patience_seconds, math.inf if within_seconds is None else within_seconds)

    def _ask(
        self,
        kind: str,
        verb: str,
        request: Any,
        *,
        seconds: float = _CALL_SECONDS,
        patience: float | None = None,
        **routed: str,
    ) -> Any:
        """One request of at most so many seconds, repeated with growing pauses while the service does not answer it."""
        [(field, name)] = routed.items()
        routing = [("x-goog-request-params", f"{field}={quote(name, safe='')}")]
        patient_seconds = self._patience(patience)
        until, pause = time.monotonic() + patient_seconds, _FIRST_PAUSE_SECONDS
        while True:
            try:
                call = getattr(self._client(kind).transport, verb)
                return call(request, timeout=min(seconds, patient_seconds) if patience else seconds, metadata=routing)
            except grpc.RpcError as error:
                if _ack_failures(error) or error.code() not in _PASSING:
                    raise self._problem(error, name) from error
                if time.monotonic() + pause > until:
                    raise QueueUnreachable(
                        f"{self._address.shown}: Pub/Sub has not answered for {patient_seconds:.3g} s "
                        f"({error.code().name}: {error.details()})"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _for_all(self, ack_ids: Sequence[str], ask: Callable[[Sequence[str]], None], patience: float) -> frozenset[str]:
        """Asks for all ack ids, in as many requests as that takes; what fails for the moment is asked for again."""
        void: set[str] = set()
        until = time.monotonic() + patience
        for some in _pieces(ack_ids):
            left, pause = list(some), _FIRST_PAUSE_SECONDS
            while left:
                try:
                    ask(left)
                    break
                except _AckIdsRefused as error:
                    void |= error.void & set(left)
                    left = [one for one in left if one in error.passing]
                    if left and time.monotonic() > until:
                        raise QueueUnreachable(
                            f"{self._address.shown}: Pub/Sub does not settle {len(left)} messages now"
                        ) from error
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return frozenset(void)

    def _client(self, kind: str) -> Any:
        with self._lock:
            if self._owner != os.getpid():
                self._left.append(self._clients)
                self._clients, self._owner = {}, os.getpid()
            if kind not in self._clients:
                make = pubsub_v1.SubscriberClient if kind == "subscriber" else pubsub_v1.PublisherClient
                try:
                    self._clients[kind] = make()
                except DefaultCredentialsError as error:
                    raise SettingsError(
                        f"{self._address.shown}: no credentials were found ({error}); "
                        "try: gcloud auth application-default login"
                    ) from error
                except GoogleAuthError as error:
                    raise QueueUnreachable(f"{self._address.shown}: {error}") from error
            return self._clients[kind]

    def _problem(self, error: grpc.RpcError, name: str) -> Exception:
        failures = _ack_failures(error)
        if failures:
            return _AckIdsRefused(
                void=frozenset(one for one, why in failures.items() if why.startswith(_PERMANENT)),
                passing=frozenset(one for one, why in failures.items() if why.startswith(_TRANSIENT)),
            )
        where, code = self._address, error.code()
        said = f"{code.name}: {error.details()}"
        kind, project, short = _resource(name)
        if code is grpc.StatusCode.NOT_FOUND:
            make = _making(name, (where.topic or "TOPIC").rpartition("/")[2], os.environ.get("PUBSUB_EMULATOR_HOST"))
            return SettingsError(
                f"{where.shown}: there is no {kind} {short} in project {project} ({said}); make it: {make}"
            )
        if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
            role = "subscriber" if kind == "subscription" else "publisher"
            return _Denied(
                f"{where.shown}: access to {kind} {short} is denied ({said}); allow it: gcloud pubsub {kind}s "
                f"add-iam-policy-binding {short} --project={project} --member=serviceAccount:ACCOUNT "
                f"--role=roles/pubsub.{role}, or log in: gcloud auth application-default login"
            )
        return SettingsError(f"{where.shown}: Pub/Sub refuses the request ({said})")


class _Denied(SettingsError):
    """The credentials do not allow this."""


class _AckIdsRefused(Exception):
    """Of the ack ids in a request some are void, and some did not pass for the moment; all others did."""

    def __init__(self, *, void: frozenset[str], passing: frozenset[str]) -> None:
        super().__init__(f"{len(void)} ack ids are void, {len(passing)} failed for the moment")
        self.void, self.passing = void, passing


def _ack_failures(error: Any) -> dict[str, str]:
    """{ack id: why} of an error that is about single ack ids (cloud.google.com/pubsub/docs/exactly-once-delivery)."""
    status = rpc_status.from_call(error)
    found: dict[str, str] = {}
    for detail in status.details if status is not None else ():
        info = ErrorInfo()
        if detail.Is(ErrorInfo.DESCRIPTOR) and detail.Unpack(info):
            found |= {one: why for one, why in info.metadata.items() if why.startswith((_TRANSIENT, _PERMANENT))}
    return found


def _resource(name: str) -> tuple[str, str, str]:
    """("topic", project, short name) of projects/P/topics/T."""
    _, project, kinds, short = name.split("/", 3)
    return kinds.removesuffix("s"), project, short


def _making(name: str, topic: str, emulator: str | None) -> str:
    """The command that makes what is missing; of a subscription its topic may be missing, too.

    For an emulator it is not gcloud, which would make it in the real cloud.
    """
    kind, project, short = _resource(name)
    of_topic = name if kind == "topic" else f"projects/{project}/topics/{topic}"
    if emulator:
        put = f"curl -sX PUT http://{emulator}/v1"
        body = json.dumps({"topic": of_topic, "ackDeadlineSeconds": 60})
        then = f"; {put}/{name} -H 'Content-Type: application/json' -d '{body}'" if kind == "subscription" else ""
        return f"{put}/{of_topic}{then}"
    if kind == "topic":
        return f"gcloud pubsub topics create {short} --project={project}"
    return (
        f"gcloud pubsub subscriptions create {short} --project={project} --topic={topic} --ack-deadline=60 (its topic "
        f"first, if that is missing, too: gcloud pubsub topics create {topic} --project={project})"
    )


def _pieces(ack_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Ack ids in requests of allowed size."""
    start, size = 0, 0
    for end, one in enumerate(ack_ids):
        own = len(one) + _AROUND_ACK_ID_BYTES
        if end > start and size + own > _ACK_BYTES:
            yield ack_ids[start:end]
            start, size = end, 0
        size += own
    if start < len(ack_ids):
        yield ack_ids[start:]


def _requests(drafts: Sequence[Draft]) -> Iterator[list[tuple[str, bytes]]]:
    """(id, data) of items in publish requests of allowed size."""
    some: list[tuple[str, bytes]] = []
    size = 0
    for draft in drafts:
        data = draft.payload.encode()
        own = len(data) + len(draft.id.encode()) + _AROUND_MESSAGE_BYTES
        if some and (len(some) == MOST_MESSAGES or size + own > _PUBLISH_BYTES):
            yield some
            some, size = [], 0
        some.append((draft.id, data))
        size += own
    if some:
        yield some
