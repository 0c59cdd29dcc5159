"""Label selectors as text in a query: `a=b,c!=d,e in (f, g),h,!i`, as Kubernetes and Cloud Run's API take them.

Sources: Kubernetes, "Labels and Selectors"; Cloud Run Admin API v1, namespaces.executions.list (2026-11-30).
"""

import re
from collections.abc import Callable, Collection, Mapping

Labels = Mapping[str, str]

_SET = re.compile(r"\s*(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)\s*")
_EQUAL = re.compile(r"\s*(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=,()]*)\s*")
_EXISTS = re.compile(r"\s*(?P<no>!?)\s*(?P<key>[^\s!=,()]+)\s*")
_BETWEEN = re.compile(r",(?![^()]*\))")  # a comma outside of parentheses


Check = Callable[[str, Collection[str]], None]


def _takes_any(_key: str, _values: Collection[str]) -> None:
    """Every text may be a key or a value."""


def label_selector(text: str, check: Check = _takes_any) -> Callable[[Labels], bool]:
    """Whether labels are selected; an empty selector selects all. Raises ValueError for what cannot be parsed.

    `check` is asked about the key and the values of each requirement, and may raise what it likes.
    """
    tests = [_requirement(part, check) for part in _BETWEEN.split(text) if part.strip()]
    return lambda labels: all(test(labels) for test in tests)


def _requirement(part: str, check: Check) -> Callable[[Labels], bool]:
    if matched := _SET.fullmatch(part):
        key, values = matched["key"], {value.strip() for value in matched["values"].split(",")}
        check(key, values)
        wanted = matched["operator"] == "in"
        return lambda labels: (labels.get(key) in values) is wanted
    if matched := _EQUAL.fullmatch(part):
        key, value = matched["key"], matched["value"]
        check(key, {value})
        wanted = matched["operator"] != "!="
        return lambda labels: (labels.get(key) == value) is wanted
    if matched := _EXISTS.fullmatch(part):
        key, wanted = matched["key"], not matched["no"]
        check(key, ())
        return lambda labels: (key in labels) is wanted
    raise ValueError(f'unable to parse requirement: found "{part.strip()}", expected: a label requirement')
