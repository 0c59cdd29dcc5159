"""What lies in the store's folders and is no object of it: never chosen, deleted, followed or waited for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from planting import DEEP, Planter, outside

from one_attempt import Life
from outlast.checkpoint.retain import Keep

pytestmark = pytest.mark.timeout(60)

STRAYS: dict[str, Callable[[Planter], Path]] = {
    "a copy of the commits below them": lambda it: _copied(it.task / "commits", it.task / "commits" / "backup"),
    "a copy of the data below them": lambda it: _copied(it.task / "data", it.task / "data" / "backup"),
    "a copy of the claims below them": lambda it: _copied(it.task / "attempts", it.task / "attempts" / "old (copy)"),
    "a claim with too many digits": lambda it: _made(it.task / "attempts" / "a0000000007.json"),
    "a claim as journal": lambda it: _made(it.task / "attempts" / "a000007.jsonl"),
    "a data file of no attempt": lambda it: _made(it.task / "data" / "step-3.safetensors"),
    "a commit with too many digits": lambda it: _made(it.task / "commits" / "s0000000000009-a000000-q000001.json"),
    "an empty folder as claim": lambda it: _folder(it.task / "attempts" / "a000001.json"),
    "an empty folder as commit": lambda it: _folder(it.task / "commits" / "s000000000009-a000000-q000001.json"),
    "a pipe as claim": lambda it: _pipe(it.task / "attempts" / "a000001.json"),
    "a pipe as journal": lambda it: _pipe(it.task / "journal" / "a000001.jsonl"),
    "a folder as journal": lambda it: _folder(it.task / "journal" / "a000001.jsonl"),
    "a pipe as finish mark": lambda it: _pipe(it.task / "finished" / it.last.text),
    "a claim of deep nesting": lambda it: _made(it.task / "attempts" / "a000001.json", DEEP),
    "a journal of deep nesting": lambda it: _made(it.task / "journal" / "a000001.jsonl", DEEP),
    "a copied claim": lambda it: _made(
        it.task / "attempts" / "a000001.json", (it.task / "attempts" / "a000000.json").read_bytes()
    ),
    "folders without end": lambda it: _folder(it.task / "data" / "/".join("d" * 900)),
}


def _made(path: Path, data: bytes = b"{}") -> Path:
    path.write_bytes(data)
    return path


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def _pipe(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    return path


def _copied(source: Path, target: Path) -> Path:
    files = [(path.name, path.read_bytes()) for path in source.iterdir()]
    target.mkdir()
    for name, data in files:
        (target / name).write_bytes(data)
    return target / files[0][0]


@pytest.mark.parametrize("what", STRAYS)
def test_strays_are_never_chosen_nor_deleted_nor_waited_for(what: str, planter: Planter) -> None:
    stray = STRAYS[what](planter)
    life = Life(planter.root, keep=Keep(last=2))
    assert life.resumed_from == 3
    for step in (4, 5, 6):
        life.save(step)
    life.attempt.finish(life.last, total=None)
    assert os.path.lexists(stray)
    counted = [path for path in (planter.task / "commits").iterdir() if path.is_file() and path != stray]
    assert len(counted) == 2
    assert Life(planter.root).resumed_from == 6


@pytest.mark.parametrize("folder", ["attempts", "commits", "data", "journal"])
def test_a_folder_that_is_a_link_is_refused_and_nothing_is_written_through_it(folder: str, planter: Planter) -> None:
    moved = planter.outside / folder
    (planter.task / folder).rename(moved)
    (planter.task / folder).symlink_to(moved)
    before = outside(planter)
    with pytest.raises(Exception, match=f"{folder}.* is a link"):  # each in its own way, all by name
        Life(planter.root)
    assert outside(planter) == before
    (planter.task / folder).unlink()
    moved.rename(planter.task / folder)
    assert Life(planter.root).resumed_from == 3
