"""gs://BUCKET/FOLDER: checkpoints in Google Cloud Storage, by its JSON API."""

import json
import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import google.auth
import requests
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError, TransportError
from google.auth.transport.requests import AuthorizedSession
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from outlast.errors import SettingsError
from outlast.ports import Bytes
from outlast.stores.objects import (
    CONNECT_SECONDS,
    REQUEST_SECONDS,
    Absent,
    BucketStore,
    Parts,
    Patience,
    Refused,
    Taken,
    Unanswered,
    bucket_and_prefix,
)

_HOST = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_CONNECTIONS = 16
_PASSING = {408, 429}  # and 5xx; cloud.google.com/storage/docs/retry-strategy
_INCOMPLETE = 308  # of an upload: cloud.google.com/storage/docs/performing-resumable-uploads
_PARTIAL, _PAST_THE_END = 206, 416
_PIECE_BYTES = 1 << 20
_BLOCK_BYTES = 256 << 10
_PAGE_OBJECTS = 1000


def open_gcs(rest: str) -> BucketStore:
    """The store at `gs://` + rest; raises SettingsError for a URL that makes no sense.

    STORAGE_EMULATOR_HOST leads to another server, without credentials; else the application's default credentials
    are looked for at the first request.
    """
    bucket, prefix = bucket_and_prefix("gs", rest)
    return BucketStore(f"gs://{rest}", prefix, GcsBucket(bucket, _emulator(os.environ)))


def _emulator(env: Mapping[str, str]) -> str | None:
    host = (env.get("STORAGE_EMULATOR_HOST") or "").rstrip("/")
    if not host:
        return None
    if "://" not in host:
        host = f"http://{host}"
    if not host.startswith(("http://", "https://")):
        raise SettingsError(f"STORAGE_EMULATOR_HOST={host!r} is no address of a server, such as http://127.0.0.1:4443")
    return host


class GcsBucket:
    """A Cloud Storage bucket, as an objects.Bucket."""

    # A batch request is taken apart by the service, and each of its deletes counts and costs as one (Cloud Storage,
    # "Batch requests"; 2026-11-30): it would save connections, and those are kept open anyway.
    delete_batch = 1

    def __init__(self, name: str, emulator: str | None) -> None:
        self._name, self._emulated = name, emulator is not None
        self._host = emulator or _HOST
        self._made: requests.Session | None = None
        self._making = threading.Lock()

    def put_new(self, key: str, data: Bytes) -> None:
        query = {"uploadType": "multipart", "ifGenerationMatch": "0"}
        border, body = _related({"name": key}, data)
        kind = {"Content-Type": f"multipart/related; boundary={border}"}
        try:
            self._ask("POST", self._upload_url(query), data=_Blocks(memoryview(body)), headers=kind)
        except Absent as error:
            raise self._no_bucket() from error

    def put_parts(self, key: str, parts: Parts) -> None:
        upload = _Upload(self, self._begin(key))
        try:
            for part, last in parts:
                upload.send(part, last=last)
        except BaseException:
            upload.abort()
            raise

    def size(self, key: str) -> int:
        return int(self._ask("GET", f"{self._object_url(key)}?fields=size").json()["size"])

    def read_into(self, key: str, offset: int, target: memoryview) -> int:
        """Goes on where a broken connection left it."""
        patience, done = Patience(), 0
        while done < len(target):
            first, last = offset + done, offset + len(target) - 1
            wanted = {"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"}
            with self._ask("GET", f"{self._object_url(key)}?alt=media", headers=wanted, stream=True) as answer:
                if answer.status_code == _PAST_THE_END:
                    return done
                if first and answer.status_code != _PARTIAL:
                    raise Refused("the service gives no ranges of objects")
                moved, broken = _drained(answer, target[done:])
            done += moved
            if broken is None:
                return done
            if not moved and not patience.wait():
                raise Unanswered(f"the connection breaks in the middle of answers: {broken}") from broken
        return done

    def entries(self, prefix: str) -> Iterator[tuple[str, int]]:
        token = ""
        while True:
            query = {"prefix": prefix, "fields": "items(name,size),nextPageToken", "maxResults": str(_PAGE_OBJECTS)}
            query |= {"pageToken": token} if token else {}
            try:
                page = self._ask("GET", f"{self._objects_url()}?{urlencode(query)}").json()
            except Absent as error:
                raise self._no_bucket() from error
            for item in page.get("items", []):
                yield item["name"], int(item["size"])
            token = page.get("nextPageToken", "")
            if not token:
                return

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._ask("DELETE", self._object_url(key))
            except Absent:
                continue

    def once(self, method: str, url: str, **request: Any) -> requests.Response:
        """One request, answered with whatever status; raises Unanswered, or Refused for credentials."""
        bounded = (CONNECT_SECONDS, REQUEST_SECONDS)
        try:
            return self._session().request(method, url, timeout=bounded, allow_redirects=False, **request)
        except RefreshError as error:
            if error.retryable:
                raise Unanswered(_told(error)) from error
            raise Refused(f"the credentials are not accepted: {_told(error)}") from error
        except (requests.ConnectionError, requests.Timeout, TransportError) as error:
            raise Unanswered(_told(error)) from error
        except DefaultCredentialsError as error:
            raise Refused(f"no credentials were found; try: gcloud auth application-default login ({error})") from error
        except (GoogleAuthError, requests.RequestException) as error:
            raise Refused(_told(error)) from error

    def _ask(self, method: str, url: str, **request: Any) -> requests.Response:
        """A request, repeated with growing pauses while the service does not answer it."""
        patience = Patience()
        while True:
            try:
                answer = self.once(method, url, **request)
                problem = problem_of(answer)
            except Unanswered as error:
                problem = error
            if problem is None:
                return answer
            if not isinstance(problem, Unanswered) or not patience.wait():
                raise problem

    def _begin(self, key: str) -> str:
        url = self._upload_url({"uploadType": "resumable", "name": key})
        try:
            answer = self._ask("POST", url, data=b"{}", headers={"Content-Type": "application/json"})
        except Absent as error:
            raise self._no_bucket() from error
        return str(answer.headers["Location"])

    def _no_bucket(self) -> Refused:
        return Refused(f"there is no bucket {self._name!r}; make it first, or correct the name")

    def _session(self) -> requests.Session:
        with self._making:
            if self._made is None:
                # The default credentials may ask a metadata server, so they wait for the first request.
                self._made = requests.Session() if self._emulated else _authorized_session()
                for scheme in ("http://", "https://"):
                    self._made.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
            return self._made

    def _upload_url(self, query: Mapping[str, str]) -> str:
        return f"{self._host}/upload/storage/v1/b/{quote(self._name, safe='')}/o?{urlencode(query)}"

    def _objects_url(self) -> str:
        return f"{self._host}/storage/v1/b/{quote(self._name, safe='')}/o"

    def _object_url(self, key: str) -> str:
        return f"{self._objects_url()}/{quote(key, safe='')}"


