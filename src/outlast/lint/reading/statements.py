"""What a shell script is made of: statements with places, here-documents, redirections."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from outlast.lint.command_line import CommandLine, Word


class Form(StrEnum):
    """What a statement is; `Statement.parts` says what its parts are."""

    COMMAND = "command"
    ASSIGNMENT = "assignment"
    PIPELINE = "pipeline"
    AND = "and"
    OR = "or"
    GROUP = "group"
    SUBSHELL = "subshell"
    IF = "if"
    LOOP = "loop"
    CASE = "case"
    FUNCTION = "function"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A here-document: its text as the command gets it, but for variables, which stay as written (`expands`).

    `line`: the file's line of its first line. `shift`: characters cut off at the left of each line (`<<-`).
    """

    text: str
    line: int
    shift: tuple[int, ...]
    expands: bool


@dataclass(frozen=True, slots=True)
class Redirect:
    """`> file`, `2>&1`, `< file`: the operator with its descriptor, and what stands behind it."""

    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. Lines and columns start at 1.

    `parts`: a pipeline's and a list's commands in order (`a && b || c` is OR of AND and c); the statements of a group,
    a subshell or a function; of IF: condition, body, condition, body, ..., and the `else` body alone at the end, each
    a group; of a LOOP: the condition (a group, empty for `for`) and the body; of a CASE: a group for each item; of a
    COMMAND, ASSIGNMENT or TEST: what `$(...)`, backquotes and `<(...)` in its words run, each a subshell.
    `command`: of a COMMAND. `assignments`: `A=1` before a command or alone, `export A=1`, with open words for arrays.
    `name`: of a function, or of a loop's variable. `background`: it ends with `&`.
    """

    form: Form
    line: int
    column: int
    end_line: int
    parts: tuple["Statement", ...] = ()
    command: CommandLine | None = None
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()
    herestring: Word | None = None
    name: str = ""
    background: bool = False
    negated: bool = False

    def walk(self) -> Iterator["Statement"]:
        """This statement and all in it, in their order."""
        yield self
        for one in self.parts:
            yield from one.walk()


@dataclass(frozen=True, slots=True)
class Script:
    """A whole text. `shell`: the program of its `#!` line without folder, such as "bash"; None without one."""

    statements: tuple[Statement, ...]
    shell: str | None = None

    def walk(self) -> Iterator[Statement]:
        """All statements, also those in functions, branches and `$(...)`."""
        for one in self.statements:
            yield from one.walk()

    def commands(self) -> Iterator[tuple[Statement, CommandLine]]:
        """All simple commands, in their order."""
        for one in self.walk():
            if one.command is not None:
                yield one, one.command
