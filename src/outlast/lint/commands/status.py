"""Whether a program's exit code comes out of the script that runs it, or is lost on the way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from outlast.lint.command_line import CommandLine
from outlast.lint.commands.hearing import is_condition, traps_of
from outlast.lint.commands.roles import CHORE, role_of, told
from outlast.lint.commands.running import Run, Step, is_written_exec
from outlast.lint.reading.statements import Form, Script, Statement
from outlast.lint.rule import At


class Fate(StrEnum):
    """What becomes of an exit code on one level."""

    KEPT = "it ends the script, or is its result"
    LOST = "something else is the result"
    OPEN = "it goes one level up"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Lost:
    """Where an exit code is lost, and how, for a message. `sure` False: another program's code may stand for it."""

    place: At
    why: str
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """The shell's options as its command line has them: `bash -eo pipefail -c`, SHELL of a Dockerfile, `#!`."""

    errexit: bool = False
    pipefail: bool = False

    @classmethod
    def of(cls, words: Sequence[str]) -> "Options":
        """From words such as `-euo pipefail`."""
        errexit = pipefail = False
        for place, word in enumerate(words):
            if word.startswith("-") and not word.startswith("--"):
                errexit |= "e" in word[1:]
                wanted = words[place + 1] if word.endswith("o") and place + 1 < len(words) else ""
                pipefail |= wanted == "pipefail"
                errexit |= wanted == "errexit"
        return cls(errexit, pipefail)

    def joined(self, other: "Options") -> "Options":
        """Both."""
        return Options(self.errexit or other.errexit, self.pipefail or other.pipefail)


def find_lost(run: Run, script: Script, text: str, options: Options) -> Lost | None:
    """Where the exit code of a run is lost; None where it comes out, and where that cannot be told."""
    if is_written_exec(run) and not run.background:
        return None
    if any(step.around is not None and step.around.form is Form.LOOP and not step.around.name for step in run.path):
        return None  # tried again until it works
    if any(trap for trap in traps_of(script) if "ERR" in trap.signals):
        return None
    zero = next((trap for trap in traps_of(script) if "EXIT" in trap.signals and trap.zero), None)
    if zero is not None:
        return Lost(zero.place, "its EXIT trap says `exit 0`")
    options = options.joined(_options_set_before(run, script))
    quiet = False  # below `&&` and `||` the shell's -e looks away
    for step in reversed(run.path):
        lost, fate = _on_level(step, options, text, quiet)
        if fate is not Fate.OPEN:
            return lost
        quiet |= step.around is not None and step.around.form is Form.AND and bool(step.after)
    return None


def _on_level(step: Step, options: Options, text: str, quiet: bool) -> tuple[Lost | None, Fate]:
    """What one level does with the code; `quiet`: the shell's -e looks away there."""
    one, around = step.statement, step.around.form if step.around is not None else None
    if one.negated or (around is Form.IF and is_condition(step)):
        return None, Fate.UNKNOWN
    if one.background or around is Form.LOOP:
        return _waited(step) if one.background else _in_turns(step, options, quiet=quiet)
    if not step.after or around in (Form.IF, Form.CASE, Form.AND):
        return None, Fate.OPEN
    if around is Form.PIPELINE:
        return _piped(step, options, text)
    if around is Form.OR:
        return _after_or(step)
    return (None, Fate.KEPT) if options.errexit and not quiet else _followed(step)


def _in_turns(step: Step, options: Options, *, quiet: bool) -> tuple[Lost | None, Fate]:
    """`for x in ...; do a; done`: the last turn's code is the loop's."""
    if options.errexit and not quiet:
        return None, Fate.KEPT
    loop = step.around
    assert loop is not None
    why = f"the loop over `{loop.name}` goes on, and only its last turn's exit code counts"
    return Lost(At(loop.line, loop.column), why, sure=False), Fate.LOST


def _piped(step: Step, options: Options, text: str) -> tuple[Lost | None, Fate]:
    if options.pipefail or ("PIPESTATUS" in text and re.search(r"\bexit\b\s+[\"$]", text)):
        return None, Fate.OPEN
    last = step.row[-1]
    name = last.command.program if last.command is not None else None
    why = f"a pipeline's exit code is that of its last command, `{name or '...'}`"
    return Lost(At(last.line, last.column), why), Fate.LOST


def _after_or(step: Step) -> tuple[Lost | None, Fate]:
    """`a || b`: b decides, and mostly says on purpose that a may fail."""
    other = step.after[0]
    below = list(other.walk())
    exits = [one.command for one in below if one.command is not None and one.command.program in ("exit", "return")]
    if any([word.text for word in command.arguments] != ["0"] for command in exits):
        return None, Fate.KEPT
    chores = [one.command for one in below if one.command is not None]
    if not chores or any(role_of(command.words) != CHORE or command.program == "false" for command in chores):
        return None, Fate.UNKNOWN
    return Lost(At(other.line, other.column), f"`|| {told(chores[-1].words)}` takes its place"), Fate.LOST


def _followed(step: Step) -> tuple[Lost | None, Fate]:
    """Other statements come after it, and nothing stops the script when it fails."""
    after = [one for one in step.after if one.form is not Form.FUNCTION]
    if not after:
        return None, Fate.OPEN
    below = [one for statement in after for one in statement.walk()]
    commands = [one.command for one in below if one.command is not None]
    ends = [one for one in commands if one.program in ("exit", "return", "kill", "scancel")]
    if ends and any([word.text for word in one.arguments] != ["0"] for one in ends):
        return None, Fate.UNKNOWN  # `exit` with a code of its own: somebody has thought of it
    last = after[-1]
    if last.form in (Form.TEST, Form.AND, Form.OR) or _is_test(last.command):
        return None, Fate.UNKNOWN  # what it says may be about the program
    programs = [one for one in commands if role_of(one.words) != CHORE]
    final = last.command if last.command is not None else (commands[-1] if commands else None)
    name = told(final.words) if final is not None else str(last.form)
    why = f"the script goes on, and its exit code is that of `{name}`"
    return Lost(At(last.line, last.column), why, sure=not programs), Fate.LOST


def _is_test(command: CommandLine | None) -> bool:
    return command is not None and command.program in ("test", "[", "[[", "false")


def _waited(step: Step) -> tuple[Lost | None, Fate]:
    """A program in the background: `wait` alone gives 0, `wait PID` its code."""
    waits = [
        (one, command)
        for statement in step.after
        for one in statement.walk()
        if (command := one.command) is not None and command.program == "wait"
    ]
    if not waits or not _all_for_everybody(waits):
        return None, Fate.UNKNOWN
    one = waits[-1][0]
    return Lost(At(one.line, one.column), "`wait` without a process id gives 0, however its children ended"), Fate.LOST


def _all_for_everybody(waits: Sequence[tuple[Statement, CommandLine]]) -> bool:
    return all(len(command.words) == 1 and command.complete for _one, command in waits)


def _options_set_before(run: Run, script: Script) -> Options:
    """`set -e` and `set -o pipefail` before a run; of one in a function, before that is called."""
    found = Options.of([])
    end = max((step.statement.line, step.statement.column) for step in run.path)
    for statement, command in script.commands():
        if (statement.line, statement.column) >= end or command.program != "set":
            continue
        found = found.joined(Options.of([word.start for word in command.arguments]))
    return found
