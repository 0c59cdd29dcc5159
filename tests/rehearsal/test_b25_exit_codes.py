"""B25: the exit code says what became of the work: done, interrupted, to be tried again, in need of a human."""

import signal
from pathlib import Path

import pytest
from signalled import LOOP, START, Left, Program, commits, events, run

STEP_LOOP = "for step in job.steps(8):\n    state['done'].append(step)\n"
STOP = "os.kill(os.getpid(), signal.SIGTERM)\nuntil_it_is_heard()\n"
STOP_IN_THE_LOOP = STEP_LOOP + "    if step == 6:\n        " + STOP.replace("\nuntil", "\n        until")
AFTER = "say('after the loop', state['done'])\n"
ALL_DONE = f"after the loop {list(range(8))}\n"


def one_line(left: Left) -> str:
    (line,) = (line for line in left.told() if "error:" in line)
    return line


# --- 0 and 143 --------------------------------------------------------------------------------------


def test_finished_work_leaves_with_0_and_interrupted_work_with_143(tmp_path: Path) -> None:
    interrupted = run(START + STOP_IN_THE_LOOP + AFTER, tmp_path)
    assert (interrupted.code, interrupted.out) == (143, "")
    assert commits(tmp_path) == [5, 7]
    finished = run(START + STEP_LOOP + AFTER, tmp_path)
    assert (finished.code, finished.out) == (0, ALL_DONE)


@pytest.mark.parametrize("code", ["0", "17", "255"])
@pytest.mark.parametrize("swallowed", [False, True], ids=["", "swallowed"])
def test_the_interrupted_code_can_be_set(code: str, swallowed: bool, tmp_path: Path) -> None:
    program = START + STOP_IN_THE_LOOP
    if swallowed:
        program = START + "with contextlib.suppress(SystemExit):\n    " + STOP_IN_THE_LOOP.replace("\n", "\n    ")
    assert run(program, tmp_path, env={"OUTLAST_EXIT_CODE": code}).code == int(code)
    assert commits(tmp_path) == [5, 7]


# --- 1: the program's own ---------------------------------------------------------------------------

RAISES = "    if step == 6:\n        raise ValueError('mine')\n"


def test_an_exception_of_the_program_keeps_its_code_and_its_traceback(tmp_path: Path) -> None:
    left = run(START + STEP_LOOP + RAISES, tmp_path)
    assert left.code == 1
    assert "Traceback" in left.err
    assert "ValueError: mine" in left.err
    assert [event["error"] for event in events(tmp_path, "Crashed")] == ["ValueError: mine"]
    assert commits(tmp_path) == [5], "the step that broke off was saved"
    assert run(START + STEP_LOOP + RAISES.replace("raise ValueError('mine')", "sys.exit(3)"), tmp_path).code == 3


def test_an_exception_while_a_notice_is_pending_is_an_interruption_with_a_traceback(tmp_path: Path) -> None:
    program = START + STOP_IN_THE_LOOP + "        raise ConnectionError('the other side was stopped too')\n"
    left = run(program, tmp_path)
    assert left.code == 143
    assert "Traceback" in left.err
    assert "ConnectionError: the other side was stopped too" in left.err
    assert events(tmp_path, "Crashed") == [], "such ends would add up to a crash loop"
    (stopped,) = events(tmp_path, "Stopped")
    assert (stopped["exit_code"], stopped["lost_steps"]) == (143, 1)


def test_a_person_at_the_keyboard_is_no_crash(tmp_path: Path) -> None:
    with Program(START + LOOP, tmp_path) as program:
        program.wait_for("begun").send(signal.SIGINT)
        left = program.leave()
    assert left.code == -signal.SIGINT
    assert "KeyboardInterrupt" in left.err
    assert events(tmp_path, "Crashed") == []


# --- 75: a retry may help ---------------------------------------------------------------------------

BREAK_THE_STORE = {
    "gone, a file instead": "import shutil\nshutil.rmtree('store')\nopen('store', 'w').close()\n",
    "gone": "import shutil\nshutil.rmtree('store')\n",
    "full": "import resource\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n",
}


