"""The door to other people's commands: gcloud, kubectl. Arguments go as a list; no shell is between."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outlast.deploy.absence import says_absent
from outlast.deploy.plan import Command, Probe
from outlast.errors import DeploymentStopped

_PAUSE_SECONDS = 3.0
_NO_PROGRAM = 127
_LONGEST_ANSWER_SECONDS = 300.0  # gcloud repeats by itself what fails; a question that takes longer hangs


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command came to, and what it printed."""

    code: int
    output: str
    errors: str


class Tools(Protocol):
    """Runs commands."""

    def ask(self, argv: Sequence[str]) -> Answer:
        """Runs a command that changes nothing, and reads what it prints."""
        ...

    def run(self, argv: Sequence[str]) -> int:
        """Runs a command whose output people see; its code. 127: there is no such program."""
        ...

    def pause(self) -> None:
        """Waits before a command is tried again."""
        ...


@dataclass(frozen=True, slots=True)
class InstalledTools:
    """The programs on this machine, run in a folder."""

    folder: Path

    def ask(self, argv: Sequence[str]) -> Answer:
        try:
            done = subprocess.run(
                argv,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=_LONGEST_ANSWER_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Answer(124, "", f"{argv[0]} gave no answer in {_LONGEST_ANSWER_SECONDS:g} s")
        except (OSError, ValueError) as error:  # ValueError: a NUL in a name
            return Answer(_NO_PROGRAM, "", f"{argv[0]}: {getattr(error, 'strerror', None) or error}")
        return Answer(done.returncode, done.stdout, done.stderr)

    def run(self, argv: Sequence[str]) -> int:
        try:
            return subprocess.run(argv, cwd=self.folder, stdin=subprocess.DEVNULL, check=False).returncode
        except (OSError, ValueError):
            return _NO_PROGRAM

    def pause(self) -> None:
        time.sleep(_PAUSE_SECONDS)


def is_there(probe: Probe, tools: Tools) -> bool:
    """Whether the thing is there. Raises DeploymentStopped where nobody can tell: a hidden thing is not absent."""
    return says_it_is_there(probe, tools.ask(probe.argv))


def says_it_is_there(probe: Probe, answer: Answer) -> bool:
    """The same, of an answer to the probe."""
    if answer.code == 0:
        return probe.line is None or probe.line in answer.output.splitlines()
    if answer.code != _NO_PROGRAM and says_absent(answer.errors, probe.argv):
        return False
    raise DeploymentStopped(
        f"it cannot be told what is there: {Command(probe.argv).shown} left with {answer.code}: "
        f"{answer.errors.strip()[-2000:] or 'no word why'}"
    )


def listed(argv: Sequence[str], tools: Tools) -> tuple[str, ...]:
    """The names that a listing prints. Raises DeploymentStopped if it fails."""
    answer = tools.ask(argv)
    if answer.code != 0:
        raise DeploymentStopped(
            f"{Command(tuple(argv)).shown} left with {answer.code}: {answer.errors.strip()[-2000:]}"
        )
    return tuple(line for line in answer.output.splitlines() if line)
