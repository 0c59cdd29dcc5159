"""B21: a step, an evaluation or the end of the program outlasts the grace, and the signal is heard all the same."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from signalled import LOOP, START, Program, commits, events, indented, run

GRACE_SECONDS = 3.0
GRACE = {"OUTLAST_GRACE": "3"}

IN_C_CODE = 'hashlib.pbkdf2_hmac("sha256", b"", b"", {iterations})'
IN_PYTHON_CODE = """
    until = time.monotonic() + {seconds}
    while time.monotonic() < until:
        sum(range(1000))
"""


def one_long_step(long_step: str) -> str:
    """Seven quick steps, the last save after the fifth; then one that is long."""
    return (
        START
        + f"""
for step in job.steps(8):
    state["done"].append(step)
    if step == 7:
        say("begun")
        {long_step}
        say("step ended at", time.monotonic())
"""
    )


@pytest.mark.serial
@pytest.mark.parametrize(
    "long_step", [IN_C_CODE.format(iterations=3_000_000), IN_PYTHON_CODE.format(seconds=1).replace("\n", "\n    ")]
)
def test_a_notice_is_heard_within_a_tenth_of_a_second_in_the_middle_of_a_step(long_step: str, tmp_path: Path) -> None:
    with Program(one_long_step(long_step), tmp_path) as program:
        program.wait_for("begun")
        sent_at = program.send()
        left = program.leave()
    (heard,) = events(tmp_path, "NoticeHeard")
    assert 0 <= heard["monotonic"] - sent_at < 0.1
    assert heard["monotonic"] < float(left.out.split()[-1]), "the step had ended before: nothing is shown"
    # It was the last step, so there is no work left and nothing to stop.
    assert left.code == 0
    assert commits(tmp_path)[-1] == 8


@pytest.mark.serial
@pytest.mark.parametrize("long_step", [IN_C_CODE.format(iterations=20_000_000), "time.sleep(6)"])
def test_a_step_longer_than_the_grace_is_left_in_time_and_the_last_save_is_kept(long_step: str, tmp_path: Path) -> None:
    with Program(one_long_step(long_step), tmp_path, env=GRACE) as program:
        program.wait_for("begun")
        sent_at = program.send()
        left = program.leave()
    assert left.code == 143
    assert left.at - sent_at < GRACE_SECONDS
    assert "step ended" not in left.out
    assert any(
        "the step under way did not end within the grace of 3.0 s; 2 completed steps" in line for line in left.told()
    )
    assert any("save more often" in line for line in left.told())
    (stopped,) = events(tmp_path, "Stopped")
    assert (stopped["step"], stopped["lost_steps"], stopped["exit_code"]) == (7, 2, 143)
    assert [event["step"] for event in events(tmp_path, "SaveStarted")] == [5], "something was saved in mid-step"
    assert commits(tmp_path) == [5]
    again = run(one_long_step("say(state['done'])"), tmp_path)
    assert "[0, 1, 2, 3, 4, 5, 6, 7]" in again.out
    assert [event["step"] for event in events(tmp_path, "Restored")] == [5]


# --- evaluation: long code without step borders -----------------------------------------------------

EVALUATE = """
def evaluate():
    say("evaluating")
    for batch in range(600):
        time.sleep(0.01)
        {check}
"""
PLACES = {
    "before the loop": "evaluate()\nfor step in job.steps(8):\n    pass\n",
    "within a step": "for step in job.steps(8):\n    if step == 7:\n        evaluate()\n",
    "between two epochs": """
for epoch in job.epochs(2):
    for batch in job.batches(range(7)):
        pass
    evaluate()
