"""How a chunk ends: results stored and acknowledged together, failures told, the rest given back; under its lease."""

from collections.abc import Sequence

from outlast.events import ItemsGivenBack, ItemsStored
from outlast.items import Failure, Queue, Result, Sink
from outlast.worker.chunk import Chunk
from outlast.worker.options import WorkerOptions
from outlast.worker.telling import Telling

_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 60.0


class Settling:
    """Settles chunks. Safe to call from several threads and again: what is settled stays as it is."""

    def __init__(self, queue: Queue, sink: Sink, options: WorkerOptions, telling: Telling) -> None:
        self._queue, self._sink, self._options, self._telling = queue, sink, options, telling
        self._together = queue.database is not None and queue.database == sink.database
        self.computed = self.failed = self.given_back = 0

    def settle(self, chunk: Chunk) -> None:
        """Stores, acknowledges and tells what has an outcome. If the lease was lost nothing is stored."""
        with chunk.settling:
            values, failures = chunk.unsettled()
            self.computed += self._store(chunk, values) if values else 0
            self._tell(chunk, failures)
            chunk.settled([*values, *(one.id for one in failures)])

    def give_back(self, chunk: Chunk, names: Sequence[str]) -> None:
        """Releases items, for somebody else to have at once."""
        with chunk.settling:
            back = len(self._queue.release(chunk.lease, names)) if names else 0
            self.given_back += back
            chunk.settled(names)
        if back:
            self._telling.tell(ItemsGivenBack(back))

    def abandon(self, chunk: Chunk) -> None:
        """Gives back without waiting for whoever is settling: what that stores all the same is known the next time."""
        self._queue.release(chunk.lease, chunk.open_ids())

    def _tell(self, chunk: Chunk, failures: Sequence[Failure]) -> None:
        before = self.failed
        hopeless = [one for one in failures if chunk.is_hopeless(one.id)]
        if hopeless:
            self.failed += len(self._queue.bury(chunk.lease, hopeless))
        delays = {one.id: self._delay_seconds(chunk, one.id) for one in failures if not chunk.is_hopeless(one.id)}
        for delay in sorted(set(delays.values())):
            told = [one for one in failures if delays.get(one.id) == delay]
            most = self._options.max_errors
            self.failed += len(self._queue.fail(chunk.lease, told, max_errors=most, delay_seconds=delay))
        self._telling.failed(self.failed - before)

    def _store(self, chunk: Chunk, values: dict[str, str]) -> int:
        """How many were stored and acknowledged: all, or none where the lease is lost."""
        version = self._options.version
        results = [Result(name, value, version, chunk.item(name).claim) for name, value in values.items()]

        def store(connection: object, held: frozenset[str]) -> None:
            mine = results if len(held) == len(results) else [one for one in results if one.id in held]
            self._sink.store(mine, connection=connection)
            self._telling.tell(ItemsStored(len(mine)))

        if self._together:
            return len(self._queue.ack(chunk.lease, list(values), storing=store))
        if chunk.lost or not self._queue.extend(chunk.lease.renewal, self._options.lease_seconds):
            return 0
        self._sink.store(results)
        self._telling.tell(ItemsStored(len(results)))
        return len(self._queue.ack(chunk.lease, list(values)))

    @staticmethod
    def _delay_seconds(chunk: Chunk, name: str) -> float:
        """Longer from error to error."""
        errors = chunk.item(name).errors
        return float(min(_LONGEST_DELAY_SECONDS, _FIRST_DELAY_SECONDS * 2.0 ** min(errors, 16)))
