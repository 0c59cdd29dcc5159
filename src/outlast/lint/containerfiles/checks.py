"""Looks at what a Dockerfile starts: is it told of SIGTERM, does its exit code come back, is it a list at all?"""

from collections.abc import Iterator

from outlast.lint.commands.entry import Entry, Hears
from outlast.lint.commands.roles import TRAINING, is_named_for_training, role_of
from outlast.lint.commands.rules import CODE_LOST, FIRST_WITHOUT_HANDLER, SIGNAL_LOST, ZERO_AT_TERM
from outlast.lint.containerfiles.programs import is_deaf
from outlast.lint.containerfiles.rules import NOT_JSON
from outlast.lint.containerfiles.scripts import Scripts
from outlast.lint.containerfiles.starting import Started, find_start
from outlast.lint.reading.containerfile import Instruction, read_containerfile
from outlast.lint.rule import ERROR, INFO, WARNING, At, Finding, Place
from outlast.lint.source import Source


def check(source: Source) -> Iterator[Finding]:
    """The findings of one Dockerfile."""
    file = source.read(read_containerfile)
    final = file.stages[-1]
    broken = [one for one in final.instructions if one.name in ("CMD", "ENTRYPOINT") and _looks_like_a_list(one)]
    for one in broken:
        yield NOT_JSON.at(one, f"{one.name} {_shortened(one.text)} is no JSON list, so that the shell runs it as text")
    started = None if broken else find_start(file)
    if started is None:
        return
    scripts = Scripts(file, source.path.absolute().parent)
    entry = started.entry(file, scripts)
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


def _judged(entry: Entry, started: Started) -> Iterator[Finding]:
    if entry.hears in (Hears.NO, Hears.SOME):
        where = f" (in {entry.in_script})" if entry.in_script else ""
        severity = WARNING if entry.hears is Hears.NO else INFO
        yield SIGNAL_LOST.at(_place(entry, started), f"{entry.deaf_told}{where}", severity=severity)
    elif entry.unseen and is_named_for_training(entry.unseen):
        yield SIGNAL_LOST.at(_place(entry, started), entry.unseen_told, severity=INFO)
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


def _place(entry: Entry, started: Started) -> Place:
    """Where the instruction begins: what is wrong is the form of the whole."""
    return entry.place if entry.in_script is None and started.text is not None else started.instruction


def _in_file(entry: Entry, place: At, started: Started) -> tuple[Place, str]:
    """A place in the Dockerfile, and where the fault is when that is in a script."""
    if entry.in_script is None:
        return place, ""
    return started.instruction, f" (in {entry.in_script}, line {place.line})"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
