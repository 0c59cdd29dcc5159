"""Workers that are broken in many ways, all at once: nothing is lost, a preemption costs nothing, the code is true."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import outlast
from outlast.items import Result
from outlast.registry import open_queue, open_sink

_VICTIM = Path(__file__).parent / "victims" / "batch_lives.py"
_UNDER_RUN = (sys.executable, "-c", "from outlast.cli.main import main; main()", "run", "--")
_GRACE = 8.0  # a fifth of it is the guard's: enough for a busy machine
_EARLY = _GRACE / 2  # no guard is needed
_COUNT = 4


@dataclass(frozen=True)
class Promise:
    """What a life ends with: its code, how many results, and items by (state, errors, deaths, releases)."""

    code: int
    results: int
    items: dict[tuple[str, int, int, int], int]
    told: bool = True  # by a SIGTERM
    within: float = _GRACE
    says: str = ""
    says_not: str = "Error in sys"
    count: int = _COUNT


_FREE = {("ready", 0, 0, 1): 4}
PROMISES = {
    "leaves_by_handler": Promise(143, 0, _FREE, within=_EARLY),
    "error_in_a_loop": Promise(143, 0, {("ready", 1, 0, 0): 1, ("ready", 0, 0, 1): 3}, within=_EARLY),
    "stuck_at_the_third": Promise(143, 2, {("done", 0, 0, 0): 2, ("ready", 0, 0, 1): 2}, says="2 items stored"),
    "under_outlast_run": Promise(143, 2, {("done", 0, 0, 0): 2, ("ready", 0, 0, 1): 2}, says_not="left running"),
    "load_hangs": Promise(143, 0, _FREE, within=_EARLY),
    "lookup_hangs": Promise(143, 0, _FREE),
    "store_hangs": Promise(143, 0, _FREE),
    "much_is_known": Promise(143, 1_000, {}, within=_EARLY, count=1_000),
    "forked_child_exits": Promise(0, 4, {("done", 0, 0, 0): 4}, told=False),
    "forked_child_returns": Promise(0, 4, {("done", 0, 0, 0): 4}, told=False, says="a forked child"),
    "deletes_the_queue": Promise(75, 0, {}, told=False, says="was deleted or replaced", count=4),
}


@dataclass
class Life:
    folder: Path
    process: "subprocess.Popen[str]"
    count: int

    @property
    def queue(self) -> str:
        return f"sqlite:///{self.folder}/queue.db"

    @property
    def sink(self) -> str:
        return f"sqlite:///{self.folder}/sink.db?table=labels"

    def wait_until_begun(self) -> None:
        until = time.monotonic() + 60
        while not (self.folder / "begun").exists():
            assert time.monotonic() < until, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.01)

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()


def _live(how: str, folder: Path, count: int) -> Life:
    folder.mkdir()
    life = Life(folder, None, count)  # type: ignore[arg-type]  # the process comes below
    names = [f"i{number}" for number in range(count)]
    outlast.Queue(life.queue).publish((name, 1) for name in names)
    if how == "much_is_known":
        sink = open_sink(life.sink)
        sink.prepare()
        sink.store([Result(name, "1", "v1", 1) for name in names])
    with (folder / "said").open("w") as said:
        life.process = subprocess.Popen(
            [
                *(_UNDER_RUN if how == "under_outlast_run" else ()),
                sys.executable,
                str(_VICTIM),
                how,
                life.queue,
                life.sink,
            ],
            cwd=folder,
            env={**os.environ, "OUTLAST_GRACE": f"{_GRACE}s"},
            stdout=said,
            stderr=said,
            text=True,
        )
    return life


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Life, float]]]:
    """All lives, started at once, and how many seconds each took from its SIGTERM on."""
    folder = tmp_path_factory.mktemp("lives")
    started = {how: _live(how, folder / how, promise.count) for how, promise in PROMISES.items()}
    took = {}

    def tell(how: str, life: Life) -> None:
        """A thread for each: its time is its own, however long the others take to begin."""
        if PROMISES[how].told:
            life.wait_until_begun()
            life.process.send_signal(signal.SIGTERM)
        heard = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            life.process.wait(60)
            took[how] = time.monotonic() - heard

    try:
        with ThreadPoolExecutor(len(started)) as pool:
            list(pool.map(tell, started, started.values()))
        yield {how: (life, took.get(how, float("inf"))) for how, life in started.items()}
    finally:
        for life in started.values():
            life.process.kill()
            life.process.wait()


@pytest.mark.serial
@pytest.mark.parametrize("how", PROMISES)
def test_a_broken_worker_keeps_its_promises(how: str, lives: dict[str, tuple[Life, float]]) -> None:
    promise, (life, took) = PROMISES[how], lives[how]
    assert life.process.returncode == promise.code, life.said
    assert promise.says in life.said
    assert promise.says_not not in life.said
    assert not promise.told or took <= promise.within
    if how == "deletes_the_queue":
        assert life.said.count(promise.says) == 1
        return
    values = [one.value for one in open_sink(life.sink).results()]
    assert len(values) == promise.results
    assert '"child"' not in values
    open_queue(life.queue).lease(1, 60, begin=False, max_deaths=3)  # ends what has expired
    found: dict[tuple[object, ...], int] = {}
    for item in outlast.Queue(life.queue).items():
        assert not item.deaths
        state = "ready" if item.state == "leased" else item.state
        kind = (state, item.errors, item.deaths, item.releases)
        found[kind] = found.get(kind, 0) + 1
    assert not promise.items or found == promise.items
