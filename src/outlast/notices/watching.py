"""A thread for each source of notices that looks again and again, whatever the source does, and never troubles the job.

A source that cannot be asked is asked again after pauses that double: up to 5 s where it has answered before, so that
it is heard again soon after its server is back, up to 30 s where it never has, and up to a minute where it says that
there is nothing of the kind here.
"""

import atexit
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

from outlast.clock import Deadline
from outlast.disruptions import Disruption, NoticeSource, SourceUnavailable
from outlast.events import Event, SourceTrouble
from outlast.notices.board import NoticeBoard
from outlast.registry import TIME_LIMIT, sources_named
from outlast.settings import Surroundings

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 5.0
_NEVER_HEARD_SECONDS = 30.0
_ABSENT_SECONDS = 60.0
# One that changes its mind all the time, or says very much, fills no journal.
_MOST_TROUBLES = 10
_MOST_QUICK_CHANGES = 20
_FORGET_A_CHANGE_SECONDS = 60.0  # a job of months sees many changes, and is heard as quickly after them
_LONGEST_REST_SECONDS = 60.0
_MOST_DISRUPTIONS = 50
_LONGEST_TEXT = 300


class Watching:
    """Looks through one source and reports to the board; `look_once` is one round, for the thread and for tests."""

    def __init__(self, source: NoticeSource, board: NoticeBoard, surroundings: Surroundings) -> None:
        self._source, self._board, self._surroundings = source, board, surroundings
        self._answered = False
        self._failures = 0
        self._changes, self._looked_at = 0.0, surroundings.clock.monotonic_seconds()
        self._told: set[str] = set()

    def run(self, pause: Callable[[float], object] = time.sleep) -> NoReturn:
        """The thread."""
        while True:
            pause(self.look_once() / self._surroundings.speed)

    def look_once(self) -> float:
        """Looks, reports; returns in how many seconds to look again."""
        try:
            look = self._source.look()
            said = self._board.learn(look.told)
            self._count(self._board.report(self._source.name, _gravest(look.disruptions)))
            if said is not None:  # only now: nobody may be reading standard error
                self._surroundings.console.notice(f"{self._source.name} tells that {said}")
        except SourceUnavailable as error:
            if error.told or self._answered:
                self._tell(str(error), aloud=error.told)
            return self._pause(_ABSENT_SECONDS if error.absent else None)
        except Exception as error:  # noqa: BLE001 - whatever breaks in a source, or in what it was sent, stays here
            self._tell(f"{type(error).__name__}: {error}", aloud=False)
            return self._pause(None)
        self._answered, self._failures = True, 0
        return max(look.again_seconds, self._rest())

    def _count(self, changed: bool) -> None:
        now = self._surroundings.clock.monotonic_seconds()
        forgotten = (now - self._looked_at) / _FORGET_A_CHANGE_SECONDS
        self._changes, self._looked_at = max(0.0, self._changes - forgotten) + changed, now

    def _rest(self) -> float:
        """0 for any source that can be taken seriously."""
        doublings = self._changes - _MOST_QUICK_CHANGES
        return min(2.0 ** min(doublings, 10), _LONGEST_REST_SECONDS) if doublings > 0 else 0.0

    def _pause(self, longest: float | None) -> float:
        if longest is None:
            longest = _LONGEST_PAUSE_SECONDS if self._answered else _NEVER_HEARD_SECONDS
        pause = min(_FIRST_PAUSE_SECONDS * 2.0**self._failures, longest)
        self._failures = min(self._failures + 1, 10)
        return pause

    def _tell(self, why: str, *, aloud: bool) -> None:
        """Each trouble once, and not without end."""
        why = why[:_LONGEST_TEXT]
        if why in self._told or len(self._told) >= _MOST_TROUBLES:
            return
        self._told.add(why)
        event: Event = SourceTrouble(self._source.name, why)
        with suppress(Exception):  # a journal or a standard error that is out of order ends no watching
            self._board.say(event)
            if aloud:
                self._surroundings.console.info(why)


def _gravest(seen: Sequence[Disruption]) -> Sequence[Disruption]:
    """All that is seen where that is not very much; else what ends the machine first."""
    if len(seen) <= _MOST_DISRUPTIONS:
        return seen
    at_once = Deadline(0.0)  # without a deadline it may be any time now
    graver = sorted(seen, key=lambda one: (one.kind == "advisory", (one.deadline or at_once).at_monotonic_seconds))
    return graver[:_MOST_DISRUPTIONS]


# While a source is opened, modules are imported. A child that is forked meanwhile would find them half imported and
# locked for ever, and data loaders fork; so a fork waits for that, though not without end.
# (Python runs what is registered for that moment in the reverse order.)
_opening = threading.RLock()
_LONGEST_FORK_WAIT_SECONDS = 5.0
_LONGEST_EXIT_WAIT_SECONDS = 5.0
_forking = threading.local()


def watch_all(board: NoticeBoard, surroundings: Surroundings) -> None:
    """Starts a thread for each source that the platform names, and for the time limit; signals are no such source."""
    names = [name for name in surroundings.facts.notice_sources if not name.startswith("SIG")]
    names += [TIME_LIMIT] if surroundings.time_limit is not None else []
    if not names:
        return
    # Before ours, so that ours comes first at a fork: they take locks that the imports of a source may wait for.
    import concurrent.futures.thread  # noqa: F401, PLC0415 - only where a source is watched

    atexit.register(_open_no_more)
    os.register_at_fork(before=_wait_for_imports, after_in_parent=_go_on, after_in_child=_go_on)
    for name in names:
        _start(name, partial(_open_and_watch, name, board, surroundings))


def _open_and_watch(name: str, board: NoticeBoard, surroundings: Surroundings) -> None:
    with _opening:
        sources = _opened(name, board, surroundings)
    for source in sources:
        _start(source.name, Watching(source, board, surroundings).run)


def _opened(name: str, board: NoticeBoard, surroundings: Surroundings) -> Sequence[NoticeSource]:
    try:
        return sources_named(name)(surroundings)
    except SourceUnavailable as error:
        said, aloud = str(error), error.told
    except Exception as error:  # noqa: BLE001 - as above: a source that cannot even be opened is told, and no more
        said, aloud = f"{type(error).__name__}: {error}", True
    board.say(SourceTrouble(name, said[:_LONGEST_TEXT]))
    if aloud:
        surroundings.console.warning(f"{name} is not watched for notices: {said}")
    return ()


def _start(name: str, work: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the interpreter is on its way out
        threading.Thread(target=work, name=f"outlast-{name}", daemon=True).start()


def _open_no_more() -> None:
    """Lets an import end before the interpreter does, and none begin.

    Python then ends each thread that waits for the interpreter, wherever it stands. In a client that is written in Rust
    or C++ that aborts the process, and the platform sees SIGABRT or SIGSEGV in place of the exit code.
    """
    _opening.acquire(timeout=_LONGEST_EXIT_WAIT_SECONDS)


def _wait_for_imports() -> None:
    _forking.waited = _opening.acquire(timeout=_LONGEST_FORK_WAIT_SECONDS)


def _go_on() -> None:
    if getattr(_forking, "waited", False):
        _opening.release()
