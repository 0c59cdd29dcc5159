"""What a job on GKE needs of Google Cloud, as steps of gcloud: APIs, bucket, account, roles, features of the cluster.

Facts as of 2026-11-30. Cloud Storage, "IAM roles": roles/storage.objectUser reads, writes, lists and deletes objects,
which is what checkpoints need, and no more. GKE, "Workload Identity Federation": roles/iam.workloadIdentityUser on the
Google account for PROJECT.svc.id.goog[NAMESPACE/ACCOUNT]. IAM: an account's id has 6 to 30 characters.
"""

from collections.abc import Iterator

from outlast.deploy.description import BadSetting, Description
from outlast.deploy.gke.pools import Cluster
from outlast.deploy.plan import Command, Made, Probe, Step

BUCKET_ROLE, IDENTITY_ROLE = "roles/storage.objectUser", "roles/iam.workloadIdentityUser"
_APIS = ("container.googleapis.com", "iam.googleapis.com", "iamcredentials.googleapis.com", "storage.googleapis.com")
_LEAST_CHARACTERS, _MOST_CHARACTERS = 6, 30
_ATTEMPTS = 8  # a new account is known everywhere after a while
_GCSFUSE = "addonsConfig.gcsFuseCsiDriverConfig.enabled"


def google_account(description: Description, account: str) -> str | None:
    """The address of the Google service account of the pods; None where the description tells of no project."""
    if description.service_account is not None or description.project is None:
        return description.service_account
    name = account if len(account) >= _LEAST_CHARACTERS else f"{account}-outlast"
    return f"{name[:_MOST_CHARACTERS].rstrip('-')}@{description.project}.iam.gserviceaccount.com"


def image(description: Description) -> str:
    """The image's name. Raises BadSetting where it is to be built and has nowhere to go."""
    if description.image is not None:
        return description.image
    for key, said in (("project", description.project), ("region", description.region)):
        if said is None:
            raise BadSetting(key, "it is missing: where the image is kept")
    repository = description.repository or description.name
    return f"{description.region}-docker.pkg.dev/{description.project}/{repository}/{description.name}:latest"


def steps(description: Description, *, account: str, cluster: Cluster | None) -> Iterator[Step]:
    """APIs, bucket, account and roles; nothing without a project."""
    project, address = description.project, google_account(description, account)
    if project is None or address is None:
        return
    yield _apis(project)
    if description.bucket is not None:
        yield _bucket(description, description.bucket, project)
    if description.service_account is None:
        yield _account(address, project)
    if description.bucket is not None:
        yield _bucket_role(description.bucket, address, project)
    namespace = description.kubernetes.namespace
    if cluster is not None:
        yield _identity(address, f"serviceAccount:{project}.svc.id.goog[{namespace}/{account}]", project)


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


def _apis(project: str) -> Step:
    command = Command(("gcloud", "services", "enable", *_APIS, "--project", project))
    return Step(name="apis", why="the services that the job uses", commands=(command,))


def _bucket(description: Description, bucket: str, project: str) -> Step:
    url, region = f"gs://{bucket}", description.region or description.kubernetes.location
    if region is None:
        raise BadSetting("region", "it is missing: where the bucket is, best where the cluster is")
    place = "-".join(region.split("-")[:2])  # of a zone the region
    begin = ("gcloud", "storage", "buckets")
    flags = ("--location", place, "--uniform-bucket-level-access", "--public-access-prevention", "--project", project)
    made = Made(
        kind="bucket",
        name=url,
        probe=Probe((*begin, "describe", url, "--format", "value(name)", "--project", project)),
        undo=(Command(("gcloud", "storage", "rm", "--recursive", url, "--project", project)),),
        holds="all checkpoints in it",
    )
    why = "where the checkpoints are, in the cluster's region"
    return Step(name="bucket", why=why, commands=(Command((*begin, "create", url, *flags)),), makes=(made,))


def _account(address: str, project: str) -> Step:
    begin, name = ("gcloud", "iam", "service-accounts"), address.partition("@")[0]
    made = Made(
        kind="service account",
        name=address,
        probe=Probe((*begin, "describe", address, "--project", project, "--format", "value(email)")),
        undo=(Command((*begin, "delete", address, "--project", project, "--quiet")),),
    )
    command = Command((*begin, "create", name, "--project", project))
    return Step(
        name="google-account", why="who the job is, with no right but those below", commands=(command,), makes=(made,)
    )


def _bucket_role(bucket: str, address: str, project: str) -> Step:
    on = ("gcloud", "storage", "buckets"), f"gs://{bucket}"
    made, command = _role(*on, f"serviceAccount:{address}", role=BUCKET_ROLE, project=project)
    return Step(name="bucket-role", why="read and write checkpoints", commands=(command,), makes=(made,))


def _identity(address: str, member: str, project: str) -> Step:
    made, command = _role(("gcloud", "iam", "service-accounts"), address, member, role=IDENTITY_ROLE, project=project)
    why = "the pods may act as the account"
    return Step(name="workload-identity-role", why=why, commands=(command,), makes=(made,))


def _role(begin: tuple[str, ...], on: str, member: str, *, role: str, project: str) -> tuple[Made, Command]:
    """A role for a member on one thing, which the commands of `begin` are about."""
    asks = ("--flatten", "bindings[].members", "--filter", f'bindings.role="{role}" AND bindings.members="{member}"')
    policy = (*begin, "get-iam-policy", on, "--project", project, *asks, "--format", "value(bindings.members)")
    binding = ("--member", member, "--role", role, "--project", project)
    made = Made(
        kind="role",
        name=f"{role} on {on} for {member}",
        probe=Probe(policy, line=member),
        undo=(Command((*begin, "remove-iam-policy-binding", on, *binding)),),
    )
    return made, Command((*begin, "add-iam-policy-binding", on, *binding), attempts=_ATTEMPTS)
