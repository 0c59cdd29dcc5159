"""How the EC2 instance metadata service, version 2, answers, whatever the instance is.

Facts as of 2026-11-30, from the EC2 guide, "Use the Instance Metadata Service to access instance metadata" and "Access
instance metadata": a session token by PUT with its life of 1 to 21600 s, which is echoed; no token with
`X-Forwarded-For`; 401 without a token or with one that has run out; 404 where there is nothing; a directory lists its
entries by lines. Version 1, which asks for no token, is off.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from outlast.emulate.metadata.exchange import Answer, Question, json_answer

_TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path, and no password
_ROOT = "/latest/meta-data"
_TTL = "x-aws-ec2-metadata-token-ttl-seconds"
_LONGEST_SECONDS = 21600

# By path below meta-data/; a text is answered as it is, anything else as JSON.
Entries = Mapping[str, Any]


class Imds:
    """The tokens that were given out, and what one gets for them. `now` counts seconds of the platform."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ends: dict[str, float] = {}

    def respond(self, question: Question, entries: Entries) -> Answer:
        """The answer to a question about the `entries` below `latest/meta-data/`."""
        if question.path == _TOKEN_PATH:
            return self._token(question)
        if not self._is_known(question.headers.get("x-aws-ec2-metadata-token", "")):
            return _error(401, "Unauthorized")
        if question.method not in ("GET", "HEAD"):
            return _error(405, "Method Not Allowed")
        if question.path != _ROOT and not question.path.startswith(f"{_ROOT}/"):
            return _error(404, "Not Found")
        return _entry(question.path.removeprefix(_ROOT).strip("/"), entries)

    def forget_tokens(self) -> None:
        """Every token has run out."""
        self._ends = {}

    def _token(self, question: Question) -> Answer:
        if question.method != "PUT":
            return _error(405, "Method Not Allowed")
        if "x-forwarded-for" in question.headers:
            return _error(403, "Forbidden")
        asked = question.headers.get(_TTL, "")
        if not re.fullmatch(r"\d{1,5}", asked) or not 1 <= int(asked) <= _LONGEST_SECONDS:
            return _error(400, "Bad Request")
        token = f"AQAEA{secrets.token_urlsafe(36)}=="
        self._ends = {old: end for old, end in self._ends.items() if end > self._now()}
        self._ends[token] = self._now() + int(asked)
        return Answer(200, token, {"Content-Type": "text/plain", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds": asked})

    def _is_known(self, token: str) -> bool:
        return self._ends.get(token, self._now()) > self._now()


def _entry(path: str, entries: Entries) -> Answer:
    if path in entries:
        said = entries[path]
        return Answer(200, said, {"Content-Type": "text/plain"}) if isinstance(said, str) else json_answer(said)
    below = sorted(set(_below(path, entries)))
    return Answer(200, "\n".join(below), {"Content-Type": "text/plain"}) if below else _error(404, "Not Found")


def _below(folder: str, entries: Entries) -> Iterator[str]:
    before = f"{folder}/" if folder else ""
    for path in entries:
        if path.startswith(before):
            name, slash, _ = path.removeprefix(before).partition("/")
            yield f"{name}{slash}"


def _error(status: int, title: str) -> Answer:
    page = f'<?xml version="1.0" encoding="iso-8859-1"?>\n<html><head><title>{status} - {title}</title></head></html>\n'
    return Answer(status, page, {"Content-Type": "text/html"})
