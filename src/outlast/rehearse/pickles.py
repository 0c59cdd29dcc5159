"""What a pickle holds, read without importing or running anything of it.

Two pickles of equal values differ in their bytes where one object stands in several places: after a restore a name may
be another string of the same letters, which the pickler then writes once more. So their bytes are no measure.
"""

import io
import pickle
from collections.abc import Iterator

Leaf = float | int | str | bytes
_MOST_LEAVES = 200_000  # a shared part is told wherever it stands, so that a small pickle may unfold to very many


class _Stub:
    """Stands for an object: the parts that the pickle makes it of, in their order. Its class is made for its name."""

    parts: list[object]

    def __new__(cls, *arguments: object, **named: object) -> "_Stub":
        made = super().__new__(cls)
        made.parts = [*arguments, *([named] if named else [])]
        return made

    def __init__(self, *_: object, **__: object) -> None:
        """The parts are there already: a pickle may leave this out."""

    def __call__(self, *arguments: object) -> "_Stub":
        return _Stub(self, *arguments)

    def __setstate__(self, state: object) -> None:
        self.parts.append(state)

    def __setitem__(self, key: object, value: object) -> None:
        self.parts.append((key, value))

    def append(self, value: object) -> None:
        self.parts.append(value)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        return type(f"{module}.{name}", (_Stub,), {})

    def persistent_load(self, pid: object) -> object:
        return ("kept beside it", pid)


def is_pickle(data: bytes) -> bool:
    """Whether the bytes begin and end as those of a pickle of protocol 2 or later."""
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= pickle.HIGHEST_PROTOCOL and data.endswith(b".")


def read_pickle(data: bytes, name: str = "") -> Iterator[tuple[str, Leaf]]:
    """The leaves of each pickle in the data, one after the other, with names such as ['optimizer']['lr'].

    Raises what pickle does for broken ones, and ValueError for one that unfolds to too much.
    """
    stream, count = io.BytesIO(data), 0
    while stream.tell() < len(data):
        number = f" {count}" if count else ""
        yield from _walk(_Reader(stream).load(), f"{name or 'object'}{number}", [_MOST_LEAVES], ())
        count += 1


def _walk(value: object, name: str, left: list[int], above: tuple[int, ...]) -> Iterator[tuple[str, Leaf]]:
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("too many leaves")
    inside = (*above, id(value))
    if id(value) in above:
        yield name, "a part of itself"
    elif isinstance(value, dict):
        yield name, f"dict of {len(value)}"
        for key, one in value.items():
            yield from _walk(one, f"{name}[{_text(key)}]", left, inside)
    elif isinstance(value, list | tuple | _Stub):
        parts = value.parts if isinstance(value, _Stub) else value
        yield name, f"{type(value).__name__} of {len(parts)}"
        for place, one in enumerate(parts):
            yield from _walk(one, f"{name}[{place}]", left, inside)
    elif isinstance(value, set | frozenset):
        yield name, f"{type(value).__name__} of {sorted(map(_text, value))}"
    elif isinstance(value, bytes | bytearray):
        yield name, bytes(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
    else:
        yield name, _text(value)


def _text(value: object) -> str:
    """A text, a key, or whatever else has no parts."""
    if isinstance(value, type):
        return value.__name__
    return repr(list(_walk(value, "", [_MOST_LEAVES], ()))) if isinstance(value, _Stub | tuple) else repr(value)
