"""Files of items: each format row by row, what is wrong told by its line, at any size in bounded memory."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outlast.errors import SettingsError
from outlast.item_files import lines
from outlast.item_files.sources import find_sources
from outlast.worker.publishing import Row

GOOD = {
    "rows.csv": b"id,label\nimg-1,cat\nimg-2,dog\n",
    "rows.tsv": b"id\tlabel\nimg-1\tcat\nimg-2\tdog\n",
    "rows.jsonl": b'{"id": "img-1", "label": "cat"}\n{"id": "img-2", "label": "dog"}\n',
    "rows.ndjson": b'{"id": "img-1", "label": "cat"}\n\n{"id": "img-2", "label": "dog"}',
}


def write(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def read(*names: object, id_column: str = "id", **options: Any) -> list[Row]:
    return [row for one in find_sources([str(name) for name in names], **options) for row in one.rows(id_column)]


def told(rows: list[Row]) -> list[tuple[int | None, object, str | None]]:
    return [(row.line, row.id, row.why) for row in rows]


# --- what is right ----------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("marked", [False, True], ids=["", "byte-order-mark"])
@pytest.mark.parametrize("name", GOOD)
def test_a_row_is_its_items_payload_in_every_format(tmp_path: Path, name: str, packed: bool, marked: bool) -> None:
    content = (b"\xef\xbb\xbf" if marked else b"") + GOOD[name]
    path = write(tmp_path, name + ".gz", gzip.compress(content)) if packed else write(tmp_path, name, content)
    rows = read(path)
    assert [(row.id, row.payload) for row in rows] == [
        ("img-1", {"id": "img-1", "label": "cat"}),
        ("img-2", {"id": "img-2", "label": "dog"}),
    ]
    assert rows[0].line == (2 if "csv" in name or "tsv" in name else 1)
    assert [row.why for row in rows] == [None, None]


def test_txt_is_one_id_a_line_kept_as_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path, "ids.txt", "\ufeffé\r\n\n a b \n\u2028x\nlast".encode())
    rows = read(path)
    assert [(row.line, row.id) for row in rows] == [(1, "é"), (3, " a b "), (4, "\u2028x"), (5, "last")]
    assert rows[0].payload == {"id": "é"}


def test_parquet_rows_come_as_json_has_them(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 30, 8, 0, 0, 5, tzinfo=UTC)
    table = pa.table(
        {
            "id": pa.array([7, 2**63 - 1], pa.int64()),
            "text": pa.array(["é", None]).dictionary_encode(),
            "at": pa.array([moment, None]),
            "exact": pa.array([1, None], pa.timestamp("ns")),
            "price": [Decimal("1.10"), None],
            "image": [{"bytes": b"\xff\x00", "sizes": [1, 2]}, None],
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    first, second = read(tmp_path / "rows.parquet")
    assert (first.id, first.line, second.id, second.line) == ("7", 1, "9223372036854775807", 2)
    payload: Any = first.payload
    assert json.loads(json.dumps(payload, allow_nan=False)) == {
        "id": 7,
        "text": "é",
        "at": "2026-11-30T08:00:00.000005+00:00",
        "exact": "1970-01-01 00:00:00.000000001",
        "price": "1.10",
        "image": {"bytes": "/wA=", "sizes": [1, 2]},
    }


def test_the_id_may_be_in_another_column_and_whole_numbers_become_their_digits(tmp_path: Path) -> None:
    path = write(tmp_path, "n.jsonl", b'{"n": 12}\n{"n": "007"}\n{"n": 123456789012345678901234567890}\n')
    assert [row.id for row in read(path, id_column="n")] == ["12", "007", "123456789012345678901234567890"]
    path = write(tmp_path, "n.csv", b"id,n\n1,007\n")
    assert [row.id for row in read(path, id_column="n")] == ["007"]


def test_csv_takes_quotes_lines_and_long_fields(tmp_path: Path) -> None:
    long = b"x" * 300_000
    path = write(tmp_path, "q.csv", b'id,text\r\na,"one\ntwo, ""three"""\r\n\r\nb,' + long + b'\r\nc,5" pipe\r\n')
    rows = read(path)
    assert [(row.line, row.id) for row in rows] == [(2, "a"), (5, "b"), (6, "c")]
    payloads: list[Any] = [row.payload for row in rows]
    assert payloads[0]["text"] == 'one\ntwo, "three"'
    assert len(payloads[1]["text"]) == len(long)
    assert payloads[2]["text"] == '5" pipe'


