"""Ranks agree on a border: in every order of messages they meet at the same ones, and none that anybody has passed."""

from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.ranks.agreement import Asking, Gate
from outlast.ranks.gathering import Gathering


class Company:
    """Ranks without threads and sockets: messages wait in order until a test delivers them, from link to link."""

    def __init__(self, size: int) -> None:
        self.size, self.gates, self.asking = size, [Gate() for _ in range(size)], Asking(size)
        self.down: list[deque[tuple[Any, ...]]] = [deque() for _ in range(size)]
        self.up: list[deque[tuple[Any, ...]]] = [deque() for _ in range(size)]
        self.stands = [False] * size
        self.let_go = [False] * size
        self.here: dict[int, int] = {}
        self.met: list[list[int]] = [[] for _ in range(size)]
        self.calls = 0

    def tell(self, *message: Any) -> None:
        for rank in range(1, self.size):
            self.down[rank].append(message)

    def call(self) -> None:
        """As Leader.call: something is to be done by all."""
        if self.asking.is_open or self.gates[0].meets_from(0):
            return
        self.calls += 1
        number = self.asking.open()
        own = self.gates[0].ask(number)
        self.tell("hold", number)
        self.answered(0, number, own)

    def answered(self, rank: int, number: int, passed: int) -> None:
        border = self.asking.answer(rank, number, passed)
        if border is not None:
            self.tell("agreed", number, border)
            assert border >= max(gate.passed for gate in self.gates), "a begun step is behind what was agreed on"
            self.gates[0].agree(number, border)

    def step(self, rank: int) -> bool:
        """The rank's loop comes to its next border; whether anything moved."""
        gate = self.gates[rank]
        if self.stands[rank]:
            return self.leave(rank)
        look = gate.look()
        if look == "pass":
            gate.step()
        elif look == "meet":
            self.stands[rank] = True
            if rank:
                self.up[rank].append(("here", gate.passed))
        return look != "wait"

    def leave(self, rank: int) -> bool:
        """Of a meeting: the leader once all are there, a member once it is let go."""
        gate = self.gates[rank]
        if rank == 0:
            if len(self.here) < self.size - 1:
                return False
            assert set(self.here.values()) == {gate.passed}
            gate.met()
            if gate.look() != "pass":
                return False
            self.tell("go", gate.passed)
            self.here.clear()
        elif not self.let_go[rank] or gate.look() == "wait":
            return False
        self.met[rank].append(gate.passed)
        self.stands[rank] = self.let_go[rank] = False
        gate.step()
        return True

    def deliver_down(self, rank: int) -> bool:
        if not self.down[rank]:
            return False
        kind, *rest = self.down[rank].popleft()
        gate = self.gates[rank]
        if kind == "hold":
            self.up[rank].append(("passed", rest[0], gate.ask(rest[0])))
        elif kind == "agreed":
            gate.agree(*rest)
        else:
            assert rest[0] == gate.passed
            gate.met()
            self.let_go[rank] = True
        return True

    def deliver_up(self, rank: int) -> bool:
        if not self.up[rank]:
            return False
        kind, *rest = self.up[rank].popleft()
        if kind == "passed":
            self.answered(rank, *rest)
        else:
            self.here[rank] = rest[0]
        return True

    def come_to_rest(self) -> None:
        """Everything that can move moves; nobody waits for ever."""
        for _ in range(100):
            for rank in range(self.size):
                while rank and (self.deliver_down(rank) or self.deliver_up(rank)):
                    pass
            for rank in range(self.size):
                self.step(rank)
        assert not any(self.stands), "somebody still stands at a border"
        assert not any(gate.look() == "wait" for gate in self.gates), "somebody is still held"


ACTIONS = st.tuples(st.sampled_from(["step", "down", "up", "call"]), st.integers(0, 3))


@settings(max_examples=400, deadline=None)
@given(size=st.integers(2, 4), actions=st.lists(ACTIONS, max_size=120))
def test_in_every_order_all_meet_at_the_same_borders_and_at_none_that_is_passed(
    size: int, actions: list[tuple[str, int]]
) -> None:
    company = Company(size)
    for kind, number in actions:
        rank = number % size
        if kind == "call":
            company.call()
        elif kind == "step":
            company.step(rank)
        elif rank:
            company.deliver_down(rank) if kind == "down" else company.deliver_up(rank)
    company.come_to_rest()
    assert all(met == company.met[0] for met in company.met)
    assert len(company.met[0]) == len(set(company.met[0]))
    assert (len(company.met[0]) > 0) == (company.calls > 0)


def test_a_rank_that_has_begun_more_steps_than_the_others_sets_the_border() -> None:
    company = Company(3)
    for rank, steps in enumerate((2, 5, 3)):
        for _ in range(steps):
            company.step(rank)
    company.call()
    company.come_to_rest()
    assert company.met == [[5], [5], [5]]


def test_a_rank_that_has_answered_passes_nothing_before_all_have_agreed() -> None:
    gate = Gate()
    assert gate.ask(1) == 0
    assert gate.look() == "wait"
    with pytest.raises(AssertionError):
        gate.step()
    gate.agree(1, 1)
    assert gate.look() == "pass"
    gate.step()
    assert gate.look() == "meet"


def test_an_answer_to_an_earlier_question_is_none_to_this_one() -> None:
    asking = Asking(2)
    first = asking.open()
    assert asking.answer(0, first, 3) is None
    assert asking.answer(1, first, 4) == 4
    second = asking.open()
    assert asking.answer(0, first, 9) is None
    assert asking.answer(0, second, 5) is None
    assert asking.answer(1, first, 9) is None
    assert asking.answer(1, second, 5) == 5


@given(words=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=30))
def test_words_about_another_save_never_count(words: list[tuple[int, int]]) -> None:
    gathering = Gathering[int](frozenset({1, 2, 3}))
    gathering.begin(2)
    counted: dict[int, int] = {}
    for place, (rank, number) in enumerate(words):
        news = gathering.take(rank, number, place)
        assert news == (number == 2 and rank in (1, 2, 3) and rank not in counted)
        if news:
            counted[rank] = place
    assert gathering.words == counted
    assert gathering.is_whole == (len(counted) == 3)
