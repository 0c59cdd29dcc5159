"""The servers of the batch part, on free loopback ports, started when first asked for and gone with this process."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_DEBIAN_POSTGRES = "/usr/lib/postgresql"  # its programs are not on PATH
_EMULATOR = "platform/pubsub-emulator/lib"


class Servers:
    """One server of each kind for all rounds."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._open = folder, ExitStack()
        self._addresses: dict[str, str | RuntimeError] = {}

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def address(self, kind: str) -> str:
        """HOST:PORT; raises RuntimeError, each time, where the server is not installed or does not start."""
        if kind not in self._addresses:
            try:
                self._addresses[kind] = self._open.enter_context(_STARTING[kind](self._folder))
            except RuntimeError as error:
                self._addresses[kind] = error
        found = self._addresses[kind]
        if isinstance(found, RuntimeError):
            raise found
        return found


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """PostgreSQL with its default settings, fsync included; the folder's disk is the one that is measured."""
    programs = _postgres_programs()
    data = folder / "postgres"
    data.mkdir()
    as_user = []
    if os.geteuid() == 0:  # it refuses to run as root
        shutil.chown(data, "postgres", "postgres")
        folder.chmod(0o711)
        if closed := [str(parent) for parent in folder.parents if not parent.stat().st_mode & 0o001]:
            raise RuntimeError(f"the user postgres cannot enter {closed[0]}: choose another --folder")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    command = [*as_user, f"{programs}/initdb", "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"]
    subprocess.run(command, check=True, capture_output=True, cwd="/")
    port = _free_port()
    settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={data}"]
    command = [f"{programs}/postgres", "-D", str(data), *(f"--{setting}" for setting in settings)]
    if as_user:
        command = [*as_user, "--pdeathsig", "QUIT", *command]
    with _running(command, port, signal.SIGINT, folder / "postgres.log") as address:
        yield address


@contextlib.contextmanager
def pubsub(folder: Path) -> Iterator[str]:
    """Google's Pub/Sub emulator, by its jar: gcloud's wrapper leaves it running."""
    jar = next(iter(sorted(_cloud_sdk().joinpath(_EMULATOR).glob("cloud-pubsub-emulator-*.jar"))), None)
    if jar is None or shutil.which("java") is None:
        raise RuntimeError("no Pub/Sub emulator here: gcloud components install pubsub-emulator, and Java")
    port = _free_port()
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-jar", str(jar), "--host=127.0.0.1", f"--port={port}"]
    with _running(["setpriv", "--pdeathsig", "KILL", *command], port, signal.SIGTERM, folder / "pubsub.log") as address:
        yield address


_STARTING: dict[str, Callable[[Path], contextlib.AbstractContextManager[str]]] = {
    "postgresql": postgres,
    "pubsub": pubsub,
}


def _postgres_programs() -> str:
    if found := shutil.which("initdb"):
        return str(Path(found).parent)
    versions = sorted(Path(_DEBIAN_POSTGRES).glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not versions:
        raise RuntimeError("no PostgreSQL server here: apt-get install postgresql")
    return str(versions[-1].parent)


def _cloud_sdk() -> Path:
    if root := os.environ.get("CLOUDSDK_ROOT"):
        return Path(root)
    if shutil.which("gcloud") is None:
        raise RuntimeError("no gcloud here, and no CLOUDSDK_ROOT")
    command = ["gcloud", "info", "--format=value(installation.sdk_root)"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def _running(command: list[str], port: int, stop: signal.Signals, log: Path) -> Iterator[str]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd="/", start_new_session=True)
    try:
        _wait_for(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(stop)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.05)
    said = log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    raise RuntimeError(f"{Path(process.args[0]).name} did not start: {said[0]}")
