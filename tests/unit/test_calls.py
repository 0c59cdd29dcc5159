"""Every change to a file is seen before it happens, and an attempt can be ended exactly there."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.containers.calls import CallWatch, Operation, can_watch
from outlast.containers.container import Container, can_hold_calls, can_isolate

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not can_watch() or not can_isolate(), reason="needs Linux and namespaces"
)

PROGRAM = """
import os
os.mkdir("folder")
for name in ("a", "b"):
    with open(f"folder/{name}.new", "w") as file:
        file.write(name)
    os.replace(f"folder/{name}.new", name)
open("a").read()
os.truncate("b", 0)
os.unlink("a")
descriptor = os.open("folder", os.O_DIRECTORY)
os.symlink("b", "c", dir_fd=descriptor)
"""


def run(folder: Path, program: str, answer: Callable[[Operation, Container], bool]) -> int:
    """The exit code of a program that is asked about at each of its operations."""
    begun, held = threading.Event(), []

    def decide(operation: Operation) -> bool:
        begun.wait(10)
        return answer(operation, held[0])

    watch = CallWatch(decide)
    with (folder / "../out").open("wb") as out:
        container = Container(
            [sys.executable, "-c", program],
            folder=folder,
            environment=dict(os.environ),
            stdout=out,
            stderr=out,
            isolated=True,
            calls=watch,
        )
        with container:
            held.append(container)
            begun.set()
            assert container.wait(30)[0]
            code = container.finish()
    watch.close()
    return code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made.resolve()


def test_operations_are_told_with_their_paths_and_in_order(folder: Path) -> None:
    seen: list[str] = []

    def note(operation: Operation, _: Container) -> bool:
        path = Path(operation.path)
        if path.is_relative_to(folder):
            source = f"{Path(operation.source).name} " if operation.source else ""
            seen.append(f"{operation.kind} {source}{path.relative_to(folder)}")
        return True

    assert run(folder, PROGRAM, note) == 0
    assert seen == [
        "open folder/a.new",
        "write folder/a.new",
        "rename a.new a",
        "open folder/b.new",
        "write folder/b.new",
        "rename b.new b",
        "truncate b",
        "unlink a",
        "link folder/c",
    ]


@pytest.mark.parametrize(
    ("kind", "left"),
    [("open", {}), ("write", {"state.new": ""}), ("rename", {"state.new": "7"}), ("unlink", {"state": "7", "old": ""})],
)
def test_what_a_kill_leaves_is_what_was_there_before_the_operation(
    folder: Path, kind: str, left: dict[str, str]
) -> None:
    program = """
import os
with open("state.new", "w") as file:
    file.write("7")
os.replace("state.new", "state")
os.close(os.open("old", os.O_CREAT | os.O_WRONLY))
os.unlink("old")
"""

    def end(operation: Operation, container: Container) -> bool:
        if operation.kind != kind or not operation.path.startswith(str(folder)):
            return True
        container.kill()
        return False

    assert run(folder, program, end) == 137
    assert {path.name: path.read_text() for path in folder.iterdir()} == left


def test_a_signal_while_it_is_held_reaches_a_handler_before_the_operation(folder: Path) -> None:
    program = """
import os, signal, sys
def leave(*_):
    print("heard", os.path.exists("made"), flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, leave)
open("made", "w").write("x")
signal.pause()
"""

    def warn(operation: Operation, container: Container) -> bool:
        if operation.path == str(folder / "made") and operation.kind == "write":
            container.terminate_first()
        return True

    assert run(folder, program, warn) == 143
    assert (folder / "../out").read_text().startswith("heard True")


def test_a_kernel_that_gives_no_listener_is_found_out_beforehand(folder: Path) -> None:
    """seccomp(2), EBUSY: there is one listener at most, and inside of a watched container it is ours."""
    assert can_hold_calls()
    program = """
from outlast.containers.container import can_hold_calls, can_isolate
print(can_isolate(), can_hold_calls(), flush=True)
"""
    assert run(folder, program, lambda *_: True) == 0
    assert (folder / "../out").read_text() == "True False\n"
