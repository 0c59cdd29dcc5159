"""What the image of a Dockerfile starts: the last stage's ENTRYPOINT and CMD, put together as Docker does."""

from dataclasses import dataclass

from outlast.lint.command_line import Word
from outlast.lint.commands.entry import Entry, ShellText, Surroundings, follow
from outlast.lint.commands.shells import is_shell, sh_of_image
from outlast.lint.containerfiles.scripts import Scripts
from outlast.lint.reading.containerfile import Containerfile, Instruction, Stage

_DEFAULT_SHELL = ("/bin/sh", "-c")


@dataclass(frozen=True, slots=True)
class Started:
    """The words of the first process. `text`: where a shell form has its text, for places in it."""

    words: tuple[Word, ...]
    instruction: Instruction
    text: ShellText | None = None

    def entry(self, file: Containerfile, scripts: Scripts) -> Entry:
        """What becomes of them in the image of that file."""
        return follow(
            self.words,
            Surroundings(
                sh=sh_of_image(file.image_of(file.stages[-1])),
                script=scripts.find,
                inner=lambda word: self.text or ShellText(word.text or "", word.line, word.column),
            ),
        )


def find_start(file: Containerfile) -> Started | None:
    """ENTRYPOINT with CMD as its arguments; a shell form ignores them, and an ENTRYPOINT resets its parents' CMD.

    None where the image that it stands on says what is started, or another system's shell runs it.
    """
    entry: tuple[Stage, Instruction] | None = None
    command: tuple[Stage, Instruction] | None = None
    for stage in file.line_of(file.stages[-1]):
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
    return Started((*found.words, *arguments.words), entry[1], arguments.text)


def _of_instruction(file: Containerfile, stage: Stage, one: Instruction) -> Started | None:
    if one.words is not None:
        return Started(one.words, one) if one.words else None
    shell = _shell_of(file, stage, one)
    if not is_shell(shell[0].rsplit("/", 1)[-1]):
        return None  # Windows, or a shell that was not measured
    place = one.text_at
    words = tuple(Word(part, place.line, place.column, part) for part in (*shell, one.text))
    return Started(words, one, ShellText(one.raw, place.line, place.column))


def _shell_of(file: Containerfile, stage: Stage, instruction: Instruction) -> tuple[str, ...]:
    """The words of the last SHELL before an instruction, in its stage or those below."""
    for one in file.line_of(stage):
        for found in reversed(one.instructions):
            if found.name == "SHELL" and found.line < instruction.line and found.words:
                return tuple(word.text or "" for word in found.words)
    return _DEFAULT_SHELL
