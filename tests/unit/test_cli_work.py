"""`outlast work`: finds the function, refuses what cannot work, and leaves with the truth."""

import fcntl
import inspect
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import outlast
from outlast.cli.functions import load_function
from outlast.cli.main import main
from outlast.cli.work import work
from outlast.errors import SettingsError
from outlast.registry import open_sink

_LABEL = """
import outlast
print("loaded")
VALUE = 7

def infer(items):
    return [{"double": 2 * item.payload["n"]} for item in items]

def some_fail(items):
    return {item.id: ValueError("a bad file") if item.payload["n"] % 2 else 1 for item in items}

def model():
    return "model"

def with_model(items, model):
    return [[model, item.loaded] for item in items]

def load(item):
    return item.id * 2

class Group:
    @staticmethod
    def infer(items):
        return [1 for _ in items]

def slow(items):
    import time
    for number, item in enumerate(items):
        if number:
            open("second", "w").close()
        time.sleep(0.3)
        yield item.id, 1

@outlast.batch("sqlite:///other.db", sink="sqlite:///other.db?table=t", version="own", chunk=5, setup=model)
def decorated(items, model):
    return [[model, len(items)] for _ in items]
"""
SINK = "sqlite:///results.db?table=labels"
_OUTLAST = [sys.executable, "-c", "from outlast.cli.main import main; main()"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a module of functions and a queue of 10 items; forgets the module afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "label.py").write_text(_LABEL)
    (tmp_path / "items.jsonl").write_text("".join(f'{{"id": "i{n}", "n": {n}}}\n' for n in range(10)))
    monkeypatch.setitem(sys.modules, "label", None)  # so that it is gone again at the end
    del sys.modules["label"]
    return tmp_path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def published() -> str:
    assert run("publish", "sqlite:///work.db", "items.jsonl").exit_code == 0
    return "sqlite:///work.db"


def results() -> dict[str, Any]:
    return {one.id: json.loads(one.value) for one in open_sink(SINK).results()}


# --- the function -----------------------------------------------------------------------------------

WRONG_FUNCTIONS = {
    "labl:infer": "there is no module 'labl'.*modules here: label",
    "label:infr": "label has no 'infr'; it has: .*infer",
    "label:VALUE": "is a int, and no function",
    "label": "is not MODULE:FUNCTION",
    "label:": "is not MODULE:FUNCTION",
    "label.py:infer": "write its module: label:infer",
    "./jobs/label.py:infer": "write its module: jobs.label:infer",
    "label.sub:infer": "there is no module 'label.sub'",
}


@pytest.mark.parametrize("spec", WRONG_FUNCTIONS)
def test_a_function_that_is_not_there_is_told_with_what_is(folder: Path, spec: str) -> None:
    with pytest.raises(SettingsError, match=WRONG_FUNCTIONS[spec]) as raised:
        load_function(spec, option="MODULE:FUNCTION")
    assert "\n" not in str(raised.value)


def test_an_import_that_fails_inside_the_module_is_its_own_error(folder: Path) -> None:
    (folder / "label.py").write_text("import no_such_thing\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        load_function("label:infer", option="MODULE:FUNCTION")


def test_a_function_may_be_inside_a_class_or_a_package(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "label.py").write_text("def infer(items): ...")
    assert load_function("jobs.label:infer", option="x").__module__ == "jobs.label"
    assert load_function("label:Group.infer", option="x")([1, 2]) == [1, 1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["work.db", "label:infer", "--sink", SINK], "work.db"),
        (["sqlite:///work.db", "label:infer", "--sink", "sqlite:results.db"], "sqlite:///relative.db"),
        (["sqlite:///work.db", "label:infer", "--sink", SINK, "--chunk", "0"], "chunk=0"),
        (["sqlite:///work.db", "label:infer", "--sink", SINK, "--lease", "soon"], "lease='soon'"),
        (["sqlite:///work.db", "label:infer", "--sink", SINK, "--setup", "model"], "--setup='model'"),
        (["sqlite:///work.db", "label.py:infer", "--sink", SINK], "label:infer"),
    ],
)
def test_settings_that_cannot_work_are_told_before_the_module_is_loaded(
    folder: Path, words: list[str], says: str
) -> None:
    said = run("work", *words)
    assert said.exit_code == 78, said.output
    assert says in said.stderr
    assert said.stderr.count("\n") == 1
    assert "loaded" not in said.output


# --- the work ---------------------------------------------------------------------------------------


def test_work_stores_results_and_says_what_it_did(folder: Path) -> None:
    queue = published()
    said = run("work", queue, "label:infer", "--sink", SINK, "--chunk", 4)
    assert (said.exit_code, said.stdout) == (0, "loaded\nnothing is left: 10 computed here, 0 known already, 0 dead\n")
    assert results() == {f"i{n}": {"double": 2 * n} for n in range(10)}
    run("queue", "retry", queue, "--done")
    again = run("work", queue, "label:infer", "--sink", SINK, "--chunk", 4, "--json")
    assert json.loads(again.stdout) == {"computed": 0, "known": 10, "failed": 0, "dead": 0}


def test_setup_and_load_are_functions_of_modules_too(folder: Path) -> None:
    words = ["--setup", "label:model", "--load", "label:load", "--prefetch", 2, "--chunk", 3, "--version", "v2"]
    said = run("work", published(), "label:with_model", "--sink", SINK, *words)
    assert said.exit_code == 0, said.output
    assert results()["i3"] == ["model", "i3i3"]


