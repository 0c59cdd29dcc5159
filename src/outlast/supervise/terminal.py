"""The terminal is lent to the command, so that Ctrl-C and Ctrl-Z reach it and not its supervisor."""

import contextlib
import os
import signal


class StdinTerminal:
    """The terminal on standard input; does nothing where there is none, or where another group has it."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._lent = False

    @property
    def lent(self) -> bool:
        """See doors.Terminal."""
        return self._lent

    def lend(self) -> None:
        """See doors.Terminal."""
        self._lent = self._is_ours()

    def take(self) -> None:
        """See doors.Terminal."""
        if self._lent:
            self._set_foreground(os.getpgrp())

    def give(self, group: int) -> bool:
        """See doors.Terminal."""
        if self._is_ours() and self._set_foreground(group):
            self._lent = True
            _signal_group(group, signal.SIGCONT)  # it was stopped for want of it
        return self._lent

    def resume(self, group: int) -> bool:
        """See doors.Terminal."""
        if not self.give(group):
            _signal_group(group, signal.SIGCONT)
        return self._lent

    def take_back(self) -> None:
        """See doors.Terminal."""
        if self._lent:
            self._set_foreground(os.getpgrp())
            self._lent = False

    def stop_self(self, signal_number: int) -> None:
        """See doors.Terminal."""
        _signal_group(os.getpgrp(), signal_number)

    def _is_ours(self) -> bool:
        try:
            foreground = os.tcgetpgrp(self._fd)
        except OSError:  # not a terminal, not our session's, or hung up
            return False
        return foreground == os.getpgrp() != 0  # 0: the group is outside this PID namespace, with no way back

    def _set_foreground(self, group: int) -> bool:
        # A background group that touches the terminal is stopped by SIGTTOU, unless it blocks it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            os.tcsetpgrp(self._fd, group)
        except OSError:  # the terminal hung up or the group has just ended: there is nobody to give it to
            return False
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return True


def _signal_group(group: int, signal_number: int) -> None:
    # It may have ended just now: that is what the loop hears next.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)
