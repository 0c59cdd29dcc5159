"""What the emulated Cloud Run does to a task's processes: signals, graces, timeouts, retries, mounts, log lines."""

import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.containers import processes
from outlast.containers.container import can_isolate
from outlast.emulate.cloud_run import objects
from outlast.emulate.cloud_run.execution import Execution
from outlast.emulate.cloud_run.images import Image
from outlast.emulate.cloud_run.server import CloudRun
from outlast.emulate.scale import TimeScale

pytestmark = pytest.mark.skipif(not can_isolate(), reason="needs PID namespaces")

_PROGRAM = """
import json, os, signal, sys, time
done = "/checkpoints/done"
mode, asked = sys.argv[1], []
attempt = int(os.environ["CLOUD_RUN_TASK_ATTEMPT"])
for number in (signal.SIGTSTP, signal.SIGCONT):
    signal.signal(number, lambda number, _: print("heard", signal.Signals(number).name, flush=True))
if mode != "deaf":
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("attempt", attempt, "task", os.environ["CLOUD_RUN_TASK_INDEX"], "of", os.environ["CLOUD_RUN_TASK_COUNT"],
      "pid", os.getpid(), "files", sorted(os.listdir(".")), flush=True)
open("mine", "w").close()
marks = [folder + os.environ["CLOUD_RUN_EXECUTION"] for folder in ("/var/tmp/", "/dev/shm/", "/")]
print("marked", [mark for mark in marks if os.path.exists(mark)], flush=True)
for mark in marks:
    open(mark, "w").close()
if mode == "fails":
    sys.exit(7)
if mode == "short" or (mode == "once" and attempt):
    print(json.dumps({"severity": "warning", "message": "done", "step": 5}), file=sys.stderr)
    sys.exit(0)
while not asked:
    time.sleep(0.01)
with open(done, "a") as file:
    file.write(f"{attempt}\\n")
sys.exit(0 if mode == "lies" else 143)
"""


@contextmanager
def _cloud(tmp_path: Path, speed: float = 20.0) -> Iterator[CloudRun]:
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "task.py").write_text(_PROGRAM)
    image = Image(folder, (sys.executable, "-u", "task.py"))
    buckets = {"ckpt": tmp_path / "bucket"}
    with CloudRun(folder=folder, images={"task": image}, buckets=buckets, scale=TimeScale(speed)) as cloud:
        yield cloud


