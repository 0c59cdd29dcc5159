"""B22: a signal comes before the loop does, or the job has to share signals with somebody else."""

import signal
import threading
from pathlib import Path

import pytest
from signalled import LOOP, START, Program, commits, events, indented, run
from supervised import PID_1, need_pid_namespaces

IN_TIME_SECONDS = 10.0  # of a grace of 30: it did not wait for the guard
STEP_LOOP = "for step in job.steps(8):\n    say('a step')\n"
EPOCH_LOOP = "for epoch in job.epochs(2):\n    for batch in job.batches(range(4)):\n        say('a step')\n"
SIGNAL_TO_ITSELF = "os.kill(os.getpid(), signal.SIGTERM)\nuntil_it_is_heard()\n"


@pytest.fixture(params=[(), PID_1], ids=["plain", "pid-1"])
def prefix(request: pytest.FixtureRequest) -> tuple[str, ...]:
    if request.param:
        need_pid_namespaces()
    return request.param


def test_before_the_job_is_made_the_signal_does_what_it_always_did(tmp_path: Path) -> None:
    with Program("import time, outlast\nprint('imported', flush=True)\ntime.sleep(1000)", tmp_path) as program:
        program.wait_for("imported").send()
        assert program.leave().code == -signal.SIGTERM
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("loop", [STEP_LOOP, EPOCH_LOOP])
def test_a_signal_between_the_job_and_the_loop_stops_before_the_first_step(
    loop: str, prefix: tuple[str, ...], tmp_path: Path
) -> None:
    program = START + "say('made')\ntime.sleep(0.3)\n" + loop
    with Program(program, tmp_path, prefix=prefix) as running:
        running.wait_for("made")
        sent_at = running.send()
        left = running.leave()
    assert left.code == 143
    assert left.at - sent_at < IN_TIME_SECONDS
    assert "a step" not in left.out
    assert commits(tmp_path) == [], "a stop before the first step saved"
    assert events(tmp_path, "SaveStarted") == []
    assert run(program, tmp_path).code == 0


@pytest.mark.parametrize(
    "begin",
    [
        f"{SIGNAL_TO_ITSELF}{STEP_LOOP}",
        f"loop = job.steps(8)\n{SIGNAL_TO_ITSELF}for step in loop:\n    say('a step')\n",
        f"loop = job.epochs(8)\n{SIGNAL_TO_ITSELF}for epoch in loop:\n    say('a step')\n",
        f"for epoch in job.epochs(2):\n{SIGNAL_TO_ITSELF}".replace("\nos", "\n    os").replace("\nuntil", "\n    until")
        + "    for batch in job.batches(range(4)):\n        say('a step')\n",
        f"job.register('more', [1])\n{SIGNAL_TO_ITSELF}job.check()\nsay('a step')\n",
    ],
)
def test_a_signal_just_before_the_loop_stops_before_the_first_step(begin: str, tmp_path: Path) -> None:
    left = run(START + begin, tmp_path)
    assert left.code == 143
    assert "a step" not in left.out
    assert commits(tmp_path) == []


def test_a_signal_while_the_checkpoint_is_read_ends_the_start(prefix: tuple[str, ...], tmp_path: Path) -> None:
    program = START.replace('{"done": []}', '{"done": [], "blob": os.urandom(60 << 20)}')
    assert run(program + "job.save()\n", tmp_path).code == 0
    before = commits(tmp_path)
    (tmp_path / "events").unlink()
    with Program(program + STEP_LOOP, tmp_path, prefix=prefix) as running:
        running.wait_for_event("AttemptStarted")
        sent_at = running.send()
        left = running.leave()
    assert left.code == 143
    assert left.at - sent_at < IN_TIME_SECONDS
    assert "a step" not in left.out
    assert events(tmp_path, "LoopStarted") == []
    assert commits(tmp_path) == before
    assert run(program + STEP_LOOP, tmp_path).out.count("a step") == 8


def test_signals_all_along_the_start_leave_with_one_of_the_two_right_codes(tmp_path: Path) -> None:
    """Whatever line it is on: killed by the signal before there is a job, the retry code after."""
    codes = []
    for tenths in range(8):
        with Program(START + "until_it_is_heard()\n" + STEP_LOOP, tmp_path) as program:
            timer = threading.Timer(tenths * 0.05, program.send)
            timer.start()
            codes.append(program.leave().code)
            timer.join()
    assert set(codes) <= {-signal.SIGTERM, 143}
    assert commits(tmp_path) == []
    assert all(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())


# --- signals are shared -----------------------------------------------------------------------------

IN_A_SIDE_THREAD = """
import threading, time
import outlast

def train(name):
    job = outlast.Job(state={"n": 1}, name=name)
    for step in job.steps(8):
        pass
    print(name, "finished", job.finished, flush=True)

for name in ("first", "second"):
    thread = threading.Thread(target=train, args=(name,))
    thread.start()
    thread.join()
"""


def test_a_job_in_a_side_thread_works_and_warns_once(tmp_path: Path) -> None:
    left = run(IN_A_SIDE_THREAD, tmp_path)
    assert left.code == 0
    assert left.out == "first finished True\nsecond finished True\n"
    assert sum("side thread" in line for line in left.told()) == 1


def test_a_job_in_the_main_thread_hears_after_one_in_a_side_thread(tmp_path: Path) -> None:
    main = "job = outlast.Job(state={})\nimport os\nos.kill(os.getpid(), 15)\nfor step in job.steps(None):\n    pass\n"
    assert run(IN_A_SIDE_THREAD + main, tmp_path).code == 143


