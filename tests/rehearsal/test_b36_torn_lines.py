"""B36: a kill in mid-write leaves half a line; no record is lost to it, none is there twice, whatever was cut.

CI kills at some of the calls; OUTLAST_APPEND_KILLS=all asks for every call, and for a long storm of writers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import appended_lives
from appended_lives import RESULTS
from lives import environment

from outlast.sinks.result_lines import line_of

ALL = os.environ.get("OUTLAST_APPEND_KILLS") == "all"


def victims(*said: object) -> str:
    done = subprocess.run(
        [sys.executable, appended_lives.__file__, *map(str, said)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spread(places: list[int], count: int) -> list[int]:
    return [places[len(places) * number // count] for number in range(count)]


def fifty_points() -> list[int]:
    """Bytes at which a write ends: inside characters, before a line's newline, at borders, anywhere."""
    whole = b"".join(map(line_of, RESULTS))
    inside = [at for at, byte in enumerate(whole) if 0x80 <= byte < 0xC0]
    only_newline = [at for at, byte in enumerate(whole) if byte == 0x0A]
    points = {*spread(inside, 20), *spread(only_newline, 12)}
    points |= {at + 1 for at in spread(only_newline[:-1], 6)} | {0}
    anywhere = iter(range(11, len(whole), len(whole) // 29))
    while len(points) < 50:
        points.add(next(anywhere))
    return sorted(points)


def test_b36_kills_at_fifty_bytes_of_a_file_lose_nothing_and_double_nothing(quick_folder: Path) -> None:
    points = fifty_points()
    assert len(points) == 50
    victims("cut", quick_folder, *points)
    for point in points:
        folder = quick_folder / str(point)
        left = (folder / "left").read_bytes()
        *whole, fragment = left.split(b"\n")
        if fragment.endswith(b"}"):  # a whole record that lacks only its newline
            whole, fragment = [*whole, fragment], b""
        lines = (folder / "results.jsonl").read_bytes().decode().split("\n")
        assert lines.pop() == ""
        assert sorted(json.loads(line)["id"] for line in lines) == sorted(one.id for one in RESULTS), point
        assert [line.encode() for line in lines[: len(whole)]] == whole, point
        computed = (folder / "computed").read_text().split()
        assert len(computed) == len(RESULTS) - len(whole), point
        torn = folder / "results.jsonl.torn"
        assert (torn.read_bytes() if torn.exists() else b"") == fragment + b"\n" * bool(fragment), point
        assert ("cut short" in (folder / "second").read_text()) == bool(fragment), point


def test_b36_a_kill_between_any_two_calls_leaves_one_line_per_result(quick_folder: Path) -> None:
    step = 1 if ALL else 13
    assert int(victims("calls", quick_folder, 1, step)) >= 500 // step


def test_b36_writers_that_are_killed_beside_others_leave_one_line_per_result(quick_folder: Path) -> None:
    kills = 200 if ALL else 30
    assert int(victims("storm", quick_folder, kills)) >= kills
