"""Traces of real machines as moments: how long each one lived until it was taken away."""

import csv
import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from outlast.rehearse.scenario import Moment
from outlast.yaml_keys import Key, read_text

TRACE_KEYS = ("file", "lives", "take", "from", "as", "with")
_USUAL_NUMBER = 5
_MOST_BYTES = 64 << 20


def read_trace(key: Key, fields: dict[str, Key], folder: Path) -> list[Moment]:
    """The moments of `take` interruptions, from the one numbered `from` (0) on.

    `lives` lists them; `file` is JSON with "upruns": [[seconds, killed], …] (the form of uclasystem/bamboo's traces),
    CSV of `milliseconds,add|remove,node`, or of moments and numbers of machines, where each drop is an interruption.
    `as` "spacing" keeps the proportions of the lives and fits them into the job's; "seconds" keeps their lengths.
    """
    if ("file" in fields) == ("lives" in fields):
        key.wrong("it needs either a file, or lives, a list of durations")
    lives = [one.seconds() for one in fields["lives"].items()] if "lives" in fields else _from_file(fields, folder)
    start = fields["from"].count(least=0) if "from" in fields else 0
    take = fields["take"].count() if "take" in fields else _USUAL_NUMBER
    chosen = lives[start : start + take]
    if not chosen:
        key.wrong(f"it has {len(lives)} interruptions, and none from number {start} on")
    if "as" in fields and fields["as"].choice(("spacing", "seconds")) == "seconds":
        return [Moment(seconds=seconds) for seconds in chosen]
    if not 0 < sum(chosen) < float("inf"):
        key.wrong("these lives have no proportions: all of them together must last for some time")
    rest = sum(chosen) / len(chosen)  # the last machine, which ends the job, lives as long as the others did
    left = sum(chosen) + rest
    moments = []
    for seconds in chosen:
        moments.append(Moment(share=seconds / left))
        left -= seconds
    return moments


def _from_file(fields: dict[str, Key], folder: Path) -> list[float]:
    key = fields["file"]
    path = folder / key.text()
    try:
        text = read_text(path, most_bytes=_MOST_BYTES)
    except OSError as error:
        key.wrong(f"{path} cannot be read: {error.strerror}")
    except ValueError as error:
        key.wrong(f"{path} cannot be read: {error}")
    lives = (
        _from_json(key, text) if text.lstrip().startswith("{") else _from_rows(key, list(csv.reader(text.splitlines())))
    )
    if not lives:
        key.wrong(f"{path} has no interruption")
    return lives


def _from_json(key: Key, text: str) -> list[float]:
    try:
        runs = json.loads(text)["upruns"]
        return [float(seconds) for seconds, killed in runs if killed]
    except (ValueError, TypeError, KeyError) as error:
        key.wrong(f'it is no JSON with "upruns": [[seconds, killed], …]: {error}')


def _from_rows(key: Key, rows: list[list[str]]) -> list[float]:
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if rows and len(rows[0]) == 3 and rows[0][1] in ("add", "remove"):
        return _lives_of_nodes(key, rows)
    counts = [found for row in rows if (found := _counted(row)) is not None]
    if len(counts) < len(rows) - 1:  # a first line of names is no moment
        key.wrong("it is no CSV of moments and numbers of machines, nor of milliseconds,add|remove,node")
    return _between_drops(sorted(counts))


def _lives_of_nodes(key: Key, rows: list[list[str]]) -> list[float]:
    """In the order in which they were taken away."""
    born: dict[str, float] = {}
    lives: list[float] = []
    for row in rows:
        try:
            milliseconds, what, node = row
            if what == "add":
                born[node] = float(milliseconds)
            elif node in born:
                lives.append((float(milliseconds) - born.pop(node)) / 1000)
        except ValueError:
            key.wrong(f"{','.join(row)!r} is no milliseconds,add|remove,node")
    return lives


def _counted(row: list[str]) -> tuple[float, int] | None:
    """(seconds since the epoch, machines there); of three cells the first is a number of the row, or all are a date."""
    try:
        if len(row) == 3 and "-" in row[0]:
            at = datetime.fromisoformat(f"{row[0]} {row[1]}").replace(tzinfo=UTC).timestamp()
        else:
            at = float(row[-2])
        return at, int(row[-1])
    except (ValueError, IndexError):
        return None


def _between_drops(counts: list[tuple[float, int]]) -> list[float]:
    """What a job that needs all of the machines would have lived, from one drop to the next."""
    lives, began = [], counts[0][0] if counts else 0.0
    for (_, before), (at, now) in pairwise(counts):
        if now < before:
            lives.append(at - began)
            began = at
    return [seconds for seconds in lives if seconds > 0]
