"""From a container's command to its main program: is it told of SIGTERM, and does its exit code come back?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from outlast.lint.command_line import Word
from outlast.lint.commands.hearing import Reached, reached, traps_of
from outlast.lint.commands.launchers import Hop, Passing, find_hop
from outlast.lint.commands.roles import told
from outlast.lint.commands.running import Run, is_written_exec, main_of, runs_of, without_exec
from outlast.lint.commands.shells import Shell, is_shell, shell_named
from outlast.lint.commands.status import Lost, Options, find_lost
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.statements import Form, Script
from outlast.lint.rule import At, Place
from outlast.lint.source import Unreadable

_MOST_HOPS = 12
_SH = (Shell.DASH, Shell.BASH, Shell.BUSYBOX)  # what an unknown `sh` may be
_SHELL_VALUED = {"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}


class Hears(StrEnum):
    """Whether the main program gets a SIGTERM that is sent to the container's first process."""

    YES = "yes"
    NO = "no"
    SOME = "with some shells or versions"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Entry:
    """What becomes of a command.

    `place`: what stands in the way, or the command. `why`: for a message, where it does not hear (surely or with some
    shells). `main`: the program at the end, as words; empty where it is not known. `first`: it is the container's
    first process itself; None where that is not known. `lost`: where its exit code is lost; `may_be_lost`: where
    another program's code stands for it. `zero_on_term`: a trap
    that ends with `exit 0` at SIGTERM. `in_script`: places in `lost` and `zero_on_term`, and `place`, are in this
    file rather than where the command stands. `unseen`: a script that a shell runs, and that cannot be read here.
    """

    hears: Hears
    place: Place
    why: str = ""
    main: tuple[Word, ...] = ()
    first: bool | None = None
    lost: Lost | None = None
    may_be_lost: Lost | None = None
    zero_on_term: At | None = None
    in_script: str | None = None
    unseen: str = ""

    @property
    def deaf_told(self) -> str:
        """That the main program does not hear, or may not, and why."""
        may = "may" if self.hears is Hears.SOME else "does"
        return f"SIGTERM {may} not reach {self.main_told}: {self.why}"

    @property
    def unseen_told(self) -> str:
        """The same, where it depends on a script that was not seen."""
        return f"SIGTERM reaches the program only if {self.unseen}, which was not seen here, starts it with `exec`"

    @property
    def main_told(self) -> str:
        """The main program for a message."""
        return f"`{told(self.main)}`" if self.main else "the program"


