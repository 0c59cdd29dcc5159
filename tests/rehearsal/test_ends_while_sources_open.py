"""A process that ends while a source of notices is still importing its client: it ends in order, and in time."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import outlast
from kubernetes_server import ApiServer, Cluster
from outlast.notices import watching

SOURCE = str(Path(outlast.__file__).parents[1])
# Python ends threads that wait for the interpreter when it is on its way out. Inside of a client that is written in
# Rust or C++, as cryptography is, that aborts the process: the platform sees 134 or 139 in place of the job's own code.
CLIENT = """
import pathlib, time
pathlib.Path("importing").touch()
time.sleep(1.5)
pathlib.Path("imported").touch()
"""
PROGRAM = """
import pathlib, time, outlast
job = outlast.Job("store", state={"n": [0]})
for step in job.steps(1):
    while not pathlib.Path("importing").exists():
        time.sleep(0.01)
"""


def test_a_job_that_ends_lets_an_import_of_a_source_end_first(tmp_path: Path) -> None:
    client = tmp_path / "clients" / "kubernetes"
    client.mkdir(parents=True)
    (client / "__init__.py").write_text(CLIENT)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("OUTLAST_", "KUBERNETES_"))}
    env |= {"PYTHONPATH": f"{client.parent}{os.pathsep}{SOURCE}", "KUBERNETES_SERVICE_HOST": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=env, check=False, timeout=60)
    assert done.returncode == 0
    assert (tmp_path / "imported").exists()


ASKING = """
import os, sys, threading, time
from kubernetes.config import incluster_config
incluster_config.SERVICE_TOKEN_FILENAME = sys.argv[1] + "/token"
incluster_config.SERVICE_CERT_FILENAME = sys.argv[1] + "/ca.crt"
from outlast.sources.kubernetes_api import KubernetesApi
api = KubernetesApi(os.environ)
threading.Thread(target=api.node, args=["node-1"], daemon=True).start()
sys.stdin.readline()
"""


def test_a_process_that_ends_while_it_asks_the_api_server_ends_in_order(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.fault = "drip of headers"
    with ApiServer(cluster, tmp_path / "account") as server:
        words = [sys.executable, "-c", ASKING, str(tmp_path / "account")]
        env = {**os.environ, **server.env, "PYTHONPATH": SOURCE}
        with subprocess.Popen(words, cwd=tmp_path, env=env, stdin=subprocess.PIPE) as asking:
            while not cluster.requests and asking.poll() is None:
                time.sleep(0.01)
            time.sleep(0.2)  # in the midst of the answer
            asking.communicate(b"\n", timeout=60)
        cluster.fault = None
    assert asking.returncode == 0


def test_an_import_that_does_not_end_holds_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LONGEST_EXIT_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(watching, "_ending", threading.Event())
    begun, ending = threading.Event(), threading.Event()

    def open_for_ever() -> None:
        with watching._opening:
            begun.set()
            ending.wait(30)

    stuck = threading.Thread(target=open_for_ever)
    stuck.start()
    begun.wait(10)
    begin = time.monotonic()
    watching._open_no_more()
    assert time.monotonic() - begin < 5
    ending.set()
    stuck.join()
