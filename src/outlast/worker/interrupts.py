"""Ctrl-C at a moment when it would leave something half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def finished_first() -> Iterator[None]:
    """Ctrl-C waits until the block has ended; a second one does not. Somebody's own handler is left alone."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            signal.default_int_handler(number, frame)
        heard = True

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if heard:
        raise KeyboardInterrupt
