"""`outlast publish` and `queue`: what they do, say and leave with."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from click.testing import Result as Ended

from outlast.cli.main import main
from outlast.cli.progress import Look, Rate, progress
from outlast.errors import QueueUnreachable
from outlast.items import Draft, Failure, InFiles
from outlast.registry import open_queue
from outlast.testing import MemorySink

_OUTLAST = [sys.executable, "-c", "from outlast.cli.main import main; main()"]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return "sqlite:///work.db"


def run(*words: object, stdin: bytes | None = None) -> Ended:
    return CliRunner().invoke(main, [str(word) for word in words], input=stdin)


def counts(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("queue", "show", url, "--json").stdout)
    return found


def with_dead(url: str) -> None:
    """A queue with one item in each state, oldest first: dead, done, leased, ready."""
    port = open_queue(url)
    port.publish([Draft(f"item-{n}", json.dumps({"n": n})) for n in range(4)])
    for number in range(3):
        lease = port.lease(1, 60.0, begin=True, max_deaths=3)
        assert lease is not None
        if number == 0:
            port.fail(lease, [Failure("item-0", "Traceback ...\n\nValueError: a\x1b[31m bad file")], max_errors=0)
        if number == 1:
            port.ack(lease, ["item-1"])
    port.close()


# --- publish ----------------------------------------------------------------------------------------


def test_publish_says_what_is_new_what_was_there_and_what_was_rejected_where(queue: str) -> None:
    Path("a.csv").write_text("id,x\n1,a\n2\n1,a\n1,b\n")
    Path("b.jsonl").write_text('{"id": 3}\n{"id"\n')
    said = run("publish", queue, "a.csv", "b.jsonl")
    assert said.exit_code == 1, said.output
    assert said.stdout.splitlines()[0] == "2 new, 1 already there, 3 rejected"
    assert re.search(r"^rejected: a\.csv line 3: .*fields", said.stdout, re.M)
    assert re.search(r"^rejected: a\.csv line 5, id '1': .*another payload", said.stdout, re.M)
    assert re.search(r"^rejected: b\.jsonl line 2: no JSON", said.stdout, re.M)
    again = json.loads(run("publish", queue, "a.csv", "b.jsonl", "--json").stdout)
    assert (again["new"], again["already"]) == (0, 3)
    assert [(one["file"], one["id"], one["line"]) for one in again["rejected"]] == [
        ("a.csv", None, 3),
        ("a.csv", "1", 5),
        ("b.jsonl", None, 2),
    ]
    assert counts(queue)["ready"] == 2


@pytest.mark.parametrize("where", [".", "*", "link"])
def test_a_folder_that_holds_the_queue_is_published_without_it(queue: str, where: str) -> None:
    """Again and again, with the files that SQLite has beside it, and told in one line."""
    Path("link").symlink_to(".")
    Path("more").mkdir()
    for name in ("a.txt", "more/b.txt", "more/.hidden", "more/work.db"):
        Path(name).write_text("an-id\n")
    held = open_queue(queue)
    held.publish([Draft("first", "1")])  # its -wal and -shm are there now
    names = {"a.txt", "more/b.txt", "more/work.db"} if where != "*" else {"an-id", "b.txt", "work.db"}
    if where == "*":
        Path("link").unlink()
    else:
        Path("more/linked.db").symlink_to(Path("work.db").absolute())
        Path("hard.db").hardlink_to("work.db")
    for _ in range(2):
        said = run("publish", queue, where)
        assert said.exit_code == 0, said.output
        assert "left out: the queue itself (work.db, work.db-shm, work.db-wal) and 1 hidden name\n" in said.stderr
    assert {one.id for one in held.items()} == {"first", *names}
    held.close()


def test_of_many_rejected_rows_people_see_a_few_and_machines_all(queue: str) -> None:
    lines = b"".join(b"[%d]\n" % number for number in range(50))
    said = run("publish", queue, "-", "--format", "txt", stdin=b"a\nb\n")
    assert (said.exit_code, said.stdout) == (0, "2 new, 0 already there, 0 rejected\n")
    Path("a.jsonl").write_bytes(b'{"id": 1}\n' + lines)
    said = run("publish", queue, "a.jsonl")
    assert said.stdout.count("rejected: ") == 20
    assert said.stdout.splitlines()[-1] == "and 30 more; --json names all"
    found = json.loads(run("publish", queue, "a.jsonl", "--json").stdout)
    assert [one["line"] for one in found["rejected"]] == list(range(2, 52))
    assert json.loads(run("publish", queue, "-", "--format", "txt", "--json", stdin=b"a\n").stdout)["rejected"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gone.csv"], "gone.csv cannot be read"),
        (["good.txt", "image.csv"], "image.csv is no text"),
        (["-"], "needs --format"),
        (["'*.parquet'"], "nothing matches"),
        (["rows.csv"], "has no column 'id' (--id names another); there are 'name', 'x'"),
    ],
)
def test_a_file_that_cannot_be_published_is_told_in_one_line(queue: str, words: list[str], says: str) -> None:
    Path("good.txt").write_text("a\n")
    Path("image.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    Path("rows.csv").write_text("name,x\na,1\n")
    said = run("publish", queue, *words)
    assert said.exit_code == 78
    assert says in said.stderr
    assert [line.startswith("outlast: ") for line in said.stderr.splitlines()] in ([True], [True, True])
    assert "Traceback" not in said.output


def test_a_publish_that_breaks_off_says_that_it_can_be_run_again(queue: str) -> None:
    Path("good.txt").write_text("a\nb\n")
    Path("bad.csv").write_bytes(b"\0")
    said = run("publish", queue, "good.txt", "bad.csv")
    assert "cut short, with 2 rows looked at; what was published stays, so run it again" in said.stderr
    assert counts(queue)["ready"] == 2


def test_a_publish_that_breaks_off_before_anything_was_new_says_nothing_of_what_stays(
    queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise QueueUnreachable("no answer")

    monkeypatch.setattr("outlast.queues.sqlite.SqliteQueue.publish", refuse)
    Path("good.txt").write_text("a\nb\n")
    said = run("publish", queue, "good.txt")
    assert said.exit_code == 75
    assert "cut short" in said.stderr
    assert "what was published stays" not in said.stderr


def test_publish_needs_no_place_for_temporary_files(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    Path("a.csv").write_text("id,x\n1,a\n2\n")
    assert run("publish", queue, "a.csv").stdout.startswith("1 new, 0 already there, 1 rejected\n")


def test_a_file_whose_name_is_no_text_is_rejected_by_itself(queue: str) -> None:
    Path("in").mkdir()
    Path("in/good.png").write_bytes(b"")
    (Path("in") / os.fsdecode(b"bad\xff.png")).write_bytes(b"")
    said = run("publish", queue, "in")
    assert (said.exit_code, said.stdout.splitlines()[0]) == (1, "1 new, 0 already there, 1 rejected")
    assert "surrogate" in said.stdout


def test_where_there_is_no_terminal_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([Look(0, 0.0), None, Look(30, 0.3)])
    enough = threading.Event()

    def look() -> Look | None:
        found = next(looks, None)
        if found is None:
            enough.set()
        return found

    with progress("working", look, window_seconds=10.0, line_seconds=0.01):
        enough.wait(10)
        enough.clear()
        enough.wait(10)
    assert re.fullmatch(r"outlast: working: 30 items, [\d,]+/s, 30%, .* left\n", capsys.readouterr().err)


def test_a_name_cannot_steer_the_terminal(queue: str) -> None:
    Path("a.jsonl").write_text('{"id": "\\u001b[2J", "x": 1}\n{"id": "\\u001b[2J", "x": 2}\n')
    said = run("publish", queue, "a.jsonl")
    assert "\x1b" not in said.stdout
    assert said.exit_code == 1


_B39_PUBLISH = """
import os, signal
from outlast.cli.main import main
from outlast.items import QueueTraits
from outlast.queues.sqlite import SqliteQueue

