"""The part of Cloud Logging's query language that people and gcloud use: comparisons, AND, OR, NOT, parentheses.

Source: "Logging query language" of Cloud Logging's documentation (2026-11-30). What is not understood is refused.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from outlast.emulate import rfc3339
from outlast.emulate.cloud_run.log_book import SEVERITIES
from outlast.emulate.cloud_run.refusals import Refused

Predicate = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<comment>--[^\n]*)
      | (?P<bracket>[()])
      | (?P<operator><=|>=|!=|=~|!~|=|<|>|:)
      | (?P<word>(?:"(?:[^"\\]|\\.)*"|[^\s()"=<>!:]+)+)
    )""",
    re.VERBOSE,
)
_MOST_TOKENS = 500  # so that brackets in brackets come to an end
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')


def parse_filter(text: str) -> Predicate:
    """Whether an entry matches. Raises Refused for a filter that cannot be understood."""
    parser = _Parser(text)
    if not parser.tokens:
        return lambda _entry: True
    if len(parser.tokens) > _MOST_TOKENS:
        raise parser.refusal()
    found = parser.either()
    if parser.tokens:
        raise parser.refusal()
    return found


class _Parser:
    """Takes the tokens from the front. AND binds stronger than OR; what stands side by side is joined by AND."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise self.refusal()
            if match.lastgroup != "comment":
                self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def refusal(self) -> Refused:
        return Refused("INVALID_ARGUMENT", f"Unparseable filter: {self._text.strip()}")

    def either(self) -> Predicate:
        parts = [self._all()]
        while self._take("word", "OR"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else lambda entry: any(part(entry) for part in parts)

    def _all(self) -> Predicate:
        parts = [self._one()]
        while self.tokens and self.tokens[0] not in (("word", "OR"), ("bracket", ")")):
            self._take("word", "AND")
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda entry: all(part(entry) for part in parts)

    def _one(self) -> Predicate:
        if self._take("word", "NOT"):
            inner = self._one()
            return lambda entry: not inner(entry)
        if self._take("bracket", "("):
            inner = self.either()
            if not self._take("bracket", ")"):
                raise self.refusal()
            return inner
        left = self._word()
        if self.tokens and self.tokens[0][0] == "operator":
            operator = self.tokens.pop(0)[1]
            return self._compare(left, operator, _unquoted(self._word()))
        return _anywhere(_unquoted(left))

    def _compare(self, left: str, operator: str, value: str) -> Predicate:
        path = [_unquoted(part) for part in _PART.findall(left)]
        if path == ["severity"]:
            return self._compare_ranks(operator, value.upper())
        if path == ["timestamp"] and operator in ("<", "<=", ">", ">=", "=", "!="):
            return self._compare_moments(operator, value)
        if operator not in _ON_TEXT:
            raise self.refusal()
        test = _ON_TEXT[operator]
        if operator in ("=~", "!~"):
            try:
                re.compile(value)
            except re.error as error:
                raise self.refusal() from error
        return lambda entry: test(_at(entry, path), value)

    def _compare_ranks(self, operator: str, value: str) -> Predicate:
        if value not in SEVERITIES or operator not in _ON_ORDER:
            raise self.refusal()
        test, least = _ON_ORDER[operator], SEVERITIES.index(value)
        return lambda entry: test(SEVERITIES.index(entry.get("severity", "DEFAULT")), least)

    def _compare_moments(self, operator: str, value: str) -> Predicate:
        try:
            moment = rfc3339.parsed(value)
        except ValueError as error:
            raise self.refusal() from error
        test = _ON_ORDER[operator]
        return lambda entry: test(rfc3339.parsed(entry["timestamp"]), moment)

    def _word(self) -> str:
        if not self.tokens or self.tokens[0][0] != "word":
            raise self.refusal()
        return self.tokens.pop(0)[1]

    def _take(self, kind: str, text: str) -> bool:
        if self.tokens and self.tokens[0] == (kind, text):
            self.tokens.pop(0)
            return True
        return False


_ON_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
# Texts compare without regard to case; a field that is missing equals nothing and contains nothing.
_ON_TEXT: dict[str, Callable[[str | None, str], bool]] = {
    "=": lambda left, right: left is not None and left.casefold() == right.casefold(),
    "!=": lambda left, right: left is None or left.casefold() != right.casefold(),
    ":": lambda left, right: left is not None and (right == "*" or right.casefold() in left.casefold()),
    "=~": lambda left, right: left is not None and re.search(right, left) is not None,
    "!~": lambda left, right: left is None or re.search(right, left) is None,
}


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _at(entry: Mapping[str, Any], path: list[str]) -> str | None:
    """The value at a path, as text; None when there is none."""
    value: Any = entry
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(value)


def _anywhere(text: str) -> Predicate:
    """A bare word: whether it is in any of the entry's values."""
    return lambda entry: any(text.casefold() in value.casefold() for value in _texts(entry))


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [str(value)]
