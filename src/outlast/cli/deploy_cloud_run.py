"""`outlast deploy cloud-run`: a job on Cloud Run, from its APIs to its execution."""

from pathlib import Path
from typing import Any

import click

from outlast.cli.deploy import Target, deploy_options, deploy_to
from outlast.deploy.cloud_run.patch import patch
from outlast.deploy.cloud_run.steps import TARGET, plan_for
from outlast.deploy.description_file import Described
from outlast.deploy.plan import Plan


@click.command()
@deploy_options
@click.option("--no-execute", is_flag=True, help="Deploy the job, but do not start it.")
def cloud_run(file: Path | None, settings: tuple[str, ...], *, no_execute: bool, **options: Any) -> None:
    """Deploy the job that FILE describes (default: outlast.yaml, or [tool.outlast] of pyproject.toml) to Cloud Run.

    Prints a script that makes the bucket, the service accounts with just the roles they need, the image, and the job
    with its timeout, retries and volume, and starts it. --out writes it, --apply runs it through gcloud, --teardown
    removes what --apply made. --patch EXISTING changes a manifest that you have by what survival needs.
    Exit codes: 0 done; 1 a command failed, or something is left to do by hand; 78 a setting that cannot work.

    Example: outlast deploy cloud-run --region europe-west4 --price 0.67
    """

    def plan(described: Described, files: Path) -> Plan:
        return plan_for(described, files, execute=not no_execute)

    deploy_to(Target(TARGET, plan, patch, "gcloud run jobs replace"), file, settings, options)
