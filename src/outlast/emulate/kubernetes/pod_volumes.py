"""The volumes of a pod as folders of this machine, and where its containers have them.

Facts as of 2026-11-30. Kubernetes, "Volumes": an emptyDir ends with its pod; a hostPath belongs to the node's disk, and
ends with the machine; a claim outlives both. GKE, "Cloud Storage FUSE CSI driver": driver gcsfuse.csi.storage.gke.io,
volumeAttributes.bucketName, and the annotation gke-gcsfuse/volumes: "true", without which no sidecar mounts it. A
bucket is a folder here: that its files are objects is not exercised.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.containers.container import SHARED_MEMORY, Mount
from outlast.emulate.kubernetes.defaulting import FILE_MODE
from outlast.emulate.kubernetes.pod_environment import ConfigError, Find, data_of, expanded, field_of
from outlast.platforms import gke_labels

Json = dict[str, Any]
GCSFUSE = gke_labels.GCSFUSE_DRIVER
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
# The kinds of volumes that there are, and the settings of those of which only some are.
KINDS = ("emptyDir", "hostPath", "persistentVolumeClaim", "csi", "configMap", "secret", "downwardAPI")
HOST_PATHS = ("", "Directory", "DirectoryOrCreate")


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

    Raises NotYetMounted for one that is missing. All containers of a pod share their memory, which goes with it.
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
            self._folders[volume["name"]] = kinds[kind](volume["name"], volume.get(kind) or {})

    def mounts(self, container: Json, environment: Mapping[str, str]) -> tuple[Mount, ...]:
        """What a container has where. Raises ConfigError for a mount of no volume."""
        found = [Mount(_made(self._places.pod / "volumes" / ".shm"), SHARED_MEMORY)]
        for one in container.get("volumeMounts", ()):
            if one["name"] not in self._folders:
                raise ConfigError(f'volume mount "{one["name"]}" names no volume of the pod')
            folder, read_only = self._folders[one["name"]]
            if below := one.get("subPath") or expanded(one.get("subPathExpr", ""), environment):
                if "$(" in below or ".." in below.split("/"):
                    raise ConfigError(f'subPath "{below}" of volume mount "{one["name"]}" cannot be')
                folder = folder / below if (folder / below).exists() else _made(folder / below)
            found.append(Mount(folder, Path(one["mountPath"]), bool(one.get("readOnly")) or read_only))
        if self._has_account() and all(str(mount.target) != ACCOUNT_FOLDER for mount in found):
            found.append(Mount(self._places.account, Path(ACCOUNT_FOLDER), read_only=True))
        return tuple(found)

    def last_words(self, container: Json, number: int) -> Mount:
        """The file for the termination message of one start of a container."""
        file = _made(self._places.pod / "volumes" / ".last-words") / f"{container['name']}-{number}"
        file.touch()
        file.chmod(0o666)
        return Mount(file, Path(container.get("terminationMessagePath") or "/dev/termination-log"))

    def _has_account(self) -> bool:
        return bool(self._pod["spec"].get("automountServiceAccountToken", True))

    def _empty(self, name: str, _: Json) -> tuple[Path, bool]:
        return _made(self._places.pod / "volumes" / name), False

    def _host(self, _: str, wanted: Json) -> tuple[Path, bool]:
        folder = self._places.node / wanted["path"].lstrip("/")
        if wanted.get("type") == "Directory" and not folder.is_dir():
            raise NotYetMounted(f"hostPath type check failed: {wanted['path']} is not a directory")
        return _made(folder), False

    def _claim(self, _: str, wanted: Json) -> tuple[Path, bool]:
        claim = wanted["claimName"]
        if self._find("PersistentVolumeClaim", claim) is None:
            raise NotYetMounted(f'persistentvolumeclaim "{claim}" not found')
        namespace = self._pod["metadata"]["namespace"]
        return _made(self._places.claims / f"{namespace}_{claim}"), bool(wanted.get("readOnly"))

    def _bucket(self, _: str, wanted: Json) -> tuple[Path, bool]:
        needed = gke_labels.GCSFUSE_ANNOTATION
        if self._pod["metadata"].get("annotations", {}).get(needed) != "true":
            told = f'failed to find the sidecar container in Pod spec: it lacks annotation {needed}: "true"'
            raise NotYetMounted(told)
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
        data = data_of(found, as_files=True) if found is not None else {}
        items = wanted.get("items")
        if missing := [one["key"] for one in items or () if one["key"] not in data and not wanted.get("optional")]:
            raise NotYetMounted(f"references non-existent {kind.lower()} key: {missing[0]}")
        mode = wanted.get("defaultMode", FILE_MODE)
        if items:
            chosen = [one for one in items if one["key"] in data]
            files = [(one["path"], data[one["key"]], one.get("mode", mode)) for one in chosen]
        else:
            files = [(path, text, mode) for path, text in data.items()]
        return self._written(name, files)

    def _downward(self, name: str, wanted: Json) -> tuple[Path, bool]:
        items, mode = wanted.get("items", ()), wanted.get("defaultMode", FILE_MODE)
        if any("fieldRef" not in one for one in items):
            raise NotYetMounted("a downwardAPI volume gives fields only here")
        fields = [(one, field_of(self._pod, one["fieldRef"]["fieldPath"])) for one in items]
        return self._written(name, [(one["path"], text, one.get("mode", mode)) for one, text in fields]), True

    def _written(self, name: str, files: Iterable[tuple[str, str, int]]) -> Path:
        folder = _made(self._places.pod / "volumes" / name)
        for path, text, mode in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(text.encode(errors="surrogateescape"))
            (folder / path).chmod(mode)
        return folder


def claims_of(pod: Json) -> list[str]:
    """The names of the claims that the pod uses."""
    volumes = pod["spec"].get("volumes", ())
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
