"""B24: the program swallows the stop, or the exceptions that come with it. It is stopped all the same."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from signalled import START, Program, commits, events, indented, run

GRACE_SECONDS = 4.0
GRACE = {"OUTLAST_GRACE": "4"}
PROMPT_SECONDS = 15.0  # with a grace of 60: nobody waited for the guard
LONG_GRACE = {"OUTLAST_GRACE": "60"}

WORK = """
def work():
    time.sleep(0.1)
    raise OSError("try again")

def retried():
    while True:
        try:
            return work()
        except BaseException:
            continue
"""
NEVER_ENDING_STEPS = {
    "bare except": "while True:\n    try:\n        work()\n    except:\n        continue\n",
    "except BaseException": "retried()\n",
    "suppress": "while True:\n    with contextlib.suppress(BaseException):\n        work()\n",
    "job.check() swallowed": "while True:\n    try:\n        job.check()\n    except:\n        time.sleep(0.1)\n",
    "back-off": "time.sleep(60)\n",
}


def steps_with(last: str) -> str:
    """Seven quick steps, of which five are saved, and an eighth that does something else."""
    quick = "\nfor step in job.steps(100):\n    if step == 7:\n        say('begun')"
    return quick + ("\n" + last).replace("\n", "\n        ") + "\n"


@pytest.mark.serial
def test_a_step_that_swallows_everything_is_left_in_time_and_the_last_save_is_kept(tmp_path: Path) -> None:
    with ExitStack() as stack:
        programs = {
            kind: stack.enter_context(Program(START + WORK + steps_with(step), tmp_path / kind, env=GRACE))
            for kind, step in NEVER_ENDING_STEPS.items()
        }
        sent_at = {kind: program.wait_for("begun").send() for kind, program in programs.items()}
        for kind, program in programs.items():
            left = program.leave()
            assert left.code == 143, kind
            assert left.at - sent_at[kind] < GRACE_SECONDS
            assert commits(tmp_path / kind) == [5], "something was saved in mid-step"
            assert program.events("Stopped")[-1]["lost_steps"] == 2


def test_the_stop_is_no_exception_inside_a_step(tmp_path: Path) -> None:
    """A retry loop that ends by itself is not disturbed, and the step it was in counts."""
    step = "caught = []\nfor _ in range(5):\n    try:\n        work()\n    except BaseException as error:\n"
    step += "        caught.append(type(error).__name__)\nsay(caught)\n"
    with Program(START + WORK + steps_with(step), tmp_path, env=LONG_GRACE) as program:
        program.wait_for("begun").send()
        left = program.leave()
    assert left.out.endswith(f"{['OSError'] * 5}\n")
    assert left.code == 143
    assert commits(tmp_path) == [5, 8]


def test_a_retry_helper_that_looks_at_stopping_gives_up(tmp_path: Path) -> None:
    step = "while not job.stopping:\n    time.sleep(0.01)\nsay(job.notice.source, job.notice.remaining_seconds > 1)\n"
    with Program(START + steps_with(step), tmp_path, env=LONG_GRACE) as program:
        program.wait_for("begun")
        sent_at = program.send()
        left = program.leave()
    assert left.code == 143
    assert left.at - sent_at < PROMPT_SECONDS
    assert left.out.endswith("SIGTERM True\n")
    assert commits(tmp_path) == [5, 8]


# --- swallowed around the loop ----------------------------------------------------------------------

STOP_IN_STEP_7 = "os.kill(os.getpid(), signal.SIGTERM)\nuntil_it_is_heard()\n"
AGAIN = """
def expect(call):
    try:
        call()
    except outlast.Interrupted as stop:
        say("raised", stop.code)
    else:
        say("not raised")
