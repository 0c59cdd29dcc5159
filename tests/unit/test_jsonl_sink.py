"""Results as JSON lines: what others see of the file, what is refused, what is made anew, what a full disk does."""

import errno
import fcntl
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlast import sqlite_files
from outlast.errors import SettingsError, SinkUnreachable
from outlast.items import LeasedItem, Result
from outlast.sinks import jsonl, jsonl_file, result_lines
from outlast.sinks.jsonl import JsonlSink
from outlast.sinks.jsonl_index import JsonlIndex
from outlast.sinks.result_lines import line_of, rest_of_glued


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def opened(path: Path) -> JsonlSink:
    sink = JsonlSink(f"jsonl:{path}")
    sink.prepare()
    return sink


def results(*names: str, value: str = "1", version: str | None = "1", claim: int = 1) -> list[Result]:
    return [Result(name, value, version, claim) for name in names]


def by_id(sink: JsonlSink) -> dict[str, Result]:
    found = list(sink.results())
    assert len({one.id for one in found}) == len(found)
    return {one.id: one for one in found}


def known(sink: JsonlSink, *names: str) -> set[str]:
    return set(sink.known([LeasedItem(name, "null", 9) for name in names]))


def lines(path: Path) -> list[dict[str, object]]:
    """As a reader of JSON lines sees the file: each line, and no other."""
    *whole, rest = path.read_bytes().decode().split("\n")
    assert rest == ""
    return [json.loads(line) for line in whole]


# --- what others read ---------------------------------------------------------------------------------


def test_a_line_is_the_result_as_an_object(path: Path) -> None:
    opened(path).store([Result("ä/🦜", '{"p": [1.0, 1e400, "\\u2028"]}', None, 3)])
    assert path.read_text() == '{"id": "ä/🦜", "value": {"p": [1.0, 1e400, "\\u2028"]}, "version": null, "claim": 3}\n'


@pytest.mark.parametrize(
    ("value", "there"),
    [
        ('{"a":\n  1,\r\n "b": "x\\ny"}', '{"a":   1,   "b": "x\\ny"}'),
        ('"\\ud83e"', '"\\ud83e"'),
        ('"\ud83e"', '"\\ud83e"'),
        ('"\u2028\x85"', '"\u2028\x85"'),
        ("1" * 5000, "1" * 5000),
        (
            '{"id": "b", "value": 1, "version": null, "claim": 1}',
            '{"id": "b", "value": 1, "version": null, "claim": 1}',
        ),
        ('", \\"version\\": \\"1\\", \\"claim\\": 1}"', '", \\"version\\": \\"1\\", \\"claim\\": 1}"'),
    ],
)
def test_a_value_stays_as_it_is_on_one_line(path: Path, value: str, there: str) -> None:
    sink = opened(path)
    sink.store([Result("a", value, "1", 1), *results("b")])
    assert by_id(sink)["a"].value == there
    assert path.read_bytes().count(b"\n") == 2
    path.with_name("results.jsonl.index").unlink()
    assert by_id(opened(path))["a"].value == there


def test_every_line_is_one_result_after_others_were_replaced(path: Path) -> None:
    sink = opened(path)
    sink.store(results(*"abcdef", value='"long enough"'))
    sink.store(results("a", "c", "d", "f", value="2", version="2", claim=2))
    assert {said["id"]: said["value"] for said in lines(path)} == {
        "a": 2, "c": 2, "d": 2, "f": 2, "b": "long enough", "e": "long enough",
    }  # fmt: skip
    assert len(lines(path)) == 6


def test_a_file_in_which_lines_were_replaced_is_clean_after_close(path: Path) -> None:
    sink = opened(path)
    sink.store(results(*"abc"))
    sink.store(results("b", value="2", claim=2))
    assert b"  {" in path.read_bytes()
    sink.close()
    assert path.read_bytes() == b"".join(map(line_of, [*results("a", "c"), *results("b", value="2", claim=2)]))
    assert known(opened(path), "a", "b", "c", "d") == {"a", "b", "c"}


def test_blanks_are_never_more_than_content_and_a_bit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_NEEDLESS_BYTES", 1000)
    monkeypatch.setattr(jsonl_file, "_BLOCK_BYTES", 64)  # so that lines and blanks lie across blocks
    sink, other = opened(path), opened(path)
    for version in range(2, 12):
        for first in range(0, 40, 8):
            names = [f"n{number}" for number in range(first, first + 8)]
            (sink if first % 16 else other).store(results(*names, value=f'"v{version}"', version=str(version)))
        content = sum(len(line_of(one)) for one in sink.results())
        assert path.stat().st_size <= 2 * content + 1000 + 400
        assert len(lines(path)) == 40
    assert {one.version for one in by_id(other).values()} == {"11"}


