"""What a job's containers start: who hears SIGTERM, and what exit code comes back (CR021, K034, K008)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from outlast.lint.cloud_run.evidence import trains
from outlast.lint.cloud_run.job import CloudRunJob, Container
from outlast.lint.cloud_run.rules_keeping import ONE_WORD
from outlast.lint.command_line import Word
from outlast.lint.commands.entry import Entry, Hears, ShellText, Surroundings, follow
from outlast.lint.commands.roles import MINOR, TRAINING, role_of
from outlast.lint.commands.rules import CODE_LOST, SIGNAL_LOST, ZERO_AT_TERM
from outlast.lint.commands.shells import is_shell, sh_of_image
from outlast.lint.inner_text import InnerText, inner_text
from outlast.lint.reading.yaml_nodes import Node
from outlast.lint.rule import ERROR, INFO, WARNING, Finding, Place

_VARIABLE = re.compile(r"\{\{.*\}\}|\$[({A-Za-z]")


@dataclass(frozen=True)
class _Started:
    """A container's command. `lines`: the file's, for places in a text behind `sh -c`; None: all stands at the word."""

    container: Container
    lines: Sequence[str] | None
    used: list[InnerText] = field(default_factory=list)

    def entry(self) -> Entry | None:
        """What becomes of it; None where it starts what its image says."""
        nodes = [*self.container.command, *self.container.arguments]
        if not nodes or nodes[0].kind != "scalar" or nodes[0].is_unknown:
            return None
        first = nodes[0].text.rsplit("/", 1)[-1]
        if not self.container.command.elements and not is_shell(first):
            return None  # arguments for the image's entry point
        image = self.container.image
        sh = sh_of_image(None if image.is_unknown or not image.is_set else image.text)
        return follow([_word(one) for one in nodes], Surroundings(sh=sh, inner=self.inner))

    def inner(self, word: Word) -> ShellText:
        """The text behind `sh -c`."""
        nodes = (*self.container.command, *self.container.arguments)
        found = next(
            (one for one in nodes if (one.line, one.column, one.text) == (word.line, word.column, word.raw)), None
        )
        if found is None or self.lines is None:
            return ShellText(word.text or "", word.line, word.column)
        self.used.append(inner_text(found, self.lines))
        return self.used[-1].shell

    def place(self, at: Place) -> Place:
        """A place of an entry in the file."""
        return self.used[-1].mapped(at) if self.used else at


def _word(node: Node) -> Word:
    """A text for a shell has variables of its own; another word with one is open."""
    found = None if re.search(r"\s", node.text) else _VARIABLE.search(node.text)
    if found is not None:
        return Word(None, node.line, node.column, raw=node.text, prefix=node.text[: found.start()])
    return Word(node.text, node.line, node.column, raw=node.text)


def check(job: CloudRunJob, lines: Sequence[str] | None) -> Iterator[Finding]:
    """The findings of every container's command."""
    for container in job.containers:
        yield from _one_word(container)
        yield from _zero_by_setting(job, container)
        started = _Started(container, lines)
        entry = started.entry()
        if entry is not None:
            yield from _judged(job, started, entry)


def _one_word(container: Container) -> Iterator[Finding]:
    """`command: ["python train.py"]`; a path may have blanks, but then it begins with a slash."""
    for first in container.command.elements[:1]:
        words = first.text.split()
        if len(words) > 1 and first.kind == "scalar" and not first.is_unknown and not first.text.startswith("/"):
            told = f"no program is called `{first.text.strip()}`: it is {len(words)} words in one"
            yield ONE_WORD.at(first, told)


def _zero_by_setting(job: CloudRunJob, container: Container) -> Iterator[Finding]:
    for name, value in container.environment:
        if name.text == "OUTLAST_EXIT_CODE" and value.text == "0":
            told = f"OUTLAST_EXIT_CODE is 0 in {job.called}: an interrupted attempt counts as done"
            yield ZERO_AT_TERM.at(value, told)


def _judged(job: CloudRunJob, started: _Started, entry: Entry) -> Iterator[Finding]:
    role = role_of(entry.main) if entry.main else MINOR
    matters = job.uses_gpu or role == TRAINING or trains(job)
    if entry.hears in (Hears.NO, Hears.SOME) and entry.main and role >= MINOR:
        severity = WARNING if matters and entry.hears is Hears.NO else INFO
        yield SIGNAL_LOST.at(started.place(entry.place), entry.deaf_told, severity=severity)
    elif entry.unseen and matters:
        yield SIGNAL_LOST.at(started.place(entry.place), entry.unseen_told, severity=INFO)
    if entry.lost is not None and role > MINOR:
        told = f"{job.called} succeeds even when {entry.main_told} fails: {entry.lost.why}"
        yield CODE_LOST.at(started.place(entry.lost.place), told, severity=ERROR if matters else WARNING)
    if entry.zero_on_term is not None:
        told = f"the command of {job.called} ends with 0 at SIGTERM: an interrupted attempt counts as done"
        yield ZERO_AT_TERM.at(started.place(entry.zero_on_term), told, severity=WARNING)
