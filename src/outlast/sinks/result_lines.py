"""Lines of a results file: one JSON object each, written exactly, and told from what a kill or a stranger has left."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from outlast.items import Result

_BLOCK_BYTES = 1 << 20
_OPENING = b'{"id": "'
_BREAKS = str.maketrans("\n\r", "  ")  # JSON has them between tokens only; inside a text they are escaped
_SURROGATE = re.compile("[\ud800-\udfff]")


class NoRecord(Exception):
    """A line is JSON, but no result."""


class NoJson(Exception):
    """A line is not JSON: cut short, or from another program."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a line is a result of."""

    id: str
    version: str | None
    claim: int


def line_of(result: Result) -> bytes:
    """A result as its line, newline included. The value's text stays as it is, but for line breaks between tokens."""
    before, after = _around(Head(result.id, result.version, result.claim))
    text = f"{before}{result.value.translate(_BREAKS)}{after}"
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 does not have and JSON can escape
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"


def head_of(line: bytes) -> Head:
    """What a whole line is a result of; raises NoJson or NoRecord."""
    said = _loaded(line)
    if not isinstance(said, dict) or "value" not in said:
        raise NoRecord
    name, version, claim = said.get("id"), said.get("version"), said.get("claim", 0)
    if not isinstance(name, str) or not isinstance(version, str | None) or type(claim) is not int or not name:
        raise NoRecord
    return Head(name, version, claim)


def result_of(line: bytes, head: Head) -> Result:
    """The result of a whole line that should have that head; raises NoRecord where it has another."""
    text = line.decode(errors="replace").strip()
    before, after = _around(head)
    if text.startswith(before) and text.endswith(after):
        return Result(head.id, text[len(before) : -len(after)], head.version, head.claim)
    try:
        found = head_of(line)
    except NoJson as error:
        raise NoRecord from error
    if found != head:
        raise NoRecord
    return Result(head.id, json.dumps(json.loads(text)["value"], ensure_ascii=False), head.version, head.claim)


def rest_of_glued(line: bytes) -> int | None:
    """Where in a line that is not JSON a whole record begins, to which something cut short is glued; None if nowhere.

    A program that appends without looking leaves such lines after a kill.
    """
    start = line.rfind(_OPENING)
    while start > 0:
        try:
            head_of(line[start:])
        except (NoJson, NoRecord):
            start = line.rfind(_OPENING, 0, start)
        else:
            return start
    return None


def looks_cut_short(fragment: bytes) -> bool:
    """Whether it can be the beginning of a record's line, or has the zeros of a power cut."""
    return fragment.startswith(_OPENING) or _OPENING.startswith(fragment) or b"\0" in fragment


def lines_between(handle: int, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """(where it begins, where it does after blanks, the line from there on) of each line of a part of a file.

    A line has its newline; the last one may have none. Blank lines are left out, and blanks before a line are not
    kept in memory.
    """
    held, at, line_start, position = bytearray(), start, start, start  # `at`: where in the file `held` begins
    while position < end:
        block = os.pread(handle, min(_BLOCK_BYTES, end - position), position)
        if not block:
            break
        looked, done = len(held), 0
        position += len(block)
        held += block
        while (cut := held.find(b"\n", max(looked, done))) >= 0:
            line = bytes(held[done : cut + 1]).lstrip(b" ")
            done = cut + 1
            if line.strip():
                yield line_start, at + done - len(line), line
            line_start = at + done
        held = held[done:].lstrip(b" ")
        at = position - len(held)
    if held.strip():
        yield line_start, at, bytes(held)


def _around(head: Head) -> tuple[str, str]:
    """What stands before and after the value."""
    name, version = (json.dumps(one, ensure_ascii=False) for one in (head.id, head.version))
    return f'{{"id": {name}, "value": ', f', "version": {version}, "claim": {head.claim}}}'


def _loaded(line: bytes) -> object:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise NoJson from error
    except ValueError:  # a number with more digits than Python reads; nobody here needs it
        return json.loads(line, parse_int=lambda digits: int(digits[:19]))
