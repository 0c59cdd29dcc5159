"""The loops that users write: steps, or epochs of batches. Iterators, not generators, so that the stop can be raised
again at each further call."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

from outlast.errors import ExitingError, LoopMisused, StateMismatch
from outlast.registry import frameworks_in_use
from outlast.session import Session
from outlast.state.capture import Stateful
from outlast.state.randomness import RandomState

T = TypeVar("T")


class Loop(Iterator[T]):
    """What the loops share: an error that leaves with its own code is also told, since a SystemExit shows no text."""

    _session: Session

    def __next__(self) -> T:
        self._session.check_process()
        try:
            return self._advance()
        except ExitingError as error:
            self._session.leave_with(error)
            raise

    def _advance(self) -> T:
        raise StopIteration


class StepLoop(Loop[int]):
    """Yields the steps that are left of `total`; None is without end."""

    def __init__(self, session: Session, total: int | None) -> None:
        self._session, self._total = session, total
        self._started = False

    def _advance(self) -> int:
        session = self._session
        if not self._started:
            self._start()
        elif session.in_step:
            session.complete_step()
        if session.finished:
            raise StopIteration
        completed = session.progress.completed
        if self._total is not None and completed >= self._total:
            session.finish(self._total)
            raise StopIteration
        session.border()
        session.in_step = True
        return completed

    def _start(self) -> None:
        self._session.begin(self._total)
        self._session.resume_random()
        self._started = True
        self._session.already_finished(self._total)


class EpochLoop(Loop[int]):
    """Yields the epochs that are left of `total`; the one under way at a save is yielded again at a resume."""

    def __init__(self, session: Session, total: int | None) -> None:
        self._session, self._total = session, total
        self._started = False
        self.resuming: RandomState | None = None  # the random state to go on with after the consumed batches
        self.batches_asked = False

    def _advance(self) -> int:
        session = self._session
        if not self._started:
            self._start()
        else:
            self._complete_epoch()
        if session.finished:
            raise StopIteration
        epoch = session.progress.epoch
        if self._total is not None and epoch >= self._total:
            session.finish(self._total)
            raise StopIteration
        if self.resuming is None:
            session.border()
            session.progress.at_epoch = session.read_random()
        self.batches_asked = False
        session.in_epoch = True
        return epoch

    def _start(self) -> None:
        session, progress = self._session, self._session.progress
        session.begin(self._total, unit="epochs")
        self._started = True
        if session.already_finished(self._total) or progress.at_epoch is None:
            session.resume_random()
            return
        # Saved inside this epoch: the code at its top runs again, and must draw what it drew.
        session.set_random(progress.at_epoch)
        self.resuming = session.random

    def _complete_epoch(self) -> None:
        session, progress = self._session, self._session.progress
        session.in_epoch = False
        if session.in_step:
            session.complete_step()
        if session.finished:
            return
        progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.at_epoch = progress.at_iter = None
        self.resuming = session.held_random = None


class Resuming(Protocol):
    """Who knows whether the batches under way at the checkpoint are still to be passed."""

    resuming: RandomState | None


class BatchLoop(Loop[T]):
    """Yields the batches of a loader that are left in this epoch; each is a step."""

    def __init__(self, session: Session, epochs: Resuming, loader: Iterable[T]) -> None:
        self._session, self._epochs, self._loader = session, epochs, loader
        self._batches: Iterator[T] | None = None

    def _advance(self) -> T:
        session = self._session
        if session.in_step:
            session.complete_step()
            session.progress.batch += 1
        if session.finished:
            raise StopIteration
        if self._batches is None:
            self._batches = self._start()
        session.border()
        batch = next(self._batches)
        session.in_step = True
        return batch

    def _start(self) -> Iterator[T]:
        session, progress, loader = self._session, self._session.progress, self._loader
        resuming, self._epochs.resuming = self._epochs.resuming, None
        first = progress.loader.loader is None
        beside = isinstance(loader, Stateful) and not session.state.holds(loader)
        progress.loader.meet(loader, beside=beside, frameworks=frameworks_in_use())
        if resuming is None or progress.at_iter is None:  # nothing of this epoch was drawn before the checkpoint
            if first and session.random is not None:
                self._carry_over(session.random)
            session.held_random = None
            progress.at_iter = session.read_random(loader)
            return iter(loader)
        if isinstance(loader, Stateful):
            progress.loader.bring_back()
            batches: Iterator[T] = iter(loader)
        else:
            batches = self._replayed(progress.batch, progress.at_iter)
        session.set_random(resuming, loader)
        session.held_random = None
        return batches

    def _carry_over(self, saved: RandomState) -> None:
        """A run resumed between two epochs goes on with what its loader carried over from the last one."""
        session, memory = self._session, self._session.progress.loader
        before = session.read_random()
        if not memory.remade:
            memory.bring_back()
        session.set_random(before)
        if memory.carried:
            session.set_random(saved.of_loader, self._loader)

    def _replayed(self, count: int, at_iter: RandomState | None) -> Iterator[T]:
        """A fresh iterator in the same order, past the batches that were consumed."""
        session, loader = self._session, self._loader
        session.set_random(at_iter, loader)
        batches: Iterator[T] = iter(loader)
        skipped = 0
        for framework in frameworks_in_use():
            skipped = skipped or framework.skip_batches(loader, batches, count)
        for number in range(skipped, count):
            session.raise_if_noticed()
            if next(batches, self) is self:
                raise StateMismatch(
                    f"the loader gave {number} batches, and {count} of this epoch were consumed before the checkpoint: "
                    'it is not the same data. Nothing was done; bring the data back, or begin a new run: resume="none"'
                )
        return batches


def check_total(name: str, total: Any) -> int | None:
    """A number of steps or epochs, 0 or more; None is without end. Raises LoopMisused."""
    if total is None:
        return None
    try:
        count = total.__index__()
    except AttributeError:
        raise LoopMisused(f"{name}({total!r}): a whole number is needed") from None
    if count < 0:
        raise LoopMisused(f"{name}({total!r}): the number is below 0")
    return int(count)
