"""The door to buckets through obstore: what S3 and Azure have in common."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from outlast.ports import Bytes
from outlast.stores.objects import (
    CONNECT_SECONDS,
    PART_BYTES,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    Absent,
    Parts,
    Patience,
    Refused,
    Taken,
    Unanswered,
)

if TYPE_CHECKING:  # names that exist for type checkers only
    from obstore.store import AzureStore, ClientConfig, RetryConfig, S3Store

# Eight parts at a time, as the engine asks for, pass within this over some 10 Mbit/s.
LARGE_REQUEST_SECONDS = 120.0
_LARGE_BYTES = 1 << 20
_PARTS_AT_A_TIME = 2  # per object; the engine writes several objects at a time
_STATUS = re.compile(r"status code: (\d{3})")
_PAST_THE_END = 416
_PASSING = {408, 409, 416, 425, 429}  # client errors in name only: the same request may succeed later
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted")
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "no credentials", "credentials not")

T = TypeVar("T")


def client_settings(*, allow_http: bool, large: bool = False) -> "ClientConfig":
    """Bounded timeouts; plain HTTP only for an endpoint that the user named with it.

    `large`: for requests that move much. The client's limit is for all of a request, its body included.
    """
    return {
        "timeout": timedelta(seconds=LARGE_REQUEST_SECONDS if large else REQUEST_SECONDS),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "allow_http": allow_http,
    }


def retry_settings() -> "RetryConfig":
    """Bounded retries of one request: some ten seconds against a port where nobody listens."""
    return {
        "max_retries": 6,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        "backoff": {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=4), "base": 2},
    }


class ObstoreBucket:
    """An S3 bucket or Azure container, as an objects.Bucket.

    `large`: the client for requests that move much. `single`: one that removes each object by a request of its own.
    """

    # DeleteObjects of S3 takes as many; Azure's Blob Batch takes 256, and the client splits what is more (2026-11-30).
    delete_batch = 1000

    def __init__(
        self, client: "S3Store | AzureStore", large: "S3Store | AzureStore", single: "S3Store | AzureStore"
    ) -> None:
        self._client, self._large, self._single = client, large, single
        self._removes_together = True  # until it is known better

    def _for(self, size: int) -> "S3Store | AzureStore":
        return self._large if size > _LARGE_BYTES else self._client

    def put_new(self, key: str, data: Bytes) -> None:
        _patiently(lambda: self._put(key, data))

    def _put(self, key: str, data: Bytes) -> None:
        with _translating():
            obstore.put(self._for(memoryview(data).nbytes), key, data, mode="create", use_multipart=False)

    def put_parts(self, key: str, parts: Parts) -> None:
        # Each part is retried by itself. When the iterator raises, obstore aborts the upload and lets it through.
        with _translating():
            obstore.put(
                self._large,
                key,
                (part for part, _ in parts),
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_AT_A_TIME,
            )

    def size(self, key: str) -> int:
        with _translating():
            return obstore.head(self._client, key)["size"]

    def read_into(self, key: str, offset: int, target: memoryview) -> int:
        if not len(target):
            return 0
        try:
            found = _patiently(lambda: self._range(key, offset, len(target)))
        except _PastTheEnd:
            return 0
        target[: len(found)] = found
        return len(found)

    def _range(self, key: str, offset: int, length: int) -> memoryview:
        with _translating():
            return memoryview(obstore.get_range(self._for(length), key, start=offset, length=length))

    def entries(self, prefix: str) -> Iterator[tuple[str, int]]:
        with _translating():
            for page in obstore.list(self._client, prefix.rstrip("/") or None):
                for entry in page:
                    yield entry["path"], entry["size"]

    def delete(self, keys: Sequence[str]) -> None:
        together = self._removes_together and len(keys) > 1
        try:
            if together:
                with _translating():
                    obstore.delete(self._client, list(keys))
                return
        except Absent:  # as some services say of one among them that is gone
            together = False
        except (Refused, Unanswered):  # not every service that speaks S3 has DeleteObjects
            pass
        for key in keys:
            with suppress(Absent), _translating():
                obstore.delete(self._single, key)
        if together:  # one by one they went
            self._removes_together = False


class _PastTheEnd(Exception):
    """A range that begins where the object has ended."""


def _patiently(ask: Callable[[], T]) -> T:
    """What the client does not repeat: a create whose connection broke, an answer that broke off in the middle."""
    patience = Patience()
    while True:
        try:
            return ask()
        except Unanswered:
            if not patience.wait():
                raise


@contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise _translated(error) from error


def _translated(error: BaseError | FileNotFoundError) -> Exception:
    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    reason = _reason_to_refuse(error, text, status)
    if reason:
        return Refused(f"{reason} ({_told(text)})")
    if isinstance(error, AlreadyExistsError | PreconditionError):
        return Taken(_told(text))
    if isinstance(error, FileNotFoundError):
        return Absent(_told(text))
    return _PastTheEnd(_told(text)) if status == _PAST_THE_END else Unanswered(_told(text))


def _reason_to_refuse(error: Exception, text: str, status: int) -> str | None:
    """Why no retry would help, and what would; None where one may, or where nothing is wrong with the bucket."""
    if any(word in text for word in _NO_CREDENTIALS) and status < 500:
        return "no credentials were found in the environment, nor a machine's own"
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return "access is denied; check the credentials and their rights"
    if any(word in text for word in _NO_BUCKET):
        return "there is no such bucket; make it first, or correct the name"
    if "configured region" in text:
        return "the bucket is in another region; set AWS_REGION"
    ordinary = isinstance(error, FileNotFoundError | AlreadyExistsError | PreconditionError)
    if 400 <= status < 500 and status not in _PASSING and not ordinary:
        return "the service refuses the request"
    return None


def _told(text: str) -> str:
    """The first line of an error, without what a query may hold: a signature, say."""
    line = text.partition("\n")[0].partition(" - Server returned")
    status = _STATUS.search(text)
    code = re.search(r"<Code>(\w+)</Code>", text)
    said = [line[0], f"status {status[1]}" if status else "", code[1] if code else ""]
    return re.sub(r"\?\S+", "", ", ".join(part for part in said if part))


def open_bucket(
    make: Callable[["ClientConfig"], object],
    url: str,
    *,
    allow_http: bool,
    make_single: Callable[["ClientConfig"], object] | None = None,
) -> ObstoreBucket:
    """A bucket, by what makes a client of it; raises Refused where the settings make no sense.

    `make_single`: makes one that removes objects by a request for each, where `make` makes one that does not.
    """
    try:
        clients = [make(client_settings(allow_http=allow_http, large=large)) for large in (False, True)]
        clients.append((make_single or make)(client_settings(allow_http=allow_http)))
        return ObstoreBucket(*cast("list[S3Store | AzureStore]", clients))
    except (BaseError, ValueError) as error:
        raise Refused(f"{url}: {str(error).partition(chr(10))[0]}") from error
