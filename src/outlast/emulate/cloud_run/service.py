"""Cloud Run as a whole: jobs, executions and logs of any project and region, kept in memory."""

import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from outlast.containers.container import can_isolate
from outlast.emulate.cloud_run.attempt import Launch
from outlast.emulate.cloud_run.builds import Builds
from outlast.emulate.cloud_run.execution import Execution, Place
from outlast.emulate.cloud_run.execution_state import Task
from outlast.emulate.cloud_run.images import Image, Images
from outlast.emulate.cloud_run.jobs import Job, check_deployment, new_job, replace_job
from outlast.emulate.cloud_run.log_book import LogBook
from outlast.emulate.cloud_run.overrides import overridden
from outlast.emulate.cloud_run.refusals import OURS, Refused, does_not_exist, not_emulated
from outlast.emulate.cloud_run.volumes import mounts_of
from outlast.emulate.names import random_suffix
from outlast.emulate.scale import TimeScale
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.ports import Identity
from outlast.rehearse.sandbox import make_copy, plan_copy

_Key = tuple[Place, str]  # and a name
Environment = Callable[[Identity], Mapping[str, str]]  # what the images set, by attempt


class Service:
    """What the API's verbs do. May be used from several threads; raises Refused."""

    def __init__(
        self, images: Images, *, buckets: Mapping[str, Path], environment: Environment, scale: TimeScale
    ) -> None:
        self.log, self.scale = LogBook(), scale
        self._images, self._buckets, self._environment = images, buckets, environment
        self._lock = threading.RLock()
        self._jobs: dict[_Key, Job] = {}
        self._executions: dict[_Key, Execution] = {}
        self._deleted: list[Execution] = []
        self._snapshots = Path(tempfile.mkdtemp(prefix="outlast-images-"))
        self.builds = Builds(images, self._snapshots / "built")

    def close(self) -> None:
        """Kills what runs and removes what was copied."""
        with self._lock:
            everything = [*self._executions.values(), *self._deleted]
        for execution in everything:
            execution.close()
        shutil.rmtree(self._snapshots, ignore_errors=True)

    # --- jobs ---

    def create_job(self, place: Place, document: dict[str, Any]) -> Job:
        with self._lock:
            spec = check_deployment(document, place, self._images, self._buckets)
            key = (place, document["metadata"]["name"])
            if key in self._jobs:
                raise Refused("ALREADY_EXISTS", f"Resource '{key[1]}' already exists.")
            job = self._jobs[key] = new_job(document, spec, place)
            self._run_by_token(job, {})
            return job

    def replace_job(self, place: Place, name: str, document: dict[str, Any]) -> Job:
        with self._lock:
            job = self.job(place, name)
            spec = check_deployment(document, place, self._images, self._buckets)
            before = job.document["spec"]
            replace_job(job, document, spec)
            self._run_by_token(job, before)
            return job

    def deploy_job(self, place: Place, document: dict[str, Any]) -> Job:
        """Creates the job, or replaces it."""
        with self._lock:
            name = document.get("metadata", {}).get("name", "")
            known = (place, name) in self._jobs
            return self.replace_job(place, name, document) if known else self.create_job(place, document)

    def job(self, place: Place, name: str) -> Job:
        with self._lock:
            found = self._jobs.get((place, name))
        if found is None:
            raise does_not_exist(name, "JOB", place.region, place.project)
        return found

    def jobs(self, project: str, region: str | None) -> Sequence[Job]:
        """The jobs of a project, of one region or (None) of all."""
        with self._lock:
            found = [job for job in self._jobs.values() if job.place.project == project]
        return [job for job in found if region in (None, job.place.region)]

    def delete_job(self, place: Place, name: str) -> None:
        """Its executions go too; those that run are cancelled."""
        with self._lock:
            self.job(place, name)
            for execution in self.executions(place.project, place.region):
                if execution.job["metadata"]["name"] == name:
                    self.delete_execution(place, execution.name)
            del self._jobs[place, name]

    # --- executions ---

    def run(self, place: Place, name: str, request: Mapping[str, Any]) -> Execution:
        with self._lock:
            job = self.job(place, name)
            spec = overridden(job, request.get("overrides", {}))
            return self._start(job, f"{name}-{random_suffix()}", spec)

    def execution(self, place: Place, name: str) -> Execution:
        with self._lock:
            found = self._executions.get((place, name))
        if found is None:
            raise does_not_exist(name, "EXECUTION", place.region, place.project)
        return found

    def executions(self, project: str, region: str | None) -> Sequence[Execution]:
        """The executions of a project, the newest first."""
        with self._lock:
            found = [one for one in self._executions.values() if one.place.project == project]
        return [one for one in reversed(found) if region in (None, one.place.region)]

    def all_executions(self) -> Sequence[Execution]:
        """Of all projects and regions, the oldest first."""
        with self._lock:
            return tuple(self._executions.values())

    def find_execution(self, name: str | None) -> Execution:
        """An execution by its name alone, or the newest one that runs: for the emulator's own controls."""
        with self._lock:
            found = [one for one in self._executions.values() if name in (None, one.name)]
        if name is None:
            found = [one for one in found if one.running_tasks()]
        if not found:
            raise Refused("NOT_FOUND", f"There is no execution '{name}'." if name else "No execution runs.")
        return found[-1]

    def cancel_execution(self, place: Place, name: str) -> Execution:
        execution = self.execution(place, name)
        with execution.lock:
            if execution.state.over:
                message = f"Execution '{name}' cannot be cancelled because it is not running."
                raise Refused("FAILED_PRECONDITION", message)
            execution.cancel()
        return execution

    def delete_execution(self, place: Place, name: str) -> None:
        """It is cancelled if it runs."""
        with self._lock:
            execution = self.execution(place, name)
            execution.cancel()
            del self._executions[place, name]
            self._deleted.append(execution)

    # --- how they run ---

    def _run_by_token(self, job: Job, before: Mapping[str, Any]) -> None:
        """A job that is deployed with a new token runs at once, under a name that the token gives."""
        for field in ("startExecutionToken", "runExecutionToken"):
            token = job.document["spec"].get(field)
            if token and token != before.get(field):
                spec = overridden(job, {})
                job.started_by_token = self._start(job, f"{job.name}-{token}", spec)

    def _start(self, job: Job, name: str, spec: dict[str, Any]) -> Execution:
        key = (job.place, name)
        if key in self._executions:
            raise Refused("ALREADY_EXISTS", f"Resource '{name}' already exists.")
        container = spec["template"]["spec"]["containers"][0]
        if not can_isolate():
            raise not_emulated("tasks need PID and mount namespaces, which this machine does not allow.")
        execution = Execution(
            name,
            job=job.document,
            spec=spec,
            place=job.place,
            uid=str(uuid.uuid4()),
            log=self.log,
            scale=self.scale,
        )
        image = self._images.find(container, "containers[0]")
        snapshot = self._snapshot(image.folder, execution.uid)
        launch = self._launcher(execution, image, snapshot)
        job.executions += 1
        job.latest = execution
        self._executions[key] = execution
        execution.start(launch)
        return execution

    def _snapshot(self, folder: Path, name: str) -> Path:
        """A copy of an image's files, from which all attempts of an execution start."""
        snapshot = self._snapshots / name
        try:
            make_copy(plan_copy(folder), snapshot)
        except OSError as error:
            raise Refused("FAILED_PRECONDITION", f"{OURS}: the image's files could not be copied: {error}") from error
        return snapshot

    def _launcher(self, execution: Execution, image: Image, snapshot: Path) -> Callable[[Task], Launch]:
        task_spec = execution.spec["template"]["spec"]
        container = task_spec["containers"][0]
        folder = container.get("workingDir") or image.working_folder
        own = {one["name"]: one.get("value", "") for one in container.get("env", [])}
        scaled = self.scale.here(CloudRunPlatform.facts.grace_seconds)
        told = {} if self.scale.factor == 1 else {"OUTLAST_GRACE": f"{scaled:g}"}

        def prepare(task: Task) -> Launch:
            identity = Identity(
                job=execution.job["metadata"]["name"],
                execution=execution.name,
                task=task.index,
                tasks=execution.spec["taskCount"],
                attempt=task.attempt,
            )
            reserved = CloudRunPlatform().environment(identity)
            return Launch(
                command=image.command_of(container),
                environment={**told, **self._environment(identity), **image.environment, **own, **reserved},
                copy_files=lambda folder: shutil.copytree(snapshot, folder, symlinks=True),
                mounts=lambda private: mounts_of(task_spec, container, self._buckets, private),
                working_folder=Path(folder) if folder else None,
                timeout_seconds=task_spec["timeoutSeconds"],
            )

        return prepare
