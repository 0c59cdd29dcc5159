"""`outlast init` writes a description of options or of answers, and never over a file."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.deploy.description_file import load_description

_OUTLAST = [sys.executable, "-c", "from outlast.cli.main import main; main()"]


def _init(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*_OUTLAST, "init", *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_options_make_a_description_that_deploy_reads(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("")
    done = _init(
        tmp_path, "--name", "train", "--command", "python main.py --name 'a b'", "--url", "gs://example-bucket/train",
        "--gpu", "nvidia-l4", "--tasks", "4", "--set", "measured.state_size=2Gi",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "outlast deploy cloud-run\n" in done.stdout
    found = load_description(folder=tmp_path).description
    assert found.command == ("python", "main.py", "--name", "a b")
    assert (found.hardware.gpu, found.tasks, found.source) == ("nvidia-l4", 4, ".")
    before = (tmp_path / "outlast.yaml").read_text()
    again = _init(tmp_path, "--name", "other", "--command", "true", "--url", "gs://example-bucket/x")
    assert (again.returncode, (tmp_path / "outlast.yaml").read_text()) == (1, before)
    assert "was left as it is" in again.stderr


def test_settings_that_cannot_work_write_nothing(tmp_path: Path) -> None:
    done = _init(tmp_path, "--name", "Train", "--command", "true", "--url", "gs://example-bucket/x")
    assert done.returncode == 78
    assert "argument: name: 'Train' is no name" in done.stderr
    assert _init(tmp_path, "--name", "train", "--url", "gs://example-bucket/x").returncode == 78
    assert _init(tmp_path, "--set", "nmae=x").returncode == 78
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "platform"),
    [
        ([], "cloud-run"),
        (["--set", "hardware.spot=true", "--gpu", "nvidia-l4"], "gke-spot"),
        (["--set", "hardware.tpu=v5e", "--set", "hardware.topology=2x4"], "gke-tpu"),
        (["--set", "kubernetes.cluster=c"], "kubernetes"),
        (["--platform", "gke-gpu"], "gke-gpu"),
    ],
)
def test_a_platform_is_always_written_so_that_the_doctor_can_look(
    tmp_path: Path, words: list[str], platform: str
) -> None:
    done = _init(tmp_path, "--command", "python t.py", "--url", "gs://example-bucket/x", "--name", "train", *words)
    assert done.returncode == 0, done.stderr
    assert load_description(folder=tmp_path).description.platform == platform


def test_a_gpu_that_cloud_run_does_not_have_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    done = _init(tmp_path, "--command", "true", "--url", "gs://example-bucket/x", "--gpu", "l4")
    assert (done.returncode, list(tmp_path.iterdir())) == (78, [])
    assert "nvidia-l4" in done.stderr


def test_where_nobody_can_answer_the_options_are_named(tmp_path: Path) -> None:
    done = _init(tmp_path)
    assert done.returncode == 2
    assert "--example" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gpu", ["", "nvidia-l4"])
def test_answers_make_the_same_and_a_wrong_one_is_asked_again(tmp_path: Path, gpu: str) -> None:
    folder = tmp_path / "My_Job"
    folder.mkdir()
    (folder / "main.py").write_text("")
    answers = [
        "My_Job",
        "",
        "",
        "",
        "gs://example-bucket/x",
        "cloud-rum",
        "",
        gpu,
        "soon",
        "2d",
        "",
        "example-project",
        "europe-west4",
    ]
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*_OUTLAST, "init"], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, give_up = "", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < give_up:
        if not select.select([ours], [], [], 0.2)[0]:
            continue
        try:
            said += os.read(ours, 4096).decode()
        except OSError:
            break
        if said.rstrip().endswith(":") and answers:
            os.write(ours, f"{answers.pop(0)}\n".encode())
            said += "\n"
    assert process.wait(10) == 0, said
    os.close(ours)
    assert "did you mean 'cloud-run'" in said
    assert "'My_Job' is no name" in said, "told before the other questions are answered"
    assert "this is needed" in said, "no job without a place for its checkpoints"
    found = load_description(folder=folder).description
    assert (found.name, found.command, found.url) == ("my-job", ("python", "main.py"), "gs://example-bucket/x")
    assert (found.hardware.gpu or "", found.run_seconds, found.region) == (gpu, 172800, "europe-west4")
