"""Looks at batch scripts: in files of their own, in here-documents, and behind `sbatch --wrap`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from outlast.lint.command_line import CommandLine, Word
from outlast.lint.commands.entry import ShellText
from outlast.lint.commands.hearing import Trap, traps_of
from outlast.lint.commands.roles import PROGRAM, TRAINING, role_of, told
from outlast.lint.commands.running import Run, is_written_exec, main_of, runs_of
from outlast.lint.commands.status import Options, find_lost
from outlast.lint.reading.shell import read_shell
from outlast.lint.reading.statements import Script
from outlast.lint.rule import ERROR, INFO, WARNING, At, Finding
from outlast.lint.slurm.directives import Directives, WarningSignal, directives_of, options_of
from outlast.lint.slurm.rules import CODE_LOST, KEYED_BY_JOB, NO_REQUEUE, NO_TRAP, NOBODY_HEARS, TRAP_TOO_LATE
from outlast.lint.source import Source, Unreadable

_STARTS_STEPS = {"srun", "mpirun", "mpiexec", "prun"}
_KEEPS = re.compile(
    r"ckpt|checkpoint|save[-_]?(?:dir|path|folder)|output[-_]?(?:dir|path|folder)|model[-_]?dir|run[-_]?dir|exp[-_]?dir"
    r"|resume|snapshot",
    re.IGNORECASE,
)
_JOB_ID = re.compile(r"\$\{?SLURM_(?:ARRAY_)?JOB_?ID\b")


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch script: what it asks for, what it runs, and where it stands in the file."""

    text: ShellText
    asked: Directives
    script: Script
    runs: tuple[Run, ...]
    main: Run | None

    @property
    def trains(self) -> bool:
        """Whether it looks like training: by its program's name, or by a GPU and a program at all."""
        if self.main is None:
            return False
        role = role_of(self.main.command.words)
        return _role(self.main) == TRAINING or (self.asked.wants_gpu and role >= PROGRAM)

    @property
    def starts_again(self) -> bool:
        """Whether it requeues or submits itself."""
        return any(_resubmits(command) for _one, command in self.script.commands())


def _resubmits(command: CommandLine) -> bool:
    first = command.arguments[0].text if command.arguments else None
    return command.program == "sbatch" or (command.program == "scontrol" and first == "requeue")


def check(source: Source) -> Iterator[Finding]:
    """The findings of one shell script."""
    if "sbatch" not in source.text.lower():
        return
    script = source.read(read_shell)
    own = directives_of(source.text)
    if own is not None:
        yield from _of_batch(_batch(ShellText(source.text), own, script))
    for statement, command in script.commands():
        for heredoc in statement.heredocs:
            asked = directives_of(heredoc.text)
            if asked is not None:
                text = ShellText(heredoc.text, heredoc.line, 1 + (heredoc.shift[0] if heredoc.shift else 0))
                yield from _read_and_judged(text, asked)
        if command.program == "sbatch":
            yield from _of_wrap(command)


def _read_and_judged(text: ShellText, asked: Directives) -> Iterator[Finding]:
    try:
        script = read_shell(text.text)
    except Unreadable:
        return
    yield from _of_batch(_batch(text, asked, script))


def _of_wrap(command: CommandLine) -> Iterator[Finding]:
    """`sbatch --wrap "python train.py; echo done"`: the text is a script for sh."""
    words = command.arguments
    for place, word in enumerate(words):
        if word.start.startswith("--wrap="):
            text = word.text[7:] if word.text is not None else None
        elif word.text == "--wrap" and place + 1 < len(words):
            word = words[place + 1]  # noqa: PLW2901  the option's value stands in the next word
            text = word.text
        else:
            continue
        if text is not None:
            asked = options_of([one.start for one in words], At(word.line, word.column))
            yield from _read_and_judged(ShellText(text, word.line, word.column), asked)


def _batch(text: ShellText, asked: Directives, script: Script) -> _Batch:
    runs = runs_of(script)
    # Job ids in paths and `srun` before the program are looked at with their own words.
    return _Batch(text, asked, script, tuple(runs), main_of(runs))


def _of_batch(batch: _Batch) -> Iterator[Finding]:
    traps = traps_of(batch.script)
    if batch.main is not None:
        yield from _code(batch, batch.main, traps)
        yield from _signal(batch, batch.main, traps)
        yield from _late_without_signal(batch, batch.main, traps)
    if batch.trains:
        yield from _requeue(batch)
        yield from _keys(batch)


def _at(batch: _Batch, line: int, column: int) -> At:
    return batch.text.outer(At(line, column))


def _role(run: Run) -> int:
    return role_of(run.command.words)