"""
STEPS = "loop = job.steps(100)\nfor step in loop:\n    state['done'].append(step)\n    if step == 7:\n"
EPOCHS = (
    "loop = job.epochs(100)\nfor epoch in loop:\n    for batch in job.batches(range(10)):\n"
    "        state['done'].append(batch)\n        if batch == 7:\n"
)
CALLS = (
    "lambda: next(loop)", "lambda: next(loop)", "lambda: list(job.steps(100))", "lambda: list(job.epochs(100))",
    "job.check", "job.save", "job.finish", "lambda: next(loop)",
)  # fmt: skip


@pytest.mark.parametrize("loop", [STEPS, EPOCHS], ids=["steps", "epochs"])
def test_every_further_call_raises_the_stop_again_and_nothing_more_is_saved(loop: str, tmp_path: Path) -> None:
    inner = loop + "".join(f"{' ' * 12}{line}\n" for line in STOP_IN_STEP_7.splitlines())
    swallowed = f"with contextlib.suppress(SystemExit):\n{indented(chr(10) + inner)}\n"
    spoilt = "state['done'].append('spoilt')\n"
    program = START + AGAIN + swallowed + spoilt + "".join(f"expect({call})\n" for call in CALLS)
    left = run(program, tmp_path)
    assert left.out == "raised 143\n" * len(CALLS), left.err
    assert left.code == 143
    assert commits(tmp_path) == [5, 8]
    assert len(events(tmp_path, "Stopped")) == 1
    again = run(START + "say(state['done'])\n", tmp_path)
    assert again.out == f"{list(range(8))}\n"


@pytest.mark.parametrize("loop", [STEPS, EPOCHS], ids=["steps", "epochs"])
def test_a_save_after_a_swallowed_check_keeps_nothing_of_the_step_it_broke_off(loop: str, tmp_path: Path) -> None:
    body = f"{STOP_IN_STEP_7}with contextlib.suppress(SystemExit):\n    job.check()\n"
    step = loop + "".join(f"{' ' * 12}{line}\n" for line in body.splitlines())
    last = (
        "with contextlib.suppress(SystemExit):\n    next(loop)\nwith contextlib.suppress(SystemExit):\n    job.save()\n"
    )
    assert run(f"{START}with contextlib.suppress(SystemExit):{indented(chr(10) + step)}\n{last}", tmp_path).code == 143
    assert commits(tmp_path) == [5]


ENDS = {
    "nothing": "",
    "sys.exit(0)": "sys.exit(0)\n",
    "sys.exit()": "sys.exit()\n",
    "an exception": "raise ValueError('mine')\n",
    "sys.exit in atexit": "atexit.register(sys.exit, 0)\n",
    "a hook of its own": "sys.excepthook = lambda *_: say('hook')\nraise ValueError('mine')\n",
    "a thread": "threading.Thread(target=time.sleep, args=(0.2,)).start()\n",
    "a break": "",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_swallowed_stop_never_looks_like_success(end: str, tmp_path: Path) -> None:
    leave = "        break\n" if end == "a break" else ""
    step = f"{STEPS}        os.kill(os.getpid(), signal.SIGTERM)\n        until_it_is_heard()\n{leave}"
    program = f"{START}try:{indented(chr(10) + step)}\nexcept BaseException:\n    pass\n{ENDS[end]}"
    left = run(program, tmp_path)
    assert left.code == 143, left.err
    assert ("ValueError: mine" in left.err) == (end == "an exception")
    assert commits(tmp_path) == ([5] if end == "a break" else [5, 8])


@pytest.mark.parametrize("how", ["finishes", "is stopped", "swallows the stop", "breaks"])
def test_what_was_registered_to_run_at_exit_runs_and_output_is_flushed(how: str, tmp_path: Path) -> None:
    """With a state and a handler that lead to the globals of the program, as they do in most programs."""
    before = "import atexit, signal\natexit.register(print, 'registered before')\n"
    before += "def mine(*_):\n    pass\nsignal.signal(signal.SIGTERM, mine)\n"
    before += "class Model:\n    state_dict = lambda self: {}\n    load_state_dict = lambda self, state: None\n"
    after = "atexit.register(print, 'registered after')\nprint('not flushed by the program')\n"
    after += "file = open('file', 'w')\nfile.write('in a buffer')\n"
    stop = "        os.kill(os.getpid(), signal.SIGTERM)\n        until_it_is_heard()\n"
    loop = {
        "finishes": "for step in job.steps(8):\n    pass\n",
        "is stopped": STEPS + stop,
        "swallows the stop": f"with contextlib.suppress(SystemExit):{indented(chr(10) + STEPS + stop)}\n",
        "breaks": f"{STEPS}{stop}        break\n",
    }[how]
    left = run(before + START.replace('{"done": []}', '{"done": [], "model": Model()}') + after + loop, tmp_path)
    assert left.code == (0 if how == "finishes" else 143), left.err
    assert left.out == "not flushed by the program\nregistered after\nregistered before\n"
    assert (tmp_path / "file").read_text() == "in a buffer"


POOL = """
import multiprocessing, time
from concurrent.futures import ProcessPoolExecutor
import outlast

def work(_):
    time.sleep(0.02)

if __name__ == "__main__":
    job = outlast.Job(state={"n": 1}, every=outlast.Steps(5))
    for step in job.steps(None):
        USE
        if step == 7:
            print("begun", flush=True)
"""
USES = {
    "a pool for each step": "with multiprocessing.get_context('fork').Pool(2) as pool: pool.map(work, range(4))",
    "executor": "with ProcessPoolExecutor(2) as pool: list(pool.map(work, range(4)))",
    "a pool that nobody closes": "pool = globals().get('pool') or multiprocessing.Pool(2); pool.map(work, range(4))",
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_pool_in_the_step_does_not_hold_up_the_stop(use: str, tmp_path: Path) -> None:
    with Program(POOL.replace("USE", USES[use]), tmp_path, env=LONG_GRACE) as program:
        program.wait_for("begun")
        sent_at = program.send()
        left = program.leave()  # which sees that no worker is left
    assert left.code == 143, left.err
    assert left.at - sent_at < PROMPT_SECONDS
    assert "Traceback" not in left.err
    assert commits(tmp_path)[-1] == events(tmp_path, "Stopped")[0]["step"]


@pytest.mark.serial
def test_a_second_signal_moves_no_deadline(tmp_path: Path) -> None:
    with Program(START + steps_with("time.sleep(60)"), tmp_path, env={"OUTLAST_GRACE": "2"}) as program:
        sent_at = program.wait_for("begun").send()
        program.wait_for("notice:")
        program.send()
        assert program.leave().code == 143
    assert events(tmp_path, "Stopped")[0]["monotonic"] - sent_at < 2
    assert len(events(tmp_path, "NoticeHeard")) == 1
