"""What has come from whom: the rules alone, without threads, sockets or time."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Word = TypeVar("Word")


@dataclass(slots=True)
class Gathering(Generic[Word]):
    """One word from each member about one thing, by its number. A word about another thing is passed over."""

    members: frozenset[int]
    number: int = -1
    words: dict[int, Word] = field(default_factory=dict)

    def begin(self, number: int) -> None:
        """From now on words about this are gathered."""
        self.number, self.words = number, {}

    def take(self, rank: int, number: int, word: Word) -> bool:
        """A word has come; whether it counts. The first one of each member does."""
        if number != self.number or rank not in self.members or rank in self.words:
            return False
        self.words[rank] = word
        return True

    @property
    def is_whole(self) -> bool:
        return len(self.words) == len(self.members)
