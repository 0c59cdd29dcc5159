"""At which border all ranks meet: the rules alone, without threads, sockets or time.

Each rank counts the borders that it has passed. When something is to be done by all, the leader asks for these counts;
whoever has answered passes no further border until all have agreed. They agree on the largest count: that border
nobody has passed, and whoever is behind passes those before it, since a step that one has begun may need all others.
"""

from dataclasses import dataclass, field
from typing import Literal

Look = Literal["pass", "wait", "meet"]


@dataclass(slots=True)
class Gate:
    """One rank's borders, numbered from 0; `passed` is the number of the next one."""

    passed: int = 0
    _asked: int | None = None  # the round that was answered, and is not agreed on
    _meetings: set[int] = field(default_factory=set)

    def ask(self, round_: int) -> int:
        """The leader asks; returns the answer, and nothing is passed until `agree`."""
        self._asked = round_
        return self.passed

    def agree(self, round_: int, border: int) -> None:
        """All meet at this border."""
        assert border >= self.passed, "a border was agreed on that is passed"
        if self._asked == round_:
            self._asked = None
        self._meetings.add(border)

    def meets_from(self, border: int) -> bool:
        """Whether all meet at this border or a later one, as far as is known."""
        return any(one >= border for one in self._meetings)

    def look(self) -> Look:
        """What to do at the next border."""
        if self.passed in self._meetings:
            return "meet"
        return "wait" if self._asked is not None else "pass"

    def met(self) -> None:
        """All have met at the next border."""
        self._meetings.discard(self.passed)

    def step(self) -> None:
        """Passes it."""
        assert self.look() == "pass", "a border that is held was passed"
        self.passed += 1


@dataclass(slots=True)
class Asking:
    """The leader's questions: one round at a time. `size` ranks answer, the leader among them."""

    size: int
    round: int = 0
    _answers: dict[int, int] | None = field(default=None)

    @property
    def is_open(self) -> bool:
        return self._answers is not None

    def open(self) -> int:
        """Begins a round; its number."""
        assert not self.is_open
        self.round += 1
        self._answers = {}
        return self.round

    def answer(self, rank: int, round_: int, passed: int) -> int | None:
        """A rank has answered; the border that all meet at once the last one has."""
        if self._answers is None or round_ != self.round:
            return None  # of an earlier round, or said twice
        self._answers[rank] = passed
        if len(self._answers) < self.size:
            return None
        agreed, self._answers = max(self._answers.values()), None
        return agreed
