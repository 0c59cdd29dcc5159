"""Runs a command in a network of its own, where a cloud's metadata server is at its real address and name.

`unshare --net --mount python link_local.py CONTROLS -- COMMAND`: CONTROLS is a JSON file that says what the servers
announce, read anew whenever it changes. With "kubernetes" in it, the API server of a cluster is there too, and the
service account of a pod at its usual place.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from notice_servers import Controls, Server

ADDRESS = "169.254.169.254"
PREFIX = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--net", "--mount")
_SET_FLAGS, _SET_ADDRESS, _UP, _RUNNING = 0x8914, 0x8916, 0x1, 0x40


def prefix(controls: Path) -> tuple[str, ...]:
    """What runs a command there."""
    return (*PREFIX, sys.executable, str(Path(__file__).resolve()), str(controls), "--")


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


def _follow(path: Path, controls: Controls) -> None:
    seen = None
    while True:
        text = path.read_text()
        if text != seen:
            seen = text
            controls.set(**json.loads(text))
        time.sleep(0.01)


def main() -> int:
    """Returns the command's exit code."""
    path, command = Path(sys.argv[1]), sys.argv[3:]
    _make_network()
    _name_the_server(path.parent)
    controls = Controls(**json.loads(path.read_text()))
    threading.Thread(target=_follow, args=(path, controls), daemon=True).start()
    with Server(controls, host=ADDRESS, port=80):
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
