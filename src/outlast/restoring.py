"""The start of a job: an attempt is claimed, and the state of the newest good checkpoint comes back."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outlast.account import Account, Told
from outlast.checkpoint.attempt import Attempt
from outlast.checkpoint.read import OpenCheckpoint
from outlast.checkpoint.runs import Finish, find_or_start_run, finish_of, mark_store
from outlast.checkpoint.starting import StartRequest
from outlast.company import Alone, Company
from outlast.options import Options
from outlast.ports import Store
from outlast.saver import AnyAttempt
from outlast.settings import SUPERVISED_EXECUTION, Surroundings
from outlast.state.parts import Accepted, Resumed, UserState
from outlast.state.randomness import RandomState

if TYPE_CHECKING:
    from outlast.company.leading import Leading


class Starting(Told, Protocol):
    """What is asked of the session that starts."""

    state: UserState
    options: Options
    around: Surroundings

    def claimed(self, attempt: AnyAttempt, account: Account) -> None:
        """From now on there is a journal."""
        ...

    def raise_if_noticed(self) -> None:
        """Called now and then; may raise."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """From where a job goes on: an open checkpoint and what was restored of it, or nothing at all.

    `finish`: that checkpoint finished the run. `seconds`: what the restore took.
    """

    opened: OpenCheckpoint | None
    resumed: Resumed | None
    finish: Finish | None
    seconds: float


def start(host: Starting, company: Company, store: Store, stack: ExitStack) -> Begun:
    """Starts an attempt, or takes part in that of rank 0; what is opened is on the stack."""
    if isinstance(company, Alone):
        return _claim(host, None, store, stack)
    from outlast.company.leading import Leading  # noqa: PLC0415 - a single process starts without all this
    from outlast.joining import join  # noqa: PLC0415 - as above

    return _claim(host, company, store, stack) if isinstance(company, Leading) else join(host, company, store, stack)


def _claim(host: Starting, leading: "Leading | None", store: Store, stack: ExitStack) -> Begun:
    options, around = host.options, host.around
    mark_store(store)
    if leading is not None:
        leading.gather(store, options, host.raise_if_noticed)
    execution = around.identity.execution or around.env.get(SUPERVISED_EXECUTION) or None
    asked = options.run_request(around.identity, execution)
    place = find_or_start_run(store, asked, around.clock).task(around.identity.task)
    request = StartRequest(
        place=place,
        rollback_to=options.rollback_to,
        crashes=options.crashes,
        keep=options.keep,
        execution=execution,
    )
    finish = finish_of(store, place)
    attempt = Attempt.claim(store, request, around)
    if leading is not None:
        leading.claimed(attempt)
    restoring = Restoring(host, attempt, Account(attempt, host, around, options.on_drift))
    opened = attempt.open_newest_good(stack, restoring.accept, host.raise_if_noticed)
    if finish is not None and (opened is None or finish.commit != opened.record.name):
        finish = None
    if leading is not None:
        leading.started("" if opened is None else place.commit(opened.record.name), finish)
    return restoring.begun(opened, finish)


class Restoring:
    """One restore, of the newest checkpoint that is accepted. Made when it begins."""

    def __init__(self, host: Starting, attempt: AnyAttempt, account: Account) -> None:
        self._host, self._account = host, account
        self._accepted: Accepted | None = None
        self._seconds: Callable[[], float] = account.stopwatch()
        host.claimed(attempt, account)

    def accept(self, checkpoint: OpenCheckpoint) -> None:
        """Compares and reads one; raises StateMismatch, CheckpointCorrupt, StoreUnreachable."""
        self._account.refuse_drift(checkpoint.record.attempt)
        accepted = self._host.state.accept(checkpoint)
        if self._host.options.allow_missing:
            # An older one may lack a part that this one, should it be bad, has half overwritten by then.
            checkpoint.load((), {})
        checkpoint.load(accepted.leaves, accepted.targets)
        accepted.fetch()
        self._accepted = accepted

    def begun(self, opened: OpenCheckpoint | None, finish: Finish | None) -> Begun:
        """Puts back what was accepted last, if it was anything."""
        resumed = None
        if opened is not None:
            assert self._accepted is not None
            resumed = self._accepted.restore()
            if opened.rank != (self._host.around.rank or 0):
                # There was no such rank. It keeps the random state that the program gave it: to draw what another rank
                # draws would be no random at all.
                resumed.random = RandomState({}, {})
                resumed.progress.at_iter = None
                if resumed.progress.at_epoch is not None:  # it is at the same border as the others all the same
                    resumed.progress.at_epoch = RandomState({}, {})
        return Begun(opened, resumed, finish, self._seconds())
