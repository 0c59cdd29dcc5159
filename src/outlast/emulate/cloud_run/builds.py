"""`jobs deploy --source`: the upload of the sources, and a build that makes an image of them.

Nothing is built: the image has the uploaded files in the folder that the Dockerfile's last WORKDIR names, and starts as
its ENTRYPOINT, CMD and ENV say. What RUN would have installed is what this machine has.
"""

import hashlib
import io
import threading
import zipfile
from pathlib import Path
from typing import Any

from outlast.emulate.cloud_run.dockerfiles import read_start
from outlast.emulate.cloud_run.images import Image, Images
from outlast.emulate.cloud_run.refusals import Refused, not_emulated

_SOURCES = "run-sources-"  # how gcloud names the bucket for sources
_BUILD = "type.googleapis.com/google.devtools.cloudbuild.v1."


class Builds:
    """The uploaded sources, and the images that were built of them. May be used from several threads."""

    def __init__(self, images: Images, folder: Path) -> None:
        self._images, self._folder = images, folder
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], bytes] = {}
        self._built: dict[str, dict[str, Any]] = {}

    def bucket(self, name: str) -> dict[str, Any]:
        """A bucket for sources, which is there as soon as it is asked for. Raises Refused for any other."""
        if not name.startswith(_SOURCES):
            raise not_emulated(f"buckets are folders here, named at the start; there is no API for '{name}'.")
        return {"kind": "storage#bucket", "id": name, "name": name}

    def upload(self, bucket: str, name: str, kind: str, parts: list[bytes]) -> dict[str, Any]:
        """An archive of sources."""
        self.bucket(bucket)
        if kind != "multipart" or len(parts) != 2:
            raise not_emulated("sources of more than 5 MiB cannot be uploaded here; name an image with --image.")
        with self._lock:
            self._objects[bucket, name] = parts[1]
        return {"kind": "storage#object", "bucket": bucket, "name": name, "generation": "1", "size": str(len(parts[1]))}

    def submit(self, project: str, region: str, request: dict[str, Any]) -> dict[str, Any]:
        """Makes the image. The answer is the operation of a build, which is over already."""
        if "dockerBuild" not in request:
            raise not_emulated("buildpacks are not here; the sources need a Dockerfile.")
        source = request.get("storageSource", {})
        with self._lock:
            archive = self._objects.get((source.get("bucket", ""), source.get("object", "")))
        if archive is None or not request.get("imageUri"):
            raise Refused("INVALID_ARGUMENT", "storageSource or imageUri: there is no such object, or no image.")
        digest = hashlib.sha256(archive).hexdigest()
        image = f"{request['imageUri']}@sha256:{digest}"
        self._images.add(image, _image_of(archive, self._folder / digest))
        name = f"projects/{project}/locations/{region}/builds/{digest[:12]}"
        build: dict[str, Any] = {
            "id": digest[:12],
            "name": name,
            "projectId": project,
            "status": "SUCCESS",
            "logUrl": f"{name}/log",
            "results": {"images": [{"name": request["imageUri"], "digest": f"sha256:{digest}"}]},
        }
        with self._lock:
            self._built[digest[:12]] = build
        metadata = {"@type": f"{_BUILD}BuildOperationMetadata", "build": build}
        return {"buildOperation": {"name": _operation(project, region, build["id"]), "metadata": metadata}}

    def operation(self, project: str, region: str, build_id: str) -> dict[str, Any]:
        """The operation of a build."""
        with self._lock:
            build = self._built.get(build_id)
        if build is None:
            raise Refused("NOT_FOUND", f"There is no build '{build_id}'.")
        name = _operation(project, region, build_id)
        return {"name": name, "done": True, "response": {"@type": f"{_BUILD}Build", **build}}


def _unpack(archive: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        for member in packed.infolist():
            path = Path(packed.extract(member, folder))
            mode = member.external_attr >> 16 & 0o777
            if mode:
                path.chmod(mode)


def _operation(project: str, region: str, build_id: str) -> str:
    return f"projects/{project}/locations/{region}/operations/{build_id}"


def _image_of(archive: bytes, folder: Path) -> Image:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _unpack(archive, folder)
        start = read_start((folder / "Dockerfile").read_text())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Refused("INVALID_ARGUMENT", f"storageSource: no archive with a Dockerfile: {error}") from error
    if not (*start.entry_point, *start.arguments):
        raise not_emulated("the Dockerfile has neither ENTRYPOINT nor CMD, and the base image is not here.")
    return Image(
        folder,
        start.entry_point,
        start.arguments,
        working_folder=None if start.working_folder is None else Path(start.working_folder),
        environment=start.environment,
    )
