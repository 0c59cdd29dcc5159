"""Results are compared by their bytes, or number by number within a tolerance, and the difference is named."""

import gzip
import json
import math
import os
import pickle
import sqlite3
import zipfile
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as save_safetensors

from outlast.rehearse.checkpoints import pair_tasks
from outlast.rehearse.compare import compare_bytes, compare_files
from outlast.rehearse.outputs import last_line
from outlast.rehearse.request import CannotRehearse
from outlast.rehearse.results import Outcome, choose_results, compare_outcomes, list_files, set_aside


def npy(array: np.ndarray, path: Path) -> bytes:
    np.save(path / "a.npy", array)
    return (path / "a.npy").read_bytes()


@pytest.mark.parametrize(
    ("name", "one", "other", "relative"),
    [
        ("a.txt", b"loss 1.00 at step 5\n", b"loss 1.01 at step 5\n", 0.01 / 1.01),
        ("a.txt", b"loss 1e-3\n", b"loss -1e-3\n", 2.0),
        ("a.txt", b"nan\n", b"1.0\n", math.inf),
        ("a.txt", b"loss 1.0\n", b"gain 1.0\n", math.inf),
        ("a.txt", b"run1 ok\n", b"run2 ok\n", math.inf),
        ("a.txt", b"1\n2\n", b"1\n", math.inf),
        ("a.csv", b"x,y\n1,2.0\n", b"x,y\n1,2.1\n", 0.1 / 2.1),
        ("a.csv", b"x,y\n1,2.0\n", b"x,z\n1,2.0\n", math.inf),
        ("a.json", b'{"a": [1, 2.0]}', b'{"a": [1, 2.1]}', 0.1 / 2.1),
        ("a.json", b'{"a": 1}', b'{"b": 1}', math.inf),
        ("a.json", b'{"a": "1"}', b'{"a": 1}', math.inf),
        ("a.json", b'{"a": true}', b'{"a": 1}', math.inf),
        ("a.json", b'{"a": [1]}', b'{"a": [1, 2]}', math.inf),
        ("a.jsonl", b'{"a": 1}\n{"a": 2}\n', b'{"a": 1}\n{"a": 3}\n', 1 / 3),
        ("a.bin", b"\0\1\2", b"\0\1\3", math.inf),
    ],
)
def test_the_distance_is_the_largest_relative_difference(name: str, one: bytes, other: bytes, relative: float) -> None:
    distance = compare_bytes(name, one, other)
    assert distance.relative == pytest.approx(relative)
    assert distance.detail
    assert not distance.within(0.0)
    assert distance.within(0.5) == (relative <= 0.5)


def test_without_a_tolerance_another_notation_is_a_difference() -> None:
    distance = compare_bytes("a.json", b'{"a": 1.0}', b'{"a": 1.00}')
    assert not distance.within(0.0)
    assert distance.within(1e-9)
    assert "how it is written" in distance.detail


def test_integers_that_a_float_cannot_tell_apart_are_different() -> None:
    distance = compare_bytes("a.txt", b"812481864737323272\n", b"812481864737323273\n")
    assert not distance.within(0.0)


def test_huge_integers_do_not_overflow() -> None:
    assert compare_bytes("a.json", b"1" + b"0" * 400, b"2" + b"0" * 400).relative == pytest.approx(0.5)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", "<i4", "<u8", "<c8"])
def test_arrays_are_compared_number_by_number(tmp_path: Path, dtype: str) -> None:
    one = np.arange(1, 10001 if dtype[1:] != "f2" else 2000).astype(dtype)
    other = one.copy()
    other[1000] *= 2
    distance = compare_bytes("a.npy", npy(one, tmp_path), npy(other, tmp_path))
    assert distance.relative == pytest.approx(0.5)
    assert f"[{2000 if 'c' in dtype else 1000}]" in distance.detail


def test_arrays_of_another_shape_or_dtype_are_different(tmp_path: Path) -> None:
    one = npy(np.zeros(4), tmp_path)
    for other in (np.zeros((2, 2)), np.zeros(4, np.int64), np.zeros(5)):
        assert compare_bytes("a.npy", one, npy(other, tmp_path)).relative == math.inf


