"""What somebody else put into the store: refused by name, passed over, never run, never followed, never deleted."""

import json
import os
import pickle
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planting import DEEP, NEWER, Planter, SideEffect

from one_attempt import Life, blob_of
from outlast.checkpoint.places import CommitName
from outlast.checkpoint.retain import Keep
from outlast.checkpoint.sealed import digest
from outlast.errors import CheckpointCorrupt, StateMismatch
from outlast.stores.directory import DirectoryStore

pytestmark = pytest.mark.timeout(60)


def _file(name: str) -> Callable[[Planter], None]:
    def plant(planter: Planter) -> None:
        planter.forge(lambda record: record["files"][0].update(name=name.format(place=planter.place)))

    return plant


def _leaf(index: int, value: Any) -> Callable[[Planter], None]:
    return lambda planter: planter.forge_leaf(lambda row: row.__setitem__(index, value))


def _image(**fields: Any) -> Callable[[Planter], None]:
    return lambda planter: planter.forge(lambda record: record["images"][0].update(fields))


def _piece(index: int, value: Any) -> Callable[[Planter], None]:
    return lambda planter: planter.forge(lambda record: record["images"][0]["pieces"][0].__setitem__(index, value))


def _record(**fields: Any) -> Callable[[Planter], None]:
    return lambda planter: planter.forge(lambda record: record.update(fields))


def _overlap(record: dict[str, Any]) -> None:
    record["images"][0]["pieces"] *= 20_000  # 180 MB out of 9 KB


