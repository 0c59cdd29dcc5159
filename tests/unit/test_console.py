"""outlast's own lines."""

import io
import json
import sys

import pytest

from outlast.console import Console, printable


def test_lines_are_plain_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.info("saved")
    console.notice("SIGTERM")
    console.warning("slow")
    console.error("failed")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "outlast: saved\noutlast: SIGTERM\noutlast: warning: slow\noutlast: error: failed\n"


def test_lines_are_json_with_a_severity_where_logs_are_collected(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(as_json=True)
    console.info("saved")
    console.notice("SIGTERM")
    console.warning("two\nlines")
    console.error("failed")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["severity"] for line in lines] == ["INFO", "NOTICE", "WARNING", "ERROR"]
    assert lines[2]["message"] == "outlast: two\nlines"


class _Broken(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("stream", [None, _Broken()], ids=["none", "broken pipe"])
def test_a_lost_standard_error_does_not_end_the_job(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    Console().error("nobody reads this")


def test_a_closed_standard_error_does_not_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    Console().error("nobody reads this")


@pytest.mark.parametrize("bad", ["\x1b[2J", "\x07", "\x9b31m", "\u202e", "\r", "\ud800", "\x00"])
def test_nothing_in_a_line_steers_the_terminal(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    Console().error(f"crashed: {bad}\nnext\tline \U0001f642 é")
    shown = capsys.readouterr().err
    assert bad not in shown
    assert ascii(bad)[1:-1] in shown
    assert shown.endswith("\nnext\tline \U0001f642 é\n")


def test_a_text_without_end_is_cut() -> None:
    assert printable("x" * 50, longest=10) == "x" * 10 + "…"
