"""Whether interruptions change what a program comes to, found out without outlast: a signal before many of its lines.

The program runs in forked children, traced line by line and without its sleeps; at a line it gets SIGKILL, or SIGTERM
as the first process of a container does (who ignores it unless there is a handler), and so many lines of grace. Then it
is started again until it ends well, and its results are compared with those of the good program.
"""

import atexit
import gc
import json
import mmap
import os
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

RESULTS = {
    "appended_results": ["results.jsonl"], "epochs_batches": ["history.json"], "finally_cleanup": ["value.txt"],
    "generator": ["sums.json"], "json_journal": ["summary.json"], "json_state": ["result.json"],
    "multi_file": ["weights.json"], "numpy_loop": ["weights.npy"], "outlast_epochs": ["history.json"],
    "outlast_numpy": ["weights.npy"], "own_handler": ["numbers.txt"], "pickle_rename": ["position.txt"],
    "shards": ["merged.txt"], "sqlite_state": ["total.txt"],
}  # fmt: skip
_MOST_LINES, _MOST_SECONDS, _RETRIES = 30_000, 20.0, 4
_GRACE = 0.25  # of the program's lines
_NAME = "program.py"


@dataclass
class Found:
    """How often each kind of change was seen: "result", "success" (0 without the work done), "failure" (it does not
    get over it), "deaf" (killed in spite of a notice), "again" (it saves, and begins from the start each time)."""

    usable: bool
    kinds: Counter[str] = field(default_factory=Counter)
    runs: int = 0


@dataclass
class _Ended:
    code: int
    lines: int
    overran: bool


class _Counters:
    """Numbers that a child leaves behind, however it ends."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    def set(self, lines: int, overran: int) -> None:
        self._memory[:16] = struct.pack("<2q", lines, overran)

    def get(self) -> tuple[int, int]:
        lines, overran = struct.unpack("<2q", self._memory[:16])
        return lines, overran


class _Runner:
    """Runs one program in a folder, again and again."""

    def __init__(self, source: str, folder: Path) -> None:
        self._code: CodeType = compile(source, _NAME, "exec")
        self.folder, self._counters, self.runs = folder, _Counters(), 0

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def run(self, attempt: int, at: int = 0, sent: int = 0, grace: int = 0) -> _Ended:
        """One attempt; `sent` is the signal that it gets before its line number `at`."""
        self.runs += 1
        self._counters.set(0, 0)
        child = os.fork()
        if child == 0:
            self._become(attempt, at, sent, grace)
        until = time.monotonic() + _MOST_SECONDS
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.0005)
        _, status = os.waitpid(child, 0)
        lines, overran = self._counters.get()
        return _Ended(os.waitstatus_to_exitcode(status), lines, bool(overran))

    def _become(self, attempt: int, at: int, sent: int, grace: int) -> None:
        os.setsid()
        os.chdir(self.folder)
        os.environ["CLOUD_RUN_TASK_ATTEMPT"] = str(attempt)
        os.environ["CLOUD_RUN_JOB"], os.environ["CLOUD_RUN_EXECUTION"] = "oracle", "oracle-1"
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep = lambda _seconds: None
        count = 0

        def look(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != _NAME:
                return None
            if event == "line":
                count += 1
                late = bool(sent == signal.SIGTERM and count > at + grace)
                self._counters.set(count, late)
                if late or count > _MOST_LINES:
                    os.kill(os.getpid(), signal.SIGKILL)
                if count == at:
                    os.kill(os.getpid(), sent)
            return look

        code = 1
        names = {"__name__": "__main__", "__file__": _NAME}
        try:
            sys.settrace(look)
            exec(self._code, names)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:  # noqa: BLE001 - as the interpreter does at the top
            traceback.print_exc()
        sys.settrace(None)
        threading._shutdown()
        atexit._run_exitfuncs()
        names.clear()
        gc.collect()
        os._exit(code & 0xFF)


@contextmanager
def _folder() -> Iterator[str]:
    """Not TemporaryDirectory: the forked children would remove it as they end."""
    name = tempfile.mkdtemp(prefix="outlast-oracle-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


def examine(base: str, source: str, good: dict[str, bytes] | None, *, few: bool = False) -> Found:
    """What interruptions do to a program; not usable when it does not come to the good results in peace."""
    with _folder() as name:
        runner = _Runner(source, Path(name) / "work")
        runner.fresh()
        whole = runner.run(0)
        results = read_results(base, runner.folder)
        if whole.code != 0 or None in results.values() or (good is not None and results != good):
            return Found(usable=False)
        # What saves nothing begins again, too, and says so; it is no change of the outcome.
        saves = sum(path.is_file() and path.stat().st_size > 0 for path in runner.folder.rglob("*")) > len(results)
        found = Found(usable=True)
        again = []
        for at, sent in _points(whole.lines, few=few):
            kind, lines = _interrupt(runner, base, results, whole.lines, at, sent)
            if kind is not None:
                found.kinds[kind] += 1
            elif 0.6 * whole.lines < at < 0.9 * whole.lines:
                again.append(lines >= 0.97 * whole.lines)
            if sum(found.kinds.values()) >= 6:
                break
        if again and all(again) and saves:
            found.kinds["again"] += len(again)
        found.runs = runner.runs
        return found


def _points(lines: int, *, few: bool) -> list[tuple[int, int]]:
    """Spread over the life, every line of a stretch in the middle, and the last ones."""
    spread = range(4, lines, max(1, lines // (5 if few else 12)))
    middle = range(int(lines * 0.45), min(lines, int(lines * 0.45) + (3 if few else 24)))
    last = range(max(1, lines - (2 if few else 6)), lines + 1)
    places = sorted({*spread, *middle, *last})
    return [(at, sent) for at in places for sent in (signal.SIGKILL, signal.SIGTERM)]


def _interrupt(
    runner: _Runner, base: str, results: dict[str, bytes | None], lines: int, at: int, sent: int
) -> tuple[str | None, int]:
    """The kind of change that one interruption makes, and the lines of the attempt that ended well."""
    runner.fresh()
    ended = runner.run(0, at, sent, int(_GRACE * lines))
    if ended.overran and 0.1 * lines < at < 0.6 * lines:
        return "deaf", 0
    if ended.code == 0:
        return (None if read_results(base, runner.folder) == results else "success"), ended.lines
    for attempt in range(1, _RETRIES):
        ended = runner.run(attempt)
        if ended.code == 0:
            return (None if read_results(base, runner.folder) == results else "result"), ended.lines
    return "failure", 0


def read_results(base: str, folder: Path) -> dict[str, bytes | None]:
    return {name: (folder / name).read_bytes() if (folder / name).exists() else None for name in RESULTS[base]}


def good_results(base: str, source: str) -> dict[str, bytes | None]:
    """What the good program comes to."""
    with _folder() as name:
        runner = _Runner(source, Path(name) / "work")
        runner.fresh()
        assert runner.run(0).code == 0
        return read_results(base, runner.folder)


def main() -> None:
    """Examines each program that a line of standard input tells of, [base, source, good source], and prints what it
    found: whether it is usable, and the kinds of change."""
    known: dict[str, dict[str, bytes | None]] = {}
    for line in sys.stdin:
        base, source, good = json.loads(line)
        if base not in known:
            known[base] = good_results(base, good)
        found = examine(base, source, known[base], few=base.startswith("outlast"))
        print(json.dumps({"usable": found.usable, "kinds": dict(found.kinds), "runs": found.runs}), flush=True)


if __name__ == "__main__":
    main()
