"""Hears signals: in milliseconds, even while the main thread is inside a long C call.

A listener thread reads the signal's number from the wakeup descriptor, which the interpreter's C-level handler writes.

What a signal means, as of 2026-11-29: SIGTERM is followed by SIGKILL after the platform's grace (Kubernetes, Cloud
Run, Slurm's KillWait). SIGTSTP comes 10 s before Cloud Run migrates a CPU task to another machine, and SIGCONT after
it; the state is kept, connections through a VPC break, and time has passed (Cloud Run, "Set task timeout for jobs").
SIGUSR1 is what Slurm sends at `--signal=USR1@N`, up to 60 s earlier than N seconds before the time limit; or at a
preemption, and then nobody says how long it takes (sbatch(1) of Slurm 22.05). SIGHUP: the terminal that the process
was started from is gone, an ssh connection that broke, say; whoever wants to go on then has it ignored (nohup) or
handles it himself, and both are left alone (signal(7), nohup(1); 2026-11-30).
"""

import atexit
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from outlast.clock import Deadline
from outlast.disruptions import Disruption
from outlast.notices.board import LONGEST_POST_SECONDS, NoticeBoard
from outlast.settings import Surroundings

_OF_A_MIGRATION = {
    "SIGTSTP": "the task is about to be moved to another machine: connections may break, and time will have passed",
    "SIGCONT": "the task goes on after a pause; it may be on another machine",
}
_BEFORE_A_LIMIT = frozenset({"SIGUSR1", "SIGUSR2"})
# A signal further ahead of the limit than an hour (and the minute that Slurm may be early) is no warning of it, but
# perhaps of a preemption, which leaves much less.
_LONGEST_WARNING_SECONDS = 3660.0


def disruption_of(name: str, surroundings: Surroundings) -> Disruption:
    """What the signal of that name, heard now, says will happen."""
    if name in surroundings.facts.migration_signals:
        return Disruption(name, _OF_A_MIGRATION.get(name, "the task is being moved to another machine"), "advisory")
    if name == signal.SIGHUP.name:
        return Disruption(name, f"{name}: the terminal was closed", "final")
    if name not in _BEFORE_A_LIMIT:
        return Disruption(name, f"{name} from the platform or the user", "final")
    left = _seconds_to_the_time_limit(surroundings)
    if left is None:
        return Disruption(name, f"{name} from the platform or the user", "advance")
    until = Deadline(surroundings.clock.monotonic_seconds() + left)
    return Disruption(name, f"{name} ahead of the time limit", "advance", until)


def _seconds_to_the_time_limit(surroundings: Surroundings) -> float | None:
    """None where that is not known, over already, or too far away."""
    limit = surroundings.time_limit
    if limit is None:
        return None
    left = limit.until.at_monotonic_seconds - surroundings.clock.monotonic_seconds()
    return left if 0 < left <= _LONGEST_WARNING_SECONDS else None


Handler = Callable[[int, FrameType | None], Any] | int | None
_FROM_HANDLER = 0x80  # marks a signal's number as sent by the Python handler


