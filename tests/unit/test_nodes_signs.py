"""What marks a node as going, lost, drained or planned, and how much time that leaves."""

import json
from typing import Any

import pytest

from outlast.monitor.nodes_signs import marks_of

ACTIVE = "cloud.google.com/active-node-maintenance"
ENDING = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
GPU = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}
SPOT = {"cloud.google.com/gke-spot": "true"}
UPCOMING = "node.gke.io/upcoming-maintenance"
NOON = 1_796_040_000.0  # 2026-11-30T12:00:00Z


def node(labels: Any = None, taints: Any = (), conditions: Any = None, **more: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": "node-1", "labels": labels or {}, **more.pop("metadata", {})},
        "spec": {"taints": list(taints), **more},
        "status": {"conditions": ready if conditions is None else conditions},
    }


@pytest.mark.parametrize("value", ["true", "ONGOING"])
def test_a_node_under_maintenance_is_ending_whatever_the_label_says(value: str) -> None:
    marks = marks_of(node({ACTIVE: value, **GPU}))
    assert (marks.state, marks.classes, marks.longest_seconds) == ("ending", ("gke-gpu",), 3600.0)
    assert marks.ends_at is None, "nobody has said when it began"


@pytest.mark.parametrize("value", ["", "false", "False"])
def test_a_label_that_says_no_marks_nothing(value: str) -> None:
    assert marks_of(node({ACTIVE: value})).state == "calm"


@pytest.mark.parametrize(("labels", "window"), [(GPU, 3600.0), (TPU, 300.0)])
def test_who_set_the_label_when_tells_the_end_of_the_notice(labels: dict[str, str], window: float) -> None:
    entry = {
        "time": "2026-11-30T12:00:00Z",
        "fieldsV1": {"f:metadata": {"f:labels": {f"f:{ACTIVE}": {}}}},
    }
    other = {"time": "2026-11-30T08:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:other": {}}}}}
    marks = marks_of(node({ACTIVE: "true", **labels}, metadata={"managedFields": [other, entry]}))
    assert marks.ends_at == NOON + window - 60, "the notice may have begun 60 s before the label"
    assert marks.longest_seconds is None


def test_a_spot_node_that_shuts_down_leaves_its_pods_15_seconds() -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "message": "node is shutting down",
        "lastTransitionTime": "2026-11-30T12:00:00Z",
    }
    marks = marks_of(node(SPOT, conditions=[condition]))
    assert (marks.state, marks.ends_at) == ("ending", NOON + 15)


def test_a_node_that_does_not_answer_is_lost_and_says_since_when() -> None:
    condition = {
        "type": "Ready",
        "status": "Unknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": "2026-11-30T12:00:00Z",
    }
    marks = marks_of(node(conditions=[condition], taints=[{"key": "node.kubernetes.io/unreachable"}]))
    assert marks.state == "lost"
    assert marks.signs == (
        "not ready since 2026-11-30T12:00:00Z: Kubelet stopped posting node status.",
        "taint node.kubernetes.io/unreachable",
    )


@pytest.mark.parametrize(
    ("found", "sign"),
    [
        (node(unschedulable=True), "cordoned"),
        (
            node(taints=[{"key": "ToBeDeletedByClusterAutoscaler", "value": "1796040000"}]),
            "taint ToBeDeletedByClusterAutoscaler",
        ),
        (node(taints=[{"key": "karpenter.sh/disrupted"}]), "taint karpenter.sh/disrupted"),
    ],
)
def test_a_node_that_is_drained_is_told_apart(found: dict[str, Any], sign: str) -> None:
    marks = marks_of(found)
    assert (marks.state, marks.signs) == ("draining", (sign,))


@pytest.mark.parametrize(
    "found",
    [
        node({"cloud.google.com/scheduled-maintenance-time": "1796040000"}),
        node(
            metadata={
                "annotations": {
                    UPCOMING: json.dumps({"maintenance_status": "PENDING", "window_start_time": "2026-11-30T12:00:00Z"})
                }
            }
        ),
    ],
)
def test_maintenance_that_is_only_planned_says_when(found: dict[str, Any]) -> None:
    marks = marks_of(found)
    assert (marks.state, marks.starts_at, marks.ends_at) == ("planned", NOON, None)


def test_what_is_under_way_counts_more_than_what_is_planned() -> None:
    labels = {ACTIVE: "true", "cloud.google.com/scheduled-maintenance-time": "1796040000"}
    assert marks_of(node(labels, taints=[ENDING], unschedulable=True)).state == "ending"


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"metadata": None, "spec": [], "status": "x"},
        {"metadata": {"name": 7, "labels": [1], "managedFields": [None, {"time": 5}]}},
        node({"cloud.google.com/scheduled-maintenance-time": "soon"}, metadata={"annotations": {UPCOMING: "{"}}),
        node(conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": 7}], taints=[{"key": None}]),
    ],
)
def test_a_strange_object_is_calm_and_never_an_error(strange: dict[str, Any]) -> None:
    assert marks_of(strange).state == "calm"
