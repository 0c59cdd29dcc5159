"""What a person sees while a rehearsal runs: a live line on a terminal, plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Display(Protocol):
    """Where progress goes."""

    def say(self, line: str) -> None:
        """One thing that is worth a line of its own."""
        ...

    def working(self, what: str) -> AbstractContextManager[None]:
        """Shows that something goes on while the context lasts."""
        ...


class ConsoleDisplay:
    """Progress on a rich console, say standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        if not self._console.is_terminal:
            self.say(what)
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            progress.add_task(what, total=None)
            yield


class SilentDisplay:
    """Shows nothing."""

    def say(self, line: str) -> None:
        """Drops the line."""

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        yield
