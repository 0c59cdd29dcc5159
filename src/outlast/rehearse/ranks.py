"""Processes that train together, found among those of an attempt, and what becomes of all when one of them ends."""

import os
import random
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from outlast.clock import format_duration
from outlast.containers import processes
from outlast.errors import SettingsError
from outlast.ranks.world import world_in
from outlast.rehearse.attempt import Attempt
from outlast.rehearse.node_runner import NODE
from outlast.rehearse.words import SignalRank

ALL = -1  # of the ranks
Found = dict[int, list[int]]
_AGREE = "ranks have to agree on a step after which all stop, as those of an outlast.Job do"


def nodes_among(pids: Iterable[int]) -> Found:
    """The processes of each node, its first one first, by its number. `pids`: parents before their children."""
    found: Found = {}
    for pid in pids:
        number = processes.environment_of(pid).get(NODE, "")
        if number.isdigit():
            found.setdefault(int(number), []).append(pid)
    return found


def ranks_among(pids: Iterable[int]) -> dict[int, int]:
    """The first process of each rank, by rank. `pids`: parents before their children, which have its variables too."""
    found: dict[int, int] = {}
    for pid in pids:
        with suppress(SettingsError):
            world = world_in(processes.environment_of(pid))
            if world is not None:
                found.setdefault(world.rank, pid)
    return found


def hit(pids: Iterable[int], step: SignalRank, *, turn: int) -> int | None:
    """Sends the signal to whom it is for; returns to which rank, -1 for all, None where there is none."""
    if step.what == "node":
        return _hit_node(nodes_among(pids), step, turn)
    ranks = ranks_among(pids)
    if step.apart_seconds is None:
        rank = step.rank if step.rank is not None or not ranks else sorted(ranks)[turn % len(ranks)]
        if rank not in ranks:
            return None
        _send(ranks[rank], step.number)
        return rank
    order = random.Random(turn).sample(sorted(ranks), len(ranks))  # noqa: S311 - an order, not a secret
    for place, one in enumerate(order):
        if place:
            time.sleep(step.apart_seconds / (len(order) - 1))
        _send(ranks[one], step.number)
    return ALL if order else None


def _hit_node(nodes: Found, step: SignalRank, turn: int) -> int | None:
    node = step.rank if step.rank is not None or not nodes else sorted(nodes)[turn % len(nodes)]
    if node not in nodes:
        return None
    for pid in nodes[node] if step.number == signal.SIGKILL else nodes[node][:1]:
        with suppress(ProcessLookupError):
            os.kill(pid, step.number)
    return node


def end_node(pids: Iterable[int], node: int) -> bool:
    """SIGKILL to what is left of a node; whether anything was."""
    return _hit_node(nodes_among(pids), SignalRank(signal.SIGKILL, node, what="node"), 0) is not None


def which(attempt: Attempt) -> str:
    """What something happened to alone, in words."""
    return "each rank in turn" if attempt.rank == ALL else f"{attempt.hit_what} {attempt.rank} alone"


def _send(pid: int, number: signal.Signals) -> None:
    """To one rank. An end without notice takes what it has started with it; a notice is for who listens."""
    family = [pid, *processes.descendants(pid)]
    if number != signal.SIGKILL:
        hearing = (one for one in family if (found := processes.look_at(one)) is not None and found.hears_sigterm)
        family = [next(hearing, pid)]
    for one in family:
        with suppress(ProcessLookupError):
            os.kill(one, number)


def find_in_ranks(attempts: Sequence[Attempt], *, grace_seconds: float) -> list[str]:
    """What went wrong after something had happened to single ranks: that alone is no survival."""
    return [line for attempt in attempts if attempt.rank is not None and (line := _one(attempt, grace_seconds))]


def _one(attempt: Attempt, grace_seconds: float) -> str | None:
    if attempt.kind == "one rank noticed" and attempt.node_killed:
        grace = format_duration(grace_seconds)
        return f"attempt {attempt.number}: {which(attempt)} got SIGTERM, and had to be killed after {grace}: {_AGREE}"
    if attempt.kind == "one rank noticed" and attempt.ended_by == "SIGKILL after the grace":
        grace = format_duration(grace_seconds)
        return f"attempt {attempt.number}: {which(attempt)} got SIGTERM, and not all ended within {grace}: {_AGREE}"
    if attempt.kind in ("one rank killed", "one rank noticed") and attempt.ended_by == "hung":
        gone = "was killed" if attempt.kind == "one rank killed" else "got SIGTERM"
        return (
            f"attempt {attempt.number}: {which(attempt)} {gone}, and the others waited for it for ever: let the "
            "launcher end them, or bound their waits, as an outlast.Job does"
        )
    return None
