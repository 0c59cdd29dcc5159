"""scripts/make-venv on machines that lack something: one line that says what, and the command that mends it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make-venv"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A bin folder with what the script needs and nothing else; its user is not root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("bash", "rm", "env"):
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    _write(folder / "id", "echo 1000")
    return folder


def _write(path: Path, body: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
    path.chmod(0o755)


def _make(machine: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(machine / "bash"), str(_SCRIPT), str(machine.parent / "venv")]
    return subprocess.run(command, env={"PATH": str(machine)}, capture_output=True, text=True, check=False)


def test_it_makes_an_environment_with_pip(machine: Path) -> None:
    (machine / "python3").symlink_to(sys.executable)
    assert _make(machine).returncode == 0
    subprocess.run([machine.parent / "venv" / "bin" / "python", "-m", "pip", "--version"], check=True)


def test_an_old_python3_is_passed_over_for_a_newer_one(machine: Path) -> None:
    _write(machine / "python3", "exit 1")
    (machine / "python3.12").symlink_to(sys.executable)
    assert _make(machine).returncode == 0


def test_without_a_python_it_says_so_in_one_line(machine: Path) -> None:
    _write(machine / "python3", "exit 1")
    made = _make(machine)
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "no Python 3.11 or newer" in made.stderr
    assert "apt-get install python3 python3-venv" in made.stderr


def test_without_venv_it_says_so_in_one_line_and_leaves_no_half_made_environment(machine: Path) -> None:
    _write(machine / "python3", f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"')
    made = _make(machine)
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "apt-get install python3." in made.stderr
    assert not (machine.parent / "venv").exists()


def test_root_on_debian_installs_what_is_missing(machine: Path) -> None:
    log, mark = machine.parent / "asked", machine.parent / "installed"
    _write(machine / "id", "echo 0")
    _write(machine / "apt-get", f'echo "$*" >> {log}; [ "$1" = update ] || > {mark}')
    lacks_it = f'case "$2" in *ensurepip*) [ -e {mark} ] || exit 1;; esac'
    _write(machine / "python3", f'{lacks_it}\nexec {sys.executable} "$@"')
    assert _make(machine).returncode == 0
    update, install = log.read_text().splitlines()
    assert update.startswith("update")
    assert install.startswith("install")
    assert install.endswith("-venv")