EARLIER_HANDLER = "import signal\ndef mine(number, frame):\n    print('mine', number, flush=True)\n"


def test_a_handler_of_the_user_is_called_too_and_is_put_back_after_the_loop(tmp_path: Path) -> None:
    program = EARLIER_HANDLER + "signal.signal(signal.SIGTERM, mine)\n" + START
    stopped = run(program + SIGNAL_TO_ITSELF + STEP_LOOP, tmp_path)
    assert stopped.code == 143
    assert stopped.out == "mine 15\n"
    after = "assert signal.getsignal(signal.SIGTERM) is mine\nos.kill(os.getpid(), 15)\nuntil_it_is_heard()\n"
    finished = run(program + STEP_LOOP + after, tmp_path)
    assert finished.code == 0, finished.err
    assert finished.out.endswith("mine 15\n")


def test_a_closed_terminal_stops_a_job_with_a_save(tmp_path: Path) -> None:
    with Program(START + LOOP, tmp_path) as running:
        running.wait_for("begun").send(signal.SIGHUP)
        assert running.leave().code == 143
    (stopped,) = events(tmp_path, "Stopped")
    assert stopped["step"] == commits(tmp_path)[-1] >= 7


OF_A_JOB = f"{START}os.kill(os.getpid(), signal.SIGHUP)\ntime.sleep(0.1)\n{STEP_LOOP}"
OF_A_WORKER = """
import os, time
import outlast
from outlast.testing import MemorySink

def infer(items):
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(0.1)
    return [print("a step") for _ in items]

queue = outlast.Queue("sqlite:///work.db")
queue.publish(dict.fromkeys("abcdefgh"))
assert outlast.batch(queue, sink=MemorySink(), chunk=4)(infer).run().computed == 8
"""


@pytest.mark.parametrize("program", [OF_A_JOB, OF_A_WORKER], ids=["job", "worker"])
def test_a_closed_terminal_is_left_to_a_handler_of_the_user(program: str, tmp_path: Path) -> None:
    left = run(EARLIER_HANDLER + "signal.signal(signal.SIGHUP, mine)\n" + program, tmp_path)
    assert left.code == 0, left.err
    assert left.out.count("a step") == 8
    assert "mine 1\n" in left.out


@pytest.mark.parametrize("leaves", ["sys.exit(0)", "raise KeyboardInterrupt"])
def test_a_handler_of_the_user_that_leaves_does_not_look_like_success(leaves: str, tmp_path: Path) -> None:
    handler = f"import signal, sys\ndef mine(number, frame):\n    {leaves}\nsignal.signal(signal.SIGTERM, mine)\n"
    assert run(handler + START + SIGNAL_TO_ITSELF + "time.sleep(1)\n", tmp_path).code == 143


def test_an_event_loop_that_was_there_before_still_gets_its_signals(tmp_path: Path) -> None:
    program = """
import asyncio

async def main():
    import signal
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, heard.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print, "usr1")
"""
    job = START + "os.kill(os.getpid(), signal.SIGUSR1)\n" + SIGNAL_TO_ITSELF
    after = "await asyncio.wait_for(heard.wait(), 10)\nsay('both')\n"
    program += indented("\n" + job) + indented("\n" + after + STEP_LOOP)
    left = run(program + "\nasyncio.run(main())\n", tmp_path)
    assert left.code == 143
    assert left.out == "usr1\nboth\n"


@pytest.mark.parametrize("goes", ["", "loop.remove_signal_handler(signal.SIGUSR1)\n", "loop.close()\n"])
def test_a_job_still_hears_when_an_event_loop_takes_the_wakeup_descriptor(goes: str, tmp_path: Path) -> None:
    program = (
        START
        + "import asyncio\nloop = asyncio.new_event_loop()\nloop.add_signal_handler(signal.SIGUSR1, print)\n"
        + goes
    )
    with Program(program + LOOP, tmp_path) as running:
        running.wait_for("begun")
        sent_at = running.send()
        left = running.leave()
    assert left.code == 143
    assert left.at - sent_at < IN_TIME_SECONDS
    (stopped,) = events(tmp_path, "Stopped")
    assert stopped["step"] == commits(tmp_path)[-1]


def test_a_descriptor_that_its_owner_closed_gets_no_stray_byte(tmp_path: Path) -> None:
    """Its number can stand for any file by then, a checkpoint among them."""
    before = "import os, signal, socket\nours, theirs = socket.socketpair()\nours.setblocking(False)\n"
    before += "number = ours.fileno()\nsignal.set_wakeup_fd(number)\n"
    after = "ours.close()\nfile = open('file', 'wb')\nassert file.fileno() == number\n"
    left = run(before + START + after + SIGNAL_TO_ITSELF + "time.sleep(0.1)\n" + STEP_LOOP, tmp_path)
    assert left.code == 143, left.err
    assert (tmp_path / "file").read_bytes() == b""


def test_importing_and_describing_a_state_installs_nothing(tmp_path: Path) -> None:
    left = run(
        "import signal, sys, threading\nbefore = signal.getsignal(15), sys.excepthook\nimport outlast\n"
        "assert before == (signal.getsignal(15), sys.excepthook)\nassert threading.active_count() == 1\n"
        "assert signal.set_wakeup_fd(-1) == -1\n",
        tmp_path,
    )
    assert left.code == 0, left.err
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]
