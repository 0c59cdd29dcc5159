"""B16: who can write the bucket does not own the job: planted files are refused by name and run nothing."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs_in_process import data_of, files, resume, save_at

from outlast.checkpoint.sealed import seal


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def forged(source: Path, target: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A commit record with a right digest, changed: digests guard against damage, not malice."""
    record = json.loads(source.read_bytes())["record"]
    change(record)
    target.write_bytes(seal(record))


def plant_name(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda record: record["files"][0].update(name=name)


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "up and out": plant_name("j/run-1/task-0/data/../../../../../outside"),
    "absolute": plant_name("/etc/passwd"),
    "dots": plant_name("../outside"),
    "empty": plant_name(""),
    "nul": plant_name("j/\0"),
    "a number": lambda record: record["files"][0].update(name=7),
    "no files": lambda record: record.update(files=[]),
    "negative size": lambda record: record["images"][0]["pieces"][0].__setitem__(2, -1),
    "huge size": lambda record: record["images"][0]["pieces"][0].__setitem__(2, 2**62),
    "outside its file": lambda record: record["images"][0]["pieces"][0].__setitem__(1, 2**40),
    "before its file": lambda record: record["images"][0]["pieces"][0].__setitem__(1, -8),
    "no tree": lambda record: record.update(tree=99),
    "other format": lambda record: record.update(format=2),
    "unknown field": lambda record: record.update(surprise=1),
    "list for text": lambda record: record.update(images="none"),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_record_is_refused_by_name_and_the_one_before_used(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outside").write_text("secret")
    store = tmp_path / "store"
    record = save_at(store, (1,))[0]
    planted = record.with_name("s000000000009-a000000-q000009.json")
    forged(record, planted, FORGERIES[kind])
    before = files(store)
    assert resume(store) == (1, 1)
    assert f"{planted.name} is not used" in capsys.readouterr().err
    assert files(store) == before


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    store, touched = tmp_path / "store", tmp_path / "touched"
    record = save_at(store, (1,))[0]
    payload = pickle.dumps(Touch(touched))
    newer = record.with_name("s000000000009-a000000-q000009.json")
    newer.write_bytes(payload)
    for name in ("checkpoint.pt", "s000000000009-a000000-q000009.pkl", "latest"):
        record.with_name(name).write_bytes(payload)
    data = data_of(record).with_name("s000000000008-a000000-q000008-r0000-0123456789ab.safetensors")
    data.write_bytes(payload)

    def lead_to_pickle(fields: dict[str, Any]) -> None:
        fields["files"][0].update(name=str(data.relative_to(store)), bytes=len(payload))

    forged(record, record.with_name("s000000000008-a000000-q000008.json"), lead_to_pickle)
    assert resume(store) == (1, 1)
    assert not touched.exists()


TREES = {
    "an unknown kind": {"$": "pickle", "v": "x"},
    "a class that does not stand in the state": {"$": "dataclass", "class": "os._wrap_close", "fields": {}},
    "an enum": {"$": "enum", "class": "signal.Signals", "v": 9},
    "an object": {"$": "stateful", "class": "shutil.rmtree", "v": "/"},
    "a factory": {"$": "defaultdict", "items": [], "factory": "eval"},
    "a framework": {"$": "generator", "framework": "antigravity", "v": 1},
    "a leaf that is not there": {"$": "bytes", "leaf": 99},
    "a reference that leads nowhere": {"$": "same", "as": "state['m']"},
    "a node without its fields": {"$": "tuple"},
}


@pytest.mark.parametrize("kind", TREES)
def test_a_forged_tree_is_refused_and_nothing_imported(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from outlast.state.capture import Capture

    real = Capture.snapshot

    def forging(self: Any, tree: Any) -> Any:
        forged_tree = json.loads(json.dumps(tree))
        if "n" in forged_tree.get("parts", {}) and "loop" in forged_tree:
            forged_tree["parts"]["n"] = TREES[kind]
        return real(self, forged_tree)

    with monkeypatch.context() as patched:
        patched.setattr(Capture, "snapshot", forging)
        save_at(tmp_path, (1,))
    modules = set(sys.modules)
    with pytest.raises(SystemExit) as caught:
        resume(tmp_path)
    assert caught.value.code == 78
    assert set(sys.modules) == modules


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("what", ["record", "data", "commits", "task", "attempts"])
def test_links_are_not_followed(what: str, inside: bool, tmp_path: Path) -> None:
    store = tmp_path / "store"
    save_at(store, (1,))
    record = save_at(store, (2,))[0]
    target = {
        "record": record,
        "data": data_of(record),
        "commits": record.parent,
        "task": record.parent.parent,
        "attempts": record.parent.parent / "attempts",
    }[what]
    moved = (store if inside else tmp_path) / "moved"
    target.rename(moved)
    target.symlink_to(moved)
    if what in ("record", "data"):
        assert resume(store) == (1, 1)
        return
    with pytest.raises((SystemExit, Exception)) as caught:
        resume(store)
    assert "link" in str(caught.value)


def test_a_state_that_is_nested_beyond_reason_is_refused(tmp_path: Path) -> None:
    record = save_at(tmp_path, (1,))[0]
    record.with_name("s000000000009-a000000-q000009.json").write_bytes(b"[" * 200_000)
    assert resume(tmp_path) == (1, 1)
