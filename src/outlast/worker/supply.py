"""Where a worker's chunks come from: leased one by one, or some ahead while their inputs are loaded."""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from outlast.errors import ExitingError
from outlast.events import ItemsGivenBack, LeaseTaken
from outlast.items import Lease, LeasedItem, Queue, Sink
from outlast.worker.chunk import Chunk, Item
from outlast.worker.keeper import Keeper
from outlast.worker.options import WorkerOptions
from outlast.worker.telling import Telling

_LOADING_THREADS = 32
_LOOK_AGAIN_SECONDS = 0.05
_LONGEST_STOP_SECONDS = 1.0  # for a lease that is just being taken


class Leasing:
    """Leases chunks of what is not in the sink yet, for one thread."""

    def __init__(self, queue: Queue, sink: Sink, options: WorkerOptions, keeper: Keeper, telling: Telling) -> None:
        self._queue, self._sink, self._options = queue, sink, options
        self._keeper, self._telling = keeper, telling
        self.known = self.given_back = 0
        self.stops = threading.Event()  # nothing more is leased
        self._looked_up: Lease | None = None  # taken, and not yet handed out as a chunk

    def chunk(self, *, begin: bool) -> Chunk | None:
        """The next one, None when none can be had now. What is stored at this version already is acknowledged."""
        options = self._options
        while not self.stops.is_set():
            lease = self._queue.lease(options.chunk, options.lease_seconds, begin=begin, max_deaths=options.max_deaths)
            if lease is None:
                return None
            self._looked_up = lease
            self._keeper.hold(lease.renewal)
            self._telling.tell(LeaseTaken(lease.renewal))
            try:
                left = self._unknown(lease)
            except BaseException:
                self._let_go(lease)
                raise
            finally:
                self._looked_up = None
            if left:
                return Chunk(Lease(lease.token, lease.renewal, left))
            self._keeper.drop(lease.renewal)
        return None

    def _unknown(self, lease: Lease) -> tuple[LeasedItem, ...]:
        """Those of a lease that have to be computed, with claims above what the sink has; the others are done."""
        if self.stops.is_set():
            self._let_go(lease)
            return ()
        stored = self._sink.known(lease.items)
        names = {name for name, there in stored.items() if there.version == self._options.version}
        if names:
            self.known += len(self._queue.ack(lease, list(names)))
        higher = {
            item.id: stored[item.id].claim + 1
            for item in lease.items
            if item.id in stored and item.id not in names and stored[item.id].claim > item.claim
        }
        if higher:
            lease = self._queue.lift(lease, higher)
        return tuple(item for item in lease.items if item.id not in names)

    def begin(self, chunk: Chunk) -> bool:
        """Work on it begins; False if its lease was lost meanwhile."""
        return self._queue.begin(chunk.lease)

    def give_back(self, chunk: Chunk) -> None:
        """Nobody has begun it: somebody else can have it at once."""
        chunk.give_up()
        self._let_go(chunk.lease)

    def give_back_unseen(self) -> None:
        """What was leased and is still being looked up in the sink: the process has no time to wait for that."""
        lease = self._looked_up
        if lease is not None:
            self._let_go(lease)

    def _let_go(self, lease: Lease) -> None:
        self._keeper.drop(lease.renewal)
        with suppress(ExitingError):  # then it runs out
            back = len(self._queue.release(lease, [item.id for item in lease.items]))
            self.given_back += back
            self._telling.tell(ItemsGivenBack(back))


class Direct:
    """A chunk is leased when it is asked for: a worker holds what it works on and no more."""

    def __init__(self, leasing: Leasing) -> None:
        self._leasing = leasing

    def next(self) -> Chunk | None:
        return self._leasing.chunk(begin=True)

    def stop(self) -> None:
        """Leases no more."""
        self._leasing.stops.set()


