"""What `outlast metrics --write` writes, loaded by the programs that it is for; its alerts on recorded lives.

promtool and Prometheus are the real ones. Grafana is not here: its dashboard is read by Grafana's own library.
"""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard

from metered_lives import MeteredLife, as_series
from outlast.console import Console
from outlast.emulate.cloud_run.server import gcloud_environment
from outlast.events import Failed, SaveFailed, SaveStarted
from outlast.metering import METRICS
from outlast.metrics.alerts import RULES, gke_rules
from outlast.metrics.dashboard import dashboard
from outlast.metrics.files import write_files

TASK = {"outlast_job": "train", "outlast_run": "run-1", "outlast_task": "0"}
NAMES = {metric.prometheus_name for metric in METRICS}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    assert {path.name for path in write_files(folder)} == {path.name for path in folder.iterdir()}
    return folder


def promtool(*words: str | Path) -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run([found, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_load(files: Path, tmp_path: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", files / "outlast-rules.yaml")
    spec = yaml.safe_load((files / "outlast-rules-gke.yaml").read_text())["spec"]
    assert gke_rules()["spec"] == spec
    (tmp_path / "gke.yaml").write_text(yaml.safe_dump(spec))
    assert f"{len(RULES)} rules found" in promtool("check", "rules", tmp_path / "gke.yaml")


def fires(files: Path, folder: Path, series: Iterable[Mapping[str, str]], at: dict[str, dict[int, bool]]) -> None:
    """Whether each of these alerts fires at these minutes, for the task, and no other alert at any of them."""
    rules = {one.name: one for one in RULES}
    tests = []
    for name, moments in at.items():
        rule, summary = rules[name], rules[name].summary
        for label, value in TASK.items():
            summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
        alert = {
            "exp_labels": {"severity": rule.severity, **TASK},
            "exp_annotations": {"summary": summary, "description": rule.why},
        }
        for minute, fired in moments.items():
            tests.append({"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [alert] if fired else []})
    for name in set(rules) - set(at):
        for minute in {minute for moments in at.values() for minute in moments}:
            tests.append({"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []})
    shutil.copy(files / "outlast-rules.yaml", folder)
    test = {"interval": "1m", "input_series": list(series), "alert_rule_test": tests}
    whole = {"rule_files": ["outlast-rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(whole))
    promtool("test", "rules", folder / "test.yaml")


Each = Callable[[MeteredLife, int], None]


def saving(life: MeteredLife, minute: int) -> None:
    """A life that is well: a save each five minutes."""
    life.minute()
    if minute % 5 == 0:
        life.save()


def test_a_recorded_stuck_run_fires_and_not_before_it_is_stuck(files: Path, tmp_path: Path) -> None:
    def each(life: MeteredLife, minute: int) -> None:
        life.stuck = minute >= 40
        saving(life, minute)

    at = {"OutlastStuck": {0: False, 39: False, 60: False, 85: True, 119: True}}
    fires(files, tmp_path, as_series(MeteredLife(), 120, each), at)


def test_a_run_that_is_well_fires_nothing(files: Path, tmp_path: Path) -> None:
    at = {"OutlastStuck": dict.fromkeys((1, 30, 60, 119), False)}
    fires(files, tmp_path, as_series(MeteredLife(), 120, saving), at)


def test_saves_that_fail_fire_and_then_so_does_the_work_at_risk(files: Path, tmp_path: Path) -> None:
    def each(life: MeteredLife, minute: int) -> None:
        if minute < 30:
            saving(life, minute)
            return
        life.minute()
        if minute % 5 == 0:
            life.tell(SaveStarted(life.step), SaveFailed(life.step, "no space left"))

    at = {"OutlastSavesFail": {29: False, 50: True, 119: True}, "OutlastMuchAtRisk": {29: False, 50: False, 119: True}}
    fires(files, tmp_path, as_series(MeteredLife(), 120, each), at)


def test_a_run_that_needs_a_human_fires(files: Path, tmp_path: Path) -> None:
    def each(life: MeteredLife, minute: int) -> None:
        if minute < 10:
            saving(life, minute)
        elif minute == 10:
            life.tell(Failed(life.step, 78, "none verifies"))

    at = {"OutlastNeedsHuman": {9: False, 12: True}}
    fires(files, tmp_path, as_series(MeteredLife(), 20, each), at)


def queries(told: Any) -> list[str]:
    return [target["expr"] for panel in told["panels"] for target in panel["targets"]]


def test_the_dashboard_loads_and_asks_for_numbers_that_there_are(files: Path, tmp_path: Path) -> None:
    told = json.loads((files / "outlast-dashboard.json").read_text())
    assert told == dashboard()
    read = Dashboard.from_json(told)
    assert read.title == "outlast"
    assert len(read.panels or []) == len(told["panels"])
    places = [tuple(panel["gridPos"].values()) for panel in told["panels"]]
    assert len(places) == len(set(places))
    asked = [query.replace("$__rate_interval", "5m").replace("$job", ".*") for query in queries(told)]
    groups = {"groups": [{"name": "q", "rules": [{"record": f"q:{n}", "expr": q} for n, q in enumerate(asked)]}]}
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(groups))
    promtool("check", "rules", tmp_path / "queries.yaml")


def test_alerts_and_panels_ask_for_no_number_that_is_not_told() -> None:
    for asked in [*queries(dashboard()), *(rule.expression for rule in RULES)]:
        found = set(re.findall(r"outlast_[a-z_]+", re.sub(r"by \([^)]*\)|\{[^}]*\}", "", asked)))
        known = {name.removesuffix("_bucket") for name in found}
        assert known, asked
        assert known <= NAMES, asked


class _Monitoring(BaseHTTPRequestHandler):
    """Takes a policy, and answers as if it were made."""

    made: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        policy = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.made.append((self.path.partition("?")[0], policy))
        answer = json.dumps({**policy, "name": "projects/example-project/alertPolicies/1"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


def test_the_real_gcloud_reads_the_whole_policy(files: Path, tmp_path: Path) -> None:
    if shutil.which("gcloud") is None:
        pytest.skip("gcloud is not installed")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Monitoring)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        env = {
            **os.environ,
            **gcloud_environment(server.server_port, str(tmp_path / "config"), "example-project"),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": "http://monitoring.local.test/",
        }
        path = files / "outlast-cloud-run-alert.json"
        # Without "alpha" from a later gcloud on; all have it with that word.
        command = ["gcloud", "alpha", "monitoring", "policies", "create", f"--policy-from-file={path}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert done.returncode == 0, done.stderr
    ((asked, made),) = _Monitoring.made
    assert asked.endswith("/v3/projects/example-project/alertPolicies")
    assert made == json.loads(path.read_text()), "gcloud leaves out what it does not know"
    (condition,) = made["conditions"]  # beside a log's condition there may be no other
    assert "notificationRateLimit" in made["alertStrategy"], "a log's condition needs it"
    assert "${log.extracted_label.job}" in made["documentation"]["content"]
    assert "job" in condition["conditionMatchedLog"]["labelExtractors"]


def test_the_policy_sees_the_errors_that_outlast_logs_on_cloud_run(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(as_json=True)
    console.error("the save at step 3 failed: no space left")
    console.warning("a notice")
    error, warning = map(json.loads, capsys.readouterr().err.splitlines())
    policy = json.loads((files / "outlast-cloud-run-alert.json").read_text())
    asked = policy["conditions"][0]["conditionMatchedLog"]["filter"]
    pattern = re.search(r'jsonPayload\.message=~"(.*)"$', asked)
    assert pattern is not None
    assert re.search(pattern[1], error["message"])
    assert (error["severity"], warning["severity"]) == ("ERROR", "WARNING")
    assert "severity>=ERROR" in asked
