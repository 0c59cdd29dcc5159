"""The connection between ranks: who does not know the secret says nothing that is heard, and nothing is heard twice."""

import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.ranks.fate import Fate, fate_after, graver
from outlast.ranks.messages import Agreed, Gone, Hello, Hold, NoMessage, Passed, Standing, from_json, to_json
from outlast.ranks.wire import Closed, Connection, listener

MESSAGES = [
    Hello(1, 2, {"every": "Steps(count=5)"}),
    Hold(3),
    Passed(3, 14),
    Agreed(3, 15),
    Standing([["SIGTERM", "why", "final", 29.5]]),
    Gone(1, "crashed", 1, "ValueError: \u2028 ü\n"),
]


def both(secret: str, other: str | None = None) -> tuple[Any, Any]:
    """Two ends; an exception in place of one that could not be made."""
    one, two = socket.socketpair()
    ends: list[Any] = [None, None]

    def make(place: int, sock: socket.socket, word: str) -> None:
        try:
            ends[place] = Connection(sock, word, leads=place == 0)
        except Closed as error:
            ends[place] = error

    # TCP, since options of TCP are set on it.
    one.close(), two.close()
    with listener(only_here=True) as listening:
        dialled = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    thread = threading.Thread(target=make, args=(1, dialled, other or secret))
    thread.start()
    make(0, accepted, secret)
    thread.join()
    return ends[0], ends[1]


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    leader, member = both("secret")
    yield leader, member
    leader.close()
    member.close()


def test_what_is_said_arrives_in_order_and_unchanged(ends: tuple[Connection, Connection]) -> None:
    leader, member = ends
    for connection in ends:
        connection.settle()
    for message in MESSAGES:
        leader.send(message)
    assert [member.receive() for _ in MESSAGES] == MESSAGES
    member.send(MESSAGES[0])
    assert leader.receive(first=True) == MESSAGES[0]


def test_another_secret_is_no_word() -> None:
    leader, member = both("secret", "other")
    member.send(MESSAGES[0])
    with pytest.raises(Closed, match="secret"):
        leader.receive(first=True)
    leader.close()
    member.close()


def test_a_line_that_is_sent_again_is_no_word(ends: tuple[Connection, Connection]) -> None:
    leader, member = ends
    sent: list[bytes] = []

    class Recording:
        def sendall(self, data: bytes) -> None:
            sent.append(data)

    real, leader._sock = leader._sock, cast(socket.socket, Recording())
    leader.send(Hold(1))
    leader._sock = real
    real.sendall(sent[0] + sent[0])
    assert member.receive() == Hold(1)
    with pytest.raises(Closed):
        member.receive()


def test_the_own_words_sent_back_are_no_words(ends: tuple[Connection, Connection]) -> None:
    leader, member = ends
    leader.send(Hold(1))
    line = member._reader.readline()
    member._sock.sendall(line)
    with pytest.raises(Closed):
        leader.receive()


def test_the_end_of_a_process_is_the_end_of_its_connection(ends: tuple[Connection, Connection]) -> None:
    leader, member = ends
    member.close()
    with pytest.raises(Closed):
        leader.receive()
    with pytest.raises(Closed):
        _send_often(leader)


def _send_often(connection: Connection) -> None:
    for _ in range(1000):
        connection.send(MESSAGES[0])


def test_who_is_no_rank_is_turned_away() -> None:
    with listener(only_here=True) as listening:
        dialled = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    dialled.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(Closed):
        Connection(accepted, "secret", leads=True)
    dialled.close()


@given(data=st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_messages(data: bytes) -> None:
    with pytest.raises(NoMessage):
        from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        b'["Hold",{"round":"1"}]',
        b'["Hold",{"round":true}]',
        b'["Hold",{}]',
        b'["Hold",{"round":1,"more":2}]',
        b'["Message",{}]',
        b"[" * 100_000,
    ],
)
def test_a_message_with_other_fields_is_none(data: bytes) -> None:
    with pytest.raises(NoMessage):
        from_json(data)


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_comes_back_as_it_was(message: Any) -> None:
    assert from_json(to_json(message)) == message


# --- what it means that somebody leaves -----------------------------------------------------------------


def test_who_has_finished_strands_nobody() -> None:
    assert fate_after(Gone(1, "finished", 0, ""), 143) is None


@pytest.mark.parametrize(
    ("how", "code", "strands"),
    [("lost", 143, True), ("crashed", 143, True), ("error", 78, True), ("stopped", 143, False), ("left", 143, False)],
)
def test_what_the_others_do_when_a_rank_leaves(how: str, code: int, strands: bool) -> None:
    fate = fate_after(Gone(2, how, 78, "why"), 143)
    assert fate is not None
    assert (fate.code, fate.strands) == (code, strands)
    assert "rank 2" in fate.reason
    assert "why" in fate.reason


def test_the_first_word_counts_unless_only_a_later_one_strands() -> None:
    mild, grave, other = Fate(143, "left", False), Fate(78, "error", True), Fate(143, "lost", True)
    assert graver(None, mild) is mild
    assert graver(mild, grave) is grave
    assert graver(grave, other) is grave
    assert graver(grave, mild) is grave
