"""Where members find the leader: a record of the job's store, which only who can read the store can read.

A launcher need not tell its launches apart, so a record may be of an earlier one: who finds nobody there, or somebody
who does not know the secret, looks for a newer record. The leader removes those that it finds, and its own once all
have come.
"""

import secrets
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass

from outlast.checkpoint.places import MEETINGS
from outlast.checkpoint.sealed import load_sealed, seal
from outlast.errors import CheckpointCorrupt, ObjectExists, ObjectMissing, StoreUnreachable
from outlast.machine import boot_name
from outlast.ports import Store
from outlast.ranks.world import World

_MOST_ADDRESSES = 16


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the leader listens. `machine`: its boot, so that who shares it takes the short way."""

    number: int
    port: int
    secret: str
    addresses: list[str]
    machine: str


class Meetings:
    """The records of one launch of one task."""

    def __init__(self, store: Store, job: str, world: World, task: int) -> None:
        self._store, self._world = store, world
        self._folder = f"{job}/{MEETINGS}/task-{task}/{world.launch}"

    def publish(self, port: int) -> Meeting:
        """Writes where the leader listens, after removing what earlier launches left."""
        numbers = self._numbers()
        for number in numbers:
            self._store.delete(self._name(number))
        number = max(numbers, default=0) + 1
        while True:
            meeting = Meeting(number, port, secrets.token_hex(32), _addresses(self._world), boot_name())
            try:
                self._store.create(self._name(number), seal(asdict(meeting)))
            except ObjectExists:
                number += 1
                continue
            return meeting

    def remove(self, meeting: Meeting) -> None:
        """All have come. A record that stays is passed over by a later launch."""
        with suppress(StoreUnreachable, CheckpointCorrupt):
            self._store.delete(self._name(meeting.number))

    def find(self) -> list[Meeting]:
        """All that are there, the newest first."""
        found = []
        for number in sorted(self._numbers(), reverse=True):
            with suppress(ObjectMissing, CheckpointCorrupt, TypeError, KeyError):
                found.append(Meeting(**load_sealed(self._store, self._name(number))))
        return found

    def _name(self, number: int) -> str:
        return f"{self._folder}/m{number:06}.json"

    def _numbers(self) -> list[int]:
        names = (entry.name.rpartition("/")[2] for entry in self._store.list(self._folder))
        return [int(name[1:7]) for name in names if len(name) == 12 and name[0] == "m" and name[1:7].isdigit()]


def ways_to(meeting: Meeting, world: World) -> list[str]:
    """The addresses to try, the most likely first."""
    near = ["127.0.0.1", "::1"] if meeting.machine and meeting.machine == boot_name() else []
    if world.on_one_machine:
        return near or ["127.0.0.1"]
    told = [world.address] if world.address else []
    return list(dict.fromkeys([*near, *told, *map(str, meeting.addresses)]))[:_MOST_ADDRESSES]


def _addresses(world: World) -> list[str]:
    """What this machine is called, and the numbers behind that."""
    if world.on_one_machine:
        return ["127.0.0.1"]
    names = [world.address, socket.gethostname(), socket.getfqdn()]
    numbers = []
    for name in dict.fromkeys(names[1:]):
        with suppress(OSError):
            numbers += [str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    return list(dict.fromkeys(name for name in [*names, *numbers] if name))[:_MOST_ADDRESSES]
