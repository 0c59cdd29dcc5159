"""`outlast run` and the process tree: as PID 1, with orphans, with leftovers."""

import os
import signal
import subprocess
import time

import pytest
from supervised import PID_1, Supervised, children, environment, is_alive, need_pid_namespaces, python, run_to_the_end

MAKES_ORPHANS = """
import os, pathlib, subprocess, time
for _ in range(20):
    subprocess.run(["sh", "-c", "sleep 0.05 &"])
time.sleep(0.5)
def state(pid):
    try:
        return (pathlib.Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None  # it ended while we looked
us = str(os.getppid())
zombies = [p for p in os.listdir("/proc") if p.isdigit() and state(p) == ["Z", us]]
print("supervisor", us, "zombies", len(zombies), flush=True)
"""


def test_as_pid_1_every_orphan_is_reaped(tmp_path):
    need_pid_namespaces()
    with Supervised("--", *python(tmp_path, "j.py", MAKES_ORPHANS), prefix=PID_1) as run:
        assert run.leave() == 0
        assert run.wait_for("supervisor") == "supervisor 1 zombies 0"


def test_elsewhere_too(tmp_path):
    with Supervised("--", *python(tmp_path, "j.py", MAKES_ORPHANS)) as run:
        assert run.leave() == 0
        assert run.wait_for("supervisor") == f"supervisor {run.pid} zombies 0"


LEAVES_A_DAEMON = '''
import os, subprocess, sys
# a new session and a parent that is gone: no process group leads to it
inner = """import subprocess; n = subprocess.DEVNULL
print(subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=n, stderr=n).pid)"""
made = subprocess.run([sys.executable, "-c", inner], capture_output=True, text=True)
print("daemon", made.stdout.strip(), flush=True)
sys.exit(int(sys.argv[1]))
'''


@pytest.mark.parametrize("code", [0, 3])
def test_a_daemon_that_was_left_behind_is_killed_before_the_next_attempt(tmp_path, code):
    command = (*python(tmp_path, "j.py", LEAVES_A_DAEMON), str(code))
    left, out, err = run_to_the_end("--retries", "1", "--", *command)
    assert left == code
    daemons = [int(line.split()[1]) for line in out]
    assert len(daemons) == (2 if code else 1)
    assert not any(map(is_alive, daemons))
    assert sum("killed what the command left running" in line for line in err) == len(daemons)


def test_a_command_that_forks_as_fast_as_it_can_leaves_nothing(tmp_path):
    # Each process lives on through a child of its own, in a new session.
    runner = """
import os, pathlib, sys, time
mark = pathlib.Path(sys.argv[1])
if os.fork() == 0:
    os.setsid()
    for _ in range(800):
        if os.fork() != 0:
            os._exit(0)
        time.sleep(0.001)
    mark.write_text("one got away")
    os._exit(0)
time.sleep(0.2)
"""
    mark = tmp_path / "mark"
    assert run_to_the_end("--", *python(tmp_path, "j.py", runner), str(mark))[0] == 0
    time.sleep(2)  # twice what the chain needs for its end
    assert not mark.exists()


MISSES_ONE_SCAN = """
import os, sys, time
from outlast.supervise.processes import CommandProcesses
with CommandProcesses() as processes:
    pid = processes.start(["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 & echo $!"], os.environ, lambda: None)
    while pid not in dict(processes.reap()):
        time.sleep(0.01)
    (orphan,) = processes.orphans()
    while os.getsid(orphan) != orphan:  # until then the command's group still leads to it
        time.sleep(0.01)
    scan, scans = processes._descendants, []
    def blind_at_first():
        scans.append(scan() if scans else [])
        return scans[-1]
    processes._descendants = blind_at_first
    print("killed", *processes.kill_all(pid, 5), flush=True)
"""


def test_a_scan_that_misses_a_process_is_not_the_last_one(tmp_path):
    """As happens when it forks and ends while /proc is read."""
    command = python(tmp_path, "j.py", MISSES_ONE_SCAN)
    out = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True, timeout=20).stdout
    left, killed = out.splitlines()
    assert killed == f"killed {left}"
    assert not is_alive(int(left))


def test_a_sidecar_that_an_entry_script_started_before_is_left_alone(tmp_path):
    entry = ("sh", "-c", 'sleep 1000 > /dev/null 2>&1 & echo sidecar $!; exec "$@"', "sh")
    with Supervised("--retries", "1", "--", "sh", "-c", "sleep 999 & exit 1", prefix=entry) as run:
        sidecar = int(run.wait_for("sidecar").split()[1])
        try:
            assert run.leave() == 1
            assert is_alive(sidecar)
            assert sum("killed what the command left running" in line for line in run.lines()) == 2
        finally:
            os.kill(sidecar, signal.SIGKILL)


FORWARDED = ["SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"]
HEARS = """
import os, signal, subprocess, sys, time
names = sys.argv[1:]
worker = os.fork()
who = "command" if worker else "worker"
for name in names:
    signal.signal(getattr(signal, name), lambda n, _: os.write(1, f"{who} {signal.Signals(n).name}\\n".encode()))
os.write(1, f"ready {who}\\n".encode())  # in one piece: two processes share the pipe
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("prefix", [(), PID_1], ids=["plain", "pid-1"])
def test_signals_reach_the_command_and_only_the_command(tmp_path, prefix):
    if prefix:
        need_pid_namespaces()
    command = (*python(tmp_path, "j.py", HEARS), *FORWARDED)
    with Supervised("--", *command, prefix=prefix) as run:
        run.wait_for("ready command")
        run.wait_for("ready worker")
        supervisor = children(run.pid)[0] if prefix else run.pid
        for name in FORWARDED:
            run.send(getattr(signal, name), supervisor)
            run.wait_for(f"command {name}")
        run.send(signal.SIGTERM, supervisor)
        assert run.leave() == 143
        assert sorted(line for _, line in run.out if not line.startswith("ready")) == sorted(
            f"command {name}" for name in FORWARDED
        )


def test_what_nohup_ignores_the_command_ignores_too(tmp_path):
    tell = "import signal; print('hup', signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, flush=True)"
    with Supervised("--", *python(tmp_path, "j.py", tell), prefix=("sh", "-c", 'trap "" HUP; exec "$@"', "sh")) as run:
        assert run.leave() == 0
        assert run.wait_for("hup") == "hup True"


def test_the_command_starts_with_the_signals_that_any_program_expects():
    code, out, _ = run_to_the_end("--", "sh", "-c", "grep -E 'SigIgn|SigBlk' /proc/self/status")
    assert code == 0
    internal_to_glibc = 0b11 << 31  # 32 and 33, which no program uses; posix_spawn leaves them ignored
    assert [int(line.split()[1], 16) & ~internal_to_glibc for line in out] == [0, 0]