PIECES = st.lists(
    st.sampled_from([b" ", b"   ", b"\n", b"{}", b'{"a": "b c"}', "ä🦜".encode(), b" \n \n"]), max_size=20
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, block=st.integers(1, 9))
def test_lines_are_read_alike_wherever_the_blocks_end(
    path: Path, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], block: int
) -> None:
    content = b"".join(pieces)
    path.write_bytes(content)
    expected, start = [], 0
    for line in content.splitlines(keepends=True):
        if line.strip():
            blanks = len(line) - len(line.lstrip(b" "))
            expected.append((start, start + blanks, line[blanks:]))
        start += len(line)
    monkeypatch.setattr(result_lines, "_BLOCK_BYTES", block)
    with path.open("rb") as file:
        assert list(result_lines.lines_between(file.fileno(), 0, len(content))) == expected
        assert list(result_lines.lines_between(file.fileno(), len(content), len(content))) == []


# --- which result stays ---------------------------------------------------------------------------------


def test_of_two_the_higher_claim_stays_and_of_equal_claims_the_later(path: Path) -> None:
    sink = opened(path)
    sink.store(
        [*results("a", value="1", claim=2), *results("a", value="2", claim=3), *results("a", value="3", claim=1)]
    )
    assert by_id(sink)["a"].value == "2"
    sink.store(results("a", value="4", claim=3))
    sink.store(results("a", value="5", claim=2))
    assert by_id(sink)["a"].value == "4"
    assert len(lines(path)) == 1


def test_the_very_same_result_again_writes_nothing(path: Path) -> None:
    sink = opened(path)
    sink.store(results("a", "b"))
    before = path.read_bytes()
    sink.store(results("b", "a"))
    assert path.read_bytes() == before


def test_results_that_are_replaced_while_they_are_read_come_once_each(path: Path) -> None:
    sink, other = opened(path), opened(path)
    names = [f"n{number:04d}" for number in range(1200)]
    sink.store(results(*names))
    found = []
    for number, one in enumerate(sink.results()):
        found.append(one.id)
        if number in (0, 700):
            other.store(results(*names, value=f'"later {number}"', claim=2 + number))
            other.close()
    assert found == names


def test_files_that_were_joined_keep_one_result_per_id(path: Path) -> None:
    later, earlier = results("a", "b", claim=2, value="2"), results("b", "c", "a")
    path.write_bytes(b"".join(map(line_of, later + earlier)))
    sink = opened(path)
    assert {name: one.value for name, one in by_id(sink).items()} == {"a": "2", "b": "2", "c": "1"}
    assert len(lines(path)) == 3
    sink.store(results("d"))
    assert len(lines(path)) == 4
    path.write_bytes(b"".join(map(line_of, results("a", claim=2) + results("a"))))
    assert by_id(opened(path)) == {"a": results("a", claim=2)[0]}
    assert len(lines(path)) == 1


# --- what a kill or a stranger left -----------------------------------------------------------------------


