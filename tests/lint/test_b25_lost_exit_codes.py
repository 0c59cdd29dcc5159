"""B25: an interrupted program that counts as done: exit codes as the shells lose them, handlers that exit with 0."""

import shutil
import subprocess
from pathlib import Path

import pytest

from outlast.lint.command_line import Word
from outlast.lint.commands.entry import Surroundings, follow
from outlast.lint.commands.shells import Shell
from outlast.lint.programs.checks import check
from outlast.lint.source import Kind, Source

_SHELLS = {Shell.BASH: ["bash"], Shell.DASH: ["dash"], Shell.BUSYBOX: ["busybox", "ash"]}
# PROGRAM ends with 143. Whether the text's own code is 0 is what counts.
_TEXTS = (
    "PROGRAM",
    "PROGRAM; echo done",
    "PROGRAM\necho done\nexit 0",
    "PROGRAM || true",
    "PROGRAM || echo failed",
    "PROGRAM || exit 1",
    "PROGRAM || { echo failed; exit 3; }",
    "PROGRAM || { echo failed; exit 0; }",
    "PROGRAM && echo done",
    "PROGRAM && echo done; echo end",
    "set -e; PROGRAM; echo done",
    "set -e; PROGRAM && echo a; echo done",
    "set -e; PROGRAM || true; echo done",
    "PROGRAM | cat",
    "PROGRAM | cat; exit $?",
    "set -e; PROGRAM | cat; echo done",
    "PROGRAM; code=$?; echo ended; exit $code",
    "PROGRAM; exit $?",
    "PROGRAM; exit",
    "PROGRAM & wait",
    "PROGRAM & wait $!",
    "( PROGRAM ); echo done",
    "{ PROGRAM; echo done; }",
    "f() { PROGRAM; }; f; echo done",
    "f() { PROGRAM; }; set -e; f; echo done",
    "if true; then PROGRAM; fi",
    "if true; then PROGRAM; fi; echo done",
    "trap 'exit 0' EXIT; PROGRAM",
    "exec PROGRAM",
    "exec PROGRAM; echo done",
)


@pytest.mark.parametrize("shell", _SHELLS, ids=str)
@pytest.mark.parametrize("text", _TEXTS)
def test_b25_a_lost_exit_code_is_found_where_the_shell_loses_it(text: str, shell: Shell) -> None:
    starter = _SHELLS[shell]
    if shutil.which(starter[0]) is None:
        pytest.skip(f"{starter[0]} is not installed")
    real = subprocess.run(
        [*starter, "-c", text.replace("PROGRAM", "/bin/sh -c 'exit 143'")], capture_output=True, timeout=30, check=False
    )
    words = [Word(part, 1, 1, part) for part in ("sh", "-c", text.replace("PROGRAM", "python train.py"))]
    said = follow(words, Surroundings(sh=shell))
    assert (said.lost is not None) == (real.returncode == 0), said


@pytest.mark.parametrize("options", [[], ["-o", "pipefail"], ["-e"], ["-eo", "pipefail"]], ids=" ".join)
def test_b25_options_on_the_command_line_count(options: list[str]) -> None:
    for text in ("PROGRAM | cat", "PROGRAM; echo done"):
        real = subprocess.run(
            ["bash", *options, "-c", text.replace("PROGRAM", "/bin/sh -c 'exit 143'")], capture_output=True, check=False
        )
        parts = ["bash", *options, "-c", text.replace("PROGRAM", "python train.py")]
        said = follow([Word(part, 1, 1, part) for part in parts])
        assert (said.lost is not None) == (real.returncode == 0), (text, said)


_TRAINING = """
import signal
import sys

import torch

from project.data import batches
from project.model import build

model = build()
optimizer = torch.optim.Adam(model.parameters())
stop = False


{handler}


signal.signal(signal.SIGTERM, on_term)
for step, batch in enumerate(batches(resume=True)):
    model(batch).loss.backward()
    optimizer.step()
    if step % 100 == 0 or stop:
        torch.save({{"model": model.state_dict(), "opt": optimizer.state_dict(), "step": step}}, f"/ckpt/{{step}}.pt")
    if stop:
        {leave}
"""
_SETS_FLAG = "def on_term(*_):\n    global stop\n    stop = True"


@pytest.mark.parametrize(
    ("handler", "leave", "wrong"),
    [
        ("def on_term(*_):\n    sys.exit(0)", "break", True),
        ("def on_term(*_):\n    sys.exit()", "break", True),
        ("def on_term(*_):\n    raise SystemExit", "break", True),
        ("def leave():\n    sys.exit(0)\n\n\ndef on_term(*_):\n    leave()", "break", True),
        ("on_term = lambda *_: sys.exit(0)", "break", False),  # a name for a lambda is not looked up
        (_SETS_FLAG, "break", True),
        (_SETS_FLAG, "sys.exit(143)", False),
        (_SETS_FLAG, "sys.exit(0)", False),  # not told apart from a stop that has finished
        (_SETS_FLAG, "raise SystemExit(128 + 15)", False),
        ("def on_term(*_):\n    sys.exit(143)", "break", False),
        ("def on_term(number, _):\n    sys.exit(128 + number)", "break", False),
    ],
)
def test_b25_a_program_that_leaves_with_0_at_sigterm_is_found(handler: str, leave: str, wrong: bool) -> None:
    source = Source(Path("train.py"), _TRAINING.format(handler=handler, leave=leave), Kind.PYTHON)
    assert ("K008" in {one.rule.id for one in check(source)}) == wrong
