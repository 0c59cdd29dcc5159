"""Where runs take place: the folder, the store below it, and what the platform's environment says."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast import settings
from outlast.limits import ATTEMPT_ENDS
from outlast.ports import Identity, Platform
from outlast.registry import PLATFORMS, platform_named
from outlast.rehearsal_place import REHEARSAL_FOLDER
from outlast.rehearse.node_runner import NODE
from outlast.rehearse.sandbox import PRIVATE_FOLDER


@dataclass(frozen=True, slots=True)
class Start:
    """How an attempt is started: in which execution of the job, and as which attempt of that, from 0."""

    execution: int = 0
    attempt: int = 0

    def retried(self) -> "Start":
        return Start(self.execution, self.attempt + 1)

    def executed_again(self) -> "Start":
        return Start(self.execution + 1, 0)


FIRST_START = Start()


@dataclass(frozen=True, slots=True)
class Stage:
    """One folder in which a run takes place from its first attempt to its last.

    `private` is ours, beside the folder: temporary files, outputs and events of the attempts. `store_name` None
    leaves the program's stores where they really are.
    """

    name: str
    folder: Path
    private: Path
    platform: Platform
    execution: str
    store_name: str | None

    @property
    def store(self) -> Path | None:
        """The folder below which every Job keeps its store; made by the first one."""
        return self.folder / PRIVATE_FOLDER / self.store_name if self.store_name else None

    def temporary(self, attempt: int) -> Path:
        """A container's own files go with it, so each attempt has a folder for temporary files of its own."""
        return self.private / f"tmp-{attempt}"

    @property
    def made(self) -> Path:
        """Where the files that a run made are set aside when runs share the user's folder."""
        return self.private / "made"

    @property
    def logs(self) -> Path:
        return self.private / "logs"

    def stdout(self, attempt: int) -> Path:
        return self.logs / f"attempt-{attempt}.out"

    def stderr(self, attempt: int) -> Path:
        return self.logs / f"attempt-{attempt}.err"

    def events(self, attempt: int) -> Path:
        return self.logs / f"attempt-{attempt}.events"

    def prepare(self) -> None:
        """Makes the private folders."""
        self.logs.mkdir(parents=True)

    def environment(self, inherited: Mapping[str, str], attempt: int, start: Start) -> dict[str, str]:
        """What an attempt finds: the user's environment, with the platform's in place of the one here.

        `attempt` counts all of the rehearsal, `start` as the platform does.
        """
        environment = environment_on(self.platform, self._identity(start, 0, 1), inherited)
        environment |= {
            "PWD": str(self.folder),
            "TMPDIR": str(self.temporary(attempt)),
            settings.EVENTS_FILE: str(self.events(attempt)),
        }
        if self.store is not None:
            environment[settings.REHEARSAL_STORE] = str(self.store)
            environment[REHEARSAL_FOLDER] = str(self.folder)
        return environment

    def told_of_task(self, start: Start, task: int, tasks: int) -> dict[str, str]:
        """What the platform tells one of several tasks."""
        return self.platform.environment(self._identity(start, task, tasks))

    def _identity(self, start: Start, task: int, tasks: int) -> Identity:
        execution = f"{self.execution}-{start.execution + 1}" if start.execution else self.execution
        return Identity(job="rehearsal", execution=execution, task=task, tasks=tasks, attempt=start.attempt)


def environment_on(platform: Platform, identity: Identity, inherited: Mapping[str, str]) -> dict[str, str]:
    """What a process of that identity would find there: what is inherited, less what tells of another place."""
    ours = {name for known in PLATFORMS for name in _variables_of(platform_named(known))}
    ours |= {settings.SUPERVISED_EXECUTION, settings.REHEARSAL_STORE, settings.REHEARSAL_SPEED}
    ours |= {REHEARSAL_FOLDER, ATTEMPT_ENDS, NODE}
    environment = {name: value for name, value in inherited.items() if name not in ours}
    return environment | platform.environment(identity) | {"OUTLAST_PLATFORM": platform.facts.name}


def _variables_of(platform: Platform) -> set[str]:
    identity = Identity(job="job", execution="execution", task=0, tasks=2, attempt=1)
    return set(platform.environment(identity))


def inherited_environment() -> Mapping[str, str]:
    """The environment that outlast itself was started in."""
    return os.environ