# --- what is wrong ----------------------------------------------------------------------------------

WRONG_ROWS: dict[str, tuple[str, bytes, list[tuple[int, object, str | None]]]] = {
    "csv-ragged": ("a.csv", b"id,x\n1\n2,a,b\n3,c\n", [(2, None, "1, where"), (3, None, "3, where"), (4, "3", None)]),
    "csv-quote": ("a.csv", b'id,x\n1,"a"b\n2,c\n', [(2, None, "expected after"), (3, "2", None)]),
    "csv-open-quote": ("a.csv", b'id,x\n1,c\n2,"open\n3,d\n', [(2, "1", None), (3, None, "up to line 4")]),
    "csv-bytes": ("a.csv", b"id,x\n1,\xff\n2,c\n", [(2, None, "UTF-8"), (3, "2", None)]),
    "csv-empty-id": ("a.csv", b"id,x\n,c\n2,c\n", [(2, "", None), (3, "2", None)]),
    "txt-bytes": ("a.txt", b"a\n\xff\nb\n", [(1, "a", None), (2, None, "UTF-8"), (3, "b", None)]),
    "jsonl-torn": ("a.jsonl", b'{"id": "a"}\n{"id": "b", "x', [(1, "a", None), (2, None, "no JSON: Unterminated")]),
    "jsonl-nul": ("a.jsonl", b'{"id": "a"}\n\0\0\xff\n{"id": "b"}\n', [(1, "a", None), (2, None, ""), (3, "b", None)]),
    "jsonl-array": ("a.jsonl", b'{"id": "a"}\n[1]\n"x"\n', [(1, "a", None), (2, None, "list"), (3, None, "str")]),
    "jsonl-nan": ("a.jsonl", b'{"id": "a", "x": NaN}\n{"id": "b"}\n', [(1, None, "NaN"), (2, "b", None)]),
    "jsonl-infinity": ("a.jsonl", b'{"id": "a", "x": [-Infinity]}\n', [(1, None, "-Infinity")]),
    "jsonl-bytes": ("a.jsonl", b'{"id": "\xff"}\n{"id": "b"}\n', [(1, None, "UTF-8"), (2, "b", None)]),
    "jsonl-no-id": ("a.jsonl", b'{"x": 1}\n{"id": null}\n', [(1, None, "no field 'id'"), (2, None, "null")]),
    "jsonl-kinds": (
        "a.jsonl",
        b'{"id": 1.0}\n{"id": true}\n{"id": ["a"]}\n',
        [(1, None, "float"), (2, None, "bool"), (3, None, "list")],
    ),
    "jsonl-deep": ("a.jsonl", b'{"id":' * 99_999 + b'\n{"id": "b"}', [(1, None, "no JSON"), (2, "b", None)]),
    "jsonl-digits": ("a.jsonl", b'{"id": ' + b"1" * 5000 + b"}\n", [(1, None, "no JSON")]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_ROWS)
def test_a_wrong_row_is_told_by_its_line_and_the_others_go_on(tmp_path: Path, name: str) -> None:
    file, content, expected = WRONG_ROWS[name]
    found = told(read(write(tmp_path, file, content)))
    assert [(line, one) for line, one, _ in found] == [(line, one) for line, one, _ in expected]
    for (_, _, why), (_, _, words) in zip(found, expected, strict=True):
        assert (why is None) == (words is None)
        assert (words or "") in (why or "")


@pytest.mark.parametrize("name", ["long.csv", "long.jsonl", "long.txt"])
def test_a_row_without_end_is_told_and_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(lines, "MOST_ROW_BYTES", 1000)
    monkeypatch.setattr(lines, "_SKIP_BYTES", 64)
    rows = {"csv": [b"id,x", b"%s,1", b"2,1"], "jsonl": [b'{"id": "%s"}', b'{"id": "2"}'], "txt": [b"%s", b"2"]}
    content = b"\n".join(rows[name.partition(".")[2]]).replace(b"%s", b"y" * 5000) + b"\n"
    bad, good = read(write(tmp_path, name, content))
    assert "longer than" in (bad.why or "")
    assert (good.id, good.why) == ("2", None)
    assert good.line == (bad.line or 0) + 1


WRONG_FILES: dict[str, tuple[str, bytes, str]] = {
    "no id column": ("a.csv", b"name,label\na,b\n", "no column 'id'.*'name', 'label'"),
    "a column twice": ("a.csv", b"id,x,x\na,b,c\n", "more than one column 'x'"),
    "an image": ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is no text"),
    "parquet": ("a.jsonl", b"PAR1....PAR1", "is Parquet"),
    "a workbook": ("a.csv", b"PK\x03\x04....", "xlsx"),
    "UTF-16": ("a.txt", "a\nb\n".encode("utf-16"), "UTF-16"),
    "an array": ("a.jsonl", b' [{"id": "a"}]', "JSON array"),
    "CR alone": ("a.txt", b"a\rb\rc", "CR alone"),
    "no parquet": ("a.parquet", b"id,x\n1,2\n" * 100, "no Parquet file"),
    "gzip cut": ("a.jsonl.gz", gzip.compress(os.urandom(5000).hex().encode())[:3000], "damaged"),
    "gzip wrong": ("a.jsonl.gz", gzip.compress(b'{"id": "a"}\n' * 99)[:-8] + b"\0" * 8, "damaged"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_file_that_is_something_else_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    file, content, words = WRONG_FILES[name]
    with pytest.raises(SettingsError, match=f"{file}.*{words}") as raised:
        read(write(tmp_path, file, content))
    assert "\n" not in str(raised.value)


def test_parquet_with_other_ids_is_refused_as_a_whole(tmp_path: Path) -> None:
    for values, words in (([1.5], "double"), ([b"a"], "binary"), ([True], "bool")):
        pq.write_table(pa.table({"id": values}), tmp_path / "a.parquet")
        with pytest.raises(SettingsError, match=f"'id' is {words}"):
            read(tmp_path / "a.parquet")
    with pytest.raises(SettingsError, match=r"no column 'n'.*'id'"):
        read(tmp_path / "a.parquet", id_column="n")


def test_parquet_that_is_damaged_inside_says_where(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [f"{n:030}" for n in range(5000)]}), tmp_path / "a.parquet", compression="snappy")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[100:20_000] = b"\xff" * 19_900
    with pytest.raises(SettingsError, match=r"a\.parquet (cannot be read after row|is damaged)"):
        read(write(tmp_path, "a.parquet", bytes(content)))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert read(*(write(tmp_path, f"e.{ending}", b"") for ending in ("csv", "jsonl", "txt", "csv.gz"))) == []


# --- where it comes from ----------------------------------------------------------------------------


def test_patterns_are_expanded_in_order_and_must_match(tmp_path: Path) -> None:
    for n in (10, 2, 1):
        write(tmp_path, f"part-{n:02}.txt", f"{n}\n".encode())
    write(tmp_path, "odd[1].txt", b"odd\n")
    assert [row.id for row in read(tmp_path / "part-*.txt", tmp_path / "odd[1].txt")] == ["1", "2", "10", "odd"]
    with pytest.raises(SettingsError, match=r"nothing matches .*\.csv"):
        read(tmp_path / "*.csv")


@pytest.mark.parametrize(
    ("name", "words"), [("gone.csv", "No such file"), ("rows.dat", "does not tell its format"), ("-", "needs --format")]
)
def test_what_cannot_be_read_is_told_before_anything_is(tmp_path: Path, name: str, words: str) -> None:
    write(tmp_path, "rows.dat", b"x")
    with pytest.raises(SettingsError, match=words):
        find_sources([write(tmp_path, "good.txt", b"a\n"), name if name == "-" else str(tmp_path / name)])


def test_a_folder_gives_its_files_as_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/2.png", "b/1.png", "a.png", "note.txt", ".hidden/x.png", ".DS_Store"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"")
    (tmp_path / "in" / "b" / "round").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "z.png").symlink_to(tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)
    rows = read("in")
    assert [row.id for row in rows if row.why is None] == ["a.png", "b/1.png", "b/2.png", "note.txt"]
    assert [(row.id, row.why) for row in rows if row.why] == [("z.png", "cannot be read: No such file or directory")]
    assert rows[1].payload == {"path": str(tmp_path / "in" / "b" / "1.png")}
    assert [row.id for row in read("in", patterns=["b/**"])] == ["b/1.png", "b/2.png"]
    assert [row.id for row in read("in", patterns=["*.txt", "a.*"])] == ["a.png", "note.txt"]


