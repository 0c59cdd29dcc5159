"""Looks for AWS Batch and ECS in each kind of file; each kind is its own entry of the catalogue."""

from collections.abc import Iterator

from outlast.lint.clouds import batch_jobs, ecs
from outlast.lint.reading.hcl import read_terraform
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.yaml_nodes import read_yaml
from outlast.lint.rule import Finding
from outlast.lint.source import Kind, Source

_WORDS = ("Batch", "ECS_CLUSTER", "jobDefinitionName", "aws_batch", "aws batch")


def check(source: Source) -> Iterator[Finding]:
    """The findings of one file, of whatever kind; most have nothing of AWS and are not parsed for it."""
    if not any(word in source.text for word in _WORDS):
        return
    if source.kind is Kind.YAML:
        documents = source.read(read_yaml)
        yield from batch_jobs.of_documents(documents)
        yield from ecs.of_documents(documents)
    elif source.kind is Kind.HCL:
        terraform = source.read(read_terraform)
        yield from batch_jobs.of_terraform(terraform)
        yield from ecs.of_terraform(terraform)
    elif source.kind is Kind.SHELL:
        script = source.read(read_shell)
        for _statement, command in script.commands():
            yield from batch_jobs.of_command(command)
        yield from ecs.of_script(script, source.text)
