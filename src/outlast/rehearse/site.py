"""The place of one rehearsal: makes the stages that runs take place on, and runs attempts there."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from outlast.containers.calls import CallWatch
from outlast.containers.container import Container
from outlast.ports import Identity, Platform
from outlast.rehearse.attempt import Attempt, Plan, run_attempt
from outlast.rehearse.batch_life import end_leases
from outlast.rehearse.request import CannotRehearse, Limits, Request
from outlast.rehearse.sandbox import CopyPlan, make_copy
from outlast.rehearse.stage import Stage, environment_on, inherited_environment
from outlast.rehearse.watch import WriteWatch
from outlast.settings import look_around


@dataclass(frozen=True, slots=True)
class Site:
    """What all runs of a rehearsal share. `copies` None: they take place in the user's folder itself."""

    request: Request
    limits: Limits
    platform: Platform
    work: Path
    copies: CopyPlan | None
    isolated: bool

    @property
    def grace_seconds(self) -> float:
        """What the job reckons with too: the platform's, or what the user's variables say of that."""
        ours = self.limits.grace_seconds
        if ours is not None:
            return ours
        return look_around(environment_on(self.platform, Identity(), inherited_environment())).grace_seconds

    def make_stage(self, name: str) -> Stage:
        """A stage with its own fresh copy; raises OSError when it cannot be made."""
        private = self.work / name
        # A copy is called what the folder is called: some programs look at the name.
        folder = self.request.folder if self.copies is None else private / "copy" / self.copies.source.name
        stage = Stage(
            name=name,
            folder=folder,
            private=private / "outside",
            platform=self.platform,
            # Executions are told apart only where runs share a store.
            execution=f"rehearsal-{os.getpid()}-{name}" if self.request.real_store else "rehearsal",
            store_name=self._store_name(name),
        )
        stage.prepare()
        if self.copies is not None:
            make_copy(self.copies, folder)
        if stage.store is not None:
            stage.store.parent.mkdir(exist_ok=True)
        return stage

    def _store_name(self, stage_name: str) -> str | None:
        if self.request.real_store:
            return None
        return "store" if self.copies is not None else f"store-{stage_name}"

    def run(
        self,
        stage: Stage,
        number: int,
        *,
        watch: WriteWatch,
        plan: Plan | None = None,
        hung_seconds: float = float("inf"),
    ) -> Attempt:
        """One attempt on a stage; raises CannotRehearse when there is no such command."""
        end_leases(stage, number)
        stage.temporary(number).mkdir()
        return run_attempt(
            stage,
            number,
            self._command(stage),
            stage.environment(inherited_environment(), number),
            watch=watch,
            isolated=self.isolated,
            plan=plan,
            hung_seconds=hung_seconds,
        )

    def start(self, stage: Stage, number: int, *, stdout: BinaryIO, stderr: BinaryIO, calls: CallWatch) -> Container:
        """Starts an attempt whose file operations `calls` is asked about."""
        end_leases(stage, number)
        stage.temporary(number).mkdir()
        return Container(
            self._command(stage),
            folder=stage.folder,
            environment=stage.environment(inherited_environment(), number),
            stdout=stdout,
            stderr=stderr,
            isolated=self.isolated,
            calls=calls,
        )

    def _command(self, stage: Stage) -> tuple[str, ...]:
        """The command as it works on the stage: a program in a folder that was left out is taken where it is."""
        program, *rest = self.request.command
        if "/" not in program:
            if shutil.which(program) is None:
                raise CannotRehearse(f"{program}: command not found")
        elif not (stage.folder / program).exists():
            original = self.request.folder / program
            if not original.exists():
                raise CannotRehearse(f"{program}: no such file in {self.request.folder}")
            program = os.path.abspath(original)  # noqa: PTH100 - resolve() would leave a virtual environment
        return (program, *rest)
