"""B34: killed before and after each verb of the queue and the sink; and acks that get lost on their way.

OUTLAST_EVERY_POINT=1 tries all of them.
"""

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import outlast
from outlast.items import Result
from outlast.registry import open_sink
from rehearsal.batch_crew import Order, check, publish, right_value, started

ITEMS, CHUNK = 12, 4
EVERYWHERE = [
    (verb, when, number)
    for verb, number in [("prepare", 1), ("lease", 1), ("lease", 2), ("known", 2), ("ack", 1), ("ack", 3), ("store", 2)]
    for when in ("before", "after")
]
TELLING = [("lease", "after", 1), ("ack", "before", 1), ("ack", "after", 1), ("store", "after", 2)]
POINTS = EVERYWHERE if os.environ.get("OUTLAST_EVERY_POINT") else TELLING
BETWEEN = [("extend", "before", 2), ("extend", "after", 2)]  # the lease is confirmed, in two databases


def _run(order: Order) -> int | None:
    worker = started(order)
    worker.join(60)
    return worker.exitcode


@pytest.mark.parametrize("place", ["same", "other"])
def test_b34_a_kill_at_any_verb_loses_nothing_and_repeats_at_most_a_chunk(place: str, tmp_path: Path) -> None:
    for number, fate in enumerate([*POINTS, *(BETWEEN if place == "other" else [])]):
        folder = tmp_path / str(number)
        folder.mkdir()
        queue = f"sqlite:///{folder}/work.db"
        sink = f"{queue}?table=labels" if place == "same" else f"sqlite:///{folder}/results.db"
        order = Order(queue, sink, folder / "diary", chunk=CHUNK, seconds=0.0, lease=1.0, fate=fate)
        publish(order, ITEMS)
        code = _run(order)
        assert code == -signal.SIGKILL, (fate, code)
        assert _run(replace(order, fate=None)) == 0
        check(order, ITEMS)
        computed = Counter(order.diary.read_text().split())
        assert sum(computed.values()) <= ITEMS + CHUNK, fate
        if fate == ("store", "after", 2) and place == "other":
            assert set(computed.values()) == {1}  # stored and not acknowledged: known, and not computed again


def test_b34_what_is_stored_is_acknowledged_without_computing_however_often_it_comes(tmp_path: Path) -> None:
    queue, sink = f"sqlite:///{tmp_path}/work.db", f"sqlite:///{tmp_path}/results.db"
    order = Order(queue, sink, tmp_path / "diary", chunk=5, seconds=0.0)
    publish(order, 100)
    opened = open_sink(sink)
    opened.prepare()
    value = [Result(f"item-{n:05d}", f'"{right_value(f"item-{n:05d}")}"', "v1", 1) for n in range(0, 100, 2)]
    opened.store([Result(one.id, one.value.replace("é", "\\u00e9"), one.version, one.claim) for one in value])
    assert _run(order) == 0
    check(order, 100)
    assert Counter(order.diary.read_text().split()) == Counter(f"item-{n:05d}" for n in range(1, 100, 2))
    for _ in range(3):  # delivered again, whole
        assert outlast.Queue(queue).retry(state="done") == 100
        assert _run(order) == 0
    check(order, 100)
    assert len(order.diary.read_text().split()) == 50


def test_another_version_is_computed_again_and_replaces_also_from_a_younger_queue(tmp_path: Path) -> None:
    sink = f"sqlite:///{tmp_path}/results.db"
    for version in ("1", "2", "3"):  # its claims grow
        first = Order(f"sqlite:///{tmp_path}/a.db", sink, tmp_path / "a", chunk=5, seconds=0.0, version=version)
        publish(first, 10)
        assert _run(first) == 0
        outlast.Queue(first.queue).retry(state="done")
    opened = open_sink(sink)
    assert {(one.version, one.claim) for one in opened.results()} == {("3", 3)}
    second = Order(f"sqlite:///{tmp_path}/b.db", sink, tmp_path / "b", chunk=5, seconds=0.0, version="2")
    publish(second, 10)
    assert _run(second) == 0
    check(second, 10)
    assert {(one.version, one.claim) for one in opened.results()} == {("2", 4)}
    opened.store([Result("item-00001", '"late"', "3", 3)])
    check(second, 10)
    assert len(second.diary.read_text().split()) == 10
