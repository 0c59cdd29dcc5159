"""Which processes were left behind is told by the moment at which the first one leaves, however late anybody looks."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast.containers.calls import can_watch
from outlast.containers.container import Container, can_isolate
from outlast.rehearse.notice import LeftBehind, NoticeWatch, Parting

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not can_watch() or not can_isolate(), reason="needs Linux and namespaces"
)

FIRST = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)
child = subprocess.Popen([sys.executable, "child.py"], stdin=subprocess.PIPE)
while not os.path.exists("part"):
    time.sleep(0.001)
open("begun", "w").close()
signal.pause()
child.stdin.close()
"""
WRITES_UNTIL_ITS_INPUT_ENDS = """
import os, sys
with open("new", "w") as file:
    os.rename("new", "part")
    sys.stdin.read()
"""
WRITES_AT_THE_END_OF_ITS_INPUT = """
import os, sys, time
os.close(os.open("part", os.O_CREAT))
sys.stdin.read()
with open("more", "w") as file:
    time.sleep(60)
"""
WAITS_FOR_IT = "child.wait()\nsys.exit(143)"
LEAVES_IT_WRITING = "while not os.path.exists('more'):\n    time.sleep(0.001)\nsys.exit(143)"
KILLS_IT = "child.kill()\nos._exit(143)"


def left_behind(folder: Path, first: str, child: str, *, isolated: bool) -> tuple[LeftBehind, ...]:
    """By one who looks at the notice, and again only long after all is over."""
    folder = folder / "work"
    folder.mkdir()
    (folder / "child.py").write_text(child)
    with ExitStack() as stack:
        parting = Parting()
        stack.callback(parting.calls.close)
        out = stack.enter_context((folder / "../out").open("wb"))
        container = stack.enter_context(
            Container(
                [sys.executable, "-c", FIRST + first],
                folder=folder,
                environment=dict(os.environ),
                stdout=out,
                stderr=out,
                isolated=isolated,
                calls=parting.calls,
            )
        )
        while not (folder / "begun").exists():
            assert not container.wait(0.001)[0], (folder / "../out").read_text()
        watch = stack.enter_context(NoticeWatch(container, folder, parting))
        container.terminate_first()
        assert container.wait(30)[0]
        assert watch.wait(1)
        return watch.view(signalled=True).left_behind


@pytest.mark.parametrize("isolated", [True, False])
def test_a_child_that_the_first_process_has_waited_for_was_not_left_behind(tmp_path: Path, isolated: bool) -> None:
    assert left_behind(tmp_path, WAITS_FOR_IT, WRITES_UNTIL_ITS_INPUT_ENDS, isolated=isolated) == ()


@pytest.mark.parametrize("isolated", [True, False])
def test_a_child_is_named_with_the_files_that_it_wrote_to_when_the_first_process_left(
    tmp_path: Path, isolated: bool
) -> None:
    command = f"{sys.executable} child.py"
    found = left_behind(tmp_path, LEAVES_IT_WRITING, WRITES_AT_THE_END_OF_ITS_INPUT, isolated=isolated)
    assert found == (LeftBehind(command, ("more",)),)


def test_a_child_that_was_killed_before_and_is_only_not_yet_gone_was_not_left_behind(tmp_path: Path) -> None:
    assert left_behind(tmp_path, KILLS_IT, WRITES_UNTIL_ITS_INPUT_ENDS, isolated=True) == ()
