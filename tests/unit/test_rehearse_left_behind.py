"""What still runs when the first process leaves is told apart from what ended just before it."""

import sys
import time
from pathlib import Path

import pytest

from outlast.containers.calls import CallWatch, can_watch
from outlast.containers.container import Container, can_isolate
from outlast.rehearse.notice import LastLook, LeftBehind, NoticeWatch

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not can_watch() or not can_isolate(), reason="needs Linux and namespaces"
)

CHILD = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with open("log.txt", "w") as log:
    while True:
        print("step", file=log, flush=True)
        time.sleep(0.01)
"""
WAITS = "python child.py & pid=$!; trap 'kill -TERM $pid' TERM; wait $pid; wait $pid; exit $?"
LEAVES = "python child.py & trap 'exit 143' TERM; wait; exit 1"


@pytest.mark.parametrize(("isolated", "first_is_pid_1"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize(
    ("script", "left"), [(WAITS, ()), (LEAVES, (LeftBehind(f"{sys.executable} child.py", ("log.txt",)),))]
)
def test_b19_a_shell_that_waits_for_its_program_leaves_nothing_behind(
    tmp_path: Path, script: str, left: tuple[LeftBehind, ...], *, isolated: bool, first_is_pid_1: bool
) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    last = LastLook(tmp_path)
    watch = CallWatch(last.passes, only_ends=True)
    with (
        (tmp_path / "out").open("wb") as out,
        Container(
            ["bash", "-c", script.replace("python", sys.executable)],
            folder=tmp_path,
            environment={},
            stdout=out,
            stderr=out,
            isolated=isolated,
            first_is_pid_1=first_is_pid_1,
            calls=watch,
        ) as container,
    ):
        last.begin(container)
        while not (tmp_path / "log.txt").exists() or not (tmp_path / "log.txt").stat().st_size:
            time.sleep(0.01)
        with NoticeWatch(container, tmp_path, last) as seen:
            container.terminate_first()
            time.sleep(0.5)  # both have ended when we look again, as on a busy machine
            assert seen.wait(20)
            view = seen.view(signalled=True)
        assert container.finish() == 143
    watch.close()
    assert (
        tuple(LeftBehind(one.command, tuple(w for w in one.writes if w != "out")) for one in view.left_behind) == left
    )
