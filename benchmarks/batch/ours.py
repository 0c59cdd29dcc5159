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

    def __init__(self, place: Place, queue: str, sink: str) -> None:
        self._queue, self._sink, self._chunk = outlast.Queue(queue), sink, place.chunk

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
        sink = open_sink(self._sink)
        try:
            return right_ones((one.id, one.value) for one in sink.results())
        finally:
            sink.close()

    def left(self) -> int:
        stats = self._queue.stats()
        return (stats.ready or 0) + (stats.leased or 0) + (stats.dead or 0)


class OutlastSqlite(_Outlast):
    """Queue and results in one file, stored and acknowledged in one transaction."""

    def __init__(self, place: Place) -> None:
        url = f"sqlite:///{place.folder}/work.db"
        super().__init__(place, url, url)


class OutlastTwoFiles(_Outlast):
    """Results in a file of their own, synced before each acknowledgement."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, f"sqlite:///{place.folder}/work.db", f"sqlite:///{place.folder}/results.db")


class OutlastPostgres(_Outlast):
    """Queue and results in one database."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, place.server, f"{place.server}?table=labels")


class OutlastPubSub(_Outlast):
    """The ledger and the results in an SQLite file."""

    def __init__(self, place: Place) -> None:
        from benchmarks.batch.on_pubsub import fresh_subscription

        project, topic, subscription = fresh_subscription(place.server)
        results = f"sqlite:///{place.folder}/results.db"
        super().__init__(place, f"pubsub://{project}/{subscription}?topic={topic}&ledger={results}", results)


class AdaptersAlone:
    """The ports of the SQLite queue and sink, called as a worker calls them, with nothing of a worker around them."""

    def __init__(self, place: Place) -> None:
        url = f"sqlite:///{place.folder}/work.db"
        self._queue, self._sink, self._chunk = open_queue(url), open_sink(url), place.chunk
        self._sink.prepare()

    def publish(self, ids: Sequence[str]) -> None:
        at_once = self._queue.traits.publish_batch
        for start in range(0, len(ids), at_once):
            drafts = [Draft(name, json.dumps(payload_of(name))) for name in ids[start : start + at_once]]
            self._queue.publish(drafts)

    def drain(self, span: Span) -> None:
        queue, sink = self._queue, self._sink
        while lease := queue.lease(self._chunk, 60.0, begin=True, max_deaths=3):
            if sink.known(lease.items):
                raise RuntimeError("there was a result before")
            span.chunk(len(lease.items))
            results = [Result(item.id, json.dumps(value_of(item.id)), None, item.claim) for item in lease.items]

            def store(connection: object, held: frozenset[str], results: list[Result] = results) -> None:
                sink.store([one for one in results if one.id in held], connection=connection)

            queue.ack(lease, [one.id for one in results], storing=store)

    def stored(self) -> int:
        return right_ones((one.id, one.value) for one in self._sink.results())

    def left(self) -> int:
        stats = self._queue.stats()
        return (stats.ready or 0) + (stats.leased or 0) + (stats.dead or 0)
