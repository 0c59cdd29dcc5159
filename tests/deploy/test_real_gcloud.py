"""Steps with the real gcloud: how it tells what is there, and that it takes the build and uploads the source.

The services are a few lines here, for what these commands call, in the form of their answers; nothing is built.
"""

import io
import json
import os
import re
import shutil
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from outlast.deploy.apply import write_file
from outlast.deploy.cloud_run.steps import plan_for
from outlast.deploy.description_file import Described, description_from
from outlast.deploy.tools import InstalledTools, says_it_is_there
from outlast.emulate.cloud_run.server import gcloud_environment

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="needs gcloud")
_SETTINGS = {
    "name": "train", "command": ["python", "train.py"], "source": ".", "url": "gs://example-bucket/a",
    "project": "example-project", "region": "europe-west4",
}  # fmt: skip
_BUILD = "type.googleapis.com/google.devtools.cloudbuild.v1."


def _second_part(body: bytes) -> bytes:
    """The content of a multipart upload, whose first part describes it."""
    boundary = body.lstrip().split(b"\n", 1)[0].strip()
    part = body.split(boundary)[2]
    end = part.index(b"\n\n") + 2 if b"\r\n\r\n" not in part[:200] else part.index(b"\r\n\r\n") + 4
    return part[end:].removesuffix(b"\n").removesuffix(b"\r")


class _Services(BaseHTTPRequestHandler):
    """A bucket that takes an object, and a build that succeeds at once."""

    uploads: ClassVar[list[bytes]] = []
    builds: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[str]] = []
    answers: ClassVar[dict[str, dict[str, Any]]] = {}

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def answer(self, body: bytes) -> None:
        path = re.sub(r"^http://[^/]+", "", self.path).partition("?")[0]
        self.asked.append(f"{self.command} {path}")
        said = self.said(path, body)
        content = json.dumps(said or {"error": {"code": 404, "message": f"{path} is not here"}}).encode()
        self.send_response(200 if said else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def said(self, path: str, body: bytes) -> dict[str, Any] | None:
        if path in self.answers:
            return self.answers[path]
        if self.command == "GET" and re.fullmatch(r"/storage/v1/b/[^/]+", path) and not self.answers:
            return {"kind": "storage#bucket", "name": path.rpartition("/")[2]}
        if path.startswith("/upload/storage/v1/b/"):
            archive = _second_part(body)
            self.uploads.append(archive)
            name = parse_qs(urlsplit(self.path).query)["name"][0]
            found = {"bucket": path.split("/")[5], "name": name, "generation": "1", "size": str(len(archive))}
            return {"kind": "storage#object", **found}
        if self.command == "POST" and path.endswith("/builds"):
            build = json.loads(body)
            name = f"{path.removeprefix('/v1/')}/b1"
            build |= {"name": name, "projectId": name.split("/")[1]}
            self.builds.append({**build, "asked_at": path})
            done = {**build, "id": "b1", "status": "SUCCESS", "logUrl": "http://log.test/"}
            return {
                "name": "operations/build/b1",
                "metadata": {"@type": f"{_BUILD}BuildOperationMetadata", "build": done},
            }
        if path.split("/")[-2:] == ["builds", "b1"]:
            build = {name: value for name, value in self.builds[-1].items() if name != "asked_at"}
            return {**build, "id": "b1", "status": "SUCCESS", "logUrl": "http://log.test/"}
        return None

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Services]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Services)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name, value in gcloud_environment(server.server_port, str(tmp_path / "config"), "example-project").items():
        monkeypatch.setenv(name, value)
    for name in ("IAM", "SERVICEUSAGE", "CLOUDRESOURCEMANAGER"):
        monkeypatch.setenv(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name}", "http://google.local.test/")
    for noted in (_Services.uploads, _Services.builds, _Services.asked, _Services.answers):
        noted.clear()
    yield _Services
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_real_gcloud_uploads_the_source_and_asks_for_the_build(services: type[_Services], tmp_path: Path) -> None:
    source = tmp_path / "here"
    (source / "data").mkdir(parents=True)
    (source / ".venv").mkdir()
    for name in ("train.py", "data/large.bin", "secret.env", ".venv/x"):
        (source / name).write_text(name)
    (source / ".gitignore").write_text("*.env\n")
    files = source / ".outlast-deploy" / "cloud-run-train"
    steps = {one.name: one for one in plan_for(Described(description_from(_SETTINGS), source, None), files).steps}
    for file in (*steps["dockerfile"].files, *steps["image"].files):
        write_file(file, files)
    done = InstalledTools(files).ask(steps["image"].commands[0].argv)
    assert done.code == 0, f"{done.output}\n{done.errors}\n{services.asked}"

    (build,) = services.builds
    assert build["serviceAccount"] == (
        "projects/example-project/serviceAccounts/train-build@example-project.iam.gserviceaccount.com"
    )
    assert build["images"] == [steps["image"].makes[0].name]
    assert "/locations/europe-west4/" in build["asked_at"]
    assert build["source"]["storageSource"]["bucket"] == "example-bucket"
    assert build["source"]["storageSource"]["object"].startswith("outlast-sources/train/")
    (archive,) = services.uploads
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        names = {os.path.normpath(one.name) for one in packed.getmembers() if one.isfile()}
    assert names == {"Dockerfile", "train.py", "data/large.bin", ".gitignore"}


def _policy(role: str, account: str) -> dict[str, Any]:
    member = f"serviceAccount:{account}@example-project.iam.gserviceaccount.com"
    return {"etag": "BwUA", "bindings": [{"role": role, "members": ["user:a@mail.example", member]}]}


def test_the_real_gcloud_tells_what_is_there_in_the_words_that_are_looked_for(
    services: type[_Services], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("")
    repository = "/v1/projects/example-project/locations/europe-west4/repositories/train"
    services.answers.update(
        {
            "/v1/projects/example-project/services": {
                "services": [{"config": {"name": "run.googleapis.com"}, "state": "ENABLED"}]
            },
            "/storage/v1/b/example-bucket/iam": _policy("roles/storage.objectUser", "train-job"),
            "/v1/projects/example-project:getIamPolicy": _policy("roles/logging.logWriter", "train-build"),
            f"{repository}:getIamPolicy": _policy("roles/artifactregistry.writer", "another"),
            "/storage/v1/b/example-bucket/o": {"kind": "storage#objects"},
        }
    )
    plan = plan_for(Described(description_from(_SETTINGS), tmp_path, None), tmp_path / "made", execute=False)
    things = [made for step in plan.steps for made in step.makes if made.kind != "job"]
    asked = {made.probe.argv: made.probe for made in things if made.probe}
    with ThreadPoolExecutor(3) as pool:
        answers = dict(zip(asked, pool.map(InstalledTools(tmp_path).ask, asked), strict=True))
    there = {made.name for made in things if made.probe and says_it_is_there(made.probe, answers[made.probe.argv])}
    assert there == {
        "run.googleapis.com",
        "roles/storage.objectUser on gs://example-bucket for train-job@example-project.iam.gserviceaccount.com",
        "roles/logging.logWriter on example-project for train-build@example-project.iam.gserviceaccount.com",
    }, services.asked
