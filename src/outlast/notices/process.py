"""The one board of a process, its listener and its watching threads."""

import os

from outlast.notices.board import NoticeBoard
from outlast.notices.signals import SignalListener
from outlast.notices.watching import watch_all
from outlast.settings import Surroundings

_board: NoticeBoard | None = None
_listener: SignalListener | None = None


def is_listening() -> bool:
    """Whether signals of this process are heard."""
    return _listener is not None and _listener.is_installed


def listen(surroundings: Surroundings) -> tuple[NoticeBoard, SignalListener]:
    """The board and listener of this process; made and installed at the first call, which also opens the sources."""
    global _board, _listener  # noqa: PLW0603 - signals belong to the process, so their listener does too
    if _board is None or _listener is None or _board.owner != os.getpid():
        _board = NoticeBoard(surroundings, surroundings.clock)
        _listener = SignalListener(_board, surroundings)
        watch_all(_board, surroundings)
    _listener.install()
    return _board, _listener
