"""How Azure's Instance Metadata Service answers about Scheduled Events and the machine's own name.

Facts as of 2026-11-30, from "Azure Metadata Service: Scheduled Events for Linux VMs" and "Azure Instance Metadata
Service": `Metadata: true` and no `X-Forwarded-For`; an api-version, of which this speaks one each; a document with its
incarnation; events are started by POST of StartRequests, with 200 for a known event, also a second time, and 400 for
what is malformed. A single value of instance/ needs format=text.
"""

from collections.abc import Callable, Mapping
from typing import Any

from outlast.emulate.metadata.exchange import Answer, Question, json_answer
from outlast.emulate.reading import read_json

EVENTS_PATH, INSTANCE_PATH = "/metadata/scheduledevents", "/metadata/instance"
_VERSIONS = {EVENTS_PATH: "2020-07-01", INSTANCE_PATH: "2021-02-01"}
_PARAMETERS = {EVENTS_PATH: {"api-version"}, INSTANCE_PATH: {"api-version", "format"}}


def respond(
    question: Question, instance: Mapping[str, Any], document: Any, start: Callable[[list[str]], bool]
) -> Answer:
    """The answer. `document` is that of the events; `start` starts events by their ids, False if one is unknown."""
    kind = EVENTS_PATH if question.path == EVENTS_PATH else INSTANCE_PATH
    wrong = _wrong(question, kind)
    if wrong is not None:
        return wrong
    if question.path == EVENTS_PATH:
        if question.method == "POST":
            return _started(question.body, start)
        return json_answer(document) if question.method == "GET" else _refused("Method not allowed", 405)
    if question.method != "GET":
        return _refused("Method not allowed", 405)
    return _of_instance(question, instance)


def _wrong(question: Question, kind: str) -> Answer | None:
    if question.path != kind and not question.path.startswith(f"{INSTANCE_PATH}/"):
        return _refused("Not found", 404)
    if question.headers.get("metadata", "").lower() != "true":
        return _refused("Bad request. Required metadata header not specified")
    if "x-forwarded-for" in question.headers:
        return _refused("Bad request. Required metadata header not specified, or the request was forwarded")
    version = question.query.get("api-version")
    if version != _VERSIONS[kind]:
        what = "was not specified in the request" if version is None else f"{version} is not supported"
        said = {"error": f"Bad request. api-version {what}", "newest-versions": [_VERSIONS[kind]]}
        return json_answer(said, 400)
    unknown = sorted(set(question.query) - _PARAMETERS[kind])
    return _refused(f"Bad request. Unknown query parameter {unknown[0]}") if unknown else None


def _started(body: bytes, start: Callable[[list[str]], bool]) -> Answer:
    try:
        said = read_json(body)
        ids = [one["EventId"] for one in said["StartRequests"]]
    except (ValueError, TypeError, KeyError):
        return _refused("Bad request. A list of StartRequests, each with its EventId, is expected")
    known = bool(ids) and all(isinstance(one, str) for one in ids) and start(ids)
    return Answer(200) if known else _refused("Bad request. An event of this id is not known")


def _of_instance(question: Question, instance: Mapping[str, Any]) -> Answer:
    here: Any = instance
    for name in question.path.removeprefix(INSTANCE_PATH).strip("/").split("/"):
        if name:
            here = here.get(name) if isinstance(here, Mapping) else None
    if here is None:
        return _refused("Not found", 404)
    form = question.query.get("format", "json")
    if form == "text" and isinstance(here, str):
        return Answer(200, here, {"Content-Type": "text/plain"})
    if form == "json" and not isinstance(here, str):
        return json_answer(here)
    return _refused("Bad request. A single value has format=text, and all else format=json")


def _refused(why: str, status: int = 400) -> Answer:
    return json_answer({"error": why}, status)
