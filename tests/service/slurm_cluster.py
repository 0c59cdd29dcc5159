"""A cluster of two nodes: real munged, slurmctld and slurmd on the loopback, for root, once per test run.

Both nodes are this machine, and claim 64 processors, so that many small jobs run at a time; jobs of the partition
`fragile` run on the second, which a test may take down. Slurm looks at time limits every 30 s only, and no setting
changes that, so a test that needs a limit submits all its jobs at once. The choices of this site: `RequeueExit=143`;
a job that is started again waits for 5 s instead of 120 (`cred_expire`).
"""

import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service import servers

SOURCE = Path(__file__).parents[2] / "src"
OUTLAST_RUN = (sys.executable, "-c", "from outlast.cli.main import main; main()", "run", "--")
LONGEST_WAIT_SECONDS = 90.0
_CONFIG = """
ClusterName=outlast
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthInfo=socket={folder}/munge.sock,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=0
KillWait=30
OverTimeLimit=0
RequeueExit=143
NodeName=steady NodeHostname={host} NodeAddr=127.0.0.1 Port={steady_port} CPUs=64
NodeName=fragile NodeHostname={host} NodeAddr=127.0.0.1 Port={fragile_port} CPUs=64
PartitionName=main Nodes=steady Default=YES MaxTime=INFINITE State=UP
PartitionName=fragile Nodes=fragile MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """The running one. `config` is what its commands find it by."""

    config: str

    def ask(self, *command: str, check: bool = True, env: Mapping[str, str] | None = None) -> str:
        """What a command of Slurm prints."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OUTLAST_")}
        done = subprocess.run(
            command,
            env={**clean, "SLURM_CONF": self.config, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout.strip()


def cluster() -> Cluster:
    """The test run's cluster; skips where Slurm is not installed, or may not be started."""
    return Cluster(servers.shared("slurm", _start))


def _start(ctld_port: int) -> str:
    munged, slurmctld, slurmd = (_found(name) for name in ("munged", "slurmctld", "slurmd"))
    if not (munged and slurmctld and slurmd and _found("srun")):
        pytest.skip("Slurm is not installed: apt-get install slurmctld slurmd slurm-client munge")
    if os.getuid() != 0:
        pytest.skip("Slurm's daemons need root")
    folder = servers.shared_folder() / "slurm.state"
    (folder / "state").mkdir(parents=True)
    socket_file, config = _start_munged(munged, folder), folder / "slurm.conf"
    names = {"host": socket.gethostname().partition(".")[0], "folder": folder, "ctld_port": ctld_port}
    config.write_text(_CONFIG.format(**names, steady_port=servers.free_port(), fragile_port=servers.free_port()))
    servers.wait_for(socket_file.exists, "munged")
    servers.start_kept("slurmctld", [slurmctld, "-D", "-f", str(config)])
    servers.wait_for(lambda: servers.listens(ctld_port), "slurmctld")
    for node in ("steady", "fragile"):
        servers.start_kept(f"slurmd-{node}", [slurmd, "-D", "-N", node, "-f", str(config)])
    there = Cluster(str(config))
    servers.wait_for(lambda: there.ask("sinfo", "-h", "-N", "-o", "%T", check=False) == "idle\nidle", "slurmd")
    return there.config


def _start_munged(munged: str, folder: Path) -> Path:
    key, where = folder / "munge.key", folder / "munge.sock"
    key.write_bytes(secrets.token_bytes(64))
    key.chmod(0o400)
    files = [f"--{kind}-file={folder / f'munge.{kind}'}" for kind in ("key", "pid", "log", "seed")]
    servers.start_kept("munged", [munged, "-F", "--force", f"--socket={where}", *files])
    return where


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin")


@dataclass
class BatchJob:
    """A job of the cluster: a program of Python in a folder of its own, which is the store's too.

    `launch` is what stands before the program in the batch script: `exec outlast run --`, srun, or both.
    """

    cluster: Cluster
    folder: Path
    id: str

    @classmethod
    def submit(
        cls,
        cluster: Cluster,
        folder: Path,
        program: str,
        launch: str,
        *options: str,
        after: str = "",
        **variables: str,
    ) -> "BatchJob":
        """Sent to the queue. `launch`: `outlast run --` in it stands for that command. `after`: the script's rest."""
        folder.mkdir(parents=True)
        (folder / "program.py").write_text(program)
        before = launch.replace("outlast run --", shlex.join(OUTLAST_RUN))
        script = folder / "job.sh"
        script.write_text(f"#!/bin/bash\n{before} {shlex.join([sys.executable, str(folder / 'program.py')])}\n{after}")
        command = ["sbatch", "--parsable", "--requeue", "--open-mode=append", "--time=1", "--job-name=train"]
        where = [f"--chdir={folder}", f"--output={folder}/out-%a", *options, str(script)]
        env = {"PYTHONPATH": str(SOURCE), "OUTLAST_URL": str(folder / "store"), "OUTLAST_GRACE": "4", **variables}
        return cls(cluster, folder, cluster.ask(*command, *where, env=env))

    def scontrol(self, verb: str, *settings: str) -> None:
        """`requeue`, or an update of the job."""
        self.cluster.ask("scontrol", verb, *([f"JobId={self.id}", *settings] if settings else [self.id]))

    @property
    def shown(self) -> dict[str, str]:
        """What `scontrol show job` says, of the last task of an array."""
        told = self.cluster.ask("scontrol", "show", "job", self.id)
        return dict(pair.split("=", 1) for pair in told.split() if "=" in pair)

    @property
    def state(self) -> str:
        return self.shown["JobState"]

    @property
    def said(self) -> str:
        """All that the job printed, over all its lives."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("out-*")))

    @property
    def trace(self) -> list[tuple[int, int]]:
        """(restart count, completed step), in the order in which they came."""
        path = self.folder / "trace"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(life), int(step)) for life, step in (line.split() for line in lines if line.count(" ") == 1)]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The journals' events, attempt by attempt."""
        journals = sorted((self.folder / "store").glob("*/*/*/journal/*.jsonl"))
        return [json.loads(line) for journal in journals for line in journal.read_text().splitlines()]

    def wait(self, until: Callable[["BatchJob"], bool], what: str) -> "BatchJob":
        """Until something holds; fails with all that is known after a minute and a half."""
        end = time.monotonic() + LONGEST_WAIT_SECONDS
        while not until(self):
            if time.monotonic() > end:
                pytest.fail(f"job {self.id}: {what} did not come; {self.shown}\n{self.trace[-5:]}\n{self.said}")
            time.sleep(0.1)
        return self

    def done(self) -> "BatchJob":
        """Until it has ended for good."""
        return self.wait(lambda job: job.state == "COMPLETED", "its end")
