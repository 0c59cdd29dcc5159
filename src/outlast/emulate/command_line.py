"""What a container runs, of its image's words and its own."""

from collections.abc import Mapping, Sequence
from typing import Any


def command_line(
    container: Mapping[str, Any], *, entry_point: Sequence[str], arguments: Sequence[str]
) -> tuple[str, ...]:
    """`command` of the container replaces the image's entry point and, without `args`, its arguments too.

    Empty when nobody says. Source: Kubernetes, "Define a Command and Arguments for a Container"; Cloud Run's containers
    do the same (2026-11-30).
    """
    command, own = tuple(container.get("command") or ()), tuple(container.get("args") or ())
    return (*command, *own) if command else (*entry_point, *(own or arguments))
