"""What the doctor says of a cluster: context, kinds, rights, nodes and accounts; and of a Slurm site."""

import json
from pathlib import Path
from typing import Any

import pytest
from doctor_desk import GKE, URL, Desk, answers, states

from outlast.deploy.doctor.findings import Finding
from service import servers


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real bucket that the checks write to."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", servers.gcs_server())


_SPOT = GKE.replace("hardware: {{gpu", "hardware: {{spot: true, gpu").replace("gke-gpu", "gke-spot")
_NONE: dict[str, Any] = {"items": []}
_SLURM = "name: train\ncommand: [python, train.py]\nsource: .\nplatform: slurm\nurl: {url}\n"


def _desk(tmp_path: Path, *changes: dict[str, Any]) -> Desk:
    return Desk(tmp_path / "desk", [*answers("cloud", "cluster"), *changes])


def _one(tmp_path: Path, check: str, text: str, *changes: dict[str, Any]) -> Finding:
    return _desk(tmp_path, *changes).checked(check, text.format(url=URL))


def test_where_all_is_well_nothing_else_is_said_of_a_cluster(tmp_path: Path) -> None:
    found = _desk(tmp_path).examined(GKE.format(url=URL))
    assert states(found) == {}
    assert {"kubectl context", "kubectl rights", "nodes", "workload identity", "queue of kueue"} <= set(found)


_CASES: list[tuple[dict[str, Any], str, str, str, str]] = [
    # (changed answer, check, state, in its reason, in its command)
    (
        {"words": "kubectl config get-contexts", "out": "minikube\n"},
        "kubectl context", "bad", "does not know gke_example-project_europe-west4_training",
        "gcloud container clusters get-credentials training --location europe-west4 --project example-project",
    ),
    (
        {"words": "kubectl get --raw /version", "code": 1, "error": "error: You must be logged in to the server"},
        "kubectl context", "bad", "does not know you", "get-credentials training",
    ),
    (
        {"words": "kubectl get --raw /version", "code": 1, "error": "Unable to connect to the server: i/o timeout"},
        "kubectl context", "unknown", "reaches no server", "kubectl get --raw /version",
    ),
    (
        {"words": "kubectl get namespace", "code": 1, "error": 'Error from server (NotFound): namespaces "training"'},
        "namespace", "unknown", "makes it", "kubectl create namespace training",
    ),
    (
        {"words": "kubectl api-resources --api-group jobset.x-k8s.io", "out": ""},
        "kinds", "bad", "no jobset.x-k8s.io",
        "kubectl apply --server-side --filename https://github.com/kubernetes-sigs/jobset/releases/latest/",
    ),
    (
        {"words": "kubectl auth can-i create", "out": "no\n", "code": 1},
        "kubectl rights", "bad", "create jobsets.jobset.x-k8s.io and create serviceaccounts",
        "--clusterrole=edit --user=ada@team.example --namespace training",
    ),
    (
        {"words": "kubectl auth can-i", "code": 1, "error": "error: the server refused"},
        "kubectl rights", "unknown", "the server refused", "kubectl auth can-i",
    ),
    (
        {"words": "kubectl auth can-i get pods --subresource=log", "out": "no\n", "code": 1},
        "kubectl rights", "bad", "you may not get pods/log in training", "rolebinding",
    ),
    (
        {"words": "kubectl get nodes", "out": _NONE},
        "nodes", "bad", "no pool makes such nodes",
        "gcloud container node-pools create train-digits-pool --cluster training --location europe-west4",
    ),
    ({"words": "kubectl get nodes", "out": "{"}, "nodes", "unknown", "cannot be read", "kubectl get nodes"),
    (
        {"words": "kubectl get configmap", "code": 1, "error": "Error from server (NotFound): configmaps"},
        "graceful maintenance", "unknown", "GracefulTermination", "kubectl logs --namespace kube-system",
    ),
    (
        {"words": "gcloud container clusters describe", "out": {"name": "training"}},
        "workload identity", "bad", "off in this cluster", "--workload-pool example-project.svc.id.goog",
    ),
    (
        {"words": "gcloud container clusters describe", "code": 1, "error": "ERROR: code=404, Not found"},
        "workload identity", "bad", "no cluster training", "gcloud container clusters create-auto training",
    ),
    (
        {"words": "kubectl get serviceaccount", "out": {"metadata": {"name": "trainer"}}},
        "pod account", "bad", "stands for no Google account",
        "iam.gke.io/gcp-service-account=trainer@example-project.iam.gserviceaccount.com",
    ),
    (
        {"words": "gcloud iam service-accounts get-iam-policy", "out": {"etag": "x"}},
        "pod account", "bad", "does not let",
        "--role roles/iam.workloadIdentityUser --member 'serviceAccount:example-project.svc.id.goog[training/trainer]'",
    ),
    (
        {"words": "kubectl get serviceaccount", "code": 1, "error": "Error from server (NotFound): serviceaccounts"},
        "pod account", "unknown", "makes it", "",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "check", "state", "why", "mend"), _CASES)
