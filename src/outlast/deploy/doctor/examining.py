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
    plans,
    quotas,
    roles,
    saves,
    slurm,
)
from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import Finding, ok, unknown

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


def _roles_for(case: Case, *, planning: plans.Planning) -> Findings:
    """The roles for what the plan makes; reaching and acting as accounts comes with everything."""
    kinds = plans.kinds_of(case, planning)
    return roles.roles(case, [need for kind, need in roles.NEED_OF.items() if kind in kinds] + [roles.ACT_AS])


def _apis_for(case: Case, *, planning: plans.Planning) -> Findings:
    needed = plans.apis_of(case, planning)
    return roles.apis(case, needed) if needed else [unknown("apis", "without a plan nobody knows which are needed")]


def _of_google(planning: plans.Planning) -> list[tuple[str, Check]]:
    """What a deployment to Google Cloud needs."""
    return [
        (plans.CHECK, partial(plans.accepted, planning=planning)),
        ("login", account.login),
        ("project", account.project),
        ("billing", account.billing),
        ("apis", partial(_apis_for, planning=planning)),
        ("roles", partial(_roles_for, planning=planning)),
        ("service account", identities.job_account),
        ("bucket", buckets.bucket),
        ("image", images.image),
        (images.ENTRY_POINT, images.entry_point),
    ]


def _of_cloud_run(_case: Case) -> list[tuple[str, Check]]:
    return [*_of_google(plans.cloud_run), ("quota cloud-run", quotas.run_gpus)]


def _of_gke(_case: Case) -> list[tuple[str, Check]]:
    return [
        *_of_google(plans.gke),
        ("quota compute", quotas.machine_gpus),
        *_of_cluster(),
        (node_pools.CHECK, node_pools.nodes),
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
    return [*_of_cluster(), ("image", images.image), (images.ENTRY_POINT, images.entry_point)]


def _of_machines(_case: Case) -> list[tuple[str, Check]]:
    """Lone machines, which `deploy` does not make."""
    return [
        ("login", account.login),
        ("project", account.project),
        ("billing", account.billing),
        ("service account", identities.job_account),
        ("bucket", buckets.bucket),
        ("quota compute", quotas.machine_gpus),
    ]


def _of_slurm(_case: Case) -> list[tuple[str, Check]]:
    return [("slurm requeue", slurm.requeue)]


def _of_bucket(_case: Case) -> list[tuple[str, Check]]:
    return [("platform", _platform), ("bucket", buckets.bucket)]


def _platform(case: Case) -> Findings:
    """Where a description goes decides what it needs."""
    name = case.described.platform
    if name is None:
        why = "the description names none, so only its store is looked at; with `platform:` the rest is checked too"
        return [unknown("platform", why)]
    return [ok("platform", f"{name}: nothing but the store is looked at for it")]


_OF_PLATFORM: dict[str, Callable[[Case], list[tuple[str, Check]]]] = {
    "cloud-run": _of_cloud_run,
    "gke-spot": _of_gke,
    "gke-gpu": _of_gke,
    "gke-tpu": _of_gke,
    "kubernetes": _of_kubernetes,
    "gce-spot": _of_machines,
    "slurm": _of_slurm,
}