def indented_twice(source: str) -> str:
    return "".join(f"        {line}\n" for line in source.splitlines())


@pytest.mark.parametrize("fault", BREAK_THE_STORE)
@pytest.mark.parametrize("end", ["finish", "finish, noticed", "finish, noticed, always restarted", "stop"])
def test_when_the_last_save_fails_a_retry_may_help(fault: str, end: str, tmp_path: Path) -> None:
    spoil = f"    if step == 6:\n{indented_twice(BREAK_THE_STORE[fault])}"
    if end == "stop":
        spoil += indented_twice(STOP)
    elif "noticed" in end:
        spoil += f"    if step == 7:\n{indented_twice(STOP)}"
    env = {"OUTLAST_EXIT_CODE": "0"} if "always" in end else {}
    if fault == "full":  # what is written to the file of events counts too
        env["OUTLAST_EVENTS_FILE"] = ""
    left = run(START + STEP_LOOP + spoil + AFTER, tmp_path, env=env)
    assert left.code == 75, left.err
    assert "after the loop" not in left.out
    assert "Traceback" not in left.err
    assert any("the save at step" in line and "failed" in line for line in left.told())
    if fault == "full":
        assert commits(tmp_path) == [5]
        again = run(START + STEP_LOOP + AFTER, tmp_path)
        assert (again.code, again.out) == (0, ALL_DONE)


@pytest.mark.parametrize("fault", ["gone, a file instead", "full"])
def test_a_save_that_fails_on_the_way_stops_nothing(fault: str, tmp_path: Path) -> None:
    spoil = f"    if step == 3:\n{indented_twice(BREAK_THE_STORE[fault])}    if step == 7:\n        sys.exit(4)\n"
    left = run(START + STEP_LOOP + spoil, tmp_path, env={"OUTLAST_EVENTS_FILE": ""})
    assert left.code == 4, left.err
    first, again = (line for line in left.told() if "error:" in line)
    assert "the save at step 5 failed" in first
    assert "Last good checkpoint: none yet" in first
    assert "the save at step 6 failed" in again  # a save stays due, and is tried again: at once, then after pauses


def test_a_daemon_thread_of_the_user_does_not_hide_a_swallowed_stop(tmp_path: Path) -> None:
    """A thread keeps the excepthook that was there when it was made, and a daemon is never unwound."""
    daemon = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    program = START + daemon + "with contextlib.suppress(SystemExit):\n    " + STOP_IN_THE_LOOP.replace("\n", "\n    ")
    assert run(program, tmp_path).code == 143


def test_a_save_that_does_not_end_in_the_grace_is_named(tmp_path: Path) -> None:
    hangs = (
        "import outlast.checkpoint.attempt as attempt\ndef hang(*_, **__):\n    say('saving')\n    time.sleep(100)\n"
    )
    program = START + hangs + LOOP.replace('say("begun")', "attempt.persist = hang")
    with Program(program, tmp_path, env={"OUTLAST_GRACE": "2"}) as running:
        running.wait_for("saving").send()
        left = running.leave()
    assert left.code == 143
    assert "the save at step 10 did not end within the grace of 2.0 s; 5 completed steps" in one_line(left)
    assert events(tmp_path, "Stopped")[0]["lost_steps"] == 5
    assert commits(tmp_path) == [5]


def test_a_save_of_a_caught_failure_does_not_stick(tmp_path: Path) -> None:
    """What failed once and was dealt with says nothing about a later stop."""
    program = START.replace("Steps(5)", "Steps(50)") + (
        "good = job._session.attempt.commit\n"
        "def bad(*_, **__):\n    raise outlast.StoreUnreachable('away for a moment')\n"
        "job._session.attempt.commit = bad\n"
        "with contextlib.suppress(outlast.SaveFailed):\n    job.save()\n"
        "job._session.attempt.commit = good\n"
    )
    assert run(program + STOP_IN_THE_LOOP, tmp_path).code == 143
    assert commits(tmp_path) == [7]
