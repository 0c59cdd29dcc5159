"""The loop of a framework that has its own: it asks for batches, and what Job's loops do at a border is done there."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from outlast.errors import ExitingError
from outlast.loops import BatchLoop
from outlast.session import Session
from outlast.state.randomness import RandomState

T = TypeVar("T")


class DrivenLoop:
    """One run of a framework's loop. A step is what the framework calls one (with accumulation, several batches).

    The borders are where the first batch of a step is asked for: all that the framework did for the step before is
    done then (logs, evaluations, schedulers), and nothing for the next one is. Random state is set there, too, so that
    whatever the framework's own code draws before its first step leaves no trace.
    """

    def __init__(self, session: Session, total: int | None) -> None:
        self._session, self._total = session, total
        self.resuming: RandomState | None = None  # what is to be gone on with at the first batch

    def begin(self, unit: str) -> None:
        """All parts are registered; `unit` is what the total counts. A finished run has no batch left."""
        session = self._session
        session.begin(self._total, unit=unit)
        if session.already_finished(self._total):
            session.resume_random()
        else:
            self.resuming = session.random

    @property
    def batches_done(self) -> int:
        """How many batches of the epoch under way were consumed before the checkpoint."""
        return self._session.progress.batch

    @property
    def epoch(self) -> int:
        """The epoch under way, or that of the checkpoint."""
        return self._session.progress.epoch

    def batches(
        self, loader: Iterable[T], *, epoch: Callable[[], int], begins_a_step: Callable[[int], bool]
    ) -> Iterator[T]:
        """The batches that are left of the epoch that it is when the first one is asked for.

        `begins_a_step(n)`: whether a step begins with the batch of that number within the epoch.
        """
        return DrivenBatches(self._session, self, loader, epoch, begins_a_step)

    def end_step(self) -> None:
        """The step under way, if there is one, is done."""
        if self._session.in_step:
            self._session.complete_step()

    def finish(self) -> None:
        """The framework's loop is at its end: makes the state durable and marks the run finished."""
        try:
            self.end_step()
            self._session.finish(self._total)
        except ExitingError as error:
            self._session.leave_with(error)
            raise


class DrivenBatches(BatchLoop[T]):
    """The batches of one epoch of a driven loop."""

    def __init__(
        self,
        session: Session,
        loop: DrivenLoop,
        loader: Iterable[T],
        epoch: Callable[[], int],
        begins_a_step: Callable[[int], bool],
    ) -> None:
        super().__init__(session, loop, loader)
        self._loop, self._epoch, self._begins_a_step = loop, epoch, begins_a_step

    def _advance(self) -> T:
        session: Any = self._session
        if session.finished:
            raise StopIteration
        if self._batches is None:
            self._batches = self._begin()
        elif self._begins_a_step(session.progress.batch):
            self._loop.end_step()
            session.border()
        batch = next(self._batches)
        session.in_step = True
        session.progress.batch += 1
        return batch

    def _begin(self) -> Iterator[T]:
        session, progress, loop = self._session, self._session.progress, self._loop
        epoch = self._epoch()
        loop.end_step()
        inside = loop.resuming is not None and progress.epoch == epoch and progress.at_iter is not None
        if not inside:
            if loop.resuming is not None:
                loop.resuming = None
                session.resume_random()
            progress.epoch, progress.batch, progress.at_iter = epoch, 0, None
            session.border()
        batches = self._start()
        if inside:
            session.border()
        return batches
