"""Runs a plan, step by step, and records what each makes, so that a kill between any two lines loses nothing."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from outlast.deploy.plan import Command, Made, Plan, Step, WrittenFile
from outlast.deploy.record import Record, named
from outlast.deploy.tools import Answer, Tools, listed, says_it_is_there
from outlast.errors import DeploymentStopped, SettingsError

Tell = Callable[[str], None]


@dataclass(slots=True)
class Applying:
    """One run of a plan. `files` is the folder that relative paths of its files count from."""

    plan: Plan
    record: Record
    tools: Tools
    files: Path
    tell: Tell
    done: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Runs all steps. Raises DeploymentStopped at the first failure, with what was done before it.

        Run again it goes on: what is there is not made twice.
        """
        for step in self.plan.steps:
            try:
                self._run(step)
            except DeploymentStopped as error:
                done = f"done before it: {', '.join(self.done)}" if self.done else "nothing was done before it"
                raise DeploymentStopped(
                    f"step {step.name}: {error}; {done}. What was made is in {self.record.path}. Mend the cause and "
                    "run the same command again to go on, or run it with --teardown to remove what was made"
                ) from error
            self.done.append(step.name)
        self.record.ends()

    def _run(self, step: Step) -> None:
        self.tell(f"{step.name}: {step.why}")
        for file in step.files:
            write_file(file, self.files)
        asked: dict[tuple[str, ...], Answer] = {}  # one answer tells of several things
        making = [made for made in step.makes if made.probe and self._is_to_make(step, made, asked)]
        starting = [made for made in step.makes if made.listing]
        if any(made.probe for made in step.makes) and not making and not starting and not step.again:
            return
        if starting and self._has_started(step):
            self.tell("  was started by the deployment that was cut off; not started again")
            return
        for made in making:
            self.record.intends(step.name, made)
        for made in starting:
            assert made.listing is not None
            self.record.intends(step.name, made, before=listed(made.listing.argv, self.tools))
        try:
            for command in step.commands:
                self._do(command)
        except DeploymentStopped:
            self._withdraw(step, making, started=bool(starting))
            raise
        for made in making:
            self.record.made(step.name, made)
        if starting:
            self._has_started(step)

    def _withdraw(self, step: Step, making: list[Made], *, started: bool) -> None:
        """After a failure: what is not there was not made, and whoever makes it before the next run owns it.

        Where nobody can tell, it stays in the record: a command that failed may still have made it.
        """
        for made in making:
            assert made.probe is not None
            with suppress(DeploymentStopped):
                if not says_it_is_there(made.probe, self.tools.ask(made.probe.argv)):
                    self.record.removed(step.name, made)
        if started:
            with suppress(DeploymentStopped):
                self._has_started(step)

    def _is_to_make(self, step: Step, made: Made, asked: dict[tuple[str, ...], Answer]) -> bool:
        assert made.probe is not None
        argv = made.probe.argv
        if argv not in asked:
            asked[argv] = self.tools.ask(argv)
        there, owned = says_it_is_there(made.probe, asked[argv]), self.record.owns(made)
        if not there:
            return True
        if owned is None:
            self._refuse_what_is_not_ours(made)
            self.tell(f"  {made.kind} {made.name} was there before; a teardown leaves it")
        elif not owned.sure:  # killed after the command and before the line
            self.record.made(step.name, made)
        return False

    def _refuse_what_is_not_ours(self, made: Made) -> None:
        """What another machine's deployment made is ours to change, what somebody wrote by hand is not."""
        if made.mark is not None and not says_it_is_there(made.mark, self.tools.ask(made.mark.argv)):
            raise DeploymentStopped(
                f"there is a {made.kind} {made.name} that no deployment of outlast made; it was left as it is. Give "
                "yours another name, or remove that one"
            )

    def _has_started(self, step: Step) -> bool:
        """Whether what the step starts is there; recorded by the names that the service gave."""
        found = False
        for owned in self.record.started(step.name):
            if owned.sure:
                found = True
                continue
            assert owned.made.listing is not None
            for name in listed(owned.made.listing.argv, self.tools):
                if name not in owned.before:
                    self.record.made(step.name, named(owned.made, name))
                    found = True
            self.record.removed(step.name, owned.made)  # only the intention, which has its outcome now
        return found

    def _do(self, command: Command) -> None:
        for attempt in range(1, command.attempts + 1):
            self.tell(f"  $ {command.shown}")
            code = self.tools.run(command.argv)
            if code == 0:
                return
            if attempt < command.attempts:
                self.tell(f"  left with {code}; tried again, as a new name takes a moment to be known")
                self.tools.pause()
        missing = f"; there is no {command.argv[0]} on this machine: install it" if code == 127 else ""
        raise DeploymentStopped(f"{command.shown} left with {code}{missing}")


def refuse_another_text(file: WrittenFile, folder: Path) -> None:
    """Raises SettingsError where something else is in the file's place."""
    target = folder / file.path
    if target.exists() and (not target.is_file() or target.read_text(errors="replace") != file.text):
        raise SettingsError(
            f"{target} exists already with another text and was left as it is; remove it, or name a new folder"
        )


def write_file(file: WrittenFile, folder: Path, *, over: bool = True) -> Path:
    """Writes a file of a plan, whole or not at all. Raises SettingsError, unless `over`, where another text is."""
    target = folder / file.path
    try:
        if not over:
            refuse_another_text(file, folder)
        if target.is_file() and target.read_text(errors="replace") == file.text:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            half.write_text(file.text, encoding="utf-8")
            half.chmod(0o755 if file.executable else 0o644)
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot write {target}: {error.strerror}") from error
    return target
