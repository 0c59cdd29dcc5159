"""`outlast run` and a notice: real programs, real signals, the grace of a platform."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from supervised import (
    OUTLAST,
    PID_1,
    Supervised,
    children,
    environment,
    is_alive,
    kill_tree,
    need_pid_namespaces,
    python,
    wait_until,
)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


HOLDS_THE_GIL = "print('ready', flush=True); sum(range(10**10))"
SAVES_ON_TERM = """
import os, pathlib, signal, sys, time
def save(*_):
    time.sleep(0.3)
    pathlib.Path(sys.argv[1]).write_text("saved")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", os.getpid(), flush=True)
while True:
    time.sleep(0.01)
"""
IGNORES_TERM = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print("ready", os.getpid(), worker.pid, flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.parametrize("prefix", [(), PID_1], ids=["plain", "pid-1"])
@pytest.mark.serial
def test_b21_a_step_that_holds_the_gil_is_heard_at_once_and_ended_before_the_sigkill(tmp_path, prefix):
    if prefix:
        need_pid_namespaces()
    # It takes SIGTERM in Python, where a C call that holds the GIL never lets it.
    command = python(
        tmp_path, "j.py", "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(1))\n" + HOLDS_THE_GIL
    )
    events = tmp_path / "events"
    with Supervised("--grace", "3", "--", *command, env={"OUTLAST_EVENTS_FILE": str(events)}, prefix=prefix) as run:
        run.wait_for("ready")
        first_process = children(run.pid)[0] if prefix else run.pid
        (program,) = children(first_process)
        wait_until(lambda: cpu_seconds(program) > 0.3, "the step does not begin")  # start-up takes a tenth of that
        sent_at = run.send(signal.SIGTERM, first_process)
        heard_at, _ = run.moment_and_line("notice: SIGTERM; grace 3.0 s")
        assert run.leave() == 143
        left_after = time.monotonic() - sent_at
    notice, stopped = (json.loads(line) for line in events.read_text().splitlines())
    assert (notice["event"], notice["by"], notice["grace_seconds"]) == ("NoticeHeard", "supervisor", 3)
    assert notice["monotonic"] - sent_at < 0.1
    assert heard_at - sent_at < 0.1
    assert 2.65 < left_after < 3  # not before the job's own guard, at grace - margin, could act
    assert (stopped["event"], stopped["exit_code"]) == ("Stopped", 143)
    assert stopped["reason"] == "the step did not end within the grace"


@pytest.mark.parametrize(
    "shell", [("sh", "-c", "{} {} {}"), ("sh", "-c", "{} {} {}; true"), ("bash", "-c", "{} {} {}; true")]
)
def test_b19_a_program_inside_a_shell_hears_the_notice_and_may_save(tmp_path, shell):
    saved = tmp_path / "saved"
    inner = shell[-1].format(*python(tmp_path, "j.py", SAVES_ON_TERM), saved)
    with Supervised("--grace", "10", "--", *shell[:-1], inner) as run:
        program = int(run.wait_for("ready").split()[1])
        run.send(signal.SIGTERM)
        assert run.leave() == 143
    assert saved.read_text() == "saved"
    assert not is_alive(program)


def test_a_program_that_hears_it_is_not_told_twice_and_its_workers_are_left_to_it(tmp_path):
    command = python(
        tmp_path,
        "j.py",
        """
import signal, subprocess, sys, time
heard = []
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
print("ready", flush=True)
while not heard:
    time.sleep(0.01)
time.sleep(0.5)
print("worker", worker.poll(), "heard", len(heard), flush=True)
sys.exit(143)
""",
    )
    with Supervised("--grace", "10", "--", *command) as run:
        run.wait_for("ready")
        run.send(signal.SIGTERM)
        assert run.leave() == 143
        assert run.wait_for("worker") == "worker None heard 1"


def test_a_command_that_ignores_the_notice_is_killed_with_all_it_started(tmp_path):
    with Supervised("--grace", "2", "--retries", "5", "--", *python(tmp_path, "j.py", IGNORES_TERM)) as run:
        pids = [int(word) for word in run.wait_for("ready").split()[1:]]
        sent_at = run.send(signal.SIGTERM)
        time.sleep(1)
        run.send(signal.SIGTERM)  # a second one moves no deadline
        assert run.leave() == 143
        assert 1.75 < time.monotonic() - sent_at < 2
    assert not any(map(is_alive, pids))
    assert not any("attempt 2" in line for line in run.lines())


LEAVES_ON_USR1 = """
import os, signal, sys, time
print("importing", os.getpid(), flush=True)
time.sleep(0.4)
assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
signal.signal(signal.SIGUSR1, lambda *_: sys.exit("told ahead"))
while True:
    time.sleep(0.01)
