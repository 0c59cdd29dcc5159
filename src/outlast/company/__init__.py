"""Whom this process trains with: nobody, the ranks that it leads, or rank 0, which it follows.

A session asks its company at each border and each end; see `Company`. Where there are several ranks, the session of
rank 0 decides as that of a single process does and tells the others, whose sessions do what they are told.
"""

from outlast.company.alone import Alone
from outlast.company.doors import Company, Host
from outlast.ranks.world import World
from outlast.settings import Surroundings

__all__ = ["Alone", "Company", "Host", "company_of"]


def company_of(world: World | None, around: Surroundings, host: Host) -> Company:
    """The company of a process in this world, None for none."""
    if world is None:
        return Alone(host, around)
    from outlast.company.following import Following  # noqa: PLC0415 - a single process starts without all this
    from outlast.company.leading import Leading  # noqa: PLC0415 - as above

    return Leading(world, around, host) if world.leads else Following(world, around, host)
