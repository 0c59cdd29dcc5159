"""What a job needs, in one small description: frozen, checked when it is made, free of the environment.

The keys of the file are those of `outlast.deploy.description_file`; each names its field here.
"""

import re
import shlex
from dataclasses import dataclass, field
from typing import Literal

from outlast.emulate.quantities import amount
from outlast.errors import SettingsError
from outlast.registry import PLATFORMS

KINDS = ("Job", "JobSet", "Batch", "Deployment")
ACCESSES = ("mount", "native")
DEFAULT_FILE = "outlast.yaml"
# The strictest of the targets: a Cloud Run job and a label of Kubernetes have at most 63 characters.
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
_REGION = re.compile(r"[a-z]+-[a-z]+\d+")
_LOCATION = re.compile(r"[a-z]+-[a-z]+\d+(-[a-z])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_SERVICE_ACCOUNT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z0-9.:-]+\.gserviceaccount\.com")
_FUNCTION = re.compile(r"[\w.]+:\w+")
# Host, port, folders, tag, digest: nothing that a tool could take for an option or a pattern.
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,1023}")
_PATTERN = re.compile(r"[*?\[\]#]|(?:^|/)\.\.?(?:/|$)")
_MOST_CURRENCY = 8  # letters: EUR, USD, credits
_PYTHON = re.compile(r"3\.\d{1,2}(\.\d{1,2})?")


class BadSetting(SettingsError):
    """A value of a description that cannot work. `key` is its path in the file, such as "hardware.memory"."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key, self.why = key, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What one task runs on. `cpu` and `memory` are Kubernetes quantities ("8", "500m", "32Gi"), None: the default.

    `gpu` is the platform's name of the accelerator ("nvidia-l4"), `gpus` how many a task has; `tpu` ("v5e") goes with
    a `topology` ("2x4"). `spot` and `flex_start` say which capacity; with neither it is on demand.
    """

    cpu: str | None = None
    memory: str | None = None
    gpu: str | None = None
    gpus: int = 0
    tpu: str | None = None
    topology: str | None = None
    tpus: int = 0
    spot: bool = False
    flex_start: bool = False
    machine_type: str | None = None

    def __post_init__(self) -> None:
        for name in ("cpu", "memory"):
            said = getattr(self, name)
            if said is not None and _amount_or_0(said) <= 0:
                raise BadSetting(f"hardware.{name}", f"{said!r} is no amount; write one such as {_EXAMPLE[name]}")
        if self.gpus < 0 or (self.gpu is None) != (self.gpus == 0):
            raise BadSetting("hardware.gpus", "gpu names the accelerator and gpus how many; give both or neither")
        if self.gpu is not None and self.tpu is not None:
            raise BadSetting("hardware.tpu", "a task has GPUs or TPUs, not both")
        if (self.tpu is None) != (self.topology is None):
            raise BadSetting("hardware.topology", "tpu and topology go together, such as tpu: v5e and topology: 2x4")
        if self.spot and self.flex_start:
            raise BadSetting("hardware.flex_start", "capacity is spot or flex_start, not both")

    @property
    def memory_bytes(self) -> int | None:
        """None where the platform's default holds."""
        return None if self.memory is None else int(amount(self.memory))