def test_a_record_that_was_glued_to_half_a_line_is_kept(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = Result("c", '{"id": "x", "value": {"id": "y"}, "version": null, "claim": 1}', None, 1)
    first, second, third = map(line_of, [*results("a", "b"), inner])
    path.write_bytes(first + second[:20] + third)
    assert set(by_id(opened(path))) == {"a", "c"}
    assert [said["id"] for said in lines(path)] == ["a", "c"]
    assert Path(f"{path}.torn").read_bytes() == second[:20] + b"\n"
    assert f"20 bytes of a line that was cut short, at byte {len(first)}, are in {path}.torn" in capsys.readouterr().err
    assert rest_of_glued(second) is None


@pytest.mark.parametrize("hole", [b"\0" * 40, b"\0" * 40 + b"\n", b'{"id": "b", "val\n'])
def test_what_a_power_cut_left_is_moved_aside(path: Path, hole: bytes) -> None:
    path.write_bytes(b"".join(map(line_of, results("a"))) + hole + line_of(results("c")[0])[: 0 if hole[-1:] else None])
    sink = opened(path)
    assert set(by_id(sink)) == {"a"}
    assert Path(f"{path}.torn").read_bytes().strip(b"\n") == hole.strip(b"\n")
    sink.store(results("b"))
    assert [said["id"] for said in lines(path)] == ["a", "b"]


@pytest.mark.parametrize("only", [b'{"id": "a", "va', b"{", b"\0\0\0\0"])
def test_a_file_of_half_a_line_begins_anew(path: Path, only: bytes) -> None:
    path.write_bytes(only)
    opened(path).store(results("a"))
    assert [said["id"] for said in lines(path)] == ["a"]
    assert Path(f"{path}.torn").read_bytes() == only + b"\n"


STRANGERS = {
    "csv": b"id,value\na,1\n",
    "other objects": b'{"name": "a"}\n{"name": "b"}\n',
    "an id that is no text": b'{"id": 1, "value": 1}\n',
    "numbers": b"1\n2\n",
    "an array": b"[1,\n2]\n",
    "bytes": b"\x89PNG\r\n\x1a\n\xff",
    "one line without an end": b"hello",
    "a stranger behind a result": line_of(results("a")[0]) + b'{"name": "b"}\n',
}


@pytest.mark.parametrize("content", STRANGERS.values(), ids=STRANGERS)
def test_another_programs_file_is_refused_and_stays(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"results\.jsonl has a line, at byte \d+, that is no result"):
        opened(path)
    assert path.read_bytes() == content
    assert not Path(f"{path}.torn").exists()


# --- the index ----------------------------------------------------------------------------------------


def lose(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}.index{suffix}").unlink(missing_ok=True)


def damage(path: Path) -> None:
    lose(path)
    Path(f"{path}.index").write_bytes(b"no database at all" * 500)


def damage_within(path: Path) -> None:
    index = Path(f"{path}.index")
    index.write_bytes(index.read_bytes()[:4096] + b"\xff" * (index.stat().st_size - 4096))


def take_out_a_line(path: Path) -> None:
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(keepends=True) if b'"n3"' not in line))


def put_back_a_copy(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    copy.rename(path)


def append_by_hand(path: Path) -> None:
    with path.open("ab") as file:
        file.write(line_of(results("n9")[0])[:-1])


ALL_FIVE = {f"n{number}" for number in range(5)}
STROKES = {
    lose: ALL_FIVE,
    damage: ALL_FIVE,
    damage_within: ALL_FIVE,
    take_out_a_line: ALL_FIVE - {"n3"},
    put_back_a_copy: {"n0", "n1", "n2"},
    append_by_hand: ALL_FIVE | {"n9"},
    Path.unlink: set[str](),
}


@pytest.mark.parametrize("while_open", [False, True])
@pytest.mark.parametrize("stroke", STROKES, ids=lambda stroke: stroke.__name__)
def test_the_file_is_right_whatever_befalls_it_or_its_index(path: Path, stroke: object, while_open: bool) -> None:
    sink = opened(path)
    sink.store(results(*sorted(ALL_FIVE)))
    if not while_open:
        sink.close()
    stroke(path)
    sink = sink if while_open else opened(path)
    expected = STROKES[stroke]
    assert known(sink, *ALL_FIVE, "n9") == expected
    assert set(by_id(sink)) == expected
    sink.store(results("n3", "new", value="2", claim=2))
    assert {str(said["id"]) for said in lines(path)} == expected | {"n3", "new"}
    assert len(lines(path)) == len(expected | {"n3", "new"})


def test_a_probe_reads_no_more_of_a_file_than_its_tail(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(path)
    for first in range(0, 4000, 1000):
        sink.store(results(*[f"n{number}" for number in range(first, first + 1000)], value='"' + "x" * 100 + '"'))
    read, real = [0], os.pread

    def counted(handle: int, count: int, start: int) -> bytes:
        read[0] += count
        return real(handle, count, start)

    monkeypatch.setattr(os, "pread", counted)
    again = opened(path)
    assert known(again, "n1", "n3999", "m") == {"n1", "n3999"}
    again.store(results("m"))
    assert read[0] < 20_000 < path.stat().st_size


# --- places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["jsonl:", "jsonl:-", "jsonl:folder/", "jsonl://results.jsonl", "jsonl:gs://b/x.jsonl"])
def test_what_names_no_file_of_this_machine_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"jsonl:results\.jsonl"):
        JsonlSink(url)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("folder", "pipe", "file/inside", "x" * 300):
        with pytest.raises(SettingsError):
            opened(tmp_path / name)


def test_folders_are_made_and_a_link_stays_one(tmp_path: Path) -> None:
    opened(tmp_path / "a" / "b" / "results.jsonl").store(results("a"))
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "a" / "b" / "results.jsonl")
    sink = opened(link)
    sink.store(results("a", value="2", claim=2))
    sink.close()
    assert link.is_symlink()
    assert len(lines(link)) == 1
    assert [one.name for one in tmp_path.iterdir() if "index" in one.name] == []


