"""Checks on gcloud command lines, wherever they stand (CR013, CR019, CR028 and all rules on the job they describe)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from outlast.lint.cloud_run import rules_keeping as rules
from outlast.lint.cloud_run.forms import check_command
from outlast.lint.cloud_run.gcloud import TRACKS, GcloudCommand, find_command, job_of
from outlast.lint.cloud_run.jobs import check_documents, check_job
from outlast.lint.cloud_run.keeping import fault_of_address
from outlast.lint.cloud_run.manifest import GROUP
from outlast.lint.command_line import CommandLine
from outlast.lint.inner_text import moved_out_of
from outlast.lint.known import Known
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.statements import Heredoc, Script
from outlast.lint.reading.yaml_nodes import read_yaml
from outlast.lint.rule import ERROR, WARNING, Finding
from outlast.lint.source import Unreadable

_MEMBER = re.compile(r"serviceAccount:([^\s,\"']+)")
_RUNS_TEXT = re.compile(
    r"(?:ba|da|z|k)?sh|eval|timeout|retry\S*|xargs|ssh|sudo|env|watch|run_\w+|execute_\w+|.*/retry\S*"
)
_READ_SCRIPTS = ("bash", "sh", "dash", "ssh", "sudo")
_MOST_NESTED = 3


@dataclass(frozen=True, slots=True)
class Around:
    """What is known of where a command stands. `in_pipeline`: a CI file runs it."""

    known: Known
    in_pipeline: bool = False


def check_text(text: str, around: Around, nested: int = 0) -> Iterator[Finding]:
    """The findings of a shell text within another, with places in it; one that cannot be read has none."""
    if nested > _MOST_NESTED or not speaks_of_cloud_run(text):
        return
    try:
        script = read_shell(text)
    except Unreadable:
        return
    yield from check_script(script, around, nested)


def speaks_of_cloud_run(text: str) -> bool:
    """Whether it is worth reading."""
    return "gcloud" in text or GROUP in text


def check_script(script: Script, around: Around, nested: int = 0) -> Iterator[Finding]:
    """The findings of a script."""
    for statement, command in script.commands():
        yield from check_line(command, around)
        yield from _inner_texts(command, around, nested)
        for document in statement.heredocs:
            yield from _document(document, around.known)
            if document.text.startswith("#!") or (command.program or "") in _READ_SCRIPTS:
                yield from moved_out_of(document, check_text(document.text, around, nested + 1))


def _inner_texts(command: CommandLine, around: Around, nested: int) -> Iterator[Finding]:
    """Commands in a word that a shell, eval or a retrying script runs; all of it stands where the word does."""
    program = (command.words[0].text or "").lower()
    if not _RUNS_TEXT.fullmatch(program):
        return
    for word in command.arguments:
        text = word.text if word.text is not None else word.raw.strip("\"'")
        if "gcloud " in text:
            for one in check_text(text, around, nested + 1):
                yield replace(one, line=word.line, column=word.column)


def _document(document: Heredoc, known: Known) -> Iterator[Finding]:
    """A manifest in a here-document, also one that is written to a file."""
    if GROUP not in document.text:
        return
    try:
        documents = read_yaml(document.text)
    except Unreadable:
        return
    yield from moved_out_of(document, check_documents(documents, known, document.text.split("\n")))


def check_line(line: CommandLine, around: Around) -> Iterator[Finding]:
    """The findings of one command line."""
    command = find_command(line)
    if command is None:
        return
    yield from _members(command)
    if command.path[:2] != ("run", "jobs"):
        return
    yield from _unlisted(command, around.known)
    yield from check_command(command)
    yield from _waiting(command, around)
    job = job_of(command)
    if job is not None:
        yield from check_job(job, around.known)


def _members(command: GcloudCommand) -> Iterator[Finding]:
    """`--member=serviceAccount:...` of IAM commands."""
    flag = command.flag("--member")
    found = _MEMBER.match(flag.value.text) if flag is not None and flag.value.is_set else None
    fault = fault_of_address(replace(flag.value, text=found[1])) if flag is not None and found else None
    if fault is not None and flag is not None:
        yield rules.ACCOUNT.at(flag.value, fault, severity=ERROR)


def _unlisted(command: GcloudCommand, known: Known) -> Iterator[Finding]:
    """Flags and commands that the SDK does not have; alpha has hidden ones, which its table does not list."""
    if command.of_jobs is None:
        return
    track = (command.track,) if command.track else ()
    listed = known.sdk((*track, *command.path))
    if listed is None:
        return
    version = f" ({known.sdk_version})" if known.sdk_version else ""
    for flag in command.flags:
        if not flag.name.startswith("--") or flag.name in listed or flag.name == "--":
            continue
        elsewhere = [
            other for other in ("", *TRACKS) if other != command.track and _has(known, other, command, flag.name)
        ]
        more = f"{_told(elsewhere)} it, and a newer SDK may" if elsewhere else "nor has another track"
        told = f"`{command.told}` has no {flag.name} in the SDK installed here{version}; {more}"
        # Flags move from alpha over beta to GA: the script may be for a newer SDK. Alpha has flags that it hides.
        milder = bool(elsewhere) or command.track == "alpha"
        severity = WARNING if milder else ERROR
        yield rules.UNLISTED_FLAG.at(flag.word, told, severity=severity)


def _has(known: Known, track: str, command: GcloudCommand, flag: str) -> bool:
    listed = known.sdk((*((track,) if track else ()), *command.path))
    return listed is not None and flag in listed


def _told(tracks: list[str]) -> str:
    return " and ".join(track or "the GA track" for track in tracks) + (" has" if len(tracks) == 1 else " have")


def _waiting(command: GcloudCommand, around: Around) -> Iterator[Finding]:
    flag = command.flag("--wait")
    if flag is not None and around.in_pipeline and command.of_jobs in ("execute", "deploy", "create", "update"):
        told = "this pipeline waits for the whole job, and ends the wait at its own time limit"
        yield rules.WAITING.at(flag.word, told)
