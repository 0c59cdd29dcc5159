"""How far something is: a bar with rate and time left on a terminal, else a line now and then. On standard error."""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console as Screen
from rich.progress import BarColumn, Progress, TextColumn

from outlast.clock import format_duration
from outlast.errors import OutlastError
from outlast.settings import console_for

CTRL_C = 130  # the exit code of what was ended by Ctrl-C: 128 + SIGINT, as shells have it
_LOOK_SECONDS = 0.5
_LOOK_SHARE = 0.02  # of the time that goes by, at most, may be spent on looking
_MOST_SAMPLES = 2000
_FEW = 10  # items tell no rate


@dataclass(frozen=True, slots=True)
class Look:
    """Where it stands. `items` are done, which are `share` of all, from 0 to 1; None: nobody knows of how many."""

    items: int
    share: float | None = None
    more: str = ""


class Rate:
    """Rate and time left, from what was seen in the last `window_seconds`; in more where few items ended in these."""

    def __init__(self, window_seconds: float) -> None:
        self._window = window_seconds
        self._seen: deque[tuple[float, Look]] = deque(maxlen=_MOST_SAMPLES)

    def note(self, look: Look, at_seconds: float) -> None:
        """Adds what was seen at a moment of a monotonic clock."""
        self._seen.append((at_seconds, look))
        while len(self._seen) > 2 and self._is_enough(*self._seen[1]):
            self._seen.popleft()

    def _is_enough(self, start: float, first: Look) -> bool:
        end, last = self._seen[-1]
        return start < end - self._window and last.items >= first.items + _FEW

    @property
    def items_per_second(self) -> float | None:
        """None while nothing is known."""
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        return (last.items - first.items) / (end - start) if end > start and last.items > first.items else None

    @property
    def seconds_left(self) -> float | None:
        """None where nobody can tell."""
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        if first.share is None or last.share is None or last.share <= first.share:
            return None
        return (1.0 - last.share) / (last.share - first.share) * (end - start)

    def words(self) -> str:
        """The last look in one line."""
        look = self._seen[-1][1]
        words = [f"{look.items:,} items"]
        if (rate := self.items_per_second) is not None:
            words.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s" if rate >= 0.1 else f"{rate * 60:.2g}/min")
        if look.share is not None:
            words.append(f"{look.share:.0%}")
        if (left := self.seconds_left) is not None:
            words.append(f"{format_duration(left)} left")
        return ", ".join([*words, *([look.more] if look.more else [])])


@contextmanager
def progress(
    what: str, look: Callable[[], Look | None], *, window_seconds: float, line_seconds: float
) -> Iterator[None]:
    """Shows how far it is while the block runs; a line every `line_seconds` where there is no terminal.

    `look` is called in a thread, and takes no more than a fiftieth of the time. None, or an error of ours, means that
    it is not known now.
    """
    rate, over = Rate(window_seconds), threading.Event()
    every, show = (_LOOK_SECONDS, _on_screen) if sys.stderr.isatty() else (line_seconds, _in_lines)
    looks = _looks(look, rate, over, every)
    watcher = threading.Thread(target=show, args=(what, looks, rate), name="outlast-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(timeout=2.0)  # a look that hangs must not keep the process


def _on_screen(what: str, looks: Iterator[Look], rate: Rate) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}", markup=False))
    together = sys.stdout.isatty()  # what is printed goes above the bar, unless it goes elsewhere
    shown = Progress(*columns, console=Screen(stderr=True), transient=True, redirect_stdout=together)
    with shown:
        shown.console.show_cursor(True)  # a worker that has to leave at once could not bring it back
        task = shown.add_task(what, total=None, said="")
        for found in looks:
            total = None if found.share is None else 1.0
            shown.update(task, total=total, completed=found.share or 0.0, said=rate.words())


def _in_lines(what: str, looks: Iterator[Look], rate: Rate) -> None:
    console = console_for(os.environ)
    for number, _ in enumerate(looks):
        if number:
            console.info(f"{what}: {rate.words()}")


def _looks(look: Callable[[], Look | None], rate: Rate, over: threading.Event, every_seconds: float) -> Iterator[Look]:
    while True:
        began = time.monotonic()
        try:
            found = look()
        except OutlastError:  # the work itself will say so
            found = None
        if found is not None:
            rate.note(found, time.monotonic())
            yield found
        if over.wait(max(every_seconds, (time.monotonic() - began) / _LOOK_SHARE)):
            return
