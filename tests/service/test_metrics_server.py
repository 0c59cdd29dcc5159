"""`outlast metrics`, and a job that answers itself, asked as Prometheus asks, and by a real one."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import outlast
from outlast.metering import METRICS
from outlast.metrics.alerts import RULES
from outlast.metrics.files import write_files

OUTLAST = [sys.executable, "-c", "from outlast.cli.main import main; main()"]
NAMES = {metric.prometheus_name for metric in METRICS}
PATIENCE_SECONDS = 60.0
TRAIN = """
import sys, time, outlast
state = {"n": 0}
job = outlast.Job("ck", state=state, every=outlast.Steps(10))
for step in job.steps(30):
    state["n"] += 1
    if step == 15 and sys.argv[1:] == ["wait"]:
        print("there", flush=True)
        sys.stdin.readline()
    if step == 15 and sys.argv[1:] == ["crash"]:
        raise ValueError("x")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def train(folder: Path, *words: str, code: int = 0) -> None:
    command = [sys.executable, "train.py", *words]
    assert subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False).returncode == code


def ran(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*OUTLAST, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def series(text: str) -> dict[str, float]:
    """By name and labels, without the task's own."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            own = sorted(f"{name}={value}" for name, value in sample.labels.items() if not name.startswith("outlast_"))
            found[sample.name + (f"{{{','.join(own)}}}" if own else "")] = sample.value
    return found


def until(what: Callable[[], Any]) -> Any:
    """What it says once it says anything; raises AssertionError if that takes too long."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if found := what():
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        assert time.monotonic() < ends, "it took too long"
        time.sleep(0.1)


def ask(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


@contextmanager
def process(*command: str, cwd: Path, **env: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process for as long as this is entered."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=cwd, env={**os.environ, **env}, **pipes) as one:
        try:
            yield one
        finally:
            one.kill()
            one.wait(20)


def test_what_prometheus_gets_is_what_status_shows(folder: Path) -> None:
    train(folder, "crash", code=1)
    train(folder)
    queue = outlast.Queue(f"sqlite:///{folder}/w.db")
    queue.publish(["a", "b"])
    done = ran(folder, "metrics", "ck", "sqlite:///w.db", "--once")
    assert done.returncode == 0, done.stderr
    numbers, shown = series(done.stdout), json.loads(ran(folder, "status", "ck", "--json").stdout)
    shown = shown if isinstance(shown, dict) else shown[0]
    assert numbers["outlast_step"] == shown["steps_done"] == 30
    assert numbers["outlast_attempt"] == len(shown["attempts"]) - 1 == 1
    assert numbers["outlast_failures_total"] == shown["failures"] == 1
    assert numbers["outlast_preemptions_total"] == shown["preemptions"] == 0
    assert numbers["outlast_task_state{state=finished}"] == 1
    assert numbers["outlast_run_goodput_ratio"] == pytest.approx(shown["goodput"], abs=1e-3)
    for bucket, seconds in shown["buckets"].items():
        assert numbers[f"outlast_run_time_seconds{{bucket={bucket}}}"] == pytest.approx(seconds, abs=1e-3)
    assert numbers["outlast_checkpoint_step"] == 30
    assert numbers["outlast_queue_items{state=ready}"] == 2
    assert numbers["outlast_source_up{url=ck}"] == 1


def test_work_at_risk_is_seen_while_a_job_runs(folder: Path) -> None:
    with process(sys.executable, "train.py", "wait", cwd=folder) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"there\n"

        def look() -> dict[str, float] | None:
            found = series(ran(folder, "metrics", "ck", "--once").stdout)
            return found if found.get("outlast_steps_at_risk", 0) else None  # a sign of life tells the step

        numbers = until(look)
        assert numbers["outlast_running"] == 1
        assert numbers["outlast_steps_at_risk"] == 5
        assert 0 < numbers["outlast_work_at_risk_seconds"] < 120
        assert numbers["outlast_checkpoint_step"] == 10


def test_a_source_that_cannot_be_read_is_told_beside_those_that_can(folder: Path) -> None:
    train(folder)
    done = ran(folder, "metrics", "ck", "nowhere", "sqlite:///none.db", "--once")
    numbers = series(done.stdout)
    assert done.returncode == 1
    assert numbers["outlast_source_up{url=ck}"] == 1
    assert numbers["outlast_source_up{url=nowhere}"] == 0
    assert not (folder / "none.db").exists(), "to look makes no queue"
    assert "nowhere could not be read" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ck", "--listen", "99999"), "is no address"),
        (("ck", "--listen", ":80"), "is no address"),
        (("ck", "--every", "0s"), "less than 1 s"),
        (("ck", "--every", "soon"), "is not a duration"),
        (("--write", "train.py"), "choose another folder"),
    ],
)
def test_bad_options_are_refused_in_words(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = ran(folder, "metrics", *words)
    assert done.returncode == 78
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_hostile_names_in_a_store_are_labels_that_prometheus_reads(folder: Path) -> None:
    train(folder)
    (folder / 'ck/a"b\\c').mkdir()
    shutil.copytree(folder / "ck/train/run-1", folder / 'ck/a"b\\c/run-1')
    hostile = 'q"\\\n\u202e<b>' + "x" * 100 + ".db"
    outlast.Queue(f"sqlite:///{folder}/{hostile}").publish(["a"])
    done = ran(folder, "metrics", "ck", f"sqlite:///{hostile}", "--once")
    labels = [
        value
        for family in text_string_to_metric_families(done.stdout)
        for sample in family.samples
        for value in sample.labels.values()
    ]
    assert series(done.stdout)["outlast_queue_items{state=ready}"] == 1
    assert all(len(value) <= 120 and value.isprintable() for value in labels)


def test_a_job_answers_on_loopback_and_a_port_that_is_taken_costs_a_warning(folder: Path) -> None:
    port = free_port()
    with process(sys.executable, "train.py", "wait", cwd=folder, OUTLAST_METRICS_PORT=str(port)) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"there\n"
        numbers = until(lambda: series(ask(f"http://127.0.0.1:{port}/metrics")))
        assert numbers["outlast_step"] == 15
        assert numbers["outlast_running"] == 1
        assert {name.partition("{")[0] for name in numbers} - NAMES <= {
            f"{name}_{part}" for name in NAMES for part in ("bucket", "count", "sum")
        }
        (folder / "other").mkdir()
        shutil.copy(folder / "train.py", folder / "other")
        second = subprocess.run(
            [sys.executable, "train.py"],
            cwd=folder / "other",
            env={**os.environ, "OUTLAST_METRICS_PORT": str(port)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 0
        assert "another process has it" in second.stderr


def test_a_real_prometheus_scrapes_and_evaluates_the_rules(folder: Path) -> None:
    found = shutil.which("prometheus")
    if found is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    train(folder)
    write_files(folder)
    port, own = free_port(), free_port()
    target = {"job_name": "outlast", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    told = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["outlast-rules.yaml"],
        "scrape_configs": [target],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(told))
    address = f"http://127.0.0.1:{own}"
    command = [found, "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{own}", "--storage.tsdb.path=db"]

    def query(expression: str) -> list[Any]:
        answer = json.loads(ask(f"{address}/api/v1/query?query={urllib.parse.quote(expression)}"))
        return list(answer["data"]["result"])

    def evaluated() -> list[Any]:
        groups = json.loads(ask(f"{address}/api/v1/rules"))["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return [] if any(rule["health"] == "unknown" for rule in rules) else rules

    with (
        process(*OUTLAST, "metrics", "ck", "--listen", str(port), "--every", "1s", cwd=folder) as served,
        process(*command, cwd=folder),
    ):
        (point,) = until(lambda: query("outlast_step"))
        assert point["value"][1] == "30"
        assert point["metric"]["outlast_job"] == "train"
        rules = until(evaluated)
        assert [rule["name"] for rule in rules] == [rule.name for rule in RULES]
        assert {rule["health"] for rule in rules} == {"ok"}
        served.send_signal(signal.SIGTERM)
        assert served.wait(20) == 0
