"""A GKE cluster as kubectl sees it: reached, the right one, with the kinds that the job needs, and allowed."""

from collections.abc import Sequence

from outlast.deploy.description_file import Described
from outlast.deploy.doctor.cases import Case, Findings, settings_of_gcloud
from outlast.deploy.doctor.findings import Finding, bad, command, listed, ok, unknown
from outlast.deploy.doctor.programs import Answer, mapping, parsed, text_at
from outlast.deploy.doctor.troubles import is_no_login, is_not_allowed, is_not_there, missing_program, trouble
from outlast.deploy.gke.target import GkeTarget
from outlast.errors import OutlastError

_JOBSET, _KUEUE = "jobset.x-k8s.io", "kueue.x-k8s.io"
_INSTALLS = {
    _JOBSET: "https://github.com/kubernetes-sigs/jobset/releases/latest/download/manifests.yaml",
    _KUEUE: "https://github.com/kubernetes-sigs/kueue/releases/latest/download/manifests.yaml",
}
_ALSO = (("get", "pods"), ("get", "pods/log"), ("create", "serviceaccounts"))
_STARTS = {"Job": "jobs.batch", "Batch": "jobs.batch", "JobSet": f"jobsets.{_JOBSET}", "Deployment": "deployments.apps"}


def credentials(case: Case) -> str:
    """The command that makes kubectl know the cluster."""
    cluster = case.cluster
    if cluster is None:
        return "gcloud container clusters get-credentials CLUSTER --location LOCATION --project PROJECT_ID"
    return command("gcloud", "container", "clusters", "get-credentials", cluster.name, *cluster.place)


def context(case: Case) -> Findings:
    """kubectl is here, knows the cluster, and reaches it."""
    check, cluster = "kubectl context", case.cluster
    if not case.programs.found("kubectl"):
        return [missing_program(check, "kubectl", "manifests are applied with it")]
    if cluster is not None:
        said = case.programs.ask("kubectl", "config", "get-contexts", "--output", "name")
        if said.failure is not None:
            return [trouble(check, said)]
        if cluster.context not in said.out.split():
            return [bad(check, f"kubectl does not know {cluster.context}, the cluster of this job", credentials(case))]
        return [_reached(check, case, cluster.context)]
    said = case.programs.ask("kubectl", "config", "current-context")
    if said.failure == "failed":
        return [bad(check, f"kubectl knows no cluster: {said.last_line}", credentials(case))]
    return [trouble(check, said) if said.failure is not None else _reached(check, case, said.out.strip())]


def _reached(check: str, case: Case, name: str) -> Finding:
    version = parsed(case.kubectl("get", "--raw", "/version"), mapping)
    if isinstance(version, Answer):
        if is_no_login(version):
            return bad(check, f"{name} does not know you: {version.last_line}", credentials(case))
        if is_not_allowed(version):
            return ok(check, f"{name} answers")
        return trouble(check, version)
    return ok(check, f"{name} answers, Kubernetes {text_at(version, 'gitVersion') or 'of an unknown version'}")


def namespace(case: Case) -> Findings:
    """The namespace is there, or will be made."""
    check, name = "namespace", case.described.kubernetes.namespace
    said = case.kubectl("get", "namespace", name, "--output", "name")
    if said.failure is None:
        return [ok(check, f"{name} is there")]
    if is_not_there(said):
        make = command("kubectl", "create", "namespace", name)
        return [unknown(check, f"there is no namespace {name} yet; `outlast deploy gke` makes it", make)]
    return [trouble(check, said, ask="get on namespaces")]


def kinds(case: Case) -> Findings:
    """The cluster has the kinds beyond those of every cluster: JobSet, Kueue."""
    groups = [_JOBSET] if _kind_of(case) == "JobSet" else []
    groups += [_KUEUE] if case.described.kubernetes.queue_name is not None else []
    found = [_kind(case, group) for group in groups]
    if case.described.kubernetes.queue_name is not None and found[-1].state == "ok":
        found.append(_queue(case, case.described.kubernetes.queue_name))
    return found


def _kind_of(case: Case) -> str:
    """What starts the pods."""
    try:
        return GkeTarget(Described(case.with_project, case.folder, None)).kind
    except OutlastError:
        return "Job"  # the description is refused, which is told elsewhere


def _kind(case: Case, group: str) -> Finding:
    check = f"kinds of {group}"
    said = case.programs.ask("kubectl", "api-resources", "--api-group", group, "--output", "name", "--cached=false")
    if said.failure is not None:
        return trouble(check, said)
    names = said.out.split()
    if names:
        return ok(check, f"{', '.join(sorted(names)[:4])}{' and others' if len(names) > 4 else ''}")
    install = command("kubectl", "apply", "--server-side", "--filename", _INSTALLS[group])
    return bad(check, f"the cluster has no {group}", install)


def _queue(case: Case, name: str) -> Finding:
    check, namespaced = "queue of kueue", case.described.kubernetes.namespace
    said = case.kubectl("get", f"localqueues.{_KUEUE}", name, "--namespace", namespaced, "--output", "name")
    if said.failure is None:
        return ok(check, f"LocalQueue {name} is in {namespaced}")
    if is_not_there(said):
        there = command("kubectl", "get", f"localqueues.{_KUEUE}", "--all-namespaces")
        return bad(check, f"there is no LocalQueue {name} in {namespaced}; see which there are", there)
    return trouble(check, said, ask=f"get on localqueues.{_KUEUE}")


def rights(case: Case) -> Findings:
    """What `deploy gke` does with kubectl is allowed, as the API server itself says."""
    check, asked = "kubectl rights", case.described.kubernetes
    started = _STARTS[_kind_of(case)]
    wanted = [("create", started), ("delete", started), *_ALSO]
    denied: list[str] = []
    for verb, what in wanted:
        resource, _, part = what.partition("/")
        sub = (f"--subresource={part}",) if part else ()
        said = case.kubectl("auth", "can-i", verb, resource, *sub, "--namespace", asked.namespace)
        answer = said.out.strip().splitlines()[-1:] if said.failure in (None, "failed") else []
        if answer == ["no"]:
            denied.append(f"{verb} {what}")
        elif answer != ["yes"]:
            return [trouble(check, said)]
    if not denied:
        return [ok(check, f"you may {listed([f'{verb} {what}' for verb, what in wanted])} in {asked.namespace}")]
    return [bad(check, f"you may not {listed(denied)} in {asked.namespace}", _grant(case, asked.namespace))]


def _grant(case: Case, namespaced: str) -> str:
    """For somebody who may give rights: the role that covers all of them."""
    who = settings_of_gcloud(case.programs).account or "USER"
    return command(
        "kubectl", "create", "rolebinding", "outlast-deployer", "--clusterrole=edit", f"--user={who}",
        "--namespace", namespaced,
    )  # fmt: skip


def names_of(rows: Sequence[object]) -> list[str]:
    """metadata.name of objects."""
    return [name for one in rows if (name := text_at(one, "metadata", "name")) is not None]