def test_permissions_stay_when_the_file_is_rewritten(path: Path) -> None:
    sink = opened(path)
    path.chmod(0o640)
    sink.store(results("a"))
    sink.store(results("a", claim=2))
    before = path.stat().st_ino
    sink.close()
    assert path.stat().st_ino != before
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_folder_of_several_machines_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("nfs4", "fuse.gcsfuse", "cifs", "lustre"):
        monkeypatch.setattr(sqlite_files, "file_system_of", lambda path, kind=kind: kind)
        with pytest.raises(SettingsError, match=kind):
            opened(path)
    assert list(path.parent.iterdir()) == []


# --- disks and locks that fail --------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_chunk_that_does_not_fit_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    sink = opened(path)
    sink.store(results("a", "b"))
    before, real, partly = path.read_bytes(), getattr(os, call), list[int]()

    def failing(handle: int, *data: object) -> int:
        if call == "pwrite" and not partly:  # what of it still fits
            partly.append(real(handle, data[0][:10], data[1]))
            return partly[0]
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing)
        with pytest.raises(SinkUnreachable, match="disk is full" if code == errno.ENOSPC else os.strerror(code)):
            sink.store(results("c", "a", value="2", claim=2))
    assert path.read_bytes() == before
    assert known(sink, "a", "b", "c") == {"a", "b"}
    sink.store(results("c", "a", value="2", claim=2))
    assert {name: one.value for name, one in by_id(sink).items()} == {"a": "2", "b": "1", "c": "2"}


def test_a_disk_too_full_for_a_copy_leaves_the_file_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = opened(path)
    sink.store(results(*"abc"))
    sink.store(results("b", value="2", claim=2))

    def full(self: object, copy: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(jsonl_file.LockedFile, "_copy_lines", full)
        sink.close()
    assert "could not be made smaller" in capsys.readouterr().err
    assert {str(said["id"]): said["value"] for said in lines(path)} == {"a": 1, "b": 2, "c": 1}
    assert sorted(one.name for one in path.parent.iterdir()) == ["results.jsonl", "results.jsonl.index"]


def test_an_index_that_cannot_be_written_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(path)
    sink.store(results("a"))
    before = path.read_bytes()

    def full(*_all: object, **_named: object) -> None:
        raise SinkUnreachable("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(JsonlIndex, "add", full)
        with pytest.raises(SinkUnreachable):
            sink.store(results("a", "b", value="2", claim=2))
    assert path.read_bytes() == before
    sink.store(results("b"))
    assert [said["id"] for said in lines(path)] == ["a", "b"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_was_forked_under_the_lock_does_not_keep_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, children, real = opened(path), list[int](), os.pwrite

    def forking(handle: int, data: memoryview, start: int) -> int:
        if not children:
            children.append(os.fork())
            if not children[0]:
                time.sleep(60)
                os._exit(0)
        return real(handle, data, start)

    monkeypatch.setattr(jsonl_file, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(os, "pwrite", forking)
    try:
        sink.store(results("a"))
        sink.store(results("b"))
        assert set(by_id(sink)) == {"a", "b"}
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)


def test_who_waits_for_a_lock_gives_up_only_when_its_holder_shows_no_life(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(path)
    monkeypatch.setattr(jsonl_file, "PATIENCE_SECONDS", 0.25)
    with path.open("r+b") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        waiting = threading.Thread(target=sink.store, args=(results("a"),))
        waiting.start()
        for _ in range(12):
            time.sleep(0.05)
            os.utime(holder.fileno())
        assert waiting.is_alive()
        fcntl.flock(holder, fcntl.LOCK_UN)
        waiting.join()
        assert known(sink, "a") == {"a"}
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(SinkUnreachable, match="has held the lock"):
            sink.store(results("b"))
    sink.store(results("b"))
    assert set(by_id(sink)) == {"a", "b"}
