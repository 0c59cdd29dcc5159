"""The declared form: a function over a chunk of items becomes a job that works through a queue."""

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from outlast.items import Queue as Port
from outlast.items import Sink
from outlast.settings import console_for
from outlast.worker.arguments import refuse_other_arguments
from outlast.worker.calling import Calling, Function
from outlast.worker.front import Queue
from outlast.worker.options import Duration, Load
from outlast.worker.worker import Drained, Worker


class BatchFunction:
    """A function and what it works through; called directly it is the plain function.

    `function` is that one, `options` are those of `batch` that it was declared with, apart from queue and sink.
    """

    def __init__(self, function: Function, make: Callable[[], Worker], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options = function, options
        self._make = make

    def __call__(self, *arguments: Any, **named: Any) -> object:
        return self.function(*arguments, **named)

    def run(self) -> Drained:
        """Works until nothing is left, for this worker or any other.

        Raises Interrupted, with the platform's exit code, when it has to leave before; EveryItemFailed when nothing
        but errors came of the first 100 items (or three chunks); SettingsError, QueueUnreachable and SinkUnreachable;
        LoopMisused for an answer that is not about the items.
        """
        setup = self.options["setup"]
        with console_for(os.environ).telling():
            _refuse_what_cannot_be_called(self.function, setup)
            with self._make() as worker:
                return self._work(worker, setup)

    def _work(self, worker: Worker, setup: Callable[[], object] | None) -> Drained:
        if not worker.has_work():
            return worker.summary
        with worker.preparing():
            more = () if setup is None else (setup(),)
        calling = Calling(
            self.function, more, worker.times, worker.limit, leaves=lambda: worker.board.notice is not None
        )
        while (chunk := worker.next_chunk()) is not None:
            calling.run(chunk)
        return worker.summary


def _refuse_what_cannot_be_called(function: Function, setup: Callable[[], object] | None) -> None:
    if setup is None:
        advice = "; is it to get a model, or the like, give --setup MODULE:FUNCTION (setup= in outlast.batch)"
        refuse_other_arguments(function, "a list of items", setting="the function", advice=advice)
    else:
        refuse_other_arguments(setup, setting="setup")
        refuse_other_arguments(function, "a list of items", "what setup returned", setting="the function")


def batch(
    queue: "Queue | Port | str",
    *,
    sink: "Sink | str",
    chunk: int = 1,
    version: str | None = None,
    setup: Callable[[], object] | None = None,
    load: Load | None = None,
    prefetch: int = 1,
    lease: Duration = "60s",
    item_timeout: Duration | None = None,
    max_errors: int = 3,
    max_deaths: int = 3,
    idle: Duration = "30s",
) -> Callable[[Function], BatchFunction]:
    """Declares what a function works through; its `run()` does it.

    The function takes a list of up to `chunk` items and returns a list of as many values, or {id: value}, or yields
    (id, value) pairs, of which each is kept as soon as it is there. It gets only items whose result is not in `sink` at
    this `version` (any text, compared for equality; None is a version, too). Values are whatever JSON can hold, NumPy
    and torch numbers and arrays included; NaN becomes null. An `outlast.ItemError` raised, or an exception as a value,
    fails one item; another exception makes the chunk be tried item by item.

    `setup()` is called once per worker, if there is anything to do, and its value passed on as a second argument: load
    the model there. `load(item)` runs in threads for the items of the next `prefetch` chunks; what it returns is
    `item.loaded`.

    `lease` is how long items stay with a worker that nobody hears of any more; while it lives they are renewed.
    `item_timeout` is how long one item may take (None: for ever). An item that fails more than `max_errors` times, or
    whose process dies more than `max_deaths` times while it is in progress, becomes a dead letter; preemptions cost it
    nothing. `idle`: a queue that cannot know whether anything is left is left after so long without an item.
    """

    of_worker: dict[str, Any] = {
        "chunk": chunk,
        "version": version,
        "load": load,
        "prefetch": prefetch,
        "lease": lease,
        "item_timeout": item_timeout,
        "max_errors": max_errors,
        "max_deaths": max_deaths,
        "idle": idle,
    }

    def declare(function: Function) -> BatchFunction:
        make = functools.partial(Worker, queue, sink=sink, **of_worker)
        return BatchFunction(function, make, {**of_worker, "setup": setup})

    return declare
