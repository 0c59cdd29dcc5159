"""What the supervisor's loop needs of the outside world; the tests open the same doors onto a made-up one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outlast.clock import Clock


class Hearing(Protocol):
    """The signals that this process receives."""

    def listen(self, wait_seconds: float | None) -> list[int]:
        """Signals in the order of their arrival; waits for the first one (None: without a limit)."""
        ...


class Processes(Protocol):
    """The command and whatever it starts."""

    def start(self, command: Sequence[str], env: Mapping[str, str], in_child: Callable[[], None]) -> int:
        """Starts the command in a process group of its own, after `in_child`; returns its pid. Raises OSError."""
        ...

    def send(self, pid: int, signal_number: int) -> None:
        """Sends a signal to one process; one that is gone or out of reach is passed over."""
        ...

    def catches(self, pid: int, signal_number: int) -> bool:
        """Whether a process has a handler for a signal; True where the system does not say (macOS)."""
        ...

    def reap(self) -> list[tuple[int, int]]:
        """(pid, wait status) of every child that ended or stopped since the last call, orphans included."""
        ...

    def orphans(self) -> list[int]:
        """Living processes that the command started and that have outlived their parent."""
        ...

    def kill_all(self, group: int, within_seconds: float) -> list[int]:
        """SIGKILLs the group and whatever the command started; returns those that still lived, the command's own
        process not counted."""
        ...


class Terminal(Protocol):
    """The terminal on standard input, if there is one."""

    @property
    def lent(self) -> bool:
        """Whether the command has it."""
        ...

    def lend(self) -> None:
        """Before the command starts: it shall have the terminal if this process's group has it now."""
        ...

    def take(self) -> None:
        """In the process that becomes the command: takes the terminal if it was lent."""
        ...

    def give(self, group: int) -> bool:
        """Makes a group the terminal's foreground if this process has it, and continues it; whether it has it now."""
        ...

    def resume(self, group: int) -> bool:
        """The same, for a group that was stopped: continues it in any case."""
        ...

    def take_back(self) -> None:
        """Makes this process's group the foreground again, if it was given away."""
        ...

    def stop_self(self, signal_number: int) -> None:
        """Stops this process's group, as the shell that started it expects; returns when it is continued."""
        ...


@dataclass(frozen=True, slots=True)
class World:
    """All doors together."""

    clock: Clock
    hearing: Hearing
    processes: Processes
    terminal: Terminal