_EXAMPLE = {"cpu": "8 or 500m", "memory": "32Gi or 512Mi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is known of the job's saves, from `outlast rehearse` or `outlast status`; None: not known."""

    save_seconds: float | None = None
    state_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """A queue and its worker: what `outlast work` is given."""

    function: str
    queue: str
    sink: str
    chunk: int = 1

    def __post_init__(self) -> None:
        if not _FUNCTION.fullmatch(self.function):
            raise BadSetting("batch.function", f"{self.function!r} is not MODULE:FUNCTION")

    @property
    def command(self) -> tuple[str, ...]:
        return ("outlast", "work", self.queue, self.function, "--sink", self.sink, "--chunk", str(self.chunk))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """Where in Kubernetes, and as what. `service_account` is the Kubernetes one; the Google one is `Description`'s.

    `queue_name` is a Kueue LocalQueue. `grace_seconds` None: derived from the notice and the measured save time.
    `location` of the cluster: a region or a zone; None: the description's region.
    """

    kind: Literal["Job", "JobSet", "Batch", "Deployment"] | None = None
    cluster: str | None = None
    location: str | None = None
    namespace: str = "default"
    service_account: str | None = None
    node_pool: str | None = None
    queue_name: str | None = None
    nodes: int = 1
    autopilot: bool = False
    grace_seconds: int | None = None

    def __post_init__(self) -> None:
        for name in ("cluster", "namespace", "service_account", "node_pool", "queue_name"):
            said = getattr(self, name)
            if said is not None and not _NAME.fullmatch(said):
                raise BadSetting(f"kubernetes.{name}", f"{said!r} is no name: {_NAME_RULE}")
        if self.location is not None and not _LOCATION.fullmatch(self.location):
            raise BadSetting("kubernetes.location", f"{self.location!r} is no region or zone, such as europe-west4-a")


_NAME_RULE = "lower-case letters, digits and dashes, a letter first, at most 63"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A job to deploy. Durations in seconds, sizes in bytes; None: derived, or the platform's default.

    `url` is where the checkpoints are (a `gs://` URL); `access` is how: mounted at `mount_path`, or by its URL.
    `source` is a folder, relative to the description's file, that an image is built from; `image` is its name, or that
    of an image which is there already. `run_seconds` is how long the work takes without interruptions.
    """

    name: str
    command: tuple[str, ...] = ()
    image: str | None = None
    source: str | None = None
    url: str | None = None
    access: Literal["mount", "native"] | None = None
    mount_path: str = "/checkpoints"
    platform: str | None = None
    hardware: Hardware = field(default_factory=Hardware)
    tasks: int = 1
    parallelism: int | None = None
    run_seconds: float | None = None
    timeout_seconds: float | None = None
    retries: int | None = None
    project: str | None = None
    region: str | None = None
    repository: str | None = None
    service_account: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    python: str = "3.12"
    packages: tuple[str, ...] = ()
    requirements: str | None = None
    measured: Measured = field(default_factory=Measured)
    price_per_gpu_hour: float | None = None
    currency: str = "USD"
    batch: BatchWork | None = None
    kubernetes: Kubernetes = field(default_factory=Kubernetes)

    def __post_init__(self) -> None:
        self._check_names()
        self._check_work()
        if self.parallelism is not None and self.parallelism > self.tasks:
            raise BadSetting("parallelism", f"{self.parallelism} at a time of {self.tasks} tasks makes no sense")
        for name, said in (("timeout", self.timeout_seconds), ("run_time", self.run_seconds)):
            if said is not None and said < 1:
                raise BadSetting(name, f"{said:g} s is less than a second")

    def _check_names(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadSetting("name", f"{self.name!r} is no name: {_NAME_RULE}")
        if self.project is not None and not _PROJECT.fullmatch(self.project):
            raise BadSetting("project", f"{self.project!r} is no project id: 6 to 30 small letters, digits, dashes")
        if self.region is not None and not _REGION.fullmatch(self.region):
            raise BadSetting("region", f"{self.region!r} is no region, such as europe-west4")
        if self.repository is not None and not _NAME.fullmatch(self.repository):
            raise BadSetting("repository", f"{self.repository!r} is no name: {_NAME_RULE}")
        if self.service_account is not None and not _SERVICE_ACCOUNT.fullmatch(self.service_account):
            raise BadSetting(
                "service_account",
                f"{self.service_account!r} is no address of a service account; it is such as "
                "NAME@PROJECT.iam.gserviceaccount.com",
            )
        for name, _ in self.env:
            if not _VARIABLE.fullmatch(name):
                raise BadSetting("env", f"{name!r} is no name of a variable")
        if not _PYTHON.fullmatch(self.python):
            raise BadSetting("python", f"{self.python!r} is no version of Python, such as '3.12' (with quotes)")
        if self.image is not None and not _IMAGE.fullmatch(self.image):
            raise BadSetting(
                "image", f"{self.image!r} is no name of an image, such as HOST/PROJECT/REPOSITORY/NAME:TAG"
            )
        if not self.currency.isprintable() or not 0 < len(self.currency) <= _MOST_CURRENCY:
            raise BadSetting("currency", f"{self.currency!r} is no currency, such as EUR")
        if self.platform is not None and self.platform not in PLATFORMS:
            raise BadSetting("platform", f"{self.platform!r} is not one of {', '.join(sorted(PLATFORMS))}")

    def _check_work(self) -> None:
        if not self.command and self.batch is None:
            raise BadSetting("command", "it is missing: what the container runs, such as [python, train.py]")
        if self.image is None and self.source is None:
            raise BadSetting("source", "give a source, the folder to build an image from, or an image that is there")
        if self.url is None and self.batch is None:
            raise BadSetting("url", "it is missing: where the checkpoints go, such as gs://BUCKET/FOLDER")
        if self.url is not None and self.url.startswith("gs://") and not _BUCKET.fullmatch(self.bucket or ""):
            raise BadSetting("url", f"{self.url!r} names no bucket; it is such as gs://BUCKET/FOLDER")
        # gcloud reads patterns: a teardown of gs://BUCKET/* would take what others have put beside it.
        if self.bucket is not None and (_PATTERN.search(self.prefix) or not self.prefix.isprintable()):
            raise BadSetting(
                "url", f"{self.url!r} has a pattern in it; a folder has no *, ?, [, ], #, no . or .. for it"
            )
        for name, said in (("command", self.command), ("env", tuple(value for _, value in self.env))):
            if any("\0" in one for one in said):
                raise BadSetting(name, "there is a character 0 in it, which no program can be given")
        if not self.mount_path.startswith("/") or self.mount_path.rstrip("/") == "":
            raise BadSetting("mount_path", f"{self.mount_path!r} is no folder from the root, such as /checkpoints")
        if self.access == "mount" and self.bucket is None:
            raise BadSetting("access", f"only a gs:// bucket can be mounted, and url is {self.url!r}")

    @property
    def bucket(self) -> str | None:
        """The bucket's name of a `gs://` URL."""
        if self.url is None or not self.url.startswith("gs://"):
            return None
        return self.url.removeprefix("gs://").partition("/")[0]

    @property
    def prefix(self) -> str:
        """The folder in the bucket, without slashes around it; "" is the bucket's root."""
        return "" if self.bucket is None else (self.url or "").removeprefix("gs://").partition("/")[2].strip("/")

    @property
    def mounted_folder(self) -> str:
        """Where the checkpoints are in a container that mounts the bucket."""
        return f"{self.mount_path.rstrip('/')}/{self.prefix}".rstrip("/")

    @property
    def full_command(self) -> tuple[str, ...]:
        """What the container runs: the command, or the batch worker's."""
        return self.command or (self.batch.command if self.batch else ())

    @property
    def shown_command(self) -> str:
        return shlex.join(self.full_command)


def _amount_or_0(said: str) -> float:
    try:
        return float(amount(said))
    except ValueError:
        return 0.0