class _Blocks:
    """A body that is sent in small blocks, as often as it is asked for.

    Python gives one timeout to all of a `sendall`, so a part in one block would have to pass within CONNECT_SECONDS.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[memoryview]:
        for start in range(0, len(self._data), _BLOCK_BYTES):
            yield self._data[start : start + _BLOCK_BYTES]


class _Upload:
    """A resumable upload: after a failure the part is sent again from where the service is known to have come.

    What it had taken of the part before that it passes over, and an upload that it had completed it answers as
    complete (cloud.google.com/storage/docs/performing-resumable-uploads, read 2026-11).
    """

    def __init__(self, bucket: GcsBucket, url: str) -> None:
        self._bucket, self._url = bucket, url
        self._kept = 0  # the bytes that the service is known to have

    def send(self, part: memoryview, *, last: bool) -> None:
        """Sends the next part; returns once the service has all of it."""
        patience, began = Patience(), self._kept
        end = began + len(part)
        while True:
            before = self._kept
            span = f"bytes {before}-{end - 1}/{end if last else '*'}"
            complete, trouble = self._put(part[before - began :], span)
            if complete and last:
                return
            if complete or not began <= self._kept <= end:
                raise Unanswered(f"the service has lost track of an upload (at byte {self._kept}, after {began})")
            if self._kept == end and not last:
                return
            if self._kept == before and not patience.wait():
                raise trouble or Unanswered("the service takes no more of an upload")

    def _put(self, body: memoryview, content_range: str) -> tuple[bool, Unanswered | None]:
        """(whether the object is complete, what went wrong if a repetition may help)."""
        try:
            answer = self._bucket.once("PUT", self._url, data=_Blocks(body), headers={"Content-Range": content_range})
        except Unanswered as error:
            return False, error
        if answer.status_code == _INCOMPLETE:
            header = answer.headers.get("Range")  # bytes=0-N; none for nothing
            self._kept = int(header.rpartition("-")[2]) + 1 if header else 0
            return False, None
        problem = problem_of(answer)
        if isinstance(problem, Absent):
            raise Unanswered("the service has forgotten an upload") from problem
        if problem is not None and not isinstance(problem, Unanswered):
            raise problem
        return problem is None, problem

    def abort(self) -> None:
        """Gives the upload up; the service would drop it by itself in a week."""
        with suppress(Unanswered, Refused):
            self._bucket.once("DELETE", self._url)


def _related(metadata: Mapping[str, str], data: Bytes) -> tuple[str, bytes]:
    """(the border between the parts, a body with an object's metadata and its content)."""
    border = secrets.token_hex(16)
    head = f"--{border}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(metadata)}\r\n"
    kind = f"--{border}\r\nContent-Type: application/octet-stream\r\n\r\n"
    return border, b"".join([head.encode(), kind.encode(), data, f"\r\n--{border}--".encode()])


def _drained(answer: requests.Response, target: memoryview) -> tuple[int, Exception | None]:
    """Fills a buffer from an answer's body: (the bytes moved, what broke it off)."""
    done = 0
    try:
        while done < len(target):
            moved = answer.raw.readinto(target[done : done + _PIECE_BYTES])
            if not moved:
                break
            done += moved
    except (HTTPError, OSError) as error:
        return done, error
    return done, None


def problem_of(answer: requests.Response) -> Exception | None:
    """What a status means; None for success."""
    status = answer.status_code
    if 200 <= status < 300 or status == _PAST_THE_END:
        return None
    said = f"status {status}: {_message(answer)}"
    if status == 404:
        return Absent(said)
    if status == 412:
        return Taken(said)
    if status in (401, 403):
        return Refused(f"access is denied; check the credentials and their rights ({said})")
    if status in _PASSING or status >= 500:
        return Unanswered(said)
    return Refused(f"the service refuses the request ({said})")


def _message(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError, requests.RequestException):
        return answer.reason or "without a message"


def _told(error: Exception) -> str:
    """An error in one line, without what a query may hold."""
    return re.sub(r"\?\S+", "", f"{type(error).__name__}: {error}".partition("\n")[0])


def _authorized_session() -> requests.Session:
    credentials, _project = google.auth.default(scopes=[_SCOPE])
    return AuthorizedSession(credentials)  # type: ignore[no-untyped-call]  # the library has no types there
