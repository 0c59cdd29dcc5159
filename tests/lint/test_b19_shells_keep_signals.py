"""B19: what is said of a shell's last command is what bash, dash and busybox ash do here, form by form."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from outlast.lint.command_line import Word
from outlast.lint.commands.entry import Entry, Hears, Surroundings, follow
from outlast.lint.commands.shells import Shell, sh_of_image

_PRINTS_ITS_ID = "/bin/sh -c 'echo $$'"
_SHELLS = {Shell.BASH: ["bash"], Shell.DASH: ["dash"], Shell.BUSYBOX: ["busybox", "ash"]}
# PROGRAM stands for the main program.
FORMS = (
    "PROGRAM",
    "PROGRAM ",
    "PROGRAM\n",
    "PROGRAM\n\n",
    "PROGRAM\n# end",
    "PROGRAM # end",
    "true; PROGRAM",
    "true && PROGRAM",
    "false || PROGRAM",
    "true\nPROGRAM",
    "set -e\ntrue\nPROGRAM\n",
    "cd / && A=1 PROGRAM",
    "export A=1; PROGRAM",
    "exec PROGRAM",
    "cd / && exec PROGRAM",
    "true; exec PROGRAM; echo never",
    "exec PROGRAM 2>/dev/null",
    "exec env A=1 PROGRAM",
    "nohup PROGRAM",
    "PROGRAM 2>/dev/null",
    "PROGRAM < /dev/null",
    "PROGRAM | cat",
    "exec PROGRAM | cat",
    "true | PROGRAM",
    "PROGRAM || true",
    "PROGRAM; exit $?",
    "PROGRAM; echo",
    "! PROGRAM",
    "( PROGRAM )",
    "( exec PROGRAM )",
    "{ PROGRAM; }",
    "true && { PROGRAM; }",
    "if true; then PROGRAM; fi",
    "if true; then PROGRAM; fi\n",
    "if true; then exec PROGRAM; fi",
    "if false; then true; else PROGRAM; fi",
    "case a in a) PROGRAM;; esac",
    "for i in 1; do PROGRAM; done",
    "while true; do PROGRAM; break; done",
    "f() { PROGRAM; }; f",
    "f() { true; }; PROGRAM",
    "PROGRAM &\nwait",
    "exec PROGRAM &\nwait",
    "true & PROGRAM",
    "trap 'echo' USR1; PROGRAM",
    "trap 'echo' EXIT; PROGRAM",
    "trap '' INT; PROGRAM",
    "PROGRAM <<X\ntext\nX\n",
)


def _first_is_the_program(command: list[str]) -> bool:
    """Whether the program has the id of the process that was started: the shell has become it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output, _ = process.communicate(timeout=30)
    printed = re.findall(r"\d+", output)
    assert printed, command
    return str(process.pid) in printed


def _said(command: list[str], sh: Shell | None = None, scripts: dict[str, str] | None = None) -> Entry:
    words = [Word(part, 1, 1, part) for part in command]
    return follow(words, Surroundings(sh=sh, script=(scripts or {}).get))


