"""Workload Identity and the driver for buckets: what a pod needs to reach its checkpoints without a key."""

from outlast.deploy.cloud_run.settings import account_of
from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, mapping, parsed, rows_at, text_at, value_at
from outlast.deploy.doctor.troubles import is_not_there, trouble

_USER = "roles/iam.workloadIdentityUser"
_ANNOTATION = "iam.gke.io/gcp-service-account"


def cluster_features(case: Case) -> Findings:
    """The cluster has Workload Identity, and the Cloud Storage FUSE driver where the bucket is mounted."""
    check, cluster = "workload identity", case.cluster
    if cluster is None:
        return [unknown(check, "the description names no cluster (kubernetes.cluster, region, project)")]
    said = case.object_of("gcloud", "container", "clusters", "describe", cluster.name, *cluster.place)
    if isinstance(said, Answer):
        return [_no_cluster(case, said)]
    pool, update = (
        text_at(said, "workloadIdentityConfig", "workloadPool"),
        ("gcloud", "container", "clusters", "update"),
    )
    found = []
    if pool is None:
        switch = command(*update, cluster.name, *cluster.place, "--workload-pool", f"{cluster.project}.svc.id.goog")
        found.append(bad(check, "it is off in this cluster, so pods have the node's rights or none", switch))
    else:
        found.append(ok(check, f"the cluster has {pool}"))
    autopilot = value_at(said, "autopilot", "enabled") is True
    driver = value_at(said, "addonsConfig", "gcsFuseCsiDriverConfig", "enabled") is True
    if case.described.access == "mount" and not (driver or autopilot):
        switch = command(*update, cluster.name, *cluster.place, "--update-addons", "GcsFuseCsiDriver=ENABLED")
        why = "the driver is off that mounts buckets; or take `access: native` in the description"
        found.append(bad("bucket driver", why, switch))
    return found


def _no_cluster(case: Case, said: Answer) -> Finding:
    cluster = case.cluster
    if is_not_there(said) and cluster is not None:
        make = command("gcloud", "container", "clusters", "create-auto", cluster.name, *cluster.place)
        return bad("cluster", f"there is no cluster {cluster.name} in {cluster.location}", make)
    return trouble("cluster", said, ask="container.clusters.get (roles/container.viewer)")


def pod_account(case: Case) -> Findings:
    """The pods' Kubernetes account is bound to the Google one, in both directions."""
    check, asked, project = "pod account", case.described.kubernetes, case.project
    if project is None:
        return []
    name = asked.service_account or case.described.name
    google = case.described.service_account or account_of(case.described.name, "job", project)
    said = parsed(
        case.kubectl("get", "serviceaccount", name, "--namespace", asked.namespace, "--output", "json"), mapping
    )
    if isinstance(said, Answer):
        if not is_not_there(said):
            return [trouble(check, said, ask="get on serviceaccounts")]
        return [unknown(check, f"there is no account {name} in {asked.namespace} yet; `outlast deploy gke` makes it")]
    points_to = text_at(said, "metadata", "annotations", _ANNOTATION)
    if points_to != google:
        annotate = command(
            "kubectl", "annotate", "serviceaccount", name, "--namespace", asked.namespace, "--overwrite",
            f"{_ANNOTATION}={google}",
        )  # fmt: skip
        return [bad(check, f"{name} stands for {points_to or 'no Google account'}, not for {google}", annotate)]
    return [_bound(check, case, f"serviceAccount:{project}.svc.id.goog[{asked.namespace}/{name}]", google)]


def _bound(check: str, case: Case, member: str, google: str) -> Finding:
    policy = case.object_of("gcloud", "iam", "service-accounts", "get-iam-policy", google)
    if isinstance(policy, Answer):
        return trouble(check, policy, ask="iam.serviceAccounts.getIamPolicy (roles/iam.serviceAccountAdmin)")
    for one in rows_at(policy, "bindings"):
        members = value_at(one, "members")
        if text_at(one, "role") == _USER and isinstance(members, list) and member in members:
            return ok(check, f"{member} may act as {google}")
    bind = command(
        "gcloud", "iam", "service-accounts", "add-iam-policy-binding", google, "--role", _USER, "--member", member
    )
    return bad(check, f"{google} does not let {member} act as it", bind)


def job_account(case: Case) -> Findings:
    """The Google account that the job runs as is there."""
    check, name = "service account", case.described.service_account
    if name is None:
        return [ok(check, "`outlast deploy` makes one for this job")]
    said = parsed(case.gcloud("iam", "service-accounts", "describe", name), mapping)
    if not isinstance(said, Answer):
        if value_at(said, "disabled") is True:
            return [bad(check, f"{name} is switched off", command("gcloud", "iam", "service-accounts", "enable", name))]
        return [ok(check, f"{name} is there")]
    if is_not_there(said):
        make = command("gcloud", "iam", "service-accounts", "create", name.partition("@")[0], "--project", _home(name))
        return [bad(check, f"there is no account {name}", make)]
    return [trouble(check, said, ask="iam.serviceAccounts.get (roles/iam.serviceAccountViewer)")]


def _home(name: str) -> str:
    """The project that an account of its kind is in."""
    return name.partition("@")[2].removesuffix(".gserviceaccount.com").removesuffix(".iam")
