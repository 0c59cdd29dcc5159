"""Environments as the platforms set them, and which platform and identity they lead to; no network is asked."""

import os
import re
import socket
from pathlib import Path

import pytest

from outlast.errors import SettingsError
from outlast.firmware import Firmware, read_firmware
from outlast.ports import Identity
from outlast.registry import PLATFORMS, detect_platform, platform_named
from outlast.settings import look_around

_NOTHING = Firmware()
_GCE = Firmware(vendor="Google", product="Google Compute Engine")
_EC2 = Firmware(vendor="Amazon EC2", product="g5.xlarge", asset_tag="Amazon EC2")
_AZURE = Firmware("Microsoft Corporation", "Virtual Machine", "7783-7084-3265-9085-8269-3286-77")
_HYPER_V = Firmware("Microsoft Corporation", "Virtual Machine", "0000-0000")

_CLOUD_RUN = {
    "CLOUD_RUN_JOB": "hello-world",
    "CLOUD_RUN_EXECUTION": "hello-world-abc",
    "CLOUD_RUN_TASK_INDEX": "0",
    "CLOUD_RUN_TASK_ATTEMPT": "0",
    "CLOUD_RUN_TASK_COUNT": "1",
}
_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOSTNAME": "train-x7k2p"}
_INDEXED = {**_POD, "HOSTNAME": "train-3", "JOB_COMPLETION_INDEX": "3"}
_TOLD = {
    "OUTLAST_JOB": "train",
    "OUTLAST_EXECUTION": "0f9e2c1a-77aa-4e0b-9f0e-8a6f0c1d2e3f",
    "OUTLAST_TASK_COUNT": "8",
    "OUTLAST_TASK_ATTEMPT": "2",
}
_SLURM = {
    "SLURM_JOB_ID": "4242",
    "SLURM_JOB_NAME": "train.sh",
    "SLURM_NTASKS": "1",
    "SLURM_PROCID": "0",
}
_ARRAY = {
    **_SLURM,
    "SLURM_JOB_ID": "4245",
    "SLURM_ARRAY_JOB_ID": "4242",
    "SLURM_ARRAY_TASK_ID": "3",
    "SLURM_ARRAY_TASK_MIN": "1",
    "SLURM_ARRAY_TASK_MAX": "10",
    "SLURM_ARRAY_TASK_COUNT": "10",
    "SLURM_RESTART_COUNT": "2",
}
_BATCH = {"AWS_BATCH_JOB_ID": "876da822-4198-45f2-a252-6cea32512ea8", "AWS_BATCH_JOB_ATTEMPT": "1"}
_BATCH_CHILD = {
    "AWS_BATCH_JOB_ID": "876da822-4198-45f2-a252-6cea32512ea8:2",
    "AWS_BATCH_JOB_ATTEMPT": "3",
    "AWS_BATCH_JOB_ARRAY_INDEX": "2",
    "AWS_BATCH_JOB_ARRAY_SIZE": "10",
}
_BATCH_ID = "876da822-4198-45f2-a252-6cea32512ea8"


