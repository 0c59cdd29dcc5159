"""The journal's records: what is written comes back, and a torn line is passed over."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast import events
from outlast.events import Event, Finished, Logged, ReadLines, Recorded, SaveCommitted, from_lines, read_lines, to_line
from outlast.testing import FakeClock

_BY_TYPE: dict[str, Any] = {
    "int": 3,
    "float": 0.5,
    "str": "text with \n a newline, \u2028 and \U0001f642",
    "str | None": None,
    "int | None": 2,
    "float | None": 0.125,
    "bool | None": True,
    "list[str]": ["state['model']"],
    "Mapping[str, float | str]": {"loss": 0.25, "accuracy": "nan"},
    "Mapping[str, str]": {"numpy": "2.1.0"},
}
_KINDS: list[type[Event]] = list(Event.__args__)


def _example(kind: type[Event]) -> Event:
    return kind(**{field.name: _BY_TYPE[_type_name(field)] for field in dataclasses.fields(kind)})


def _type_name(field: "dataclasses.Field[Any]") -> str:
    if isinstance(field.type, str):
        return field.type
    plain = isinstance(field.type, type) and not hasattr(field.type, "__args__")
    return field.type.__name__ if plain else str(field.type).split("abc.")[-1]


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
def test_every_event_comes_back_equal_with_its_moment(kind: type[Event]) -> None:
    event, clock = _example(kind), FakeClock(wall_seconds=1_700_000_000.25, monotonic_seconds=77.5)
    line = to_line(event, clock)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert from_lines(line) == [Recorded(event, 1_700_000_000.25, 77.5)]


def test_every_event_class_of_the_module_is_one_that_can_be_read() -> None:
    classes = {value for value in vars(events).values() if dataclasses.is_dataclass(value)}
    assert classes - {Recorded, ReadLines} == set(_KINDS)


def test_a_line_names_its_event_and_its_moment_for_people() -> None:
    fields = json.loads(to_line(Finished(9), FakeClock(wall_seconds=0.0)))
    assert fields["event"] == "Finished"
    assert fields["at"] == "1970-01-01T00:00:00.000+00:00"


def test_a_journal_cut_anywhere_gives_every_whole_line() -> None:
    clock = FakeClock()
    first, second = to_line(SaveCommitted(5, "c-5", 100, 0.2), clock), to_line(Logged(6, {"loss": 1.5}), clock)
    for cut in range(len(second)):
        whole = [recorded.event for recorded in from_lines(first + second[:cut])]
        assert whole[0] == SaveCommitted(5, "c-5", 100, 0.2)
        assert len(whole) == (2 if cut == len(second) - 1 else 1)  # all but the newline is a whole line


def test_a_torn_line_in_the_middle_costs_only_itself() -> None:
    clock = FakeClock()
    torn = to_line(Finished(1), clock)[:20] + b"\n"
    assert [found.event for found in from_lines(torn + to_line(Finished(2), clock))] == [Finished(2)]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"7",
        b"{}",
        b'{"event":"Unheard","at":"","wall":1,"monotonic":1}',
        b'{"event":"Finished","wall":1,"monotonic":1,"step":2}',
        b'{"event":"Finished","at":"","wall":"x","monotonic":1,"step":2}',
        b'{"event":"Finished","at":"","wall":1,"monotonic":1}',
        b'{"event":"Finished","at":"","wall":1,"monotonic":1,"step":"2"}',
        b'{"event":"Finished","at":"","wall":1,"monotonic":1,"step":true}',
        b'{"event":"Finished","at":"","wall":1e300,"monotonic":1,"step":2}',
        b'{"event":"Finished","at":"","wall":1,"monotonic":-1,"step":2}',
        b'{"event":"Finished","at":"","wall":NaN,"monotonic":1,"step":2}',
        b'{"event":"Finished","at":"","wall":1,"monotonic":1,"step":' + b"9" * 30 + b"}",
        b'{"event":["Finished"],"at":"","wall":1,"monotonic":1,"step":2}',
    ],
)
def test_a_foreign_line_is_passed_over(line: bytes) -> None:
    good = to_line(Finished(3), FakeClock())
    assert [found.event for found in from_lines(line + b"\n" + good)] == [Finished(3)]


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_fail(data: bytes) -> None:
    assert isinstance(from_lines(data), list)


def test_of_a_line_of_a_later_version_what_is_known_is_read() -> None:
    line = b'{"event":"Finished","at":"","wall":1,"monotonic":1,"step":2,"new_field":3}\n'
    assert from_lines(line) == [Recorded(Finished(2), 1.0, 1.0)]


def test_lines_that_are_none_are_counted_but_for_a_torn_last_one_and_later_kinds() -> None:
    good = to_line(Finished(3), FakeClock())
    later = b'{"event":"Teleported","at":"","wall":1,"monotonic":1,"where":"there"}\n'
    read = read_lines(good + b"garbage\n" + later + good[:17] + b"\n" + good + good[:30])
    assert ([one.event for one in read.recorded], read.damaged, read.unknown) == ([Finished(3)] * 2, 2, 1)


def test_kinds_that_are_not_wanted_are_not_even_parsed() -> None:
    clock = FakeClock()
    data = to_line(Logged(1, {"loss": 1.0}), clock) + to_line(Finished(3), clock)
    assert [one.event for one in read_lines(data, without=("Logged",)).recorded] == [Finished(3)]
