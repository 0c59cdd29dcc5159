"""The worker: leases chunks, hands them to the program, settles them, and leaves when it is told to."""

import atexit
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from outlast.clock import format_duration
from outlast.console import Console
from outlast.errors import EveryItemFailed, ExitingError, Interrupted, LoopMisused, OutlastError, SettingsError
from outlast.events import BatchStarted, ChunkBegun, Event, NoticeHeard
from outlast.exits import exit_watch
from outlast.items import Queue as Port
from outlast.items import Sink
from outlast.notices import Notice
from outlast.notices.process import is_listening, listen
from outlast.registry import open_sink, with_ledger
from outlast.settings import console_for, look_around
from outlast.urls import masked
from outlast.worker.calling import reason_of
from outlast.worker.chunk import Chunk
from outlast.worker.copying import FEW_ITEMS, too_many
from outlast.worker.drain import Drain
from outlast.worker.front import Queue, port_of
from outlast.worker.item_times import ItemTimes
from outlast.worker.keeper import Keeper
from outlast.worker.options import Duration, Load, checked_options
from outlast.worker.settling import Settling
from outlast.worker.supply import Ahead, Direct, Leasing
from outlast.worker.telling import Telling
from outlast.worker.time_limit import ItemTimeLimit
from outlast.worker.trial import Trial

_FIRST_WAIT_SECONDS = 0.02
_TELL_AFTER_SECONDS = 3.0
_LONGEST_WAIT_SECONDS = 0.15
_at_work: "WeakSet[Worker]" = WeakSet()  # in this process


@dataclass(frozen=True, slots=True)
class Drained:
    """What one worker did until nothing was left: items `computed` and stored, `known` (in the sink before), `failed`
    times an item had no result; `dead` are all dead letters of the queue, None where it cannot know.
    """

    computed: int
    known: int
    failed: int
    dead: int | None