@pytest.mark.parametrize("shell", _SHELLS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_b19_a_text_behind_c_is_judged_as_the_shell_runs_it(form: str, shell: Shell) -> None:
    starter = _SHELLS[shell]
    if shutil.which(starter[0]) is None:
        pytest.skip(f"{starter[0]} is not installed")
    text = form.replace("PROGRAM", _PRINTS_ITS_ID)
    real = _first_is_the_program([*starter, "-c", text])
    said = _said(["sh", "-c", form.replace("PROGRAM", "python3 work.py")], shell)
    assert (said.hears is Hears.YES) == real, said


@pytest.mark.parametrize("shell", _SHELLS, ids=str)
@pytest.mark.parametrize("form", [form for form in FORMS if "| cat" not in form])
def test_b19_a_script_in_a_file_is_judged_as_the_shell_runs_it(form: str, shell: Shell, tmp_path: Path) -> None:
    starter = _SHELLS[shell]
    if shutil.which(starter[0]) is None:
        pytest.skip(f"{starter[0]} is not installed")
    script = tmp_path / "run.sh"
    script.write_text(form.replace("PROGRAM", _PRINTS_ITS_ID))
    real = _first_is_the_program([*starter, str(script)])
    said = _said(["sh", "run.sh"], shell, {"run.sh": form.replace("PROGRAM", "python3 work.py")})
    assert (said.hears is Hears.YES) == real, said


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py"],
        ["tini", "--", "python", "train.py"],
        ["/sbin/tini", "-g", "--", "sh", "-c", "python train.py"],
        ["dumb-init", "sh", "-c", "python train.py; echo done"],
        ["outlast", "run", "--url", "gs://example-bucket/run", "--", "python", "train.py"],
        ["bash", "-c", "python train.py"],
        ["bash", "-lc", "exec python train.py"],
        ["sh", "-c", "exec python train.py"],
        ["env", "A=1", "python", "train.py"],
        ["timeout", "-s", "TERM", "3h", "python", "train.py"],
        ["torchrun", "--nproc_per_node=8", "train.py"],
        ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"],
        ["poetry", "run", "python", "train.py"],
        ["uv", "run", "--frozen", "train.py"],
        ["gosu", "user", "python", "train.py"],
        ["sh", "-c", "trap 'kill -TERM $pid' TERM; python train.py & pid=$!; wait $pid"],
    ],
    ids=" ".join,
)
def test_b19_forms_that_let_the_signal_through_are_left_alone(command: list[str]) -> None:
    assert _said(command, Shell.DASH).hears is Hears.YES


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "python train.py"],
        ["bash", "-c", "cd /app && python train.py; echo done"],
        ["bash", "-c", "python train.py 2>&1 | tee log.txt"],
        ["tini", "--", "sh", "-c", "python train.py"],
        ["dumb-init", "--single-child", "sh", "-c", "python train.py"],
        ["conda", "run", "-n", "job", "python", "train.py"],
        ["accelerate", "launch", "--num_processes", "1", "train.py"],
        ["xvfb-run", "-a", "python", "train.py"],
        ["sh", "-c", "trap 'exit 0' TERM; python train.py & wait $!"],
        ["sh", "-c", "trap 'kill -TERM $pid' TERM; python train.py"],
        ["sh", "-c", "while true; do python train.py; sleep 5; done"],
    ],
    ids=" ".join,
)
def test_b19_forms_that_keep_the_signal_are_found(command: list[str]) -> None:
    said = _said(command, Shell.DASH)
    assert said.hears is Hears.NO
    assert said.why


def test_b19_an_sh_that_nobody_knows_is_judged_by_all_that_it_may_be() -> None:
    assert _said(["sh", "-c", "python train.py"]).hears is Hears.SOME
    assert _said(["sh", "-c", "exec python train.py"]).hears is Hears.YES
    assert _said(["sh", "-c", "python train.py; echo done"]).hears is Hears.NO


def test_b19_an_entry_script_that_passes_on_its_arguments_is_followed_into_them() -> None:
    scripts = {"/entry.sh": '#!/bin/sh\nset -e\nexec "$@"\n'}
    said = _said(["/entry.sh", "python", "train.py"], Shell.DASH, scripts)
    assert (said.hears, said.first) == (Hears.YES, True)
    assert [word.text for word in said.main] == ["python", "train.py"]
    assert _said(["/entry.sh", "sh", "-c", "python train.py"], Shell.DASH, scripts).hears is Hears.NO
    kept = {"/entry.sh": '#!/bin/sh\n"$@"\n'}
    assert _said(["/entry.sh", "python", "train.py"], Shell.DASH, kept).hears is Hears.NO


@pytest.mark.parametrize(
    ("image", "shell"),
    [
        ("python:3.11-slim", Shell.DASH),
        ("docker.io/library/python:3.12", Shell.DASH),
        ("python:3.11-alpine", Shell.BUSYBOX),
        ("nvidia/cuda:12.4.1-runtime-ubuntu22.04", Shell.DASH),
        ("nvidia/cuda:12.4.1-runtime-ubi9", Shell.BASH),
        ("nvcr.io/nvidia/pytorch:24.05-py3", Shell.DASH),
        ("pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime", Shell.DASH),
        ("rockylinux:9", Shell.BASH),
        ("gcr.io/example/train:1", None),
        (None, None),
    ],
)
def test_b19_an_image_tells_which_shell_its_sh_is(image: str | None, shell: Shell | None) -> None:
    assert sh_of_image(image) is shell


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"f{n}() {{ " + f"f{n + 1}; " * 200 + "}\n" for n in range(6)) + "f6() { A=1; }\nf0\n",
        "f() { f; f; f; f; }\nf\n",
        "a && " * 3_000 + "python train.py",
        "(" * 100 + "python train.py" + ")" * 100,
        "trap f TERM\nf() { f; }\npython train.py &\nwait\n",
        "python train.py " + "| tee a " * 500,
        "\n".join(f"trap 'kill {n}' TERM" for n in range(2_000)) + "\npython train.py\n",
    ],
    ids=range(7),
)
def test_hostile_scripts_are_judged_in_bounded_time(text: str) -> None:
    begin = time.process_time()
    _said(["bash", "-c", text])
    _said(["bash", "run.sh"], None, {"run.sh": text})
    assert time.process_time() - begin < 20