"""


def test_a_signal_ahead_of_the_end_reaches_a_program_only_once_it_can_hear_it(tmp_path):
    """A Python that is still importing would die of SIGUSR1; `sh` never catches it, and is left alone."""
    events = tmp_path / "events"
    env = {"SLURM_JOB_ID": "7", "OUTLAST_EVENTS_FILE": str(events)}
    with (
        Supervised("--retries", "3", "--", *python(tmp_path, "j.py", LEAVES_ON_USR1), env=env) as run,
        Supervised(
            "--retries", "3", "--", "sh", "-c", "echo begun; sleep 1; exit 3", env={"SLURM_JOB_ID": "8"}
        ) as deaf,
    ):
        run.wait_for("importing")
        deaf.wait_for("begun")
        sent_at = run.send(signal.SIGUSR1)
        deaf.send(signal.SIGUSR1)
        heard_at, _ = run.moment_and_line("notice: SIGUSR1; grace 30 s")
        assert heard_at - sent_at < 0.1
        run.wait_for("told ahead")
        assert (run.leave(), deaf.leave()) == (143, 3)
    assert not any("attempt 2" in line for line in [*run.lines(), *deaf.lines()])
    [notice] = map(json.loads, events.read_text().splitlines())
    assert (notice["event"], notice["source"], notice["kind"]) == ("NoticeHeard", "SIGUSR1", "advance")


def test_work_that_is_done_in_the_grace_is_done(tmp_path):
    finishes = "import signal, time; signal.signal(15, lambda *_: exit(0)); print('ready', flush=True); time.sleep(100)"
    with Supervised("--", *python(tmp_path, "j.py", finishes)) as run:
        run.wait_for("ready")
        run.send(signal.SIGTERM)
        assert run.leave() == 0


@pytest.mark.parametrize(
    ("code", "wanted", "left"), [(1, "0", 0), (1, "17", 17), (0, "17", 0), (75, "0", 75), (78, "0", 78)]
)
def test_the_interrupted_code_can_be_set(tmp_path, code, wanted, left):
    leaves = (
        f"import signal, time; signal.signal(15, lambda *_: exit({code})); print('ready', flush=True); time.sleep(100)"
    )
    with Supervised("--", *python(tmp_path, "j.py", leaves), env={"OUTLAST_EXIT_CODE": wanted}) as run:
        run.wait_for("ready")
        run.send(signal.SIGTERM)
        assert run.leave() == left


def test_without_a_notice_an_exit_code_setting_changes_nothing():
    with Supervised("--", "sh", "-c", "exit 3", env={"OUTLAST_EXIT_CODE": "0"}) as run:
        assert run.leave() == 3


def test_a_notice_during_a_pause_ends_it_at_once():
    with Supervised("--retries", "5", "--", "sh", "-c", "exit 75") as run:
        run.wait_for("attempt 2 starts in 5.0 s")
        sent_at = run.send(signal.SIGTERM)
        assert run.leave() == 143
        assert time.monotonic() - sent_at < 1


def test_a_stopped_command_hears_the_notice(tmp_path):
    saved = tmp_path / "saved"
    with Supervised("--grace", "10", "--", *python(tmp_path, "j.py", SAVES_ON_TERM), str(saved)) as run:
        program = int(run.wait_for("ready").split()[1])
        run.send(signal.SIGSTOP, program)
        time.sleep(0.2)
        run.send(signal.SIGTERM)
        assert run.leave() == 143
    assert saved.exists()


@pytest.mark.serial
def test_a_reader_that_is_stuck_does_not_hold_up_the_deadline(tmp_path):
    """Standard error is a full pipe that nobody reads: the lines are lost, the deadline is kept."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    command = python(tmp_path, "j.py", IGNORES_TERM)
    process = subprocess.Popen(
        [*OUTLAST, "--grace", "1", "--", *command], env=environment(), stdout=subprocess.PIPE, stderr=writing
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        sent_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(5) == 143
            assert time.monotonic() - sent_at < 1.5
        finally:
            kill_tree(process.pid)
    os.close(reading)
    os.close(writing)


def test_where_logs_are_collected_the_lines_are_json():
    with Supervised("--platform", "cloud-run", "--", sys.executable, "-c", HOLDS_THE_GIL) as run:
        run.wait_for("ready")
        run.send(signal.SIGTERM)
        assert run.leave() == 143
        assert [json.loads(line)["severity"] for line in run.lines()] == ["NOTICE"]