""",
}


@pytest.mark.parametrize("place", PLACES)
def test_an_evaluation_that_checks_is_left_at_once(place: str, tmp_path: Path) -> None:
    program = START + EVALUATE.format(check="job.check()") + PLACES[place]
    with Program(program, tmp_path, env={"OUTLAST_GRACE": "60"}) as running:
        running.wait_for("evaluating")
        sent_at = running.send()
        left = running.leave()
    assert left.code == 143
    assert left.at - sent_at < GRACE_SECONDS
    before_the_loop = place == "before the loop"
    assert commits(tmp_path) == ([] if before_the_loop else [5]), "it was saved between two borders"
    (stopped,) = events(tmp_path, "Stopped")
    assert stopped["lost_steps"] == (0 if before_the_loop else 2)


def test_an_evaluation_that_does_not_check_is_left_in_time(tmp_path: Path) -> None:
    said = {
        "before the loop": "the code before the first step did not end",
        "within a step": "the step under way did not end",
        "between two epochs": "the code outside the steps did not end",
    }
    with ExitStack() as stack:
        programs = {
            place: stack.enter_context(
                Program(START + EVALUATE.format(check="pass") + PLACES[place], tmp_path / place, env=GRACE)
            )
            for place in PLACES
        }
        sent_at = {place: program.wait_for("evaluating").send() for place, program in programs.items()}
        for place, program in programs.items():
            left = program.leave()
            (stopped,) = program.events("Stopped")
            assert left.code == 143
            assert sent_at[place] < stopped["monotonic"] < sent_at[place] + GRACE_SECONDS
            assert said[place] in left.err
            assert any("job.check()" in line for line in left.told()) == (place != "within a step")


# --- the end of the program -------------------------------------------------------------------------

NEVER_ENDING = {
    "finally": f"try:{indented(LOOP)}\nfinally:\n    time.sleep(1000)\n",
    "except": f"try:{indented(LOOP)}\nexcept BaseException:\n    while True:\n        time.sleep(0.01)\n",
    "atexit": f"atexit.register(time.sleep, 1000)\n{LOOP}",
    "thread": f"threading.Thread(target=time.sleep, args=(1000,)).start()\n{LOOP}",
    # As Python 3.12 and later do it: once the interpreter is on its way out, no thread starts.
    "atexit without threads": f"""
def no_more_threads():
    def start(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")
    threading.Thread.start = start
    time.sleep(1000)
atexit.register(no_more_threads)
{LOOP}""",
    # Nobody reads standard error, and it is full.
    "standard error": f"""
def fill():
    os.dup2(os.pipe()[1], 2)
    while True:
        os.write(2, b"x" * 1000)
try:{indented(LOOP)}
finally:
    fill()
""",
}


@pytest.mark.serial
def test_nothing_at_the_end_of_the_program_outlasts_the_grace(tmp_path: Path) -> None:
    with ExitStack() as stack:
        programs = {
            place: stack.enter_context(Program(START + source, tmp_path / place, env=GRACE))
            for place, source in NEVER_ENDING.items()
        }
        sent_at = {place: program.wait_for("begun").send() for place, program in programs.items()}
        for place, program in programs.items():
            left = program.leave()
            assert left.code == 143, place
            at_the_stop, *at_the_guard = program.events("Stopped")
            assert at_the_stop["step"] == commits(tmp_path / place)[-1]
            assert left.at < sent_at[place] + GRACE_SECONDS
            if place != "standard error":  # there the guard is held up, and the backstop leaves
                assert at_the_guard[0]["reason"] == "the program did not end within the grace of 3.0 s after the stop"


@pytest.mark.serial
def test_a_notice_that_comes_at_the_end_of_the_program_has_its_guard(tmp_path: Path) -> None:
    """The loop is done; what comes after it may take the grace and no longer, even at exit."""
    with ExitStack() as stack:
        programs = {
            place: stack.enter_context(
                Program(
                    START + NEVER_ENDING[place].replace("job.steps(None)", "job.steps(8)").replace("begun", "")
                    + "say('after the loop')",
                    tmp_path / place,
                    env=GRACE,
                )
            )
            for place in ("atexit", "thread", "atexit without threads")
        }  # fmt: skip
        for program in programs.values():
            program.wait_for("after the loop").wait_for_event("Finished")
        sent_at = {place: program.send() for place, program in programs.items()}
        for place, program in programs.items():
            left = program.leave()
            assert left.code == 143, place
            assert left.at < sent_at[place] + GRACE_SECONDS
            assert "the code after the loop did not end within the grace" in left.err


def test_a_large_state_is_saved_within_the_grace_of_cloud_run(tmp_path: Path) -> None:
    cloud_run = {"CLOUD_RUN_JOB": "train", "CLOUD_RUN_EXECUTION": "train-1", "CLOUD_RUN_TASK_INDEX": "0"}
    program = START.replace('{"done": []}', '{"done": [], "blob": os.urandom(50 << 20)}').replace(
        "Steps(5)", "Steps(10**6)"
    )
    with Program(program + LOOP, tmp_path, env=cloud_run) as running:
        running.wait_for("begun")
        sent_at = running.send()
        left = running.leave()
    assert left.code == 143
    assert left.at - sent_at < 10
    (stopped,) = events(tmp_path, "Stopped")
    assert commits(tmp_path) == [stopped["step"]]
    assert stopped["lost_steps"] == 0
