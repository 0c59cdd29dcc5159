"""`outlast deploy cloud-run`: a job on Cloud Run, from its APIs to its execution."""

from pathlib import Path
from typing import Any

import click

from outlast.cli.deploy import (
    check_actions,
    deploy_options,
    described_by,
    described_for_patch,
    leave_unwritten,
    read_manifest,
    run_plan,
    run_teardown,
    write_patched,
)
from outlast.deploy.asking import files_folder
from outlast.deploy.cloud_run.patch import patched
from outlast.deploy.cloud_run.steps import TARGET, plan_for


@click.command()
@deploy_options
@click.option("--no-execute", is_flag=True, help="Deploy the job, but do not start it.")
def cloud_run(file: Path | None, patch: Path | None, settings: tuple[str, ...], **options: Any) -> None:
    """Deploy the job that FILE describes (default: outlast.yaml, or [tool.outlast] of pyproject.toml) to Cloud Run.

    Prints a script that makes the bucket, the service accounts with just the roles they need, the image, and the job
    with its timeout, retries and volume, and starts it. --out writes it, --apply runs it through gcloud, --teardown
    removes what --apply made. --patch EXISTING changes a manifest that you have by what survival needs.
    Exit codes: 0 done; 1 a command failed, or something is left to do by hand; 78 a setting that cannot work.

    Example: outlast deploy cloud-run --region europe-west4 --price 0.67
    """
    options["patch"] = patch
    check_actions(options)
    if patch is not None:
        _patch(patch, file, settings, options)
        return
    described = described_by(file, settings, options)
    if options["teardown"]:
        run_teardown(TARGET, described, options)
        return
    files = files_folder(described.folder, TARGET, described.description.name, options["out"])
    run_plan(plan_for(described, files, execute=not options["no_execute"]), described, options)


def _patch(existing: Path, file: Path | None, settings: tuple[str, ...], options: dict[str, Any]) -> None:
    if options["apply"]:
        raise click.UsageError("--patch writes a manifest; deploy it with `gcloud run jobs replace`")
    described = described_for_patch(file, settings, options)
    old = read_manifest(existing)
    found = patched(old, str(existing), None if described is None else described.description)
    for reason in found.reasons:
        click.echo(f"outlast: {reason}", err=True)
    write_patched(old, found.text, existing, options)
    leave_unwritten(found.by_hand, found.text, existing)
