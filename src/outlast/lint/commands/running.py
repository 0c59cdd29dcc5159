"""What a script runs: each simple command with all that stands around it, functions followed into their bodies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from outlast.lint.command_line import CommandLine
from outlast.lint.commands.roles import CHORE, role_of
from outlast.lint.reading.statements import Form, Script, Statement

_DEEPEST_CALLS = 4
_MOST_STATEMENTS = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """One level around a command: a row of statements, and which of them it is in. `around`: whose row that is."""

    row: tuple[Statement, ...]
    index: int
    around: Statement | None = None

    @property
    def statement(self) -> Statement:
        """The statement of the row that the command is in."""
        return self.row[self.index]

    @property
    def after(self) -> tuple[Statement, ...]:
        """What follows it."""
        return self.row[self.index + 1 :]


@dataclass(frozen=True, slots=True)
class Run:
    """A simple command of a script. `path`: the levels around it, the outermost first."""

    command: CommandLine
    path: tuple[Step, ...]

    @property
    def statement(self) -> Statement:
        """The command's own statement."""
        return self.path[-1].statement

    @property
    def background(self) -> bool:
        """Whether the shell goes on at once."""
        return any(step.statement.background for step in self.path)


def runs_of(script: Script) -> list[Run]:
    """All commands that a script would run, in their order; what a function holds stands where it is called."""
    walk = _Walk({one.name: one for one in script.walk() if one.form is Form.FUNCTION})
    return list(walk.of_row(script.statements, (), None, 0))


@dataclass(slots=True)
class _Walk:
    """Follows calls into functions; `left` bounds how often, as calls of calls grow without bound."""

    functions: dict[str, Statement]
    left: int = _MOST_STATEMENTS

    def of_row(
        self, row: tuple[Statement, ...], path: tuple[Step, ...], around: Statement | None, calls: int
    ) -> Iterator[Run]:
        """The runs of a row of statements."""
        for index, one in enumerate(row):
            self.left -= 1
            if self.left < 0:
                return
            below = (*path, Step(row, index, around))
            if one.form is Form.FUNCTION:
                continue
            if one.command is None:
                if one.form not in (Form.ASSIGNMENT, Form.TEST):  # what `$(...)` runs there is a value, and no work
                    yield from self.of_row(one.parts, below, one, calls)
                continue
            body = self.functions.get(one.command.program or "")
            if body is not None and calls < _DEEPEST_CALLS:
                yield from self.of_row(body.parts, below, body, calls + 1)
            else:
                yield Run(one.command, below)


def main_of(runs: Sequence[Run]) -> Run | None:
    """The run that the script is for: the last of those that look most like it; None where all are chores."""
    best = max((role_of(run.command.words) for run in runs), default=CHORE)
    if best == CHORE:
        return None
    found = [run for run in runs if role_of(run.command.words) == best]
    last = found[-1]
    # `exec a` in the last place of a row of programs is what the rest prepared.
    final = runs[-1]
    if is_written_exec(final) and role_of(final.command.words) != CHORE:
        return final
    return last


def is_written_exec(run: Run) -> bool:
    """Whether it says `exec` with a program behind."""
    command = run.command
    program = command.program
    more = len(command.words) > 1 or not command.complete
    return (program == "exec" and more) or (program == "builtin" and bool(command.words[1:]) and more)


def without_exec(command: CommandLine) -> CommandLine:
    """The program behind `exec`, its options left out."""
    words = command.words[1:]
    while words and words[0].start.startswith("-"):
        words = words[2:] if words[0].text == "-a" else words[1:]
    return replace(command, words=words)
