"""Answers that go on: watches of objects, and logs that are followed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, NamedTuple

from outlast.emulate.kubernetes.kinds import Kind
from outlast.emulate.kubernetes.pod_logs import ContainerLog, Line, LogBook
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.store import Store
from outlast.emulate.kubernetes.watching import WatchEvent

Json = dict[str, Any]

BOOKMARK_SECONDS = 60.0  # as often as the real server's (kube-apiserver, "approximately every minute")
INITIAL_END = "k8s.io/initial-events-end"


class Watched(NamedTuple):
    """What a watch is of."""

    kind: Kind
    namespace: str | None
    since: str | None
    labels: str
    fields: str


async def watch(
    store: Store,
    of: Watched,
    *,
    shape: Callable[[Json], Json],
    seconds: float,
    bookmarks: bool,
    first_then_mark: bool,
) -> AsyncIterator[bytes]:
    """One JSON line per event, for so many seconds. `shape` makes of an object what the client asked for.

    `bookmarks` sends the store's version now and then; `first_then_mark` marks the end of what was there at first.
    """
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def hand_over(event: WatchEvent) -> None:
        loop.call_soon_threadsafe(events.put_nowait, event)

    try:
        wanted = store.subscribe(
            hand_over, of.kind.name, of.namespace, since=of.since, labels=of.labels, fields=of.fields
        )
    except Refused as refused:
        yield _line("ERROR", refused.status())
        return
    version = store.version
    try:
        await asyncio.sleep(0)  # what was delivered at once is in the queue now
        while not events.empty():
            event = events.get_nowait()
            yield _line(event.kind, shape(event.object))
        if first_then_mark:
            yield _line("BOOKMARK", _bookmark(of.kind, version, {INITIAL_END: "true"}))
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            try:
                event = await asyncio.wait_for(events.get(), min(left, BOOKMARK_SECONDS))
            except TimeoutError:
                if bookmarks and events.empty():
                    yield _line("BOOKMARK", _bookmark(of.kind, version, {}))
                continue
            version = event.object["metadata"]["resourceVersion"]
            yield _line(event.kind, shape(event.object))
    finally:
        store.unsubscribe(wanted)


def _line(kind: str, found: Json) -> bytes:
    return json.dumps({"type": kind, "object": found}, separators=(",", ":")).encode() + b"\n"


def _bookmark(kind: Kind, version: str, annotations: Json) -> Json:
    meta: Json = {"resourceVersion": version, "creationTimestamp": None}
    if annotations:
        meta["annotations"] = annotations
    return {"kind": kind.name, "apiVersion": kind.api_version, "metadata": meta}


class LogOptions(NamedTuple):
    """What of a log is wanted; None is no limit."""

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    most_bytes: int | None = None


async def log(book: LogBook, of: ContainerLog, options: LogOptions) -> AsyncIterator[bytes]:
    """The lines of a log, and with `follow` those that come until its container ends."""
    loop = asyncio.get_running_loop()
    more = asyncio.Event()
    stop = book.listen(lambda: loop.call_soon_threadsafe(more.set))
    left = options.most_bytes
    try:
        lines, number, ended = book.after(of, 0)
        if options.tail is not None:
            lines = lines[max(0, len(lines) - options.tail) :]
        while True:
            text = "".join(_shown(line, options) for line in lines).encode()
            if left is not None:
                text, left = text[:left], left - len(text[:left])
            if text:
                yield text
            if ended or not options.follow or left == 0:
                return
            await more.wait()
            more.clear()
            lines, number, ended = book.after(of, number)
    finally:
        stop()


def _shown(line: Line, options: LogOptions) -> str:
    if options.since is not None and line.at < options.since:
        return ""
    stamp = f"{line.at:%Y-%m-%dT%H:%M:%S.%f}000Z " if options.timestamps else ""
    return f"{stamp}{line.text}\n"