def test_what_is_wrong_with_a_cluster_is_told_with_its_command(
    tmp_path: Path, change: dict[str, Any], check: str, state: str, why: str, mend: str
) -> None:
    found = _one(tmp_path, check, GKE, change)
    assert (found.state, why in found.why) == (state, True), found
    assert mend in (found.mend or "")


def test_without_a_named_cluster_the_current_one_is_asked(tmp_path: Path) -> None:
    text = GKE.replace("cluster: training, ", "")
    assert _one(tmp_path / "a", "kubectl context", text).state == "ok"
    none = {"words": "kubectl config current-context", "code": 1, "error": "error: current-context is not set"}
    found = _one(tmp_path / "b", "kubectl context", text, none)
    assert (found.state, "knows no cluster" in found.why) == ("bad", True)


def test_kubectl_is_asked_about_the_cluster_that_is_named(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    desk.checked("nodes", GKE.format(url=URL))
    (words,) = desk.asked
    assert words[words.index("--context") + 1] == "gke_example-project_europe-west4_training"


def test_a_queue_that_is_not_there_and_a_driver_that_is_off_are_bad(tmp_path: Path) -> None:
    no_driver = {
        "words": "gcloud container clusters describe",
        "out": {"workloadIdentityConfig": {"workloadPool": "p"}},
    }
    no_queue = {"words": "kubectl get localqueues", "code": 1, "error": "Error from server (NotFound): localqueues"}
    desk = _desk(tmp_path, no_driver, {**no_queue, "words": "kubectl get localqueues.kueue.x-k8s.io"})
    found = desk.examined(GKE.format(url="gs://outlast-test/x").replace("name: train", "access: mount\nname: train"))
    assert found["queue of kueue"].state == "bad"
    assert (found["bucket driver"].mend or "").endswith("--update-addons GcsFuseCsiDriver=ENABLED")


def _pool(**config: Any) -> dict[str, Any]:
    return {"name": "l4", "autoscaling": {"enabled": True, "maxNodeCount": 4}, "config": config}


_L4 = [{"acceleratorType": "nvidia-l4", "acceleratorCount": "1"}]


@pytest.mark.parametrize(
    ("text", "pool", "state"),
    [
        (GKE, _pool(accelerators=_L4), "ok"),
        (GKE, _pool(accelerators=_L4, spot=True), "bad"),
        (_SPOT, _pool(accelerators=_L4, spot=True), "ok"),
        (_SPOT, _pool(accelerators=_L4), "bad"),
        (GKE, _pool(accelerators=[{"acceleratorType": "nvidia-tesla-t4"}]), "bad"),
        (GKE, {**_pool(accelerators=_L4), "autoscaling": {}}, "bad"),
        (GKE, {**_pool(accelerators=_L4), "autoscaling": {}, "initialNodeCount": 1}, "ok"),
    ],
)
def test_a_pool_that_can_make_such_nodes_is_as_good_as_nodes(
    tmp_path: Path, text: str, pool: dict[str, Any], state: str
) -> None:
    no_nodes, pools = (
        {"words": "kubectl get nodes", "out": _NONE},
        {"words": "gcloud container node-pools", "out": [pool]},
    )
    assert _one(tmp_path, "nodes", text, no_nodes, pools).state == state


def test_without_kubectl_that_is_bad_and_the_rest_is_unknown(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud", "cluster"), ("gcloud",))
    found = desk.examined(GKE.format(url=URL))
    assert {name for name, state in states(found).items() if state == "bad"} == {"kubectl context"}
    assert found["kubectl rights"].state == found["nodes"].state == "unknown"


@pytest.mark.parametrize(
    ("config", "state"),
    [
        ("RequeueExit             = 143\n", "ok"),
        ("RequeueExit             = 75,140-150\nRequeueExitHold = (null)\n", "ok"),
        ("RequeueExit             = (null)\n", "bad"),
        ("RequeueExit             = 1-10\nRequeueExitHold         = 143\n", "bad"),
    ],
)
def test_a_slurm_site_starts_a_job_again_only_after_the_codes_that_it_names(
    tmp_path: Path, config: str, state: str
) -> None:
    found = _one(tmp_path, "slurm requeue", _SLURM, {"words": "scontrol show config", "out": config})
    assert found.state == state
    assert ("scontrol requeue" in (found.mend or "")) == (state == "bad")


def test_a_node_list_of_thousands_is_read(tmp_path: Path) -> None:
    many = {"items": [{"metadata": {"name": f"node-{n}", "labels": {"x": "y" * 200}}} for n in range(3000)]}
    assert len(json.dumps(many)) > 500_000
    found = _one(tmp_path, "nodes", GKE, {"words": "kubectl get nodes", "out": many})
    assert found.state == "ok"
    assert "3000 with" in found.why
    assert len(found.why) < 200