class Ahead:
    """Some chunks are leased before they are asked for, and their items loaded by threads.

    All threads are daemons: a load that hangs holds up no exit. An error of the queue or the sink is raised in `next`.
    """

    def __init__(self, leasing: Leasing, load: Callable[[Item], object], options: WorkerOptions) -> None:
        self._leasing, self._load = leasing, load
        self._most = max(1, options.prefetch)
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Chunk, _Countdown]] = deque()
        self._awaited: Chunk | None = None  # taken from those, and not loaded yet
        self._stopped, self._asked = False, options.prefetch > 0
        self._error: BaseException | None = None
        self._tasks: SimpleQueue[tuple[Item, _Countdown] | None] = SimpleQueue()
        self._threads = min(_LOADING_THREADS, max(4, options.chunk * self._most))
        for _ in range(self._threads):
            threading.Thread(target=self._load_all, name="outlast-load", daemon=True).start()
        self._leaser = threading.Thread(target=self._lease_all, name="outlast-ahead", daemon=True)
        self._leaser.start()

    def next(self) -> Chunk | None:
        """The next chunk, loaded; None when there is none right now."""
        with self._changed:
            if not self._waiting and self._error is None and not self._stopped:
                self._asked = True
                self._changed.notify_all()
                self._changed.wait(_LOOK_AGAIN_SECONDS)
            if self._error is not None:
                raise self._error
            if not self._waiting or self._stopped:
                return None
            chunk, loaded = self._waiting.popleft()
            self._awaited = chunk
            self._changed.notify_all()
        loaded.wait(chunk)
        with self._changed:
            given_back = self._awaited is None
            self._awaited = None
        if given_back:
            return None
        if chunk.stops.is_set() or not self._leasing.begin(chunk):
            chunk.give_up()
            return None
        return chunk

    def stop(self) -> None:
        """Leases no more, and gives back what nobody has begun."""
        self._leasing.stops.set()
        with self._changed:
            if not self._stopped:
                for _ in range(self._threads):
                    self._tasks.put(None)
            self._stopped = True
            unbegun = [chunk for chunk, _ in self._waiting]
            unbegun += [self._awaited] if self._awaited is not None else []
            self._waiting.clear()
            self._awaited = None
            self._changed.notify_all()
        for chunk in unbegun:
            self._leasing.give_back(chunk)
        self._leaser.join(_LONGEST_STOP_SECONDS)

    def find(self, renewal: str) -> Chunk | None:
        """The waiting chunk of a lease."""
        with self._changed:
            waiting = [chunk for chunk, _ in self._waiting] + ([self._awaited] if self._awaited is not None else [])
        return next((chunk for chunk in waiting if chunk.lease.renewal == renewal), None)

    def _lease_all(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._stopped and (len(self._waiting) >= self._most or not self._asked):
                        self._changed.wait()
                    if self._stopped:
                        return
                self._lease_one()
        except BaseException as error:  # noqa: BLE001 - raised again where the next chunk is asked for
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _lease_one(self) -> None:
        chunk = self._leasing.chunk(begin=False)
        if chunk is None:
            with self._changed:
                if not self._stopped:
                    self._changed.wait(_LOOK_AGAIN_SECONDS)
            return
        loaded = _Countdown(len(chunk))
        with self._changed:
            late = self._stopped
            if not late:
                self._waiting.append((chunk, loaded))
                self._changed.notify_all()
        if late:
            self._leasing.give_back(chunk)
            return
        for item in chunk.all_items():
            self._tasks.put((item, loaded))

    def _load_all(self) -> None:
        while (task := self._tasks.get()) is not None:
            item, loaded = task
            if not self._stopped:
                item.load(self._load)
            loaded.one_less()


class _Countdown:
    """Opens when it was called so often."""

    def __init__(self, count: int) -> None:
        self._left, self._lock, self._open = count, threading.Lock(), threading.Event()

    def one_less(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                self._open.set()

    def wait(self, chunk: Chunk) -> None:
        """Until then, or until the chunk is given up."""
        while not self._open.wait(_LOOK_AGAIN_SECONDS):
            if chunk.stops.is_set():
                return
