"""Clusters that refuse, are silent or speak nonsense, and what `outlast nodes` says; big clusters come in pages."""

import builtins
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.emulate.kubernetes.kubeconfig import kubeconfig
from outlast.monitor.nodes_cluster import OfficialClient

LABEL = "cloud.google.com/active-node-maintenance"
Answer = tuple[int, Any]


def status(code: int, message: str) -> Answer:
    return code, {"kind": "Status", "status": "Failure", "code": code, "message": message}


def items(*found: dict[str, Any], after: str = "") -> Answer:
    return 200, {"kind": "List", "metadata": {"continue": after}, "items": list(found)}


def node(name: str, **labels: str) -> dict[str, Any]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": ready}


class Api:
    """An API server that answers as it is told, by path."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.ahead_seconds = 0.0  # of its clock
        self.answer: Callable[[str, dict[str, list[str]]], Answer] = lambda _path, _query: items()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                api.asked.append(self.path)
                code, body = api.answer(url.path, parse_qs(url.query))
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string(int(time.time() + api.ahead_seconds))

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.config = folder / "config"
        self.config.write_text(kubeconfig(f"http://127.0.0.1:{self.server.server_address[1]}", namespace="team"))

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def nodes(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["nodes", *words], env={"KUBECONFIG": str(self.config)})


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    served = Api(tmp_path)
    yield served
    served.close()


def test_who_may_not_read_nodes_is_told_which_rights_it_takes(api: Api) -> None:
    why = 'nodes is forbidden: User "me" cannot list resource "nodes" in API group "" at the cluster scope'
    api.answer = lambda _path, _query: status(403, why)
    done = api.nodes()
    assert done.exit_code == 78
    assert why in done.stderr
    assert "get and list on nodes and pods" in done.stderr


def test_who_may_not_read_all_namespaces_sees_the_pods_of_their_own(api: Api) -> None:
    pod = {
        "metadata": {"name": "train-0", "namespace": "team"},
        "spec": {"nodeName": "n1", "containers": [{"env": [{"name": "OUTLAST_URL", "value": "/c"}]}]},
        "status": {"phase": "Running"},
    }

    def answer(path: str, query: dict[str, list[str]]) -> Answer:
        if path.endswith("/nodes"):
            return items(node("n1", **{LABEL: "true"}))
        if path == "/api/v1/pods":
            return status(403, "pods is forbidden")
        return items(pod) if "spec.nodeName=n1" in str(query) else items()

    api.answer = answer
    done = api.nodes("--json", "--check")
    assert done.exit_code == 1
    sight = json.loads(done.stdout)
    assert [one["name"] for one in sight["nodes"][0]["pods"]] == ["train-0"]
    assert sight["problems"] == [
        "may not list pods in all namespaces: HTTP 403, pods is forbidden; so only namespace team was looked at",
        "may not look for maintenance handlers: list pods in all namespaces: HTTP 403, pods is forbidden",
    ]
    alone = json.loads(api.nodes("--json", "--namespace", "team").stdout)
    assert [one["name"] for one in alone["nodes"][0]["pods"]] == ["train-0"]


def test_a_login_that_has_run_out_is_told_as_that(api: Api) -> None:
    api.answer = lambda _path, _query: status(401, "Unauthorized")
    done = api.nodes()
    assert done.exit_code == 78
    assert "does not know who asks" in done.stderr
    assert "get-credentials" in done.stderr


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (status(503, "etcd is away"), "answers HTTP 503 etcd is away"),
        ((200, b"<html>a login page</html>"), "is no JSON"),
        ((200, b"[" * 100_000), "is no JSON"),
        ((200, b"[1]"), "is no object"),
    ],
)
def test_a_server_that_is_ill_or_is_none_is_worth_a_retry(api: Api, answer: Answer, said: str) -> None:
    api.answer = lambda _path, _query: answer
    done = api.nodes()
    assert done.exit_code == 75
    assert said in done.stderr


def test_nobody_at_the_address_is_worth_a_retry_and_told_with_the_address(api: Api) -> None:
    api.close()
    done = api.nodes()
    assert done.exit_code == 75
    assert f"127.0.0.1:{api.server.server_address[1]}) does not answer" in done.stderr
    api.server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # for the fixture to close
    api._thread = threading.Thread(target=api.server.serve_forever, args=(0.02,), daemon=True)
    api._thread.start()


def test_a_large_cluster_is_read_page_by_page(api: Api) -> None:
    pages = {"": items(node("a"), node("b"), after="2"), "2": items(node("c", **{LABEL: "true"}))}

    def answer(path: str, query: dict[str, list[str]]) -> Answer:
        return pages[query.get("continue", [""])[0]] if path.endswith("/nodes") else items()

    api.answer = answer
    sight = json.loads(api.nodes("--json").stdout)
    assert (sight["nodes_in_all"], [one["name"] for one in sight["nodes"]]) == (3, ["c"])


def test_of_many_disrupted_nodes_all_pods_are_listed_at_once(api: Api) -> None:
    many = [node(f"n{number}", **{LABEL: "true"}) for number in range(50)]
    api.answer = lambda path, _query: items(*many) if path.endswith("/nodes") else items()
    assert api.nodes("--json").exit_code == 0
    assert len(api.asked) < 10


def test_a_kubeconfig_or_context_that_is_not_there_is_named(api: Api, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["nodes"], env={"KUBECONFIG": str(tmp_path / "none"), "KUBERNETES_SERVICE_HOST": ""}
    )
    assert done.exit_code == 78
    assert f"there is no kubeconfig at {tmp_path / 'none'}" in done.stderr
    done = api.nodes("--context", "other")
    assert done.exit_code == 78
    assert "has no such context; it has outlast" in done.stderr
    (tmp_path / "bad").write_text("{")
    done = CliRunner().invoke(main, ["nodes"], env={"KUBECONFIG": str(tmp_path / "bad")})
    assert done.exit_code == 78
    assert "cannot be used" in done.stderr


def test_without_the_client_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "kubernetes":
            raise ModuleNotFoundError("No module named 'kubernetes'", name="kubernetes")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    done = CliRunner().invoke(main, ["nodes"])
    assert done.exit_code == 78
    assert done.stderr.count("\n") == 1
    assert "pip install 'outlast[kubernetes]'" in done.stderr


def test_what_others_have_written_steers_no_terminal(api: Api) -> None:
    hostile = "\x1b[2J<script>\u202e\n[red]"
    not_ready = {"type": "Ready", "status": "Unknown", "message": hostile, "reason": "Unknown"}
    lost = {"metadata": {"name": "n1"}, "spec": {}, "status": {"conditions": [not_ready]}}
    env = [{"name": "OUTLAST_URL", "value": f"gs://b/{hostile}"}, {"name": "OUTLAST_JOB", "value": hostile}]
    pod = {
        "metadata": {"name": f"p{hostile}", "namespace": "team", "labels": {"job-name": hostile}},
        "spec": {"nodeName": "n1", "containers": [{"name": hostile, "env": env, "envFrom": [{"secretRef": {}}]}]},
        "status": {"phase": "Running"},
    }
    handler = {"metadata": {"name": "h", "namespace": "kube-system"}, "spec": {"nodeName": "n1"}}

    def answer(path: str, query: dict[str, list[str]]) -> Answer:
        if path.endswith("/log"):
            return 200, f"a line\n{hostile}\nanother".encode()
        if path.endswith("/nodes"):
            return items(lost)
        return items(handler) if "labelSelector" in query else items(pod) if "nodeName" in str(query) else items()

    api.answer = answer
    for words in ((), ("--json",)):
        done = api.nodes("--no-stores", *words)
        assert done.exit_code == 0, done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout)
    assert "  another" in api.nodes("--no-stores").stdout.splitlines()


def test_a_jobset_stands_above_its_jobs_and_an_index_beside_them(api: Api) -> None:
    labels = {"batch.kubernetes.io/job-name": "train-workers-0", "jobset.sigs.k8s.io/jobset-name": "train"}
    pod = {
        "metadata": {
            "name": "train-0",
            "namespace": "team",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
        },
        "spec": {"nodeName": "n1", "containers": [{"command": ["outlast", "run", "--", "python", "t.py"]}]},
        "status": {"phase": "Running"},
    }

    def answer(path: str, query: dict[str, list[str]]) -> Answer:
        if path.endswith("/nodes"):
            return items(node("n1", **{LABEL: "true"}))
        return items(pod) if "nodeName" in str(query) else items()

    api.answer = answer
    text = api.nodes().stdout
    assert "pod team/train-0 (jobset/train, job/train-workers-0, index 3): Running, has 30 s of grace" in text
    assert "its store is not named in its manifest" in text


def test_a_platform_without_such_a_view_is_refused_by_name() -> None:
    done = CliRunner().invoke(main, ["nodes", "--platform", "slurm"])
    assert done.exit_code == 78
    assert "cloud-run" in done.stderr


def test_the_clusters_clock_counts_where_it_differs_from_ours(api: Api) -> None:
    cluster = OfficialClient({"KUBECONFIG": str(api.config)})
    for ahead_seconds in (0.0, 3600.0, -3600.0):
        api.ahead_seconds = ahead_seconds
        cluster.nodes()
        assert abs(cluster.now() - time.time() - ahead_seconds) < 3
