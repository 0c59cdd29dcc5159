"""Whether SIGTERM gets from a shell to a program that it runs: by `exec`, by the shell's own, or by a trap."""

from dataclasses import dataclass
from enum import StrEnum

from outlast.lint.commands.running import Run, Step, is_written_exec
from outlast.lint.commands.shells import Shell
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.statements import Form, Script, Statement
from outlast.lint.rule import At
from outlast.lint.source import Unreadable

_TERM = {"TERM", "SIGTERM", "15"}
_SENDERS = {"kill", "pkill", "killall", "skill"}
_IGNORED = {"", "-"}
_BUSYBOX_FORMS = {Form.AND, Form.OR, Form.GROUP, Form.SUBSHELL, Form.IF, Form.CASE}


class Reached(StrEnum):
    """How a program comes to be told."""

    EXEC = "it takes the shell's place"
    TRAP = "a trap passes it on"
    NOT = "it is not told"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Trap:
    """A `trap` statement. `text` None: not known. `sends`: its handler has a `kill`. `zero`: it says `exit 0`."""

    signals: frozenset[str]
    text: str | None
    sends: bool
    zero: bool
    place: At

    @property
    def on_term(self) -> bool:
        """Whether it is for SIGTERM."""
        return bool(self.signals & _TERM)


def traps_of(script: Script) -> list[Trap]:
    """The traps that a script sets, functions that they name looked into."""
    functions = {one.name: one for one in script.walk() if one.form is Form.FUNCTION}
    found = []
    for statement, command in script.commands():
        words = [word for word in command.arguments if word.text != "--"]
        if command.program != "trap" or len(words) < 2:
            continue
        signals = frozenset((word.text or "").upper() for word in words[1:])
        text = words[0].text
        body = list(_body_of(text, functions)) if text is not None else []
        sends = text is None or any(_sends(one) for one in body)
        zero = any(_is_exit_zero(one) for one in body)
        found.append(Trap(signals, text, sends, zero, At(statement.line, statement.column)))
    return found


def _body_of(text: str, functions: dict[str, Statement]) -> list[Statement]:
    """The statements that a handler runs, one level of functions below it included."""
    if text in _IGNORED:
        return []
    try:
        found = list(read_shell(text).walk())
    except Unreadable:
        return []
    called = [functions[name] for one in found if one.command and (name := one.command.program or "") in functions]
    inner = [below for one in called for below in one.walk()]
    deeper = [functions[name] for one in inner if one.command and (name := one.command.program or "") in functions]
    return [*found, *inner, *(below for one in deeper for below in one.walk())]


def _sends(statement: Statement) -> bool:
    return statement.command is not None and statement.command.program in _SENDERS


def _is_exit_zero(statement: Statement) -> bool:
    command = statement.command
    return command is not None and command.program == "exit" and [word.text for word in command.arguments] == ["0"]


def reached(run: Run, script: Script, text: str, shell: Shell, *, in_file: bool) -> Reached:
    """How a run of a script hears. `in_file`: the script is a file, and no `-c` text."""
    if any(step.around is not None and step.around.form is Form.PIPELINE for step in run.path):
        return Reached.NOT if not _passed_on(run, script) else Reached.TRAP
    if is_written_exec(run) and not run.background and _may_exec(run, shell, in_file=in_file):
        return Reached.EXEC
    if not in_file and _becomes_last(run, script, text, shell):
        return Reached.EXEC
    return Reached.TRAP if _passed_on(run, script) else Reached.NOT


def _may_exec(run: Run, shell: Shell, *, in_file: bool) -> bool:
    """`( exec a )` replaces the subshell alone, unless the shell has become that itself."""
    subshells = [step.statement for step in run.path if step.statement.form is Form.SUBSHELL]
    ends = not in_file and not any(step.after for step in run.path)
    return not subshells or (shell is Shell.BUSYBOX and ends)


def _passed_on(run: Run, script: Script) -> bool:
    """A trap runs while the shell waits for a child in the background; one in the foreground it outwaits."""
    return run.background and any(trap.on_term and trap.sends for trap in traps_of(script))


def _becomes_last(run: Run, script: Script, text: str, shell: Shell) -> bool:
    """Whether the shell itself becomes the last command of a `-c` text, as measured (shells.py)."""
    if run.background or shell in (Shell.DASH, Shell.OTHER) or not _is_at_the_end(run):
        return False
    if any(trap.text not in _IGNORED for trap in traps_of(script)):
        return False
    own = run.statement
    if any(step.statement.negated for step in run.path) or own.heredocs or own.herestring is not None:
        return False
    forms = {step.around.form for step in run.path if step.around is not None}
    lines_after = text.count("\n") + 1 - run.path[0].statement.end_line
    if shell is Shell.BUSYBOX:
        return lines_after == 0 and forms <= _BUSYBOX_FORMS
    if any(step.statement.redirects for step in run.path) or any(one.background for one in script.walk()):
        return False
    return lines_after <= (1 if text.endswith("\n") else 0) and forms <= {Form.AND, Form.OR}


def _is_at_the_end(run: Run) -> bool:
    """Whether nothing is left to do after it. Of an IF or a CASE each branch is an end."""
    for step in run.path:
        around = step.around.form if step.around is not None else None
        if around is Form.IF:
            if is_condition(step):
                return False
        elif around is not Form.CASE and step.after:
            return False
    return True


def is_condition(step: Step) -> bool:
    """Whether a step of an IF is one of its conditions: every other part, but for the `else` at the end."""
    return step.index % 2 == 0 and not (step.index == len(step.row) - 1 and len(step.row) % 2)
