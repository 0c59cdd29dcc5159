"""What the doctor says of a Google Cloud project: login, payment, rights, APIs, quota and bucket."""

from pathlib import Path
from typing import Any

import pytest
from doctor_desk import CLOUD_RUN, GKE, PROGRAMS, URL, Desk, answers, states

from outlast.deploy.doctor.findings import Finding
from outlast.deploy.doctor.quotas import compute_metric, run_quota_id, value_in
from service import servers


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real bucket that the checks write to."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", servers.gcs_server())


_BUILT = CLOUD_RUN.replace("image: europe-west4-docker.pkg.dev/example-project/jobs/train:1", "source: .")
_NO = "ERROR: (gcloud) PERMISSION_DENIED: The caller does not have permission"
_ADA = ["user:ada@team.example"]
_L4 = "gcloud beta quotas info describe NvidiaL4GpuAllocNoZonalRedundancyPerProjectRegion"
_MORE = f"--quota-id {_L4.rsplit(maxsplit=1)[-1]} --preferred-value 1 --dimensions region=europe-west4"
_HIDDEN = "ERROR: User [a] does not have permission to access projects instance [p] (or it may not exist)"
_POLICY = "gcloud projects get-ancestors-iam-policy"


def _desk(tmp_path: Path, *changes: dict[str, Any], programs: tuple[str, ...] = PROGRAMS) -> Desk:
    return Desk(tmp_path / "desk", [*answers("cloud"), *changes], programs)


def _all(tmp_path: Path, text: str, *changes: dict[str, Any], **how: Any) -> dict[str, Finding]:
    return _desk(tmp_path, *changes, **how).examined(text.format(url=URL))


def _one(tmp_path: Path, check: str, text: str, *changes: dict[str, Any]) -> Finding:
    return _desk(tmp_path, *changes).checked(check, text.format(url=URL))


def _bindings(*bindings: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"id": "example-project", "type": "project", "policy": {"bindings": list(bindings)}}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("retries: 1\nrun_time: 5d", "1 retries are less than the"),
        ("retries: 10\nrun_time: 60d", "execute the job again to go on"),
        ("measured: {{state_size: 20Gi}}", "memory 32Gi has no room"),
    ],
)
def test_what_may_keep_a_job_from_its_end_is_no_ok(tmp_path: Path, line: str, said: str) -> None:
    found = _one(tmp_path, "description", CLOUD_RUN.replace("measured: {{save_time: 3s}}\n", f"{line}\n"))
    assert found.state == "unknown"
    assert said in found.why


def test_where_all_is_well_nothing_else_is_said(tmp_path: Path) -> None:
    found = _all(tmp_path, CLOUD_RUN)
    assert states(found) == {}
    assert len(found) >= 10
    assert all(one.mend is None for one in found.values())


