"""X17: a task is frozen while it is moved to another machine, and time has passed when it goes on, wherever it was."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from signalled import START, Left, Program, commits, events
from supervised import OUTLAST, SRC

FROZEN_SECONDS = 1.3
CLOUD_RUN = {"CLOUD_RUN_JOB": "trainer", "CLOUD_RUN_EXECUTION": "trainer-1", "CLOUD_RUN_TASK_INDEX": "0"}

# It stands there until the freeze is over.
_HERE = """
def here():
    say("here")
    while not os.path.exists("go"):
        {wait}
"""
_SLEEPS = _HERE.format(wait="time.sleep(0.01)")
_COMPUTES = _HERE.format(wait='hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000)')
_IN_A_SAVE = (
    _SLEEPS
    + """
fsync = os.fsync
def slow(descriptor):
    if state["done"] and not os.path.exists("go"):
        here()
    fsync(descriptor)
os.fsync = slow
"""
)
_STEPS = """
for step in job.steps(40):
    state["done"].append(step)
    {step}
say("all", state["done"] == list(range(40)))
"""
_IN_A_STEP = _STEPS.format(step="step == 7 and here()")
_QUICK_STEPS = _STEPS.format(step="time.sleep(0.02)")
PLACES = {
    "before the loop": _SLEEPS + "here()\n" + _STEPS.format(step="pass"),
    "in a step": _SLEEPS + _IN_A_STEP,
    "in C code": _COMPUTES + _IN_A_STEP,
    "in a save": _IN_A_SAVE + _QUICK_STEPS,
    "after the loop": _SLEEPS + _STEPS.format(step="pass") + "here()\n",
    "under outlast run": _SLEEPS + _IN_A_STEP,
    # Learned intervals: what the pause made long must not be believed to be the cost of a save.
    "every auto": _IN_A_SAVE.replace("if state", "if len(state['done']) > 5 and state") + _QUICK_STEPS,
}


def freeze(programs: dict[str, Program], seconds: float) -> None:
    """What the machine's hypervisor does, as the processes see it: all threads stand still."""
    pids = {place: program.pid for place, program in programs.items()}
    for place, program in programs.items():
        os.kill(pids[place], signal.SIGTSTP)  # announced; it stops nothing here
        program.wait_for_event("Advised")
        os.kill(pids[place], signal.SIGSTOP)
    time.sleep(seconds)
    for program in programs.values():
        (program.folder / "go").touch()
    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)


def status(folder: Path) -> dict[str, object]:
    command = [sys.executable, "-c", "from outlast.cli.main import main; main()", "status", str(folder / "store")]
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    return json.loads(subprocess.run([*command, "--json"], env=env, check=True, capture_output=True).stdout)


@pytest.mark.serial
def test_wherever_it_is_frozen_it_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    with ExitStack() as stack:
        programs = {}
        for place, source in PLACES.items():
            start = START.replace("every=outlast.Steps(5)", "every='auto'") if place == "every auto" else START
            prefix = (*OUTLAST, "--timeout", "60s", "--") if place == "under outlast run" else ()
            program = Program(start + source, tmp_path / place, env=CLOUD_RUN, prefix=prefix)
            programs[place] = stack.enter_context(program)
        for program in programs.values():
            program.wait_for("here")
        began = time.monotonic()
        freeze(programs, FROZEN_SECONDS)
        left: dict[str, Left] = {place: program.leave() for place, program in programs.items()}
    for place, program in programs.items():
        assert left[place].code == 0, (place, left[place].err)
        assert "all True" in left[place].out, place
        assert left[place].at - began > FROZEN_SECONDS, place
        assert commits(tmp_path / place)[-1] == 40
        assert [program.events(kind) for kind in ("NoticeHeard", "SaveFailed", "Stopped", "Crashed")] == [[]] * 4, place
        assert {event["source"] for event in program.events("Advised")} <= {"SIGTSTP", "SIGCONT"}
    shown = status(tmp_path / "in a step")
    (attempt,) = shown["attempts"]
    assert (shown["state"], attempt["ended_by"], attempt["failed_saves"]) == ("finished", "finished", 0)
    assert shown["lost_seconds"] == 0


@pytest.mark.serial
def test_a_notice_loses_the_time_of_the_freeze_and_its_deadline_stands(tmp_path: Path) -> None:
    """The grace is the platform's: it runs while the task is frozen."""
    with ExitStack() as stack:
        late = {**CLOUD_RUN, "OUTLAST_GRACE": "1"}
        programs = {
            "in time": Program(START + _SLEEPS + _IN_A_STEP, tmp_path / "1", env=CLOUD_RUN),
            "over": Program(
                START + _IN_A_STEP.replace("here()", "(say('here'), time.sleep(30))"), tmp_path / "2", env=late
            ),
            # SIGTERM comes while it is frozen, and is heard when it goes on.
            "while frozen": Program(START + _SLEEPS + _IN_A_STEP, tmp_path / "3", env=CLOUD_RUN),
        }
        for program in programs.values():
            stack.enter_context(program).wait_for("here")
        for place, program in programs.items():
            if place != "while frozen":
                program.send()
                program.wait_for_event("NoticeHeard")
            os.kill(program.pid, signal.SIGSTOP)
        programs["while frozen"].send()
        time.sleep(FROZEN_SECONDS)
        continued_at = time.monotonic()
        for program in programs.values():
            (program.folder / "go").touch()
            os.kill(program.pid, signal.SIGCONT)
        left = {place: program.leave() for place, program in programs.items()}
    assert {place: one.code for place, one in left.items()} == dict.fromkeys(programs, 143)
    for place in ("in time", "while frozen"):
        (stopped,) = programs[place].events("Stopped")
        assert stopped["lost_steps"] == 0, place
        assert commits(programs[place].folder)[-1] == stopped["step"] >= 8, place
    assert commits(tmp_path / "2") == [5]
    (stopped,) = events(tmp_path / "2", "Stopped")
    assert (stopped["step"], stopped["lost_steps"], stopped["exit_code"]) == (7, 2, 143)
    assert stopped["monotonic"] - continued_at < 1, "the deadline had passed, and it did not leave at once"
