"""A question to a metadata server and its answer, apart from any server: what HTTP carries, and nothing of how."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True, slots=True)
class Question:
    """A request: `headers` by lower-case name, `path` without its query.

    `may_hang`: whether the answer may wait for a change, if the question asks for that.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    may_hang: bool = True

    @classmethod
    def read(cls, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes = b"") -> "Question":
        """From the parts of a request; of a name that comes twice in the query, the last one counts."""
        known = {name.lower(): value for name, value in headers.items()}
        return cls(method, path, dict(parse_qsl(query, keep_blank_values=True)), known, body)

    def at_last(self) -> "Question":
        """The same, which now wants an answer at once."""
        return replace(self, may_hang=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; its headers do not name the length."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer yet: `question` is to be asked again at each change, and after `seconds` for the last time."""

    question: Question
    seconds: float


Respond = Callable[[Question], Answer | Hang]


def json_answer(said: Any, status: int = 200) -> Answer:
    """As JSON."""
    return Answer(status, json.dumps(said), {"Content-Type": "application/json"})
