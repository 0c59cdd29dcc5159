"""Every warning of the end, merged into one with a deadline; heard in milliseconds, acted on at a step border.

Hearing and acting are apart. A listener thread reads the signal's number from the wakeup descriptor, which the
interpreter's C-level handler writes even while the main thread is inside a long C call; the loop acts at its next
border; a guard thread leaves the process shortly before the platform would kill it.
"""

import atexit
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any
from weakref import WeakMethod

from outlast.clock import Clock, Deadline
from outlast.console import Console
from outlast.settings import Surroundings


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that this process will be ended.

    `source` is what said so ("SIGTERM"), `deadline` when the process may be gone (UTC), `heard_monotonic_seconds`
    when it was heard on the monotonic clock.
    """

    source: str
    reason: str
    grace_seconds: float
    deadline: datetime
    heard_monotonic_seconds: float
    _until: Deadline
    _clock: Clock

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline, never below 0."""
        return self._until.remaining_seconds(self._clock)


def make_notice(source: str, reason: str, grace_seconds: float, clock: Clock) -> Notice:
    """A notice heard now."""
    heard = clock.monotonic_seconds()
    return Notice(
        source=source,
        reason=reason,
        grace_seconds=grace_seconds,
        deadline=datetime.fromtimestamp(clock.wall_seconds() + grace_seconds, UTC),
        heard_monotonic_seconds=heard,
        _until=Deadline(heard + grace_seconds),
        _clock=clock,
    )


OnNotice = Callable[[Notice], None]
LeaveCode = Callable[[], int]
_LONGEST_POST_SECONDS = 0.5


class NoticeBoard:
    """The one notice of a process, and the job that is told of it. Made once, when the first Job is."""

    def __init__(self, surroundings: Surroundings, clock: Clock) -> None:
        self.notice: Notice | None = None
        self._surroundings, self._clock = surroundings, clock
        self._lock = threading.Lock()
        self._on_notice: WeakMethod[OnNotice] | None = None
        self._at_deadline: WeakMethod[OnNotice] | None = None
        self._leave_code: WeakMethod[LeaveCode] | None = None
        self._armed, self._told = threading.Event(), threading.Event()
        self.owner = os.getpid()
        # Now, and not at the notice: from Python 3.12 on no thread starts once the interpreter is on its way out.
        threading.Thread(target=self._guard, name="outlast-guard", daemon=True).start()
        threading.Thread(target=self._backstop, name="outlast-backstop", daemon=True).start()

    def serve(self, on_notice: OnNotice, at_deadline: OnNotice, leave_code: LeaveCode) -> None:
        """From now on a notice goes to `on_notice`, in the hearing thread; one that has come goes there at once.

        At the margin before the deadline `at_deadline` is called, and the process leaves with `leave_code`. All
        three are methods, held weakly: the threads here are never unwound, so whatever they lead to, the program's
        globals among it, would not be finalized when the interpreter ends, and its open files not be flushed.
        """
        with self._lock:
            self._on_notice, self._at_deadline = WeakMethod(on_notice), WeakMethod(at_deadline)
            self._leave_code = WeakMethod(leave_code)
            notice = self.notice
        if notice is not None:
            on_notice(notice)

    def post(self, source: str, reason: str) -> None:
        """A warning arrived. The first one sets the deadline; what comes later cannot extend it."""
        with self._lock:
            if self.notice is not None or os.getpid() != self.owner:
                return
            notice = make_notice(source, reason, self._surroundings.grace_seconds, self._clock)
            self.notice = notice
            on_notice = self._on_notice() if self._on_notice is not None else None
        self._armed.set()
        if on_notice is not None:
            on_notice(notice)
        del on_notice
        self._told.set()

    def settle(self) -> None:
        """Waits a moment until a notice that has come is told."""
        if self.notice is not None:
            self._told.wait(_LONGEST_POST_SECONDS)

    def _guard(self) -> None:
        """Leaves at the margin before the deadline, whatever the program is doing."""
        notice = self._wait_for_the_margin()
        try:
            at_deadline = self._at_deadline() if self._at_deadline is not None else None
            if at_deadline is not None:
                at_deadline(notice)
            for stream in (sys.stdout, sys.stderr):
                if stream is not None and not stream.closed:
                    stream.flush()
        finally:
            self._leave()

    def _backstop(self) -> None:
        """Leaves half a margin later, if the guard is held up: by a pipe that nobody reads, a storage that hangs."""
        self._wait_for_the_margin()
        threading.Event().wait(self._surroundings.margin_seconds / 2)
        self._leave()

    def _leave(self) -> None:
        leave_code = self._leave_code() if self._leave_code is not None else None
        os._exit(leave_code() if leave_code is not None else self._surroundings.interrupted_exit_code)

    def _wait_for_the_margin(self) -> Notice:
        while self.notice is None:
            self._armed.wait()
        threading.Event().wait(max(0.0, self.notice.remaining_seconds - self._surroundings.margin_seconds))
        return self.notice


