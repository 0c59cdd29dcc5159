"""The pod's own node through the official client, against an API server with rights, expired watches and cut lines."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import incluster_config

from kubernetes_server import DRIPS, ApiServer, Cluster
from notice_desk import Board
from outlast.clock import SystemClock
from outlast.disruptions import SourceUnavailable
from outlast.events import Advised, NoticeRevoked, SourceTrouble
from outlast.notices.notice import Notice
from outlast.notices.watching import Watching
from outlast.settings import look_around
from outlast.sources import kubernetes_api, kubernetes_watch
from outlast.sources.kubernetes_node import kubernetes_node_sources

ACTIVE = "cloud.google.com/active-node-maintenance"
TAINT = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
GPU = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}
GRACE_SECONDS = 25.0

# A source watches until its process ends, and closes nothing before.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Pod:
    """A pod of the tests, with the source that watches its node."""

    def __init__(self, server: ApiServer, env: dict[str, str]) -> None:
        self.cluster, clock = server.cluster, SystemClock()
        around = replace(look_around({}), env={**server.env, **env}, clock=clock, grace_seconds=GRACE_SECONDS)
        self.board = Board(clock, GRACE_SECONDS)
        self._node, self._pod, self._limit = (
            Watching(source, self.board, around)  # type: ignore[arg-type]  # a stand-in for the board
            for source in kubernetes_node_sources(around)
        )

    def look(self) -> float:
        """Looks at the node."""
        return self._node.look_once()

    def look_inward(self) -> float:
        """Looks at the pod itself."""
        return self._pod.look_once()

    def look_at_the_limit(self) -> float:
        """Looks at the pod's time limit."""
        return self._limit.look_once()

    @property
    def notice(self) -> Notice | None:
        return self.board.notice

    def told(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.board.told if isinstance(one, kind)]


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.node(labels=GPU)
    cluster.pod("trainer-0", "node-1")
    return cluster


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    account = tmp_path / "account"
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    monkeypatch.setattr(kubernetes_api, "_WATCH_SECONDS", 1)
    monkeypatch.setattr(kubernetes_api, "_ANSWER_SECONDS", 1.0)
    # What the environment says about proxies is not for the cluster.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with ApiServer(cluster, account) as running:
        yield running


@pytest.fixture
def pod(server: ApiServer) -> Pod:
    return Pod(server, {})


@pytest.mark.parametrize("value", ["true", "ONGOING", "1"])
@pytest.mark.parametrize(("kind", "seconds"), [(GPU, 3600), (TPU, 300), ({}, 60)])
def test_the_label_gives_the_window_of_the_machine_and_its_end_takes_it_back(
    kind: dict[str, str], seconds: int, value: str, pod: Pod
) -> None:
    pod.cluster.node(labels=kind)
    pod.look()
    assert pod.notice is None
    pod.cluster.node(labels={**kind, ACTIVE: value})
    pod.look()
    assert pod.notice is not None
    assert (pod.notice.kind, pod.notice.source) == ("advance", "kubernetes-node")
    assert pod.notice.remaining_seconds == pytest.approx(seconds, abs=2)
    pod.cluster.node(labels={**kind, ACTIVE: value}, taints=[TAINT])
    pod.look()
    assert len(pod.told(Notice)) == 1, "one maintenance was told twice"
    pod.cluster.node(labels=kind)
    pod.look()
    assert pod.notice is None
    assert len(pod.told(NoticeRevoked)) == 1


@pytest.mark.parametrize(
    "node",
    [
        {"labels": {ACTIVE: "false"}},
        {"labels": {ACTIVE: ""}},
        {"labels": {ACTIVE: {"a": 1}}},
        {"labels": {ACTIVE: "\u202e\n"}},
        {"taints": [{"key": "cloud.google.com/gke-spot"}, "text", None, {"key": ["x"]}]},
        {"annotations": {"node.gke.io/upcoming-maintenance": "[" * 5000}},
        {"annotations": {"node.gke.io/upcoming-maintenance": '["ONGOING"]'}},
        {"conditions": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}]},
        {"conditions": [{"type": "Ready", "status": "False", "message": 7}, 3]},
    ],
)
def test_what_only_looks_like_maintenance_is_no_alarm(node: dict[str, Any], pod: Pod) -> None:
    pod.cluster.node(**node)
    pod.look()
    assert pod.notice is None
    assert pod.told(SourceTrouble) == []


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({"taints": [TAINT]}, "advance"),
        ({"annotations": {"node.gke.io/upcoming-maintenance": '{"maintenance_status": "ONGOING"}'}}, "advance"),
        ({"conditions": [{"type": "Ready", "status": "False", "message": "node is shutting down"}]}, "final"),
        ({"conditions": [{"type": "GCESpotPreempting", "status": "True"}]}, "final"),
        ({"labels": {ACTIVE: "true", "cloud.google.com/gke-spot": "true"}}, "advance"),
    ],
)
def test_what_stood_when_the_pod_came_leaves_the_platforms_grace(node: dict[str, Any], kind: str, pod: Pod) -> None:
    pod.cluster.node(**node)
    pod.look()
    assert pod.notice is not None
    assert pod.notice.kind == kind
    assert pod.notice.remaining_seconds == pytest.approx(GRACE_SECONDS, abs=1)


