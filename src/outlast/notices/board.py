"""The one notice of a process: armed at once, told in order, acted on by a guard shortly before the deadline."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakMethod

from outlast.clock import Clock, format_duration
from outlast.disruptions import Disruption
from outlast.events import Event
from outlast.notices.merge import Merge
from outlast.notices.notice import Notice
from outlast.settings import Surroundings

OnNotice = Callable[[Notice], None]
OnWord = Callable[[Event], None]
LeaveCode = Callable[[], int]
LONGEST_POST_SECONDS = 0.5
_MARGIN_SHARE = 0.2  # of what a notice leaves, where that is less than the platform's grace
# Of the margin: for so long the guard may wait for a save that is about to end, and so late the backstop leaves; then
# `outlast run`, where there is one, kills what is left.
_PATIENCE_SHARE, _BACKSTOP_SHARE = 0.4, 0.5

_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Served:
    """Whoever is told. `alone`: there is one such at a time."""

    on_notice: WeakMethod[OnNotice]
    at_deadline: WeakMethod[OnNotice]
    leave_code: WeakMethod[LeaveCode]
    on_word: WeakMethod[OnWord]
    alone: bool


class NoticeBoard:
    """The one notice of a process, and the job and the workers that are told of it. Made once, when the first is.

    `notice` is None before one, and again when all that stood was revoked.
    """

    def __init__(self, surroundings: Surroundings, clock: Clock) -> None:
        self.notice: Notice | None = None
        self._surroundings = surroundings
        self._merge = Merge(self._grace_after, clock)
        self._changed = threading.Condition()  # reentrant: a signal handler may look at the job
        self._telling = threading.Lock()
        self._words: deque[tuple[Notice | Event, _Served | None]] = deque()  # each for one, or (None) for all
        self._served: list[_Served] = []
        self._told = threading.Event()
        self.owner = os.getpid()
        # Now, and not at the notice: from Python 3.12 on no thread starts once the interpreter is on its way out.
        threading.Thread(target=self._guard, name="outlast-guard", daemon=True).start()
        threading.Thread(target=self._backstop, name="outlast-backstop", daemon=True).start()

    def serve(
        self,
        on_notice: OnNotice,
        at_deadline: OnNotice,
        leave_code: LeaveCode,
        on_word: OnWord,
        *,
        alone: bool = True,
    ) -> None:
        """From now on a notice goes to `on_notice`, in the hearing thread; one that has come goes there at once.

        So does each change of it, but for its end: that, and what stops nothing, goes to `on_word` as an event for
        the journal. At the margin before the deadline `at_deadline` is called, and the process leaves with
        `leave_code`, the newest one's. Who is served `alone` takes the place of the one that was before; a worker is
        served beside whatever else is at work in this process. All are methods, held weakly: the threads here are
        never unwound, so whatever they lead to, the program's globals among it, would not be finalized when the
        interpreter ends, and its open files not be flushed.
        """
        served = _Served(
            WeakMethod(on_notice), WeakMethod(at_deadline), WeakMethod(leave_code), WeakMethod(on_word), alone
        )
        with self._changed:
            left = [one for one in self._served if one.on_notice() is not None and not (alone and one.alone)]
            self._served = [*left, served]
            if not left:
                self._words = deque(pair for pair in self._words if not isinstance(pair[0], Notice))
            if self.notice is not None:
                self._words.append((self.notice, served))
        self._tell()

    def excuse(self, on_notice: OnNotice, notice: Notice) -> None:
        """One of those that are served ends the process, ahead of the deadline: the others do what they do then."""
        for one in reversed(self._served):
            if one.on_notice() != on_notice:
                _call(one.at_deadline, notice)

    def post(self, source: str, disruption: Disruption) -> None:
        """A source that takes nothing back, a signal, says something."""
        self._take(source, [disruption], whole=False)

    def report(self, source: str, seen: Sequence[Disruption]) -> bool:
        """All that a source sees now; what it saw before and does not see any more is revoked, unless it was final.

        Returns whether that was anything new.
        """
        return self._take(source, seen, whole=True)

    def learn(self, told: Mapping[str, str]) -> str | None:
        """A source has found out what the environment does not say: notices from now on leave what that means.

        Returns that in words, where it is another grace than before.
        """
        with self._changed:
            if told.keys() <= self._surroundings.env.keys():
                return None
            before, self._surroundings = self._surroundings.grace, self._surroundings.learning(told)
            grace = self._surroundings.grace
        if grace.seconds == before.seconds:
            return None
        given, thought = format_duration(grace.seconds), format_duration(before.seconds)
        return f"the grace is {given} here ({grace.source}), and not {thought}"

    def say(self, event: Event) -> None:
        """Something for the journal that is no notice."""
        with self._changed:
            self._words.append((event, None))
        self._tell()

    def hold(self) -> Notice | None:
        """The job acts on the notice: from now on it is final, and the guard stays armed."""
        with self._changed:
            self.notice = self._merge.hold()
            return self.notice

    def settle(self) -> None:
        """Waits a moment until a notice that has come is told."""
        if self.notice is not None:
            self._told.wait(LONGEST_POST_SECONDS)

    def _take(self, source: str, seen: Sequence[Disruption], *, whole: bool) -> bool:
        """Arms the guard first: to tell may take long, where a journal is far or nobody reads standard error."""
        with self._changed:
            if os.getpid() != self.owner:
                return False
            words = self._merge.take(source, seen, whole=whole)
            if not words:
                return False
            self._words += [(word, None) for word in words]
            self._told.clear()
            self.notice = self._merge.notice
            self._changed.notify_all()
        self._tell()
        return True

    def _tell(self) -> None:
        """Tells all words, one thread at a time, so that they arrive in the order of what happened."""
        with self._telling:
            while (told := self._next_word()) is not None:
                word, only = told
                for one in list(self._served) if only is None else [only]:
                    if isinstance(word, Notice):
                        _call(one.on_notice, word)
                    else:
                        _call(one.on_word, word)

    def _next_word(self) -> tuple[Notice | Event, _Served | None] | None:
        """None when all is told, or nobody is there to be told."""
        with self._changed:
            if self._words and self._served:
                return self._words.popleft()
            self._told.set()
            return None

    def _guard(self) -> None:
        """Leaves at the margin before the deadline, whatever the program is doing."""
        notice = self._wait_for_the_margin()
        try:
            for one in reversed(self._served):  # who began last is in the hands of those before
                _call(one.at_deadline, notice)
            for stream in (sys.stdout, sys.stderr):
                if stream is not None and not stream.closed:
                    stream.flush()
        finally:
            self._leave()

    def _backstop(self) -> None:
        """Leaves half a margin later, if the guard is held up: by a pipe that nobody reads, a storage that hangs."""
        threading.Event().wait(_BACKSTOP_SHARE * self.margin_seconds(self._wait_for_the_margin()))
        self._leave()

    def _leave(self) -> None:
        codes = [leave_code for one in reversed(self._served) if (leave_code := one.leave_code()) is not None]
        os._exit(codes[0]() if codes else self._surroundings.interrupted_exit_code)

    def _grace_after(self, source: str) -> float:
        """The grace that the platform gives after a word of one source: `gce-metadata` of "gce-metadata preempted"."""
        return self._surroundings.grace_after(source.partition(" ")[0]).seconds

    def margin_seconds(self, notice: Notice) -> float:
        """How long before the deadline of a notice the guard leaves."""
        return min(self._surroundings.margin_seconds, _MARGIN_SHARE * notice.grace_seconds)

    def patience_seconds(self, notice: Notice) -> float:
        """For how long the guard may wait then: a save that is durable is worth more than a word of farewell."""
        return _PATIENCE_SHARE * self.margin_seconds(notice)

    def _wait_for_the_margin(self) -> Notice:
        """Until so much is left; a notice may come earlier than it was said, later, or not at all."""
        with self._changed:
            while True:
                if self.notice is None:
                    self._changed.wait()
                    continue
                left = self.notice.remaining_seconds - self.margin_seconds(self.notice)
                if left <= 0:
                    return self.notice
                self._changed.wait(min(left, threading.TIMEOUT_MAX))


def _call(method: WeakMethod[_Method], *arguments: object) -> None:
    """Calls a method that is held weakly, if its object still is; nothing of it stays in the calling thread."""
    called = method()
    if called is not None:
        called(*arguments)
