"""How far apart two results are: 0 for equal, a relative difference of numbers, infinite for anything else."""

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path

from outlast.rehearse.documents import (
    Document,
    Leaf,
    Numbers,
    Unreadable,
    holds_members,
    read_document,
    split_numbers,
    unpacked,
)

_BLOCK = 1 << 20
_DOCUMENT_BYTES = 256 << 20  # larger files are compared as bytes only
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Distance:
    """The largest relative difference between two results, and where it is.

    `equal`: not even the bytes differ (in archives and databases: what they hold), as no tolerance asks for.
    """

    relative: float
    detail: str = ""
    equal: bool = False

    def within(self, tolerance: float) -> bool:
        return self.equal or (tolerance > 0 and self.relative <= tolerance)


EQUAL = Distance(0.0, equal=True)


def compare_files(path: str, expected: Path, actual: Path) -> Distance:
    """Two files, or links, of one name; `path` says how to read them."""
    if expected.is_symlink() or actual.is_symlink():
        return _compare_links(expected, actual)
    if not actual.exists():
        return Distance(math.inf, "missing after the rehearsal")
    offset = first_difference(expected, actual)
    if offset is None:
        return EQUAL
    if max(expected.stat().st_size, actual.stat().st_size) > _DOCUMENT_BYTES:
        return Distance(math.inf, f"differs from byte {offset} on")
    return compare_bytes(path, expected.read_bytes(), actual.read_bytes())


def first_difference(expected: Path, actual: Path) -> int | None:
    """The offset of the first byte that differs, or None for equal files."""
    offset = 0
    with expected.open("rb") as one, actual.open("rb") as other:
        while True:
            a, b = one.read(_BLOCK), other.read(_BLOCK)
            if a != b:
                return offset + _first_difference(a, b)
            if not a:
                return None
            offset += len(a)


def compare_bytes(path: str, expected: bytes, actual: bytes) -> Distance:
    """Two contents of one name."""
    if expected == actual:
        return EQUAL
    with contextlib.suppress(Unreadable):
        most = _DOCUMENT_BYTES
        return compare_bytes(path.removesuffix(".gz"), unpacked(expected, most=most), unpacked(actual, most=most))
    try:
        ours, theirs = read_document(path, expected), read_document(path, actual)
    except Unreadable:
        where = _first_difference(expected, actual)
        sizes = f"{len(expected)} bytes expected, {len(actual)} found"
        return Distance(math.inf, f"differs from byte {where} on ({sizes})")
    distance = compare_documents(ours, theirs)
    if not distance.equal or holds_members(expected):
        return distance
    return Distance(0.0, f"equal but for how it is written, from byte {_first_difference(expected, actual)} on")


def compare_documents(expected: Document, actual: Document) -> Distance:
    """Leaf by leaf; the detail is of the first leaf that differs in more than its numbers, else of the farthest."""
    farthest = EQUAL
    for name, leaf in expected.items():
        if name not in actual:
            return Distance(math.inf, f"{name} is missing: expected {_show(leaf)}")
        distance = _compare_leaves(name, leaf, actual[name])
        if math.isinf(distance.relative):
            return distance
        if not distance.equal and (farthest.equal or distance.relative > farthest.relative):
            farthest = distance
    for name, leaf in actual.items():
        if name not in expected:
            return Distance(math.inf, f"{name} is too much: found {_show(leaf)}")
    return farthest


def _compare_leaves(name: str, expected: Leaf, actual: Leaf) -> Distance:
    if isinstance(expected, Numbers) and isinstance(actual, Numbers):
        return _compare_arrays(name, expected, actual)
    if isinstance(expected, str) and isinstance(actual, str):
        return _compare_texts(name, expected, actual)
    if expected == actual:
        return EQUAL
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return Distance(_relative(expected, actual), _differs(name, expected, actual))
    return Distance(math.inf, _differs(name, expected, actual))


def _compare_texts(name: str, expected: str, actual: str) -> Distance:
    if expected == actual:
        return EQUAL
    (frame, numbers), (other_frame, others) = split_numbers(expected), split_numbers(actual)
    detail = _differs(name, expected, actual)
    if frame != other_frame:
        return Distance(math.inf, detail)
    farthest = max(map(_relative, numbers, others), default=0.0)
    return Distance(farthest, detail + _apart(farthest))


def _compare_arrays(name: str, expected: Numbers, actual: Numbers) -> Distance:
    if (expected.code, expected.order, len(expected.data)) != (actual.code, actual.order, len(actual.data)):
        return Distance(math.inf, f"{name}: {len(expected.data)} bytes expected, {len(actual.data)} found")
    first, farthest, where, differing, base = "", 0.0, 0, 0, 0
    for ours, theirs in zip(expected.chunks(), actual.chunks(), strict=True):
        if ours != theirs:
            pairs = zip(expected.values(ours), actual.values(theirs), strict=True)
            for index, (one, other) in enumerate(pairs, base):
                relative = _relative(one, other)
                if relative == 0.0:
                    continue
                differing += 1
                first = first or _differs(f"{name}[{index}]", one, other)
                farthest, where = max((farthest, where), (relative, index), key=lambda pair: pair[0])
        base += len(ours) // expected.width
    if not first:
        return EQUAL
    count = len(expected.data) // expected.width
    rest = f"; {differing} of {count} numbers differ, most of all [{where}], by {farthest:.2g} of its size"
    return Distance(farthest, first + (rest if differing > 1 else ""))


def _relative(expected: float, actual: float) -> float:
    if expected == actual or (expected != expected and actual != actual):  # noqa: PLR0124 - NaN, of any bits
        return 0.0
    largest = max(abs(expected), abs(actual))
    relative = abs(expected - actual) / largest
    return math.inf if relative != relative else relative  # noqa: PLR0124 - NaN where one is NaN or infinite


def _compare_links(expected: Path, actual: Path) -> Distance:
    ours, theirs = (str(path.readlink()) if path.is_symlink() else "not a link" for path in (expected, actual))
    return EQUAL if ours == theirs else Distance(math.inf, _differs("link", ours, theirs))


def _first_difference(a: bytes, b: bytes) -> int:
    for index, (one, other) in enumerate(zip(a, b, strict=False)):
        if one != other:
            return index
    return min(len(a), len(b))


def _differs(name: str, expected: Leaf, actual: Leaf) -> str:
    text = f"{name}: expected {_show(expected)}, found {_show(actual)}"
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        text += _apart(_relative(expected, actual))
    return text


def _apart(relative: float) -> str:
    return "" if math.isinf(relative) or relative == 0.0 else f", a relative difference of {relative:.2g}"


def _show(leaf: Leaf) -> str:
    if isinstance(leaf, Numbers):
        return f"{len(leaf.data) // leaf.width} numbers"
    if isinstance(leaf, bytes):
        return f"{len(leaf)} bytes"
    text = str(leaf) if isinstance(leaf, str) else repr(leaf)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
