"""outlast's queues, workers and sinks by the public interface; and its adapters alone, for where the time goes."""

import json
from collections.abc import Sequence

import outlast
from benchmarks.batch.contender import Place, Span, payload_of, value_of
from benchmarks.batch.results import right_ones
from outlast.items import Draft, Result
from outlast.registry import open_queue, open_sink


class _Outlast:
    """A queue at a URL, a worker of this process, and a sink."""

    def __init__(self, place: Place, urls: tuple[str, str]) -> None:
        (queue, self._sink), self._chunk = urls, place.chunk
        self._queue = outlast.Queue(queue)

    def publish(self, ids: Sequence[str]) -> None:
        published = self._queue.publish((name, payload_of(name)) for name in ids)
        if published.new != len(ids):
            raise RuntimeError(f"{published.new} of {len(ids)} were published")

    def drain(self, span: Span) -> None:
        """To the end of the worker."""

        @outlast.batch(self._queue, sink=self._sink, chunk=self._chunk)
        def infer(items):
            span.chunk(len(items))
            return [value_of(item.id) for item in items]

        infer.run()

    def stored(self) -> int:
        return _stored(self._sink)

    def left(self) -> int:
        stats = self._queue.stats()
        return (stats.ready or 0) + (stats.leased or 0) + (stats.dead or 0)


class _AdaptersAlone:
    """The ports of a queue and a sink, called as a worker calls them, with nothing of a worker around them."""

    def __init__(self, place: Place, urls: tuple[str, str]) -> None:
        queue, self._url = urls
        self._queue, self._sink, self._chunk = open_queue(queue), open_sink(self._url), place.chunk
        self._sink.prepare()

    def publish(self, ids: Sequence[str]) -> None:
        at_once = self._queue.traits.publish_batch
        for start in range(0, len(ids), at_once):
            drafts = [Draft(name, json.dumps(payload_of(name))) for name in ids[start : start + at_once]]
            self._queue.publish(drafts)

    def drain(self, span: Span) -> None:
        queue, sink = self._queue, self._sink
        together = queue.database is not None and queue.database == sink.database
        while lease := queue.lease(self._chunk, 60.0, begin=True, max_deaths=3):
            if sink.known(lease.items):
                raise RuntimeError("there was a result before")
            span.chunk(len(lease.items))
            results = [Result(item.id, json.dumps(value_of(item.id)), None, item.claim) for item in lease.items]

            def store(connection: object, held: frozenset[str], results: list[Result] = results) -> None:
                sink.store([one for one in results if one.id in held], connection=connection)

            if not together:
                sink.store(results)
            queue.ack(lease, [one.id for one in results], storing=store if together else None)

    def stored(self) -> int:
        return _stored(self._url)

    def left(self) -> int:
        stats = self._queue.stats()
        return (stats.ready or 0) + (stats.leased or 0) + (stats.dead or 0)


def _stored(url: str) -> int:
    sink = open_sink(url)
    try:
        return right_ones((one.id, one.value) for one in sink.results())
    finally:
        sink.close()


# --- on which queue, and which sink -------------------------------------------------------------------


def _one_file(place: Place) -> tuple[str, str]:
    """Stored and acknowledged in one transaction."""
    url = f"sqlite:///{place.folder}/work.db"
    return url, url


def _two_files(place: Place) -> tuple[str, str]:
    """Results in a file of their own, synced before each acknowledgement."""
    return f"sqlite:///{place.folder}/work.db", f"sqlite:///{place.folder}/results.db"


def _one_database(place: Place) -> tuple[str, str]:
    return place.server, f"{place.server}?table=labels"


def _pubsub(place: Place) -> tuple[str, str]:
    """The ledger and the results in one SQLite file."""
    from benchmarks.batch.on_pubsub import fresh_subscription

    project, topic, subscription = fresh_subscription(place.server)
    results = f"sqlite:///{place.folder}/results.db"
    return f"pubsub://{project}/{subscription}?topic={topic}&ledger={results}", results


def outlast_sqlite(place: Place) -> _Outlast:
    return _Outlast(place, _one_file(place))


def outlast_two_files(place: Place) -> _Outlast:
    return _Outlast(place, _two_files(place))


def outlast_postgres(place: Place) -> _Outlast:
    return _Outlast(place, _one_database(place))


def outlast_pubsub(place: Place) -> _Outlast:
    return _Outlast(place, _pubsub(place))


def adapters_sqlite(place: Place) -> _AdaptersAlone:
    return _AdaptersAlone(place, _one_file(place))


def adapters_postgres(place: Place) -> _AdaptersAlone:
    return _AdaptersAlone(place, _one_database(place))


def adapters_pubsub(place: Place) -> _AdaptersAlone:
    return _AdaptersAlone(place, _pubsub(place))