@dataclass(frozen=True, slots=True)
class ShellText:
    """A text that a shell runs, and where its first line stands: what is found in it gets the file's places.

    `line`, `column`: of its first character in the file; `shift`: added to the columns of its further lines.
    """

    text: str
    line: int = 1
    column: int = 1
    shift: int = 0

    def outer(self, place: At) -> At:
        """A place in the text as one in the file."""
        if place.line == 1:
            return At(self.line, self.column + place.column - 1)
        return At(self.line + place.line - 1, place.column + self.shift)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known besides the command. `sh`: the shell that `sh` is there; None: not known.

    `script`: the text of a script by its name in the command, where it can be read. `inner`: makes a word that holds
    a shell's text (behind `-c`) a ShellText with its places; without it, all that is in it stands where the word does.
    """

    sh: Shell | None = None
    script: Callable[[str], str | None] = lambda _name: None
    inner: Callable[[Word], ShellText] | None = None


@dataclass(frozen=True, slots=True)
class _Way:
    """How far the signal has come: `first`: what follows is still the first process. `group`: an init tells all."""

    first: bool | None = True
    group: bool = False
    depth: int = 0


@dataclass(frozen=True, slots=True)
class _Shelled:
    """A text for a shell: `in_file`: it is a script, started with `arguments`; else it stood behind `-c`."""

    text: ShellText
    shells: tuple[Shell, ...]
    options: Options
    in_file: bool
    arguments: tuple[Word, ...] = ()


def follow(words: Sequence[Word], surroundings: Surroundings | None = None) -> Entry:
    """What becomes of a command in exec form: its words are a program and its arguments."""
    return _follow(tuple(words), surroundings or Surroundings(), _Way(), words[0] if words else At(1))


def follow_text(
    text: ShellText,
    *,
    shell: Shell | None,
    options: Sequence[str] = (),
    in_file: bool = False,
    surroundings: Surroundings | None = None,
) -> Entry:
    """What becomes of a text that a shell runs: a shell form, or (`in_file`) a script. `shell` None: not known."""
    around = surroundings or Surroundings()
    shells = _SH if shell is None else (shell,)
    return _in_shell(_Shelled(text, shells, Options.of(options), in_file), around, _Way())


def _follow(words: tuple[Word, ...], around: Surroundings, way: _Way, place: Place) -> Entry:
    if way.depth > _MOST_HOPS or not words:
        return Entry(Hears.UNKNOWN, place)
    way = replace(way, depth=way.depth + 1)
    name = (words[0].text or "").rsplit("/", 1)[-1]
    if is_shell(name):
        return _shell(words, name, around, way)
    hop = find_hop(words)
    if hop is not None:
        return _hop(hop, words, around, way)
    script = around.script(words[0].text) if words[0].text else None
    if script is not None:
        shell = _shell_of_script(script)
        if shell is not None:
            shelled = _Shelled(
                ShellText(script), shell or _sh(around), _shebang_options(script), in_file=True, arguments=words[1:]
            )
            return replace(_in_shell(shelled, around, way), in_script=words[0].text, place=words[0])
    if name.endswith((".sh", ".bash")):
        return Entry(Hears.UNKNOWN, words[0], first=None, unseen=words[0].text or "")
    hears = Hears.YES if name else Hears.UNKNOWN
    return Entry(hears, words[0], main=words, first=way.first)


def _hop(hop: Hop, words: tuple[Word, ...], around: Surroundings, way: _Way) -> Entry:
    if hop.passing is Passing.UNKNOWN:
        return Entry(Hears.UNKNOWN, words[0], main=hop.rest, first=False)
    if hop.passing in (Passing.KEEPS, Passing.MAY_KEEP):
        hears = Hears.NO if hop.passing is Passing.KEEPS else Hears.SOME
        return Entry(Hears.YES if way.group else hears, words[0], why=hop.why, main=hop.rest, first=False)
    first = way.first if hop.passing is Passing.BECOMES else False
    group = way.group or hop.passing is Passing.TELLS_GROUP
    if not hop.rest:
        return Entry(Hears.YES, words[0], first=False)
    found = _follow(hop.rest, around, replace(way, first=first, group=group), words[0])
    if found.hears is Hears.UNKNOWN and found.main == hop.rest and hop.passing is Passing.BECOMES:
        return replace(found, hears=Hears.YES)
    return found


def _sh(around: Surroundings) -> tuple[Shell, ...]:
    return _SH if around.sh is None else (around.sh,)


def _shell(words: tuple[Word, ...], name: str, around: Surroundings, way: _Way) -> Entry:
    """`sh -c TEXT` or `sh FILE`."""
    shell = shell_named(name)
    shells = _sh(around) if shell is None else (shell,)
    given: list[str] = []
    place, is_text = 1, False
    while place < len(words):
        start = words[place].start
        if not start.startswith(("-", "+")) or start in ("-", "--"):
            break
        given.append(start)
        is_text |= not start.startswith("--") and "c" in start[1:] and start.startswith("-")
        place += 1
        if start in _SHELL_VALUED or (start.startswith("-") and not start.startswith("--") and start.endswith("o")):
            given += [words[place].start] if place < len(words) else []
            place += 1
    if place < len(words) and words[place].text == "--":
        place += 1
    operand = words[place] if place < len(words) else None
    if operand is None or operand.text is None:
        return Entry(Hears.UNKNOWN, words[0])
    options = Options.of(given)
    if is_text:
        inner = (
            around.inner(operand) if around.inner is not None else ShellText(operand.text, operand.line, operand.column)
        )
        return _in_shell(_Shelled(inner, shells, options, False, words[place + 2 :]), around, way)
    text = around.script(operand.text)
    if text is None:
        return Entry(Hears.UNKNOWN, operand, first=False, unseen=operand.text)
    found = _in_shell(_Shelled(ShellText(text), shells, options, True, words[place + 1 :]), around, way)
    return replace(found, in_script=operand.text, place=operand)


def _shell_of_script(text: str) -> tuple[Shell, ...] | None:
    """The shells that may run a script that is started by its name; empty for `sh`; None where it is no shell's."""
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        return None
    names = [word.rsplit("/", 1)[-1] for word in first[2:].split() if not word.startswith("-")]
    name = names[1] if names[:1] == ["env"] and len(names) > 1 else (names[0] if names else "")
    if not is_shell(name):
        return None
    shell = shell_named(name)
    return () if shell is None else (shell,)


