"""Cloud Run in YAML files: jobs, and gcloud in the steps of Cloud Build, GitHub Actions and GitLab."""

from collections.abc import Iterator
from dataclasses import replace

from outlast.lint.cloud_run.commands import Around, check_line, check_text, moved
from outlast.lint.cloud_run.gcloud import TRACKS
from outlast.lint.cloud_run.jobs import check_documents
from outlast.lint.cloud_run.manifest import GROUP
from outlast.lint.cloud_run.rules_keeping import RULES as KEEPING
from outlast.lint.cloud_run.rules_running import RULES as RUNNING
from outlast.lint.cloud_run.texts import inner_text
from outlast.lint.command_line import CommandLine, Word
from outlast.lint.commands.shells import is_shell
from outlast.lint.known import Known
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.yaml_nodes import Node, read_yaml
from outlast.lint.rule import Finding
from outlast.lint.source import Source, Unreadable

RULES = (*RUNNING, *KEEPING)
_ACTION = "google-github-actions/deploy-cloudrun"
_SCRIPTS = ("script", "before_script", "after_script")  # GitLab's: a text, or a list of them


def check(source: Source) -> Iterator[Finding]:
    """The findings of one YAML file."""
    text = source.text
    if GROUP in text or ("template" in text and "containers" in text and "maxRetries" in text):
        yield from check_documents(source.read(read_yaml), source.known, text.split("\n"))
    if "gcloud" in text or "jobs" in text:
        for document in source.read(read_yaml):
            yield from _steps(document, text.split("\n"), source.known)


def _steps(document: Node, lines: list[str], known: Known) -> Iterator[Finding]:
    for step in document["steps"]:
        yield from _cloud_build(step, lines, known)
        yield from _text(step["run"], lines, known)  # of a composite action
    for step in document.at("runs", "steps"):
        yield from _text(step["run"], lines, known)
    for job in document["jobs"].fields.values():
        for step in job["steps"]:
            yield from _text(step["run"], lines, known)
            yield from _action(step, known)
    for job in document.fields.values():
        for name in _SCRIPTS:
            for one in (job[name], *job[name]):
                yield from _text(one, lines, known)


def _action(step: Node, known: Known) -> Iterator[Finding]:
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
        yield from check_line(CommandLine((*start, *rest), complete=False), Around(known, in_pipeline=True))
        return


def _text(node: Node, lines: list[str], known: Known) -> Iterator[Finding]:
    if node.kind != "scalar" or "gcloud" not in node.text:
        return
    inner = inner_text(node, lines)
    yield from moved(check_text(inner.shell.text, Around(known, in_pipeline=True)), inner.outer)


def _cloud_build(step: Node, lines: list[str], known: Known) -> Iterator[Finding]:
    """A step: a script; arguments for a shell; or for gcloud, which is the entry point or what the image runs."""
    yield from _text(step["script"], lines, known)
    words = step["args"].elements
    program = step["entrypoint"].text or step["name"].text.split(":")[0]
    program = program.rsplit("/", 1)[-1]
    if is_shell(program):
        for one in words:
            yield from _text(one, lines, known)
    elif program == "gcloud" and words:
        place = step["entrypoint"] or words[0]
        line = CommandLine((Word("gcloud", place.line, place.column, "gcloud"), *(_word(one) for one in words)))
        yield from check_line(line, Around(known, in_pipeline=True))


def _word(node: Node) -> Word:
    """A step's argument; Cloud Build's substitutions leave it open."""
    return Word(None if node.is_unknown else node.text, node.line, node.column, f'"{node.text}"', _before(node))


def _before(node: Node) -> str:
    return node.text.split("$", 1)[0] if node.is_unknown else ""
