"""Runs a command in a network of its own, where a cloud's metadata server is at its real address and name.

`unshare --net --mount python link_local.py CONTROLS -- COMMAND`: CONTROLS is a JSON file that says what the servers
announce, read anew whenever it changes. With "node" in it, the API server of a cluster with this node is there too,
and the service account of a pod at its usual place.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kubernetes_server import ApiServer, Cluster
from notice_servers import Controls, Server

ADDRESS = "169.254.169.254"
PREFIX = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--net", "--mount")
_SET_FLAGS, _SET_ADDRESS, _UP, _RUNNING = 0x8914, 0x8916, 0x1, 0x40


def prefix(controls: Path) -> tuple[str, ...]:
    """What runs a command there."""
    return (*PREFIX, sys.executable, str(Path(__file__).resolve()), str(controls), "--")


@cache
def is_possible() -> bool:
    """Whether a network and mounts of its own can be had here."""
    try:
        return subprocess.run([*PREFIX, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def announce(controls: Path, **values: object) -> None:
    """Changes what the servers say, in one piece."""
    known = json.loads(controls.read_text()) if controls.exists() else {}
    part = controls.with_suffix(".part")
    part.write_text(json.dumps({**known, **values}))
    part.replace(controls)


def _make_network() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP | _RUNNING))
        address = struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(ADDRESS))
        fcntl.ioctl(control, _SET_ADDRESS, address)


def _mount(source: Path, target: str) -> None:
    subprocess.run(["mount", "--bind", str(source), target], check=True)


def _name_the_server(folder: Path) -> None:
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{ADDRESS} metadata.google.internal\n")
    _mount(hosts, "/etc/hosts")


def _let_names_hang(folder: Path) -> socket.socket:
    """A name server that never answers, and no file that knows the name."""
    (folder / "hosts").write_text("127.0.0.1 localhost\n")
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    _mount(folder / "resolv.conf", "/etc/resolv.conf")
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 53))
    return silent


def _start_cluster(folder: Path, ends: ExitStack) -> tuple[Callable[..., None], dict[str, str]]:
    """What sets the pod's node, and the environment of the pod."""
    cluster = Cluster()
    cluster.pod("trainer-0", "node-1")
    server = ends.enter_context(ApiServer(cluster, folder / "serviceaccount"))
    run = Path("/var/run").resolve()  # what is below it is of this machine, and nothing of it is needed here
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(run)], check=True)
    (run / "secrets/kubernetes.io").mkdir(parents=True)
    (run / "secrets/kubernetes.io/serviceaccount").symlink_to(folder / "serviceaccount")
    return cluster.node, server.env


def _follow(path: Path, controls: Controls, set_node: Callable[..., None]) -> None:
    seen = path.read_text()
    while True:
        time.sleep(0.01)
        text = path.read_text()
        if text != seen:
            seen = text
            said = json.loads(text)
            controls.set(**said)
            if "node" in said:
                set_node(**said["node"])


def main() -> int:
    """Returns the command's exit code."""
    path, command = Path(sys.argv[1]), sys.argv[3:]
    _make_network()
    _name_the_server(path.parent)
    said = json.loads(path.read_text())
    controls, set_node, env = Controls(**said), Cluster().node, {}
    with ExitStack() as ends:
        if "node" in said:
            set_node, env = _start_cluster(path.parent, ends)
            set_node(**said["node"])
        if said.get("names_hang"):
            ends.enter_context(_let_names_hang(path.parent))
        ends.enter_context(Server(controls, host=ADDRESS, port=80))
        threading.Thread(target=_follow, args=(path, controls, set_node), daemon=True).start()
        return subprocess.run(command, check=False, env={**os.environ, **env}).returncode


if __name__ == "__main__":
    sys.exit(main())
