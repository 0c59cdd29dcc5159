"""Which checks a description needs, and all of them side by side: the slowest one decides how long it takes."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from outlast.deploy.doctor import (
    account,
    buckets,
    clusters,
    identities,
    images,
    node_pools,
    quotas,
    roles,
    saves,
    slurm,
)
from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import Finding, unknown
from outlast.deploy.doctor.roles import Need

# Some checks ask several questions after each other, and one that writes to a bucket is patient for 20 s by itself.
LONGEST_SECONDS = 75.0
Check = Callable[[Case], Findings]


def examine(case: Case, *, longest_seconds: float = LONGEST_SECONDS) -> list[Finding]:
    """Everything that is to be said of a description, in a fixed order."""
    return side_by_side([(name, partial(check, case)) for name, check in checks_for(case)], longest_seconds)


def checks_for(case: Case) -> list[tuple[str, Check]]:
    """The checks of the description's platform; what holds everywhere comes last."""
    special = _OF_PLATFORM.get(case.described.platform or "", _of_bucket)(case)
    return [*special, ("store write", buckets.write), ("save time", saves.save_time)]


def side_by_side(work: Sequence[tuple[str, Callable[[], Findings]]], longest_seconds: float) -> list[Finding]:
    """Runs the checks at once. One that breaks, or takes too long, is unknown, and the others still count."""
    found: dict[int, Findings] = {}

    def run(place: int, name: str, check: Callable[[], Findings]) -> None:
        try:
            found[place] = check()
        except Exception as error:  # noqa: BLE001 - what a cloud answers is never all foreseen; the other checks count
            found[place] = [unknown(name, f"the check itself broke: {type(error).__name__}: {error}")]

    # Daemons: one that hangs in a library's call must not keep the process from leaving.
    threads = [
        threading.Thread(target=run, args=(place, name, check), name=f"doctor-{name}", daemon=True)
        for place, (name, check) in enumerate(work)
    ]
    for one in threads:
        one.start()
    until = time.monotonic() + longest_seconds
    for one in threads:
        one.join(max(0.0, until - time.monotonic()))
    late = f"it did not end within {longest_seconds:g} s"
    return [finding for place, (name, _) in enumerate(work) for finding in found.get(place, [unknown(name, late)])]


# --- what each platform needs ------------------------------------------------------------------------


def _needs(*needs: Need) -> Check:
    return partial(_roles, needs=needs)


def _roles(case: Case, *, needs: Sequence[Need]) -> Findings:
    return roles.roles(case, needs)


def _apis(*needed: str) -> Check:
    return partial(_apis_on, needed=needed)


def _apis_on(case: Case, *, needed: Sequence[str]) -> Findings:
    return roles.apis(case, needed)


def _of_google(case: Case, needs: Sequence[Need], needed_apis: Sequence[str]) -> list[tuple[str, Check]]:
    """What everything on Google Cloud needs; an image that is built there needs more."""
    built = case.described.source is not None
    needs = [*needs, roles.ACT_AS, *([roles.IMAGES, roles.BUILDS] if built else [])]
    needed_apis = [*needed_apis, *(["artifactregistry.googleapis.com", "cloudbuild.googleapis.com"] if built else [])]
    return [
        ("login", account.login),
        ("project", account.project),
        ("billing", account.billing),
        ("apis", _apis(*needed_apis)),
        ("roles", _needs(*needs)),
        ("service account", identities.job_account),
        ("bucket", buckets.bucket),
        ("image", images.image),
        ("entry point", images.entry_point),
    ]


def _of_cloud_run(case: Case) -> list[tuple[str, Check]]:
    needed = ["run.googleapis.com", "iam.googleapis.com", "storage.googleapis.com"]
    return [*_of_google(case, [roles.RUN, roles.BUCKETS], needed), ("quota cloud-run", quotas.run_gpus)]


def _of_gke(case: Case) -> list[tuple[str, Check]]:
    needed = ["container.googleapis.com", "compute.googleapis.com", "iam.googleapis.com", "storage.googleapis.com"]
    return [
        *_of_google(case, [roles.CLUSTERS, roles.POOLS, roles.BUCKETS], needed),
        ("quota compute", quotas.machine_gpus),
        *_of_cluster(),
        ("nodes", node_pools.nodes),
        ("graceful maintenance", node_pools.graceful),
        ("workload identity", identities.cluster_features),
        ("pod account", identities.pod_account),
    ]


def _of_cluster() -> list[tuple[str, Check]]:
    return [
        ("kubectl context", clusters.context),
        ("namespace", clusters.namespace),
        ("kinds", clusters.kinds),
        ("kubectl rights", clusters.rights),
    ]


def _of_kubernetes(_case: Case) -> list[tuple[str, Check]]:
    return [*_of_cluster(), ("image", images.image), ("entry point", images.entry_point)]


def _of_machines(case: Case) -> list[tuple[str, Check]]:
    needed = ["compute.googleapis.com", "storage.googleapis.com"]
    return [*_of_google(case, [], needed), ("quota compute", quotas.machine_gpus)]


def _of_slurm(_case: Case) -> list[tuple[str, Check]]:
    return [("slurm requeue", slurm.requeue)]


def _of_bucket(_case: Case) -> list[tuple[str, Check]]:
    return [("bucket", buckets.bucket)]


_OF_PLATFORM: dict[str, Callable[[Case], list[tuple[str, Check]]]] = {
    "cloud-run": _of_cloud_run,
    "gke-spot": _of_gke,
    "gke-gpu": _of_gke,
    "gke-tpu": _of_gke,
    "kubernetes": _of_kubernetes,
    "gce-spot": _of_machines,
    "slurm": _of_slurm,
}
