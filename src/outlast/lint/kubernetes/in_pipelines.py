"""Kubernetes in the steps of Cloud Build, GitHub Actions and GitLab: here-documents and kubectl."""

from collections.abc import Iterator

from outlast.lint.kubernetes.in_scripts import check_inner
from outlast.lint.reading.yaml_nodes import read_yaml
from outlast.lint.rule import Finding
from outlast.lint.shells_inside import shells_in_pipelines
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one pipeline."""
    if "steps" not in source.text and "script" not in source.text:
        return
    for inner in shells_in_pipelines(source.read(read_yaml), source.text.split("\n")):
        yield from check_inner(inner, source.known)