def test_maintenance_that_is_only_planned_is_recorded_and_stops_nothing(pod: Pod) -> None:
    in_a_day = int(time.time()) + 86400
    pod.cluster.node(labels={"cloud.google.com/scheduled-maintenance-time": str(in_a_day)})
    pod.look()
    pending = {"maintenance_status": "PENDING", "window_start_time": "2027-01-01T00:00:00Z"}
    pod.cluster.node(annotations={"node.gke.io/upcoming-maintenance": json.dumps(pending)})
    pod.look()
    assert pod.notice is None
    assert [("2027-01-01" in advice.reason) for advice in pod.told(Advised)] == [False, True]


# --- rights, and the pod's node ---------------------------------------------------------------------


def test_without_the_right_to_read_nodes_one_line_says_so(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    pod.cluster.forbidden.add(("get", "nodes"))
    pauses = [pod.look() for _ in range(3)]
    assert pauses == sorted(pauses)
    assert pod.notice is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "may not read its node node-1 (HTTP 403)" in line
    assert "get and watch on nodes" in line
    assert len(pod.told(SourceTrouble)) == 1
    pod.cluster.forbidden.clear()
    pod.cluster.node(labels={ACTIVE: "true"})
    pod.look()
    assert pod.notice is not None, "the right was given later"


def test_a_node_that_may_be_read_and_not_watched_is_read_again(pod: Pod) -> None:
    pod.cluster.forbidden.add(("watch", "nodes"))
    pod.look()
    assert pod.look() == 15
    pod.cluster.node(labels={ACTIVE: "true"})
    pod.look()
    assert pod.notice is not None


@pytest.mark.parametrize("variable", ["NODE_NAME", "OUTLAST_NODE_NAME", "K8S_NODE_NAME"])
def test_the_downward_api_names_the_node(variable: str, server: ApiServer) -> None:
    server.cluster.node("node-2", taints=[TAINT])
    server.cluster.forbidden.add(("get", "pods"))
    pod = Pod(server, {variable: "node-2"})
    pod.look()
    assert pod.notice is not None


def test_a_variable_that_means_something_else_is_found_out(server: ApiServer) -> None:
    server.cluster.node(taints=[TAINT])
    pod = Pod(server, {"NODE_NAME": "the-node-of-a-graph"})
    pod.look()
    assert pod.notice is None
    pod.look()
    assert pod.notice is not None


def test_a_pod_that_cannot_find_its_node_says_what_helps(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    pod.cluster.forbidden.add(("get", "pods"))
    pod.look()
    pod.look()
    (line,) = capsys.readouterr().err.splitlines()
    assert "reading pod training/trainer-0 gives HTTP 403; set NODE_NAME from spec.nodeName" in line


def test_outside_a_cluster_there_is_no_source_and_no_line(server: ApiServer) -> None:
    with pytest.raises(SourceUnavailable, match="this is no pod") as outside:
        Pod(server, {"KUBERNETES_SERVICE_HOST": ""})
    assert not outside.value.told


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account_says_so(missing: str, server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "account" / missing).unlink()
    with pytest.raises(SourceUnavailable, match="no service account") as alone:
        Pod(server, {})
    assert alone.value.told


def test_without_the_client_one_line_names_the_command(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(SourceUnavailable, match=r"pip install 'outlast\[kubernetes\]'") as bare:
        Pod(server, {})
    assert bare.value.told


def test_a_host_that_has_the_name_of_another_pod_is_found_out(
    server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.cluster.node(taints=[TAINT])
    server.cluster.pod("trainer-0", "node-1", address="10.0.0.7", deletionTimestamp="2026-11-29T00:00:00Z")
    pod = Pod(server, {})
    pod.look()
    pod.look_inward()
    assert pod.notice is None
    assert "set NODE_NAME" in capsys.readouterr().err


# --- the pod itself ---------------------------------------------------------------------------------

DELETED = {"deletionTimestamp": "2026-11-29T00:00:00Z", "deletionGracePeriodSeconds": 600}


def test_a_pod_that_is_deleted_has_the_grace_of_its_deletion(pod: Pod) -> None:
    pod.look_inward()
    pod.cluster.pod("trainer-0", "node-1")
    pod.look_inward()
    assert pod.notice is None
    pod.cluster.pod("trainer-0", "node-1", **DELETED)
    pod.look_inward()
    assert pod.notice is not None
    assert (pod.notice.source, pod.notice.kind) == ("kubernetes-pod", "final")
    assert pod.notice.remaining_seconds == pytest.approx(600, abs=2)


@pytest.mark.parametrize("grace", [0, -3, "600", None, 10**12, 5.5])
def test_a_deletion_that_was_begun_before_or_with_no_true_grace_leaves_the_platforms(grace: Any, pod: Pod) -> None:
    pod.look_inward()
    pod.cluster.pod("trainer-0", "node-1", **{**DELETED, "deletionGracePeriodSeconds": grace})
    pod.look_inward()
    assert pod.notice is not None
    assert pod.notice.remaining_seconds == pytest.approx(GRACE_SECONDS, abs=1)


def test_a_disruption_that_is_given_up_is_revoked(pod: Pod) -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    pod.cluster.pod("trainer-0", "node-1", conditions=[target])
    pod.look_inward()
    assert pod.notice is not None
    assert (pod.notice.kind, pod.notice.reason) == ("advance", "the pod is to be ended (EvictionByEvictionAPI)")
    pod.cluster.pod("trainer-0", "node-1", conditions=[{**target, "status": "False"}])
    pod.look_inward()
    assert pod.notice is None


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ({}, ""),
        (GPU, "gke-gpu"),
        (TPU, "gke-tpu"),
        ({"cloud.google.com/gke-spot": "true"}, "gke-spot"),
        ({**GPU, "cloud.google.com/gke-preemptible": "true"}, "gke-spot,gke-gpu"),
        ({"cloud.google.com/gke-spot": "false", "cloud.google.com/gke-accelerator": ""}, ""),
    ],
)
def test_b26_the_nodes_labels_tell_what_kind_it_is(labels: dict[str, str], classes: str | None, pod: Pod) -> None:
    pod.cluster.node(labels=labels)
    pod.look()
    assert pod.board.learned.get("OUTLAST_NODE_CLASS") == classes


@pytest.mark.parametrize(("grace", "told"), [(600, "600"), (0, None), (-1, None), ("600", None), (10**9, None)])
def test_b26_the_pods_own_grace_is_read(grace: Any, told: str | None, pod: Pod) -> None:
    pod.cluster.pod("trainer-0", "node-1", limit={"terminationGracePeriodSeconds": grace})
    pod.look_inward()
    assert pod.board.learned.get("OUTLAST_POD_GRACE") == told


def started(seconds_ago: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_pod_with_a_time_limit_has_a_notice_before_it(pod: Pod) -> None:
    pod.look_at_the_limit()
    pod.cluster.pod("trainer-0", "node-1", limit={"activeDeadlineSeconds": 600}, started=started(10))
    pod.look_inward()
    assert pod.look_at_the_limit() == pytest.approx(590 - 120, abs=3)
    assert pod.notice is None
    for most in (7245, 7205):  # to people both are 2 h
        pod.cluster.pod("trainer-0", "node-1", limit={"activeDeadlineSeconds": most}, started=started(7110))
        pod.look_inward()
        assert pod.look_at_the_limit() == pytest.approx(0.75 * (most - 7110), abs=3)
    pod.cluster.pod("trainer-0", "node-1", limit={"activeDeadlineSeconds": 12}, started=started(10))
    pod.look_inward()
    time.sleep(pod.look_at_the_limit())
    pod.look_at_the_limit()
    assert pod.notice is not None
    assert (pod.notice.source, pod.notice.kind) == ("kubernetes-pod activeDeadlineSeconds", "advance")
    assert pod.notice.reason == "the attempt's time limit (the pod's activeDeadlineSeconds: 12 s)"
    assert 0 < pod.notice.remaining_seconds < 2


@pytest.mark.parametrize("limit", [0, -5, "600", True, 1.5, None, 10**12])
def test_a_time_limit_of_a_pod_that_makes_no_sense_is_none(limit: Any, pod: Pod) -> None:
    pod.cluster.pod("trainer-0", "node-1", limit={"activeDeadlineSeconds": limit}, started=started(10))
    pod.look_inward()
    assert pod.look_at_the_limit() == 5
    assert pod.notice is None


def test_a_pod_that_may_not_read_itself_says_nothing(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    pod.cluster.forbidden.add(("get", "pods"))
    assert [pod.look_inward() for _ in range(3)] == [1, 2, 4]
    assert pod.notice is None
    assert capsys.readouterr().err == ""
    assert pod.told(SourceTrouble) == []


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["gone", "cut", "500", "redirect", "garbage", "page", "list", "endless"])
def test_a_watch_that_fails_misses_nothing_and_gives_no_alarm(fault: str, pod: Pod) -> None:
    pod.look()
    pod.cluster.fault = fault
    assert sum(pod.look() for _ in range(4)) >= 2, "the server would be asked without pause"
    assert pod.notice is None
    pod.cluster.node(labels={ACTIVE: "true"})
    pod.cluster.fault = None
    until = time.monotonic() + 5
    while pod.notice is None and time.monotonic() < until:
        pod.look()
    assert pod.notice is not None


@pytest.mark.parametrize("fault", DRIPS)
def test_a_server_that_drips_is_given_up_in_time(fault: str, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte that comes would give it all the time of an answer again."""
    monkeypatch.setattr(kubernetes_api, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(kubernetes_api, "_WATCH_SECONDS", 0)
    pod.look()
    pod.cluster.fault = fault
    began = time.monotonic()
    assert pod.look() > 4, "the watch"
    assert pod.look() == 1, "the node"
    assert time.monotonic() - began < 2
    pod.cluster.fault = None
    pod.cluster.node(labels={ACTIVE: "true"})
    pod.look()
    assert pod.notice is not None


def test_a_flood_of_changes_keeps_nobody_busy_and_hides_nothing(pod: Pod) -> None:
    pod.look()
    for number in range(500):
        pod.cluster.node(labels={**GPU, "number": str(number)})
    pod.cluster.node(labels={**GPU, ACTIVE: "true"})
    pauses = []
    while pod.notice is None and len(pauses) < 40:
        pauses.append(pod.look())
    assert pod.notice is not None
    assert max(pauses) > 4


def test_a_watch_that_has_expired_begins_anew(pod: Pod) -> None:
    pod.look()
    pod.cluster.oldest_watch = 10_000
    assert 4 < pod.look() <= 5
    pod.cluster.node(labels={ACTIVE: "true"})
    pod.look()
    assert pod.notice is not None


def test_a_watch_that_ends_by_itself_is_begun_again(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "_SHORTEST_WATCH_SECONDS", 0.1)
    pod.look()
    assert pod.look() == 0, "the watch has lasted long enough"
    pod.look()
    assert pod.cluster.requests.count("get nodes") == 2
    threading.Timer(0.2, lambda: pod.cluster.node(labels={ACTIVE: "true"})).start()
    pod.look()
    assert pod.notice is not None
    assert pod.cluster.requests.count("watch nodes") == 2


def test_the_right_to_watch_that_is_given_later_is_used(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "_WITHOUT_RIGHT_SECONDS", 0)
    pod.cluster.forbidden.add(("watch", "nodes"))
    pod.look()
    pod.look()
    pod.cluster.forbidden.clear()
    pod.look()
    threading.Timer(0.1, lambda: pod.cluster.node(labels={ACTIVE: "true"})).start()
    pod.look()
    assert pod.notice is not None


def test_a_token_that_was_replaced_is_read_anew(pod: Pod, tmp_path: Path) -> None:
    pod.cluster.forbidden.add(("watch", "nodes"))
    pod.look()
    pod.look()
    pod.cluster.token = "another-token"
    (tmp_path / "account/token").write_text("another-token")
    pod.look()
    pod.cluster.node(labels={ACTIVE: "true"})
    pod.look()
    assert pod.notice is not None


def test_what_happens_to_another_node_is_not_for_this_pod(pod: Pod) -> None:
    pod.look()
    pod.cluster.ignores_selectors = True
    pod.cluster.node("node-2", labels={ACTIVE: "true"})
    pod.look()
    assert pod.notice is None


def test_a_pod_that_was_made_again_under_the_same_name_is_another_one(server: ApiServer) -> None:
    pod = Pod(server, {"POD_NAME": "trainer-0"})
    pod.cluster.pod("trainer-0", "node-1", uid="1")
    pod.look_inward()
    pod.cluster.pod("trainer-0", "node-2", uid="2", **DELETED)
    pod.look_inward()
    pod.look_inward()
    assert pod.notice is None


def test_a_server_with_a_strangers_certificate_is_not_asked(server: ApiServer, tmp_path: Path) -> None:
    with ApiServer(Cluster(), tmp_path / "other" / "account"):
        (tmp_path / "account" / "ca.crt").write_bytes((tmp_path / "other" / "account" / "ca.crt").read_bytes())
    server.cluster.node(labels={ACTIVE: "true"})
    pod = Pod(server, {})
    pod.look()
    assert pod.notice is None
    assert server.cluster.requests == []
