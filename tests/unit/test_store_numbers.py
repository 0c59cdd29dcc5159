"""What `outlast metrics` reads of a store, and what it does not read again."""

from pathlib import Path

import pytest

import outlast
from outlast.metering import CHECKPOINT_AGE, LEFT_OUT, STATE, STEP, Point
from outlast.metrics import of_stores
from outlast.metrics.of_stores import StoreNumbers
from outlast.registry import open_store


def train(folder: Path, name: str, steps: int) -> None:
    """A job that is finished."""
    state = {"n": 0}
    for _ in outlast.Job(folder, state=state, name=name).steps(steps):
        state["n"] += 1


def values(points: list[Point], name: str) -> list[float]:
    return [point.value for point in points if point.metric.name == name and isinstance(point.value, int | float)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks whose journals were read."""
    seen: list[str] = []
    real = of_stores.history_of

    def read(store: object, place: object, **options: object) -> object:
        seen.append(str(place))
        return real(store, place, **options)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(of_stores, "history_of", read)
    return seen


def test_a_finished_run_is_read_once_until_somebody_claims_it_anew(tmp_path: Path, looks: list[str]) -> None:
    train(tmp_path, "j", 5)
    numbers = StoreNumbers(open_store(str(tmp_path)), "u")
    first, again = list(numbers.read()), list(numbers.read())
    assert first == again
    assert values(first, STEP.name) == [5]
    assert len(looks) == 1
    train(tmp_path, "j", 8)
    assert values(list(numbers.read()), STEP.name) == [8]
    assert len(looks) == 2


def test_tasks_beyond_the_most_are_counted_and_not_read(
    tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_stores, "_MOST_TASKS", 2)
    for name in "abc":
        train(tmp_path, name, 1)
    points = list(StoreNumbers(open_store(str(tmp_path)), "u").read())
    assert values(points, LEFT_OUT.name) == [1]
    assert len(looks) == 2


def test_a_writer_whose_clock_is_ahead_makes_no_negative_age(tmp_path: Path) -> None:
    train(tmp_path, "j", 5)
    points = list(StoreNumbers(open_store(str(tmp_path)), "u", wall=lambda: 1_000_000.0).read())
    assert values(points, CHECKPOINT_AGE.name) == [0]


def test_exactly_one_state_is_the_tasks(tmp_path: Path) -> None:
    train(tmp_path, "j", 5)
    points = [point for point in StoreNumbers(open_store(str(tmp_path)), "u").read() if point.metric == STATE]
    assert [point.labels["state"] for point in points if point.value] == ["finished"]
    assert len(points) == 4
