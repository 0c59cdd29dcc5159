"""Several workers in one process, or a worker in a job: a notice reaches each of them, and costs no item anything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import outlast

_PROGRAM = """
import sys, threading, time
from pathlib import Path
import outlast

way = sys.argv[1]

def inner(seconds, count=2):
    queue = outlast.Queue("sqlite:///inner.db")
    queue.publish({f"i{number}": {} for number in range(count)})

    @outlast.batch(queue, sink="sqlite:///inner.db")
    def small(items):
        if seconds:
            print("begun", flush=True)
        time.sleep(seconds)
        return [1 for _ in items]

    small.run()

@outlast.batch("sqlite:///outer.db", sink="sqlite:///outer.db", chunk=4)
def outer(items):
    for item in items:
        if item.id == "o0":
            if way == "inside":
                inner(60)
            inner(0)
            if way == "before":
                print("begun", flush=True)
        time.sleep(0.05 if item.id == "o0" else 0.4)
        yield item.id, 1

if way == "in a thread":
    side = threading.Thread(target=inner, args=(0.3, 40), daemon=True)
    side.start()
if way == "in a job":
    job = outlast.Job("store", state={"step": 0}, every="1h")
    for step in job.steps(100):
        job.state["step"] = step
        if step == 0:
            inner(0)
            print("begun", flush=True)
        time.sleep(0.1)
outer.run()
"""


@pytest.mark.parametrize("way", ["before", "inside", "in a thread", "in a job"])
def test_a_notice_reaches_every_worker_and_the_job_of_a_process(tmp_path: Path, way: str) -> None:
    queue = outlast.Queue(f"sqlite:///{tmp_path}/outer.db")
    queue.publish({f"o{number}": {} for number in range(40)})
    env = {**os.environ, "OUTLAST_PLATFORM": "local", "OUTLAST_GRACE": "4s"}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, way], cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert process.wait(15) == 143
        took = time.monotonic() - began
    assert took < (3.5 if way == "inside" else 2.5)  # 60 s do not fit, which nobody knows here
    places = [tmp_path / "outer.db", tmp_path / "inner.db"]
    for place in places:
        held = outlast.Queue(f"sqlite:///{place}")
        if held.stats().left:
            again = held.port.lease(100, 5, begin=False, max_deaths=3)
            assert again is not None
        assert [one.id for one in held.items() if one.deaths or one.state == "dead"] == []
    if way == "in a job":  # it saved at the notice, and nothing else makes it save so early
        assert list((tmp_path / "store").rglob("commits/*.json"))


_TAKES_TOO_LONG = """
import threading, time
import outlast

def steady(items):
    for item in items:
        begun.set()
        time.sleep(0.2)
        yield item.id, 1

def stubborn(items):
    while True:
        try:
            time.sleep(0.1)
        except BaseException:
            pass

begun = threading.Event()
job = outlast.batch("sqlite:///outer.db", sink="sqlite:///outer.db", chunk=100)(steady)
threading.Thread(target=job.run, daemon=True).start()
begun.wait()
outlast.batch("sqlite:///inner.db", sink="sqlite:///inner.db", item_timeout="0.5s")(stubborn).run()
"""


def test_an_item_that_ends_the_process_costs_the_items_of_another_worker_in_it_nothing(tmp_path: Path) -> None:
    for name in ("outer", "inner"):
        outlast.Queue(f"sqlite:///{tmp_path}/{name}.db").publish({f"i{number}": {} for number in range(100)})
    env = {**os.environ, "OUTLAST_PLATFORM": "local"}
    command = [sys.executable, "-c", _TAKES_TOO_LONG]
    assert subprocess.run(command, cwd=tmp_path, env=env, timeout=60, check=False).returncode == 143
    queue = outlast.Queue(f"sqlite:///{tmp_path}/outer.db")
    again = queue.port.lease(100, 5, begin=False, max_deaths=3)
    assert again is not None
    assert len(again.items) == 100 - queue.stats().done
    assert [one.id for one in queue.items() if one.deaths] == []
