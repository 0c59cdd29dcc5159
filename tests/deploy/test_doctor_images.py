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
from doctor_desk import CLOUD_RUN, Desk, answers

from outlast.deploy.doctor.entry_points import judge

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
]
_DEAF = [
    ["sh", "-c", "python train.py"],
    ["/bin/sh", "-c", "outlast run -- python train.py"],
    ["sh", "-c", "exec python a.py && python b.py"],
    ["bash", "-c", "outlast run -- python train.py | tee log"],
    ["bash", "-c", "outlast run -- python train.py &"],
    ["bash", "-c", "outlast run -- python train.py; "],
]
_LATE = [
    ["python", "train.py"],
    ["/usr/local/bin/python3.11", "-u", "train.py"],
    ["bash", "-c", "exec python train.py"],
]
_UNCLEAR = [[], ["npm", "start"], ["bash", "run.sh"], ["sh", "-c", "echo 'unclosed"], ["env"], ["torchrun", "train.py"]]


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
    assert judge(argv).verdict == verdict, judge(argv)


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
    said = judge([shell, "-c", line.replace(sys.executable, "outlast run -- python")]).verdict
    assert (said == "hears") == heard


def _desk(tmp_path: Path, *changes: dict[str, Any]) -> Desk:
    return Desk(tmp_path / "desk", [*answers("cloud"), *changes])


def _from_source(desk: Desk, dockerfile: str | None, command: str = "[python, train.py]") -> Any:
    text = CLOUD_RUN.format(url=desk.folder / "store").replace("[outlast, run, --, python, train.py]", command)
    text = text.replace("image: europe-west4-docker.pkg.dev/example-project/jobs/train:1", "source: app")
    (desk.folder / "app").mkdir(exist_ok=True)
    if dockerfile is not None:
        (desk.folder / "app" / "Dockerfile").write_text(dockerfile)
    return desk.checked("entry point", text), desk.checked("image", text)


@pytest.mark.parametrize(
    ("dockerfile", "state"),
    [
        (None, "ok"),
        ('FROM python\nENTRYPOINT ["outlast", "run", "--"]\nCMD ["python", "train.py"]\n', "ok"),
        ("FROM python\nENTRYPOINT python train.py\n", "bad"),
        ("FROM python\nENTRYPOINT ['outlast', 'run', '--']\n", "bad"),
        ('FROM a AS x\nENTRYPOINT ["tini", "--"]\nFROM python\n', "unknown"),
        ("FROM python\n# nothing else\n", "unknown"),
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


def test_a_dockerfile_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    (desk.folder / "app").mkdir()
    (desk.folder / "app" / "Dockerfile").write_bytes(b"FROM \xff\xfe")
    found, _ = _from_source(desk, None)
    assert found.state == "unknown"


def test_a_source_that_is_no_folder_is_bad(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    text = CLOUD_RUN.format(url=desk.folder / "store").replace(
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
    assert desk.checked("image", _IMAGE.format(url=tmp_path / "store")).state == state


def test_another_registry_without_docker_is_unknown(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", answers("cloud"), ("gcloud",))
    assert desk.checked("image", _IMAGE.format(url=tmp_path / "store")).state == "unknown"
