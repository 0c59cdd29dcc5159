"""Whether SIGTERM reaches the program: from a command, a Dockerfile and an image; and whether the image is there."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from doctor_desk import CLOUD_RUN, URL, Desk, answers

from outlast.deploy.doctor.entry_points import entry_of, judge

_HEARING = [
    ["outlast", "run", "--", "python", "train.py"],
    ["/usr/local/bin/outlast", "work", "sqlite:///q.db", "m:f"],
    ["tini", "--", "python", "train.py"],
    ["/usr/bin/dumb-init", "python", "train.py"],
    ["env", "A=1", "outlast", "run", "--", "python", "train.py"],
    ["nice", "-n", "5", "tini", "--", "python", "x.py"],
    ["sh", "-c", "exec outlast run -- python train.py"],
    ["/bin/sh", "-c", "cd /app && exec tini -- python train.py"],
    ["bash", "-c", "outlast run -- python train.py"],
    ["bash", "-euxc", "cd /app; outlast run -- python train.py"],
    ["bash", "-c", "outlast run -- python train.py; "],
    ["torchrun", "train.py"],
]
_DEAF = [
    ["dash", "-c", "python train.py"],
    ["/bin/dash", "-c", "outlast run -- python train.py"],
    ["dash", "-c", "exec python a.py && python b.py"],
    ["bash", "-c", "outlast run -- python train.py | tee log"],
    ["bash", "-c", "outlast run -- python train.py &"],
]
_LATE = [
    ["python", "train.py"],
    ["/usr/local/bin/python3.11", "-u", "train.py"],
    ["bash", "-c", "exec python train.py"],
]
_UNCLEAR = [
    [], ["npm", "start"], ["bash", "run.sh"], ["sh", "-c", "echo 'unclosed"], ["env"], ["./a-program"],
    ["sh", "-c", "python train.py"],  # bash would become it, dash not; the image's name does not tell
]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "verdict"),
    [
        *((argv, "hears") for argv in _HEARING),
        *((argv, "deaf") for argv in _DEAF),
        *((argv, "late") for argv in _LATE),
        *((argv, "unclear") for argv in _UNCLEAR),
    ],
)
def test_each_way_to_start_a_program_is_known_for_what_it_does_with_sigterm(argv: list[str], verdict: str) -> None:
    judged = judge(entry_of(argv, image="registry.example/train:1"))
    assert judged.verdict == verdict, judged


def test_the_name_of_an_image_may_tell_its_shell() -> None:
    argv = ["sh", "-c", "outlast run -- python train.py"]
    assert judge(entry_of(argv, image="python:3.12-slim")).verdict == "deaf"
    assert judge(entry_of(argv, image="python:3.12-alpine")).verdict == "hears"


_SLEEPER = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(9)); print(1, flush=True); time.sleep(20)"


@pytest.mark.parametrize(
    "script",
    ["exec {python}", "{python}", "true && {python}", "{python} | cat", "{python}; true", "{python} && true"],
)
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_verdict_on_a_shell_is_what_the_shell_does(tmp_path: Path, shell: str, script: str) -> None:
    """The real shells of this machine, each sent a SIGTERM: dash stands for the sh of Debian."""
    program = tmp_path / "python-sleeper.py"
    program.write_text(_SLEEPER)
    line = script.format(python=f"{sys.executable} {program}")
    process = subprocess.Popen([shell, "-c", line], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.read(1) if "|" not in line else time.sleep(0.3)
    process.terminate()
    heard = process.wait(30) == 9
    with suppress(ProcessLookupError):  # what a deaf shell has left running
        os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    started = [shell, "-c", line.replace(sys.executable, "outlast run -- python")]
    said = judge(entry_of(started, image="")).verdict
    assert (said == "hears") == heard


def _desk(tmp_path: Path, *changes: dict[str, Any]) -> Desk:
    return Desk(tmp_path / "desk", [*answers("cloud"), *changes])


def _from_source(desk: Desk, dockerfile: str | None) -> Any:
    text = CLOUD_RUN.format(url=URL).replace(
        "image: europe-west4-docker.pkg.dev/example-project/jobs/train:1", "source: app"
    )
    (desk.folder / "app").mkdir(exist_ok=True)
    if dockerfile is not None:
        (desk.folder / "app" / "Dockerfile").write_text(dockerfile)
    return desk.checked("entry point", text), desk.checked("image", text)


@pytest.mark.parametrize(
    ("dockerfile", "state"),
    [
        (None, "ok"),
        ('FROM python\nENTRYPOINT ["outlast", "run", "--"]\nCMD ["python", "train.py"]\n', "ok"),
        ("FROM python\nRUN pip install outlast\nENTRYPOINT python train.py\n", "bad"),
        ("FROM python\nENTRYPOINT ['outlast', 'run', '--']\n", "bad"),
        ('FROM python\nRUN pip install outlast\nCMD ["python", "train.py"]\n', "unknown"),
        ('FROM a AS x\nRUN pip install outlast\nENTRYPOINT ["tini", "--"]\nFROM python\n', "unknown"),
        ('FROM python\nENTRYPOINT ["tini", "--"]\nCMD ["python", "train.py"]\n', "unknown"),  # without outlast
        ("\x00\x01", "unknown"),
    ],
)
def test_the_dockerfile_of_the_source_decides(tmp_path: Path, dockerfile: str | None, state: str) -> None:
    desk = _desk(tmp_path)
    found, image = _from_source(desk, dockerfile)
    assert found.state == state, found
    assert image.state == "ok"
    if state == "bad":
        assert found.mend == f"outlast lint {desk.folder / 'app' / 'Dockerfile'}"


@pytest.mark.parametrize(
    ("config", "state"),
    [
        ({"Entrypoint": ["outlast", "run", "--"], "Cmd": ["python", "train.py"]}, "ok"),
        ({"Entrypoint": ["/bin/sh", "-c", "python train.py | tee log"], "Cmd": None}, "bad"),
        ({"Entrypoint": None, "Cmd": ["python3"]}, "unknown"),
    ],
)
def test_an_image_on_this_machine_tells_how_it_starts(tmp_path: Path, config: dict[str, Any], state: str) -> None:
    desk = _desk(tmp_path, {"words": "docker image inspect", "out": [{"Config": config}]})
    assert desk.checked("entry point", CLOUD_RUN.format(url=URL)).state == state


def test_an_image_elsewhere_is_started_as_deploy_starts_it(tmp_path: Path) -> None:
    gone = {"words": "docker image inspect", "code": 1, "error": "Error response from daemon: No such image"}
    found = _desk(tmp_path, gone).checked("entry point", CLOUD_RUN.format(url=URL))
    assert found.state == "ok"
    assert "`outlast run -- python train.py`" in found.why


def test_a_dockerfile_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    (desk.folder / "app").mkdir()
    (desk.folder / "app" / "Dockerfile").write_bytes(b"FROM \xff\xfe")
    found, _ = _from_source(desk, None)
    assert found.state == "unknown"


def test_a_source_that_is_no_folder_is_bad(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    text = CLOUD_RUN.format(url=URL).replace(
        "image: europe-west4-docker.pkg.dev/example-project/jobs/train:1", "source: nowhere"
    )
    assert desk.checked("image", text).state == "bad"


_IMAGE = CLOUD_RUN.replace("europe-west4-docker.pkg.dev/example-project/jobs/", "registry.example/")


@pytest.mark.parametrize(
    ("error", "code", "state"),
    [("", 0, "ok"), ("no such manifest: registry.example/train:1", 1, "bad"), ("denied: 403 Forbidden", 1, "unknown")],
)
def test_an_image_of_another_registry_is_asked_for_through_docker(
    tmp_path: Path, error: str, code: int, state: str
) -> None:
    desk = _desk(tmp_path, {"words": "docker manifest inspect", "error": error, "code": code})
    assert desk.checked("image", _IMAGE.format(url=URL)).state == state


def test_another_registry_without_docker_is_unknown(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud"), ("gcloud",))
    assert desk.checked("image", _IMAGE.format(url=URL)).state == "unknown"
