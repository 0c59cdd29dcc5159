"""`outlast nodes`: the disrupted nodes of a cluster, or the executions on Cloud Run, and what would be lost there."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn

import click

from outlast.cli.nodes_text import cloud_run_lines, cluster_lines
from outlast.clock import parse_duration
from outlast.console import printable
from outlast.deploy.doctor.programs import RealPrograms
from outlast.errors import SettingsError
from outlast.monitor.nodes import ClusterSight, NodeSight, PodSight, survey
from outlast.monitor.nodes_cloud_run import MOST_EXECUTIONS, CloudRunSight, Which, survey_executions
from outlast.monitor.nodes_cluster import OfficialClient
from outlast.monitor.nodes_losses import Losses, no_losses
from outlast.monitor.nodes_stores import StoreLosses, places_given

_TROUBLE = 1
_CLUSTER_PLATFORMS = ("kubernetes", "gke-spot", "gke-gpu", "gke-tpu")
_AT_HELP = "Where a store that the pods call FROM is reached from here, such as gs://bucket=/mnt/bucket; repeatable."


@click.command()
@click.option("--platform", default="kubernetes", show_default=True, metavar="P", help="kubernetes, or cloud-run.")
@click.option("--context", help="The kubeconfig's context (default: the current one).")
@click.option("--namespace", "-n", help="Pods of this namespace (default: all, or the one that may be read).")
@click.option("--job", help="cloud-run: the executions of this job.")
@click.option("--execution", help="cloud-run: this execution alone.")
@click.option("--region", help="cloud-run: as for gcloud.")
@click.option("--project", help="cloud-run: as for gcloud.")
@click.option(
    "--last", type=click.IntRange(1, 50), default=MOST_EXECUTIONS, show_default=True, help="cloud-run: so many."
)
@click.option("--at", "places", multiple=True, metavar="FROM=PLACE", help=_AT_HELP)
@click.option("--no-stores", is_flag=True, help="Ask no store what would be lost.")
@click.option("--soon", default="1h", show_default=True, metavar="D", help="For --check: planned within D counts, too.")
@click.option("--timeout", default="60s", show_default=True, metavar="D", help="cloud-run: how long gcloud may take.")
@click.option("--check", is_flag=True, help="Leave with 1 where something that runs outlast is endangered.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def nodes(*, platform: str, places: tuple[str, ...], no_stores: bool, check: bool, as_json: bool, **which: Any) -> None:
    """Show disrupted and soon-disrupted nodes, who is on them and what would be lost. (Provisional.)

    Looks at the cluster of the kubeconfig, as kubectl does, and changes nothing: nodes that are being taken away, do
    not answer, are drained, or have maintenance planned; the pods on them and their Jobs; for those that run outlast
    what they would lose now, by the store that their manifest names; how long each has; the maintenance handlers and
    their last lines. Then the query for Logs Explorer and kubectl's commands, to look further. It needs
    outlast[kubernetes].

    With --platform cloud-run, through gcloud: executions, their tasks and attempts, why the last attempt ended, and
    the preemptions in the log.

    \b
    Examples:
      outlast nodes --context gke_my-project_europe-west4_train
      outlast nodes --platform cloud-run --job train --region europe-west4

    Exit codes: 0 it could look (with --check: and nothing is endangered), 1 with --check: a pod that runs outlast is on
    a disrupted node, an execution failed or has no retry left, or not all could be seen; 75 the cluster or gcloud
    does not answer, 78 it refuses, or a setting cannot work.
    """
    stores = StoreLosses(places_given(places))
    look = _LOOKS.get(platform)
    if look is None:
        raise SettingsError(f"--platform={platform!r}: there are {', '.join(_LOOKS)}")
    row, lines, in_trouble = look(no_losses if no_stores else stores, which)
    if as_json:
        click.echo(json.dumps(row, indent=2, allow_nan=False))
    else:
        for line in lines:
            click.echo(printable(line))
    leave(_TROUBLE if check and in_trouble else 0, at_once=not stores.close())


def leave(code: int, *, at_once: bool) -> NoReturn:
    """Ends the command. `at_once`: a thread hangs in a storage's client, whose end could take the process along."""
    if not at_once:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


Looked = tuple[dict[str, Any], list[str], bool]


def _cluster(losses: Losses, which: dict[str, Any]) -> Looked:
    soon = parse_duration(which["soon"], setting="--soon")
    cluster = OfficialClient(os.environ, context=which["context"])
    sight = survey(cluster, losses=losses, namespace=which["namespace"])
    return cluster_row(sight), list(cluster_lines(sight)), bool(sight.endangered(soon_seconds=soon) or sight.problems)


def _cloud_run(losses: Losses, which: dict[str, Any]) -> Looked:
    longest = parse_duration(which["timeout"], setting="--timeout")
    chosen = Which(which["job"], which["execution"], which["region"], which["project"], which["last"])
    programs = RealPrograms(os.environ, longest_seconds=longest)
    try:
        sight = survey_executions(programs, chosen, losses=losses)
    finally:  # also after Ctrl-C
        programs.end()
    return cloud_run_row(sight), list(cloud_run_lines(sight)), sight.in_trouble


_LOOKS: dict[str, Callable[[Losses, dict[str, Any]], Looked]] = {
    **dict.fromkeys(_CLUSTER_PLATFORMS, _cluster),
    "cloud-run": _cloud_run,
}


# --- as JSON ----------------------------------------------------------------------------------------


def cluster_row(sight: ClusterSight) -> dict[str, Any]:
    """As `outlast nodes --json` prints a cluster."""
    return {
        **asdict(sight),
        "nodes": [_node_row(one) for one in sight.nodes],
        "waiting": [_pod_row(one) for one in sight.waiting],
        "ended": [_pod_row(one) for one in sight.ended],
        "logs_explorer": {"query": sight.logs_query, "address": sight.logs_address},
        "commands": sight.commands,
    }


def _node_row(node: NodeSight) -> dict[str, Any]:
    marks = asdict(node.marks)
    pods = [_pod_row(one) for one in node.pods]
    return {**marks, "disrupted": node.is_disrupted, "seconds_left": node.seconds_left, "pods": pods}


def _pod_row(pod: PodSight) -> dict[str, Any]:
    row = asdict(pod)
    return {**row.pop("marks"), **row}


def cloud_run_row(sight: CloudRunSight) -> dict[str, Any]:
    """As `outlast nodes --platform cloud-run --json` prints it."""
    row = asdict(sight)
    for execution, seen in zip(row["executions"], sight.executions, strict=True):
        execution["in_trouble"] = seen.in_trouble
    return row
