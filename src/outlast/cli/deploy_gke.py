"""`outlast deploy gke`: a job on GKE, from its node pool to its manifest."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from outlast.cli.deploy import Target, deploy_options, deploy_to
from outlast.deploy.description_file import Described
from outlast.deploy.gke.patching import patch
from outlast.deploy.gke.pools import knows_shutdown_budget
from outlast.deploy.gke.target import TARGET, GkeTarget, Options
from outlast.deploy.plan import Plan
from outlast.deploy.tools import InstalledTools
from outlast.errors import SettingsError

_CONTEXT = "Of the kubeconfig. Default: the cluster's own, made by gcloud; the current one where none is described."
_NOTICES = "Let the pods read their node, so that they hear of its maintenance early."
_METRICS = "Have outlast's numbers collected at this port of the pods (Managed Service for Prometheus)."
_MOST_PORT = 65535


@click.command()
@deploy_options
@click.option("--context", metavar="NAME", help=_CONTEXT)
@click.option("--node-notices", is_flag=True, help=_NOTICES)
@click.option("--metrics-port", metavar="N", type=click.IntRange(1, _MOST_PORT), help=_METRICS)
def gke(
    file: Path | None,
    settings: tuple[str, ...],
    *,
    context: str | None,
    node_notices: bool,
    metrics_port: int | None,
    **options: Any,
) -> None:
    """Deploy the job that FILE describes (default: outlast.yaml, or [tool.outlast] of pyproject.toml) to GKE.

    Prints a script that makes the image, the bucket, the accounts and roles, a node pool that is empty until pods wait,
    and a Job (JobSet, Indexed Job of workers, Deployment) that the cluster retries rightly. --out writes it, --apply
    runs it through gcloud and kubectl, --teardown removes what --apply made. --patch EXISTING changes manifests that
    you have (Job, CronJob, JobSet, PyTorchJob) by what survival needs, and by nothing else.
    Exit codes: 0 done; 1 a command failed, or something is left to do by hand; 78 a setting that cannot work.

    Example: outlast deploy gke --set kubernetes.cluster=training --out deployment
    """

    def plan(described: Described, files: Path) -> Plan:
        at = context
        if at is None and options["apply"] and described.description.kubernetes.cluster is None:
            at = current_context(InstalledTools(described.folder))
        asked = Options(context=at, node_notices=node_notices, metrics_port=metrics_port)
        target = GkeTarget(described, asked, files)
        asks = target.cluster if target.makes_pool and target.grace.long_shutdown else None
        if asks is not None and not knows_shutdown_budget(asks, InstalledTools(described.folder)):
            target = replace(target, options=replace(asked, long_shutdown=False))
        return target.plan()

    deploy_to(Target(TARGET, plan, patch, "kubectl apply --filename"), file, settings, options)


def current_context(tools: InstalledTools) -> str:
    """The name is kept in the record: a teardown has to look in this cluster, whichever is the current one by then."""
    answer = tools.ask(("kubectl", "config", "current-context"))
    lines = answer.output.split()
    if answer.code != 0 or not lines:
        why = answer.errors.strip() or "it printed nothing"
        raise SettingsError(f"kubectl has no current context ({why}); give --context, or describe kubernetes.cluster")
    return lines[0]