def test_nan_equals_nan_in_an_array(tmp_path: Path) -> None:
    one, other = np.array([math.nan, 1.0]), np.array([math.nan, 1.5])
    assert compare_bytes("a.npy", npy(one, tmp_path), npy(other, tmp_path)).within(0.4)


def test_archives_are_equal_when_their_members_are(tmp_path: Path) -> None:
    for name, year in (("a.npz", 2001), ("b.npz", 2002)):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("w.npy", (year, 1, 1, 0, 0, 0)), npy(np.ones(3), tmp_path))
    assert compare_files("a.npz", tmp_path / "a.npz", tmp_path / "b.npz").within(0.0)
    np.savez(tmp_path / "c.npz", w=np.full(3, 1.1))
    distance = compare_files("a.npz", tmp_path / "a.npz", tmp_path / "c.npz")
    assert distance.relative == pytest.approx(0.1 / 1.1)
    assert "w.npy[0]" in distance.detail


def database(path: Path, rows: list[tuple[int, float]], *, mode: str = "delete") -> bytes:
    with sqlite3.connect(path) as opened:
        opened.execute(f"PRAGMA journal_mode = {mode}")
        opened.execute("CREATE TABLE losses (step INTEGER PRIMARY KEY, loss REAL)")
        opened.executemany("INSERT INTO losses VALUES (?, ?)", rows)
    opened.close()
    return path.read_bytes()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_databases_are_equal_when_their_rows_are(tmp_path: Path, mode: str) -> None:
    one = database(tmp_path / "one", [(1, 0.5), (2, 0.25)])
    other = database(tmp_path / "other", [(2, 0.25), (1, 0.5)], mode=mode)
    assert one != other or mode == "delete"
    assert compare_bytes("work.db", one, other).within(0.0)


def test_how_many_rows_a_database_ever_had_is_no_result(tmp_path: Path) -> None:
    """An attempt that begins its chunk again takes new numbers from AUTOINCREMENT, of rows that are gone in the end."""
    kept = []
    for name, begun in (("one", 1), ("other", 2)):
        with sqlite3.connect(tmp_path / name) as opened:
            opened.execute("CREATE TABLE work (id INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT)")
            opened.executemany("INSERT INTO work (item) VALUES (?)", [("a",)] * begun)
            opened.execute("DELETE FROM work")
        opened.close()
        kept.append((tmp_path / name).read_bytes())
    assert compare_bytes("work.db", *kept).within(0.0)


def test_a_database_names_the_row_that_differs(tmp_path: Path) -> None:
    one = database(tmp_path / "one", [(1, 0.5), (2, 0.25)])
    distance = compare_bytes("work.db", one, database(tmp_path / "other", [(1, 0.5), (2, 0.3)]))
    assert distance.detail.startswith("table losses, row 2: expected (2, 0.25), found (2, 0.3)")
    twice = compare_bytes("work.db", one, database(tmp_path / "twice", [(1, 0.5), (2, 0.25), (3, 0.5)]))
    assert not twice.within(0.9)
    torn = compare_bytes("work.db", one, one[:5000])
    assert not torn.within(0.9)


def test_a_csv_file_names_the_row_and_the_column_that_differ() -> None:
    one, other = b"step,loss\n1,0.5\n2,0.25\n", b"step,loss\n1,0.5\n2,0.3\n"
    distance = compare_bytes("log.csv", one, other)
    assert distance.detail.startswith("row 3, 'loss': expected 0.25, found 0.3")
    assert distance.relative == pytest.approx(0.05 / 0.3)
    assert compare_bytes("log.csv", one, one + b"3,0.1\n").relative == math.inf


def test_an_array_names_the_first_number_that_differs_and_the_farthest(tmp_path: Path) -> None:
    one, other = np.arange(1.0, 6.0), np.array([1.0, 2.2, 3.0, 8.0, 5.0])
    distance = compare_bytes("w.npy", npy(one, tmp_path), npy(other, tmp_path))
    assert distance.detail == (
        "array[1]: expected 2.0, found 2.2, a relative difference of 0.091; "
        "2 of 5 numbers differ, most of all [3], by 0.5 of its size"
    )
    assert distance.relative == pytest.approx(0.5)


