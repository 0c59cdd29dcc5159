"""An emulated Cloud Run that runs on a port of this machine."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outlast.emulate.cloud_run.app import application
from outlast.emulate.cloud_run.calls import DEFAULT_REGION, RUN_HOST
from outlast.emulate.cloud_run.execution import Execution, Place
from outlast.emulate.cloud_run.images import Image, Images
from outlast.emulate.cloud_run.messages import read
from outlast.emulate.cloud_run.not_exercised import NOT_EXERCISED
from outlast.emulate.cloud_run.refusals import Refused
from outlast.emulate.cloud_run.service import Environment, Service
from outlast.emulate.scale import TimeScale
from outlast.emulate.serving import LOOPBACK, Serving
from outlast.errors import SettingsError

PROJECT = "demo"
_OTHER_HOST = "google.local.test"  # Cloud Logging, and what a deployment from sources calls
# What an image is taken to set, where nothing else is said: what programs of this machine need to be found.
_OF_AN_IMAGE = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH")


class CloudRun:
    """Cloud Run jobs on loopback; use as a context manager, or call `close`, which kills what still runs.

    folder: the files of every image that `images` does not name; each attempt starts in a fresh copy of them, less
    what a rehearsal leaves out as well: .git, virtual environments, stores, and what .gitignore names.
    images: a folder and a command for images whose containers give no command.
    buckets: the folder that stands for each bucket; it may be a mounted bucket.
    environment: the variables that the images set, or a function that gives them for an attempt; by default a few of
    this process, such as PATH. A job's own variables and the platform's come on top.
    scale: how much faster the platform's graces, timeouts and notices pass; OUTLAST_GRACE then tells the tasks.
    Raises SettingsError for a bucket's folder in an image's, and for a port that is taken.
    """

    def __init__(
        self,
        *,
        folder: str | os.PathLike[str],
        images: Mapping[str, Image] | None = None,
        buckets: Mapping[str, str | os.PathLike[str]] | None = None,
        environment: Mapping[str, str] | Environment | None = None,
        scale: TimeScale | None = None,
        port: int = 0,
    ) -> None:
        found = Images(Path(folder).resolve(), dict(images or {}))
        mounted = {name: Path(place).resolve() for name, place in (buckets or {}).items()}
        _check_folders(found, mounted)
        of_images = default_environment() if environment is None else environment
        by_attempt = of_images if callable(of_images) else lambda _identity: of_images
        self._service = Service(found, buckets=mounted, environment=by_attempt, scale=scale or TimeScale())
        self.not_exercised = NOT_EXERCISED
        self._configuration: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._serving = Serving(application(self._service), port=port)
        except BaseException:
            self._service.close()
            raise
        self.url = self._serving.url

    def __enter__(self) -> "CloudRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops serving and kills what still runs."""
        self._serving.close()
        self._service.close()
        if self._configuration is not None:
            self._configuration.cleanup()

    def gcloud_environment(self, project: str = PROJECT) -> dict[str, str]:
        """The variables that lead the real gcloud here, with no account and a configuration of its own."""
        if self._configuration is None:
            self._configuration = tempfile.TemporaryDirectory(prefix="outlast-gcloud-")
        return gcloud_environment(self._serving.port, self._configuration.name, project)

    def deploy(self, job: Mapping[str, Any], *, project: str = PROJECT, region: str = DEFAULT_REGION) -> None:
        """What `gcloud run jobs replace` does with a manifest. Raises Refused, with the API's words."""
        document = read("Job", dict(job), at="job")
        self._service.deploy_job(Place(project, region), document)

    def execute(
        self,
        job: str,
        overrides: Mapping[str, Any] | None = None,
        *,
        project: str = PROJECT,
        region: str = DEFAULT_REGION,
    ) -> Execution:
        """What `gcloud run jobs execute` does; returns once the tasks have been started. Raises Refused."""
        request = read("RunJobRequest", {"overrides": dict(overrides or {})})
        return self._service.run(Place(project, region), job, request)

    def cancel(self, execution: str) -> None:
        """What `gcloud run jobs executions cancel` does, without waiting for the end."""
        self._find(execution).cancel()

    def maintain(self, execution: str | None = None, task: int | None = None) -> list[int]:
        """Maintenance of the hosts of a task, or of all of an execution (None: the newest); returns which tasks.

        A task with a GPU is ended, one without is moved.
        """
        return self._find(execution).maintain(task)

    def crash(self, execution: str | None = None, task: int | None = None) -> list[int]:
        """A host that fails: SIGKILL with no notice."""
        return self._find(execution).order("crash", task)

    def execution(self, name: str) -> Execution:
        """An execution: its state, its attempts, `wait`. Raises KeyError."""
        return self._find(name)

    def executions(self) -> list[str]:
        """The names of all executions, the oldest first."""
        return [one.name for one in self._service.all_executions()]

    def log_entries(self) -> list[dict[str, Any]]:
        """What Cloud Logging would hold, the oldest first."""
        return list(self._service.log.entries())

    def _find(self, execution: str | None) -> Execution:
        try:
            return self._service.find_execution(execution)
        except Refused as refusal:
            raise KeyError(refusal.message) from refusal


def default_environment() -> dict[str, str]:
    """What an image is taken to set: a few variables of this process."""
    return {name: os.environ[name] for name in _OF_AN_IMAGE if name in os.environ}


def gcloud_environment(port: int, configuration: str, project: str) -> dict[str, str]:
    """Variables for gcloud 528.0.0 (tried 2026-11-30): it puts the region in front of the host, so a proxy leads here.

    Everything that gcloud asks for goes through that proxy; what the emulator does not know it refuses.
    """
    return {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_RUN": f"http://{RUN_HOST}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"http://{_OTHER_HOST}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ARTIFACTREGISTRY": f"http://{_OTHER_HOST}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD": f"http://{_OTHER_HOST}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"http://{_OTHER_HOST}/storage/v1/",
        "CLOUDSDK_PROXY_TYPE": "http",
        "CLOUDSDK_PROXY_ADDRESS": LOOPBACK,
        "CLOUDSDK_PROXY_PORT": str(port),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CONFIG": configuration,
        "CLOUDSDK_CORE_PROJECT": project,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_SHOULD_PROMPT_TO_ENABLE_API": "false",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
    }


def _check_folders(images: Images, buckets: Mapping[str, Path]) -> None:
    for name, bucket in buckets.items():
        for folder in images.all_folders():
            if bucket.is_relative_to(folder.resolve()):
                raise SettingsError(
                    f"bucket {name!r}: its folder {bucket} lies in that of an image, {folder}; name one outside it"
                )
        bucket.mkdir(parents=True, exist_ok=True)
