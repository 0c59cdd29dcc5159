"""`outlast lint` on files and folders that were made to hurt: a clear word, and never a traceback."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from outlast.cli.main import main
from outlast.lint import files
from outlast.lint.files import NotRead, read_source
from outlast.lint.known import Known

pytestmark = pytest.mark.usefixtures("one_rule")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _lint(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lint", "--no-sdk", *arguments], catch_exceptions=False)


def test_a_name_that_is_too_long_is_not_read() -> None:
    done = _lint("x" * 300 + ".yaml")
    assert done.exit_code == 2
    assert "File name too long" in done.output


@pytest.mark.parametrize("name", [b"\xff\xfe.yaml", b"a\x1b[31m\nb.yaml", "a\u202eb.yaml".encode()])
@pytest.mark.parametrize("data", ["bad: true\n", "a: [\n"])
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_a_file_of_any_name_is_told_without_what_a_terminal_would_obey(name: bytes, data: str, form: str) -> None:
    Path(os.fsdecode(name)).write_text(data)
    done = _lint("--format", form, ".")
    assert all(letter.isprintable() for letter in done.output.replace("\n", ""))
    assert "T001" in done.output or "not read" in done.output
    if form != "text":
        json.loads(done.stdout)
    assert _lint("--format", form, "--output", "found", ".").exit_code == done.exit_code


def test_what_a_file_says_reaches_no_terminal_unfiltered() -> None:
    Path("job.yaml").write_text('bad: "\\x1b]0;title\\x07\\u202etrue"\n? [bad]\n: "x"\nx: {bad: tRue}\n')
    assert all(letter.isprintable() for letter in _lint("job.yaml").output.replace("\n", ""))


def test_a_folder_that_cannot_be_looked_into_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("closed").mkdir()
    Path("open.yaml").write_text("bad: true\n")
    scan = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    done = _lint(".")
    assert done.exit_code == 1
    assert "closed: not read: Permission denied" in done.output
    assert _lint("closed").exit_code == 2


def test_a_pipe_that_took_the_place_of_a_file_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo("grows.yaml")
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # it was one when it was looked at
    told = read_source(Path("grows.yaml"), named=True, known=Known())
    assert isinstance(told, NotRead)
    assert told.why == "it is no file with an end"


def test_a_file_that_is_gone_or_another_by_the_time_it_is_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.yaml").write_text("a: 1\n")
    look = files._start_of

    def gone(path: Path, most: int) -> bytes:
        path.unlink()
        return look(path, most)

    monkeypatch.setattr(files, "_start_of", gone)
    assert "No such file" in _lint("a.yaml").output


@pytest.mark.parametrize("place", ["missing/found.json", ".", "/dev/full"])
def test_an_output_that_cannot_be_written_is_told(place: str) -> None:
    done = _lint("--json", "--output", place, ".")
    assert done.exit_code in (2, 78)
    assert "output" in done.output