def test_safetensors_are_compared_by_name() -> None:
    one = save_safetensors({"w": np.ones(3, np.float32), "b": np.zeros(2, np.float32)})
    other = save_safetensors({"w": np.full(3, 1.5, np.float32), "b": np.zeros(2, np.float32)})
    distance = compare_bytes("m.safetensors", one, other)
    assert distance.relative == pytest.approx(1 / 3)
    assert distance.detail == (
        "w[0]: expected 1.0, found 1.5, a relative difference of 0.33; "
        "3 of 3 numbers differ, most of all [0], by 0.33 of its size"
    )


def test_bfloat16_is_read_as_the_number_it_is() -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    begin = len(header).to_bytes(8, "little") + header
    distance = compare_bytes("m.safetensors", begin + b"\x80\x3f\x80\x3f", begin + b"\x80\x3f\x00\x40")
    assert (distance.relative, distance.detail) == (
        0.5,
        "w[1]: expected 1.0, found 2.0, a relative difference of 0.5",
    )


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.safetensors", "a.json"])
def test_a_cut_file_is_different_and_no_crash(name: str) -> None:
    assert compare_bytes(name, b"\x93NUMPY", b"{").relative == math.inf


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    assert compare_files("a", tmp_path / "a", tmp_path / "b").detail == "missing after the rehearsal"


def test_checkpoints_of_runs_with_other_names_are_paired_by_job_and_task() -> None:
    one = {"train/run-1/task-0": {"a": b"1"}, "train/run-1/task-1": {"a": b"2"}}
    other = {"train/run-7/task-1": {"a": b"2"}, "train/run-7/task-0": {"a": b"3"}}
    pairs = {path: (ours, theirs) for path, ours, theirs in pair_tasks(one, other)}
    assert pairs["train/run-1/task-0"] == ({"a": b"1"}, {"a": b"3"})
    assert pairs["train/run-1/task-1"] == ({"a": b"2"}, {"a": b"2"})
    assert pair_tasks(one, {})[0][2] is None


def test_results_are_what_the_run_made_or_changed(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "changed.txt").write_text("1")
    (tmp_path / "data").mkdir()
    before = list_files(tmp_path)
    (tmp_path / "changed.txt").write_text("22")
    (tmp_path / "data" / "new.txt").write_text("3")
    (tmp_path / "data" / "__pycache__").mkdir()
    (tmp_path / "data" / "__pycache__" / "m.pyc").write_text("")
    (tmp_path / ".outlast-rehearsal" / "store").mkdir(parents=True)
    (tmp_path / ".outlast-rehearsal" / "store" / "x").write_text("")
    assert choose_results(tmp_path, before, ()) == ["changed.txt", "data/new.txt"]
    assert choose_results(tmp_path, before, ("*.txt",)) == ["changed.txt", "kept.txt"]
    assert choose_results(tmp_path, before, ("data",))[-1] == "data/new.txt"
    with pytest.raises(CannotRehearse, match=r"model\.bin"):
        choose_results(tmp_path, before, ("model.bin",))


def test_what_a_run_made_is_set_aside_and_what_was_there_stays(tmp_path: Path) -> None:
    folder, target = tmp_path / "folder", tmp_path / "made"
    folder.mkdir()
    (folder / "old.txt").write_text("1")
    before = list_files(folder)
    (folder / "old.txt").write_text("22")
    (folder / "out").mkdir()
    (folder / "out" / "new.txt").write_text("3")
    set_aside(folder, before, target)
    assert (folder / "old.txt").read_text() == (target / "old.txt").read_text() == "22"
    assert not (folder / "out" / "new.txt").exists()
    assert (target / "out" / "new.txt").read_text() == "3"


