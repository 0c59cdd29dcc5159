"""Cloud Run in Terraform: google_cloud_run_v2_job, and gcloud in local-exec provisioners."""

from collections.abc import Iterator

from outlast.lint.cloud_run.commands import Around, check_text, moved
from outlast.lint.cloud_run.forms import check_resource
from outlast.lint.cloud_run.jobs import check_job
from outlast.lint.cloud_run.terraform import RESOURCE, job_of, several
from outlast.lint.cloud_run.texts import inner_text
from outlast.lint.known import Known
from outlast.lint.reading.hcl import Block, read_terraform
from outlast.lint.rule import Finding
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one file."""
    lines = source.text.split("\n")
    file = source.read(read_terraform)
    for block in file.resources(RESOURCE):
        job = job_of(block)
        maps = [block.body.at(*path) for path in (("annotations",), ("labels",), ("template", "annotations"))]
        yield from check_resource(job, iter(maps))
        yield from check_job(job, source.known, lines)
    for block in file.blocks:
        yield from _provisioners(block, lines, source.known)


def _provisioners(block: Block, lines: list[str], known: Known) -> Iterator[Finding]:
    for one in several(block.body["provisioner"]):
        command = one["command"]
        if command.kind == "scalar" and "gcloud" in command.text:
            inner = inner_text(command, lines)
            yield from moved(check_text(inner.shell.text, Around(known)), inner.outer)
