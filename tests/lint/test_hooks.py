"""The pre-commit hook's entry run as pre-commit runs it, and the steps of the GitHub Action run as a runner does."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from outlast.lint.reading.kinds import kind_of
from outlast.lint.source import Kind
from rehearsal.driving import SOURCE

ROOT = Path(__file__).resolve().parents[2]
HOOK: dict[str, Any] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
# An exit code that is thrown away: an error.
BAD = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: example/train:1
          command: ["sh", "-c", "python train.py || true"]
          resources: {limits: {nvidia.com/gpu: 1}}
"""
GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with the command, as an installation would make it."""
    folder = tmp_path / "installed" / "bin"
    folder.mkdir(parents=True)
    program = f"import sys; sys.path.insert(0, {SOURCE!r}); from outlast.cli.main import main; main()"
    (folder / "outlast").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(program)} "$@"\n')
    (folder / "outlast").chmod(0o755)
    return folder


# --- pre-commit --------------------------------------------------------------------------------------


def _commit(folder: Path, files: dict[str, str], bin_folder: Path) -> subprocess.CompletedProcess[str]:
    """What pre-commit does with the hook: chosen files behind the entry, in the repository's folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    chosen = [name for name in files if re.search(HOOK["files"], name)]
    command = [*shlex.split(HOOK["entry"]), *HOOK.get("args", []), *chosen]
    env = {"PATH": f"{bin_folder}:/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_hook_has_what_pre_commit_asks_for() -> None:
    assert {"id", "name", "entry", "language"} <= set(HOOK)
    assert (HOOK["id"], HOOK["language"]) == ("outlast-lint", "python")
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2]
    assert scripts.strip().startswith("outlast =")  # `language: python` installs the repository, and that the entry


def test_a_commit_with_an_error_is_stopped_and_the_place_is_told(tmp_path: Path, bin_folder: Path) -> None:
    done = _commit(tmp_path / "repo", {"deploy/job.yaml": BAD, "README.md": "no manifest"}, bin_folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "deploy/job.yaml:" in done.stdout


def test_a_commit_without_an_error_passes(tmp_path: Path, bin_folder: Path) -> None:
    files = {"deploy/settings.yaml": GOOD, "Dockerfile": 'FROM python:3.12\nENTRYPOINT ["outlast", "run", "--"]\n'}
    done = _commit(tmp_path / "repo", files, bin_folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "job.yaml", "deploy/JOB.YML", "run.sh", "a/b.bash", "train.sbatch", "x.slurm", "main.tf", "train.py",
        "Dockerfile", "docker/Dockerfile.gpu", "train.dockerfile", "Containerfile", "a/containerfile", "README.md",
        "model.bin", "Makefile", "yaml", "notes.txt", "tf.txt", "mydockerfiles/readme", "setup.cfg", "a.pyc",
        "Dockerfile/x.txt",
    ],
)  # fmt: skip
def test_the_hook_is_given_the_files_that_lint_reads(name: str) -> None:
    given = re.search(HOOK["files"], name) is not None
    assert given == (kind_of(Path(name), "") is not None)


def test_every_kind_of_lint_is_given_to_the_hook() -> None:
    samples = {
        Kind.YAML: "a.yaml",
        Kind.SHELL: "a.sh",
        Kind.CONTAINERFILE: "Dockerfile",
        Kind.HCL: "a.tf",
        Kind.PYTHON: "a.py",
    }
    assert set(samples) == set(Kind)
    assert all(re.search(HOOK["files"], name) for name in samples.values())


# --- the action --------------------------------------------------------------------------------------

_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


