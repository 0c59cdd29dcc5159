"""The batch examples end with the same labels however their workers are killed: none lost, none doubled."""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from lives import environment

import outlast

EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGES = 1797
LONGEST_SECONDS = 60
HELD_AT_MOST = 3 * 32  # by one worker: the chunk in progress, and two that are loaded ahead
_FEWER_EPOCHS = ("EPOCHS = 160", "EPOCHS = 12")  # they still reach the accuracy that the example asks of itself
_NO_RETRIES = ("prefetch=2", "prefetch=2, max_errors=0")
_SLOW_CHUNKS = ("    hidden = ", "    __import__('time').sleep(0.05)\n    hidden = ")


def changed_copy(name: str, folder: Path, *changes: tuple[str, str]) -> Path:
    """An example, copied with some text replaced."""
    source = (EXAMPLES / name).read_text()
    for before, after in changes:
        assert before in source
        source = source.replace(before, after, 1)
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(source)
    return path


def start(script: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=script.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """(exit code, what it printed)"""
    try:
        out, _ = process.communicate(timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out


def labels_in(database: Path) -> dict[str, int]:
    """What the sink holds; fails if an id is there twice."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT id, value FROM labels").fetchall()
    assert len({name for name, _ in rows}) == len(rows)
    return {name: json.loads(value) for name, value in rows}


def states_in(database: Path) -> dict[str, int]:
    """How many items there are in each state, by the queue's own count."""
    queue = outlast.Queue(f"sqlite:///{database}")
    try:
        stats = queue.stats()
    finally:
        queue.close()
    return {"ready": stats.ready, "leased": stats.leased, "done": stats.done, "dead": stats.dead}


def leased_again(database: Path) -> int:
    """How many results come from another lease than their item's first."""
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT count(*) FROM labels WHERE claim > 1").fetchone()[0])


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def stored(database: Path) -> int:
    """Rows in the sink, also before there is one."""
    if not database.exists():
        return 0
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM labels").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def end_after(rows: int, database: Path, process: "subprocess.Popen[str]", by: signal.Signals) -> tuple[int, str]:
    """Signals a worker once the sink holds more than so many results."""
    until(lambda: process.poll() is not None or stored(database) > rows, f"never more than {rows} results")
    assert process.poll() is None, finish(process)
    process.send_signal(by)
    return finish(process)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained network, and the labels of an uninterrupted run of classify_digits.py, which trains by itself."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    changed_copy("digits.py", folder, _FEWER_EPOCHS)
    code, out = finish(start(changed_copy("classify_digits.py", folder)))
    assert code == 0, out
    assert "training it first" in out
    assert f"{IMAGES} of {IMAGES} images labelled" in out
    [unseen, everything] = re.findall(r"([\d.]+)% on", out)
    assert float(unseen) >= 97
    assert float(everything) >= 97
    return folder


def by_number(labels: dict[str, int]) -> list[int]:
    """Labels in the order of the images: both examples number them from 0000."""
    return [label for _, label in sorted(labels.items())]


def worker_of_the_command(script: Path) -> "subprocess.Popen[str]":
    """As docs/howto/batch-sqlite.md starts one beside the example."""
    main = [sys.executable, "-c", "from outlast.cli.main import main; main()"]
    work = ["work", "sqlite:///digits.db", "classify_digits:classify", "--sink", "sqlite:///digits.db?table=labels"]
    return subprocess.Popen(
        [*main, *work],
        cwd=script.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def spoil(images: Path) -> int:
    """Adds files that are no images, if there is such a folder. Returns how many."""
    if not images.is_dir():
        return 0
    (images / "9998-text.pgm").write_text("not an image")
    (images / "9999-cut.pgm").write_bytes(b"P5\n8 8\n16\n" + bytes(60))
    return 2


@pytest.mark.parametrize(
    ("script", "changes", "database", "last"),
    [
        ("classify_digits.py", [_SLOW_CHUNKS], "digits.db", worker_of_the_command),
        ("image_files.py", [_SLOW_CHUNKS, _NO_RETRIES], "image-files.db", start),
    ],
)
def test_killed_workers_leave_the_same_labels(
    model: Path,
    tmp_path: Path,
    script: str,
    changes: list[tuple[str, str]],
    database: str,
    last: "Callable[[Path], subprocess.Popen[str]]",
) -> None:
    shutil.copy(model / "digits-model.npz", tmp_path)
    slow = changed_copy(script, tmp_path, *changes)
    results = tmp_path / database

    first = start(slow)
    until(lambda: first.poll() is not None or stored(results) > 0, "the first worker never stored anything")
    second = start(slow)  # two at a time: one dies without a word, one is told to leave
    killed, _ = end_after(400, results, first, signal.SIGKILL)
    told, said = end_after(700, results, second, signal.SIGTERM)
    assert (killed, told) == (-signal.SIGKILL, 143), said
    assert "given back" in said
    between = labels_in(results)
    assert 700 < len(between) < IMAGES

    bad = spoil(tmp_path / "digit-images")  # files that came later, and are none
    code, out = finish(last(slow))
    assert code == 0, out
    labels = labels_in(results)
    assert labels.items() >= between.items()  # what was stored has stayed
    assert by_number(labels) == by_number(labels_in(model / "digits.db"))
    assert leased_again(results) <= 2 * HELD_AT_MOST
    assert states_in(results) == {"ready": 0, "leased": 0, "done": IMAGES, "dead": bad}
