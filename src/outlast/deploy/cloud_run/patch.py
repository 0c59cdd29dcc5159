"""Changes an existing manifest of a Cloud Run job by what survival needs, and by nothing else."""

import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from outlast.deploy.cloud_run.manifest import VOLUME
from outlast.deploy.cloud_run.settings import wanted_retries
from outlast.deploy.description import Description
from outlast.deploy.patched import Patched
from outlast.deploy.plain_data import at
from outlast.deploy.yaml_edits import add_to, load_documents, set_in
from outlast.errors import SettingsError
from outlast.platforms.cloud_run import CloudRunPlatform
from outlast.platforms.cloud_run_limits import (
    BUCKET_DRIVER,
    DEFAULT_TIMEOUT_SECONDS,
    GPU,
    LAUNCH_STAGE,
    PREVIEW_STAGES,
    longest_timeout_seconds,
    needs_preview,
)

_TASK = ("spec", "template", "spec", "template", "spec")
_CONTAINER = (*_TASK, "containers", 0)
_FACTS = CloudRunPlatform.facts
_SHELLS = ("sh", "bash", "dash", "/bin/sh", "/bin/bash", "/bin/dash")
_OF_KUBERNETES = ("Job", "CronJob", "JobSet", "PyTorchJob", "List")
_FREE_PATHS = ("/checkpoints", "/outlast-checkpoints")


@dataclass(slots=True)
class _Manifest:
    """The file while it is changed."""

    text: str
    changes: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    _loaded: tuple[str, list[Any]] | None = None

    def documents(self, file: str) -> list[Any]:
        """What it holds now; parsed once for each text that it has had."""
        if self._loaded is None or self._loaded[0] != self.text:
            self._loaded = (self.text, load_documents(self.text, file))
        return self._loaded[1]


def patch(text: str, file: str, described: Description | None = None) -> Patched:
    """The manifest, changed. `described` tells what the manifest cannot: the run time, the checkpoints' place.

    Raises SettingsError for a text that is no YAML, or holds no job of Cloud Run.
    """
    found = _Manifest(text)
    documents = found.documents(file)
    jobs = [number for number, one in enumerate(documents) if _is_job(one)]
    if not jobs:
        says = f"`outlast lint {file}` says what to change by hand"
        if any(isinstance(one, dict) and one.get("kind") in _OF_KUBERNETES for one in documents):
            says = f"it is for Kubernetes: `outlast deploy gke --patch {file}`"
        raise SettingsError(f"{file}: there is no Job of run.googleapis.com/v1 in it, so nothing is changed; {says}")
    for number in jobs:
        _Patch(found, file, number, described).run()
    return Patched(found.text, tuple(found.changes), tuple(found.by_hand))


def _is_job(document: Any) -> bool:
    if not isinstance(document, dict) or document.get("kind") != "Job":
        return False
    return str(document.get("apiVersion", "")).startswith("run.googleapis.com/")


