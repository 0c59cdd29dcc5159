"""The start of a job: an attempt is claimed, or joined, and the state of the newest good checkpoint comes back."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from outlast.account import Account, Told
from outlast.checkpoint.attempt import Attempt
from outlast.checkpoint.read import OpenCheckpoint
from outlast.checkpoint.runs import Finish, find_or_start_run, finish_of, mark_store
from outlast.checkpoint.starting import StartRequest
from outlast.company import Company, Following, Leading
from outlast.errors import BadObject, ExitingError, StoreUnreachable
from outlast.options import Options
from outlast.ports import Store
from outlast.ranks.messages import Started, Tried, TryCheckpoint
from outlast.saver import AnyAttempt
from outlast.settings import SUPERVISED_EXECUTION, Surroundings
from outlast.state.parts import Accepted, Resumed, UserState
from outlast.state.randomness import RandomState


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
    if isinstance(company, Following):
        return _join(host, company, store, stack)
    options, around = host.options, host.around
    mark_store(store)
    if isinstance(company, Leading):
        company.gather(store, options, host.raise_if_noticed)
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
    if isinstance(company, Leading):
        company.claimed(attempt)
    restoring = _Restoring(host, attempt, Account(attempt, host, around, options.on_drift))
    opened = attempt.open_newest_good(stack, restoring.accept, host.raise_if_noticed)
    if finish is not None and (opened is None or finish.commit != opened.record.name):
        finish = None
    if isinstance(company, Leading):
        company.started("" if opened is None else place.commit(opened.record.name), finish)
    return restoring.begun(opened, finish)


def _join(host: Starting, company: Following, store: Store, stack: ExitStack) -> Begun:
    attempt = company.join(store, host.options, host.raise_if_noticed)
    # Rank 0 sees to the drift.
    restoring = _Restoring(host, attempt, Account(attempt, host, host.around, "tell"))
    opened = None
    while not isinstance(order := company.order(host.raise_if_noticed), Started):
        assert isinstance(order, TryCheckpoint)
        try:
            opened = attempt.open(order.path, stack, restoring.accept, host.raise_if_noticed)
        except (BadObject, StoreUnreachable) as error:
            company.say(Tried(order.path, str(error), 0))
        except ExitingError as error:
            company.say(Tried(order.path, str(error), error.exit_code))
            raise
        else:
            company.say(Tried(order.path, "", 0))
    found = opened if order.path else None
    finish = None
    if found is not None and order.finished:
        finish = Finish(found.record.name, None if order.total < 0 else order.total)
    return restoring.begun(found, finish)


class _Restoring:
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
