"""A worker that cannot begin, or whose setup fails, leaves its process as it was."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import outlast

_PROGRAM = """
import json, os, signal, socket, sys, threading, time
from pathlib import Path
import outlast
from outlast.errors import SinkUnreachable
from outlast.testing import MemorySink

way, earlier = sys.argv[1:]

def mine(number, frame):
    pass

ends = socket.socketpair()  # which live as long as the program
for end in ends:
    end.setblocking(False)
if earlier == "a handler":
    signal.signal(signal.SIGTERM, mine)
elif earlier == "a descriptor":
    signal.set_wakeup_fd(ends[0].fileno())
handler = signal.getsignal(signal.SIGTERM)
descriptor = ends[0].fileno() if "descriptor" in earlier else -1

def of_a_worker():
    of_the_process = {"outlast-guard", "outlast-backstop"}
    return sorted({one.name for one in threading.enumerate() if one.name.startswith("outlast")} - of_the_process)

def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

class Sink(MemorySink):
    def prepare(self):
        if way == "prepare":
            raise SinkUnreachable("no such server")

def setup():
    if earlier == "a later descriptor":
        signal.set_wakeup_fd(ends[0].fileno())
    if way == "setup":
        raise RuntimeError("no device")

if way == "a thread":
    import outlast.worker.worker as worker
    def broken(*_):
        raise RuntimeError("can't start new thread")
    worker.ItemTimeLimit = broken

queue = outlast.Queue("sqlite:///work.db")
queue.publish({"a": 1, "b": 2})
job = outlast.batch(queue, sink=Sink(), setup=setup, load=lambda item: 1, item_timeout=60)(lambda items, _: [1])
try:
    job.run()
except (SinkUnreachable, RuntimeError) as error:
    said = str(error)
for _ in range(200):
    if not of_a_worker():
        break
    time.sleep(0.01)
print(json.dumps({
    "said": said, "threads": of_a_worker(), "children": children(), "leased": queue.stats().leased,
    "signals": (signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)) == (handler, descriptor),
}))
earlier = ""
if way != "a thread":  # and the next one works as ever, and hears
    way = ""
    assert job.run().computed == 2
    signal.raise_signal(signal.SIGTERM)
    for _ in range(500):
        if outlast.notices.process._board.notice is not None:
            break
        time.sleep(0.01)
    print(outlast.notices.process._board.notice.source)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("way", "earlier"),
    [
        *product(["prepare", "setup", "a thread"], ["nothing", "a handler"]),
        ("setup", "a descriptor"),
        ("setup", "a later descriptor"),
    ],
)
def test_a_worker_that_cannot_begin_leaves_nothing_behind(way: str, earlier: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, way, earlier],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told, *heard = ran.stdout.splitlines()
    found = json.loads(told)
    assert found.pop("said") in {"no such server", "no device", "can't start new thread"}
    assert found == {"threads": [], "children": [], "leased": 0, "signals": True}
    assert heard == ([] if way == "a thread" else ["SIGTERM"])


_IN_A_THREAD = """
import sys, threading, time
import outlast

queue = outlast.Queue("sqlite:///work.db")
queue.publish({f"i{number}": number for number in range(8)})
begun = threading.Event()

def slow(items):
    for item in items:
        if item.id == "i2":
            begun.set()
            time.sleep(60)
        yield item.id, 1

load = (lambda item: 1) if sys.argv[1] == "ahead" else None
job = outlast.batch(queue, sink="sqlite:///work.db", chunk=4, load=load)
threading.Thread(target=job(slow).run, daemon=True).start()
assert begun.wait(30)
if sys.argv[1] == "ahead":
    time.sleep(0.3)  # until the next chunk is leased
sys.exit(3)
"""


@pytest.mark.parametrize("way", ["direct", "ahead"])
def test_a_process_that_ends_with_its_worker_in_a_side_thread_gives_the_items_back(way: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", _IN_A_THREAD, way]
    ran = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 3, ran.stderr
    assert "side thread" in ran.stderr
    items = list(outlast.Queue(f"sqlite:///{tmp_path}/work.db").items())
    assert [one.state for one in items] == ["done", "done"] + ["ready"] * 6
    assert {one.deaths for one in items} == {0}
    assert items[2].releases == 1
