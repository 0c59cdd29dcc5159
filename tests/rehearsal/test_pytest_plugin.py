"""The pytest plugin as its users have it: loaded by its entry point, quiet unless asked, plain where a test fails."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import victims

import outlast

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are simulated on Linux")

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_tests(tmp_path: Path) -> Run:
    """Runs pytest on files in a project of their own, with the plugin as an installed one."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = tmp_path / "installed" / "outlast_here-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: outlast-here\nVersion: 1\n")
    entries = "".join(f"{name} = {target}\n" for name, target in declared.items())
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{entries}")
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    (project / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config\n"
    )

    def run(*options: str, **files: str) -> subprocess.CompletedProcess[str]:
        for name, text in files.items():
            folder = project / "tests" if name.startswith("test_") else project
            (folder / f"{name}.py").write_text(text)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "OUTLAST", "CI"))}
        path = os.pathsep.join([str(installed.parent), str(Path(outlast.__file__).parents[1])])
        return subprocess.run(
            [sys.executable, "-m", "pytest", "--basetemp", str(tmp_path / "base"), *options, "tests"],
            cwd=project,
            env={**kept, "PYTHONPATH": path, "OUTLAST_GRACE": "3"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_test_passes_when_its_command_survives(run_tests: Run, tmp_path: Path) -> None:
    done = run_tests(
        "-q",
        train=victims.SURVIVOR,
        test_train="""
def test_survives(rehearse):
    report = rehearse("python train.py", platform="cloud-run", interruptions=3, results="state.json")
    assert report.survived
    assert report.reasons == ()
    assert len(report.attempts) == 4
    assert {one.path for one in report.results} == {"state.json", "<stdout, last line>"}
    noticed = next(one for one in report.attempts if one.ended_by == "SIGTERM")
    assert abs(noticed.grace_seconds - 3) < 0.1
    assert noticed.stopped_after_seconds < noticed.grace_seconds
    last = report.attempts[-1]
    assert all(last.started_at < at < last.started_at + last.seconds for at in last.saves_seen)
    assert last.saves_seen
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict" not in done.stdout
    assert not list(tmp_path.rglob("outlast-report*"))
    assert not (tmp_path / "project" / "state.json").exists()


def test_a_test_that_fails_shows_the_reasons_and_attempts_and_leaves_a_page(run_tests: Run, tmp_path: Path) -> None:
    done = run_tests(
        train=victims.LEAVES_WITH_0,
        test_train="""
def test_survives(rehearse):
    assert rehearse(["python", "train.py"], interruptions=3).survived
""",
    )
    assert done.returncode == 1, done.stdout
    (assertion,) = re.findall(r"^E +\+ +where False = (<.*>)\.survived$", done.stdout, re.M)
    assert assertion.startswith("<not-survived on cloud-run, ")
    assert "it left with 0, so the platform records success" in assertion
    section = done.stdout.split("Captured rehearsal 1 call")[1]
    assert "verdict: not-survived" in section
    assert re.search(r"│ +\d │ .* │ finished +│ +0 │", section)  # an attempt
    (page,) = tmp_path.glob("base/test_survives0/outlast-report.html")
    assert f"report: {page}" in section.replace("\n", "")
    assert "not-survived" in page.read_text()
    assert "\x1b" not in done.stdout


def test_what_cannot_be_rehearsed_has_not_survived_and_bad_settings_are_an_error(run_tests: Run) -> None:
    done = run_tests(
        "-q",
        train="raise SystemExit('no data')",
        test_train="""
import pytest
from outlast.errors import SettingsError

def test_fails(rehearse, tmp_path):
    report = rehearse("python3 train.py")
    assert (report.survived, report.verdict) == (False, "could-not-rehearse")
    assert "no data" in report.reasons[0]
    again = rehearse("python3 train.py", cwd=tmp_path)
    assert "No such file" in again.reasons[0] or "can't open file" in again.reasons[0]
    assert [one.name for one in sorted(tmp_path.iterdir())] == ["outlast-report-2.html", "outlast-report.html"]
    with pytest.raises(SettingsError, match="moon"):
        rehearse("true", platform="moon")
    with pytest.raises(SettingsError, match="no command"):
        rehearse("")
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_changes_for_tests_that_do_not_ask(run_tests: Run) -> None:
    """Neither what is loaded, nor a handler, a thread, an option, a hook or a line of output."""
    observe = """
import json, signal, sys, threading

def test_quiet(pytestconfig):
    plugin = pytestconfig.pluginmanager.get_plugin("outlast")
    print(json.dumps({
        "plugin": plugin is not None,
        "loaded": sorted(name for name in sys.modules if name.startswith("outlast")),
        "heavy": sorted({"rich", "click", "watchdog", "obstore", "pathspec", "torch", "numpy"} & set(sys.modules)),
        "hooks": [name for name in dir(plugin) if name.startswith("pytest_")],
        "threads": threading.active_count(),
        "handlers": [repr(signal.getsignal(one)) for one in (signal.SIGTERM, signal.SIGINT)],
    }))
"""
    seen, output = [], []
    for options in ((), ("-p", "no:outlast")):
        done = run_tests("-rP", *options, test_quiet=observe)
        assert done.returncode == 0, done.stdout
        (line,) = [one for one in done.stdout.splitlines() if one.startswith("{")]
        seen.append(json.loads(line))
        output.append([one for one in done.stdout.splitlines() if not one.startswith("{") and " in " not in one])
    with_it, without = seen
    assert with_it.pop("plugin")
    assert not without.pop("plugin")
    assert with_it.pop("loaded") == ["outlast", "outlast.pytest_plugin"]
    assert without.pop("loaded") == []
    assert with_it == without
    assert (with_it["hooks"], with_it["heavy"]) == ([], [])
    assert [re.sub(r"outlast[^,]*,? ?", "", one) for one in output[0]] == output[1]
