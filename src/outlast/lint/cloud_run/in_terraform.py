"""Cloud Run in Terraform: google_cloud_run_v2_job, and gcloud in local-exec provisioners."""

from collections.abc import Iterator

from outlast.lint.cloud_run.commands import Around, check_text
from outlast.lint.cloud_run.forms import check_resource
from outlast.lint.cloud_run.jobs import check_job
from outlast.lint.cloud_run.terraform import RESOURCE, job_of
from outlast.lint.inner_text import moved
from outlast.lint.reading.hcl import read_terraform
from outlast.lint.rule import Finding
from outlast.lint.shells_inside import shells_in_terraform
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
    for inner in shells_in_terraform(file, lines):
        if "gcloud" in inner.shell.text:
            yield from moved(check_text(inner.shell.text, Around(source.known)), inner.outer)
