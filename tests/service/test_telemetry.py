"""What jobs and workers push by OTLP: the numbers that status shows, and never at the cost of the job."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outlast.metering import METRICS
from tests.service.otlp_receiver import Receiver, attributes_of, receiver

OUTLAST = "from outlast.cli.main import main; main()"
TRAIN = """
import os, signal, sys, time
import outlast
state = {"n": 0}
job = outlast.Job("ck", state=state, every=outlast.Steps(10))
for step in job.steps(60):
    state["n"] += 1
    time.sleep(0.01)
    if step == 32 and job.attempt == 0:
        os.kill(os.getpid(), signal.SIGTERM)
"""


def run(folder: Path, program: str, told: Receiver | None, **env: str) -> tuple[int, str, float]:
    """A program in a process of its own: its code, what it said, how long it took."""
    (folder / "train.py").write_text(program)
    where = {"OTEL_EXPORTER_OTLP_ENDPOINT": told.url} if told is not None else {}
    where["OUTLAST_GRACE"] = "50"  # a tenth of it is for the last numbers, also on a machine that is busy
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        env={**os.environ, **where, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr, time.monotonic() - began


def status(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", OUTLAST, "status", "ck", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    return found if isinstance(found, dict) else found[0]


def test_an_interrupted_and_resumed_job_pushes_the_numbers_that_status_shows(tmp_path: Path) -> None:
    with receiver() as told:
        assert run(tmp_path, TRAIN, told)[0] == 143
        assert run(tmp_path, TRAIN, told)[0] == 0
        assert told.unread == []
        shown = status(tmp_path)
        for attempt in shown["attempts"]:
            numbers = told.numbers(f"attempt-{attempt['number']}")
            assert numbers["outlast.attempt"] == attempt["number"]
            assert numbers["outlast.steps.done"] == attempt["steps"]
            assert numbers["outlast.saves{outcome=committed}"] == attempt["saves"]
            assert numbers["outlast.save.duration"][0] == attempt["saves"]
            assert numbers["outlast.running"] == 0
            assert numbers["outlast.exit_code"] == attempt["exit_code"]
            for bucket, seconds in attempt["buckets"].items():
                assert numbers[f"outlast.attempt.time{{bucket={bucket}}}"] == pytest.approx(seconds, abs=0.05), bucket
        first, second = (told.numbers(f"attempt-{number}") for number in (0, 1))
        assert first["outlast.step"] == 33
        assert first["outlast.notices{kind=final,source=SIGTERM}"] == 1
        assert first["outlast.notice.stop"][0] == 1
        assert first["outlast.ends{how=stopped}"] == 1
        assert first["outlast.steps.at_risk"] == 0
        assert second["outlast.restore.duration"][1] == pytest.approx(shown["attempts"][1]["restore_seconds"], abs=1e-4)
        assert second["outlast.step"] == second["outlast.steps.planned"] == shown["steps_done"] == 60
        assert second["outlast.ends{how=finished}"] == 1
        assert {name.partition("{")[0] for name in {**first, **second}} <= {metric.name for metric in METRICS}


def test_an_attempt_is_a_trace_that_points_at_the_one_before(tmp_path: Path) -> None:
    with receiver() as told:
        run(tmp_path, TRAIN, told)
        run(tmp_path, TRAIN, told)
        first, second = (told.spans(f"attempt-{number}") for number in (0, 1))
        whole = {span.name: span for span in first}
        assert set(whole) == {"outlast.attempt", "outlast.start", "outlast.save", "outlast.verify", "outlast.notice"}
        root = whole["outlast.attempt"]
        assert {span.trace_id for span in first} == {root.trace_id}
        assert {span.parent_span_id for span in first if span is not root} == {root.span_id}
        assert all(root.start_time_unix_nano <= s.start_time_unix_nano <= s.end_time_unix_nano for s in first)
        assert attributes_of(root)["outlast.exit_code"] == 143
        later = next(span for span in second if span.name == "outlast.attempt")
        assert (later.links[0].trace_id, later.links[0].span_id) == (root.trace_id, root.span_id)
        assert "outlast.restore" in {span.name for span in second}
        assert attributes_of(later)["outlast.ended_by"] == "left"
        ids = [span.span_id for span in first + second]
        assert len(ids) == len(set(ids))


def test_a_hung_collector_holds_up_neither_the_steps_nor_the_stop(tmp_path: Path) -> None:
    with receiver(hangs=True) as told:
        program = TRAIN.replace("os.kill(os.getpid(), signal.SIGTERM)", "stop()").replace(
            "state =", "began = []\ndef stop():\n    began.append(1)\n    print(time.time(), flush=True)\n"
            "    os.kill(os.getpid(), signal.SIGTERM)\nstate =", 1
        )  # fmt: skip
        (tmp_path / "train.py").write_text(program)
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": told.url, "OUTLAST_GRACE": "10"}
        process = subprocess.Popen(
            [sys.executable, "train.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, _ = process.communicate(timeout=60)
        stopped_after = time.time() - float(out)
        assert told.asked.is_set()
        assert process.returncode == 143
        assert stopped_after < 5.0  # OpenTelemetry itself would wait for 10 s
    assert status(tmp_path)["attempts"][0]["lost_steps"] == 0


def test_a_collector_that_is_away_is_told_of_once_and_the_job_goes_on(tmp_path: Path) -> None:
    with receiver(code=400) as told:
        code, said, _ = run(tmp_path, TRAIN.replace("step == 32", "False"), told, OTEL_METRIC_EXPORT_INTERVAL="100")
    assert code == 0
    assert said.count("telemetry is not being sent") == 1
    assert "opentelemetry" not in said.lower()


def test_grpc_is_refused_in_words(tmp_path: Path) -> None:
    with receiver() as told:
        code, said, _ = run(tmp_path, TRAIN.replace("step == 32", "False"), told, OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
        assert told.requests == []
    assert code == 0
    assert "OTEL_EXPORTER_OTLP_PROTOCOL='grpc', and outlast speaks http/protobuf" in said


@pytest.mark.parametrize(
    "off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_METRICS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"}, {}]
)
def test_what_nobody_asks_for_is_not_even_imported(tmp_path: Path, off: dict[str, str]) -> None:
    program = TRAIN.replace("step == 32", "False") + (
        "print([n for n in sys.modules if n.startswith(('opentelemetry', 'prometheus', 'outlast.metering'))],"
        " file=sys.stderr)"
    )
    with receiver() as told:
        assert run(tmp_path, program, told if off else None, **off)[1].endswith("\n[]\n")
        assert told.requests == []


def test_a_forked_child_pushes_nothing(tmp_path: Path) -> None:
    fork = "    if step == 5 and not os.fork():\n        sys.exit(0)\n"
    with receiver() as told:
        assert run(tmp_path, TRAIN.replace("step == 32", "False") + fork, told)[0] == 0
        assert told.numbers("attempt-0")["outlast.ends{how=finished}"] == 1
        assert len({attributes_of(s)["outlast.ended_by"] for s in told.spans("") if s.name == "outlast.attempt"}) == 1


WORK = """
import os, signal, outlast
queue = outlast.Queue("sqlite:///w.db")
queue.publish({f"i{n}": {"n": n} for n in range(20)})
@outlast.batch(queue, sink="sqlite:///r.db", chunk=5, max_errors=0)
def infer(items):
    return [outlast.ItemError(i.id, "bad") if i.id == "i7" else 1 for i in items]
