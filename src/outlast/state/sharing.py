"""Who shares what in a state: two names for one object, two arrays in one memory.

A restore fills what stands in the program. Where the program shares and the checkpoint does not, one value would
overwrite the other; where the checkpoint shares and the program does not, later changes would part them. So sharing
must stay as it was at the start, and a save that changed it is refused.
"""

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from outlast.errors import StateUnsupported

Span = tuple[int, int, str, Hashable]  # first address, one past the last, key path, alias key
_FIRST_AND_LAST = itemgetter(0, 1)


@dataclass(slots=True)
class Sharing:
    """`aliases`: a key path to the first one of the same object. `owners`: those first ones. `spans`: of arrays."""

    aliases: dict[str, str] = field(default_factory=dict)
    owners: set[str] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)

    def first(self, path: str) -> str:
        """The first key path of the same object."""
        return self.aliases.get(path, path)

    def overlaps(self) -> set[tuple[str, str]]:
        """Pairs of arrays that overlap in memory and are not the same array."""
        found: set[tuple[str, str]] = set()
        active: list[Span] = []
        spans = sorted(self.spans, key=_FIRST_AND_LAST)
        if all(span[1] <= following[0] for span, following in itertools.pairwise(spans)):
            return found  # as nearly always
        for span in spans:
            active = [other for other in active if other[1] > span[0]]
            for other in active:
                if other[3] != span[3]:
                    found.add((min(other[2], span[2]), max(other[2], span[2])))
            active.append(span)
        return found

    def check_at_the_start(self, standing: Mapping[str, object]) -> None:
        """A view that cannot be filled in place would come back as a copy of its own."""
        for one, other in sorted(self.overlaps()):
            if (one in standing) != (other in standing):
                raise StateUnsupported(
                    f"{one} and {other} share memory, and one of them is read-only: it would come back as a copy; "
                    "leave it out of the state and make the view anew at each start"
                )

    def check_against(self, start: "Sharing", standing: Mapping[str, object]) -> None:
        """Raises StateUnsupported naming two key paths that share otherwise than they did at the start."""
        known = self.owners | set(self.aliases)
        for path, first in start.aliases.items():
            if path in known and first in known and self.first(path) != self.first(first):
                raise StateUnsupported(
                    f"{path} and {first} were one object at the start and are two now, so a resumed program would mix "
                    "them up; start with a copy (or None) in one of them"
                )
        for path, first in self.aliases.items():
            if path in standing and start.first(path) != start.first(first):
                raise StateUnsupported(
                    f"{path} and {first} have become one object and were two at the start, so a resumed program would "
                    "part them; copy the content instead"
                )
        now, before = self.overlaps(), start.overlaps()
        here = {span[2] for span in self.spans}
        for one, other in sorted(now ^ before):
            if one in here and other in here:
                change = "share memory now and did not" if (one, other) in now else "do not share memory now and did"
                raise StateUnsupported(
                    f"{one} and {other} {change} at the start, so a resumed program would not be in this state; copy "
                    "content instead of making views, or start with the view"
                )
