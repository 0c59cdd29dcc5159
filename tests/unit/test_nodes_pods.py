"""What pods and containers tell: whose they are, whether they run outlast, and which store they work at."""

from typing import Any

import pytest

from outlast.monitor.nodes_containers import ContainerMarks
from outlast.monitor.nodes_pods import pod_marks

FUSE = "gcsfuse.csi.storage.gke.io"


def marks(container: dict[str, Any], *volumes: dict[str, Any]) -> ContainerMarks:
    return ContainerMarks({"name": "main", **container}, volumes)


def bucket(name: str, driver: str = FUSE, **attributes: str) -> dict[str, Any]:
    return {"name": "b", "csi": {"driver": driver, "volumeAttributes": {"bucketName": name, **attributes}}}


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"env": [{"name": "OUTLAST_URL", "value": "gs://b/run"}]}, "variable OUTLAST_URL"),
        ({"command": ["outlast", "run", "--", "python", "t.py"]}, "its command"),
        ({"command": ["/usr/local/bin/outlast", "work"]}, "its command"),
        ({"command": ["sh", "-c", "exec outlast run -- python t.py"]}, "its command"),
        ({"command": ["sh", "-c", "python -m outlast work"]}, "its command"),
        ({"command": ["python", "t.py"]}, ""),
        ({"command": ["python", "outlast_like.py"], "env": [{"name": "X", "value": "outlast"}]}, ""),
    ],
)
def test_a_container_that_runs_outlast_is_known_by_its_variables_or_its_command(
    container: dict[str, Any], why: str
) -> None:
    assert marks(container).runs_outlast() == why


@pytest.mark.parametrize("driver", [FUSE, "gcsfuse.run.googleapis.com"])
def test_a_path_in_a_mounted_bucket_is_told_as_the_buckets_url(driver: str) -> None:
    mounted = {"volumeMounts": [{"name": "b", "mountPath": "/ckpt/"}]}
    given = {"env": [{"name": "OUTLAST_URL", "value": "/ckpt/run-7/"}], **mounted}
    assert list(marks(given, bucket("my", driver)).urls(guess=True)) == ["gs://my/run-7"]
    words = {"args": ["train.py", "--out=/ckpt/x", "/elsewhere"], **mounted}
    assert list(marks(words, bucket("my", driver)).urls(guess=True)) == ["gs://my/x"]


def test_a_folder_of_a_bucket_and_a_sub_path_are_part_of_the_url() -> None:
    mount = {"name": "b", "mountPath": "/ckpt", "subPath": "jobs/"}
    given = {"env": [{"name": "OUTLAST_URL", "value": "/ckpt"}], "volumeMounts": [mount]}
    found = list(marks(given, bucket("my", mountOptions="implicit-dirs,only-dir=team/a")).urls(guess=True))
    assert found == ["gs://my/team/a/jobs"]


def test_a_mounted_bucket_is_a_guess_where_nothing_else_is_named() -> None:
    mounted = {"volumeMounts": [{"name": "b", "mountPath": "/ckpt"}]}
    assert list(marks(mounted, bucket("my")).urls(guess=True)) == ["gs://my"]
    assert list(marks(mounted, bucket("my")).urls(guess=False)) == []


def test_references_to_variables_are_expanded_as_the_platform_does() -> None:
    env = [{"name": "RUN", "value": "7"}, {"name": "OUTLAST_URL", "value": "gs://b/$(RUN)/$(NOT_THERE)"}]
    assert list(marks({"env": env}).urls(guess=True)) == ["gs://b/7/$(NOT_THERE)"]


def test_queues_and_sinks_in_the_words_are_found() -> None:
    words = ["outlast", "work", "sqlite:////data/work.db", "m:f", "--sink", "postgresql://h/db?table=t"]
    assert list(marks({"command": words}).urls(guess=True)) == ["sqlite:////data/work.db", "postgresql://h/db?table=t"]


def test_what_the_manifest_does_not_tell_is_said() -> None:
    secret = {"name": "OUTLAST_URL", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    found = list(marks({"env": [secret], "envFrom": [{"configMapRef": {"name": "c"}}]}).unseen())
    assert found == ["container main takes OUTLAST_URL from elsewhere", "container main has variables from a configMap"]


def test_a_pod_tells_its_job_its_jobset_its_index_and_its_end() -> None:
    pod = {
        "metadata": {
            "namespace": "team",
            "name": "train-0-abcde",
            "labels": {
                "batch.kubernetes.io/job-name": "train-workers-0",
                "jobset.sigs.k8s.io/jobset-name": "train",
            },
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
            "deletionTimestamp": "2026-11-30T12:00:00Z",
        },
        "spec": {
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 600,
            "containers": [{"name": "main", "env": [{"name": "OUTLAST_URL", "value": "gs://b/x"}]}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
        },
    }
    found = pod_marks(pod)
    assert (found.owner, found.jobset, found.index) == ("job/train-workers-0", "train", 3)
    assert (found.grace_seconds, found.ends_at) == (600.0, 1_796_040_000.0)
    assert (found.disrupted, found.runs_outlast) == ("EvictionByEvictionAPI", "variable OUTLAST_URL")
    assert found.worksite.urls == ("gs://b/x",)
    assert (found.worksite.job, found.worksite.task, found.worksite.host) == ("train-workers-0", 3, "train-0-abcde")


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"metadata": 1, "spec": {"containers": ["x", None, {"env": "y", "command": [1, None]}]}, "status": []},
        {"spec": {"containers": [{"env": [{"name": None}, {"value": "x"}, 5], "volumeMounts": [{"name": 7}]}]}},
        {"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index": "99999999999999999999"}}},
        {"metadata": {"name": "\x1b[2Jx", "labels": {"job-name": "a\nb"}}},
    ],
)
def test_a_strange_pod_is_read_without_an_error_and_its_names_steer_nothing(strange: dict[str, Any]) -> None:
    found = pod_marks(strange)
    assert (found.runs_outlast, found.index) == ("", None)
    assert (found.name + found.owner).isprintable()
