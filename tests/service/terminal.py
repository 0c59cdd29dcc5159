"""A terminal with a command in it, for tests: what it draws, keys, a window that changes, and how it is left."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self

_COLOURS, _BLANKS = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r" *\r\n")
LEFT = "\x1b[?1049l"  # the terminal's first screen is back


class Terminal:
    """Use as a context manager; a thread reads what is drawn, from the beginning to the end."""

    def __init__(
        self, command: Sequence[str], *, lines: int = 24, columns: int = 100, env: Mapping[str, str] | None = None
    ) -> None:
        self._own, self._theirs = pty.openpty()
        self.resize(lines, columns)
        self._before = termios.tcgetattr(self._theirs)
        self._said, self._over = bytearray(), threading.Event()
        self.process = subprocess.Popen(
            command, stdin=self._theirs, stdout=self._theirs, stderr=self._theirs, start_new_session=True,
            # Without what others say of a window: that would hold whatever this one becomes.
            env={**{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
                 "TERM": "xterm-256color", **(env or {})},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        return bytes(self._said).decode(errors="replace")

    @property
    def text(self) -> str:
        """What it has said, without colours and the blanks at the ends of lines."""
        return _BLANKS.sub("\n", _COLOURS.sub("", self.said))

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._own, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, words: str, *, after: int = 0, seconds: float = 30.0) -> int:
        """Until the words are drawn; where they end in `text`."""
        until = time.monotonic() + seconds
        while (at := self.text.find(words, after)) < 0:
            assert time.monotonic() < until, f"no {words!r} in {self.text[-3000:]!r}"
            time.sleep(0.02)
        return at + len(words)

    def press(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def end(self) -> int:
        """Its exit code; the terminal has to be as it was."""
        self.wait_for(LEFT)
        code = self.process.wait(20)
        assert termios.tcgetattr(self._theirs) == self._before
        return code

    def _read(self) -> None:
        while not self._over.is_set():
            if select.select([self._own], [], [], 0.05)[0]:
                self._said += os.read(self._own, 65536)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._over.set()
        self._reader.join()
        os.close(self._own)
        os.close(self._theirs)
