"""Strangers at the leader's port: however many connect and whatever they say, the ranks find each other."""

import resource
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from outlast.clock import SystemClock
from outlast.ranks.bond import Bond
from outlast.ranks.fate import Fate, RanksApart
from outlast.ranks.leader import Ears, Leader
from outlast.ranks.meeting import Meeting, Meetings
from outlast.ranks.member import Member
from outlast.ranks.world import World
from outlast.stores.directory import DirectoryStore
from outlast.threads import nothing

SEES_SECONDS = 30.0


class Ranks:
    """A leader that gathers its members, and where strangers find it."""

    def __init__(self, folder: Path, size: int = 2) -> None:
        self.store, self.size = DirectoryStore(str(folder)), size
        self._bonds: list[Bond] = []
        self.failed: list[BaseException] = []
        self.leader = Leader(self._bond(0), {}, Ears(self.wished, self.stands))
        self.gathering = threading.Thread(target=self._gather, daemon=True)

    def __enter__(self) -> "Ranks":
        self.gathering.start()
        while not (found := self._meetings(1).find()):
            assert not self.failed, self.failed
        self.meeting: Meeting = found[0]
        return self

    def __exit__(self, *_: object) -> None:
        for bond in self._bonds:
            bond.end()

    def wished(self, pinned: bool) -> None: ...

    def stands(self, rank: int, notices: list[list[Any]]) -> None: ...

    def stranded(self, fate: Fate) -> None: ...

    def _world(self, rank: int) -> World:
        return World(rank, self.size, rank, self.size, "launch")

    def _bond(self, rank: int) -> Bond:
        self._bonds.append(Bond(self._world(rank), 143, self.stranded))
        return self._bonds[-1]

    def _meetings(self, rank: int) -> Meetings:
        return Meetings(self.store, "j", self._world(rank), 0)

    def _gather(self) -> None:
        try:
            self.leader.gather(self._meetings(0), SystemClock(), SEES_SECONDS, nothing, lambda _: None)
        except BaseException as error:  # noqa: BLE001 - for the test's thread
            self.failed.append(error)

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.meeting.port), timeout=5)

    def join(self, rank: int = 1, *, all_there: bool = True, wait_seconds: float = SEES_SECONDS) -> None:
        member = Member(self._bond(rank), self.stands)
        member.join(self._meetings(rank), {}, SystemClock(), wait_seconds, nothing)
        if all_there:
            self.gathering.join(SEES_SECONDS)
            assert not self.gathering.is_alive()
            assert self.failed == []


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with Ranks(tmp_path) as made:
        yield made


@pytest.fixture
def few_files() -> Iterator[int]:
    """A process that may open few more files than it has open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + room, before[1]))
    yield room
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    "said",
    [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"outlast-ranks 1 ", b"x" * 1_000_000, secrets.token_bytes(100_000)],
    ids=["nothing", "a line", "http", "half a greeting", "a long line", "noise"],
)
def test_whatever_a_stranger_says_the_member_is_taken_in(said: bytes, ranks: Ranks) -> None:
    stranger = ranks.dial()
    with suppress(OSError):
        stranger.sendall(said)
    ranks.join()
    stranger.close()


def test_a_stranger_that_greets_well_and_knows_no_secret_is_not_heard(ranks: Ranks) -> None:
    stranger = ranks.dial()
    stranger.sendall(b"outlast-ranks 1 " + secrets.token_hex(16).encode() + b"\n" + b"0" * 32 + b' ["Hello",{}]\n')
    ranks.join()
    assert set(ranks.leader._members) == {1}
    stranger.close()


CROWD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
port, held = int(sys.argv[1]), []
for _ in range(600):
    held.append(socket.create_connection(("127.0.0.1", port), timeout=20))
print("held", flush=True)
sys.stdin.read()
"""


def test_strangers_that_hold_their_connections_half_open_use_up_neither_files_nor_threads(
    few_files: int, ranks: Ranks
) -> None:
    before = threading.active_count()
    crowd = subprocess.Popen(
        [sys.executable, "-c", CROWD, str(ranks.meeting.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        with crowd:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == b"held\n"
            assert threading.active_count() < before + few_files
            ranks.join()
    finally:
        crowd.kill()


def test_a_leader_that_may_open_no_more_files_waits_until_it_may(few_files: int, ranks: Ranks) -> None:
    with ExitStack() as held:
        stranger = held.enter_context(socket.socket())
        with suppress(OSError):
            while True:
                held.enter_context(socket.socket())
        stranger.connect(("127.0.0.1", ranks.meeting.port))
        ranks.gathering.join(0.5)
        assert ranks.failed == []
    ranks.join()


def test_a_second_process_that_says_it_is_the_same_rank_is_told_why_it_is_not_taken(tmp_path: Path) -> None:
    with Ranks(tmp_path, size=3) as ranks:
        ranks.join(1, all_there=False)
        with pytest.raises(RanksApart, match="rank 1 is there already"):
            ranks.join(1, all_there=False, wait_seconds=0.3)
        ranks.join(2)