def _execute(cloud: CloudRun, mode: str, *, name: str = "train", gpu: bool = False, **task: Any) -> Execution:
    """Deploys a job and executes it, by the API's own verbs."""
    tasks = {key: task.pop(key) for key in ("taskCount", "parallelism") if key in task}
    container: dict[str, Any] = {
        "image": "task",
        "args": [mode],
        "volumeMounts": [{"name": "bucket", "mountPath": "/checkpoints"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"} if gpu else {}},
    }
    container |= task.pop("container", {})
    csi = {"driver": "gcsfuse.run.googleapis.com", "volumeAttributes": {"bucketName": "ckpt"}}
    spec = {"containers": [container], "volumes": [{"name": "bucket", "csi": csi}], **task}
    document = {
        "apiVersion": "run.googleapis.com/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {**tasks, "template": {"spec": spec}}}},
    }
    cloud.deploy(document)
    return cloud.execute(name)


def _post(cloud: CloudRun, control: str, body: Any = None) -> Any:
    """What the emulator's own control answers."""
    raw = b"" if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{cloud.url}/emulator/{control}", raw, timeout=10) as answer:
        return json.loads(answer.read())


def _lines(cloud: CloudRun) -> list[str]:
    return [entry.get("textPayload") or json.dumps(entry["jsonPayload"]) for entry in cloud.log_entries()]


def _wait_for(cloud: CloudRun, text: str, count: int = 1) -> None:
    give_up = time.monotonic() + 20
    while sum(text in line for line in _lines(cloud)) < count:
        assert time.monotonic() < give_up, f"no {text!r} in {_lines(cloud)}"
        time.sleep(0.01)


def _ends(execution: Execution) -> list[tuple[int, str | None, bool]]:
    assert execution.wait(20)
    return [(one.end.exit_code, one.end.cause, one.end.killed) for one in execution.attempts]


def test_maintenance_ends_a_gpu_task_which_is_tried_again_in_a_fresh_container(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "once", gpu=True)
        _wait_for(cloud, "attempt 0")
        assert _post(cloud, "maintenance")["are"] == "terminated"
        assert _ends(execution) == [(143, "maintenance", False), (0, None, False)]
        assert execution.state.succeeded
        assert execution.state.retried == 1
        lines, entries = _lines(cloud), cloud.log_entries()
    # Each attempt is PID 1, and finds the files of the image, not what the last one wrote; the bucket keeps it.
    assert [line for line in lines if line.startswith("attempt")] == [
        f"attempt {n} task 0 of 1 pid 1 files ['task.py']" for n in (0, 1)
    ]
    assert (tmp_path / "bucket" / "done").read_text() == "0\n"
    assert not Path("/checkpoints").exists()
    # The container's file system goes with it, wherever it was written to.
    assert lines.count("marked []") == 2
    assert not any(Path(folder, execution.name).exists() for folder in ("/var/tmp", "/dev/shm", "/"))
    preempted = [entry for entry in entries if "INSTANCE_PREEMPTED" in entry.get("textPayload", "")]
    assert [entry["severity"] for entry in preempted] == ["WARNING"]
    assert preempted[0]["logName"] == "projects/demo/logs/run.googleapis.com%2Fvarlog%2Fsystem"
    assert preempted[0]["labels"]["run.googleapis.com/task_attempt"] == "0"
    assert lines.index("Container called exit(143).") < lines.index("attempt 1 task 0 of 1 pid 1 files ['task.py']")
    # A line of JSON is a structured entry with its own severity.
    structured = next(entry for entry in entries if "jsonPayload" in entry)
    assert structured["severity"] == "WARNING"
    assert structured["jsonPayload"] == {"message": "done", "step": 5}
    assert structured["logName"].endswith("%2Fstderr")


def test_who_does_not_hear_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:  # PID 1 without a handler ignores SIGTERM, as in a real container
        execution = _execute(cloud, "deaf", gpu=True, maxRetries=0)
        _wait_for(cloud, "attempt 0")
        began = time.monotonic()
        cloud.maintain(execution.name, 0)
        assert _ends(execution) == [(137, "maintenance", True)]
        assert 0.5 <= time.monotonic() - began < 8, "10 s at 20 times the speed"
        assert "Container terminated on signal 9." in _lines(cloud)
    assert execution.state.count("Failed") == 1


def test_who_leaves_with_0_at_maintenance_has_succeeded_in_the_platform_s_eyes(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "lies", gpu=True)
        _wait_for(cloud, "attempt 0")
        cloud.maintain()
        assert _ends(execution) == [(0, "maintenance", False)]
        assert execution.state.succeeded


def test_a_timeout_is_a_failure_whatever_the_exit_code(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        limits = {"timeoutSeconds": 30, "maxRetries": 1}
        executions = {0: _execute(cloud, "lies", name="lies", **limits), 143: _execute(cloud, "waits", **limits)}
        for code, execution in executions.items():
            assert _ends(execution) == [(code, "timeout", False)] * 2
            assert execution.state.count("Failed") == 1
            assert execution.state.first_failed is not None
            assert execution.state.first_failed.last is not None
            assert execution.state.first_failed.last.message == "The configured timeout was reached."
        assert sum("maximum timeout of 30 seconds" in line for line in _lines(cloud)) == 4


def test_a_task_fails_when_its_retries_are_used_up(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "fails", maxRetries=2)
        assert _ends(execution) == [(7, None, False)] * 3
        told = objects.execution_object(execution)["status"]
        task = objects.task_object(execution, execution.state.tasks[0])
    assert (told["failedCount"], told["retriedCount"]) == (1, 1)
    completed = {one["type"]: one for one in told["conditions"]}["Completed"]
    assert (completed["status"], completed["reason"]) == ("False", "NonZeroExitCode")
    message = f"Task {execution.name}-task0 failed with exit code: 7 and message: The container exited with an error."
    assert completed["message"] == message
    assert task["status"]["retried"] == 2
    assert task["status"]["lastAttemptResult"]["exitCode"] == 7
    assert task["metadata"]["labels"]["run.googleapis.com/runningState"] == "Failed"


def test_a_crash_gives_no_notice(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "once")
        _wait_for(cloud, "attempt 0")
        told = _post(cloud, "crash", {"execution": execution.name, "task": 0})
        assert told == {"execution": execution.name, "tasks": [0], "are": "killed"}
        assert _ends(execution) == [(137, "crash", True), (0, None, False)]
        assert not (tmp_path / "bucket" / "done").exists()


def test_tasks_run_as_many_at_a_time_as_the_parallelism_allows(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "once", taskCount=3, parallelism=2)
        _wait_for(cloud, "attempt 0", count=2)
        assert execution.running_tasks() == [0, 1]
        assert cloud.crash(task=1) == [1]
        _wait_for(cloud, "attempt 0", count=3)
        cloud.crash()
        assert execution.wait(20)
        assert execution.state.succeeded
        assert {line.split()[3] for line in _lines(cloud) if line.startswith("attempt")} == {"0", "1", "2"}


def test_cancelling_ends_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "lies", taskCount=3, parallelism=1)
        _wait_for(cloud, "attempt 0")
        cloud.cancel(execution.name)
        assert _ends(execution) == [(0, "cancelled", False)]
        assert execution.state.count("Cancelled") == 3
        assert not execution.state.succeeded


def test_a_task_without_a_gpu_is_moved_and_goes_on(tmp_path: Path) -> None:
    with _cloud(tmp_path, speed=10) as cloud:  # a SIGTSTP that was not taken by then is lost to SIGCONT
        execution = _execute(cloud, "once")
        _wait_for(cloud, "attempt 0")
        assert cloud.maintain() == [0]
        began = time.monotonic()
        _wait_for(cloud, "migration of the container instance is complete")
        assert time.monotonic() - began >= 0.9
        for name in ("SIGTSTP", "SIGCONT"):  # a busy program hears both at once, the one with the lower number first
            _wait_for(cloud, f"heard {name}")
        heard = [line for line in _lines(cloud) if line.startswith("heard") or "migration" in line]
        assert execution.running_tasks() == [0]
        assert execution.attempts == ()
    assert sorted(heard) == [
        "Live migration of the container instance begins in 10 seconds.",
        "Live migration of the container instance is complete.",
        "heard SIGCONT",
        "heard SIGTSTP",
    ]


def test_mounts_are_what_the_container_says(tmp_path: Path) -> None:
    script = "pwd; ls; echo x >/keep/new; cat /data/in; echo x >/data/out || echo refused; echo $OUTLAST_GRACE"
    (tmp_path / "bucket" / "sub").mkdir(parents=True)
    (tmp_path / "bucket" / "sub" / "in").write_text("given\n")
    mounts = [
        {"name": "bucket", "mountPath": "/data", "subPath": "sub", "readOnly": True},
        {"name": "memory", "mountPath": "/keep"},
    ]
    container = {"command": ["sh", "-c"], "args": [script], "volumeMounts": mounts, "workingDir": "/app/x"}
    csi = {"driver": "gcsfuse.run.googleapis.com", "volumeAttributes": {"bucketName": "ckpt"}}
    volumes = [{"name": "bucket", "csi": csi}, {"name": "memory", "emptyDir": {}}]
    with _cloud(tmp_path) as cloud:
        execution = _execute(cloud, "", container=container, volumes=volumes)
        assert _ends(execution) == [(0, None, False)]
        lines = _lines(cloud)
        assert _ends(_execute(cloud, "a\0b", name="no-word", maxRetries=0)) == [(125, None, False)]
    assert [line for line in lines if "Read-only" not in line] == [
        "/app/x", "task.py", "given", "refused", "0.5", "Container called exit(0).",
    ]  # fmt: skip
    assert not (tmp_path / "bucket" / "sub" / "out").exists()


def test_nothing_is_left_running_when_the_emulator_ends(tmp_path: Path) -> None:
    before = set(processes.descendants(os.getpid()))
    with _cloud(tmp_path) as cloud:
        _execute(cloud, "deaf", taskCount=2)
        _wait_for(cloud, "attempt 0", count=2)
        assert set(processes.descendants(os.getpid())) > before
    assert set(processes.descendants(os.getpid())) <= before
