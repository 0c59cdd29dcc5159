"""What the patch of a manifest that exists came to, whatever the target."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patched:
    """A manifest's new text, each change with its reason, and what only its author can do."""

    text: str
    changes: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