@dataclass(slots=True)
class _Patch:
    """The changes to one document of a file."""

    found: _Manifest
    file: str
    document: int
    described: Description | None

    def run(self) -> None:
        if not isinstance(self.at(*_CONTAINER), dict):
            raise SettingsError(f"{self.file}: the job has no container at {'.'.join(map(str, _CONTAINER))}")
        self.timeout()
        self.retries()
        self.launch_stage()
        self.process_1()
        self.place()

    def at(self, *path: str | int) -> Any:
        """The value there now, None where there is none."""
        return at(self.found.documents(self.file)[self.document], path)

    def set(self, path: tuple[str | int, ...], value: object, why: str) -> None:
        self.found.text = set_in(self.found.text, path, value, document=self.document, file=self.file)
        self.found.changes.append(f"{path[-1]}: {why}")

    @property
    def gpu(self) -> bool:
        return str(self.at(*_CONTAINER, "resources", "limits", GPU) or "0") != "0"

    @property
    def seconds(self) -> int:
        said = self.at(*_TASK, "timeoutSeconds")
        try:
            return DEFAULT_TIMEOUT_SECONDS if said is None else int(said)
        except (TypeError, ValueError):
            raise SettingsError(
                f"{self.file}: timeoutSeconds is {said!r}, which gcloud refuses; write whole seconds, such as '43200'"
            ) from None

    def timeout(self) -> None:
        most = longest_timeout_seconds(gpu=self.gpu)
        wanted = None if self.described is None else self.described.timeout_seconds
        if self.seconds > most:
            self.set((*_TASK, "timeoutSeconds"), str(most), f"more than {most} s is refused")
        elif wanted is not None and self.seconds != wanted:
            self.set((*_TASK, "timeoutSeconds"), str(int(wanted)), "as described")
        elif self.at(*_TASK, "timeoutSeconds") is None and (self.gpu or self._run_seconds > DEFAULT_TIMEOUT_SECONDS):
            why = f"unset, each attempt is killed after {DEFAULT_TIMEOUT_SECONDS} s"
            self.set((*_TASK, "timeoutSeconds"), str(most if self.gpu else 24 * 3600), why)

    @property
    def _run_seconds(self) -> float:
        return (self.described.run_seconds or 0.0) if self.described else 0.0

    def retries(self) -> None:
        said, most = self.at(*_TASK, "maxRetries"), _FACTS.max_retries or 0
        wanted = wanted_retries(self._run_seconds or self.seconds, self.seconds)
        if self.described is not None and self.described.retries is not None:
            wanted = self.described.retries
        now = _FACTS.default_retries if said is None else said
        if not isinstance(now, int):
            raise SettingsError(f"{self.file}: maxRetries is {now!r}, and should be a whole number")
        if now > most:
            self.set((*_TASK, "maxRetries"), most, f"more than {most} are refused")
        elif now < wanted:
            why = "each interruption uses one up, and some are for the program's own failures"
            self.set((*_TASK, "maxRetries"), wanted, why)

    def launch_stage(self) -> None:
        if needs_preview(self.seconds, gpu=self.gpu):
            path = ("metadata", "annotations", LAUNCH_STAGE)
            if self.at(*path) not in PREVIEW_STAGES:
                self.set(path, "BETA", "more than 1 h with a GPU is in Preview, and refused without it")

    def process_1(self) -> None:
        """SIGTERM goes to process 1 only; a shell does not hand it on, and Python ignores it there."""
        command, args = self.at(*_CONTAINER, "command") or [], self.at(*_CONTAINER, "args") or []
        if not command:
            self.found.by_hand.append(
                "the image's own entry point runs, which the manifest does not show: its Dockerfile should have "
                'ENTRYPOINT ["outlast", "run", "--"]'
            )
            return
        if not isinstance(command, list) or not isinstance(args, list):
            raise SettingsError(f"{self.file}: command and args are lists of words, such as [python, train.py]")
        if command[:2] == ["outlast", "run"]:
            return
        script = self._script(command, args)
        if script is not None and not script[1].lstrip().startswith("exec "):
            path, said = script
            if not _is_simple(said):
                self.found.by_hand.append(
                    f"`{command[0]} -c` is process 1 and hands no SIGTERM on: put `exec` before the last command of it"
                )
                return
            self.set(path, f"exec {said.strip()}", "a shell as process 1 hands no SIGTERM on")
        why = "process 1 has to hear SIGTERM and hand it on; the image needs outlast"
        text = self.found.text
        for word in ("--", "run", "outlast"):
            text = add_to(text, (*_CONTAINER, "command"), word, first=True, document=self.document, file=self.file)
        self.found.text = text
        self.found.changes.append(f"command: {why}")

    @staticmethod
    def _script(command: list[Any], args: list[Any]) -> tuple[tuple[str | int, ...], str] | None:
        """Where the script of a shell stands, and what it says; None: no shell is between."""
        words = [*command, *args]
        if not words or words[0] not in _SHELLS or len(words) != 3 or words[1] != "-c":
            return None
        key, place = ("command", 2) if len(command) == 3 else ("args", 2 - len(command))
        return (*_CONTAINER, key, place), str(words[2])

    def place(self) -> None:
        """Checkpoints need a place that outlives the attempt: a mounted bucket, or a URL."""
        env = {str(one.get("name")): one.get("value") for one in self._maps(*_CONTAINER, "env")}
        self._writable()
        said = env.get("OUTLAST_URL")
        if said is not None:
            where = PurePosixPath(str(said))
            if "://" not in str(said) and not any(where.is_relative_to(path) for path in self._lasting_mounts()):
                self.found.by_hand.append(f"OUTLAST_URL is {said}, which no bucket is mounted at: it is memory")
            return
        bucket = None if self.described is None else self.described.bucket
        if bucket is None:
            if not self._lasting_mounts():
                self.found.by_hand.append(
                    "nothing outlives an attempt: name the place of the checkpoints with --url gs://BUCKET/FOLDER"
                )
            return
        assert self.described is not None
        url = self.described.url
        if self.described.access != "native":
            url = f"{self._mounted(bucket)}/{self.described.prefix}".rstrip("/")
        path = (*_CONTAINER, "env")
        variable = {"name": "OUTLAST_URL", "value": url}
        self.found.text = add_to(self.found.text, path, variable, document=self.document, file=self.file)
        self.found.changes.append("OUTLAST_URL: the checkpoints' place; the container's own files are gone with it")

    def _maps(self, *path: str | int) -> list[dict[str, Any]]:
        """The maps of a list; what else stands there is not what Cloud Run takes, and becomes an empty one."""
        found = self.at(*path)
        return [_map(one) for one in found] if isinstance(found, list) else []

    def _writable(self) -> None:
        for number, volume in enumerate(self._maps(*_TASK, "volumes")):
            csi = _map(volume.get("csi"))
            bucket = _map(csi.get("volumeAttributes")).get("bucketName")
            ours = self.described is not None and bucket == self.described.bucket
            if csi.get("readOnly") and ours:
                self.set((*_TASK, "volumes", number, "csi", "readOnly"), False, "no save succeeds on it")

    def _lasting_mounts(self, bucket: str | None = None) -> list[str]:
        """Where volumes that outlive an attempt are mounted, those of one bucket or (None) all."""
        lasting = set()
        for volume in self._maps(*_TASK, "volumes"):
            csi = _map(volume.get("csi"))
            same = bucket in (None, _map(csi.get("volumeAttributes")).get("bucketName"))
            if same and not csi.get("readOnly") and (csi or volume.get("nfs")):
                lasting.add(str(volume.get("name")))
        mounts = self._maps(*_CONTAINER, "volumeMounts")
        return [str(one.get("mountPath")).rstrip("/") for one in mounts if str(one.get("name")) in lasting]

    def _mounted(self, bucket: str) -> str:
        """Where the bucket is mounted, which it is now."""
        there = self._lasting_mounts(bucket)
        if there:
            return there[0]
        assert self.described is not None
        taken = {str(one.get("mountPath")).rstrip("/") for one in self._maps(*_CONTAINER, "volumeMounts")}
        wanted = (self.described.mount_path.rstrip("/"), *_FREE_PATHS)
        path = next((one for one in wanted if one not in taken), f"/{VOLUME}-{bucket}")
        names = {str(one.get("name")) for one in self._maps(*_TASK, "volumes")}
        name = VOLUME if VOLUME not in names else f"outlast-{VOLUME}"
        csi = {"driver": BUCKET_DRIVER, "readOnly": False, "volumeAttributes": {"bucketName": bucket}}
        text = self.found.text
        for place, item in (
            ((*_TASK, "volumes"), {"name": name, "csi": csi}),
            ((*_CONTAINER, "volumeMounts"), {"name": name, "mountPath": path}),
        ):
            text = add_to(text, place, item, document=self.document, file=self.file)
        self.found.text = text
        self.found.changes.append(f"volumes: the bucket {bucket}, mounted at {path}")
        return path


def _map(said: Any) -> dict[str, Any]:
    return said if isinstance(said, dict) else {}


def _is_simple(script: str) -> bool:
    """Whether a shell would run one plain command, so that `exec` in front changes nothing but process 1."""
    lexer = shlex.shlex(script, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    operators = any(set(word) <= set("();<>|&") for word in words)
    return bool(words) and not operators and "\n" not in script.strip() and "=" not in words[0]