def test_the_last_line_that_says_something_is_compared(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"first\n  42 \n\n\n")
    assert last_line(tmp_path / "out") == "42"
    one, other = Outcome(tmp_path, "loss 1.0", None), Outcome(tmp_path, "loss 2.0", None)
    (result,) = compare_outcomes([], one, other, tolerance=0.0, with_stdout=True)
    assert (result.path, result.same) == ("<stdout, last line>", False)
    assert result.detail == "expected loss 1.0, found loss 2.0, a relative difference of 0.5"


def pickled(*values: object) -> bytes:
    return b"".join(pickle.dumps(value) for value in values)


def test_pickles_are_equal_when_what_they_hold_is() -> None:
    name = "".join(["st", "ep"])  # another string of the same letters, as after a restore
    one, other = pickled({"step": 1, "inner": {"step": 2}}), pickled({"step": 1, "inner": {name: 2}})
    assert one != other
    assert compare_bytes("state.pkl", one, other).equal
    assert compare_bytes("a", pickled({"x"}, 1), pickled({"x"}, 2)).detail == (
        "object 1: expected 1, found 2, a relative difference of 0.5"
    )


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({"lr": [0.1, 0.2]}, {"lr": [0.1, 0.25]}, "object['lr'][1]: expected 0.2, found 0.25"),
        ({"a": True}, {"a": 1}, "object['a']"),
        (Path("a"), Path("b"), "'a', found 'b'"),
        (OrderedDict(a=1), OrderedDict(a=2), "expected 1, found 2"),
        (Fraction(1, 3), Fraction(2, 3), "expected 1, found 2 || '1/3', found '2/3'"),
        (np.arange(3), np.array([0, 1, 3]), "24 bytes expected, 24 found || expected 24 bytes, found 24 bytes"),
        (Fraction, Path, "expected fractions.Fraction, found pathlib.Path"),
        ({1, 2}, {1, 3}, "['1', '2'], found set of ['1', '3']"),
    ],
)
def test_the_place_in_a_pickle_is_named(one: object, other: object, where: str) -> None:
    distance = compare_bytes("state.pkl", pickled(one), pickled(other))
    assert any(part in distance.detail for part in where.split(" || ")), distance.detail
    assert not distance.within(0.0)


def test_a_pickle_runs_nothing_and_cannot_unfold_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.rehearse.pickles._MOST_LEAVES", 1000)
    touch = pickle.dumps(Runs(str(tmp_path / "ran")))
    nested: list[object] = []
    for _ in range(40):
        nested = [nested, nested]
    cycle: list[object] = []
    cycle.append(cycle)
    for data in (touch, pickled(nested), pickled(cycle), touch[:-4] + b"."):
        assert not compare_bytes("a.pkl", data, pickled(0)).equal
    assert not (tmp_path / "ran").exists()


class Runs:
    """Makes a file when it is unpickled as pickle does it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self._path,)


def test_torch_files_are_compared_by_what_was_saved(tmp_path: Path) -> None:
    def torch_file(state: object, digest: bytes) -> bytes:
        with zipfile.ZipFile(tmp_path / "a.pt", "w") as file:
            file.writestr("a/.data/serialization_id", digest)
            file.writestr("a/data.pkl", pickled(state))
        return (tmp_path / "a.pt").read_bytes()

    one, name = torch_file({"step": 1, "s": {"step": 2}}, b"1"), "".join(["st", "ep"])
    assert compare_bytes("a.pt", one, torch_file({"step": 1, "s": {name: 2}}, b"2")).equal
    assert (
        "['s']['step']: expected 2, found 3"
        in compare_bytes("a.pt", one, torch_file({"step": 1, "s": {name: 3}}, b"3")).detail
    )


def test_gzip_files_are_compared_by_what_they_hold() -> None:
    one, other = (gzip.compress(b'{"a": 1}', mtime=time) for time in (1, 2))
    assert compare_bytes("a.json.gz", one, other).equal
    assert "$.a: expected 1" in compare_bytes("a.json.gz", one, gzip.compress(b'{"a": 2}', mtime=1)).detail
    assert not compare_bytes("a.json.gz", one, other[:-3]).equal
