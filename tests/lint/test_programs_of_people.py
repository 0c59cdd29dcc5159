"""Whole programs: the tutorial's script gives what it deserves, and a program that outlast runs gives nothing."""

from pathlib import Path

import pytest

from outlast.lint.linting import lint_source
from outlast.lint.programs.checks import check
from outlast.lint.rule import Finding
from outlast.lint.settings import LintSettings
from outlast.lint.source import Kind, Source

# What a tutorial for long GPU jobs does, written anew: a flag at SIGTERM, a rename as commit on the mounted bucket,
# any error of a load taken for a first start, a key of job and task.
TUTORIAL = '''"""Counts steps and keeps its place on a mounted bucket."""

import os
import signal
import sys
import time

FOLDER = "/checkpoints"
JOB = os.environ.get("CLOUD_RUN_JOB", "local-job")
TASK = os.environ.get("CLOUD_RUN_TASK_INDEX", "0")
CHECKPOINT_FILE = os.path.join(FOLDER, f"{JOB}-task-{TASK}-checkpoint.txt")  # C008
STEPS = 100
current_step = 0
is_exiting = False


def save_checkpoint(step):
    try:
        temporary = CHECKPOINT_FILE + ".tmp"
        with open(temporary, "w") as file:
            file.write(str(step))
        os.rename(temporary, CHECKPOINT_FILE)  # C002
    except Exception as error:  # C016
        print(f"could not save: {error}")


def load_checkpoint():
    global current_step
    if os.path.exists(CHECKPOINT_FILE):
        try:
            with open(CHECKPOINT_FILE) as file:
                current_step = int(file.read().strip())
        except Exception as error:  # C015
            print(f"could not load: {error}; starting from scratch")
    else:
        print("no checkpoint")


def on_sigterm(signum, frame):
    global is_exiting
    is_exiting = True


signal.signal(signal.SIGTERM, on_sigterm)
load_checkpoint()
while current_step < STEPS and not is_exiting:
    time.sleep(1)
    current_step += 1
    if current_step % 5 == 0:
        save_checkpoint(current_step)
if is_exiting:
    save_checkpoint(current_step)
    sys.exit(143)
print("completed")
sys.exit(0)
'''


def _found(text: str) -> list[Finding]:
    found = lint_source(Source(Path("task.py"), text, Kind.PYTHON), LintSettings())
    assert isinstance(found, list), found
    return found


def test_the_tutorials_script_gives_what_it_deserves_and_nothing_else() -> None:
    marked = {
        (line.rpartition("# ")[2], number)
        for number, line in enumerate(TUTORIAL.splitlines(), 1)
        if line.rpartition("# ")[2].startswith("C0")
    }
    assert {(one.rule.id, one.line) for one in _found(TUTORIAL)} == marked
    graver = {one.rule.id: str(one.severity) for one in _found(TUTORIAL)}
    assert graver == {"C002": "warning", "C008": "warning", "C015": "error", "C016": "warning"}


def test_an_fsync_before_the_rename_is_told_besides() -> None:
    with_fsync = TUTORIAL.replace("file.write(str(step))", "file.write(str(step))\n            os.fsync(file.fileno())")
    assert {one.rule.id for one in _found(with_fsync)} == {"C002", "C003", "C008", "C015", "C016"}


def test_a_program_that_outlast_saves_and_resumes_gives_nothing() -> None:
    text = '''"""Trains."""

import signal

import torch

import outlast
from project.data import loader
from project.model import build

model = build()
optimizer = torch.optim.Adam(model.parameters())
job = outlast.Job(state={"model": model, "optimizer": optimizer, "loader": loader})
for epoch in job.epochs(10):
    for batch in job.batches(loader):
        model(batch).loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
'''
    assert _found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "import json\nwith open('report.json', 'w') as file:\n    json.dump({}, file)\n",
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nwhile True:\n    pass\n",
        "import pickle\nfor name in ('a', 'b'):\n    pickle.dump(name, open('names.pkl', 'wb'))\n",
        "import os\nos.rename('a', 'b')\n",
        "from sklearn.svm import SVC\nimport joblib\nmodel = SVC().fit([[0], [1]], [0, 1])\njoblib.dump(model, 'm')\n",
        "",
    ],
)
def test_of_a_program_that_is_no_long_work_nothing_is_said(text: str) -> None:
    assert _found(text) == []


def test_what_is_in_no_folder_of_a_bucket_is_not_judged_as_a_mount() -> None:
    assert _found(TUTORIAL.replace('"/checkpoints"', '"/tmp/checkpoints"')) != _found(TUTORIAL)
    ids = {one.rule.id for one in _found(TUTORIAL.replace('"/checkpoints"', '"/tmp/checkpoints"'))}
    assert "C002" not in ids


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 300 + ")" * 300,
        "x = " + "-" * 50_000 + "1",
        "x = " + "+".join(["a"] * 20_000),
        "x" + ".a" * 5_000,
        "x" + "[0]" * 5_000,
        "print 'Python 2'",
        "def f(:\n",
        "if x:\n" + "".join(" " * depth + "if x:\n" for depth in range(1, 99)) + " " * 99 + "pass\n",
        "\n".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 2}()" for n in range(300))
        + "\nimport torch\ntorch.save({}, 'ckpt')\n",
        "import torch\n" + "".join(f"def f{n}():\n    torch.save(m, 'checkpoint')\n    f0()\n" for n in range(200)),
        "a = b\nb = a\nimport torch\nfor i in range(3):\n    torch.save({'epoch': i}, f'{a}/checkpoint')\n",
    ],
    ids=range(11),
)
def test_hostile_programs_end_in_bounded_time_with_findings_or_a_reason(text: str) -> None:
    lint_source(Source(Path("train.py"), text, Kind.PYTHON), LintSettings())
    list(check(Source(Path("train.py"), "", Kind.PYTHON)))