batches, publish = 0, SqliteQueue.publish

def publish_and_die(queue, drafts):
    global batches
    done = publish(queue, drafts)
    batches += 1
    if batches == int(os.environ["DIE_AFTER"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return done

SqliteQueue.publish = publish_and_die
# As small as Pub/Sub's: a message is 10 MB at most.
SqliteQueue.traits = property(lambda queue: QueueTraits(most_payload_bytes=10_000_000, publish_batch=100))
main()
"""


def _b39_rows() -> list[dict[str, str]]:
    """1,000 rows: 988 that are right, one of 11 MB, one without an id, 5 repeated as they are, 5 changed."""
    rows = [{"id": f"row-{number}", "x": "é"} for number in range(990)]
    rows[200]["id"] = ""
    rows[300]["x"] = "h" * 11_000_000
    repeats = [dict(rows[number]) for number in range(10)]
    return rows + repeats[:5] + [{**row, "x": "other"} for row in repeats[5:]]


@pytest.mark.parametrize(("form", "killed_after"), [("jsonl", 1), ("csv", 5), ("jsonl", 9)])
def test_b39_a_list_with_bad_rows_is_published_once_however_often_it_is_killed(
    queue: str, form: str, killed_after: int
) -> None:
    rows, lines = _b39_rows(), [301, 201, 996, 997, 998, 999, 1000]
    name = f"rows.{form}"
    if form == "jsonl":
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        Path(name).write_text("id,x\n" + "".join(f"{row['id']},{row['x']}\n" for row in rows))
        lines = [line + 1 for line in lines]

    def publish(die_after: int, code: int) -> dict[str, Any]:
        words = [sys.executable, "-c", _B39_PUBLISH, "publish", queue, name, "--json"]
        env = {**os.environ, "DIE_AFTER": str(die_after)}
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        found: dict[str, Any] = json.loads(done.stdout or "{}")
        return found

    publish(killed_after, -signal.SIGKILL)
    there = counts(queue)["ready"]
    assert there == min(100 * killed_after, 988)
    for new in (988 - there, 0):
        found = publish(0, 1)
        assert (found["new"], found["already"], len(found["rejected"])) == (new, 993 - new, 7)
        told = {one["line"]: (one["id"], one["reason"]) for one in found["rejected"]}
        assert sorted(told) == sorted(lines)
        assert told[lines[0]][0] == "row-300"
        assert "10000000" in told[lines[0]][1].replace("_", "").replace(",", "")
        assert "no id" in told[lines[1]][1]
        assert [told[line][0] for line in lines[2:]] == [f"row-{number}" for number in range(5, 10)]
    export = [json.loads(line) for line in run("queue", "export", queue).stdout.splitlines()]
    assert len(export) == 988
    assert {one["id"]: one["payload"] for one in export} == {
        row["id"]: row for row in reversed(rows) if row["id"] and row["id"] != "row-300" and row["x"] != "other"
    }


# --- queue ------------------------------------------------------------------------------------------


def test_show_counts_by_state(queue: str) -> None:
    with_dead(queue)
    found = counts(queue)
    assert found.pop("oldest_seconds") >= 0
    assert found == {"ready": 1, "leased": 1, "done": 1, "dead": 1}
    assert run("queue", "show", queue).stdout.startswith("ready 1  leased 1  done 1  dead 1  oldest ")


def test_watch_ends_when_nothing_is_left(queue: str) -> None:
    port = open_queue(queue)
    port.publish([Draft("a", "{}")])
    lease = port.lease(1, 60.0, begin=True, max_deaths=3)
    assert lease is not None
    port.ack(lease, ["a"])
    assert run("queue", "show", queue, "--watch").stdout == "ready 0  leased 0  done 1  dead 0\n"


def test_dead_tells_why(queue: str) -> None:
    with_dead(queue)
    [found] = json.loads(run("queue", "dead", queue, "--json").stdout)
    assert found == {
        "id": "item-0",
        "reason": "Traceback ...\n\nValueError: a\x1b[31m bad file",
        "errors": 1,
        "deaths": 0,
        "payload": {"n": 0},
    }
    said = run("queue", "dead", queue).stdout
    assert re.search(r"item-0 +1 +0 +ValueError: a\\x1b\[31m bad file", said)
    assert "Traceback" not in said
    assert "1 item is dead" in said


def test_dead_without_any(queue: str) -> None:
    assert run("queue", "dead", queue).stdout == "no item is dead\n"
    assert json.loads(run("queue", "dead", queue, "--json").stdout) == []


def test_retry_makes_items_ready_again(queue: str) -> None:
    with_dead(queue)
    said = run("queue", "retry", queue, "item-1", "item-9").stdout
    assert (
        said == "no item is ready again: none of those named is dead\nof those named, not there: item-9; not dead: 1\n"
    )
    said = run("queue", "retry", queue, "item-0", "item-1").stdout
    assert said == "1 item is ready again\nof those named, not dead: 1\n"
    assert run("queue", "retry", queue).stdout == "no item is ready again: none is dead\n"
    assert json.loads(run("queue", "retry", queue, "--done", "--json").stdout) == {"retried": 1}
    assert counts(queue)["ready"] == 3


def test_a_queue_that_nobody_has_published_to_is_told_with_where_it_is(queue: str) -> None:
    for command in ("retry", "show"):
        said = run("queue", command, "sqlite:///wrok.db").stdout
        assert said.endswith(f"nothing was ever published to this queue (sqlite:///{Path.cwd()}/wrok.db)\n")
    assert not Path("wrok.db").exists()


def test_export_gives_every_item_with_its_state(queue: str) -> None:
    with_dead(queue)
    found = [json.loads(line) for line in run("queue", "export", queue).stdout.splitlines()]
    assert [(one["id"], one["state"], one["payload"]) for one in found] == [
        (f"item-{n}", state, {"n": n}) for n, state in enumerate(["dead", "done", "leased", "ready"])
    ]
    assert set(found[0]) == {"id", "state", "payload", "claim", "errors", "deaths", "releases", "reason"}
    assert run("queue", "export", queue, "--state", "done").stdout.count("\n") == 1


@pytest.mark.parametrize("command", [("show", "--watch", "--json"), ("dead",), ("dead", "--json"), ("export",)])
def test_a_queue_that_keeps_no_list_does_not_say_that_it_is_empty(command: tuple[str, ...]) -> None:
    url = "pubsub://project-1/images"
    assert json.loads(run("queue", "show", url, "--json").stdout)["dead"] is None
    said = run("queue", *command, url)
    assert (said.exit_code, said.stdout) == (78, "")
    assert "pubsub://project-1/images" in said.stderr


@pytest.mark.parametrize("command", ["show", "dead", "retry", "export"])
def test_what_is_no_queue_is_told_in_one_line(command: str) -> None:
    said = run("queue", command, "work.db")
    assert said.exit_code == 78
    assert said.stderr.count("\n") == 1
    assert "work.db" in said.stderr


def test_the_files_of_a_ledger_are_the_queues_own(queue: str, tmp_path: Path) -> None:
    for url in (queue, f"pubsub://project-1/images?topic=images&ledger={queue}"):
        port = open_queue(url)
        assert isinstance(port, InFiles)
        assert port.files == {f"{tmp_path.resolve()}/work.db{end}" for end in ("", "-wal", "-shm", "-journal")}
        port.close()


# --- progress ---------------------------------------------------------------------------------------


def test_rate_and_time_left_are_those_of_the_window() -> None:
    rate = Rate(window_seconds=10.0)
    for second in range(31):
        done = second if second < 20 else 20 + 100 * (second - 20)
        rate.note(Look(done, done / 2020, "3 in work"), float(second))
    assert rate.items_per_second == pytest.approx(100, rel=0.15)
    assert rate.seconds_left == pytest.approx(10, rel=0.2)
    assert re.fullmatch(r"1,020 items, \d+/s, 50%, \d+ s left, 3 in work", rate.words())


def test_slow_items_are_counted_for_longer() -> None:
    rate = Rate(window_seconds=10.0)
    for second in range(0, 1000, 2):
        rate.note(Look(second // 50), float(second))
    assert rate.items_per_second == pytest.approx(1 / 50, rel=0.15)
    assert rate.words() == "19 items, 1.2/min"


def test_a_pace_that_knows_nothing_says_nothing() -> None:
    rate = Rate(window_seconds=10.0)
    rate.note(Look(5), 1.0)
    assert (rate.words(), rate.items_per_second, rate.seconds_left) == ("5 items", None, None)


# --- help -------------------------------------------------------------------------------------------


_LABEL = "def infer(items):\n    return [len(item.payload) for item in items]\n"


def _commands() -> Iterator[tuple[str, click.Command]]:
    for name in ("publish", "queue", "sink", "work"):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())


def test_help_marks_each_command_as_provisional_and_fits() -> None:
    for name, command in _commands():
        assert "(Provisional.)" in (command.help or ""), name
        assert max(map(len, run(*name.split(), "--help").stdout.splitlines())) <= 100, name


def test_the_examples_of_help_run(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Parts(MemorySink):
        def compact(self) -> int:
            return 3

    monkeypatch.setattr("outlast.cli.sink.open_sink", lambda url: Parts())
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("rows.csv").write_text("image,x\na,1\nb,2\n")
    Path("label.py").write_text(_LABEL)
    seen = {}
    for name, command in _commands():
        if not isinstance(command, click.Group):
            [example] = re.findall(r"^ +outlast (.+)$", (command.help or "").partition("Example:")[2], re.M)
            assert example.startswith(f"{name} ")
            said = run(*shlex.split(example.partition(" > ")[0]))
            assert said.exit_code == 0, said.output
            seen[name] = said.stdout
    assert seen["publish"].startswith("2 new")
    assert seen["queue export"].count("\n") == 2
    assert seen["work"].startswith("nothing is left: 2 computed")
    assert seen["sink compact"] == "3 results, one per id\n"


def test_a_reader_that_has_seen_enough_ends_an_export_quietly(queue: str) -> None:
    port = open_queue(queue)
    port.publish([Draft(f"item-{n}", json.dumps("x" * 1000)) for n in range(1000)])
    with subprocess.Popen(
        [*_OUTLAST, "queue", "export", queue], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        assert '"item-0"' in export.stdout.readline()
        export.stdout.close()
        assert export.stderr.read() == ""


def test_ctrl_c_ends_a_publish_with_a_word(queue: str) -> None:
    with subprocess.Popen(
        [*_OUTLAST, "publish", queue, "-", "--format", "txt"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as publisher:
        assert publisher.stdin is not None
        publisher.stdin.write("a\n" * 400_000)  # far more than pipe and buffers hold: rows were looked at
        publisher.stdin.flush()
        publisher.send_signal(signal.SIGINT)
        publisher.wait(timeout=30)
        assert publisher.stderr is not None
        assert "run it again to go on" in publisher.stderr.read()
    assert publisher.returncode == 130


_ON_TERMINAL = {"TERM": "xterm", "COLUMNS": "100"}


def test_publish_shows_a_bar_on_a_terminal(queue: str) -> None:
    words = [*_OUTLAST, "publish", queue, "-", "--format", "txt"]
    primary, secondary = os.openpty()
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=secondary, env={**os.environ, **_ON_TERMINAL}
    ) as publisher:
        os.close(secondary)
        assert publisher.stdin is not None
        publisher.stdin.write(b"a\nb\n")
        publisher.stdin.flush()
        shown = b""
        while b"2 items" not in shown:
            shown += os.read(primary, 1000)
        out, _ = publisher.communicate(b"c\n", timeout=30)
    os.close(primary)
    assert out == b"3 new, 0 already there, 0 rejected\n"
    assert b"publishing" in shown
