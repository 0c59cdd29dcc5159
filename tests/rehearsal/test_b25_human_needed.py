"""B25, code 78: what no retry can mend is said in one clear line, quickly, and nothing is changed."""

import json
from pathlib import Path

import pytest
from signalled import START, Left, commits, run

# The heavy imports of a real program come after the Job here: none of them may be ours.
PROGRAM = """
import sys, time
import outlast
began = time.monotonic()
try:
    job = outlast.Job({arguments})
    for step in job.steps(3):
        print("a step", flush=True)
finally:
    print(f"{{time.monotonic() - began:.3f}}", "numpy" in sys.modules, "torch" in sys.modules, flush=True)
"""
NOT_IN_A_HURRY_SECONDS = 5.0

SETTINGS = [
    ("keep=0", {}, "keep=0"),
    ("keep=True", {}, "keep=True"),
    ("every='soon'", {}, "every='soon'"),
    ("every=-1", {}, "every=-1"),
    ("resume='newest'", {}, "resume='newest'"),
    ("resume=7", {}, "resume=7"),
    ("name='a/b'", {}, "name='a/b'"),
    ("name=''", {}, "name=''"),
    ("run='../up'", {}, "run='../up'"),
    ("url=''", {}, "url=''"),
    ("url='program.py'", {}, "program.py"),
    ("url='program.py/below'", {}, "program.py"),
    ("url='ftp://host/folder'", {}, "ftp://host/folder"),
    ("crash_limit=0", {}, "crash_limit=0"),
    ("", {"OUTLAST_PLATFORM": "mars"}, "mars"),
    ("", {"OUTLAST_GRACE": "soon"}, "OUTLAST_GRACE='soon'"),
    ("", {"OUTLAST_GRACE": "-1"}, "OUTLAST_GRACE='-1'"),
    ("", {"OUTLAST_EXIT_CODE": "256"}, "OUTLAST_EXIT_CODE='256'"),
    ("", {"OUTLAST_RUN": "a/b"}, "run='a/b'"),
    ("", {"WORLD_SIZE": "2"}, "WORLD_SIZE=2"),
    ("", {"WORLD_SIZE": "2", "RANK": "0", "PMI_SIZE": "2", "PMI_RANK": "1"}, "PMI_SIZE says rank 1 of 2"),
    ("", {"CLOUD_RUN_JOB": "j", "CLOUD_RUN_TASK_INDEX": "x"}, "CLOUD_RUN_TASK_INDEX='x'"),
    ("state=[1]", {}, "state=list"),
    ("state={1: 2}", {}, "the key 1"),
    ("state={'f': open(__file__)}", {}, "state['f']"),
    ("state={'deep': [{'f': lambda: 0}]}", {}, "state['deep'][0]['f']"),
]


def lines_of_error(left: Left) -> list[str]:
    found = []
    for line in left.err.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            found += [entry["message"]] if entry["severity"] == "ERROR" else []
        elif line.startswith("outlast: error:"):
            found.append(line)
    return found


@pytest.mark.parametrize(("arguments", "env", "named"), SETTINGS, ids=[f"{one[0]}{one[1] or ''}" for one in SETTINGS])
def test_a_setting_that_cannot_work_is_named_in_one_line(
    arguments: str, env: dict[str, str], named: str, tmp_path: Path
) -> None:
    arguments += "" if arguments.startswith("state=") else ", state={}" if arguments else "state={}"
    left = run(PROGRAM.format(arguments=arguments), tmp_path, env=env)
    assert left.code == 78, left.err
    (line,) = lines_of_error(left)
    assert named in line
    assert "Traceback" not in left.err
    seconds, numpy, torch = left.out.split()  # and no step
    assert float(seconds) < NOT_IN_A_HURRY_SECONDS
    assert (numpy, torch) == ("False", "False")
    assert commits(tmp_path) == []


# --- checkpoints that a human has to look at --------------------------------------------------------

STATE = "{'n': 1, 'text': 'a', 'numbers': [1, 2, 3]}"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a store that has checkpoints of two steps."""
    first = f"import outlast\njob = outlast.Job(state={STATE}, every='0s')\n"
    assert run(first + "for step in job.steps(3):\n    step == 2 and exit(1)\n", tmp_path).code == 1
    assert commits(tmp_path) == [1, 2]
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    """What must not change: all but claims and journals."""
    kept = ("commits", "data", "finished")
    return {str(path): path.read_bytes() for path in (folder / "store").rglob("*") if path.parent.name in kept}


def test_when_no_checkpoint_verifies_nothing_is_started_or_changed(saved: Path) -> None:
    for path in saved.glob("store/*/*/*/data/*"):
        damaged = bytearray(path.read_bytes())
        damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
        path.write_bytes(damaged)
    before = files(saved)
    left = run(PROGRAM.format(arguments=f"state={STATE}"), saved)
    assert left.code == 78, left.err
    (line,) = lines_of_error(left)
    assert "2 checkpoints and none verifies" in line
    assert 'resume="none"' in line
    assert "a step" not in left.out
    assert files(saved) == before


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ("{'n': 1, 'text': 'a'}", "'numbers'"),
        ("{'n': 1, 'text': 'a', 'numbers': [1, 2, 3], 'more': 1}", "'more'"),
    ],
)
@pytest.mark.parametrize("noticed", [False, True], ids=["", "noticed"])
@pytest.mark.parametrize("env", [{}, {"OUTLAST_EXIT_CODE": "0"}], ids=["", "always restarted"])
def test_a_state_of_another_program_is_refused_also_while_a_notice_is_pending(
    state: str, named: str, noticed: bool, env: dict[str, str], saved: Path
) -> None:
    before = files(saved)
    program = PROGRAM.format(arguments=f"state={state}")
    if noticed:  # it comes while the error is on its way up
        stop = "    import os\n    os.kill(os.getpid(), 15)\n    time.sleep(0.1)\n"
        program = program.replace("finally:\n", f"finally:\n{stop}")
    left = run(program, saved, env=env)
    assert left.code == 78, left.err
    (line,) = lines_of_error(left)
    assert named in line
    assert "a step" not in left.out
    assert files(saved) == before


def test_a_state_that_can_no_longer_be_restored_is_named_at_the_save(tmp_path: Path) -> None:
    program = START + "for step in job.steps(8):\n    if step == 6:\n        state['done'].append(open(__file__))\n"
    left = run(program, tmp_path)
    assert left.code == 78, left.err
    assert "state['done'][0]" in lines_of_error(left)[-1]
    assert commits(tmp_path) == [5]


def test_the_same_error_with_a_caller_that_goes_on_is_no_verdict_on_the_stop(saved: Path) -> None:
    """A caught refusal, another Job that works: it leaves as that one does."""
    program = (
        "import os, time, outlast\ntry:\n    outlast.Job(state={})\nexcept outlast.SettingsError:\n    pass\n"
        "try:\n    outlast.Job(state={}, keep=0)\nexcept outlast.SettingsError:\n    pass\n"
        f"job = outlast.Job(state={STATE}, every='0s')\n"
        "for step in job.steps(None):\n    os.kill(os.getpid(), 15)\n    time.sleep(0.1)\n"
    )
    assert run(program, saved).code == 143
