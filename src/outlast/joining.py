"""The start of a job on any rank but 0: it takes part in the attempt that rank 0 has claimed."""

from contextlib import ExitStack

from outlast.account import Account
from outlast.checkpoint.runs import Finish
from outlast.company import Company
from outlast.company.following import Following
from outlast.errors import BadObject, ExitingError, StoreUnreachable
from outlast.ports import Store
from outlast.ranks.messages import Started, Tried, TryCheckpoint
from outlast.restoring import Begun, Restoring, Starting


def join(host: Starting, company: Company, store: Store, stack: ExitStack) -> Begun:
    """The start of any rank but 0: it tries what the leader says, and goes on from what is good for all."""
    assert isinstance(company, Following)
    attempt = company.join(store, host.options, host.raise_if_noticed)
    # Rank 0 sees to the drift.
    restoring = Restoring(host, attempt, Account(attempt, host, host.around, "tell"))
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