_CASES: list[tuple[str, dict[str, Any], str, str, str, str]] = [
    # (what, changed answer, check, state, in its reason, in its command)
    ("nobody", {"words": "gcloud auth list", "out": []}, "login", "bad", "not logged in", "gcloud auth login"),
    (
        "none chosen", {"words": "gcloud auth list", "out": [{"account": "a@b.example", "status": ""}]},
        "login", "bad", "none of them is chosen", "gcloud config set account",
    ),
    ("no json", {"words": "gcloud auth list", "out": "<html>"}, "login", "unknown", "cannot be read", "gcloud auth"),
    ("odd json", {"words": "gcloud auth list", "out": {"a": 1}}, "login", "unknown", "a list was expected", "gcloud"),
    (
        "run out",
        {"words": "gcloud projects describe", "code": 1, "error": "ERROR: Reauthentication failed. gcloud auth login"},
        "project", "bad", "login has run out", "gcloud auth login",
    ),
    (
        "no project", {"words": "gcloud projects describe", "code": 1, "error": "ERROR: NOT_FOUND: not found"},
        "project", "bad", "no project 'example-project'", "gcloud config set project",
    ),
    (
        "mistyped", {"words": "gcloud projects describe", "code": 1, "error": _HIDDEN},
        "project", "bad", "or it is hidden from you", "gcloud config set project",
    ),
    (
        "being deleted", {"words": "gcloud projects describe", "out": {"lifecycleState": "DELETE_REQUESTED"}},
        "project", "bad", "DELETE_REQUESTED", "gcloud projects undelete example-project",
    ),
    ("hidden", {"words": "gcloud projects", "code": 1, "error": _NO}, "project", "unknown", "may not look", "gcloud"),
    (
        "unpaid", {"words": "gcloud billing projects describe", "out": {"billingEnabled": False}},
        "billing", "bad", "nobody pays", "gcloud billing projects link example-project --billing-account",
    ),
    (
        "billing hidden", {"words": "gcloud billing", "code": 1, "error": _NO},
        "billing", "unknown", "may not look", "gcloud",
    ),
    (
        "one API off", {"words": "gcloud services list", "out": [{"config": {"name": "iam.googleapis.com"}}]},
        "apis", "bad", "off: run.googleapis.com",
        "gcloud services enable run.googleapis.com storage.googleapis.com --project example-project",
    ),
    (
        "no account", {"words": "gcloud iam service-accounts describe", "code": 1, "error": "ERROR: NOT_FOUND"},
        "service account", "bad", "there is no account",
        "gcloud iam service-accounts create trainer --project example-project",
    ),
    (
        "switched off", {"words": "gcloud iam service-accounts describe", "out": {"disabled": True}},
        "service account", "bad", "switched off", "gcloud iam service-accounts enable trainer@",
    ),
    (
        "no image", {"words": "gcloud artifacts", "code": 1, "error": "ERROR: Image not found."},
        "image", "bad", "there is no image", "gcloud builds submit --tag europe-west4-docker.pkg.dev",
    ),
    (
        "no quota", {"words": _L4, "out": {"dimensionsInfos": [{"details": {"value": "0"}}]}},
        "quota cloud-run", "bad", "0 without zonal redundancy (with it: 0), 1 needed",
        f"gcloud beta quotas preferences create --service run.googleapis.com --project example-project {_MORE}",
    ),
    (
        "no number", {"words": _L4, "out": {"dimensionsInfos": [{"details": {}}]}},
        "quota cloud-run", "unknown", "no number", "gcloud beta quotas preferences create",
    ),
    (
        "quota hidden", {"words": _L4, "code": 1, "error": _NO},
        "quota cloud-run", "unknown", "cloudquotas.viewer", "gcloud",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "check", "state", "why", "mend"), [one[1:] for one in _CASES], ids=[one[0] for one in _CASES]
)
def test_what_is_wrong_is_told_with_the_command_that_mends_it(
    tmp_path: Path, change: dict[str, Any], check: str, state: str, why: str, mend: str
) -> None:
    found = _one(tmp_path, check, CLOUD_RUN, change)
    assert (found.state, why in found.why) == (state, True), found
    assert mend in (found.mend or "")


def test_one_thing_that_is_wrong_is_told_once(tmp_path: Path) -> None:
    unpaid = {"words": "gcloud billing projects describe", "out": {"billingEnabled": False}}
    assert states(_all(tmp_path, CLOUD_RUN, unpaid)) == {"billing": "bad"}


def test_without_gcloud_that_is_bad_and_what_needs_it_is_unknown(tmp_path: Path) -> None:
    found = _all(tmp_path, CLOUD_RUN, programs=("kubectl",))
    assert (found["login"].state, found["login"].mend) == ("bad", "sudo snap install google-cloud-cli --classic")
    assert {name for name, state in states(found).items() if state == "bad"} == {"login"}
    assert found["apis"].state == found["roles"].state == "unknown"


def test_gcloud_without_credentials_is_an_emulators_and_no_fault(tmp_path: Path) -> None:
    out = {"core": {"project": "demo-project"}, "auth": {"disable_credentials": "true"}}
    assert _one(tmp_path, "login", CLOUD_RUN, {"words": "gcloud config list", "out": out}).state == "unknown"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (CLOUD_RUN.replace("gpus: 1", "gpus: 4"), "hardware.gpus"),
        (CLOUD_RUN + "timeout: 20h\n", "timeout"),
        (CLOUD_RUN.replace("{url}", "/checkpoints"), "memory and gone with it"),
        (GKE.replace("gpus: 1", "gpus: 3"), "hardware.machine_type"),
    ],
)
def test_a_description_that_deploy_refuses_is_bad_with_its_key(tmp_path: Path, text: str, why: str) -> None:
    found = _one(tmp_path, "description", text)
    assert (found.state, why in found.why) == ("bad", True), found
    assert _one(tmp_path / "apis", "apis", text).state == "unknown"  # nobody knows what it would need


