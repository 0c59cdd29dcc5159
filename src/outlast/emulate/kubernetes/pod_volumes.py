"""The volumes of a pod as folders of this machine, and where its containers have them.

Facts as of 2026-11-30. Kubernetes, "Volumes": an emptyDir ends with its pod; a hostPath belongs to the node's disk, and
ends with the machine; a claim outlives both. GKE, "Cloud Storage FUSE CSI driver": driver gcsfuse.csi.storage.gke.io,
volumeAttributes.bucketName, and the annotation gke-gcsfuse/volumes: "true", without which no sidecar mounts it. A
bucket is a folder here: that its files are objects is not exercised.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.containers.container import Mount
from outlast.emulate.kubernetes.pod_environment import ConfigError, Find, data_of, field_of

Json = dict[str, Any]
GCSFUSE = "gcsfuse.csi.storage.gke.io"
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_BUCKET_ANNOTATION = "gke-gcsfuse/volumes"


class NotYetMounted(Exception):
    """A volume that cannot be mounted now; a kubelet tries again."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where folders of each kind are: the pod's own, its node's disk, claims, a bucket by name, the account's files."""

    pod: Path
    node: Path
    claims: Path
    bucket: Callable[[str], Path]
    account: Path


class Volumes:
    """The volumes of one pod; makes their folders. `find` looks a ConfigMap, Secret or claim of the namespace up.

    Raises NotYetMounted for one that is missing, and for what is not known here.
    """

    def __init__(self, pod: Json, places: Places, find: Find) -> None:
        self._pod, self._places, self._find = pod, places, find
        self._folders: dict[str, tuple[Path, bool]] = {}
        kinds: dict[str, Callable[[str, Json], tuple[Path, bool]]] = {
            "emptyDir": self._empty,
            "hostPath": self._host,
            "persistentVolumeClaim": self._claim,
            "csi": self._bucket,
            "configMap": self._config,
            "secret": self._secret,
            "downwardAPI": self._downward,
        }
        for volume in pod["spec"].get("volumes", ()):
            kind = next((key for key in volume if key != "name"), "emptyDir")
            if kind not in kinds:
                raise NotYetMounted(f'volume "{volume["name"]}" is of a kind that the emulator does not have: {kind}')
            self._folders[volume["name"]] = kinds[kind](volume["name"], volume.get(kind) or {})

    def mounts(self, container: Json) -> tuple[Mount, ...]:
        """What a container has where. Raises ConfigError for a mount of no volume."""
        found = []
        for one in container.get("volumeMounts", ()):
            if one["name"] not in self._folders:
                raise ConfigError(f'volume mount "{one["name"]}" names no volume of the pod')
            folder, read_only = self._folders[one["name"]]
            if one.get("subPath"):
                folder = folder / one["subPath"]
                folder.mkdir(parents=True, exist_ok=True)
            found.append(Mount(folder, Path(one["mountPath"]), bool(one.get("readOnly")) or read_only))
        if self._has_account() and all(str(mount.target) != ACCOUNT_FOLDER for mount in found):
            found.append(Mount(self._places.account, Path(ACCOUNT_FOLDER), read_only=True))
        return tuple(found)

    def _has_account(self) -> bool:
        return bool(self._pod["spec"].get("automountServiceAccountToken", True))

    def _empty(self, name: str, _: Json) -> tuple[Path, bool]:
        return _made(self._places.pod / "volumes" / name), False

    def _host(self, name: str, wanted: Json) -> tuple[Path, bool]:
        folder, kind = self._places.node / wanted["path"].lstrip("/"), wanted.get("type", "")
        if kind == "Directory" and not folder.is_dir():
            raise NotYetMounted(f"hostPath type check failed: {wanted['path']} is not a directory")
        if kind not in ("", "Directory", "DirectoryOrCreate"):
            raise NotYetMounted(f"hostPath of type {kind} is not known here: the emulator's nodes have folders only")
        return _made(folder), False

    def _claim(self, name: str, wanted: Json) -> tuple[Path, bool]:
        claim = wanted["claimName"]
        if self._find("PersistentVolumeClaim", claim) is None:
            raise NotYetMounted(f'persistentvolumeclaim "{claim}" not found')
        namespace = self._pod["metadata"]["namespace"]
        return _made(self._places.claims / f"{namespace}_{claim}"), bool(wanted.get("readOnly"))

    def _bucket(self, name: str, wanted: Json) -> tuple[Path, bool]:
        if wanted.get("driver") != GCSFUSE:
            raise NotYetMounted(f"driver name {wanted.get('driver')} not found in the list of registered CSI drivers")
        if self._pod["metadata"].get("annotations", {}).get(_BUCKET_ANNOTATION) != "true":
            raise NotYetMounted(
                f'failed to find the sidecar container in Pod spec: it lacks annotation {_BUCKET_ANNOTATION}: "true"'
            )
        bucket = wanted.get("volumeAttributes", {}).get("bucketName")
        if not bucket:
            raise NotYetMounted("volume attribute bucketName is missing")
        return _made(self._places.bucket(bucket)), bool(wanted.get("readOnly"))

    def _config(self, name: str, wanted: Json) -> tuple[Path, bool]:
        return self._data(name, "ConfigMap", wanted["name"], wanted), True

    def _secret(self, name: str, wanted: Json) -> tuple[Path, bool]:
        return self._data(name, "Secret", wanted["secretName"], wanted), True

    def _data(self, name: str, kind: str, of: str, wanted: Json) -> Path:
        found = self._find(kind, of)
        if found is None and not wanted.get("optional"):
            raise NotYetMounted(f'{kind.lower()} "{of}" not found')
        data = data_of(found) if found is not None else {}
        items = wanted.get("items")
        if items:
            data = {one["path"]: data[one["key"]] for one in items if one["key"] in data}
        return self._written(name, data.items())

    def _downward(self, name: str, wanted: Json) -> tuple[Path, bool]:
        items = wanted.get("items", ())
        if any("fieldRef" not in one for one in items):
            raise NotYetMounted("a downwardAPI volume gives fields only here")
        return self._written(
            name, [(one["path"], field_of(self._pod, one["fieldRef"]["fieldPath"])) for one in items]
        ), True

    def _written(self, name: str, files: Iterable[tuple[str, str]]) -> Path:
        folder = _made(self._places.pod / "volumes" / name)
        for path, text in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder


def claims_of(pod: Json) -> list[str]:
    """The names of the claims that the pod uses."""
    volumes = pod["spec"].get("volumes", ())
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