class SignalListener:
    """Hears signals through the wakeup descriptor and posts them on the board.

    Only the main thread may install handlers; from another one `install` says so once and hears nothing. An
    earlier Python handler is called as before. A forked child gets the earlier behaviour back. An event loop that
    takes the wakeup descriptor for itself, and then leaves none, makes it slower: the Python handler tells it then.
    """

    def __init__(self, board: NoticeBoard, surroundings: Surroundings) -> None:
        self._board, self._surroundings = board, surroundings
        names = [name for name in surroundings.facts.notice_sources if name.startswith("SIG")]
        self._of_the_platform = tuple(signal.Signals[name] for name in (*names, *surroundings.facts.migration_signals))
        self._signals = self._of_the_platform
        self._earlier: dict[int, Handler] = {}
        self._told = False
        self._forking = threading.local()
        self._reader: socket.socket | None = None
        self._writer: socket.socket | None = None
        self._earlier_wakeup: _Descriptor | None = None
        self._fork_hooks_registered = False

    @property
    def is_installed(self) -> bool:
        return self._reader is not None

    def install(self) -> None:
        """Begins to listen, if it does not yet."""
        if self._reader is not None:
            return
        if threading.current_thread() is not threading.main_thread():
            if not self._told:
                self._surroundings.console.warning(
                    "this runs in a side thread, where Python allows no signal handlers: SIGTERM is not heard; "
                    "periodic saves go on, and leases are renewed"
                )
            self._told = True
            return
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        hangs_up = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL and signal.SIGHUP not in self._of_the_platform
        self._signals = (*self._of_the_platform, signal.SIGHUP) if hangs_up else self._of_the_platform
        # The wakeup descriptor first: from the first handler on, every signal is heard.
        earlier = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in self._signals:
            self._earlier[number] = signal.signal(number, self._handle)
        self._earlier_wakeup = _Descriptor.of(earlier)
        if not self._fork_hooks_registered:
            os.register_at_fork(before=self._block, after_in_parent=self._unblock, after_in_child=self._forget_in_child)
            self._fork_hooks_registered = True
        arguments = (self._reader, self._signals, self._board, self._surroundings, self._earlier_wakeup)
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

    def uninstall(self) -> None:
        """As if it had never been installed: for a job that could not begin, and has nothing to hear.

        Only the main thread can. What was heard before is still told.
        """
        if threading.current_thread() is not threading.main_thread() or self._writer is None:
            return
        for number, earlier in self._earlier.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, earlier if earlier is not None else signal.SIG_DFL)
        self._earlier = {}
        now = signal.set_wakeup_fd(-1)
        if now != self._writer.fileno():  # somebody else has taken it meanwhile
            signal.set_wakeup_fd(now)
        elif self._earlier_wakeup is not None and self._earlier_wakeup.is_open:
            signal.set_wakeup_fd(self._earlier_wakeup.number)
        atexit.unregister(self._let_go)
        self._writer.close()  # which ends the thread
        self._reader = self._writer = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Runs in the main thread when it is next in the interpreter, long after `_listen` may have heard."""
        if self._writer is not None:
            with suppress(BlockingIOError):
                self._writer.send(bytes([number | _FROM_HANDLER]))
        # The handler of the user may leave at once, and then the exit code depends on the notice.
        until = time.monotonic() + LONGEST_POST_SECONDS
        moves = signal.Signals(number).name in self._surroundings.facts.migration_signals
        while self._board.notice is None and time.monotonic() < until and not moves:
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

    @property
    def is_open(self) -> bool:
        """Whether the number still stands for the same file."""
        return _Descriptor.of(self.number) == self

    def write(self, data: bytes) -> None:
        """Writes if it is still the same; what does not fit is dropped, as the interpreter does."""
        if self.is_open:
            with suppress(OSError):
                os.write(self.number, data)


def _listen(
    reader: socket.socket,
    signals: tuple[signal.Signals, ...],
    board: NoticeBoard,
    surroundings: Surroundings,
    earlier_wakeup: _Descriptor | None,
) -> None:
    """The listener's thread; it ends when nobody can write to it any more."""
    known: Mapping[int, str] = {int(number): number.name for number in signals}
    echoes: set[int] = set()  # heard by the descriptor; the Python handler will say them once more
    with reader:
        while heard := reader.recv(64):
            if earlier_wakeup is not None:  # an event loop that had it before goes on working
                earlier_wakeup.write(bytes(number for number in heard if number < _FROM_HANDLER))
            for byte in heard:
                number = byte & ~_FROM_HANDLER
                if byte & _FROM_HANDLER and number in echoes:
                    echoes.discard(number)
                elif number in known:
                    board.post(known[number], disruption_of(known[number], surroundings))
                    if byte < _FROM_HANDLER:
                        echoes.add(number)