def test_dead_items_are_told_and_do_not_change_the_code(folder: Path) -> None:
    queue = published()
    said = run("work", queue, "label:some_fail", "--sink", SINK, "--max-errors", 0)
    assert said.exit_code == 0, said.output
    assert "5 computed here, 0 known already, 5 dead" in said.stdout
    assert f"outlast queue dead sqlite:///{folder.resolve()}/work.db" in said.stderr
    assert "a bad file" in run("queue", "dead", queue).stdout


def test_a_decorated_function_keeps_what_the_command_does_not_say(folder: Path) -> None:
    queue = published()
    for words, chunk, version in (([], 5, "own"), (["--chunk", 2, "--version", "new"], 2, "new")):
        said = run("work", queue, "label:decorated", "--sink", SINK, *words)
        assert said.exit_code == 0, said.output
        assert results() == {f"i{n}": ["model", chunk] for n in range(10)}
        assert {one.version for one in open_sink(SINK).results()} == {version}
        run("queue", "retry", queue, "--done")
    assert not (folder / "other.db").exists()


def test_a_queue_that_nobody_has_published_to_is_told_with_where_it_was_looked_for(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = run("work", "sqlite:///wrok.db", "label:infer", "--sink", SINK)
    assert said.exit_code == 0
    assert said.stderr.count(f"sqlite:///{folder}/wrok.db holds no items") == 1
    with outlast.Worker("sqlite:///wrok.db", sink=SINK) as worker:
        assert list(worker) == []
    assert capfd.readouterr().err.count("holds no items") == 1


def test_progress_over_all_workers_is_on_the_terminal(folder: Path) -> None:
    queue = published()
    outlast.Queue(queue).publish(str(number) for number in range(90))  # enough to be looked at on a busy machine
    primary, secondary = os.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    words = [*_OUTLAST, "work", queue, "label:slow", "--sink", SINK, "--chunk", "1"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=secondary) as worker:
        os.close(secondary)
        shown = ""
        while not re.search(r"[1-9]\d* items, .*/s, [1-9]\d*%, .* left", shown):
            shown += os.read(primary, 1000).decode()
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=30)
    os.close(primary)
    assert "working" in shown
    assert out == b"loaded\n"


@pytest.mark.parametrize(("told", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)])
def test_a_worker_that_is_told_to_leave_says_so_by_its_code(folder: Path, told: signal.Signals, code: int) -> None:
    queue = published()
    words = [*_OUTLAST, "work", queue, "label:slow", "--sink", SINK, "--chunk", "10"]
    env = {**os.environ, "OUTLAST_GRACE": "3s"}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        end = time.monotonic() + 30
        while not Path("second").exists() and time.monotonic() < end:
            time.sleep(0.01)
        worker.send_signal(told)
        _, err = worker.communicate(timeout=30)
    assert worker.returncode == code, err
    assert "Traceback" not in err
    assert 0 < len(results()) < 10
    left = json.loads(run("queue", "show", queue, "--json").stdout)
    assert (left["leased"], left["ready"] + left["done"]) == (0, 10)
    assert left["done"] == len(results())
    assert {one["deaths"] for one in exported(queue)} == {0}


def test_a_closed_terminal_is_a_notice_and_nohup_makes_it_none(folder: Path) -> None:
    """As when an ssh connection breaks: SIGHUP, and neither standard output nor error can be written any more."""
    queue = published()
    words = [*_OUTLAST, "work", queue, "label:slow", "--sink", SINK, "--chunk", "10"]
    for before, code in ([], 143), (["nohup"], 0):
        run("queue", "retry", queue, "--done")
        Path("second").unlink(missing_ok=True)
        primary, terminal = pty.openpty()
        worker = subprocess.Popen(
            [*before, *words, "--version", str(code)],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**os.environ, "OUTLAST_GRACE": "3s"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it is not there in tests' threads
        )
        os.close(terminal)
        end = time.monotonic() + 30
        while not Path("second").exists() and time.monotonic() < end:
            time.sleep(0.01)
        os.close(primary)
        assert worker.wait(timeout=30) == code
        items = exported(queue)
        assert {one["deaths"] for one in items} == {0}
        done = sum(one["state"] == "done" for one in items)
        assert done == 10 if code == 0 else 0 < done < 10
        assert {one["state"] for one in items} <= {"done", "ready"}


def exported(queue: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("queue", "export", queue).stdout.splitlines()]


def test_a_worker_whose_module_is_still_loading_hears_that_it_has_to_leave(folder: Path) -> None:
    queue = published()
    Path("heavy.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n")
    words = [*_OUTLAST, "work", queue, "heavy:infer", "--sink", SINK]
    worker = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert worker.returncode == 143, worker.stderr  # by itself: one that the signal killed would be -15
    assert "nothing was begun" in worker.stderr


# --- the options ------------------------------------------------------------------------------------


def test_the_options_and_their_defaults_are_those_of_batch() -> None:
    expected = {name: one.default for name, one in inspect.signature(outlast.batch).parameters.items()}
    del expected["queue"], expected["sink"]
    shown: dict[str, object] = {}
    for one in work.params:
        if one.name in expected:
            found = re.search(r"\[default: (.*)\]", getattr(one, "help", None) or "")
            shown[one.name] = found[1] if found else None
    assert set(shown) == set(expected)
    for name, text in shown.items():
        default = expected[name]
        assert text == ("no limit" if name == "item_timeout" else None if default is None else str(default)), name