infer.run()
"""


def test_a_worker_pushes_what_became_of_its_items(tmp_path: Path) -> None:
    with receiver() as told:
        code, said, _ = run(tmp_path, WORK, told)
        assert code == 0, said
        assert told.unread == []
        numbers = told.numbers("")
        assert numbers["outlast.items{outcome=stored}"] == 19
        assert numbers["outlast.items{outcome=failed}"] == 1
        assert numbers["outlast.items.in_progress"] == 0
        assert [span.name for span in told.spans("")] == ["outlast.worker"]


def test_words_of_an_exception_are_harmless_in_a_span(tmp_path: Path) -> None:
    program = TRAIN.replace(
        "os.kill(os.getpid(), signal.SIGTERM)", r"raise ValueError('\x1b[31m\udc80\u202e' + 'x' * 9999)"
    )
    with receiver() as told:
        assert run(tmp_path, program, told)[0] == 1
        assert told.unread == []
        root = next(span for span in told.spans("attempt-0") if span.name == "outlast.attempt")
        assert root.status.message.startswith("ValueError: \\x1b[31m\\udc80\\u202exxx")
        assert len(root.status.message) < 600
        assert attributes_of(root)["outlast.ended_by"] == "crashed"
        numbers = told.numbers("attempt-0")
        assert (numbers["outlast.ends{how=crashed}"], numbers["outlast.steps.lost"]) == (1, 2)
        assert numbers["outlast.attempt.time{bucket=lost_work}"] == pytest.approx(
            status(tmp_path)["attempts"][0]["lost_seconds"], abs=0.05
        )


def test_an_interrupted_worker_pushes_what_it_gave_back(tmp_path: Path) -> None:
    stop = "    import time\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(0.5)\n    return [1"
    program = WORK.replace("def infer(items):\n", f"def infer(items):\n{stop} for i in items]\n")
    with receiver() as told:
        code, said, _ = run(tmp_path, program, told)
        assert code == 143, said
        numbers = told.numbers("")
        assert numbers["outlast.items{outcome=stored}"] == 5
        assert numbers["outlast.notices{kind=final,source=SIGTERM}"] == 1
        assert numbers["outlast.running"] == 0
        assert {span.name for span in told.spans("")} == {"outlast.worker", "outlast.notice"}


def test_a_hung_collector_holds_up_no_worker_that_is_stopped(tmp_path: Path) -> None:
    stop = "    import time\n    print(time.time(), file=sys.stderr)\n    os.kill(os.getpid(), signal.SIGTERM)\n"
    program = "import sys\n" + WORK.replace("def infer(items):\n", f"def infer(items):\n{stop}")
    with receiver(hangs=True) as told:
        began = time.monotonic()
        code, said, _ = run(tmp_path, program, told, OUTLAST_GRACE="10")
        assert code == 143, said
        assert told.asked.is_set()
        assert time.monotonic() - began < 8.0


def test_hostile_words_are_harmless_and_labels_are_few(tmp_path: Path) -> None:
    hostile = "sqlite:///<b>\\u202e\\x1b[31m" + "x" * 150 + ".db"
    with receiver() as told:
        code, said, _ = run(tmp_path, WORK.replace("sqlite:///w.db", hostile), told)
        assert code == 0, said
        assert told.unread == []
        assert told.labels() == {"outlast.job", "outlast.queue", "outcome"}
        name = told.resource()["outlast.queue"]
        assert len(name) <= 120
        assert name.isprintable()
        assert told.resource()["service.name"] == "outlast"
