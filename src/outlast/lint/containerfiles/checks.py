"""Looks at what a Dockerfile starts: the last stage's ENTRYPOINT and CMD, put together as Docker does."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.lint.command_line import Word
from outlast.lint.commands.entry import Entry, Hears, ShellText, Surroundings, follow
from outlast.lint.commands.roles import TRAINING, role_of
from outlast.lint.commands.rules import CODE_LOST, FIRST_WITHOUT_HANDLER, SIGNAL_LOST, ZERO_AT_TERM
from outlast.lint.commands.shells import is_shell, sh_of_image
from outlast.lint.containerfiles.programs import is_deaf
from outlast.lint.containerfiles.rules import NOT_JSON
from outlast.lint.containerfiles.scripts import Scripts
from outlast.lint.reading.containerfile import Containerfile, Instruction, Stage, read_containerfile
from outlast.lint.rule import ERROR, INFO, WARNING, At, Finding, Place
from outlast.lint.source import Source

_DEFAULT_SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True, slots=True)
class _Started:
    """What the image starts. `text`: where a shell form has its text, for places in it."""

    words: tuple[Word, ...]
    instruction: Instruction
    text: ShellText | None = None


def check(source: Source) -> Iterator[Finding]:
    """The findings of one Dockerfile."""
    file = source.read(read_containerfile)
    final = file.stages[-1]
    broken = [one for one in final.instructions if one.name in ("CMD", "ENTRYPOINT") and _looks_like_a_list(one)]
    for one in broken:
        yield NOT_JSON.at(one, f"{one.name} {_shortened(one.text)} is no JSON list, so that the shell runs it as text")
    started = None if broken else _started(file, final)
    if started is None:
        return
    scripts = Scripts(file, source.path.absolute().parent)
    entry = follow(
        started.words,
        Surroundings(
            sh=sh_of_image(file.image_of(final)),
            script=scripts.find,
            inner=lambda word: started.text or ShellText(word.text or "", word.line, word.column),
        ),
    )
    yield from _judged(entry, started)
    if entry.hears is Hears.YES and entry.first and entry.main and is_deaf(entry.main, scripts):
        message = f"{entry.main_told} is the first process and has no handler: the kernel drops its SIGTERM"
        yield FIRST_WITHOUT_HANDLER.at(started.instruction, message)


def _looks_like_a_list(instruction: Instruction) -> bool:
    """`['a', 'b']`, `["a",]`, `[a, b]`; `[ -f x ] && y` is a test of the shell."""
    text = instruction.text
    if instruction.words is not None or not (text.startswith("[") and text.endswith("]")):
        return False
    inner = text[1:-1].strip()
    return not inner.startswith("-") and ("," in inner or inner.startswith(("'", '"')))


def _started(file: Containerfile, final: Stage) -> _Started | None:
    """ENTRYPOINT with CMD as its arguments; a shell form ignores them, and an ENTRYPOINT resets its parents' CMD."""
    entry: tuple[Stage, Instruction] | None = None
    command: tuple[Stage, Instruction] | None = None
    for stage in file.line_of(final):
        own_entry, own_command = stage.last("ENTRYPOINT"), stage.last("CMD")
        if entry is None and command is None and own_command is not None:
            command = (stage, own_command)
        if entry is None and own_entry is not None:
            entry = (stage, own_entry)
    if entry is None and command is None:
        return None
    if entry is None:
        assert command is not None
        return _of_instruction(file, *command)
    found = _of_instruction(file, *entry)
    if found is None or entry[1].words is None or command is None:
        return found
    arguments = _of_instruction(file, *command)
    if arguments is None:
        return None
    return _Started((*found.words, *arguments.words), entry[1], arguments.text)


def _of_instruction(file: Containerfile, stage: Stage, one: Instruction) -> _Started | None:
    if one.words is not None:
        return _Started(one.words, one) if one.words else None
    shell = _shell_of(file, stage, one)
    if not is_shell(shell[0].rsplit("/", 1)[-1]):
        return None  # Windows, or a shell that was not measured
    place = At(one.text_at.line, one.text_at.column)
    words = tuple(Word(part, place.line, place.column, part) for part in (*shell, one.text))
    return _Started(words, one, ShellText(one.raw, place.line, place.column))


def _shell_of(file: Containerfile, stage: Stage, instruction: Instruction) -> tuple[str, ...]:
    """The words of the last SHELL before an instruction, in its stage or those below."""
    for one in file.line_of(stage):
        for found in reversed(one.instructions):
            if found.name == "SHELL" and found.line < instruction.line and found.words:
                return tuple(word.text or "" for word in found.words)
    return _DEFAULT_SHELL


def _judged(entry: Entry, started: _Started) -> Iterator[Finding]:
    if entry.hears in (Hears.NO, Hears.SOME):
        severity, may = (WARNING, "does") if entry.hears is Hears.NO else (INFO, "may")
        where = f" (in {entry.in_script})" if entry.in_script else ""
        message = f"SIGTERM {may} not reach {entry.main_told}: {entry.why}{where}"
        yield SIGNAL_LOST.at(_place(entry, started), message, severity=severity)
    lost = entry.lost or entry.may_be_lost
    if lost is not None:
        place, where = _in_file(entry, lost.place, started)
        is_training = bool(entry.main) and role_of(entry.main) == TRAINING
        severity = ERROR if is_training and lost.sure else WARNING
        message = f"the exit code of {entry.main_told} is lost{where}: {lost.why}"
        yield CODE_LOST.at(place, message, severity=severity)
    if entry.zero_on_term is not None:
        place, where = _in_file(entry, entry.zero_on_term, started)
        yield ZERO_AT_TERM.at(place, f"a trap ends with exit code 0 at SIGTERM{where}", severity=WARNING)


def _place(entry: Entry, started: _Started) -> Place:
    """Where the instruction begins: what is wrong is the form of the whole."""
    return entry.place if entry.in_script is None and started.text is not None else started.instruction


def _in_file(entry: Entry, place: At, started: _Started) -> tuple[Place, str]:
    """A place in the Dockerfile, and where the fault is when that is in a script."""
    if entry.in_script is None:
        return place, ""
    return started.instruction, f" (in {entry.in_script}, line {place.line})"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
