"""Calling the user's function over a chunk, so that a bad item never takes its neighbours along."""

import inspect
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from outlast.errors import Interrupted, ItemError, LoopMisused, OutlastError
from outlast.worker.chunk import Chunk, Item
from outlast.worker.item_times import ItemTimes
from outlast.worker.time_limit import ItemTimeLimit, TookTooLong

Function = Callable[..., object]
_MOST_REASON = 4000
_ENDED = object()
_OURS = {
    __file__,
    *(str(Path(__file__).with_name(f"{name}.py")) for name in ("chunk", "supply", "worker", "time_limit")),
}


class Calling:
    """Calls one function; `more` are its arguments after the items.

    `leaves` says whether the process was told to go: then a SystemExit is somebody's answer to that, and no item's.
    """

    def __init__(
        self,
        function: Function,
        more: Sequence[object],
        times: ItemTimes,
        limit: ItemTimeLimit,
        *,
        leaves: Callable[[], bool],
    ) -> None:
        self._function, self._more, self._times, self._limit = function, more, times, limit
        self._leaves, self._owner = leaves, os.getpid()
        self._yields = inspect.isgeneratorfunction(function)

    def run(self, chunk: Chunk) -> None:
        """Every item has an outcome then, but for those that were not begun because the worker has to leave."""
        chunk.timed = True
        items, error = _loaded(chunk, chunk.all_items()), None
        while items and not chunk.stops.is_set():
            error = self._try(chunk, items)
            if not isinstance(error, ItemError):
                break
            bad = error.id.id if isinstance(error.id, Item) else error.id
            if all(item.id != bad for item in items):
                raise LoopMisused(f"ItemError names {bad!r}, which is none of the items it was given") from error
            chunk.fail(bad, error)
            items = _renewed(chunk, _left(chunk, items))
        if error is not None:
            self._isolate(chunk, _left(chunk, items), error)

    def _isolate(self, chunk: Chunk, items: list[Item], error: BaseException) -> None:
        """Somebody among these is the cause: each is tried alone."""
        if len(items) == 1:
            _fail(chunk, items[0], error)
            return
        for item in items:
            if chunk.stops.is_set():
                return
            if _renewed(chunk, [item]) and (again := self._try(chunk, [item])) is not None:
                _fail(chunk, item, again)

    def _try(self, chunk: Chunk, items: list[Item]) -> BaseException | None:
        """Calls the function; returns what it raised on account of an item. Also what is no Exception is one item's:
        sys.exit() in a library, a panic in Rust (PyO3's PanicException).
        """
        try:
            if self._yields:
                self._follow(chunk, items)
            else:
                self._ask(chunk, items)
        except (LoopMisused, KeyboardInterrupt, Interrupted):
            raise
        except BaseException as error:
            answers_a_notice = isinstance(error, SystemExit) and not isinstance(error, OutlastError) and self._leaves()
            if answers_a_notice or os.getpid() != self._owner:
                raise
            return error
        return None

    def _ask(self, chunk: Chunk, items: list[Item]) -> None:
        chunk.start([item.id for item in items])
        given, began = list(items), time.monotonic()
        with self._limit.around(len(items)):
            answer = self._function(given, *self._more)
        self._times.note(time.monotonic() - began, len(items))
        if not isinstance(answer, Mapping) and [id(one) for one in given] != [id(one) for one in items]:
            raise LoopMisused(
                "the function changed the list of items that it was given, so nobody can tell whose result is whose; "
                "it is to return {id: value}, or to leave the list as it is"
            )
        if os.getpid() != self._owner:
            raise LoopMisused("a forked child came back from the function; it is to end with os._exit")
        _take_all(chunk, _pairs(answer, items))

    def _follow(self, chunk: Chunk, items: list[Item]) -> None:
        results = self._function(list(items), *self._more)
        if not isinstance(results, Iterator):
            raise LoopMisused("a generator function gave no generator")
        names, left = {item.id for item in items}, {item.id: item for item in items}
        while left and not chunk.stops.is_set():
            chunk.start([next(iter(left))])
            began = time.monotonic()
            with self._limit.around(1):
                pair = next(results, _ENDED)
            if pair is _ENDED:
                for item in left.values():
                    chunk.fail(item, "the function gave no result for it")
                return
            self._times.note(time.monotonic() - began, 1)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise LoopMisused(f"the generator gave {type(pair).__name__}; it is to yield (id, value) pairs")
            name = pair[0].id if isinstance(pair[0], Item) else pair[0]
            if name not in names:
                raise LoopMisused(f"the generator gave a result for {name!r}, which is none of the items it was given")
            _take_all(chunk, [(name, pair[1])])
            left.pop(name, None)
        close = getattr(results, "close", None)
        if close is not None:
            close()


