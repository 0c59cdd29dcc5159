"""What renews the leases of a worker while its own code is busy: a process beside it, or a thread in it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from outlast.console import Console
from outlast.errors import ExitingError
from outlast.items import Queue
from outlast.registry import QUEUES
from outlast.worker.leases import LOOKS_PER_LEASE, LeaseTable

_LEAVES_WITHIN_SECONDS = 0.3
_ROOT = Path(__file__).resolve().parents[2]  # where `outlast` is found
_PROGRAM = (
    "import sys; sys.path.insert(0, {root!r}); sys.path += {more!r}; from outlast.worker.keeper_process import main; "
    "main()"
)
# What goes to a whole group of processes (Ctrl-C, Slurm's signals to a step) is for the worker. Blocked, it reaches the
# keeper at no moment, not even before that could ignore it.
_NOT_FOR_THE_KEEPER = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
)

OnLost = Callable[[str], None]


class Keeper:
    """Renews leases to `seconds` until they are dropped. `on_lost` is called, in a thread, with a renewal that failed.

    A process does it where another process can open the queue, so that a call that holds the interpreter's lock does
    not end the lease; a thread where not (a queue in memory).
    """

    def __init__(self, queue: Queue, seconds: float, console: Console, on_lost: OnLost) -> None:
        self._queue, self._seconds, self._console, self._on_lost = queue, seconds, console, on_lost
        self._held: dict[str, None] = {}
        self._limit: float | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._table: LeaseTable | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        if queue.url.partition("://")[0] not in QUEUES or not self._starts_process():
            threading.Thread(target=self._renew, name="outlast-keeper", daemon=True).start()

    def hold(self, renewal: str) -> None:
        """From now on this lease is renewed."""
        with self._lock:
            self._held[renewal] = None
            self._show()

    def drop(self, renewal: str) -> None:
        """No more: it is settled, or lost."""
        with self._lock:
            self._held.pop(renewal, None)
            self._show()

    def limit(self, monotonic_seconds: float | None) -> None:
        """The worker is to be killed then, unless this is called again before."""
        if os.getpid() != self._owner:
            return  # a forked child shares the memory, and has no say in what its parent holds
        with self._lock:
            self._limit = monotonic_seconds
            self._show()

    def close(self) -> None:
        """Ends it; leases that are still held run out by themselves."""
        with self._lock:
            self._held.clear()
            self._limit = None
            self._show()
        self._ended.set()
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(OSError):  # it has ended by itself
                process.stdin.close()
            try:
                process.wait(_LEAVES_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with self._lock:
            table, self._table = self._table, None
            if table is not None:
                table.close()

    def _show(self) -> None:
        if self._table is not None:
            self._table.write(list(self._held), self._limit)

    def _starts_process(self) -> bool:
        """False where there can be none: then a thread has to do."""
        if not sys.executable or getattr(sys, "frozen", False):  # it would be the user's own program once more
            return False
        try:
            self._start_process(LeaseTable())
        except OSError as error:
            self._console.warning(
                f"the process that renews leases cannot be started ({error}); a thread does it, which code that holds "
                "the interpreter's lock for long keeps from it"
            )
            return False
        return True

    def _start_process(self, table: LeaseTable) -> None:
        program = _PROGRAM.format(root=str(_ROOT), more=[one for one in sys.path if one])
        # -P: a queue.py in the current folder is none of the keeper's.
        command = [sys.executable, "-P", "-c", program, str(table.handle), str(self._seconds), str(self._owner)]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_THE_KEEPER)
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[table.handle], bufsize=0
            )
        except OSError:
            table.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._table, self._process = table, process
        if process.stdin is not None:
            with suppress(BrokenPipeError):  # it has ended already, which its other end says, too
                process.stdin.write(self._queue.url.encode() + b"\n")
        threading.Thread(target=self._listen, args=(process,), name="outlast-keeper", daemon=True).start()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        """The thread that hears what the keeper has to say."""
        told = set()
        for line in process.stdout or ():
            kind, _, what = line.decode(errors="replace").rstrip("\n").partition(" ")
            if kind == "lost":
                self._report(what)
            elif what not in told:
                told.add(what)
                self._console.warning(f"the lease could not be renewed yet: {what}")
        if process.stdout is not None:
            process.stdout.close()
        if not self._ended.is_set():
            self._console.warning("the keeper has ended: leases are renewed by a thread from now on")
            self._renew()

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / LOOKS_PER_LEASE):
            with self._lock:
                held = list(self._held)
            for renewal in held:
                with suppress(ExitingError):  # the next round tries again, and what the worker does next says so
                    if not self._queue.extend(renewal, self._seconds):
                        self._report(renewal)

    def _report(self, renewal: str) -> None:
        with self._lock:
            if renewal not in self._held:  # it was settled meanwhile
                return
            del self._held[renewal]
            self._show()
        self._on_lost(renewal)
