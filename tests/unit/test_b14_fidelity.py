"""B14: what is saved comes back equal in type and bits, or is refused at the first save by its key path."""

import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import random
import struct
import threading
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outlast


class Colour(enum.Enum):
    RED = "r"
    BLUE = ("b", 2)


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Config:
    rate: float
    layers: list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    where: Point


class Text(str):
    pass


def nan(bits: int) -> float:
    return float(struct.unpack(">d", bits.to_bytes(8))[0])


def exactly(value: Any) -> Any:
    """Equal for two values exactly when they are equal in type and bits."""
    kind = type(value)
    if kind is float:
        return kind, struct.pack(">d", value)
    if kind is complex:
        return kind, struct.pack(">dd", value.real, value.imag)
    if dataclasses.is_dataclass(value):
        return kind, [exactly(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        factory = getattr(value, "default_factory", None)
        return kind, factory, [(exactly(key), exactly(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return kind, [exactly(item) for item in value]
    if isinstance(value, collections.deque):
        return kind, value.maxlen, [exactly(item) for item in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(map(repr, map(exactly, value)))
    if isinstance(value, array.array):
        return kind, value.typecode, value.tobytes()
    if isinstance(value, dt.datetime | dt.time):
        return kind, repr(value), value.fold
    if isinstance(value, decimal.Decimal):
        return kind, value.as_tuple()
    if isinstance(value, random.Random):
        return kind, value.getstate()
    return kind, value


def save(folder: Path, state: dict[str, Any], **options: Any) -> None:
    outlast.Job(folder, state=state, name="j", **options).save()


def load(folder: Path, state: dict[str, Any], **options: Any) -> dict[str, Any]:
    job = outlast.Job(folder, state=state, name="j", **options)
    assert job.resumed_from == 0
    for _ in job.steps(1):
        break
    return job.state


VALUES: dict[str, Any] = {
    "bool": [True, False, 1, 0],
    "int": [0, -1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**64), 10**5000],
    "float": [0.0, -0.0, 1e-320, math.inf, -math.inf, 0.1, nan(0x7FF8000000000001), nan(0xFFF0DEADBEEF0001)],
    "complex": [complex(-0.0, math.nan), complex(math.inf, -0.0)],
    "text": ["", "\0", "é", "\ud800", "\U0001f600", "$", "a" * 100_000],
    "bytes": [b"", b"\0\xff", b"x" * 5000],
    "none": None,
    "tuple": ((), (1, (2.0, [3])), (None,)),
    "frozenset": frozenset({1, "a", (2, b"c")}),
    "int keys": {1: (1, 2), "1": 2, 2.5: 3, None: 4, (1, 2): 5, True + 1: 6, b"k": 7},
    "odd keys": {"$": 1, "": 2, "a.b": 3, "a['b']": 4, "@tree": 5, "a/b": 6},
    "dollar": {"$": "bytes", "b64": "x"},
    "dates": [
        dt.datetime(2026, 11, 29, 1, 2, 3, 4, fold=1),
        dt.datetime.max.replace(tzinfo=dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=30))),
        dt.date.min,
        dt.time(23, 59, fold=1),
        dt.timedelta.max,
        -dt.timedelta(microseconds=1),
    ],
    "numbers": [decimal.Decimal("1.10"), decimal.Decimal("-sNaN12"), fractions.Fraction(-1, 3**50)],
    "identity": [uuid.UUID(int=5), pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("c:/d"), range(3, -9, -2)],
    "enum": [Colour.RED, Colour.BLUE, Flags.A],
    "flags": Flags.A | Flags.B,
    "namedtuple": Point(1, [2.5, Point("a", None)]),
    "dataclass": Config(0.1, [1, 2]),
    "frozen": Frozen("n", Point(1, 2)),
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "counter": collections.Counter("hello"),
    "default": collections.defaultdict(list, {"a": [1]}),
    "deque": collections.deque([1, (2,)], maxlen=5),
    "set": {1, "a", (2, b"c")},
    "bytearray": bytearray(b"\0\1" * 3000),
    "array": array.array("d", [1.5, -0.0]),
    "empty": [[], {}, set(), bytearray(), array.array("i"), collections.deque()],
    "random": random.Random(4),
    "deep": [[[[[[[[[[[[{"a": [[[({"b": 1},)]]]}]]]]]]]]]]]],
}


def template(value: Any) -> Any:
    """What a program starts with: of the same kinds, with nothing of the content."""
    fresh: Any
    if isinstance(value, random.Random):
        return random.Random(9)
    if isinstance(value, list | set | bytearray | collections.deque | array.array):
        fresh = value.__copy__() if isinstance(value, collections.deque | array.array) else value.copy()
        while fresh:
            fresh.pop()
        return fresh
    if isinstance(value, dict):
        fresh = value.copy()
        fresh.clear()
        return fresh
    return None


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("start", ["the same", "empty"])
def test_each_kind_comes_back_in_type_and_bits(name: str, start: str, store: Path) -> None:
    import copy

    value = VALUES[name]
    expected = exactly(value)
    save(store, {"v": value})
    standing = copy.deepcopy(value) if start == "the same" else template(value)
    back = load(store, {"v": standing}, classes=(Colour, Flags, Point, Config, Frozen))
    assert exactly(back["v"]) == expected


MUTABLE = ["int", "int keys", "ordered", "counter", "default", "deque", "set", "bytearray", "array", "random"]


@pytest.mark.parametrize("name", MUTABLE)
def test_the_users_own_variable_is_restored_in_place(name: str, store: Path) -> None:
    expected = exactly(VALUES[name])
    save(store, {"v": {"deep": [VALUES[name]]}})
    mine = template(VALUES[name])
    load(store, {"v": {"deep": [mine]}})
    assert exactly(mine) == expected


REFUSED: dict[str, Any] = {
    "function": lambda: 0,
    "class": Config,
    "lock": threading.Lock(),
    "object": object(),
    "generator": (item for item in [1]),
    "subclass of text": Text("a"),
    "subclass of int": type("Number", (int,), {})(3),
    "module": math,
    "file": pathlib.Path,
    "memoryview": memoryview(b"abc"),
    "ellipsis": ...,
    "own factory": collections.defaultdict(lambda: 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_come_back_is_refused_at_once_by_its_path(name: str, store: Path) -> None:
    with pytest.raises(outlast.StateUnsupported, match=r"state\['v'\]\['k'\]\[1\]") as caught:
        outlast.Job(store, state={"v": {"k": [0, REFUSED[name]]}}, name="j")
    assert caught.value.code == 78
    assert not list(store.iterdir())


def test_what_contains_itself_is_refused(store: Path) -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    with pytest.raises(outlast.StateUnsupported, match="contains itself"):
        outlast.Job(store, state={"v": loop}, name="j")


def test_what_became_unsupported_is_refused_at_the_save(store: Path) -> None:
    state: dict[str, Any] = {"v": {"k": [1]}}
    job = outlast.Job(store, state=state, name="j")
    job.save()
    state["v"]["k"].append(threading.Lock())
    with pytest.raises(outlast.StateUnsupported, match=r"state\['v'\]\['k'\]\[1\]"):
        job.save()
    assert load(store, {"v": {}}) == {"v": {"k": [1]}}


def test_aliases_stay_aliases(store: Path) -> None:
    shared: list[int] = [1]
    save(store, {"a": shared, "b": {"again": shared}, "c": (shared,)})
    back = load(store, {"a": [], "b": {}, "c": None})
    assert back["a"] is back["b"]["again"] is back["c"][0]
    back["a"].append(2)
    assert back["c"] == ([1, 2],)


def test_a_class_is_taken_from_the_program_only(store: Path) -> None:
    save(store, {"v": Config(0.1, [])})
    with pytest.raises(outlast.StateMismatch, match="Config"):
        load(store, {"v": None})
    assert load(store, {"v": Config(9.0, [5])}) == {"v": Config(0.1, [])}


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.datetimes()
    | st.timedeltas()
    | st.decimals()
    | st.fractions()
    | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers() | st.booleans(), inner, max_size=4)
        | st.sets(st.integers() | st.text(max_size=3), max_size=4)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
        | st.lists(inner, max_size=3).map(lambda items: collections.deque(items, 4))
    ),
    max_leaves=25,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=plain)
def test_any_tree_of_plain_values_comes_back(store: Path, value: Any) -> None:
    expected = exactly(value)
    where = store / uuid.uuid4().hex
    save(where, {"v": value}, classes=(Point,))
    assert exactly(load(where, {"v": template(value)}, classes=(Point,))["v"]) == expected