class Runner:
    """What a runner of GitHub gives a composite action: a workspace, a folder for temporary files, outputs."""

    def __init__(self, folder: Path, bin_folder: Path, **inputs: str) -> None:
        self.folder, self.bin_folder = folder, bin_folder
        for name in ("workspace", "temp", "pretend"):
            (folder / name).mkdir(parents=True)
        self.outputs = folder / "outputs"
        self.inputs = {name: one["default"] for name, one in ACTION["inputs"].items()} | inputs

    def value(self, text: str) -> str:
        known = {f"inputs.{name}": value for name, value in self.inputs.items()} | {"github.action_path": str(ROOT)}
        return _EXPRESSION.sub(lambda match: known[match[1]], text)

    def run(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        env = {
            "PATH": f"{self.folder / 'pretend'}:/usr/bin:/bin",
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_OUTPUT": str(self.outputs),
            **{name: self.value(value) for name, value in step["env"].items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        workspace = self.folder / "workspace"
        return subprocess.run(command, cwd=workspace, env=env, capture_output=True, text=True, check=False)

    def install(self) -> list[str]:
        """The first step, with a python3 that notes what pip is told, and installs this checkout."""
        log = self.folder / "pip.log"
        (self.folder / "pretend" / "python3").write_text(
            f'#!/bin/sh\nmkdir -p "$3/bin"\nln -s {self.bin_folder / "outlast"} "$3/bin/outlast"\n'
            f'printf \'#!/bin/sh\\nprintf "%%s\\\\n" "$@" >> {log}\\n\' > "$3/bin/python"\nchmod +x "$3/bin/python"\n'
        )
        (self.folder / "pretend" / "python3").chmod(0o755)
        done = self.run(ACTION["runs"]["steps"][0])
        assert done.returncode == 0, done.stderr
        return log.read_text().splitlines()

    def lint(self) -> subprocess.CompletedProcess[str]:
        return self.run(ACTION["runs"]["steps"][1])

    def write(self, name: str, text: str) -> None:
        file = self.folder / "workspace" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def told(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.outputs.read_text().splitlines())


def test_without_a_version_the_actions_own_code_is_installed(tmp_path: Path, bin_folder: Path) -> None:
    assert Runner(tmp_path / "runner", bin_folder).install() == ["-m", "pip", "install", "--quiet", str(ROOT)]


def test_a_version_is_installed_from_the_index_and_is_never_run_as_a_script(tmp_path: Path, bin_folder: Path) -> None:
    evil = f"0.2.0; touch {tmp_path / 'pwned'} $(touch {tmp_path / 'pwned'})"
    assert Runner(tmp_path / "runner", bin_folder, version=evil).install()[-1] == f"outlast=={evil}"
    assert not (tmp_path / "pwned").exists()


def test_an_error_fails_the_step_and_its_findings_are_written(tmp_path: Path, bin_folder: Path) -> None:
    runner = Runner(tmp_path / "runner", bin_folder, paths="deploy\nother folder/Dockerfile\n")
    runner.install()
    runner.write("deploy/job.yaml", BAD)
    runner.write("other folder/Dockerfile", 'FROM python:3.12\nENTRYPOINT ["outlast", "run", "--"]\n')
    done = runner.lint()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "deploy/job.yaml" in done.stdout  # people see it in the log
    assert runner.told() == {"sarif-file": "outlast.sarif", "exit-code": "1"}
    found = json.loads((tmp_path / "runner" / "workspace" / "outlast.sarif").read_text())
    assert found["version"] == "2.1.0"
    assert "error" in {one["level"] for one in found["runs"][0]["results"]}


def test_no_error_lets_the_step_pass_and_writes_the_file_that_was_named(tmp_path: Path, bin_folder: Path) -> None:
    runner = Runner(tmp_path / "runner", bin_folder, **{"sarif-file": "found.sarif"})
    runner.install()
    runner.write("deploy/settings.yaml", GOOD)
    assert runner.lint().returncode == 0
    assert runner.told() == {"sarif-file": "found.sarif", "exit-code": "0"}
    assert json.loads((tmp_path / "runner" / "workspace" / "found.sarif").read_text())["runs"]


def test_what_cannot_be_read_fails_the_step_with_2(tmp_path: Path, bin_folder: Path) -> None:
    runner = Runner(tmp_path / "runner", bin_folder, paths="nowhere.yaml")
    runner.install()
    assert runner.lint().returncode == 2
    assert runner.told()["exit-code"] == "2"


def test_paths_that_look_like_options_or_commands_are_paths(tmp_path: Path, bin_folder: Path) -> None:
    runner = Runner(tmp_path / "runner", bin_folder, paths=f"--help\n$(touch {tmp_path / 'pwned'})")
    runner.install()
    assert runner.lint().returncode == 2
    assert not (tmp_path / "pwned").exists()


def test_no_script_of_the_action_has_an_expression_in_it() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    used = set(_EXPRESSION.findall((ROOT / "action.yml").read_text()))
    assert {name for name in used if name.startswith("inputs.")} == {f"inputs.{name}" for name in ACTION["inputs"]}