def test_what_a_build_needs_is_looked_at_only_where_something_is_built(tmp_path: Path) -> None:
    few = ("roles/run.admin", "roles/storage.admin", "roles/iam.serviceAccountUser")
    policy = {"words": _POLICY, "out": _bindings(*({"role": role, "members": _ADA} for role in few))}
    assert _one(tmp_path / "a", "roles", CLOUD_RUN, policy).state == "ok"
    built = _one(tmp_path / "b", "roles", _BUILT, policy)
    assert built.state == "bad"
    for role in ("cloudbuild.builds.editor", "artifactregistry.admin", "serviceAccountAdmin", "projectIamAdmin"):
        assert role in (built.mend or "")
    apis = {"words": "gcloud services list", "out": []}
    assert "cloudbuild.googleapis.com" in _one(tmp_path / "c", "apis", _BUILT, apis).why
    assert "cloudbuild.googleapis.com" not in _one(tmp_path / "d", "apis", CLOUD_RUN, apis).why


# --- rights ------------------------------------------------------------------------------------------


def test_a_role_that_is_missing_is_given_by_the_narrowest_one(tmp_path: Path) -> None:
    policy = _bindings({"role": "roles/run.admin", "members": _ADA}, {"role": "roles/storage.admin", "members": _ADA})
    found = _one(tmp_path, "roles", CLOUD_RUN, {"words": _POLICY, "out": policy})
    assert found.state == "bad"
    assert found.mend == (
        "gcloud projects add-iam-policy-binding example-project --member=user:ada@team.example "
        "--role=roles/iam.serviceAccountUser"
    )


def test_an_owner_may_do_everything(tmp_path: Path) -> None:
    policy = _bindings({"role": "roles/owner", "members": _ADA})
    assert _one(tmp_path, "roles", _BUILT, {"words": _POLICY, "out": policy}).state == "ok"


@pytest.mark.parametrize(
    ("binding", "by"),
    [
        ({"role": "roles/owner", "members": ["group:team@team.example"]}, "group team@team.example"),
        ({"role": "projects/example-project/roles/deployer", "members": _ADA}, "the role projects/"),
        ({"role": "roles/owner", "members": _ADA, "condition": {"expression": "false"}}, "a condition"),
    ],
)
def test_a_right_that_cannot_be_seen_is_unknown_and_not_missing(
    tmp_path: Path, binding: dict[str, Any], by: str
) -> None:
    found = _one(tmp_path, "roles", CLOUD_RUN, {"words": _POLICY, "out": _bindings(binding)})
    assert found.state == "unknown"
    assert by in found.why
    assert "add-iam-policy-binding" in (found.mend or "")


def test_folders_above_that_may_not_be_read_make_a_missing_role_unknown(tmp_path: Path) -> None:
    own = {"words": "gcloud projects get-iam-policy", "out": {"bindings": []}}
    found = _one(tmp_path, "roles", CLOUD_RUN, {"words": _POLICY, "code": 1, "error": _NO}, own)
    assert found.state == "unknown"
    assert "a folder or organisation above" in found.why


def test_a_policy_that_nobody_may_read_is_unknown(tmp_path: Path) -> None:
    refused = {"code": 1, "error": _NO}
    own = {"words": "gcloud projects get-iam-policy", **refused}
    assert _one(tmp_path, "roles", CLOUD_RUN, {"words": _POLICY, **refused}, own).state == "unknown"


# --- quotas ------------------------------------------------------------------------------------------


