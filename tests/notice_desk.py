"""A board without a guard, which would end the tests: it merges and writes down what it is told."""

from collections.abc import Mapping, Sequence
from typing import Any

from outlast.disruptions import Disruption
from outlast.events import Event
from outlast.notices.merge import Merge
from outlast.notices.notice import Notice


class Board:
    """As NoticeBoard, for the threads that watch."""

    def __init__(self, clock: Any, grace_seconds: float) -> None:
        self.merge = Merge(lambda _: grace_seconds, clock)
        self.told: list[Notice | Event] = []
        self.learned: dict[str, str] = {}

    def report(self, source: str, seen: Sequence[Disruption]) -> bool:
        told = self.merge.take(source, seen, whole=True)
        self.told += told
        return bool(told)

    def learn(self, told: Mapping[str, str]) -> None:
        self.learned |= told

    def say(self, event: Event) -> None:
        self.told.append(event)

    @property
    def notice(self) -> Notice | None:
        return self.merge.notice