def _loaded(chunk: Chunk, items: Sequence[Item]) -> list[Item]:
    """Those that could be loaded; the others have failed."""
    for item in items:
        if item.load_error is not None:
            _fail(chunk, item, item.load_error)
    return [item for item in items if item.load_error is None]


def _renewed(chunk: Chunk, items: Sequence[Item]) -> list[Item]:
    """The items as they were before the function had them."""
    for item in items:
        item.renew()
    return _loaded(chunk, items)


def _fail(chunk: Chunk, item: Item, error: BaseException) -> None:
    plain = isinstance(error, TookTooLong | ItemError)
    chunk.fail(item, str(error) if isinstance(error, TookTooLong) else error if plain else reason_of(error))


def _take_all(chunk: Chunk, answers: Sequence[tuple[str, object]]) -> None:
    for name, value in answers:
        if isinstance(value, BaseException):
            chunk.fail(name, value if isinstance(value, ItemError) else reason_of(value))
    chunk.done_all((name, value) for name, value in answers if not isinstance(value, BaseException))


def _left(chunk: Chunk, items: list[Item]) -> list[Item]:
    open_ids = {item.id for item in chunk.pending()}
    return [item for item in items if item.id in open_ids]


def _pairs(answer: object, items: list[Item]) -> list[tuple[str, object]]:
    """(id, value) for each item of an answer; raises LoopMisused for one that is not about these items."""
    if isinstance(answer, Mapping):
        values = {name.id if isinstance(name, Item) else name: value for name, value in answer.items()}
        strange = values.keys() - {item.id for item in items}
        if strange:
            one = next(iter(strange))
            raise LoopMisused(f"the function gave a result for {one!r}, which is none of the items it was given")
        missing = "the function gave no result for it"
        return [(item.id, values.get(item.id, ItemError(item.id, missing))) for item in items]
    listed = _listed(answer)
    if len(listed) != len(items):
        raise LoopMisused(f"the function gave {len(listed)} results for {len(items)} items")
    return [(item.id, value) for item, value in zip(items, listed, strict=True)]


def _listed(answer: object) -> list[object]:
    """The values in their order, which is not that of the labels of a pandas Series; raises LoopMisused.

    What is no Sequence has to be an array, which `tolist` shows: a table has none, and iterating over it gives names.
    """
    is_array = callable(getattr(answer, "tolist", None)) and getattr(answer, "ndim", 1) > 0
    if isinstance(answer, Iterable) and (is_array or (isinstance(answer, Sequence) and not _is_text(answer))):
        return list(answer)
    raise LoopMisused(
        f"the function gave {type(answer).__name__}; it is to return a list as long as the items, or {{id: value}}"
    )


def _is_text(answer: object) -> bool:
    return isinstance(answer, str | bytes | bytearray | memoryview)


def reason_of(error: BaseException) -> str:
    """A failure for people: the traceback of their own code, whose last line says what it was."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OURS:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return text if len(text) <= _MOST_REASON else f"…{text[-_MOST_REASON:]}"