def _socket(planter: Planter) -> None:
    here = Path.cwd()
    os.chdir(planter.newer.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(planter.newer.name)
    finally:
        os.chdir(here)


def _sparse(planter: Planter) -> None:
    with planter.newer.open("wb") as file:
        file.truncate(1 << 40)


COMMITS: dict[str, Callable[[Planter], None]] = {
    "a folder with something in it": lambda it: (it.newer / "deeper").mkdir(parents=True),
    "a pipe": lambda it: os.mkfifo(it.newer),
    "a socket": _socket,
    "a link to a file outside": lambda it: it.newer.symlink_to(it.outside / "precious"),
    "a link to a good record": lambda it: it.newer.symlink_to(it.root / it.place.commit(it.last)),
    "a link to nothing": lambda it: it.newer.symlink_to(it.outside / "nothing"),
    "a link to itself": lambda it: it.newer.symlink_to(it.newer),
    "empty": lambda it: it.newer.write_bytes(b""),
    "a terabyte of nothing": _sparse,
    "a pickle": lambda it: it.newer.write_bytes(pickle.dumps(SideEffect(it.outside / "run"))),
    "deep nesting": lambda it: it.newer.write_bytes(DEEP),
    "deep nesting with a digest": lambda it: it.newer.write_bytes(
        b'{"digest":"xxh3_128:' + digest(DEEP).encode() + b'","record":' + DEEP
    ),
    "a list": lambda it: it.newer.write_bytes(b"[1]"),
    "a copy of a good record": lambda it: it.newer.write_bytes((it.root / it.place.commit(it.last)).read_bytes()),
    "another run's": _record(run="run-2"),
    "another task's": _record(task=1),
    "of a format to come": _record(format=3),
    "with other digests": _record(digests="sha512"),
    "no images": _record(images=[]),
    "images that are a number": _record(images=5),
    "a tree out of range": _image(tree=[1 << 40, 10]),
    "a tree longer than the image": _image(tree=[0, 1 << 40]),
    "a tree before the first byte": _image(tree=[-1, 10]),
    "a tree at a fraction": _image(tree=[0.0, 10]),
    "leaves out of range": _image(leaves=[1 << 40, 10]),
    "leaves that are text": _image(leaves="ab"),
    "leaves that are the tree": lambda it: it.forge_image(b'{"parts":{}}', b'{"parts":{}}'),
    "data that begin at a fraction": _image(data_at=0.5),
    "data that begin past the end": _image(data_at=1 << 40),
    "pieces that are missing": _image(pieces=[]),
    "numbers that are text": _record(metrics={"loss": "low"}),
    "numbers that are trees": _record(metrics=[1]),
    "a number of seconds that is text": _record(seconds="long"),
    "a field too many": _record(surprise=1),
    "files that are a number": _record(files=5),
    "a file that leads out": _file("../outside/precious"),
    "a file that leads out by a detour": _file("{place.data}/../../../../../outside/precious"),
    "a file with a whole path": _file("/etc/hostname"),
    "a file that is the store's mark": _file("outlast-store.json"),
    "a file that is a commit record": _file("{place.commits}/s000000000003-a000000-q000003.json"),
    "a file of another run": _file(
        "job/run-2/task-0/data/s000000000003-a000000-q000003-r0000-000000000000.safetensors"
    ),
    "a file name with a nul": _file("{place.data}/a\0b"),
    "a file name that is a number": lambda it: it.forge(lambda record: record["files"][0].update(name=5)),
    "a file size that is text": lambda it: it.forge(lambda record: record["files"][0].update(bytes="9")),
    "a shape larger than the world": _leaf(3, [2**62, 2**62]),
    "a shape below zero": _leaf(3, [-4]),
    "a shape twice below zero": _leaf(3, [-2, -2]),
    "a shape of fractions": _leaf(3, [0.5, 8]),
    "a shape without end": _leaf(3, [float("inf")]),
    "a dtype that is a list": _leaf(2, []),
    "an extra that is text": _leaf(4, "x"),
    "a leaf name that is a number": _leaf(0, 7),
    "a leaf below zero": _leaf(5, -1),
    "a leaf past the end": _leaf(5, 2**62),
    "a leaf larger than the image": _leaf(6, 2**62),
    "a leaf with a field too many": lambda it: it.forge_leaf(lambda row: row.append(1)),
    "leaves that overlap": lambda it: it.forge_image(
        json.dumps([["a", "raw", "uint8", [100], {}, 0, 100]] * 30).encode(), b"{}"
    ),
    "an offset below zero": _piece(1, -1),
    "an offset past the end": _piece(1, 2**63),
    "a fraction as offset": _piece(1, 4096.0),
    "a length below zero": _piece(2, -1),
    "a length past the end": _piece(2, 2**62),
    "a file index out of range": _piece(0, 7),
    "a file index below zero": _piece(0, -1),
    "a fraction as file index": _piece(0, 0.0),
    "a digest that is a number": _piece(3, 7),
    "a file named twice": lambda it: it.forge(lambda record: record.update(files=record["files"] * 2)),
    "a leaf that many values have": lambda it: it.forge_image(
        json.dumps([["a", "raw", "uint8", [4], {}, 0, 4]]).encode(),
        json.dumps({"parts": {"blob": [{"$": "bytearray", "leaf": 0}] * 9}, "loop": {}, "random": None}).encode(),
    ),
    "pieces that overlap": lambda it: it.forge(_overlap),
    "a tree that is a pickle": lambda it: it.forge_tree(pickle.dumps(SideEffect(it.outside / "run"))),
    "a tree of deep nesting": lambda it: it.forge_tree(DEEP),
    "a tree of deep but whole nesting": lambda it: it.forge_tree(b"[" * 500_000 + b"]" * 500_000),
    "a tree that is a list": lambda it: it.forge_tree(b"[]"),
    "a tree without parts": lambda it: it.forge_tree(b"{}"),
    "a tree that refers to no leaf": lambda it: it.forge_tree(
        json.dumps({"parts": {"blob": {"$": "bytearray", "leaf": 55}}, "loop": {}, "random": None}).encode()
    ),
}


@pytest.mark.parametrize("what", COMMITS)
def test_a_planted_commit_is_refused_by_name_and_never_deleted(
    what: str, planter: Planter, capsys: pytest.CaptureFixture[str]
) -> None:
    COMMITS[what](planter)
    status = os.lstat(planter.newer)
    life = Life(planter.root)
    assert life.resumed_from == 3
    assert life.blob == blob_of(3)
    if "folder" not in what:  # which is a stray
        assert f"checkpoint {planter.place.commit(NEWER)} is not used" in capsys.readouterr().err
    for step in (4, 5, 6):  # enough to retire all good ones
        life.save(step)
    assert os.lstat(planter.newer).st_ino == status.st_ino
    assert Life(planter.root).resumed_from == 6


def test_a_planted_part_of_an_unknown_kind_asks_for_a_human(planter: Planter) -> None:
    """It may be of a later version, and its work is not to be thrown away."""
    tree = {"parts": {"blob": {"$": "os.system"}}, "loop": {}, "random": None}
    planter.forge_tree(json.dumps(tree).encode())
    with pytest.raises(StateMismatch, match="is of kind"):
        Life(planter.root)


def test_a_planted_older_record_cannot_have_another_runs_data_deleted(planter: Planter) -> None:
    other = planter.root / "job/run-0/task-0/data/s000000000003-a000000-q000003-r0000-000000000000.safetensors"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"another run's")
    older = CommitName(0, 0, 9)
    planter.forge(lambda record: record["files"][0].update(name=str(other.relative_to(planter.root))), older)
    life = Life(planter.root, keep=Keep(last=1))
    for step in (4, 5, 6):
        life.save(step)
    assert other.read_bytes() == b"another run's"


@pytest.mark.parametrize("name", ["../outside/x", "a/../../x", "/etc/x", "a//b", "a/./b", "", "a/\0b"])
def test_a_name_that_leads_out_is_refused_by_every_call(name: str, planter: Planter) -> None:
    store = DirectoryStore(str(planter.root))
    for call in (
        lambda: store.create(name, b""),
        lambda: store.write(name, [b""]),
        lambda: store.append(name, b""),
        lambda: store.read(name),
        lambda: store.delete(name),
    ):
        with pytest.raises(CheckpointCorrupt, match="is not a name inside"):
            call()
