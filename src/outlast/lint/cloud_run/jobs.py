"""All checks on one job, and on the jobs of a YAML text."""

from collections.abc import Iterator, Sequence

from outlast.lint.cloud_run import entry_points, keeping, running
from outlast.lint.cloud_run.forms import check_manifest, check_resource
from outlast.lint.cloud_run.job import CloudRunJob
from outlast.lint.cloud_run.manifest import is_job, is_resource, of_manifest, of_resource
from outlast.lint.known import Known
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import Finding


def check_job(job: CloudRunJob, known: Known, lines: Sequence[str] | None = None) -> Iterator[Finding]:
    """What every form of a job is looked at for."""
    yield from running.check(job, known)
    yield from keeping.check(job, known)
    yield from entry_points.check(job, lines)


def check_documents(documents: Sequence[Node], known: Known, lines: Sequence[str] | None) -> Iterator[Finding]:
    """The jobs among documents, those in a `kind: List` too."""
    for document in documents:
        for one in (document, *document["items"]):
            if is_job(one):
                job = of_manifest(one)
                yield from check_manifest(one)
                yield from check_job(job, known, lines)
            elif is_resource(one):
                job = of_resource(one)
                maps = [
                    one["annotations"],
                    one["labels"],
                    one.at("template", "annotations"),
                    one.at("template", "labels"),
                ]
                yield from check_resource(job, iter(maps))
                yield from check_job(job, known, lines)
