"""How Compute Engine's metadata server answers, whatever the machine is.

Facts as of 2026-11-30, from "View and query VM metadata" and "About VM metadata": questions carry
`Metadata-Flavor: Google` and no `X-Forwarded-For`; a directory ends with a slash and lists its entries by lines;
`recursive=true` gives all that is below, as JSON unless `alt=text`; `alt=json` gives a single value as JSON;
`wait_for_change=true` waits until the value's ETag is another than `last_etag`, at most `timeout_sec`; on directories
it needs `recursive=true`. The names of default entries are in camel case in JSON, those of attributes as they are.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from outlast.emulate.metadata.exchange import Answer, Hang, Question

ROOT = "/computeMetadata/v1/"
_HEADERS = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_KNOWN = {"recursive", "alt", "wait_for_change", "last_etag", "timeout_sec"}
_FOR_EVER = 86400.0 * 365
_BELONGS_TO_THE_USER = "attributes"  # custom metadata: names are not changed


class Whole(dict[str, Any]):
    """A value that is a JSON object, and no directory."""


# A directory is a dict; a value is a text, some texts (which are lines or a JSON array), or a Whole.
Tree = Mapping[str, Any]


def respond(question: Question, tree: Tree) -> Answer | Hang:
    """The answer to a question about `tree`, which begins below `computeMetadata/v1/`."""
    why = _forbidden(question)
    if why is not None:
        return why
    if question.path == "/":
        return Answer(200, "computeMetadata/\n", {**_HEADERS, "Content-Type": "application/text"})
    if f"{question.path}/" == ROOT:
        return _moved(ROOT)
    found = _find(tree, question.path.removeprefix(ROOT)) if question.path.startswith(ROOT) else None
    if found is None:
        return _not_found(question.path)
    if _is_folder(found) and not question.path.endswith("/"):
        return _moved(f"{question.path}/", question.query)
    return _value(question, found)


def _forbidden(question: Question) -> Answer | None:
    """The answer to a question that is not asked as it should be."""
    if question.headers.get("metadata-flavor") != "Google":
        return _refused(403, "Missing Metadata-Flavor:Google header.")
    if "x-forwarded-for" in question.headers:
        return _refused(403, "X-Forwarded-For is not allowed.")
    if question.method not in ("GET", "HEAD"):
        return _refused(405, f"{question.method} is not allowed here.")
    wrong = _wrong(question.query)
    return None if wrong is None else _refused(400, wrong)


def _value(question: Question, found: Any) -> Answer | Hang:
    query = question.query
    recursive, hangs = (query.get(name, "").lower() == "true" for name in ("recursive", "wait_for_change"))
    if hangs and _is_folder(found) and not recursive:
        return _refused(400, "wait_for_change on a directory needs recursive=true.")
    name = question.path.rstrip("/").rpartition("/")[2]
    body, kind = _written(found, query.get("alt", "json" if recursive and _is_folder(found) else None), recursive, name)
    etag = hashlib.sha256(body.encode()).hexdigest()[:16]
    if hangs and question.may_hang and query.get("last_etag", etag) == etag:
        again = replace(question, query={**query, "last_etag": etag})
        return Hang(again, float(query.get("timeout_sec", _FOR_EVER)))
    return Answer(200, body, {**_HEADERS, "Content-Type": kind, "ETag": etag})


def _wrong(query: Mapping[str, str]) -> str | None:
    """What is wrong with the parameters, if something is."""
    unknown = sorted(set(query) - _KNOWN)
    if unknown:
        return f"Unknown parameter {unknown[0]}."
    for name in ("recursive", "wait_for_change"):
        if query.get(name, "true").lower() not in ("true", "false"):
            return f"Invalid value for {name}."
    if query.get("alt", "json") not in ("json", "text"):
        return "Invalid value for alt."
    if not re.fullmatch(r"\d{1,9}", query.get("timeout_sec", "1")):
        return "Invalid value for timeout_sec."
    return None


def _find(tree: Tree, path: str) -> Any:
    """What stands at a path; None if nothing does. A value's path has no slash at its end."""
    here: Any = tree
    for name in path.rstrip("/").split("/") if path else ():
        if not _is_folder(here) or name not in here:
            return None
        here = here[name]
    return None if path.endswith("/") and not _is_folder(here) else here


def _is_folder(found: Any) -> bool:
    return isinstance(found, Mapping) and not isinstance(found, Whole)


def _written(found: Any, alt: str | None, recursive: bool, name: str) -> tuple[str, str]:
    """The body and its type."""
    if _is_folder(found) and not recursive:
        if alt == "json":
            return json.dumps([*_entries(found)]), "application/json"
        return "".join(f"{line}\n" for line in _entries(found)), "application/text"
    if alt == "json" or (alt is None and not isinstance(found, str)):
        return json.dumps(_as_json(found, name)), "application/json"
    if _is_folder(found):
        return "".join(f"{line}\n" for line in _lines(found)), "application/text"
    return _as_text(found), "application/text"


def _entries(folder: Tree) -> Iterator[str]:
    return (f"{name}/" if _is_folder(value) else name for name, value in sorted(folder.items()))


def _as_json(found: Any, name: str) -> Any:
    if not _is_folder(found):
        return list(found) if isinstance(found, tuple) else found
    own = name == _BELONGS_TO_THE_USER
    return {key if own else _camel(key): _as_json(value, key) for key, value in found.items()}


def _lines(folder: Tree, before: str = "") -> Iterator[str]:
    for name, value in sorted(folder.items()):
        if _is_folder(value):
            yield from _lines(value, f"{before}{name}/")
        else:
            yield f"{before}{name} {_as_text(value)}"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(value) if isinstance(value, tuple) else json.dumps(value)


def _camel(name: str) -> str:
    first, *others = name.split("-")
    return first + "".join(other.capitalize() for other in others)


def _refused(status: int, why: str) -> Answer:
    return Answer(status, f"{why}\n", {**_HEADERS, "Content-Type": "text/html; charset=UTF-8"})


def _not_found(path: str) -> Answer:
    return _refused(404, f"The requested URL {path} was not found on this server.")


def _moved(path: str, query: Mapping[str, str] | None = None) -> Answer:
    asked = "&".join(f"{name}={value}" for name, value in (query or {}).items())
    return Answer(301, "", {**_HEADERS, "Location": f"{path}?{asked}" if asked else path})
