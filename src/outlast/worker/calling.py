"""Calling the user's function over a chunk, so that a bad item never takes its neighbours along."""

import inspect
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from outlast.errors import ItemError, LoopMisused
from outlast.worker.chunk import Chunk, Item
from outlast.worker.pace import Pace
from outlast.worker.time_limit import ItemTimeLimit, TookTooLong

Function = Callable[..., object]
_MOST_REASON = 4000
_OURS = {__file__, *(str(Path(__file__).with_name(f"{name}.py")) for name in ("supply", "worker", "time_limit"))}


class Calling:
    """Calls one function; `more` are its arguments after the items."""

    def __init__(self, function: Function, more: Sequence[object], pace: Pace, limit: ItemTimeLimit) -> None:
        self._function, self._more, self._pace, self._limit = function, more, pace, limit
        self._yields = inspect.isgeneratorfunction(function)

    def run(self, chunk: Chunk) -> None:
        """Every item has an outcome then, but for those that were not begun because the worker has to leave."""
        chunk.timed = True
        for item in chunk.loadable():
            if item.load_error is not None:
                chunk.fail(item, reason_of(item.load_error))
        self._call(chunk, chunk.in_order())

    def _call(self, chunk: Chunk, items: list[Item]) -> None:
        if not items or chunk.stops.is_set():
            return
        try:
            if self._yields:
                self._follow(chunk, items)
            else:
                self._ask(chunk, items)
        except ItemError as error:
            if error.id not in {item.id for item in items}:
                raise LoopMisused(f"ItemError names {error.id!r}, which is none of the items it was given") from error
            chunk.fail(error.id, error)
            self._call(chunk, _left(chunk, items))
        except Exception as error:
            if isinstance(error, LoopMisused):
                raise
            self._isolate(chunk, _left(chunk, items), error)

    def _isolate(self, chunk: Chunk, items: list[Item], error: Exception) -> None:
        """Somebody among these is the cause: each is tried alone."""
        if len(items) == 1:
            chunk.fail(items[0], str(error) if isinstance(error, TookTooLong) else reason_of(error))
            return
        for item in items:
            self._call(chunk, [item])

    def _ask(self, chunk: Chunk, items: list[Item]) -> None:
        chunk.start([item.id for item in items])
        began = time.monotonic()
        with self._limit.around(len(items)):
            answer = self._function(items, *self._more)
        self._pace.note(time.monotonic() - began, len(items))
        _take_all(chunk, _pairs(answer, items))

    def _follow(self, chunk: Chunk, items: list[Item]) -> None:
        results = self._function(items, *self._more)
        if not isinstance(results, Iterator):
            raise LoopMisused("a generator function gave no generator")
        names = {item.id for item in items}
        while not chunk.stops.is_set() and (left := _left(chunk, items)):
            chunk.start([left[0].id])
            began = time.monotonic()
            with self._limit.around(1):
                pair = next(results, None)
            if pair is None:
                for item in left:
                    chunk.fail(item, "the function gave no result for it")
                return
            self._pace.note(time.monotonic() - began, 1)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise LoopMisused(f"the generator gave {type(pair).__name__}; it is to yield (id, value) pairs")
            name = pair[0].id if isinstance(pair[0], Item) else pair[0]
            if name not in names:
                raise LoopMisused(f"the generator gave a result for {name!r}, which is none of the items it was given")
            _take_all(chunk, [(name, pair[1])])
        close = getattr(results, "close", None)
        if close is not None:
            close()


def _take_all(chunk: Chunk, answers: Sequence[tuple[str, object]]) -> None:
    for name, value in answers:
        if isinstance(value, BaseException):
            chunk.fail(name, value if isinstance(value, ItemError) else reason_of(value))
    chunk.done_all((name, value) for name, value in answers if not isinstance(value, BaseException))


def _left(chunk: Chunk, items: list[Item]) -> list[Item]:
    open_ids = {item.id for item in chunk.in_order()}
    return [item for item in items if item.id in open_ids]


def _pairs(answer: object, items: list[Item]) -> list[tuple[str, object]]:
    """(id, value) for each item of an answer; raises LoopMisused for one that is not about these items."""
    if isinstance(answer, Mapping):
        names = {item.id for item in items}
        strange = [name for name in answer if name not in names]
        if strange:
            raise LoopMisused(f"the function gave a result for {strange[0]!r}, which is none of the items it was given")
        missing = "the function gave no result for it"
        return [(item.id, answer.get(item.id, ItemError(item.id, missing))) for item in items]
    if isinstance(answer, str | bytes) or not hasattr(answer, "__len__") or not hasattr(answer, "__getitem__"):
        raise LoopMisused(
            f"the function gave {type(answer).__name__}; it is to return a list as long as the items, or {{id: value}}"
        )
    if len(answer) != len(items):
        raise LoopMisused(f"the function gave {len(answer)} results for {len(items)} items")
    return [(item.id, answer[number]) for number, item in enumerate(items)]


def reason_of(error: BaseException) -> str:
    """A failure for people: the traceback of their own code, whose last line says what it was."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OURS:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    return text if len(text) <= _MOST_REASON else f"…{text[-_MOST_REASON:]}"