def _code(batch: _Batch, main: Run, traps: list[Trap]) -> Iterator[Finding]:
    lost = find_lost(main, batch.script, batch.text.text, _options(batch))
    if lost is None:  # one of the same kind before it
        others = [run for run in batch.runs if _role(run) == _role(main) and run is not main]
        found = [
            (run, one) for run in others if (one := find_lost(run, batch.script, batch.text.text, _options(batch)))
        ]
        main, lost = found[0] if found else (main, None)
    name = told(main.command.words)
    if lost is not None:
        severity = ERROR if batch.trains and lost.sure else WARNING
        message = f"the exit code of `{name}` is lost: {lost.why}"
        yield CODE_LOST.at(batch.text.outer(lost.place), message, severity=severity)
    zero = next((trap for trap in traps if trap.zero and "EXIT" not in trap.signals), None)
    if zero is not None and not batch.starts_again:
        message = f"the trap for {', '.join(sorted(zero.signals))} ends the job with exit code 0 and requeues nothing"
        yield CODE_LOST.at(batch.text.outer(zero.place), message, severity=ERROR if batch.trains else WARNING)


def _options(batch: _Batch) -> Options:
    """`#!/bin/bash -e` counts, as Slurm starts the script by its first line."""
    first = batch.text.text.split("\n", 1)[0]
    return Options.of(first.split()[1:] if first.startswith("#!") else [])


def _signal(batch: _Batch, main: Run, traps: list[Trap]) -> Iterator[Finding]:
    signal = batch.asked.signal
    if signal is None:
        return
    place = batch.text.outer(signal.place)
    heard = [trap for trap in traps if signal.name in {one.removeprefix("SIG") for one in trap.signals}]
    if not signal.to_shell:
        if not _has_steps(batch):
            yield NOBODY_HEARS.at(place, _nobody(signal, heard, main))
        return
    if not heard:
        if not is_written_exec(main) and not _sources(batch):
            yield NO_TRAP.at(place, f"{signal.written} ends the batch shell: the script has no trap for {signal.name}")
        return
    if not main.background and not is_written_exec(main):
        message = (
            f"`{told(main.command.words)}` is in the foreground: the trap for {signal.name} runs after it has ended"
        )
        yield TRAP_TOO_LATE.at(_at(batch, main.statement.line, main.statement.column), message)


def _nobody(signal: WarningSignal, heard: list[Trap], main: Run) -> str:
    name = told(main.command.words)
    if heard:
        return f"{signal.written} without `B:` never reaches the trap in the batch script, and `{name}` is no step"
    return f"{signal.written} goes to the job's steps, and `{name}` is none: it is not started with srun"


def _late_without_signal(batch: _Batch, main: Run, traps: list[Trap]) -> Iterator[Finding]:
    """A trap for USR1 or USR2 shows that whoever submits it asks for that signal; SIGTERM goes to the steps, too."""
    if batch.asked.signal is not None or main.background or is_written_exec(main):
        return
    for trap in traps:
        names = {one.removeprefix("SIG") for one in trap.signals} & {"USR1", "USR2"}
        if names and trap.text not in ("", "-", None):
            message = f"`{told(main.command.words)}` is in the foreground: the trap for {min(names)} runs after it"
            yield TRAP_TOO_LATE.at(_at(batch, main.statement.line, main.statement.column), message, severity=WARNING)
            return


def _has_steps(batch: _Batch) -> bool:
    """Whether anything may be a step: srun and its like, or something open that may hold it."""
    for run in batch.runs:
        words = [word.start.rsplit("/", 1)[-1] for word in run.command.words]
        first = run.command.words[0] if run.command.words else None
        if _STARTS_STEPS & set(words[:4]) or first is None or first.text is None:
            return True
        if words[0] in ("bash", "sh", "source", ".") or words[0].endswith(".sh"):
            return True
    return False


def _sources(batch: _Batch) -> bool:
    """Whether a file is read in that may hold the trap."""
    return any(command.program in ("source", ".") for _one, command in batch.script.commands())


def _requeue(batch: _Batch) -> Iterator[Finding]:
    if batch.starts_again or batch.asked.find("--requeue") is not None:
        return
    no = batch.asked.find("--no-requeue")
    if no is not None:
        yield NO_REQUEUE.at(
            batch.text.outer(no.place), "--no-requeue: after a preemption the job is gone", severity=WARNING
        )
        return
    first = batch.asked.options[0].place if batch.asked.options else At(1)
    yield NO_REQUEUE.at(batch.text.outer(first), "without --requeue it depends on the site whether it starts again")


def _keys(batch: _Batch) -> Iterator[Finding]:
    """Options and variables whose name says that they keep something, with the job id in their value."""
    severity = INFO if batch.asked.find("--requeue") is not None or batch.starts_again else WARNING
    for statement in batch.script.walk():
        for name, value in statement.assignments:
            if _KEEPS.search(name) and _JOB_ID.search(value.raw):
                yield _keyed(batch, value, f"{name}={value.raw}", severity is INFO)
        words = statement.command.words if statement.command is not None else ()
        for before, word in zip(("", *(one.start for one in words)), words, strict=False):
            if not _JOB_ID.search(word.raw):
                continue
            option = word.raw.partition("=")[0] if word.raw.startswith("-") or "=" in word.raw else before
            if option.startswith("-") and _KEEPS.search(option):
                yield _keyed(batch, word, word.raw, severity is INFO)


def _keyed(batch: _Batch, word: Word, what: str, mild: bool) -> Finding:
    message = f"`{what.strip()}` holds the job id: a job that is submitted again finds no checkpoint there"
    return KEYED_BY_JOB.at(_at(batch, word.line, word.column), message, severity=INFO if mild else WARNING)
