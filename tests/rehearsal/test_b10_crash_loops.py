"""B10: a poisonous checkpoint is not published where that can be known, nor loaded for ever where it cannot."""

from pathlib import Path

import pytest
from driving import commits, run

PROGRAM = """
import math, os, sys
import outlast
state = {"n": 0, "x": 0.5}
job = outlast.Job(state=state, every=outlast.Steps(5), keep=4, SETTINGS)
for step in job.steps(100):
    state["n"] += 1
    if step == 27 and not os.environ.get("MENDED"):
        raise FloatingPointError("the state is poisonous")
print("end", job.resumed_from)
"""
ONE_EXECUTION = {"CLOUD_RUN_JOB": "j", "CLOUD_RUN_EXECUTION": "j-1"}
ANOTHER = {"CLOUD_RUN_JOB": "j", "CLOUD_RUN_EXECUTION": "j-2"}


def program(settings: str = "") -> str:
    return PROGRAM.replace("SETTINGS", settings)


def test_retries_of_one_execution_stop_after_three_crashes_at_one_place(tmp_path: Path) -> None:
    codes = [run(program(), tmp_path, env=ONE_EXECUTION).code for _ in range(3)]
    stopped = run(program(), tmp_path, env=ONE_EXECUTION)
    assert [*codes, stopped.code] == [1, 1, 1, 78]
    assert "3 attempts in a row crashed at step 27" in stopped.err
    assert "FloatingPointError: the state is poisonous" in stopped.err
    assert commits(tmp_path)[-1].startswith("s000000000025-")


def test_what_the_message_advises_works(tmp_path: Path) -> None:
    for _ in range(3):
        run(program(), tmp_path, env=ONE_EXECUTION)
    back = run(program("resume=15"), tmp_path, env={**ONE_EXECUTION, "MENDED": "1"})
    assert (back.code, back.out) == (0, "end 15\n")


def test_a_new_execution_of_a_mended_program_goes_on(tmp_path: Path) -> None:
    for _ in range(3):
        run(program(), tmp_path, env=ONE_EXECUTION)
    again = run(program(), tmp_path, env={**ANOTHER, "MENDED": "1"})
    assert (again.code, again.out) == (0, "end 25\n")


def test_locally_the_crash_loop_is_said_and_the_person_decides(tmp_path: Path) -> None:
    ended = [run(program(), tmp_path) for _ in range(4)]
    assert [one.code for one in ended] == [1] * 4
    assert "in a row crashed" not in ended[2].err
    assert "3 attempts in a row crashed at step 27" in ended[3].err
    assert run(program(), tmp_path, env={"MENDED": "1"}).code == 0


def test_stepping_back_leaves_out_one_more_checkpoint_each_time(tmp_path: Path) -> None:
    settings = 'after_crashes="step-back", crash_limit=2'
    ended = [run(program(settings), tmp_path, env=ONE_EXECUTION) for _ in range(7)]
    said = [one.err.partition("resuming from step ")[2][:2].strip() for one in ended]
    assert said[:5] == ["", "25", "20", "15", "10"]
    assert [one.code for one in ended[:5]] == [1] * 5
    assert ended[-1].code == 78


def test_progress_between_crashes_is_no_crash_loop(tmp_path: Path) -> None:
    source = program().replace("step == 27", "step == 10 * job.attempt + 7")
    assert [run(source, tmp_path, env=ONE_EXECUTION).code for _ in range(6)] == [1] * 6


def test_an_interruption_by_the_keyboard_is_no_crash(tmp_path: Path) -> None:
    source = program('after_crashes="stop"').replace("FloatingPointError('the", "KeyboardInterrupt('the")
    source = source.replace('FloatingPointError("', 'KeyboardInterrupt("')
    assert 78 not in [run(source, tmp_path).code for _ in range(5)]


@pytest.mark.parametrize("poison", ["float('nan')", "math.inf", "complex(0, math.inf)"])
def test_a_state_that_is_not_finite_is_not_published_if_asked(poison: str, tmp_path: Path) -> None:
    source = program("require_finite=True").replace(
        "    if step == 27", f"    if step == 12:\n        state['x'] = {poison}\n    if step == 27"
    )
    ended = run(source, tmp_path)
    assert ended.code == 78
    assert "state['x'] is" in ended.err
    assert commits(tmp_path)[-1].startswith("s000000000010-")
    assert run(program(), tmp_path, env={"MENDED": "1"}).out == "end 10\n"


def test_arrays_that_are_not_finite_are_found_too(tmp_path: Path) -> None:
    source = program("require_finite=True").replace("import math", "import math\nimport numpy as np")
    source = source.replace('"x": 0.5', '"x": {"w": [np.zeros(3)]}')
    source = source.replace(
        "    if step == 27", "    if step == 12:\n        state['x']['w'][0][1] = np.nan\n    if step == 27"
    )
    ended = run(source, tmp_path)
    assert ended.code == 78
    assert "state['x']['w'][0]" in ended.err