def test_patterns_for_a_folder_need_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no folder"):
        find_sources([write(tmp_path, "a.txt", b"a")], patterns=["*.png"])


def test_a_missing_pyarrow_is_told_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "outlast.item_files.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingsError, match=r"pip install 'outlast\[parquet\]'"):
        find_sources([write(tmp_path, "a.txt", b"a"), write(tmp_path, "a.parquet", b"")])


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_standard_input_is_read_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    if kind == "file":
        handle = os.open(write(tmp_path, "in", GOOD["rows.csv"]), os.O_RDONLY)
    else:
        handle, other = os.pipe()
        os.write(other, GOOD["rows.csv"])
        os.close(other)
    with io.TextIOWrapper(io.BufferedReader(io.FileIO(handle))) as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert [row.id for row in read("-", format="csv")] == ["img-1", "img-2"]


def test_parquet_comes_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "a.parquet")
    handle, other = os.pipe()
    os.write(other, (tmp_path / "a.parquet").read_bytes())
    os.close(other)
    with io.TextIOWrapper(io.BufferedReader(io.FileIO(handle))) as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert [row.id for row in read("-", format="parquet")] == ["a"]


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.jsonl")
    writer = threading.Thread(target=lambda: (tmp_path / "rows.jsonl").write_bytes(GOOD["rows.jsonl"]))
    writer.start()
    assert [row.id for row in read(tmp_path / "rows.jsonl")] == ["img-1", "img-2"]
    writer.join()


