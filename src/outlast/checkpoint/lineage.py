"""Claims: which attempt owns a task, and which commits count.

An attempt starts by creating claim n+1, which lists the commits it found. A commit counts if the newest claim lists
it or its own attempt made it; what an older attempt writes later does not count, whenever it arrives. Nobody waits
for a dead attempt, and a live one that has been superseded finds the newer claim before it commits or deletes.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from outlast.checkpoint.places import CommitName, TaskPlace
from outlast.checkpoint.sealed import load_sealed, seal
from outlast.errors import CheckpointCorrupt, ObjectExists
from outlast.ports import Store


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt's claim. `commits` count; `set_aside` exist and do not, by somebody's decision (a rollback)."""

    attempt: int
    token: str
    commits: tuple[CommitName, ...] = ()
    set_aside: tuple[CommitName, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The claim as it is stored."""
        return seal(
            {
                **asdict(self),
                "commits": [name.text for name in self.commits],
                "set_aside": [name.text for name in self.set_aside],
            }
        )


@dataclass(frozen=True, slots=True)
class Lineage:
    """The claims and commits of a task at one moment. `newest` is the highest attempt claimed, -1 for none."""

    newest: int
    claims: tuple[Claim, ...]
    commits: tuple[CommitName, ...]
    damaged: tuple[str, ...] = ()

    @property
    def counted(self) -> list[CommitName]:
        """The commits that count, newest progress first.

        A claim that cannot be read any more hides its list, so whatever came after the last readable one counts.
        """
        if not self.claims:
            return sorted(self.commits, reverse=True)
        last = self.claims[-1]
        listed = set(last.commits)
        counted = [name for name in self.commits if name in listed or name.attempt >= last.attempt]
        return sorted(counted, reverse=True)

    @property
    def set_aside(self) -> set[CommitName]:
        """Commits that some claim set aside; they are kept."""
        return {name for claim in self.claims for name in claim.set_aside}

    @property
    def expected(self) -> int:
        """How many commits the newest claim found; some of them may have been retired since."""
        return len(self.claims[-1].commits) if self.claims else 0


def read_lineage(store: Store, place: TaskPlace) -> Lineage:
    """The claims and commits of a task as they are now."""
    attempts = claimed_attempts(store, place)
    claims, damaged = [], []
    for attempt in attempts:
        try:
            claims.append(_load_claim(store, place, attempt))
        except CheckpointCorrupt as error:
            damaged.append(str(error))
    return Lineage(
        newest=attempts[-1] if attempts else -1,
        claims=tuple(claims),
        commits=tuple(commit_names(store, place)),
        damaged=tuple(damaged),
    )


def claimed_attempts(store: Store, place: TaskPlace) -> list[int]:
    """The attempts that claimed a task, in order."""
    found = (place.claim_of(entry.name) for entry in store.list(place.claims))
    return sorted(attempt for attempt in found if attempt is not None)


def commit_names(store: Store, place: TaskPlace) -> list[CommitName]:
    """All commits of a task, counted or not, in order of progress; strays are passed over."""
    found = (place.commit_of(entry.name) for entry in store.list(place.commits))
    return sorted(name for name in found if name is not None)


Choice = Callable[[Lineage], tuple[Sequence[CommitName], Sequence[CommitName]]]


def claim_next(store: Store, place: TaskPlace, choose: Choice, details: Mapping[str, Any]) -> tuple[Claim, Lineage]:
    """Claims the next attempt. `choose` splits what was found into commits that count and commits set aside.

    When a commit came or went between the look and the claim, the look was stale and the attempt claims again: the
    older attempt may have retired a commit that the first claim lists, in favour of one that it does not.
    """
    lowest = 0
    while True:
        before = read_lineage(store, place)
        store.settle(place.commits)  # else a power cut could take a commit that the claim lists
        commits, set_aside = choose(before)
        number = max(before.newest + 1, lowest)
        claim = Claim(number, secrets.token_hex(8), tuple(commits), tuple(set_aside), details)
        try:
            store.create(place.claim(claim.attempt), claim.to_bytes())
        except ObjectExists:
            lowest = number + 1  # somebody else claimed this number, or something that is no claim has its name
            continue
        if tuple(commit_names(store, place)) == before.commits:
            return claim, before


def superseded_by(store: Store, place: TaskPlace, attempt: int) -> int | None:
    """The newest attempt that claimed the task after `attempt`, or None."""
    newest = claimed_attempts(store, place)[-1:]
    return newest[0] if newest and newest[0] > attempt else None


def _load_claim(store: Store, place: TaskPlace, attempt: int) -> Claim:
    name = place.claim(attempt)
    fields = load_sealed(store, name)
    try:
        if fields["attempt"] != attempt:
            raise ValueError(f"it is that of attempt {fields['attempt']}")
        commits = [CommitName.parse(text) for text in fields["commits"]]
        set_aside = [CommitName.parse(text) for text in fields["set_aside"]]
        return Claim(
            attempt,
            str(fields["token"]),
            tuple(one for one in commits if one),
            tuple(one for one in set_aside if one),
            dict(fields["details"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointCorrupt(f"{name} is not a claim: {error!r}") from error
