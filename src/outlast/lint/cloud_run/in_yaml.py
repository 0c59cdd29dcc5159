"""Cloud Run in YAML files: jobs, and gcloud in the steps of Cloud Build, GitHub Actions and GitLab."""

from collections.abc import Iterator
from dataclasses import replace

from outlast.lint.cloud_run.commands import Around, check_line, check_text
from outlast.lint.cloud_run.gcloud import TRACKS
from outlast.lint.cloud_run.jobs import check_documents
from outlast.lint.cloud_run.manifest import GROUP
from outlast.lint.cloud_run.rules_keeping import RULES as KEEPING
from outlast.lint.cloud_run.rules_running import RULES as RUNNING
from outlast.lint.command_line import CommandLine, Word
from outlast.lint.inner_text import moved
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.yaml_nodes import Node, read_yaml
from outlast.lint.rule import Finding
from outlast.lint.shells_inside import program_of_step, shells_in_pipelines
from outlast.lint.source import Source, Unreadable

RULES = (*RUNNING, *KEEPING)
_ACTION = "google-github-actions/deploy-cloudrun"


def check(source: Source) -> Iterator[Finding]:
    """The findings of one YAML file."""
    text = source.text
    if GROUP in text or ("template" in text and "containers" in text and "maxRetries" in text):
        yield from check_documents(source.read(read_yaml), source.known, text.split("\n"))
    if "gcloud" in text or _ACTION in text:
        documents, around = source.read(read_yaml), Around(source.known, in_pipeline=True)
        for inner in shells_in_pipelines(documents, text.split("\n")):
            if "gcloud" in inner.shell.text:
                yield from moved(check_text(inner.shell.text, around), inner.outer)
        for document in documents:
            yield from _without_shell(document, around)


def _without_shell(document: Node, around: Around) -> Iterator[Finding]:
    """Steps that call gcloud by themselves."""
    for step in document["steps"]:
        yield from _arguments(step, around)
    for job in document["jobs"].fields.values():
        for step in job["steps"]:
            yield from _action(step, around)


def _action(step: Node, around: Around) -> Iterator[Finding]:
    """Google's action for Cloud Run: with `job` it runs `gcloud run jobs deploy`, with the flags that it is given."""
    inputs = step["with"]
    flags = inputs["flags"]
    if not step["uses"].text.startswith(_ACTION) or not inputs["job"] or flags.kind != "scalar":
        return
    try:
        script = read_shell(f"gcloud {flags.text}")
    except Unreadable:
        return
    track = inputs["gcloud_component"].text
    names = [*([track] if track in TRACKS else []), "run", "jobs", "deploy", inputs["job"].text]
    for _, command in script.commands():
        start = [Word(one, flags.line, flags.column, f'"{one}"') for one in ("gcloud", *names)]
        rest = [replace(one, line=flags.line, column=flags.column) for one in command.arguments]
        # Its image, variables and more are other inputs: what is not here may be set there.
        yield from check_line(CommandLine((*start, *rest), complete=False), around)
        return


def _arguments(step: Node, around: Around) -> Iterator[Finding]:
    """A step of Cloud Build whose arguments are gcloud's, which is the entry point or what the image runs."""
    words = step["args"].elements
    if program_of_step(step) == "gcloud" and words:
        place = step["entrypoint"] or words[0]
        line = CommandLine((Word("gcloud", place.line, place.column, "gcloud"), *(_word(one) for one in words)))
        yield from check_line(line, around)


def _word(node: Node) -> Word:
    """A step's argument; Cloud Build's substitutions leave it open."""
    return Word(None if node.is_unknown else node.text, node.line, node.column, f'"{node.text}"', _before(node))


def _before(node: Node) -> str:
    return node.text.split("$", 1)[0] if node.is_unknown else ""
