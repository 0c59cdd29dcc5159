"""What a job on GKE needs of Google Cloud, as steps of gcloud: APIs, image, bucket, account, roles, cluster features.

The image, the bucket and the account are made as for Cloud Run, by the same steps. Facts as of 2026-11-30. GKE,
"Workload Identity Federation": roles/iam.workloadIdentityUser on the Google account for
PROJECT.svc.id.goog[NAMESPACE/ACCOUNT].
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.deploy.cloud_run.settings import account_of
from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description import BadSetting, Description, Hardware, Measured
from outlast.deploy.description_file import Described
from outlast.deploy.gke.pools import Cluster
from outlast.deploy.google_cloud import BUILDING_APIS, Gcloud, apis, role
from outlast.deploy.plan import Command, Made, Probe, Step

IDENTITY_ROLE = "roles/iam.workloadIdentityUser"
_APIS = ("container", "iam", "iamcredentials", "storage")
_OF_CLOUD_RUN = ("apis", "job", "execution")  # all other steps make what every target needs
_IMAGE = "image"
_GCSFUSE = "addonsConfig.gcsFuseCsiDriverConfig.enabled"


@dataclass(frozen=True, slots=True)
class Cloud:
    """Steps before the cluster's own, the image that they make, and the Google account of the pods, if there is one."""

    steps: tuple[Step, ...]
    image: str
    account: str | None


def prepare(described: Described, files: Path) -> Cloud:
    """Without a project nothing is made: then the image is there, and the pods are nobody towards Google Cloud."""
    description = described.description
    if description.project is None:
        if description.image is None:
            raise BadSetting("project", "it is missing: where the image is built and kept; or give an image")
        return Cloud((), description.image, description.service_account)
    region = description.region or _region(description.kubernetes.location)
    # Cloud Run's plan is asked for what does not depend on the hardware, which it may not have.
    asked = replace(
        description, region=region, hardware=Hardware(), measured=Measured(), platform=None, tasks=1, parallelism=None,
        run_seconds=None, timeout_seconds=None, retries=None, env=(), price_per_gpu_hour=None,
    )  # fmt: skip
    made = plan_for(replace(described, description=asked), files, execute=False)
    steps = {step.name: step for step in made.steps if step.name not in _OF_CLOUD_RUN}
    image = steps[_IMAGE].makes[0].name if _IMAGE in steps else description.image
    assert image is not None  # a description has a source or an image
    account = description.service_account or account_of(description.name, "job", description.project)
    switched_on = apis(Gcloud(description.project), *_APIS, *(BUILDING_APIS if _IMAGE in steps else ()))
    return Cloud((switched_on, *steps.values()), image, account)


def identity_role(description: Description, *, google_account: str, account: str) -> Step:
    """Lets the pods, by their Kubernetes account, act as the Google one."""
    project, namespace = description.project or "", description.kubernetes.namespace
    member = f"{project}.svc.id.goog[{namespace}/{account}]"
    group, thing = ("iam", "service-accounts"), (google_account,)
    why = "the pods may act as the account"
    return role(Gcloud(project), "workload-identity-role", group, thing, member=member, role=IDENTITY_ROLE, why=why)


def _region(location: str | None) -> str | None:
    """That of a zone."""
    return None if location is None else "-".join(location.split("-")[:2])


def features(description: Description, cluster: Cluster) -> Iterator[Step]:
    """What a Standard cluster has to have; Autopilot has it."""
    pool = f"{cluster.project}.svc.id.goog"
    why = "so that pods are Google accounts without keys"
    yield _feature(
        "workload-identity", why, cluster, "workloadIdentityConfig.workloadPool", pool, "--workload-pool", pool
    )
    if description.access == "mount":
        why = "so that a bucket can be mounted"
        driver = ("--update-addons", "GcsFuseCsiDriver=ENABLED")
        yield _feature("gcsfuse-driver", why, cluster, _GCSFUSE, "True", *driver)


def _feature(name: str, why: str, cluster: Cluster, field: str, value: str, *flags: str) -> Step:
    begin = ("gcloud", "container", "clusters")
    made = Made(
        kind="feature of the cluster",
        name=name,
        probe=Probe((*begin, "describe", cluster.name, *cluster.place, "--format", f"value({field})"), line=value),
        why_kept="others in the cluster may use it by now",
    )
    return Step(
        name=name, why=why, commands=(Command((*begin, "update", cluster.name, *cluster.place, *flags)),), makes=(made,)
    )
