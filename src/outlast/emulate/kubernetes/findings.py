"""What validation finds wrong, field by field, and the checks that several kinds share.

Rules and words: k8s.io/apimachinery `util/validation` and `api/validation`, 2026-11-30.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from outlast.emulate.kubernetes.problems import Cause

Json = dict[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ENDS = "must start and end with an alphanumeric character"
_WORDS = {
    _LABEL: f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS} "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL.pattern}')",
    _SUBDOMAIN: f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    f"{_ENDS} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN.pattern}')",
    _LABEL_VALUE: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
    f"{_ENDS} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE.pattern}')",
    _NAME_PART: f"name part must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART.pattern}')",
}


def shown(value: Any) -> str:
    """A value as errors print it."""
    return json.dumps(value, separators=(",", ":"))


@dataclass
class Findings:
    """Collects what is wrong; each check names the field by its path."""

    causes: list[Cause] = field(default_factory=list)

    def invalid(self, path: str, value: Any, why: str) -> None:
        self.causes.append(Cause(path, "Invalid value", f"{shown(value)}: {why}"))

    def wrong(self, path: str, why: str) -> None:
        """An invalid value that is too large to be shown."""
        self.causes.append(Cause(path, "Invalid value", why))

    def required(self, path: str, why: str = "") -> None:
        self.causes.append(Cause(path, "Required value", why))

    def forbidden(self, path: str, why: str) -> None:
        self.causes.append(Cause(path, "Forbidden", why))

    def duplicate(self, path: str, value: Any) -> None:
        self.causes.append(Cause(path, "Duplicate value", shown(value)))

    def not_found(self, path: str, value: Any) -> None:
        self.causes.append(Cause(path, "Not found", shown(value)))

    def one_of(self, path: str, value: Any, values: Iterable[str]) -> bool:
        """Whether a text is among those that are supported."""
        if value in (known := sorted(values)):
            return True
        listed = ", ".join(f'"{one}"' for one in known)
        self.causes.append(Cause(path, "Unsupported value", f"{shown(value)}: supported values: {listed}"))
        return False

    def not_negative(self, path: str, value: int | None) -> None:
        if value is not None and value < 0:
            self.invalid(path, value, "must be greater than or equal to 0")

    def at_most_items(self, path: str, value: list[Any], most: int) -> None:
        if len(value) > most:
            self.causes.append(Cause(path, "Too many", f"{len(value)}: must have at most {most} items"))

    def is_label(self, text: str) -> bool:
        return len(text) <= 63 and _LABEL.fullmatch(text) is not None

    def domain_prefixed(self, path: str, value: str) -> None:
        """`domain/name`."""
        prefix, slash, name = value.partition("/")
        if not slash or not name or not _SUBDOMAIN.fullmatch(prefix):
            self.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')

    def label(self, path: str, value: str) -> None:
        """A DNS label: at most 63 characters, lower case."""
        self._text(path, value, _LABEL, 63)

    def subdomain(self, path: str, value: str) -> None:
        """Labels with dots between them: at most 253 characters, lower case."""
        self._text(path, value, _SUBDOMAIN, 253)

    def qualified(self, path: str, value: str) -> None:
        """A key of a label, an annotation or a taint: `name` or `prefix/name`."""
        prefix, slash, name = value.rpartition("/")
        if slash and (not _SUBDOMAIN.fullmatch(prefix) or "/" in prefix):
            self.invalid(path, value, f"prefix part {_WORDS[_SUBDOMAIN]}")
        if len(name) > 63:
            self.invalid(path, value, "name part must be no more than 63 characters")
        if not _NAME_PART.fullmatch(name):
            self.invalid(path, value, _WORDS[_NAME_PART])

    def label_value(self, path: str, value: str) -> None:
        self._text(path, value, _LABEL_VALUE, 63)

    def labels(self, path: str, labels: Json) -> None:
        for key, value in labels.items():
            self.qualified(path, key)
            self.label_value(path, value)

    def unchanged(self, path: str, old: Any, new: Any) -> None:
        if old != new:
            self.invalid(path, new, "field is immutable")

    def unique(self, path: str, items: list[Json], key: str) -> None:
        """That no two items have the same value of a field."""
        seen = set()
        for number, item in enumerate(items):
            if (value := item.get(key)) in seen:
                self.duplicate(f"{path}[{number}].{key}", value)
            seen.add(value)

    def selector(self, path: str, selector: Json) -> None:
        """A LabelSelector."""
        self.labels(f"{path}.matchLabels", selector.get("matchLabels") or {})
        for number, one in enumerate(selector.get("matchExpressions") or []):
            at = f"{path}.matchExpressions[{number}]"
            operators = ("In", "NotIn", "Exists", "DoesNotExist")
            if one.get("operator") not in operators:
                self.invalid(f"{at}.operator", one.get("operator", ""), "not a valid selector operator")
            elif one["operator"] in ("In", "NotIn") and not one.get("values"):
                self.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
            elif one["operator"] not in ("In", "NotIn") and one.get("values"):
                self.forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")

    def _text(self, path: str, value: str, pattern: "re.Pattern[str]", most: int) -> None:
        if len(value) > most:
            self.invalid(
                path, value, f"must be no more than {most} {'bytes' if pattern is _LABEL_VALUE else 'characters'}"
            )
        if not pattern.fullmatch(value):
            self.invalid(path, value, _WORDS[pattern])