# --- size -------------------------------------------------------------------------------------------

# The most memory since the program began; ru_maxrss would also count what the test's own process had.
_MOST_KIB = """
import sys
def most_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
"""
_READ_ALL = """
from outlast.item_files.sources import find_sources
[source] = find_sources(["-"], format=sys.argv[1])
next(rows := source.rows())
before = most_kib()
count = sum(1 for row in rows)
print(count, most_kib() - before)
"""


def _csv_of(number: int) -> bytes:
    return b"id,x\n" if number < 0 else b"%d,%s\n" % (number, b"x" * 1000)


def _jsonl_of(number: int) -> bytes:
    return b'{"id": "%d", "x": "%s"}\n' % (number, b"x" * 1000)


@pytest.mark.parametrize(("form", "line"), [("csv", _csv_of), ("jsonl", _jsonl_of)])
def test_memory_does_not_grow_with_the_file(form: str, line: Callable[[int], bytes]) -> None:
    """100 MB through a pipe. OUTLAST_TEST_ROWS=10000000 makes it 10 GB."""
    rows = int(os.environ.get("OUTLAST_TEST_ROWS", "100000"))
    with subprocess.Popen(
        [sys.executable, "-c", _MOST_KIB + _READ_ALL, form], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdin is not None
        for number in range(-1, rows, 1000):
            reader.stdin.write(b"".join(line(n) for n in range(number, min(number + 1000, rows))))
        out, _ = reader.communicate()
    count, grown_kib = map(int, out.split())
    assert count == (rows if form == "csv" else rows + 1) - 1
    assert grown_kib < 20_000


_READ_PARQUET = """
import outlast.item_files.parquet
from outlast.item_files.sources import find_sources
before = most_kib()
[source] = find_sources(sys.argv[1:])
count = sum(1 for row in source.rows())
print(count, most_kib() - before)
"""


def test_memory_does_not_grow_with_a_row_group_of_parquet(tmp_path: Path) -> None:
    table = pa.table({"id": range(60_000), "x": [os.urandom(500).hex() for _ in range(60_000)]})
    pq.write_table(table, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    words = [sys.executable, "-c", _MOST_KIB + _READ_PARQUET, str(tmp_path / "a.parquet")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    count, grown_kib = map(int, done.stdout.split())
    assert count == 60_000
    assert (tmp_path / "a.parquet").stat().st_size > 60_000_000
    assert grown_kib < 45_000
