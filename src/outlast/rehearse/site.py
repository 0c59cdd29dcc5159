"""The place of one rehearsal: makes the stages that runs take place on, and runs attempts there."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outlast.containers.calls import Answer, CallWatch, Operation
from outlast.containers.container import SHARED_MEMORY, Container, Mount, View, can_hold_calls
from outlast.emulate.scale import TimeScale
from outlast.ports import Identity, Platform
from outlast.rehearse import node_runner
from outlast.rehearse.attempt import Attempt, Plan
from outlast.rehearse.batch_life import end_leases
from outlast.rehearse.course import ALONE, Beside, Conditions, run_attempt
from outlast.rehearse.elsewhere import Elsewhere
from outlast.rehearse.request import CannotRehearse, Limits, Request
from outlast.rehearse.sandbox import CopyPlan, make_copy
from outlast.rehearse.stage import FIRST_START, Stage, Start, environment_on, inherited_environment
from outlast.rehearse.watch import WriteWatch
from outlast.rehearse.words import Machine, Procedure, Scene, Settings
from outlast.settings import GRACE, REHEARSAL_SPEED, look_around


@dataclass(frozen=True, slots=True)
class Site:
    """What all runs of a rehearsal share. `copies` None: they take place in the user's folder itself.

    `given` is what the platform is set to; its times pass as `scale` says.
    """

    request: Request
    limits: Limits
    platform: Platform
    procedure: Procedure
    work: Path
    copies: CopyPlan | None
    isolated: bool
    given: Settings = field(default_factory=dict)
    scale: TimeScale = field(default_factory=TimeScale)

    @property
    def grace_seconds(self) -> float:
        """Seconds here between a notice and the end, which the job reckons with too."""
        return self.scale.here(self.platform_grace_seconds)

    @property
    def platform_grace_seconds(self) -> float:
        """What that is on the platform: what it gives, or what the user's variables say of it."""
        ours = self.limits.grace_seconds
        if ours is not None:
            return ours
        told = {**inherited_environment(), **self.procedure.tell(self.given)}
        return look_around(environment_on(self.platform, Identity(), told)).grace_seconds

    def _told(self) -> dict[str, str]:
        """What the job is told of its platform beside its identity: durations as they pass here."""
        told = self.procedure.tell(self.given)
        if self.scale.factor != 1.0:
            told |= {GRACE: f"{self.grace_seconds:g}", REHEARSAL_SPEED: f"{self.scale.factor:g}"}
        return told

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
        elsewhere: Elsewhere | None = None,
        plan: Plan | None = None,
        hung_seconds: float = float("inf"),
        start: Start = FIRST_START,
        beside: Beside = ALONE,
    ) -> Attempt:
        """One attempt on a stage, on a machine of its own; raises CannotRehearse when there is no such command."""
        if plan is not None:
            self._check(plan)
        stage.temporary(number).mkdir()
        with self.procedure.open_machine(self.given, self.scale) as machine:
            conditions = Conditions(
                scene=Scene(machine, self.platform_grace_seconds, self.scale),
                watch=watch,
                isolated=self.isolated,
                first_is_pid_1=self.procedure.first_is_pid_1,
                view=self._view(stage, number, machine),
                elsewhere=elsewhere,
                hung_seconds=hung_seconds,
                beside=beside,
            )
            attempt = run_attempt(
                stage,
                number,
                self._command(stage, number, start),
                self._environment(stage, number, start, machine),
                conditions=conditions,
                plan=plan,
            )
        end_leases(stage, number)
        return attempt

    def _check(self, plan: Plan) -> None:
        """Raises CannotRehearse for what cannot be done on this machine."""
        if not self.isolated and (plan.overlaps or any(one.through_door for one in plan.due)):
            raise CannotRehearse(
                f"{plan.name} cannot be rehearsed here: it needs namespaces, and none can be made; leave it out"
            )
        if any(one.through_door for one in plan.due) and not can_hold_calls():
            raise CannotRehearse(
                f"{plan.name} cannot be rehearsed here: the kernel lets nobody hold a file operation; leave it out"
            )

    @contextmanager
    def held(self, stage: Stage, number: int, answer: Callable[[Operation], Answer]) -> Iterator[Container]:
        """An attempt whose file operations wait until `answer` says what becomes of them, on a machine of its own."""
        stage.temporary(number).mkdir()
        calls = CallWatch(answer)
        with (
            closing(calls),
            stage.stdout(number).open("wb") as stdout,
            stage.stderr(number).open("wb") as stderr,
            self.procedure.open_machine(self.given, self.scale) as machine,
            Container(
                self._command(stage, number, Start(attempt=number)),
                folder=stage.folder,
                environment=self._environment(stage, number, Start(attempt=number), machine),
                stdout=stdout,
                stderr=stderr,
                isolated=self.isolated,
                first_is_pid_1=self.procedure.first_is_pid_1,
                view=self._view(stage, number, machine),
                calls=calls,
            ) as container,
        ):
            yield container
        end_leases(stage, number)

    def _view(self, stage: Stage, number: int, machine: Machine) -> View | None:
        if not self.isolated:
            return None
        root, memory = stage.private / f"mounts-{number}", stage.private / f"shm-{number}"
        for folder in (root, memory):
            folder.mkdir()
        return View(root, (*machine.mounts, Mount(memory, SHARED_MEMORY)), in_place=True)

    def _environment(self, stage: Stage, number: int, start: Start, machine: Machine) -> dict[str, str]:
        inherited = stage.environment(inherited_environment(), number, start)
        return {**inherited, **self._told(), **machine.environment}

    def _command(self, stage: Stage, number: int, start: Start) -> tuple[str, ...]:
        """The command, or what starts it on each node."""
        command, count = self._on_one_node(stage), self.request.nodes
        nodes = self.procedure.nodes
        if nodes is None or count == 1:
            return command
        scratch = stage.temporary(number)
        found = [
            {
                **(stage.told_of_task(start, node, count) if nodes.own_tasks else {}),
                **nodes.environment(node, count),
                "TMPDIR": str(scratch / f"node-{node}"),
            }
            for node in range(count)
        ]
        told = json.dumps({"command": command, "nodes": found})
        return (sys.executable, "-I", "-S", node_runner.__file__, told)

    def _on_one_node(self, stage: Stage) -> tuple[str, ...]:
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
