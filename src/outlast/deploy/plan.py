"""What a deployment is, whatever the target: ordered steps: files, commands, what they make and how it is undone."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file that the plan writes. A relative `path` counts from the folder of the plan's files.

    `over`: what is there may go, as nobody but outlast has written it.
    """

    path: Path
    text: str
    executable: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments; no shell is between.

    `attempts`: a service may need a moment to know a new name. `may_fail`: what it removes may not be there.
    """

    argv: tuple[str, ...]
    attempts: int = 1
    may_fail: bool = False

    @property
    def shown(self) -> str:
        """As one would type it."""
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks whether a thing is there. With `line`, it is when the output has that line; else when the code is 0.

    A failure that does not say that it is absent is no answer, and stops the deployment.
    """

    argv: tuple[str, ...]
    line: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Names what is there, a line each: for a command that makes a new thing of a name that only the service knows.

    What the listing has after the command, and had not before, was made by it. In `undo` of such a thing, NAME is its
    name.
    """

    argv: tuple[str, ...]


NAME = "{NAME}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A thing that a step makes, and how it is removed. `kind` is a word for people: "bucket", "role".

    `probe` asks whether it is there already, which then was somebody else's doing and stays. Either `probe`, or
    `listing` for things whose name the service chooses. `holds` says what is lost with it. Things without `undo` go
    with another that is removed, or cost nothing and stay; `why_kept` then says why. `mark` asks a thing that is there,
    and that the step would change, whether a deployment made it: if not, it is somebody else's of the same name.
    """

    kind: str
    name: str
    probe: Probe | None = None
    listing: Listing | None = None
    undo: tuple[Command, ...] = ()
    holds: str | None = None
    why_kept: str | None = None
    mark: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: `name` is unique in its plan and stays the same from one deployment to the next.

    `again`: the commands run although what they make is there (they set it to what the plan says, as `replace` and
    `apply` do). `spends`: it starts something that is billed while it runs.
    """

    name: str
    why: str
    files: tuple[WrittenFile, ...] = ()
    commands: tuple[Command, ...] = ()
    makes: tuple[Made, ...] = ()
    again: bool = False
    spends: bool = False

    def every_argv(self) -> Iterator[tuple[str, ...]]:
        """All that it may run: its commands, its questions, and their undoing."""
        yield from (command.argv for command in self.commands)
        for made in self.makes:
            yield from (asked.argv for asked in (made.probe, made.mark, made.listing) if asked)
            yield from (command.argv for command in made.undo)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that one deployment does. `target` and `name` are those of its record.

    `notes` are for the reader before anything runs; `warnings` say what may keep the job from its end; `exposure` is
    the most that it can cost, in words. `after`: commands to go on with.
    """

    target: str
    name: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exposure: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise ValueError(f"two steps of one name in {names}")

    @property
    def said_first(self) -> tuple[str, ...]:
        """What people read before they agree to it."""
        return (*self.notes, *self.warnings, *self.exposure)

    @property
    def files(self) -> tuple[WrittenFile, ...]:
        return tuple(file for step in self.steps for file in step.files)


def shell_script(plan: Plan, *, folder: str | None = None) -> str:
    """The plan as a script for people to read and to run: each command with its reason above it.

    `folder`: it makes that folder and writes the files there itself; None: it stands beside its files.
    """
    lines = [
        "#!/bin/sh",
        _comment(f"Deploys {plan.name} ({plan.target}). Written by `outlast deploy`; yours to change."),
    ]
    lines += [_comment(note) for note in plan.said_first]
    lines += ["set -eu"]
    lines += ['cd "$(dirname "$0")"'] if folder is None else _into(folder)
    for step in plan.steps:
        lines += ["", _comment(f"{step.name}: {step.why}")]
        for file in step.files:
            lines += [_comment(f"  {file.path}")] if folder is None else _here_document(file)
        lines += [command.shown for command in step.commands]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """One line, whatever the words are: what a name brings along is never run."""
    return "# " + "".join(letter if letter.isprintable() else " " for letter in text)


def _into(folder: str) -> list[str]:
    return [f"mkdir -p -- {shlex.quote(folder)}", f"cd -- {shlex.quote(folder)}"]


def _here_document(file: WrittenFile) -> list[str]:
    end = "END_OF_FILE"
    while end in file.text:
        end += "_"
    return [f"cat > {shlex.quote(str(file.path))} <<'{end}'", file.text.removesuffix("\n"), end]


def teardown_script(plan: Plan) -> str:
    """The undoing of the whole plan, last thing first: everything that it names, whoever made it."""
    lines = [
        "#!/bin/sh",
        _comment(f"Removes all that a deployment of {plan.name} names, also what was there before it. `outlast deploy"),
        f"# {plan.target} --teardown` removes only what it made.",
        "set -u",
    ]
    for made in (made for step in reversed(plan.steps) for made in reversed(step.makes)):
        undoing = [command for command in made.undo if NAME not in command.argv]
        if undoing:
            holds = f": {made.holds}" if made.holds else ""
            lines += ["", _comment(f"{made.kind} {made.name}{holds}"), *(command.shown for command in undoing)]
    return "\n".join(lines) + "\n"
