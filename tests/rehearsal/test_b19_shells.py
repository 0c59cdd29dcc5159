"""B19: something that is no job stands between the platform and the program, and SIGTERM dies there.

Where the metadata or the node announce the end, the program hears that all the same: test_notices_elsewhere.
"""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from signalled import LOOP, START, Program, commits, events
from supervised import OUTLAST, PID_1, need_pid_namespaces

# As npm does it: a process of its own, a shell below it, the signal for the shell alone, and then death by it.
_WRAPPER = """
import os, signal, subprocess, sys
shell = subprocess.Popen(["sh", "-c", '"$0" "$@"; exit $?', *sys.argv[1:]])
signal.signal(signal.SIGTERM, lambda *_: shell.send_signal(signal.SIGTERM))
code = shell.wait()
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
_ENTRY = '#!/bin/sh\nset -e\necho starting\n"$@"\n'
_ENTRY_WITH_EXEC = '#!/bin/sh\nset -e\necho starting\nexec "$@"\n'
FORMS: dict[str, tuple[str, ...]] = {
    "sh -c": ("sh", "-c", '"$0" "$@"'),
    "bash -c, more": ("bash", "-c", 'cd . && "$0" "$@"; exit $?'),
    "sh -c, a pipe": ("sh", "-c", '"$0" "$@" 2>&1 | cat'),
    "bash -c": ("bash", "-c", '"$0" "$@"'),
    "an entry script": ("./entry",),
    "a wrapper": (sys.executable, "wrapper.py"),
    "a trap that forwards": (
        "sh",
        "-c",
        'trap \'kill -TERM "$program"\' TERM; "$0" "$@" & program=$!; wait "$program"; wait "$program"',
    ),
    "a trap that waits": ("sh", "-c", 'trap "echo asked to leave" TERM; "$0" "$@"'),
    "a trap that ignores": ("sh", "-c", 'trap "" TERM; "$0" "$@"'),
    "an entry script with exec": ("./entry-exec",),
}


def start(stack: ExitStack, form: str, folder: Path, *before: str) -> Program:
    folder.mkdir()
    (folder / "wrapper.py").write_text(_WRAPPER)
    for name, text in (("entry", _ENTRY), ("entry-exec", _ENTRY_WITH_EXEC)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return stack.enter_context(Program(START + LOOP, folder, prefix=(*before, *FORMS[form])))


# A shell that handles the signal itself, lives on, and tells the program nothing: nobody can know that from outside.
KEPT = ("a trap that waits", "a trap that ignores")
# As the first process of a container, without `outlast run`: who hands itself over to the program, or the signal on.
HEARD_AS_PID_1 = ("bash -c", "a trap that forwards", "an entry script with exec")


@pytest.mark.serial
def test_under_outlast_run_the_program_hears_it_and_saves_whatever_stands_between(tmp_path: Path) -> None:
    need_pid_namespaces()
    with ExitStack() as stack:
        run = (*PID_1, *OUTLAST, "--grace", "3", "--")
        programs = {form: start(stack, form, tmp_path / form, *run) for form in FORMS}
        for program in programs.values():
            program.wait_for("begun")
        sent_at = {form: program.send() for form, program in programs.items()}
        for form, program in programs.items():
            left = program.leave()
            assert left.code == 143, (form, left.err)
            assert left.at - sent_at[form] < 3, form
            if form in KEPT:
                assert commits(tmp_path / form)[-1] >= 5, "the last periodic save is kept"
                continue
            (stopped,) = program.events("Stopped")
            assert stopped["lost_steps"] == 0, form
            assert commits(tmp_path / form)[-1] == stopped["step"], form


@pytest.mark.serial
def test_without_it_a_shell_as_first_process_keeps_the_signal_and_the_last_periodic_save_is_what_remains(
    tmp_path: Path,
) -> None:
    need_pid_namespaces()
    with ExitStack() as stack:
        programs = {form: start(stack, form, tmp_path / form, *PID_1) for form in set(FORMS).difference(KEPT)}
        for program in programs.values():
            program.wait_for("begun")
        for program in programs.values():
            program.send()
        for form in HEARD_AS_PID_1:
            assert programs.pop(form).leave().code == 143, form
            assert commits(tmp_path / form)[-1] == stopped_at(tmp_path / form), form
        for form, program in programs.items():
            assert program.events("NoticeHeard") == [], form
            if form != "a wrapper":  # that one left, and the kernel killed the program with it
                program.send(signal.SIGKILL)
            program.leave()
            assert commits(tmp_path / form)[-1] >= 5, form


def stopped_at(folder: Path) -> int:
    (stopped,) = events(folder, "Stopped")
    return int(stopped["step"])