@pytest.mark.parametrize(
    ("env", "firmware", "platform", "identity"),
    [
        ({}, _NOTHING, "local", Identity()),
        ({}, _HYPER_V, "local", Identity()),
        (_CLOUD_RUN, _GCE, "cloud-run", Identity("hello-world", "hello-world-abc", 0, 1, 0)),
        ({"CLOUD_RUN_WORKER_POOL": "pool"}, _GCE, "cloud-run", Identity(attempt=0)),
        ({"K_SERVICE": "hello", "K_REVISION": "hello-1", "PORT": "8080"}, _GCE, "cloud-run", Identity(attempt=0)),
        ({"K_SERVICE": "hello", **_POD}, _GCE, "kubernetes", Identity("train")),
        (_POD, _GCE, "kubernetes", Identity("train")),
        (_INDEXED, _EC2, "kubernetes", Identity("train", None, 3, 4)),
        ({**_INDEXED, **_TOLD}, _GCE, "kubernetes", Identity("train", _TOLD["OUTLAST_EXECUTION"], 3, 8, 2)),
        ({**_POD, "OUTLAST_NODE_CLASS": "gke-spot"}, _GCE, "gke-spot", Identity("train")),
        ({**_POD, "OUTLAST_NODE_CLASS": "gke-gpu"}, _GCE, "gke-gpu", Identity("train")),
        ({**_POD, "OUTLAST_NODE_CLASS": " gke-gpu, gke-spot "}, _GCE, "gke-spot", Identity("train")),
        ({**_POD, "OUTLAST_NODE_CLASS": "kubernetes", "TPU_WORKER_HOSTNAMES": "h"}, _GCE, "kubernetes", None),
        ({**_INDEXED, "TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "0"}, _GCE, "gke-tpu", None),
        ({"TPU_WORKER_HOSTNAMES": "a,b"}, _GCE, "gce-spot", Identity()),
        (_SLURM, _GCE, "slurm", Identity("train.sh", "4242", 0, 1, 0)),
        ({**_SLURM, "SLURM_JOB_NAME": "wrap"}, _NOTHING, "slurm", Identity(None, "4242", 0, 1, 0)),
        (_ARRAY, _EC2, "slurm", Identity("train.sh", "4242", 3, 10, 2, range(1, 11))),
        ({**_SLURM, **_POD}, _NOTHING, "slurm", Identity("train.sh", "4242", 0, 1, 0)),
        (_BATCH, _EC2, "aws-spot", Identity(None, _BATCH_ID, 0, 1, 0)),
        (_BATCH_CHILD, _EC2, "aws-spot", Identity(None, _BATCH_ID, 2, 10, 2)),
        ({**_BATCH_CHILD, **_POD}, _EC2, "aws-spot", Identity(None, _BATCH_ID, 2, 10, 2)),
        ({"ECS_CONTAINER_METADATA_URI_V4": "169.254.170.2/v4/x"}, _NOTHING, "aws-spot", Identity()),
        ({}, _EC2, "aws-spot", Identity()),
        (_TOLD, _GCE, "gce-spot", Identity("train", _TOLD["OUTLAST_EXECUTION"], 0, 8, 2)),
        ({}, _AZURE, "azure-spot", Identity()),
    ],
)
def test_a_real_environment_leads_to_its_platform(
    env: dict[str, str], firmware: Firmware, platform: str, identity: Identity | None
) -> None:
    found = detect_platform(env, firmware)
    assert found.facts.name == platform
    assert identity in (None, found.identity(env))


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_what_a_platform_would_set_is_recognised_as_it(name: str) -> None:
    machine = {"gce-spot": _GCE, "azure-spot": _AZURE}.get(name, _NOTHING)
    env = platform_named(name).environment(Identity("train", "x", 0, 1, 0))
    assert detect_platform(env, machine).facts.name == name


def test_a_name_beats_every_sign() -> None:
    assert detect_platform({**_CLOUD_RUN, "OUTLAST_PLATFORM": "slurm"}, _GCE).facts.name == "slurm"
    assert detect_platform({**_POD, "OUTLAST_PLATFORM": " gke-gpu "}, _GCE).facts.name == "gke-gpu"
    assert detect_platform({**_CLOUD_RUN, "OUTLAST_PLATFORM": "  "}, _GCE).facts.name == "cloud-run"


@pytest.mark.parametrize("classes", ["gke-sppot", "GKE-SPOT", "gke-gpu,cloud-run", "spot;gpu", "\udcff"])
def test_a_kind_of_node_that_is_none_is_refused(classes: str) -> None:
    """A Spot node taken for another would have its save planned for twice the time that it has."""
    with pytest.raises(SettingsError, match=r"OUTLAST_NODE_CLASS=.* there are gke-spot, gke-gpu, gke-tpu, kubernetes"):
        detect_platform({**_POD, "OUTLAST_NODE_CLASS": classes}, _NOTHING)


@pytest.mark.parametrize(
    ("hostname", "index", "job"),
    [
        ("train-x7k2p", None, "train"),
        ("train-crash-x7k2p", None, "train-crash"),
        ("train-29457894-x7k2p", None, "train-29457894"),  # of a CronJob
        ("serve-5d59d67564-x7k2p", None, None),  # of a Deployment: its hash changes with each rollout
        ("train", None, None),
        ("web-0", None, None),
        ("train-aeiou", None, None),  # no such letters in a pod's own part
        ("", None, None),
        ("train-12", "12", "train"),
        ("set-workers-0-12", "12", "set-workers-0"),  # of a JobSet
        ("train-2", "12", None),
        ("gke-node-7f2c", "0", None),  # the node's name, with hostNetwork
        ("-0", "0", None),
    ],
)
def test_the_job_is_read_from_the_pods_name_only_where_that_is_sure(
    hostname: str, index: str | None, job: str | None
) -> None:
    env = {**_POD, "HOSTNAME": hostname, **({"JOB_COMPLETION_INDEX": index} if index else {})}
    assert platform_named("kubernetes").identity(env).job == job


def test_a_told_job_beats_the_pods_name() -> None:
    assert platform_named("kubernetes").identity({**_POD, "OUTLAST_JOB": "mine"}).job == "mine"


def test_a_part_of_an_array_that_is_sent_again_keeps_its_task() -> None:
    again = {**_ARRAY, "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "3", "SLURM_ARRAY_TASK_COUNT": "1"}
    slurm = platform_named("slurm")
    assert slurm.identity(again).task == slurm.identity(_ARRAY).task == 3


def test_detection_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for env in ({}, _CLOUD_RUN, _INDEXED, _ARRAY, _BATCH_CHILD):
        for firmware in (_NOTHING, _GCE, _EC2, _AZURE):
            look_around(env, firmware=firmware)


# --- firmware ---------------------------------------------------------------------------------------


def test_firmware_is_read_as_the_kernel_shows_it(tmp_path: Path) -> None:
    (tmp_path / "sys_vendor").write_text("Google\n")
    (tmp_path / "product_name").write_text("Google Compute Engine\n")
    (tmp_path / "chassis_asset_tag").write_text("\n")
    assert read_firmware(tmp_path) == _GCE


def test_firmware_that_is_not_there_or_is_no_text_says_nothing(tmp_path: Path) -> None:
    assert read_firmware(tmp_path / "none") == Firmware()
    (tmp_path / "sys_vendor").mkdir()
    (tmp_path / "product_name").write_bytes(os.urandom(5000))
    found = read_firmware(tmp_path)
    assert found.vendor == found.asset_tag == ""
    assert len(found.product) <= 256
    assert detect_platform({}, found).facts.name == "local"


def test_the_names_in_the_error_are_all_that_there_are() -> None:
    with pytest.raises(SettingsError) as refused:
        platform_named("mars")
    assert set(PLATFORMS) <= set(re.findall(r"[a-z]+(?:-[a-z]+)*", str(refused.value)))