Handler = Callable[[int, FrameType | None], Any] | int | None
_FROM_HANDLER = 0x80  # marks a signal's number as sent by the Python handler


class SignalListener:
    """Hears signals through the wakeup descriptor and posts them on the board.

    Only the main thread may install handlers; from another one `install` says so once and hears nothing. An
    earlier Python handler is called as before. A forked child gets the earlier behaviour back. An event loop that
    takes the wakeup descriptor for itself, and then leaves none, makes it slower: the Python handler tells it then.
    """

    def __init__(self, board: NoticeBoard, console: Console, signals: tuple[signal.Signals, ...]) -> None:
        self._board, self._console, self._signals = board, console, signals
        self._earlier: dict[int, Handler] = {}
        self._told = False
        self._forking = threading.local()
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None

    def install(self) -> None:
        """Begins to listen, if it does not yet."""
        if self._reader is not None:
            return
        if threading.current_thread() is not threading.main_thread():
            if not self._told:
                self._console.warning(
                    "the job runs in a side thread, where Python allows no signal handlers: SIGTERM is not heard; "
                    "periodic saves go on"
                )
            self._told = True
            return
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        # The wakeup descriptor first: from the first handler on, every signal is heard.
        earlier = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in self._signals:
            self._earlier[number] = signal.signal(number, self._handle)
        os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._forget_in_child)
        known = {int(number): number.name for number in self._signals}
        arguments = (self._reader, known, self._board, _Descriptor.of(earlier))
        threading.Thread(target=_listen, args=arguments, name="outlast-listener", daemon=True).start()
        atexit.register(self._let_go)

    def put_back(self) -> None:
        """Puts the user's own handlers back; where there was none, the signal goes on stopping nothing at once.

        The wakeup descriptor stays, so that the deadline guard still hears.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number, earlier in self._earlier.items():
            if callable(earlier) and signal.getsignal(number) == self._handle:
                signal.signal(number, earlier)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Runs in the main thread when it is next in the interpreter, long after `_listen` may have heard."""
        if self._writer is not None:
            with suppress(BlockingIOError):
                self._writer.send(bytes([number | _FROM_HANDLER]))
        # The handler of the user may leave at once, and then the exit code depends on the notice.
        until = time.monotonic() + _LONGEST_POST_SECONDS
        while self._board.notice is None and time.monotonic() < until:
            time.sleep(0.001)
        earlier = self._earlier.get(number)
        if callable(earlier):
            earlier(number, frame)

    def _let_go(self) -> None:
        """At exit: see NoticeBoard.serve; what is registered for forks stays even longer than the threads."""
        if os.getpid() == self._board.owner:
            self._board.settle()
            self.put_back()
            self._earlier = {}

    # Between fork and the child's first line, a signal to the child would be written into the parent's descriptor.
    # So signals wait during the fork, and meet a child that has its earlier behaviour back.

    def _block(self) -> None:
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def _forget_in_child(self) -> None:
        if self._earlier and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(-1)
            for number, earlier in self._earlier.items():
                signal.signal(number, earlier if earlier is not None else signal.SIG_DFL)
        self._earlier = {}
        self._unblock()


@dataclass(frozen=True, slots=True)
class _Descriptor:
    """A file descriptor of somebody else, who may close it: its number can stand for another file then."""

    number: int
    device: int
    inode: int

    @classmethod
    def of(cls, number: int) -> "_Descriptor | None":
        """None for a number that stands for nothing."""
        try:
            status = os.fstat(number)
        except OSError:
            return None
        return cls(number, status.st_dev, status.st_ino)

    def write(self, data: bytes) -> None:
        """Writes if it is still the same; what does not fit is dropped, as the interpreter does."""
        if _Descriptor.of(self.number) == self:
            with suppress(OSError):
                os.write(self.number, data)


def _listen(
    reader: socket.socket, known: Mapping[int, str], board: NoticeBoard, earlier_wakeup: _Descriptor | None
) -> None:
    """The listener's thread."""
    while heard := reader.recv(64):
        if earlier_wakeup is not None:  # an event loop that had it before goes on working
            earlier_wakeup.write(bytes(number for number in heard if number < _FROM_HANDLER))
        for number in heard:
            name = known.get(number & ~_FROM_HANDLER)
            if name is not None:
                board.post(name, f"{name} from the platform or the user")


_board: NoticeBoard | None = None
_listener: SignalListener | None = None


def listen(surroundings: Surroundings) -> tuple[NoticeBoard, SignalListener]:
    """The board and listener of this process; made and installed at the first call."""
    global _board, _listener  # noqa: PLW0603 - signals belong to the process, so their listener does too
    if _board is None or _listener is None or _board.owner != os.getpid():
        _board = NoticeBoard(surroundings, surroundings.clock)
        _listener = SignalListener(
            _board,
            surroundings.console,
            tuple(signal.Signals[name] for name in surroundings.facts.notice_sources if name.startswith("SIG")),
        )
    _listener.install()
    return _board, _listener
