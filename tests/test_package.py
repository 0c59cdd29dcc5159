"""The package as users get it: the wheel, built and installed in a fresh environment elsewhere."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_EXAMPLE = ROOT / "examples" / "digits.py"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that holds the wheel; its dependencies are those of the tests' own."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OUTLAST_", "CLOUD_RUN_"))
    }

    def run(*command: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        path = [str(installed / command[0]), *command[1:]]
        done = subprocess.run(path, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done

    return run


def test_the_wheel_holds_the_package_its_types_and_the_starter(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert archive.read("outlast/starter/digits.py") == _EXAMPLE.read_bytes()
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "outlast").rglob("*.py")}
    assert modules | {"outlast/py.typed"} <= names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "examples/", "docs/"))]


def test_the_installed_package_is_the_wheels_and_imports(run: Run, installed: Path) -> None:
    shown = run("python", "-c", "import outlast; print(outlast.__file__, outlast.__version__); outlast.Job")
    file, version = shown.stdout.split()
    assert installed.parent in Path(file).parents
    assert version in run("outlast", "--version").stdout


def test_help_is_there_for_every_command(run: Run) -> None:
    listed = run("outlast", "--help").stdout
    lines = listed.partition("Commands:")[2].splitlines()
    commands = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]
    assert {"init", "platform", "rehearse", "run", "checkpoints"} <= set(commands)
    for command in commands:
        assert "Usage: outlast " + command in run("outlast", command, "--help").stdout


def test_init_writes_the_example_once_and_never_over_a_file(run: Run, tmp_path: Path) -> None:
    said = run("outlast", "init", "--example", "fresh/job").stdout
    written = tmp_path / "fresh" / "job" / "digits.py"
    assert written.read_bytes() == _EXAMPLE.read_bytes()
    assert "pip install numpy scikit-learn" in said
    assert "outlast rehearse" in said
    written.write_text("mine")
    refused = run("outlast", "init", "--example", "fresh/job", code=1)
    assert "exists already" in refused.stderr
    assert written.read_text() == "mine"


def test_platform_reports_every_fact_with_its_source(run: Run) -> None:
    shown = json.loads(run("outlast", "platform", "--json").stdout)
    assert shown["platform"] in ("local", "gce-spot", "aws-spot", "azure-spot")  # by whose machine this is
    assert shown["grace_seconds"] == 30
    assert shown["exit_code_interrupted"] == 143
    assert set(shown["sources"]) == set(shown) - {"sources"}
    assert "exit_code_interrupted" in run("outlast", "platform").stdout
