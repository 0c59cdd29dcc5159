"""The shell texts inside files that are no scripts: steps of pipelines in YAML, provisioners in Terraform."""

from collections.abc import Iterator, Sequence

from outlast.lint.commands.shells import is_shell
from outlast.lint.inner_text import InnerText, inner_text
from outlast.lint.reading.hcl import Terraform
from outlast.lint.reading.yaml_nodes import Node

_SCRIPTS = ("script", "before_script", "after_script")  # GitLab's: a text, or a list of them


def shells_in_pipelines(documents: Sequence[Node], lines: Sequence[str]) -> Iterator[InnerText]:
    """What the steps of Cloud Build, GitHub Actions and GitLab run."""
    for document in documents:
        for node in _texts_of(document):
            if node.kind == "scalar":
                yield inner_text(node, lines)


def _texts_of(document: Node) -> Iterator[Node]:
    for step in document["steps"]:
        yield from _of_cloud_build(step)
        yield step["run"]  # of a workflow's part
    for step in document.at("runs", "steps"):
        yield step["run"]  # of a composite action
    for job in document["jobs"].fields.values():
        for step in job["steps"]:
            yield step["run"]
    for job in document.fields.values():
        for name in _SCRIPTS:
            yield job[name]
            yield from job[name]


def _of_cloud_build(step: Node) -> Iterator[Node]:
    """A script, or arguments for a shell."""
    yield step["script"]
    if is_shell(program_of_step(step)):
        yield from step["args"].elements


def program_of_step(step: Node) -> str:
    """What a step of Cloud Build starts: its entry point, or what its image is called after."""
    program = step["entrypoint"].text or step["name"].text.split(":")[0]
    return program.rsplit("/", 1)[-1]


def shells_in_terraform(terraform: Terraform, lines: Sequence[str]) -> Iterator[InnerText]:
    """The commands of provisioners, `local-exec` above all."""
    for block in terraform.blocks:
        for one in block.body["provisioner"].several:
            if one["command"].kind == "scalar":
                yield inner_text(one["command"], lines)
