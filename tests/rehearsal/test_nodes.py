"""A command on several nodes of a rehearsal: how they are started, what each is told, and how they end together."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.errors import SettingsError
from outlast.rehearse import node_runner
from outlast.rehearse.procedures import procedure_on
from outlast.rehearse.request import Request
from outlast.rehearse.runner import rehearse
from outlast.rehearse.script import read_script

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")
PATIENCE_SECONDS = 60.0


def start_nodes(folder: Path, program: str, count: int = 2) -> subprocess.Popen[str]:
    nodes = [{"TMPDIR": str(folder / f"node-{node}"), "PORT": "{port}", "WHICH": str(node)} for node in range(count)]
    told = json.dumps({"command": [sys.executable, "-c", program], "nodes": nodes})
    return subprocess.Popen(
        [sys.executable, "-I", "-S", node_runner.__file__, told], cwd=folder, stdout=subprocess.PIPE, text=True
    )


def test_each_node_has_its_own_variables_and_scratch_and_all_the_same_port(tmp_path: Path) -> None:
    program = "import os; os.write(1, (' '.join(os.environ[n] for n in ('WHICH', 'PORT', 'TMPDIR')) + '\\n').encode())"
    running = start_nodes(tmp_path, program)
    said = sorted(line.split() for line in running.communicate(timeout=PATIENCE_SECONDS)[0].splitlines())
    assert running.returncode == 0
    assert [which for which, *_ in said] == ["0", "1"]
    assert said[0][1] == said[1][1]
    assert said[0][1].isdigit()
    assert [Path(scratch) for *_, scratch in said] == [tmp_path / "node-0", tmp_path / "node-1"]
    assert (tmp_path / "node-1").is_dir()


@pytest.mark.parametrize(("codes", "together"), [((0, 143), 143), ((143, 78), 78), ((1, 137), 1), ((0, 0), 0)])
def test_the_code_of_the_node_that_says_why_is_that_of_all(
    tmp_path: Path, codes: tuple[int, int], together: int
) -> None:
    running = start_nodes(tmp_path, f"import os, sys; sys.exit({codes}[int(os.environ['WHICH'])])")
    running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == together


def test_a_notice_goes_to_each_node_and_what_a_node_leaves_behind_is_killed(tmp_path: Path) -> None:
    program = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
os.write(1, f"{child.pid}\\n".encode())
time.sleep(600)
"""
    running = start_nodes(tmp_path, program)
    assert running.stdout is not None
    children = [int(running.stdout.readline()) for _ in range(2)]
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 143
    until = time.monotonic() + PATIENCE_SECONDS
    while any(_lives(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(_lives(pid) for pid in children)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_where_a_job_has_no_several_nodes_the_reason_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="independent of each other") as refused:
        read_script(Request(command=("true",), folder=tmp_path, platform="cloud-run", nodes=2))
    assert "--nodes 2" in str(refused.value)
    with pytest.raises(SettingsError, match="1 to 64 of them run on this machine"):
        Request(command=("true",), folder=tmp_path, nodes=0)


def test_each_platform_tells_its_nodes_apart() -> None:
    pods, slurm = procedure_on("kubernetes").nodes, procedure_on("slurm").nodes
    assert pods is not None
    assert slurm is not None
    assert [pods.environment(node, 2)["PET_NODE_RANK"] for node in range(2)] == ["0", "1"]
    assert slurm.environment(1, 2)["SLURM_PROCID"] == "1"
    assert slurm.environment(1, 2)["SLURM_STEP_NUM_TASKS"] == "2"


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        ("node-killed", "node-killed needs several nodes: say --nodes 2"),
        ("rank-killed: {rank: 3}", "rank-killed needs several ranks, and the uninterrupted run had none"),
    ],
)
def test_what_can_hit_nobody_is_not_passed_over(tmp_path: Path, happens: str, why: str) -> None:
    (tmp_path / "job.py").write_text("import time\ntime.sleep(0.3)\nopen('result', 'w').write('1')\n")
    (tmp_path / "s.yaml").write_text(f"attempts: [{{{happens}}}]\n" if ":" in happens else f"attempts: [{happens}]\n")
    report = rehearse(
        Request(command=(sys.executable, "job.py"), folder=tmp_path, platform="slurm", scenarios=("s.yaml",))
    )
    assert report.verdict == "could-not-rehearse"
    assert report.reasons[0].startswith(why)
