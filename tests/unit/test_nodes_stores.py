"""Which store a pod's losses are asked of, which of its tasks are meant, and how seldom it is read."""

from pathlib import Path

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


def losses_of(rows: list[Row], monkeypatch: pytest.MonkeyPatch, **places: str) -> StoreLosses:
    monkeypatch.setattr(nodes_stores, "reader", lambda _url: lambda: rows)
    return StoreLosses(places)


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
            (risk,) = losses(Worksite(("gs://b/run",), "train", 0))
            break
    assert (risk.url, risk.what, risk.state, risk.problem) == ("gs://b/run", "train / run-1 / task 0", "running", "")
    assert risk.checkpoint_step in (0, 10, 20), "the newest may not be written yet"


@pytest.mark.parametrize(
    "url", ["/checkpoints", "sqlite:////w.db", "postgresql://me:secret@elsewhere/db", "pubsub://p/s"]
)
def test_what_only_a_manifest_names_is_asked_only_if_it_is_a_bucket(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = losses_of([row("train", 0)], monkeypatch)
    (risk,) = losses(Worksite((url,)))
    assert "not asked" in risk.problem
    assert "secret" not in risk.url
    (risk,) = losses(Worksite(("gs://b/x",)))
    assert risk.problem == ""


def test_the_task_of_the_pod_is_meant_by_its_host_else_its_job_and_index(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [row("a", 0, host="a-0-xyz"), row("a", 1), row("b", 0), row("b", 1, "finished", host="old")]
    losses = losses_of(rows, monkeypatch)

    def meant(site: Worksite) -> list[str]:
        return [risk.what for risk in losses(site)]

    assert meant(Worksite(("gs://b",), "b", None, "a-0-xyz")) == ["a / run-1 / task 0"]
    assert meant(Worksite(("gs://b",), "a", 1)) == ["a / run-1 / task 1"]
    assert meant(Worksite(("gs://b",), "b", 0, "old")) == ["b / run-1 / task 0"]
    assert meant(Worksite(("gs://b",), "unknown", None)) == [
        "a / run-1 / task 0", "a / run-1 / task 1", "b / run-1 / task 0",
    ]  # fmt: skip


def test_what_is_over_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = losses_of([row("a", 0, "finished")], monkeypatch)
    (risk,) = losses(Worksite(("gs://b",), "a", 0))
    assert (risk.risk_seconds, risk.risk_steps) == (0.0, 0)


def test_a_store_that_does_not_answer_is_a_problem_of_that_pod_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_url: str) -> object:
        raise StoreUnreachable("the storage is away")

    monkeypatch.setattr(nodes_stores, "reader", refuses)
    (risk,) = StoreLosses()(Worksite(("gs://b",)))
    assert risk.problem == "the storage is away"


def test_many_pods_at_one_bucket_cost_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(nodes_stores, "reader", lambda url: lambda: read.append(url) or [row("a", 0)])
    losses = StoreLosses()
    for number in range(20):
        losses(Worksite(("gs://b",), "a", number))
    assert read == ["gs://b"]


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
