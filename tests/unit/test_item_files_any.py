"""Files of items with anything in them: what was written is read, and rubbish is told, never raised as it is."""

import csv
import gzip
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast.errors import SettingsError
from outlast.item_files.sources import FORMATS, find_sources
from outlast.worker.publishing import Row

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
# A folder may be shared by all examples of one test: each writes its file anew.
MANY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# What steers a reader stands among the rubbish more often than chance would put it there.
RUBBISH = st.lists(
    st.binary(max_size=20)
    | st.sampled_from(
        [b'"', b"\n", b"\r\n", b"\r", b",", b"\t", b"id", b"id,x\n", b'{"id": ', b"}", b"NaN", b"\xef\xbb\xbf", b"\0"]
    ),
    max_size=30,
).map(b"".join)


def read(folder: Path, name: str, content: bytes) -> list[Row]:
    (folder / name).write_bytes(content)
    [source] = find_sources([str(folder / name)])
    return list(source.rows())


@MANY
@given(rows=st.lists(st.tuples(TEXT, TEXT), max_size=5), ends=st.sampled_from(["\n", "\r\n"]))
def test_what_csv_writes_is_read(tmp_path: Path, rows: list[tuple[str, str]], ends: str) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=ends, quoting=csv.QUOTE_ALL)  # else Python leaves some CR bare
    writer.writerows([("id", "x\ny"), *rows])
    found = read(tmp_path, "a.csv", out.getvalue().encode())
    assert [(row.id, row.payload, row.why) for row in found] == [
        (one, {"id": one, "x\ny": other}, None) for one, other in rows
    ]


@MANY
@given(payloads=st.lists(st.dictionaries(TEXT, JSON, max_size=3), max_size=5), ascii_only=st.booleans())
def test_what_json_writes_is_read(tmp_path: Path, payloads: list[dict[str, Any]], ascii_only: bool) -> None:
    rows = [{**payload, "id": f"é{number}"} for number, payload in enumerate(payloads)]
    content = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows).encode()
    found = read(tmp_path, "a.jsonl", content)
    assert [(row.id, row.payload, row.why) for row in found] == [(row["id"], row, None) for row in rows]


@pytest.mark.parametrize("form", FORMATS)
@MANY
@given(content=RUBBISH, packed=st.booleans())
def test_rubbish_is_told(tmp_path: Path, form: str, content: bytes, packed: bool) -> None:
    if packed:
        content = gzip.compress(content)[: -len(content) % 9 or None]
    with suppress(SettingsError):
        for row in read(tmp_path, f"a.{form}", content):
            assert row.why is not None or isinstance(row.id, str)
            assert row.line is not None
            assert row.line >= 1


@MANY
@given(junk=RUBBISH.map(lambda junk: junk.replace(b"\n", b" ")), at=st.integers(0, 5))
def test_one_line_of_rubbish_costs_no_other(tmp_path: Path, junk: bytes, at: int) -> None:
    lines = [b'{"id": "%d"}' % number for number in range(5)]
    lines.insert(at, b"x" + junk)
    found = {row.line: row for row in read(tmp_path, "a.jsonl", b'{"id": "first"}\n' + b"\n".join(lines))}
    assert found.pop(at + 2).why is not None
    assert [row.id for row in found.values()] == ["first", "0", "1", "2", "3", "4"]
