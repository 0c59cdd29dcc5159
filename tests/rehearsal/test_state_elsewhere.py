"""State that a program keeps outside of the copy outlives every run here, so no rehearsal may say that it survived."""

import sys
from pathlib import Path

import pytest
import victims

from outlast.rehearse.report import Report
from outlast.rehearse.request import Limits, Request
from outlast.rehearse.runner import rehearse

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")

# Half of a second's work at most, so that no clock tells whether it was done; its state is one open database.
IN_A_DATABASE = """
import signal, sqlite3, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
database = sqlite3.connect("STATE", isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS done (step INTEGER PRIMARY KEY, value INTEGER)")
print("begin", flush=True)
for step in range(database.execute("SELECT count(*) FROM done").fetchone()[0], 15):
    time.sleep(0.01)
    database.execute("INSERT INTO done VALUES (?, ?)", (step, step * step))
    if stop:
        sys.exit(143)
print(database.execute("SELECT sum(value) FROM done").fetchone()[0])
"""
# Saved seldom, renamed as a folder, and gone when all is done: two runs do the same.
GONE_AT_THE_END = """
import json, os, shutil, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
step, acc = 0, 0
if os.path.exists("STATE"):
    with open("STATE/state.json") as file:
        step, acc = json.load(file)
print("begin", flush=True)
while step < 40:
    time.sleep(0.01)
    acc = (acc * 31 + step) % (2**61 - 1)
    step += 1
    if step % 15 == 0 or stop:
        shutil.rmtree("STATE.new", ignore_errors=True)
        os.mkdir("STATE.new")
        with open("STATE.new/state.json", "w") as file:
            json.dump([step, acc], file)
        shutil.rmtree("STATE", ignore_errors=True)
        os.rename("STATE.new", "STATE")
    if step % 10 == 0:
        with open("log.txt", "w") as file:
            file.write(str(step))
    if stop:
        sys.exit(143)
shutil.rmtree("STATE")
print(acc)
"""
# What each attempt makes anew, or only adds to, and what is in a cache, is no state.
NO_STATE = (
    """
import os
os.makedirs("STATE.cache", exist_ok=True)
with open("STATE.scratch", "w+") as scratch:
    scratch.write("1")
    scratch.seek(0)
    scratch.read()
if not os.path.exists("STATE.cache/table"):
    open("STATE.cache/table", "w").write("2")
open("STATE.cache/table").read()
open("STATE.log", "a").write("begun")
"""
    + victims.SURVIVOR
)


def rehearse_beside(folder: Path, program: str, state: str = "", **asked: object) -> Report:
    """A rehearsal of a program whose STATE is beside its folder, by an absolute path or as it is told."""
    project = folder / "project"
    project.mkdir()
    (project / "job.py").write_text(program.replace("STATE", state or str(folder / "state")))
    request = Request(command=(sys.executable, "job.py"), folder=project, interruptions=3, **asked)
    return rehearse(request, limits=Limits(grace_seconds=3.0))


def test_what_a_run_before_has_left_is_no_ground_for_a_verdict_however_short_the_work(tmp_path: Path) -> None:
    report = rehearse_beside(tmp_path, IN_A_DATABASE)
    assert report.verdict == "could-not-rehearse"
    assert f"read {tmp_path}/state, which one before had left outside the copy" in report.reasons[0]


def test_in_place_too(tmp_path: Path) -> None:
    program = victims.SURVIVOR.replace('"state.', '"STATE.').replace("% 5", "% 2") + '\nos.unlink("STATE.json")\n'
    report = rehearse_beside(tmp_path, program, in_place=True)
    assert report.verdict == "could-not-rehearse"
    assert report.reasons[0].startswith(f"it saves to {tmp_path}/state.json, outside of the copy")


def test_what_only_an_attempt_leaves_for_the_next_one_is_no_ground_either(tmp_path: Path) -> None:
    report = rehearse_beside(tmp_path, GONE_AT_THE_END, "../state")
    assert report.verdict == "could-not-rehearse"
    assert "/state/state.json, outside of the copy" in report.reasons[0]


def test_a_scratch_file_a_log_and_a_cache_are_no_state(tmp_path: Path) -> None:
    report = rehearse_beside(tmp_path, NO_STATE)
    assert (report.verdict, report.reasons) == ("survived", ())