def _shebang_options(text: str) -> Options:
    return Options.of(text.split("\n", 1)[0].split()[1:])


def _in_shell(shelled: _Shelled, around: Surroundings, way: _Way) -> Entry:
    text = shelled.text
    here = At(text.line, text.column)
    try:
        script = read_shell(text.text)
    except Unreadable:
        return Entry(Hears.UNKNOWN, here)
    main = main_of(runs_of(script))
    if main is None:
        return Entry(Hears.UNKNOWN, here)
    found = _judged(main, script, shelled, around, way)
    lost = find_lost(main, script, text.text, shelled.options)
    zero = next((trap.place for trap in traps_of(script) if trap.on_term and trap.zero), None)
    if lost is not None:
        lost = replace(lost, place=text.outer(lost.place))
    return replace(
        found,
        lost=lost if lost is not None and lost.sure else found.lost,
        may_be_lost=lost if lost is not None and not lost.sure else found.may_be_lost,
        zero_on_term=text.outer(zero) if zero is not None else found.zero_on_term,
    )


def _judged(main: Run, script: Script, shelled: _Shelled, around: Surroundings, way: _Way) -> Entry:
    """Whether the main program of a script hears, with each shell that it may be."""
    text, shells = shelled.text, shelled.shells
    ways = {shell: reached(main, script, text.text, shell, in_file=shelled.in_file) for shell in shells}
    command = without_exec(main.command) if is_written_exec(main) else main.command
    words = tuple(_moved(word, text) for word in command.words)
    if not command.complete and not words:
        words = shelled.arguments  # `exec "$@"`: what the script was given
        if not words:
            return _open_end(ways, text, main, way)
    deaf = [shell for shell, how in ways.items() if how is Reached.NOT]
    first = way.first if all(how is Reached.EXEC for how in ways.values()) else False
    below = _follow(words, replace(around, inner=None), replace(way, first=first), words[0] if words else At(1))
    if not deaf or way.group:
        return below
    place = text.outer(At(main.statement.line, main.statement.column))
    hears = Hears.NO if len(deaf) == len(shells) else Hears.SOME
    return replace(
        below, hears=hears, place=place, why=_why_not(main, deaf, shells), main=below.main or words, first=False
    )


def _open_end(ways: dict[Shell, Reached], text: ShellText, main: Run, way: _Way) -> Entry:
    """`exec "$@"` with what it is given unknown: the script passes the signal on, whatever that is."""
    place = text.outer(At(main.statement.line, main.statement.column))
    if all(how is not Reached.NOT for how in ways.values()) or way.group:
        return Entry(Hears.YES, place, first=None)
    deaf = [shell for shell, how in ways.items() if how is Reached.NOT]
    hears = Hears.NO if len(deaf) == len(ways) else Hears.SOME
    return Entry(hears, place, why=_why_not(main, deaf, tuple(ways)), first=False)


def _why_not(main: Run, deaf: Sequence[Shell], shells: Sequence[Shell]) -> str:
    """Why a shell keeps the signal, as the end of a sentence."""
    name = str(deaf[0]) if len(shells) == 1 else "the shell"
    if len(deaf) < len(shells):
        name = f"`sh`, where it is {deaf[0]}," if len(deaf) == 1 else "`sh`, whatever shell that is,"
    if main.background:
        return f"{name} waits for it in the background and no trap passes the signal on"
    if any(step.around is not None and step.around.form is Form.PIPELINE for step in main.path):
        return f"{name} starts it in a pipeline and keeps the signal to itself"
    if any(step.around is not None and step.around.form is Form.LOOP for step in main.path):
        return f"{name} runs it in a loop and keeps the signal to itself"
    if any(step.after for step in main.path if step.around is None):
        return f"{name} stays the first process, as more follows, and passes no signal on"
    return f"{name} stays the first process and passes no signal on"


def _moved(word: Word, text: ShellText) -> Word:
    place = text.outer(At(word.line, word.column))
    return replace(word, line=place.line, column=place.column)