def test_a_value_for_the_region_beats_the_one_for_all_regions() -> None:
    everywhere = {"details": {"value": "1"}, "applicableLocations": ["us-central1", "europe-west4"]}
    here = {
        "dimensions": {"region": "europe-west4"},
        "details": {"value": "7"},
        "applicableLocations": ["europe-west4"],
    }
    said = {"dimensionsInfos": [here, everywhere]}
    assert value_in(said, "europe-west4") == 7
    assert value_in({"dimensionsInfos": [everywhere, here]}, "europe-west4") == 7
    assert value_in(said, "us-central1") == 1
    assert value_in(said, "asia-east1") is None
    assert value_in({"dimensionsInfos": [{"details": {"value": "-1"}}]}, "asia-east1") == 10**9
    assert value_in({}, "asia-east1") is None


def test_tasks_that_run_at_once_each_need_their_gpus(tmp_path: Path) -> None:
    found = _one(tmp_path, "quota cloud-run", CLOUD_RUN + "tasks: 8\nparallelism: 4\n")
    assert (found.state, "4 needed" in found.why) == ("bad", True)
    assert _one(tmp_path / "b", "quota cloud-run", CLOUD_RUN + "tasks: 8\nparallelism: 3\n").state == "ok"


def test_quotas_have_the_names_that_google_gives_them() -> None:
    assert run_quota_id("nvidia-l4", redundant=True) == "NvidiaL4GpuAllocPerProjectRegion"
    assert run_quota_id("nvidia-a100-80gb", redundant=True) is None
    assert compute_metric("nvidia-tesla-a100", preemptible=True) == "PREEMPTIBLE_NVIDIA_A100_GPUS"
    assert compute_metric("nvidia-a100-80gb", preemptible=False) == "NVIDIA_A100_80GB_GPUS"


@pytest.mark.parametrize(
    ("region", "everywhere", "state", "mend"),
    [
        (0.0, 8.0, "bad", "--quota-id NVIDIA-L4-GPUS-per-project-region --preferred-value 1 --dimensions region="),
        (8.0, 0.0, "bad", "--quota-id GPUS-ALL-REGIONS-per-project --preferred-value 1"),
        (1.0, 1.0, "ok", ""),
    ],
)
def test_a_cluster_needs_the_quota_of_the_region_and_that_of_all(
    tmp_path: Path, region: float, everywhere: float, state: str, mend: str
) -> None:
    found = _one(
        tmp_path,
        "quota compute",
        GKE,
        {
            "words": "gcloud compute regions describe",
            "out": {"quotas": [{"metric": "NVIDIA_L4_GPUS", "limit": region + 2, "usage": 2}]},
        },
        {
            "words": "gcloud compute project-info describe",
            "out": {"quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": everywhere, "usage": 0}]},
        },
    )
    assert found.state == state
    assert mend in (found.mend or "")


# --- the bucket's place ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "state"),
    [
        ({"location": "EUROPE-WEST4"}, "ok"),
        ({"location": "EUR4"}, "ok"),
        ({"location": "EU", "custom_placement_config": {"dataLocations": ["EUROPE-WEST1", "EUROPE-WEST4"]}}, "ok"),
        ({"location": "EU"}, "unknown"),
        ({"location": "US"}, "bad"),
        ({"location": "US-CENTRAL1"}, "bad"),
        ({"location": "EUR5"}, "bad"),
    ],
)
def test_a_bucket_far_from_the_job_is_bad(tmp_path: Path, described: dict[str, Any], state: str) -> None:
    desk = _desk(tmp_path, {"words": "gcloud storage buckets describe", "out": described})
    found = desk.checked("bucket", CLOUD_RUN.format(url="gs://outlast-test/digits"))
    assert found.state == state, found
    if state == "bad":
        assert found.mend == (
            "gcloud storage buckets create gs://outlast-test-europe-west4 --location europe-west4 "
            "--uniform-bucket-level-access --project example-project"
        )


def test_a_bucket_that_is_not_there_is_made_in_the_jobs_region(tmp_path: Path) -> None:
    error = "ERROR: (gcloud.storage.buckets.describe) gs://outlast-test not found: 404."
    desk = _desk(tmp_path, {"words": "gcloud storage", "code": 1, "error": error})
    found = desk.checked("bucket", CLOUD_RUN.format(url="gs://outlast-test/digits"))
    assert found.state == "bad"
    assert (found.mend or "").startswith("gcloud storage buckets create gs://outlast-test --location europe-west4")
