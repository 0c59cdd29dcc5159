"""`outlast lint` and `outlast explain`: exit codes, formats, and bounded looks at whatever files there are."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main

pytestmark = pytest.mark.usefixtures("one_rule")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _lint(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", *arguments])


def test_an_error_found_leaves_with_1_and_shows_its_line() -> None:
    Path("job.yaml").write_text("a: 1\nb:\n  bad: true\n")
    done = _lint("job.yaml")
    assert done.exit_code == 1
    assert "job.yaml:3:8: error T001: bad is true\n    bad: true\n         ^\n    fix: make it good" in done.output
    assert "1 file: 1 error, 0 warnings, 0 info" in done.output


def test_nothing_found_leaves_with_0() -> None:
    Path("job.yaml").write_text("a: 1\n")
    done = _lint(".")
    assert (done.exit_code, done.output) == (0, "1 file: nothing found\n")


def test_without_a_path_it_looks_here() -> None:
    Path("job.yaml").write_text("bad: true\n")
    assert _lint().output == _lint(".").output
    assert _lint().exit_code == 1


def test_a_file_that_is_not_there_is_no_file_that_was_read() -> None:
    done = _lint("job.yaml")
    assert (done.exit_code, done.output.splitlines()[-1]) == (2, "0 files: nothing found; 1 not read")


def test_several_rules_are_explained_at_once() -> None:
    done = CliRunner().invoke(main, ["explain", "t001", "L001"])
    assert (done.exit_code, done.output.count("Why:")) == (0, 2)
    known = json.loads(CliRunner().invoke(main, ["explain", "--json", "T001", "L001"]).output)
    assert [one["rule"] for one in known] == ["T001", "L001"]
    unknown = CliRunner().invoke(main, ["explain", "zzzz"])
    assert "`outlast explain` lists all" in f"{unknown.output}{unknown.exception}"


def test_json_is_the_list_that_the_contract_names() -> None:
    Path("job.yaml").write_text("bad: true\n")
    done = _lint("--format", "json", "job.yaml")
    (one,) = json.loads(done.stdout)
    assert {key: one[key] for key in ("rule", "severity", "path", "line", "message", "fix", "source")} == {
        "rule": "T001",
        "severity": "error",
        "path": "job.yaml",
        "line": 1,
        "message": "bad is true",
        "fix": "make it good",
        "source": "these tests",
    }
    Path("job.yaml").write_text("a: 1\n")
    assert json.loads(_lint("--json", "job.yaml").stdout) == []


def test_sarif_has_each_rule_and_a_place_for_each_result() -> None:
    Path("a b").mkdir()
    Path("a b/job.yaml").write_text("bad: true\nx: {bad: true}\n")
    Path("a b/broken.yaml").write_text("a: [\n")
    done = _lint("--format", "sarif", "--output", "found.sarif", ".")
    assert (done.exit_code, done.stdout) == (1, "")
    (run,) = json.loads(Path("found.sarif").read_text())["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["T001"]
    places = [one["locations"][0]["physicalLocation"] for one in run["results"]]
    assert [place["region"] for place in places] == [
        {"startLine": 1, "startColumn": 6},
        {"startLine": 2, "startColumn": 10},
    ]
    assert {place["artifactLocation"]["uri"] for place in places} == {"a%20b/job.yaml"}
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "no YAML" in notification["message"]["text"]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.yaml", b"a: \xff\xfe\n", "no UTF-8"),
        ("a.yaml", b"a: \0\n", "binary"),
        ("a.yaml", b"a: " + b"x" * (10 << 20), "bytes; at most"),
        ("a.yaml", b"a: " + b"x" * (2 << 20), "characters; at most"),
        ("a.yaml", b"a: [\n", "no YAML"),
        ("a.yaml", b"{{ if x }}\n{{ end }}\n", "not rendered"),
        ("a.png", b"\x89PNG", "no UTF-8"),
        ("notes.txt", b"hello\n", "none of the kinds"),
        ("missing.yaml", None, "no such file"),
        ("pipe.yaml", "fifo", "no file"),
    ],
)
def test_what_was_named_and_cannot_be_read_leaves_with_2_at_once(name: str, data: bytes | str | None, why: str) -> None:
    if isinstance(data, bytes):
        Path(name).write_bytes(data)
    elif data == "fifo":
        os.mkfifo(name)
    began = time.process_time()
    done = _lint(name)
    assert done.exit_code == 2, done.output
    assert why in done.output
    assert time.process_time() - began < 20  # bounded, not fast
    as_json = _lint("--format", "json", name)
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (2, [])
    assert why in as_json.stderr


def test_in_a_folder_what_cannot_be_read_is_told_and_the_rest_is_linted() -> None:
    Path("chart/templates").mkdir(parents=True)
    Path("chart/templates/job.yaml").write_text("{{ if x }}\na: 1\n{{ end }}\n")
    Path("chart/values.yaml").write_text("bad: true\n")
    Path("notes.txt").write_text("bad: true\n")
    os.mkfifo("pipe.yaml")
    done = _lint(".")
    assert done.exit_code == 1
    assert "chart/templates/job.yaml:1: not read: it is a template that was not rendered" in done.output
    assert "chart/values.yaml:1:6: error T001" in done.output
    assert "notes.txt" not in done.output
    assert _lint("--exclude", "chart/", ".").exit_code == 0


def test_links_are_followed_to_files_once_and_never_in_a_circle() -> None:
    Path("a").mkdir()
    Path("a/job.yaml").write_text("bad: true\n")
    Path("a/again.yaml").symlink_to("job.yaml")
    Path("a/loop").symlink_to("..", target_is_directory=True)
    Path("a/self.yaml").symlink_to("self.yaml")
    Path("a/gone.yaml").symlink_to("nothing.yaml")
    done = _lint("--format", "json", ".", "a/job.yaml", "a")
    assert len(json.loads(done.stdout)) == 1
    named = _lint("a/self.yaml")
    assert named.exit_code == 2


def test_environments_and_histories_are_left_out() -> None:
    for folder in (".git", "node_modules/x", ".venv/lib", "own-venv/lib"):
        Path(folder).mkdir(parents=True)
        Path(folder, "job.yaml").write_text("bad: true\n")
    Path("own-venv/pyvenv.cfg").touch()
    assert _lint(".").exit_code == 0


def test_hostile_texts_are_printed_without_their_control_characters() -> None:
    Path("job.yaml").write_text('bad: true # "\x1b[31m"\n'.replace("\x1b", "\u202e"))
    assert "\u202e" not in _lint("job.yaml").output


def test_a_rule_is_explained_in_full_and_a_mistyped_one_is_guessed() -> None:
    told = CliRunner().invoke(main, ["explain", "t001"])
    assert told.exit_code == 0
    for part in ("T001 (error): a bad thing", "Why:    it is bad", "Fix:    make it good", "Source: these tests"):
        assert part in told.output
    wrong = CliRunner().invoke(main, ["explain", "T0001"])
    assert wrong.exit_code == 78
    assert json.loads(CliRunner().invoke(main, ["explain", "T001", "--json"]).stdout)["rule"] == "T001"
    assert "L001" in CliRunner().invoke(main, ["explain"]).output


def test_importing_outlast_loads_no_reader_of_lint() -> None:
    program = """
import sys, outlast
lint = [name for name in sys.modules if name.startswith(("outlast.lint", "tree_sitter", "yaml"))]
sys.exit(bool(lint))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