class Worker:
    """Works through a queue, in the explicit form::

        with outlast.Worker("sqlite:///work.db", sink="sqlite:///results.db", chunk=32) as worker:
            for chunk in worker:
                for item in chunk:
                    chunk.done(item, model(item.payload))

    A chunk is stored and acknowledged when the next one is asked for. The loop ends when nothing is left; at a notice
    it raises outlast.Interrupted between two items, and leaves the process while an item runs that does not fit any
    more.
    Options are those of `outlast.batch`; `item_timeout` is refused in a loop of your own, where nobody sees how long an
    item takes. Errors: SettingsError, QueueUnreachable, SinkUnreachable, EveryItemFailed.
    """

    def __init__(
        self,
        queue: "Queue | Port | str",
        *,
        sink: "Sink | str",
        chunk: int = 1,
        version: str | None = None,
        load: Load | None = None,
        prefetch: int = 1,
        lease: Duration = "60s",
        item_timeout: Duration | None = None,
        max_errors: int = 3,
        max_deaths: int = 3,
        idle: Duration = "30s",
    ) -> None:
        with console_for(os.environ).telling():
            self.options = checked_options(
                chunk=chunk,
                version=version,
                load=load,
                prefetch=prefetch,
                lease=lease,
                item_timeout=item_timeout,
                max_errors=max_errors,
                max_deaths=max_deaths,
                idle=idle,
            )
            self.queue = with_ledger(port_of(queue), sink) if isinstance(sink, str) else port_of(queue)
            self.sink = open_sink(sink) if isinstance(sink, str) else sink
        # What was opened here is closed here.
        self._own: list[Port | Sink] = [self.queue] if isinstance(queue, str) else []
        self._own += [self.sink] if isinstance(sink, str) else []
        self._told_that_it_waits = False
        self.times = ItemTimes()
        self._trial = Trial(self.options.chunk)
        self._ends = ExitStack()
        self._chunk: Chunk | None = None
        self._chunk_began = 0.0
        self._entered = self._finished = False

    def __enter__(self) -> Self:
        if self._entered:
            raise LoopMisused("this Worker was entered before; make a new one")
        with console_for(os.environ).telling():
            self._entered, self._owner = True, os.getpid()
            self.around = look_around(os.environ)
            hears_already = is_listening()
            self.telling = Telling(self.around, self.queue.url)
            self.board, self._listener = listen(self.around)
            self._took_signals = not hears_already
            try:
                self._enter()
            except BaseException as error:
                self._end_everything(error)
                raise
            _at_work.add(self)
        return self

    def _enter(self) -> None:
        """What is begun here ends with `_ends`, however far this comes."""
        for place in reversed(self._own):
            self._ends.callback(place.close)
        self.sink.prepare()
        queue, sink = (masked(place.url) if _is_ours(place) else "" for place in (self.queue, self.sink))
        self.telling.tell(BatchStarted(queue, sink, self.options.version, str(Path.cwd())))
        self._keeper = Keeper(self.queue, self.options.lease_seconds, self.console, self._on_lost)
        self._ends.callback(self._keeper.close)
        self._leasing = Leasing(self.queue, self.sink, self.options, self._keeper, self.telling)
        self._supply: Ahead | Direct = (
            Direct(self._leasing)
            if self.options.load is None
            else Ahead(self._leasing, self.options.load, self.options)
        )
        self._ends.callback(self._supply.stop)
        self._settling = Settling(self.queue, self.sink, self.options, self.telling)
        self._drain = Drain(
            self.board,
            self.around,
            self._supply,
            leasing=self._leasing,
            settling=self._settling,
            times=self.times,
            items=self.options.chunk,
            last=self._last,
        )
        self._ends.callback(self._drain.close)
        self.limit = ItemTimeLimit(self.options.item_timeout_seconds, self._overrun, self._keeper.limit)
        self._ends.callback(self.limit.close)
        atexit.register(self._leave_behind)
        self._ends.callback(atexit.unregister, self._leave_behind)
        self.board.serve(self._on_notice, self._at_deadline, self._leave_code, self._on_word, alone=False)
        exit_watch().watch(self._code_now, _nothing, alone=False)

    @property
    def console(self) -> Console:
        return self.around.console

    def __iter__(self) -> Iterator[Chunk]:
        if self.options.item_timeout_seconds is not None:
            raise SettingsError("item_timeout is watched by outlast.batch only; leave it out, or declare a function")
        while (chunk := self.next_chunk()) is not None:
            yield chunk

    def next_chunk(self) -> Chunk | None:
        """Settles the chunk in progress and takes the next; None when nothing is left. Raises Interrupted."""
        if os.getpid() != self._owner:
            raise LoopMisused("this is a forked child, and the loop belongs to its parent; end it with os._exit")
        with self.console.telling():
            self._settle_current()
            if self._trial.is_lost and not self._drain.begun.is_set():
                raise self._verdict()
            return self._next_chunk()

    def _next_chunk(self) -> Chunk | None:
        wait, empty_since = _FIRST_WAIT_SECONDS, time.monotonic()
        while True:
            if self._drain.begun.is_set():
                self._leave()
                self._end_of_work()
                return None
            chunk = self._supply.next()
            if chunk is not None:
                self._begin(chunk)
                return chunk
            if self._nothing_is_left(empty_since):
                self._end_of_work()
                return None
            self._tell_that_it_waits(time.monotonic() - empty_since)
            self._drain.begun.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def has_work(self) -> bool:
        """Whether anything is left to do, as far as the queue knows: a broker may have what its ledger has not."""
        stats = self.queue.stats()
        if self.sink.traits.few and (stats.left or 0) > FEW_ITEMS:
            self.console.warning(too_many(stats.left or 0))
        if stats.left != 0:
            return True
        options = self.options
        lease = self.queue.lease(1, options.lease_seconds, begin=False, max_deaths=options.max_deaths)
        if lease is not None:
            self.queue.release(lease, [item.id for item in lease.items])
            return True
        if not self._nothing_is_left(time.monotonic()):  # published at this moment, or nobody can know
            return True
        if stats.done:
            self.console.info(
                f"{stats.done} {'item is' if stats.done == 1 else 'items are'} done already, whatever the sink and the "
                "version; outlast queue retry --done makes what is done ready again"
            )
        self._end_of_work()
        return False

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Around what the program does before its first item: a notice ends the process in it, at once."""
        self._drain.prepares(True)
        try:
            yield
        finally:
            self._drain.prepares(False)

    @property
    def summary(self) -> Drained:
        """What this worker has done so far."""
        counts = self._settling
        return Drained(counts.computed, self._leasing.known, counts.failed, self.queue.stats().dead)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._owner:
            return  # a forked child came this way; all of this is its parent's
        if isinstance(error, ExitingError):
            self._finished = True  # it says itself which code to leave with
        try:
            self._end_current(error)
            self._supply.stop()
            self._leasing.give_back_unseen()
        except ExitingError as trouble:
            if str(trouble) != str(error):  # which may be what made it leave
                self.console.tell(trouble)
            if error is None:
                raise
        finally:
            self._end_everything(error)

    def _end_everything(self, error: BaseException | None) -> None:
        """Threads, the keeper, connections; and, where no notice is to be obeyed, what was done to signals."""
        _at_work.discard(self)
        try:
            self._ends.close()
        finally:
            self.telling.close()
            if self._finished:
                exit_watch().unwatch(self._code_now)
            if error is None:
                self._listener.put_back()
            elif self.board.notice is None and self._took_signals:
                self._listener.uninstall()

    # --- one chunk ----------------------------------------------------------------------------------

    def _begin(self, chunk: Chunk) -> None:
        self.telling.tell(ChunkBegun(len(chunk)))
        self._chunk, self._chunk_began = chunk, time.monotonic()
        self._supply.taken()
        self._drain.works_on(chunk)

    def _settle_current(self) -> None:
        """Every item of the chunk gets its outcome; one without a result where nothing stopped it has failed."""
        chunk = self._chunk
        if chunk is None:
            return
        if not chunk.timed:
            self.times.note(time.monotonic() - self._chunk_began, sum(len(some) for some in chunk.unsettled()))
        if not chunk.stops.is_set():
            for item in chunk.pending():
                reason = "the loop went on without a result for it"
                chunk.fail(item, reason if item.load_error is None else reason_of(item.load_error))
        failures = [] if self._trial.has_result else chunk.unsettled()[1]
        self._settling.settle(chunk)
        self._settling.give_back(chunk, chunk.open_ids())
        self._end(chunk)
        if self._settling.computed:
            if not self._trial.has_result:
                self.queue.note_success(self.options.version)
            self._trial.note_result()
        else:
            self._trial.note(chunk, failures)

    def _verdict(self) -> EveryItemFailed:
        """The function fails for whatever it is given: where to see why, and how to go on."""
        url, dead = shlex.quote(masked(self.queue.url)), self.queue.stats().dead
        then = f"When it is mended: outlast queue retry {url}" if dead else "When it is mended, start again"
        if dead is not None:
            buried = f"{dead} {'is' if dead == 1 else 'are'} dead. " if dead else ""
            then = f"{buried}Each traceback is in what `outlast queue export {url}` prints. {then}"
        return self._trial.verdict(works_elsewhere=self.queue.has_success(self.options.version), then=then)

    def _end_current(self, error: BaseException | None) -> None:
        """The loop was left: what is finished counts, and an item that ended it with an error has failed."""
        chunk = self._chunk
        if chunk is None:
            return
        unreachable = isinstance(error, ExitingError)
        by_an_item = error if isinstance(error, Exception) and not unreachable else None
        begun = chunk.in_progress()
        if by_an_item is not None and not isinstance(error, OutlastError) and len(begun) == 1:
            chunk.fail(begun[0], reason_of(by_an_item))
        if not unreachable:
            self._settling.settle(chunk)
        if by_an_item is not None:  # which of the others it was shows when they come back one by one
            self._settling.give_back(chunk, chunk.untouched())
            self.queue.expire(chunk.lease.renewal)
        else:
            self._settling.give_back(chunk, chunk.open_ids())
        self._end(chunk)

    def _end(self, chunk: Chunk) -> None:
        self._keeper.drop(chunk.lease.renewal)
        self._chunk = None
        self._drain.works_on(None)

    # --- the end ------------------------------------------------------------------------------------

    def _nothing_is_left(self, empty_since: float) -> bool:
        stats = self.queue.stats()
        if stats.left is not None:
            if (stats.left, stats.done, stats.dead) == (0, 0, 0):
                self.console.warning(
                    f"queue {masked(self.queue.url)} holds no items, and never did: is it the one that you mean? "
                    "outlast publish fills it"
                )
            if stats.left == 0 and stats.dead:
                why = self._trial.reason if not stats.done else ""
                every = f"; no item has a result, and the last failed with: {why}" if why else ""
                self.console.warning(
                    f"{stats.dead} dead {'letter' if stats.dead == 1 else 'letters'}; see outlast queue dead "
                    f"{shlex.quote(masked(self.queue.url))}{every}"
                )
            return stats.left == 0
        idle = self.options.idle_seconds
        if time.monotonic() - empty_since < idle:
            return False
        self.console.info(
            f"nothing came for {format_duration(idle)} (idle), and nobody can know whether more is to come; leaving "
            "with exit code 0"
        )
        return True

    def _tell_that_it_waits(self, seconds: float) -> None:
        """Once: a worker that died with its keeper leaves its items leased until that ends."""
        if seconds < _TELL_AFTER_SECONDS or self._told_that_it_waits:
            return
        self._told_that_it_waits = True
        leased = self.queue.stats().leased
        if leased:
            longest = format_duration(self.options.lease_seconds)
            self.console.info(
                f"waiting for {leased} items that other workers hold, or held: for {longest} at most then"
            )

    def _end_of_work(self) -> None:
        """From now on a notice stops nothing here, and changes no exit code."""
        self._finished = True
        self._drain.close()

    def _leave(self) -> None:
        """Leaves with the interrupted code, or normally where nothing is left for anybody."""
        self._supply.stop()
        notice = self.board.notice
        if self.queue.stats().left == 0:
            return
        source = notice.source if notice is not None else "the notice"
        done, back = self._settling.computed, self._drain.given_back
        said = f"{source}: {done} items stored by this worker, {back} given back"
        self.console.notice(f"{said}; leaving with exit code {self.around.interrupted_exit_code}")
        raise Interrupted(self.around.interrupted_exit_code, said)

    def _leave_behind(self) -> None:
        """The process ends in order while the loop is in a side thread, which nobody waits for: no item is to blame."""
        if os.getpid() != self._owner:
            return
        self._drain.begun.set()
        chunk = self._chunk
        if chunk is not None:
            chunk.stops.set()
        with suppress(ExitingError):  # then leases run out
            self._supply.stop()
            self._leasing.give_back_unseen()
            if chunk is not None:
                self._settling.settle(chunk)
                self._settling.give_back(chunk, chunk.open_ids())
        self._keeper.close()

    # --- called by other threads --------------------------------------------------------------------

    def _on_notice(self, notice: Notice) -> None:
        self.telling.tell(NoticeHeard(notice.source, notice.reason, notice.grace_seconds, kind=notice.kind))
        self._drain.on_notice(notice)

    def _at_deadline(self, notice: Notice) -> None:
        """The drain has left before, unless something held it up: what is held is given back, unless it leaves now."""
        if self._finished:
            return
        if self._drain.leaves.is_set():
            time.sleep(self.board.patience_seconds(notice))
        self.console.error(f"{notice.source}: the worker did not end within its grace; what it holds is given back")
        self.let_go()

    def let_go(self) -> None:
        """Gives back what it holds, whoever is settling it: the process ends now."""
        chunk = self._chunk
        with suppress(ExitingError):  # the process ends here in any case; then its leases run out
            self._leasing.give_back_unseen()
            if chunk is not None:
                self._settling.abandon(chunk)

    def _last(self) -> None:
        """The process ends now, which others at work in it do not know yet."""
        notice = self.board.notice
        if notice is not None:
            self.board.excuse(self._on_notice, notice)
        else:  # an item took too long
            for other in [one for one in _at_work if one is not self]:
                other.let_go()
        self._keeper.close()
        self.telling.close()

    def _leave_code(self) -> int:
        return self.around.interrupted_exit_code

    def _on_word(self, event: Event) -> None:
        """Other words of the notice sources have no journal here."""
        self.telling.tell(event)

    def _code_now(self) -> int | None:
        return None if self._finished or self.board.notice is None else self.around.interrupted_exit_code

    def _on_lost(self, renewal: str) -> None:
        """The keeper could not renew a lease: somebody else has the items."""
        chunk = self._chunk
        if chunk is None or chunk.lease.renewal != renewal:
            chunk = self._supply.find(renewal) if isinstance(self._supply, Ahead) else None
        if chunk is None:
            return
        with chunk.settling:  # its lease may be gone because it is settled at this moment
            if not chunk.open_ids():
                return
            chunk.give_up()
        self.console.warning(
            f"the lease on {len(chunk.all_items())} items was lost (it was not renewed for "
            f"{format_duration(self.options.lease_seconds)}): nothing of them is stored here"
        )

    def _overrun(self) -> None:
        """An item did not end within its time, and no exception could end it: the process has to."""
        chunk = self._chunk
        if chunk is None:
            return
        begun = chunk.in_progress()
        if len(begun) == 1:
            chunk.fail(begun[0], self.limit.reason)
        with suppress(ExitingError):  # then the lease runs out
            self._settling.settle(chunk)
            self._settling.give_back(chunk, chunk.untouched())
            if len(begun) > 1:
                self.queue.expire(chunk.lease.renewal)  # they come back one by one
        self._drain.leave(f"{len(begun)} items in progress: {self.limit.reason}")


def _is_ours(place: Port | Sink) -> bool:
    """Whether it is what its URL says, and not of the program's own making."""
    return type(place).__module__.startswith(("outlast.queues.", "outlast.sinks."))


def _nothing(_error: BaseException) -> None:
    """A crash has no journal here."""
