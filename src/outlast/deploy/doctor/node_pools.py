"""Whether the cluster has nodes of the kind that the job wants, or a pool that can make some."""

from collections.abc import Mapping

from outlast.deploy.doctor.cases import Case, Findings
from outlast.deploy.doctor.clusters import names_of
from outlast.deploy.doctor.findings import Finding, bad, command, ok, unknown
from outlast.deploy.doctor.programs import Answer, mapping, number_at, parsed, rows, rows_at, text_at, value_at
from outlast.deploy.doctor.troubles import trouble
from outlast.deploy.gke.nodes import Nodes
from outlast.deploy.gke.pools import create_command, pool_name

CHECK = "nodes"


def nodes(case: Case) -> Findings:
    """Nodes with the labels that the job selects; else a pool that makes such nodes when pods wait."""
    asked = case.described.kubernetes
    wanted = Nodes(case.described.hardware, asked.autopilot, asked.queue_name is not None)
    if asked.autopilot:
        return [ok(CHECK, "an Autopilot cluster makes the nodes that pods ask for, as far as quota and capacity go")]
    selector = ",".join(f"{name}={value}" for name, value in wanted.selector.items())
    said = parsed(case.kubectl("get", "nodes", "--selector", selector, "--output", "json"), mapping)
    if isinstance(said, Answer):
        return [trouble(CHECK, said, ask="list on nodes")]
    there = names_of(rows_at(said, "items"))
    if there:
        shown = f"{', '.join(there[:3])}{' and others' if len(there) > 3 else ''}"
        return [ok(CHECK, f"{len(there)} with {selector or 'any label'}: {shown}")]
    return [_pool(case, wanted, selector)]


def _pool(case: Case, wanted: Nodes, selector: str) -> Finding:
    cluster = case.cluster
    if cluster is None:
        why = f"no node has {selector}, and without kubernetes.cluster in the description its pools are not known"
        return unknown(CHECK, why, command("kubectl", "get", "nodes", "--show-labels"))
    pools = parsed(
        case.programs.ask("gcloud", "container", "node-pools", "list", *cluster.words, "--format=json"), rows
    )
    if isinstance(pools, Answer):
        return trouble(CHECK, pools, ask="container.nodePools.list (roles/container.viewer)")
    fitting = [text_at(one, "name") or "?" for one in pools if fits(one, wanted)]
    if fitting:
        return ok(CHECK, f"none now; pool {', '.join(fitting)} makes them when pods wait")
    make = create_command(pool_name(case.described), cluster, wanted, most_nodes=max(1, case.at_a_time))
    return bad(CHECK, f"no node has {selector}, and no pool makes such nodes", command(*make))


def fits(pool: Mapping[str, object], wanted: Nodes) -> bool:
    """Whether a pool's nodes would have the hardware, and whether it can have nodes at all."""
    config, hardware = value_at(pool, "config"), wanted.hardware
    grows = value_at(pool, "autoscaling", "enabled") is True or number_at(pool, "initialNodeCount") > 0
    gpus = [text_at(one, "acceleratorType") for one in rows_at(config, "accelerators")]
    if hardware.gpu is not None and hardware.gpu not in gpus:
        return False
    if hardware.gpu is None and gpus:
        return False
    if hardware.tpu is not None and text_at(config, "machineType") != wanted.machine_type:
        return False
    same = (value_at(config, "spot") is True, value_at(config, "flexStart") is True)
    return grows and same == (hardware.spot, hardware.flex_start)


def graceful(case: Case) -> Findings:
    """On nodes with accelerators: that GKE ends pods gracefully at maintenance may have to be switched on.

    Seen by one author on 1.35.6: only with a ConfigMap gke-disruption-handling (2026-11-29). So it is never bad here.
    """
    if not Nodes(case.described.hardware).has_accelerator:
        return []
    check = "graceful maintenance"
    said = case.kubectl("get", "configmap", "gke-disruption-handling", "--namespace", "kube-system", "--output", "name")
    if said.failure is None:
        return [ok(check, "the cluster has a ConfigMap gke-disruption-handling")]
    look = command(
        "kubectl", "logs", "--namespace", "kube-system", "--selector", "name=maintenance-handler", "--tail", "50"
    )
    why = "no ConfigMap gke-disruption-handling is seen; pods may be killed at maintenance without their grace"
    return [unknown(check, f"{why}: see what the handler says of GracefulTermination", look)]
