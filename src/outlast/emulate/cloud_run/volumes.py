"""A task's volumes: buckets as folders, and memory that goes with the attempt."""

import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from outlast.containers.container import Mount
from outlast.emulate.cloud_run.refusals import invalid, not_emulated

_GCSFUSE = "gcsfuse.run.googleapis.com"
_NO_PLACES = ("dev", "proc", "sys")  # a container could not work without its own
_TASK = "spec.template.spec.template.spec"


def check_volumes(task: Mapping[str, Any], buckets: Mapping[str, Path]) -> None:
    """Raises Refused for volumes and mounts that do not fit together, or that the emulator has not."""
    names = set()
    for number, volume in enumerate(task.get("volumes", [])):
        at = f"{_TASK}.volumes[{number}]"
        if not volume.get("name") or volume["name"] in names:
            raise invalid(f"{at}.name", "a volume needs a name of its own.")
        names.add(volume["name"])
        _check_source(volume, at, buckets)
    for number, container in enumerate(task["containers"]):
        _check_mounts(container.get("volumeMounts", []), f"{_TASK}.containers[{number}].volumeMounts", names)


def _check_source(volume: Mapping[str, Any], at: str, buckets: Mapping[str, Path]) -> None:
    sources = set(volume) - {"name"}
    if len(sources) != 1:
        raise invalid(at, "a volume has exactly one source.")
    source = sources.pop()
    if source not in ("csi", "emptyDir"):
        raise not_emulated(f"{at}: volumes of the kind {source} cannot be mounted here; buckets and emptyDir can.")
    if source == "emptyDir":
        return
    csi = volume["csi"]
    if csi.get("driver") != _GCSFUSE:
        raise invalid(f"{at}.csi.driver", f"should be {_GCSFUSE}, not {csi.get('driver')}.")
    bucket = csi.get("volumeAttributes", {}).get("bucketName")
    if not bucket:
        raise invalid(f"{at}.csi.volumeAttributes", "bucketName is required.")
    options = csi["volumeAttributes"].get("mountOptions", "")
    if "only-dir" in options:
        raise not_emulated(f"{at}.csi.volumeAttributes.mountOptions: only-dir cannot be heeded here: {options}")
    if bucket not in buckets:
        raise not_emulated(
            f"{at}: no folder stands for the bucket '{bucket}'; name one, as with --bucket {bucket}=DIR."
        )


def _check_mounts(mounts: list[dict[str, Any]], at: str, names: set[str]) -> None:
    places = []
    for number, mount in enumerate(mounts):
        if mount.get("name") not in names:
            raise invalid(f"{at}[{number}].name", f"there is no volume '{mount.get('name')}'.")
        place = PurePosixPath(mount.get("mountPath", ""))
        if not place.is_absolute() or len(place.parts) < 2 or ".." in place.parts:
            raise invalid(f"{at}[{number}].mountPath", f"should be an absolute path, not '{place}'.")
        if place.parts[1] in _NO_PLACES:
            raise invalid(f"{at}[{number}].mountPath", f"nothing can be mounted at {place}.")
        if ".." in PurePosixPath(mount.get("subPath", "")).parts:
            raise invalid(f"{at}[{number}].subPath", f"'{mount['subPath']}' leads out of the volume.")
        places.append(place)
    for place in places:
        if sum(place == other or place in other.parents for other in places) > 1:
            raise invalid(at, f"'{place}' is mounted twice, or something is mounted below it.")


def mounts_of(
    task: Mapping[str, Any], container: Mapping[str, Any], buckets: Mapping[str, Path], private: Path
) -> tuple[Mount, ...]:
    """What one attempt has mounted. `private` is its own folder, which goes with it."""
    volumes = {volume["name"]: volume for volume in task.get("volumes", [])}
    found, memory = [], {}
    for wanted in container.get("volumeMounts", []):
        volume = volumes[wanted["name"]]
        csi = volume.get("csi")
        if csi is None:
            if wanted["name"] not in memory:
                memory[wanted["name"]] = Path(tempfile.mkdtemp(prefix="memory-", dir=private))
            source = memory[wanted["name"]]
        else:
            source = buckets[csi["volumeAttributes"]["bucketName"]]
        source = source / wanted.get("subPath", "").strip("/")
        source.mkdir(parents=True, exist_ok=True)
        read_only = bool(wanted.get("readOnly") or (csi or {}).get("readOnly"))
        found.append(Mount(source, Path(wanted["mountPath"]), read_only))
    return tuple(found)
