"""Which store a pod's losses are asked of, which of its tasks are meant, and how seldom it is read."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Job, Steps
from outlast.errors import OutlastError, SettingsError, StoreUnreachable
from outlast.monitor import nodes_stores
from outlast.monitor.nodes_losses import Worksite
from outlast.monitor.nodes_stores import StoreLosses, places_given
from outlast.monitor.watch_polling import Poller, wait_seconds
from outlast.monitor.watch_reading import least_seconds, reader
from outlast.monitor.watch_rows import Row, TaskRow


def row(job: str, task: int, state: str = "running", host: str = "") -> TaskRow:
    return TaskRow("u", job, "run-1", task, state, 50, 100, None, 40, 5.0, 5.0, 10, host=host)


@pytest.fixture
def losses_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[Row]], StoreLosses]]:
    """Makes what asks stores that tell of these rows."""
    made: list[StoreLosses] = []

    def make(rows: list[Row]) -> StoreLosses:
        monkeypatch.setattr(nodes_stores, "reader", lambda _url: lambda: rows)
        made.append(StoreLosses())
        return made[-1]

    yield make
    assert all(one.close() for one in made)


def at_risk(losses: StoreLosses, *urls: str, job: str | None = None, task: int | None = None, host: str = "") -> Any:
    """Of one site."""
    (found,) = losses([Worksite(urls, job, task, host)])
    return found


def test_places_are_told_as_from_and_place() -> None:
    assert places_given(["gs://b=/mnt/b/", "sqlite:////w.db?x=1=work.db"]) == {
        "gs://b": "/mnt/b",
        "sqlite:////w.db?x=1": "work.db",
    }
    for wrong in ("gs://b", "=x", "gs://b="):
        with pytest.raises(SettingsError, match="FROM=PLACE"):
            places_given([wrong])


def test_a_real_store_tells_what_would_be_lost_there(tmp_path: Path) -> None:
    state = {"n": 0}
    job = Job(str(tmp_path / "bucket" / "run"), state=state, every=Steps(10), name="train")
    for step in job.steps(100):
        state["n"] += 1
        if step == 24:
            losses = StoreLosses(places_given([f"gs://b={tmp_path / 'bucket'}"]))
            (risk,) = at_risk(losses, "gs://b/run", job="train", task=0)
            assert losses.close()
            break
    assert (risk.url, risk.what, risk.state, risk.problem) == ("gs://b/run", "train / run-1 / task 0", "running", "")
    assert risk.checkpoint_step in (0, 10, 20), "the newest may not be written yet"


@pytest.mark.parametrize(
    "url", ["/checkpoints", "sqlite:////w.db", "postgresql://me:secret@elsewhere/db", "pubsub://p/s"]
)
def test_what_only_a_manifest_names_is_asked_only_if_it_is_a_bucket(url: str, losses_of: Any) -> None:
    losses = losses_of([row("train", 0)])
    (risk,) = at_risk(losses, url)
    assert "not asked" in risk.problem
    assert "secret" not in risk.url
    (risk,) = at_risk(losses, "gs://b/x")
    assert risk.problem == ""


def test_the_task_of_the_pod_is_meant_by_its_host_else_its_job_and_index(losses_of: Any) -> None:
    rows: list[Row] = [row("a", 0, host="a-0-xyz"), row("a", 1), row("b", 0), row("b", 1, "finished", host="old")]
    losses = losses_of(rows)

    def meant(site: Worksite) -> list[str]:
        return [risk.what for risk in losses([site])[0]]

    assert meant(Worksite(("gs://b",), "b", None, "a-0-xyz")) == ["a / run-1 / task 0"]
    assert meant(Worksite(("gs://b",), "a", 1)) == ["a / run-1 / task 1"]
    assert meant(Worksite(("gs://b",), "b", 0, "old")) == ["b / run-1 / task 0"]
    assert meant(Worksite(("gs://b",), "unknown", None)) == [
        "a / run-1 / task 0", "a / run-1 / task 1", "b / run-1 / task 0",
    ]  # fmt: skip


def test_what_is_over_loses_nothing(losses_of: Any) -> None:
    losses = losses_of([row("a", 0, "finished")])
    (risk,) = at_risk(losses, "gs://b", job="a", task=0)
    assert (risk.risk_seconds, risk.risk_steps) == (0.0, 0)


def test_a_store_that_does_not_answer_is_a_problem_of_that_pod_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_url: str) -> object:
        raise StoreUnreachable("the storage is away")

    monkeypatch.setattr(nodes_stores, "reader", refuses)
    losses = StoreLosses()
    (risk,) = at_risk(losses, "gs://b")
    assert risk.problem == "the storage is away"
    assert losses.close()


def test_many_pods_at_one_bucket_cost_one_reading(losses_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    losses = losses_of([])
    monkeypatch.setattr(nodes_stores, "reader", lambda url: lambda: read.append(url) or [row("a", 0)])
    told = losses([Worksite(("gs://b",), "a", number) for number in range(20)])
    assert [len(one) for one in told] == [1] * 20
    losses([Worksite(("gs://b",), "a", 0)])
    assert read == ["gs://b"]


def test_a_store_that_hangs_holds_up_neither_the_others_nor_the_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()

    def slow() -> list[Row]:
        hangs.wait(60)
        return []

    monkeypatch.setattr(nodes_stores, "reader", lambda url: slow if "slow" in url else lambda: [row("a", 0)])
    monkeypatch.setattr(nodes_stores, "_STOP_SECONDS", 0.1)
    losses = StoreLosses(patience_seconds=0.5)
    slow_one, quick = losses([Worksite(("gs://slow",)), Worksite(("gs://quick",))])
    assert (slow_one[0].problem, quick[0].problem) == ("it has not answered within 0.5 s", "")
    assert losses.close() is False
    hangs.set()


# --- how often things are read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "least"),
    [
        ("/mnt/ckpt", 0.0),
        ("sqlite:///w.db", 0.0),
        ("gs://b/x", 15.0),
        ("s3://b", 15.0),
        ("az://b", 15.0),
        ("pubsub://p/s", 15.0),
        ("postgresql://h/d", 2.0),
    ],
)
def test_what_is_charged_by_the_request_is_not_read_every_second(url: str, least: float) -> None:
    assert least_seconds(url) == least


def test_reading_takes_a_tenth_of_the_time_at_most_and_pauses_grow_while_nothing_answers() -> None:
    assert wait_seconds(0.01, least=1.0) == 1.0
    assert wait_seconds(2.0, least=1.0) == 20.0
    assert wait_seconds(0.01, least=15.0, failures=1) == 30.0
    assert wait_seconds(0.01, least=15.0, failures=99) == 120.0
    assert wait_seconds(1000.0, least=1.0) == 300.0


def test_what_was_known_stays_while_nothing_answers() -> None:
    answers: list[object] = [["rows"], StoreUnreachable("away"), ["new"]]

    def read() -> object:
        answer = answers.pop(0)
        if isinstance(answer, OutlastError):
            raise answer
        return answer

    poller = Poller("x", read, least=1.0)
    told = []
    for _ in range(3):
        poller.look()
        told.append((poller.latest.value, poller.latest.problem))
    assert told == [(["rows"], ""), (["rows"], "away"), (["new"], "")]


def test_a_url_that_cannot_work_is_refused_at_once(tmp_path: Path) -> None:
    for url in (str(tmp_path / "none"), "ftp://x/y"):
        with pytest.raises(SettingsError):
            reader(url)
